/*!
 * \file micro_depthwise_i8.h
 * \brief Depthwise 2-D convolution of 8-bit tensors on microcontrollers.
 *
 * The input rows that an output row needs are kept in scratch as quads of four channels
 * (micro_i8.h), padding included: [row of the ring][quad of channels][column][4]. A row is copied
 * before the output row that may lie in its place is written: y may be x where stride is 1, both
 * have the same extents, and the rows in the ring reach as far as the output row.
 *
 * Packed weights: int16 [quad of channels][kernel row][kernel column][4] in the order of quads.
 * bias and scale: per channel, to a whole quad.
 */
#ifndef TVM_RUNTIME_KERNELS_MICRO_DEPTHWISE_I8_H_
#define TVM_RUNTIME_KERNELS_MICRO_DEPTHWISE_I8_H_

#include "micro_conv_i8.h"

/*! \brief Most rows of a kernel. */
#define TVMRT_MICRO_MAX_ROWS 16

/*! \brief What the rows of a layer share. */
typedef struct tvmrt_micro_depthwise {
  const tvmrt_micro_conv_i8* conv;
  const tvmrt_micro_data* data;
  int16_t* ring;
  const int16_t* row[TVMRT_MICRO_MAX_ROWS]; /* of the kernel, in the ring */
  int32_t span;                             /* rows of the ring */
  int32_t columns;                          /* of a row of the ring */
  int32_t quads;                            /* of channels */
} tvmrt_micro_depthwise;

/*! \brief Copies a pixel's channels into a column of the ring. */
TVMRT_NOINLINE void tvmrt_micro_copy_pixel(int16_t* to, int32_t step, const uint8_t* x,
                                           int32_t channels, int is_signed) {
  const int32_t whole = channels / 4, rest = channels - 4 * whole;
  tvmrt_micro_widen_row(to, step, x, whole, is_signed);
  if (rest > 0) {
    uint8_t four[4] = {0, 0, 0, 0};
    memcpy(four, x + 4 * whole, (size_t)rest);
    tvmrt_micro_widen_row(to + whole * step, step, four, 1, is_signed);
  }
}

/*! \brief Makes a column of the ring padding. */
static inline void tvmrt_micro_pad_pixel(int16_t* to, int32_t step, int32_t quads, int16_t zero) {
  for (int32_t quad = 0; quad < quads; quad++, to += step) {
    for (int i = 0; i < 4; i++) to[i] = zero;
  }
}

/*! \brief Copies an input row into the ring; h counts from the first row of padding on. */
static inline void tvmrt_micro_copy_row(const tvmrt_micro_depthwise* d, int32_t image, int32_t h) {
  const tvmrt_micro_conv_i8* const c = d->conv;
  const int32_t step = d->columns * 4;
  int16_t* to = d->ring + h % d->span * d->quads * step;
  const int32_t row = h - c->pad[0], end = row >= 0 && row < c->in[0] ? c->in[1] : 0;
  const uint8_t* x = (const uint8_t*)d->data->x;
  if (end > 0) x += (image * c->in[0] + row) * c->in[1] * c->x_stride;
  for (int32_t column = 0; column < d->columns; column++, to += 4) {
    const int32_t w = column - c->pad[1];
    if (w >= 0 && w < end) {
      tvmrt_micro_copy_pixel(to, step, x + w * c->x_stride, c->in_c, c->x_signed);
    } else {
      tvmrt_micro_pad_pixel(to, step, d->quads, c->x_zero);
    }
  }
}

#if TVMRT_MICRO_CAN_DSP && defined(__OPTIMIZE__)
#define TVMRT_MICRO_TAP                 \
  "ldrd %[xe], %[xo], [%[x]], #8\n"     \
  "ldrd %[we], %[wo], [%[w]], #8\n"     \
  "smlabb %[a0], %[xe], %[we], %[a0]\n" \
  "smlatt %[a1], %[xe], %[we], %[a1]\n" \
  "smlabb %[a2], %[xo], %[wo], %[a2]\n" \
  "smlatt %[a3], %[xo], %[wo], %[a3]\n"

/*! \brief Three neighbouring taps of a quad of channels. */
TVMRT_INLINE const int16_t* tvmrt_micro_three_taps(int32_t acc[4], const int16_t* x,
                                                   const int16_t* w) {
  int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];
  uint32_t xe, xo, we, wo;
  __asm volatile(TVMRT_MICRO_TAP TVMRT_MICRO_TAP TVMRT_MICRO_TAP
                 : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [x] "+r"(x),
                   [w] "+r"(w), [xe] "=&r"(xe), [xo] "=&r"(xo), [we] "=&r"(we), [wo] "=&r"(wo)
                 :
                 : "memory");
  acc[0] = a0;
  acc[1] = a1;
  acc[2] = a2;
  acc[3] = a3;
  return w;
}
#else
TVMRT_INLINE const int16_t* tvmrt_micro_three_taps(int32_t acc[4], const int16_t* x,
                                                   const int16_t* w) {
  for (int tap = 0; tap < 3; tap++, x += 4, w += 4) {
    TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) acc[i] += x[i] * w[i];
  }
  return w;
}
#endif

/*! \brief Stores the sums of a quad in the channels' order. */
TVMRT_INLINE void tvmrt_micro_store_quad(int32_t* sums, const int32_t acc[4]) {
  sums[0] = acc[0];
  sums[1] = acc[2];
  sums[2] = acc[1];
  sums[3] = acc[3];
}

/*! \brief The sums of some quads of channels, 3 x 3 without dilation, `at` elements from the
 * rows' starts. */
TVMRT_NOINLINE void tvmrt_micro_depthwise_3x3(const tvmrt_micro_depthwise* d, int32_t* sums,
                                              const int16_t* w, const int32_t* bias, int32_t at,
                                              int32_t channels) {
  const int16_t *x0 = d->row[0] + at, *x1 = d->row[1] + at, *x2 = d->row[2] + at;
  const int32_t step = d->columns * 4;
  for (const int32_t* const end = sums + channels; sums < end; sums += 4, bias += 4) {
    int32_t acc[4] = {bias[0], bias[2], bias[1], bias[3]};
    w = tvmrt_micro_three_taps(acc, x0, w);
    w = tvmrt_micro_three_taps(acc, x1, w);
    w = tvmrt_micro_three_taps(acc, x2, w);
    tvmrt_micro_store_quad(sums, acc);
    x0 += step;
    x1 += step;
    x2 += step;
  }
}

/*! \brief The sums of some quads of channels for any kernel. */
TVMRT_NOINLINE void tvmrt_micro_depthwise_any(const tvmrt_micro_depthwise* d, int32_t* sums,
                                              const int16_t* w, const int32_t* bias, int32_t at,
                                              int32_t channels) {
  const tvmrt_micro_conv_i8* const c = d->conv;
  for (int32_t channel = 0; channel < channels; channel += 4, at += d->columns * 4) {
    const int32_t* const b = bias + channel;
    int32_t acc[4] = {b[0], b[2], b[1], b[3]};
    for (int32_t kh = 0; kh < c->kernel[0]; kh++) {
      const int16_t* x = d->row[kh] + at;
      for (int32_t kw = 0; kw < c->kernel[1]; kw++, x += c->dilation[1] * 4, w += 4) {
        TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) acc[i] += x[i] * w[i];
      }
    }
    tvmrt_micro_store_quad(sums + channel, acc);
  }
}

/*! \brief One output row, whose kernel rows are in the ring. */
static inline void tvmrt_micro_depthwise_row(const tvmrt_micro_depthwise* d, int32_t row) {
  const tvmrt_micro_conv_i8* const c = d->conv;
  const int32_t taps = c->kernel[0] * c->kernel[1];
  const int three = c->kernel[0] == 3 && c->kernel[1] == 3 && c->dilation[1] == 1;
  int32_t sums[TVMRT_MICRO_CHUNK];
  for (int32_t pixel = 0; pixel < c->out[1]; pixel++) {
    for (int32_t channel = 0; channel < c->out_c; channel += TVMRT_MICRO_CHUNK) {
      const int32_t left = c->out_c - channel;
      const int32_t channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
      const int32_t at = channel * d->columns + pixel * c->stride[1] * 4;
      const int16_t* const w = (const int16_t*)d->data->weights + channel * taps;
      if (three) {
        tvmrt_micro_depthwise_3x3(d, sums, w, d->data->bias + channel, at, channels);
      } else {
        tvmrt_micro_depthwise_any(d, sums, w, d->data->bias + channel, at, channels);
      }
      tvmrt_micro_finish(c, d->data, sums, row * c->out[1] + pixel, 1, channel, channels);
    }
  }
}

/*!
 * \brief y = depthwise convolution of x.
 *
 * \param c    [in] Shape; in_c is out_c.
 * \param data [in] The tensors; shift is not used. y may be x only as the head of this file says.
 *
 * Values and threads as tvmrt_micro_conv_i8_run(). Errors: 0, or -1 where there is no scratch.
 */
static inline int tvmrt_micro_depthwise_i8_run(const tvmrt_micro_conv_i8* c,
                                               const tvmrt_micro_data* data) {
  tvmrt_micro_depthwise d;
  const int32_t rows = c->pixels / c->out[1];
  int32_t next = 0;
  d.conv = c;
  d.data = data;
  d.span = (c->kernel[0] - 1) * c->dilation[0] + 1;
  d.columns = (c->out[1] - 1) * c->stride[1] + (c->kernel[1] - 1) * c->dilation[1] + 1;
  d.quads = (c->in_c + 3) / 4;
  d.ring = (int16_t*)tvmrt_scratch_alloc(c->scratch);
  if (d.ring == NULL) return -1;
  for (int32_t row = 0; row < rows; row++) {
    const int32_t image = row / c->out[0], top = (row - image * c->out[0]) * c->stride[0];
    if (next < top || top == 0) next = top;
    for (; next < top + d.span; next++) tvmrt_micro_copy_row(&d, image, next);
    for (int32_t kh = 0; kh < c->kernel[0]; kh++) {
      d.row[kh] = d.ring + (top + kh * c->dilation[0]) % d.span * d.quads * d.columns * 4;
    }
    tvmrt_micro_depthwise_row(&d, row);
  }
  return tvmrt_scratch_free(d.ring);
}

#endif /* TVM_RUNTIME_KERNELS_MICRO_DEPTHWISE_I8_H_ */
