/*!
 * \file board/conv_i8_driver.h
 * \brief Driver for dense 2-D convolution and matrix multiplication of 8-bit tensors on
 * microcontrollers; a tile supplies the micro-kernel.
 *
 * Memory is channels-last with one stride between neighbouring pixels, over all rows and images. A
 * matrix product is a 1 x 1 convolution whose pixels are the rows. The windows of two neighbouring
 * output pixels are copied into scratch (im2col) in the tile's layout. They are multiplied with the
 * weights of two output channels at a time. The output is written after the windows have been
 * copied, so y may be x where a window is its own output pixel: 1 x 1, stride 1, no padding.
 *
 * A window is [kernel row][kernel column][input channel], with zeros to a multiple of the tile's
 * unit. Two copied windows alternate, group by group.
 *
 * The header of a tile makes the following definitions, then includes this file:
 *
 *     tvmrt_micro_element          of a copied window
 *     TVMRT_MICRO_GROUP            elements of a group
 *     TVMRT_MICRO_UNIT             the length of a window is a multiple of this
 *     tvmrt_micro_copy_groups()    copies n elements, whole groups, of a window into groups with a
 *                                  stride of `step` elements; returns the next address
 *     TVMRT_MICRO_ZERO_BYTE        optional: value of uint8 bytes past the end of a window that
 *                                  becomes 0; default 0x80. int8 bytes are 0
 *     tvmrt_micro_conv_accumulate()  accumulates some channels of one or two neighbouring output
 *                                  pixels, [pixel][TVMRT_MICRO_CHUNK], or of three,
 *                                  [pixel][TVMRT_MICRO_3PX_CHUNK]; `tile` comes from
 *                                  tvmrt_micro_conv_i8_run(), for headers with several tiles
 *     tvmrt_micro_packed_at()      the position of a weight, for board/matmul_i8.h
 *     TVMRT_MICRO_DIRECT()         optional: computes two or three pixels at y; returns whether it
 *                                  could
 *     TVMRT_MICRO_THREE()          optional: whether three of the remaining pixels are computed
 *                                  together; with TVMRT_MICRO_IM2COL_3PX(), which copies their
 *                                  windows
 *     TVMRT_MICRO_WINDOW_VALUE()   optional: decodes an element of a copied window
 *
 * Generated code may define TVMRT_MICRO_CHECKSUM, the name of a uint32_t variable. The sums of all
 * channels of a layer of one pixel are added to it, modulo 2 ^ 32.
 *
 * A tile that copies windows with board/im2col_i8_2px.h includes that file first.
 *
 * Without a tile, this file is empty.
 */
#if defined(TVMRT_MICRO_UNIT) && !defined(TVM_RUNTIME_KERNELS_BOARD_CONV_I8_DRIVER_H_)
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I8_DRIVER_H_

#include "im2col_i8.h"

#ifndef TVMRT_MICRO_IM2COL_2PX
#define TVMRT_MICRO_IM2COL_2PX 0
#endif

#if !TVMRT_MICRO_IM2COL_2PX
/*!
 * \brief Copy the window of an output pixel in the tile's layout.
 *
 * \param to      [out] Its first group, aligned to 8 bytes.
 * \param step    [in] Elements from one of its groups to the next.
 * \param bytes   [out] Scratch for the window as bytes.
 */
TVMRT_NOINLINE void tvmrt_micro_im2col(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                       int32_t pixel, tvmrt_micro_element* to, int32_t step,
                                       uint8_t* bytes) {
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_windows* const win = &s->layout.windows;
  const int32_t is_signed = c->x_signed;
  const tvmrt_micro_position at = tvmrt_micro_locate(s, pixel);
  const int32_t run = (int32_t)win->columns * s->in_c;
  if (at.inside) {
    const uint8_t* from = x + at.image + (at.top * s->in[1] + at.left) * s->x_stride;
    const int32_t row = (int32_t)s->dilation[0] * s->in[1] * s->x_stride;
    const int whole = run * s->kernel[0] == win->length && run % TVMRT_MICRO_GROUP == 0;
    uint8_t* end = bytes;
    if (!whole) tvmrt_micro_end_window(c, bytes + win->length);
    for (int32_t kh = 0; kh < s->kernel[0]; kh++, from += row) {
      if (whole) {
        to = tvmrt_micro_copy_groups(to, step, from, run, is_signed);
      } else {
        tvmrt_micro_copy_run(end, from, run);
        end += run;
      }
    }
    if (whole) return;
  } else {
    tvmrt_micro_copy_window(c, x, &at, bytes);
  }
  tvmrt_micro_copy_groups(to, step, bytes, win->length, is_signed);
}
#endif

#ifndef TVMRT_MICRO_DIRECT
#define TVMRT_MICRO_DIRECT(c, data, window, pixels, tile, y) 0
#endif
#ifndef TVMRT_MICRO_THREE
#define TVMRT_MICRO_THREE(c, data, tile, pixel, left, points) 0
#define TVMRT_MICRO_IM2COL_3PX(c, data, pixel, window, points)
#define TVMRT_MICRO_3PX_CHUNK TVMRT_MICRO_CHUNK
#endif
#ifndef TVMRT_MICRO_WINDOW_VALUE
#define TVMRT_MICRO_WINDOW_VALUE(at, pixels) (*(at))
#endif

/*! \brief The sum of the elements of one of the copied windows. */
static inline int32_t tvmrt_micro_window_sum(const tvmrt_micro_element* window, int pixels,
                                             int32_t n) {
  int32_t sum = 0;
  for (int32_t i = 0; i < n; i++) {
    sum += TVMRT_MICRO_WINDOW_VALUE(window + i, pixels);
    if ((i + 1) % TVMRT_MICRO_GROUP == 0) window += (pixels - 1) * TVMRT_MICRO_GROUP;
  }
  return sum;
}

/*! \brief Compensate shifted weights: adds shift[channel] times the sum of the window. */
static inline void tvmrt_micro_add_shifts(int32_t* sums, const tvmrt_micro_element* window,
                                          const int32_t* shift, int32_t n, int32_t pixels,
                                          int32_t channels) {
  for (int32_t p = 0; p < pixels; p++, sums += TVMRT_MICRO_CHUNK) {
    const int32_t sum = tvmrt_micro_window_sum(window + p * TVMRT_MICRO_GROUP, pixels, n);
    for (int32_t i = 0; i < channels; i++) {
      sums[i] = TVMRT_WRAP_ADD(sums[i], TVMRT_WRAP_MULTIPLY(shift[i], sum));
    }
  }
}

#ifdef TVMRT_MICRO_CHECKSUM
extern uint32_t TVMRT_MICRO_CHECKSUM;

/*! \brief Add sums of channels to the checksum. */
static inline void tvmrt_micro_add_to_checksum(const int32_t* sums, int32_t channels) {
  uint32_t total = TVMRT_MICRO_CHECKSUM;
#if TVMRT_MICRO_CAN_MVE
  for (; channels >= 16; channels -= 16, sums += 16) {
    const int32x4_t low = vaddq_s32(vldrwq_s32(sums), vldrwq_s32(sums + 4));
    const int32x4_t high = vaddq_s32(vldrwq_s32(sums + 8), vldrwq_s32(sums + 12));
    total = (uint32_t)vaddvaq_s32((int32_t)total, vaddq_s32(low, high));
  }
#else
  for (; channels >= 4; channels -= 4, sums += 4) {
    total += (uint32_t)sums[0] + (uint32_t)sums[1] + (uint32_t)sums[2] + (uint32_t)sums[3];
  }
#endif
  for (; channels > 0; channels--) total += (uint32_t)*sums++;
  TVMRT_MICRO_CHECKSUM = total;
}
#endif

/*! \brief Kind of the windows: any, pixels of the input, or a single pixel. */
typedef enum tvmrt_micro_window_kind {
  TVMRT_MICRO_ANY_WINDOW,
  TVMRT_MICRO_POINTWISE,
  TVMRT_MICRO_ONE_PIXEL
} tvmrt_micro_window_kind;

/*! \brief All channels of one, two or three neighbouring output pixels. */
TVMRT_INLINE void tvmrt_micro_conv_pixels(const tvmrt_micro_conv_i8* c,
                                          const tvmrt_micro_data* data, tvmrt_micro_element* window,
                                          int32_t pixel, int32_t pixels, int tile,
                                          tvmrt_micro_window_kind kind) {
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_windows* const win = &s->layout.windows;
  int32_t sums[TVMRT_MICRO_ACCUMULATORS];
  const int32_t n = win->length;
  uint8_t* const bytes = (uint8_t*)(window + (win->pixels > 1 ? 2 : 1) * n);
#if TVMRT_MICRO_IM2COL_2PX
  const int both = pixels >= 2;
  if (both) {
    if (pixels == 3) {
      TVMRT_MICRO_IM2COL_3PX(c, data, pixel, window, kind != TVMRT_MICRO_ANY_WINDOW);
    } else {
      tvmrt_micro_im2col_2px(c, data, pixel, window, kind != TVMRT_MICRO_ANY_WINDOW);
    }
  }
#else
  const int both = 0;
#endif
  for (int32_t p = 0; p < pixels && !both; p++) {
    tvmrt_micro_element* const to = window + p * TVMRT_MICRO_GROUP;
    const int32_t step = pixels * TVMRT_MICRO_GROUP;
    if (kind != TVMRT_MICRO_ANY_WINDOW) {
      tvmrt_micro_im2col_pointwise(c, data, pixel + p, to, step, bytes);
    } else {
      tvmrt_micro_im2col(c, (const uint8_t*)data->x, pixel + p, to, step, bytes);
    }
  }
  if (pixels >= 2 &&
      TVMRT_MICRO_DIRECT(c, data, window, pixels, tile, (uint8_t*)data->y + pixel * s->y_stride)) {
    return;
  }
  int32_t stride = TVMRT_MICRO_CHUNK;
  if (pixels == 3) stride = TVMRT_MICRO_3PX_CHUNK;
  for (int32_t channel = 0; channel < s->out_c; channel += stride) {
    const int32_t left = s->out_c - channel;
    const int32_t channels = left < stride ? left : stride;
    tvmrt_micro_conv_accumulate(c, data, sums, window, pixels, channel, channels, tile);
    if (data->shift != NULL) {
      tvmrt_micro_add_shifts(sums, window, data->shift + channel, n, pixels, channels);
    }
#ifdef TVMRT_MICRO_CHECKSUM
    if (win->pixels == 1) tvmrt_micro_add_to_checksum(sums, channels);
#endif
    tvmrt_micro_finish(c, data, sums, stride, pixel, pixels, channel, channels);
  }
}

/*!
 * \brief y = convolution of x.
 *
 * \param c    [in] Shape.
 * \param data [in] The tensors. y may be x only in the case that the head of this file names.
 * \param tile [in] Which tile of the header, 0 if it has one.
 * \param kind [in] Kind of all windows. A constant, like tile: other code is linked only if a layer
 * needs it.
 *
 * Values:  exact int32 sums (they must fit), times float scales, rounded to the nearest integer,
 * ties to even; or as the epilogue computes.
 * Errors:  0, or -1 if scratch runs out.
 * Threads: on the calling thread alone.
 */
TVMRT_NOINLINE int tvmrt_micro_conv_i8_run(const tvmrt_micro_conv_i8* c,
                                           const tvmrt_micro_data* data, int tile,
                                           tvmrt_micro_window_kind kind) {
  const tvmrt_micro_windows* const win = &c->shape.layout.windows;
  uint64_t few[TVMRT_MICRO_STACK_WINDOWS / 8];
  void *scratch = NULL, *window = few;
  const int points = kind != TVMRT_MICRO_ANY_WINDOW;
  (void)points;
  if (c->shape.scratch > 0) {
    scratch = window = tvmrt_scratch_alloc(c->shape.scratch);
    if (scratch == NULL) return -1;
  }
  for (int32_t pixel = 0, pixels; pixel < win->pixels; pixel += pixels) {
    const int32_t left = kind == TVMRT_MICRO_ONE_PIXEL ? 1 : win->pixels - pixel;
    pixels = left < 2 ? left : TVMRT_MICRO_THREE(c, data, tile, pixel, left, points) ? 3 : 2;
    tvmrt_micro_conv_pixels(c, data, (tvmrt_micro_element*)window, pixel, pixels, tile, kind);
  }
  return tvmrt_scratch_free(scratch);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I8_DRIVER_H_ */
