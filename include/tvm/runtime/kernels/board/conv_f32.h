/*!
 * \file board/conv_f32.h
 * \brief Dense 2-D convolution and matrix multiplication in float32 on microcontrollers.
 *
 * The windows of four neighbouring output pixels are copied into scratch, interleaved element by
 * element. They are multiplied with the weights of four output channels at a time. Remaining pixels
 * are computed one by one. y may be x for pointwise layers: the windows are copied first.
 *
 * Packed weights: [four output channels][element of the window][channel], where a window is [kernel
 * row][kernel column][input channel].
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_F32_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_F32_H_

#include "common_f32.h"

/*! \brief Maximum bytes of windows on the stack; longer ones are in scratch. */
#define TVMRT_MICRO_F32_STACK_WINDOWS 128

/*! \brief Copy n elements with a stride of `step` in `to`; return the next address. */
TVMRT_INLINE float* tvmrt_micro_copy_strided_f32(float* to, int32_t step, const float* from,
                                                 int32_t n) {
  for (; n > 0; n--, to += step) *to = *from++;
  return to;
}

/*! \brief Like tvmrt_micro_copy_strided_f32(), zeros for NULL; step is 1 or the tile's pixels. */
static inline float* tvmrt_micro_copy_or_zero_f32(float* to, int32_t step, const float* from,
                                                  int32_t n) {
  if (from == NULL) {
    for (; n > 0; n--, to += step) *to = 0.0f;
    return to;
  }
  if (step == 1) return tvmrt_micro_copy_strided_f32(to, 1, from, n);
  return tvmrt_micro_copy_strided_f32(to, TVMRT_MICRO_F32_PIXELS, from, n);
}

/*! \brief Copy the window of an output pixel with a stride of `step` elements. */
TVMRT_NOINLINE void tvmrt_micro_im2col_f32(const tvmrt_micro_shape* s, const float* x,
                                           int32_t pixel, float* to, int32_t step) {
  const tvmrt_micro_windows* const win = &s->layout.windows;
  if (win->pointwise) {
    (void)tvmrt_micro_copy_or_zero_f32(to, step, x + pixel * s->x_stride, s->in_c);
    return;
  }
  const tvmrt_micro_position at = tvmrt_micro_locate(s, pixel);
  for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
    for (int32_t kw = 0; kw < s->kernel[1]; kw += win->columns) {
      const tvmrt_micro_run run = tvmrt_micro_find_run(s, &at, kh, kw);
      to = tvmrt_micro_copy_or_zero_f32(to, step, NULL, run.begin * s->in_c);
      to = tvmrt_micro_copy_or_zero_f32(to, step, x + run.from, (run.end - run.begin) * s->in_c);
      to = tvmrt_micro_copy_or_zero_f32(to, step, NULL, (win->columns - run.end) * s->in_c);
    }
  }
}

/*! \brief All channels of one or four neighbouring output pixels. */
static inline void tvmrt_micro_conv_f32_pixels(const tvmrt_micro_conv_f32* c,
                                               const tvmrt_micro_data_f32* data, float* window,
                                               int32_t pixel, int32_t pixels) {
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_windows* const win = &s->layout.windows;
  float sums[TVMRT_MICRO_F32_PIXELS * TVMRT_MICRO_F32_CHUNK];
  const float *x = window, *w = data->weights;
  if (pixels == 1 && win->pointwise && data->x != data->y) {
    x = data->x + pixel * s->x_stride;
  } else {
    for (int32_t p = 0; p < pixels; p++) {
      tvmrt_micro_im2col_f32(s, data->x, pixel + p, window + p, pixels);
    }
  }
  for (int32_t channel = 0; channel < s->out_c; channel += TVMRT_MICRO_F32_CHUNK) {
    const int32_t left = s->out_c - channel;
    const int32_t channels = left < TVMRT_MICRO_F32_CHUNK ? left : TVMRT_MICRO_F32_CHUNK;
    for (int32_t i = 0; i < channels; i += 4, w += 4 * win->length) {
      if (pixels == 1) {
        tvmrt_micro_tile_f32_1(sums + i, x, w, data->bias + channel + i, win->length);
      } else {
        tvmrt_micro_tile_f32_4(sums + i, x, w, data->bias + channel + i, win->length);
      }
    }
    for (int32_t p = 0; p < pixels; p++) {
      float* const of_pixel = sums + p * TVMRT_MICRO_F32_CHUNK;
      tvmrt_micro_finish_f32(c, data, of_pixel, pixel + p, channel, channels);
    }
  }
}

/*!
 * \brief y = convolution of x.
 *
 * \param c    [in] Shape and clamp bounds.
 * \param data [in] The tensors. y may be x only in the case that the head of this file names.
 *
 * Values:  clamp(bias + sums + residual), then the epilogue.
 * Errors:  0, or -1 if scratch runs out.
 * Threads: on the calling thread alone.
 */
static inline int tvmrt_micro_conv_f32_run(const tvmrt_micro_conv_f32* c,
                                           const tvmrt_micro_data_f32* data) {
  const tvmrt_micro_windows* const win = &c->shape.layout.windows;
  float few[TVMRT_MICRO_F32_STACK_WINDOWS / 4];
  const int32_t last = win->pixels % TVMRT_MICRO_F32_PIXELS, whole_tiles = win->pixels - last;
  float *scratch = NULL, *window = few;
  if (c->shape.scratch > 0) {
    scratch = window = (float*)tvmrt_scratch_alloc(c->shape.scratch);
    if (scratch == NULL) return -1;
  }
  for (int32_t i = 0; i < whole_tiles; i += TVMRT_MICRO_F32_PIXELS) {
    tvmrt_micro_conv_f32_pixels(c, data, window, i, TVMRT_MICRO_F32_PIXELS);
  }
  for (int32_t i = 0; i < last; i++)
    tvmrt_micro_conv_f32_pixels(c, data, window, whole_tiles + i, 1);
  return tvmrt_scratch_free(scratch);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_F32_H_ */
