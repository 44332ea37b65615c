/*!
 * \file conv_i8_amx.h
 * \brief What AMX tiles need of a layer, in addition to conv_i8.h.
 *
 * Windows with a vertical stride of 2 over images of few channels are read in pairs of rows whose
 * pixels are interleaved: an AMX instruction takes as long with 24 bytes of a pixel as with 64. A
 * window of 7 x 7 over three channels takes 4 segments of 42 bytes instead of 7 of 21. Windows begin
 * at every other row, so a pair of rows, copied into the line buffer once, serves all of them.
 * Example: padding 3,
 * pairs are the rows {-3, -2}, {-1, 0}, {1, 2}; output row o uses the pairs o to o + 3. The second
 * row of the last pair is outside the window and has zero weights.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_I8_AMX_H_
#define TVM_RUNTIME_KERNELS_CONV_I8_AMX_H_

#include "tile/gemm_i8.h"
#include "tile/interleave_rows_i8.h"
#include "window.h"

/*! \brief How AMX tiles compute a layer. */
typedef struct tvmrt_conv_i8_amx {
  int32_t im2col_across_rows; /*!< 1: im2col across rows, so that all pixels form one row. */
  int32_t prefetch_bytes; /*!< Prefetch distance of weights, into the next layers too; 0: none. */
  int32_t padded_pitch;   /*!< Row pitch in pixels of a padded image copy (one row); else 0. */
  int32_t row_pairs;      /*!< 1: rows are read in pairs. */
  int32_t words;          /*!< Quads per instruction. */
  const struct tvmrt_fused_add_i8* fused_add; /*!< See tile/requantize_i8_amx.h; may be NULL. */
  void (*end)(void); /*!< Release the tile registers at the end of a task. */
} tvmrt_conv_i8_amx;

/* Set up the state of a task; `pixels` of a row of output. */
static inline void tvmrt_conv_i8_begin_amx(tvmrt_tile_i8_amx* state, const tvmrt_conv_i8_amx* amx,
                                           int32_t pixels) {
  memset(state, 0, sizeof(*state));
  state->words = amx->words;
  state->padded_pitch = amx->padded_pitch;
  state->valid = pixels;
  state->image = -1;
  state->fused_add = amx->fused_add;
}

/* Row h of an image, or the row of padding. */
static inline const uint8_t* tvmrt_row_or_padding(const tvmrt_row_reader* r, const uint8_t* none,
                                                  int32_t image, int32_t h) {
  return h < 0 || h >= r->window->in[1] ? none : tvmrt_input_row(r, image, 0, h);
}

/*!
 * \brief Set the pointers to the pairs of rows under the windows of an output row, with padding.
 *
 * \param none    [in] A row of padding.
 * \param at      [in] The row's coordinates.
 * \param segment [out] One per row of the line buffer.
 */
static inline void tvmrt_read_row_pairs(const tvmrt_row_reader* r, const uint8_t* none,
                                        tvmrt_row_position at, const uint8_t** segment) {
  const tvmrt_row_plan* rows = r->rows;
  const int32_t pairs = rows->slots[1], first = (at.h + r->window->pad[1]) / 2;
  for (int32_t s = 0; s < pairs; s++) {
    const int32_t slot = (first + s) % pairs, h = at.h + 2 * s;
    const int32_t number = at.image * (r->window->out[1] + pairs) + first + s;
    uint8_t* to = r->line_buffer + (int64_t)slot * rows->pitch;
    segment[s] = to;
    if (r->row_numbers[slot] == number) continue;
    r->row_numbers[slot] = number;
    tvmrt_interleave_rows(
        to + rows->left * rows->copied, tvmrt_row_or_padding(r, none, at.image, h),
        tvmrt_row_or_padding(r, none, at.image, h + 1), rows->columns, rows->copied / 2);
  }
}

#endif /* TVM_RUNTIME_KERNELS_CONV_I8_AMX_H_ */
