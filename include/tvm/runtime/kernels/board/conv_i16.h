/*!
 * \file board/conv_i16.h
 * \brief Dense layers of int16 activations and int8 weights on microcontrollers.
 *
 * The zero point and padding of activations are 0; their stride is in bytes. The windows of two
 * neighbouring output pixels are copied, in alternating groups of TVMRT_MICRO_I16_GROUP elements,
 * and multiplied with the weights of several channels at a time. Sums have 32 bits: the compiler of
 * the network has checked that they fit.
 *
 * A tile defines TVMRT_MICRO_I16_GROUP, and TVMRT_MICRO_I16_TILE() to accumulate some channels of
 * one or two pixels, then includes this file. The tile here is that of
 * board/tiles_2x2_dsp.h; its weights have the elements 0, 2, 1 and 3 of each group.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I16_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I16_H_

#ifndef TVMRT_MICRO_I16_GROUP
#include "tiles_2x2_dsp.h"
#define TVMRT_MICRO_I16_GROUP 4
#define TVMRT_MICRO_I16_TILE(pixels, ...) \
  ((pixels) == 2 ? tvmrt_micro_tile_2(__VA_ARGS__) : tvmrt_micro_tile_1(__VA_ARGS__))
#endif

/*!
 * \brief Copy n elements to a window, from element `at` on.
 *
 * \param step [in] Elements from one group of the window to the next.
 */
TVMRT_INLINE void tvmrt_micro_i16_copy(int16_t* window, int32_t step, uint32_t at,
                                       const uint8_t* from, int32_t n) {
  const int16_t* x = (const int16_t*)(const void*)from;
  int32_t place = (int32_t)(at % TVMRT_MICRO_I16_GROUP);
  int16_t* group = window + (int32_t)(at / TVMRT_MICRO_I16_GROUP) * step;
  for (; n > 0; place = 0, group += step) {
#if TVMRT_MICRO_UNALIGNED
    for (; place == 0 && n >= TVMRT_MICRO_I16_GROUP; n -= TVMRT_MICRO_I16_GROUP, group += step) {
#if TVMRT_MICRO_CAN_MVE
      vstrhq_s16(group, vldrhq_s16(x));
#else
      memcpy(TVMRT_ALIGNED(group, 8), x, TVMRT_MICRO_I16_GROUP * sizeof(*x));
#endif
      x += TVMRT_MICRO_I16_GROUP;
    }
    if (n == 0) return;
#endif
    const int32_t room = TVMRT_MICRO_I16_GROUP - place, count = n < room ? n : room;
    n -= count;
#if TVMRT_MICRO_CAN_MVE
    const mve_pred16_t mask = vctp16q((uint32_t)count);
    vstrhq_p_s16(group + place, vldrhq_z_s16(x, mask), mask);
    x += count;
#else
    for (int32_t i = place; i < place + count; i++) group[i] = *x++;
#endif
  }
}

/*! \brief Copy the window of an output pixel; `step`: see tvmrt_micro_i16_copy(). */
TVMRT_NOINLINE void tvmrt_micro_i16_im2col(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                           int32_t pixel, int16_t* to, int32_t step) {
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_windows* const win = &s->layout.windows;
  const tvmrt_micro_position at = tvmrt_micro_locate(s, pixel);
  const int32_t elements = win->columns * s->in_c, rows = s->kernel[0], columns = s->kernel[1];
  const int32_t first = at.image + (at.top * s->in[1] + at.left) * s->x_stride;
  const int32_t row = (int32_t)s->dilation[0] * s->in[1] * s->x_stride;
  int32_t begin = 0;
  int32_t rest = rows * columns * s->in_c == win->length ? 0 : 8; /* of zeros, at the end */
  if (!at.inside) rest = win->length;
  int16_t* group = to + (win->length - rest) / TVMRT_MICRO_I16_GROUP * step;
  for (; rest > 0; rest -= TVMRT_MICRO_I16_GROUP, group += step) {
#if TVMRT_MICRO_CAN_MVE /* compilers would call memset() */
    vstrhq_s16(group, vdupq_n_s16(0));
#else
    memset(TVMRT_ALIGNED(group, 8), 0, TVMRT_MICRO_I16_GROUP * sizeof(*to));
#endif
  }
  for (int32_t kh = 0; kh < rows; kh++) {
    for (int32_t kw = 0; kw < columns; kw += win->columns, begin += elements) {
      tvmrt_micro_run run = {0, columns, first + kh * row};
      if (!at.inside) run = tvmrt_micro_find_run(s, &at, kh, kw);
      tvmrt_micro_i16_copy(to, step, (uint32_t)(begin + run.begin * s->in_c), x + run.from,
                           (run.end - run.begin) * s->in_c);
    }
  }
}

/*!
 * \brief y = convolution of x, which y must not overlap; 0, or -1 if scratch runs out.
 *
 * Values: the epilogue of the layer gets the sums.
 */
TVMRT_NOINLINE int tvmrt_micro_conv_i16_run(const tvmrt_micro_conv_i8* c,
                                            const tvmrt_micro_data* data) {
  const tvmrt_micro_shape* const s = &c->shape;
  const int32_t n = s->layout.windows.length, count = s->layout.windows.pixels;
  uint64_t few[TVMRT_MICRO_STACK_WINDOWS / 8];
  int32_t sums[TVMRT_MICRO_ACCUMULATORS];
  void *scratch = NULL, *windows = few;
  if (s->scratch > 0) {
    scratch = windows = tvmrt_scratch_alloc(s->scratch);
    if (scratch == NULL) return -1;
  }
  for (int32_t pixel = 0, pixels; pixel < count; pixel += pixels) {
    int16_t* const window = (int16_t*)windows;
    pixels = count - pixel < 2 ? 1 : 2;
    for (int32_t p = 0; p < pixels; p++) {
      tvmrt_micro_i16_im2col(c, (const uint8_t*)data->x, pixel + p,
                             window + p * TVMRT_MICRO_I16_GROUP, pixels * TVMRT_MICRO_I16_GROUP);
    }
    for (int32_t channel = 0; channel < s->out_c; channel += TVMRT_MICRO_CHUNK) {
      const int32_t left = s->out_c - channel;
      const int32_t channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
      TVMRT_MICRO_I16_TILE(pixels, sums, data->bias + channel, window,
                           (const int8_t*)data->weights + channel * n, n, channels);
      tvmrt_micro_finish(c, data, sums, TVMRT_MICRO_CHUNK, pixel, pixels, channel, channels);
    }
  }
  return tvmrt_scratch_free(scratch);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I16_H_ */
