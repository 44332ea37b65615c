/*!
 * \file row_pairs_i8.h
 * \brief Windows of a vertical stride of 2 over images of few channels, as tiles of matrices read
 * them: two rows at a time, of which the pixels lie side by side.
 *
 * A product of matrices takes as long with 24 bytes of a pixel as with 64, so that a window of 7 x 7
 * over three channels takes 4 of 42 bytes instead of 7 of 21. Windows begin every other row: a pair of
 * rows, which is copied into the ring once, is the same one for all of them. Example: padding 3, pairs
 * are the rows {-3, -2}, {-1, 0}, {1, 2}; output row o has the pairs o to o + 3, and to the second row
 * of the last, which no window has, belong weights of 0.
 */
#ifndef TVM_RUNTIME_KERNELS_ROW_PAIRS_I8_H_
#define TVM_RUNTIME_KERNELS_ROW_PAIRS_I8_H_

#include "tile/pairs_i8.h"
#include "window.h"

/* Row h of an image, or one of padding. */
static inline const uint8_t* tvmrt_row_or_none(const tvmrt_row_reader* r, const uint8_t* none,
                                               int32_t image, int32_t h) {
  return h < 0 || h >= r->window->in[1] ? none : tvmrt_input_row(r, image, 0, h);
}

/*!
 * \brief Where the pairs of rows under the windows of an output row begin, from its padding on.
 *
 * \param none    [in] A row of padding.
 * \param at      [in] The row's place.
 * \param segment [out] As many as the ring has rows.
 */
static inline void tvmrt_row_pairs(const tvmrt_row_reader* r, const uint8_t* none, tvmrt_place at,
                                   const uint8_t** segment) {
  const tvmrt_rows* rows = r->rows;
  const int32_t pairs = rows->slots[1], first = (at.h + r->window->pad[1]) / 2;
  for (int32_t s = 0; s < pairs; s++) {
    const int32_t slot = (first + s) % pairs, h = at.h + 2 * s;
    const int32_t number = at.image * (r->window->out[1] + pairs) + first + s;
    uint8_t* to = r->ring + (int64_t)slot * rows->pitch;
    segment[s] = to;
    if (r->held[slot] == number) continue;
    r->held[slot] = number;
    tvmrt_pair_rows(to + rows->left * rows->copied, tvmrt_row_or_none(r, none, at.image, h),
                    tvmrt_row_or_none(r, none, at.image, h + 1), rows->columns, rows->copied / 2);
  }
}

#endif /* TVM_RUNTIME_KERNELS_ROW_PAIRS_I8_H_ */
