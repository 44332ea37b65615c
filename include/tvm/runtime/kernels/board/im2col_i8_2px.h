/*!
 * \file board/im2col_i8_2px.h
 * \brief Copy the windows of two neighbouring output pixels together, for tiles of dense layers.
 *
 * If pixels are whole groups and there is no padding, rows of both windows are converted to groups
 * directly. Otherwise both are first copied as bytes: the first one to the final position of the
 * last groups, the second one after it, because groups are made from the first element on.
 *
 * In addition to the requirements of board/conv_i8_driver.h, a tile that includes this file defines
 * tvmrt_micro_widen_two(), which copies groups of two windows alternately. Its
 * tvmrt_micro_copy_groups() is called for a single window, whose groups are contiguous. A tile of
 * three pixels defines TVMRT_MICRO_WIDEN_WINDOWS() for two or three windows; here it copies those
 * that need no bytes.
 *
 * Without a tile, this file is empty.
 */
#if defined(TVMRT_MICRO_UNIT) && !defined(TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_2PX_H_)
#define TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_2PX_H_

#include "im2col_i8.h"

#define TVMRT_MICRO_IM2COL_2PX 1

#ifndef TVMRT_MICRO_WIDEN_WINDOWS
#define TVMRT_MICRO_WIDEN_WINDOWS(to, from, second, n, is_signed, pixels) \
  ((void)(pixels), tvmrt_micro_widen_two(to, from, second, n, is_signed))
#endif

/*! \brief tvmrt_micro_locate(), compiled once per file. */
TVMRT_NOINLINE tvmrt_micro_position tvmrt_micro_find_window(const tvmrt_micro_shape* s,
                                                            int32_t pixel) {
  return tvmrt_micro_locate(s, pixel);
}

/*! \brief Copy the window of an output pixel as bytes. */
TVMRT_NOINLINE void tvmrt_micro_im2col_bytes(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                             int32_t pixel, uint8_t* to) {
  const tvmrt_micro_position at = tvmrt_micro_find_window(&c->shape, pixel);
  tvmrt_micro_copy_window(c, x, &at, to);
}

/*! \brief Copy the window of an output pixel; `step` is that of contiguous groups, `bytes`
 * scratch. */
TVMRT_NOINLINE void tvmrt_micro_im2col(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                       int32_t pixel, tvmrt_micro_element* to, int32_t step,
                                       uint8_t* bytes) {
  tvmrt_micro_im2col_bytes(c, x, pixel, bytes);
  tvmrt_micro_copy_groups(to, step, bytes, c->shape.layout.windows.length, c->x_signed);
}

/*! \brief Copy the windows of a pixel of a pointwise layer and of the next one or two. */
TVMRT_NOINLINE void tvmrt_micro_im2col_2px_pointwise(const tvmrt_micro_conv_i8* c,
                                                     const tvmrt_micro_data* data, int32_t pixel,
                                                     tvmrt_micro_element* to, int pixels) {
  const int32_t n = c->shape.layout.windows.length;
  int32_t second = c->shape.x_stride;
  const uint8_t* from = (const uint8_t*)data->x + pixel * second;
  if (!tvmrt_micro_reads_pixels(c, data, pixel, pixels)) { /* two pixels */
    uint8_t* const bytes = (uint8_t*)(to + 2 * n);
    tvmrt_micro_copy_pixel(c, from, bytes - n);
    tvmrt_micro_copy_pixel(c, from + second, bytes);
    from = bytes - n;
    second = n;
  }
  TVMRT_MICRO_WIDEN_WINDOWS(to, from, second, n / TVMRT_MICRO_GROUP, c->x_signed, pixels);
}

/*! \brief Copy the windows of an output pixel and the next one or two if they are in one row without
 * padding; return whether they are. */
TVMRT_NOINLINE int tvmrt_micro_im2col_2px_inside(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                                 int32_t pixel, tvmrt_micro_element* to,
                                                 int pixels) {
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_windows* const win = &s->layout.windows;
  const tvmrt_micro_position at = tvmrt_micro_find_window(s, pixel);
  const int32_t last = at.left + (pixels - 1) * s->stride[1], row = s->in[1] * s->x_stride;
  if (!at.inside || last + win->columns > s->in[1] ||
      last + s->pad[1] >= (int32_t)s->out[1] * s->stride[1]) {
    return 0;
  }
  const int32_t n = win->length, run = (int32_t)win->columns * s->in_c;
  const int32_t second = s->stride[1] * s->x_stride;
  const uint8_t* from = x + at.image + at.top * row + at.left * s->x_stride;
  uint8_t* bytes = (uint8_t*)(to + 2 * n);
  const int whole = run * s->kernel[0] == n && run % TVMRT_MICRO_GROUP == 0;
  uint8_t* const second_bytes = bytes;
  if (!whole) {
    tvmrt_micro_end_window(c, bytes);
    tvmrt_micro_end_window(c, bytes + n);
  }
  for (int32_t kh = s->kernel[0]; kh > 0; kh--, from += row * s->dilation[0]) {
    if (whole) {
      const int32_t groups = run / TVMRT_MICRO_GROUP;
      to = TVMRT_MICRO_WIDEN_WINDOWS(to, from, second, groups, c->x_signed, pixels);
    } else {
      tvmrt_micro_copy_run(bytes - n, from, run);
      tvmrt_micro_copy_run(bytes, from + second, run);
      bytes += run;
    }
  }
  if (whole) return 1;
  tvmrt_micro_widen_two(to, second_bytes - n, n, n / TVMRT_MICRO_GROUP, c->x_signed);
  return 1;
}

/*! \brief Copy the windows of an output pixel and the next one, alternating groups of each. */
TVMRT_INLINE void tvmrt_micro_im2col_2px(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                         int32_t pixel, tvmrt_micro_element* to, int points) {
  const int32_t n = c->shape.layout.windows.length;
  const uint8_t* const x = (const uint8_t*)data->x;
  uint8_t* const bytes = (uint8_t*)(to + 2 * n);
  if (points) {
    tvmrt_micro_im2col_2px_pointwise(c, data, pixel, to, 2);
  } else if (!tvmrt_micro_im2col_2px_inside(c, x, pixel, to, 2)) {
    tvmrt_micro_im2col_bytes(c, x, pixel, bytes - n);
    tvmrt_micro_im2col_bytes(c, x, pixel + 1, bytes);
    tvmrt_micro_widen_two(to, bytes - n, n, n / TVMRT_MICRO_GROUP, c->x_signed);
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_2PX_H_ */
