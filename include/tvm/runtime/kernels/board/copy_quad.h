/*!
 * \file board/copy_quad.h
 * \brief Copies of rows of int8, uint8 or int16 to line buffers of int16.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_COPY_QUAD_H_
#define TVM_RUNTIME_KERNELS_BOARD_COPY_QUAD_H_

#include "partial_rows.h"

/*! \brief Columns of four channels in a line buffer of int16. */
typedef struct tvmrt_micro_quad_layout {
  int32_t step;          /*!< Elements from one pixel to the next. */
  int32_t second, third; /*!< From the first channel to these; the fourth is at their sum. */
} tvmrt_micro_quad_layout;

/*! \brief Implementation of tvmrt_micro_copy_quad() for a type. */
TVMRT_INLINE void tvmrt_micro_copy_some(int16_t* to, tvmrt_micro_quad_layout at,
                                        tvmrt_micro_source from, int32_t n, int32_t channels,
                                        int type) {
  const int32_t b = channels > 1, c = channels > 2 ? 2 : 0, d = channels > 3 ? 3 : 0;
  for (; n > 0; n--, to += at.step, from.x += from.pixel) {
    to[0] = tvmrt_micro_activation(from.x, 0, type);
    to[at.second] = tvmrt_micro_activation(from.x, b, type);
    to[at.third] = tvmrt_micro_activation(from.x, c, type);
    to[at.second + at.third] = tvmrt_micro_activation(from.x, d, type);
  }
}

/*! \brief Copy n pixels of a row, with four channels or fewer, whose places past them may have
 * any value. */
TVMRT_NOINLINE void tvmrt_micro_copy_quad(const tvmrt_micro_conv_i8* c, int16_t* to,
                                          tvmrt_micro_quad_layout at, tvmrt_micro_source from,
                                          int32_t n, int32_t channels) {
#if TVMRT_MICRO_INT16
  if (TVMRT_MICRO_IS_INT16(c)) {
    tvmrt_micro_copy_some(to, at, from, n, channels, TVMRT_MICRO_X_INT16);
    return;
  }
#endif
  if (c->x_signed) {
    tvmrt_micro_copy_some(to, at, from, n, channels, 1);
  } else {
    tvmrt_micro_copy_some(to, at, from, n, channels, 0);
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_COPY_QUAD_H_ */
