/*!
 * \file board/im2col_i8_2px.h
 * \brief Copy the windows of two or three neighbouring output pixels together, for tiles of dense
 * layers.
 *
 * If pixels are whole groups and there is no padding, rows of the windows are converted to groups
 * directly. Otherwise all are first copied as bytes, one after the other, to where no group is
 * written before its bytes are read: groups are made from the first element on.
 *
 * In addition to the requirements of board/conv_i8_driver.h, a tile that includes this file defines
 * tvmrt_micro_widen_windows(), which copies groups of so many windows, as its kernels read them. Its
 * tvmrt_micro_copy_groups() is called for a single window, whose groups are contiguous.
 *
 * Without a tile, this file is empty.
 */
#if defined(TVMRT_MICRO_UNIT) && !defined(TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_2PX_H_)
#define TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_2PX_H_

#include "im2col_i8.h"

#define TVMRT_MICRO_IM2COL_2PX 1

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

/*! \brief Where the bytes of so many windows start, in the memory of their groups. */
TVMRT_INLINE uint8_t* tvmrt_micro_window_bytes(const tvmrt_micro_conv_i8* c,
                                               tvmrt_micro_element* to, int pixels) {
  return (uint8_t*)to + (2 * pixels - 1) * c->shape.layout.windows.length;
}

/*! \brief Copy the windows of a pixel of a pointwise layer and of the next ones. */
TVMRT_NOINLINE void tvmrt_micro_im2col_2px_pointwise(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                                     int32_t pixel, tvmrt_micro_element* to,
                                                     int pixels) {
  const int32_t n = c->shape.layout.windows.length;
  int32_t second = c->shape.x_stride;
  const uint8_t* from = x + pixel * second;
  if (n != c->shape.in_c) {
    uint8_t* const bytes = tvmrt_micro_window_bytes(c, to, pixels);
    for (int p = 0; p < pixels; p++) tvmrt_micro_copy_pixel(c, from + p * second, bytes + p * n);
    from = bytes;
    second = n;
  }
  tvmrt_micro_widen_windows(to, from, second, n / TVMRT_MICRO_GROUP, c->x_signed, pixels);
}

/*! \brief Copy the windows of an output pixel and the next ones if they are in one row without
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
  uint8_t* const bytes = tvmrt_micro_window_bytes(c, to, pixels);
  uint8_t* end = bytes;
  const int whole = run * s->kernel[0] == n && run % TVMRT_MICRO_GROUP == 0;
  for (int p = 1; p <= pixels && !whole; p++) tvmrt_micro_end_window(c, bytes + p * n);
  for (int32_t kh = s->kernel[0]; kh > 0; kh--, from += row * s->dilation[0]) {
    if (whole) {
      const int32_t groups = run / TVMRT_MICRO_GROUP;
      to = tvmrt_micro_widen_windows(to, from, second, groups, c->x_signed, pixels);
      continue;
    }
    for (int p = 0; p < pixels; p++) tvmrt_micro_copy_run(end + p * n, from + p * second, run);
    end += run;
  }
  if (!whole) {
    tvmrt_micro_widen_windows(to, bytes, n, n / TVMRT_MICRO_GROUP, c->x_signed, pixels);
  }
  return 1;
}

/*! \brief Copy the windows of an output pixel and the next ones, alternating groups of each. */
TVMRT_INLINE void tvmrt_micro_im2col_2px(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                         int32_t pixel, tvmrt_micro_element* to, int points,
                                         int pixels) {
  const int32_t n = c->shape.layout.windows.length;
  if (points) {
    tvmrt_micro_im2col_2px_pointwise(c, x, pixel, to, pixels);
  } else if (!tvmrt_micro_im2col_2px_inside(c, x, pixel, to, pixels)) {
    uint8_t* const bytes = tvmrt_micro_window_bytes(c, to, pixels);
    for (int p = 0; p < pixels; p++) tvmrt_micro_im2col_bytes(c, x, pixel + p, bytes + p * n);
    tvmrt_micro_widen_windows(to, bytes, n, n / TVMRT_MICRO_GROUP, c->x_signed, pixels);
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_2PX_H_ */
