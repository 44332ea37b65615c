/*!
 * \file micro_conv_i8.h
 * \brief Dense 2-D convolution and matrix product of 8-bit tensors on microcontrollers.
 *
 * Memory is channels-last with one stride between neighbouring pixels, over all rows and images. A
 * matrix product is a 1 x 1 convolution whose pixels are the rows. The windows of two neighbouring
 * output pixels are copied into scratch, in the form in which the products want them (micro_i8.h),
 * and multiplied with the weights of two output channels at a time. As the output is written when
 * the windows have been copied, y may be x where a window is its own output pixel: 1 x 1, stride 1,
 * no padding.
 *
 * A window is [kernel row][kernel column][input channel] and ends with zeros to a multiple of
 * TVMRT_MICRO_UNIT. Two copied windows alternate: a group of the first pixel, the same one of the
 * second; groups have 4 elements for TVMRT_MICRO_PAIRS (a quad), 16 for TVMRT_MICRO_MVE.
 *
 * Packed weights: [pair of output channels][group of the window][channel of the pair][byte],
 * aligned to 8 bytes.
 */
#ifndef TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_
#define TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_

#include "micro_i8.h"

#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE
#define TVMRT_MICRO_GROUP 16
#define TVMRT_MICRO_UNIT 16
typedef int8_t tvmrt_micro_element; /* of a copied window */
#else
#define TVMRT_MICRO_GROUP 4
#define TVMRT_MICRO_UNIT 8
typedef int16_t tvmrt_micro_element;
#endif

/*! \brief Bytes of windows that lie on the stack; longer ones lie in scratch. */
#define TVMRT_MICRO_STACK_WINDOWS 160

/*! \brief Copies the window of an output pixel, as bytes. */
static inline void tvmrt_micro_copy_window(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                           int32_t pixel, uint8_t* to) {
  const int32_t row = pixel / c->out[1], image = row / c->out[0];
  const int32_t left = (pixel - row * c->out[1]) * c->stride[1] - c->pad[1];
  const int32_t top = (row - image * c->out[0]) * c->stride[0] - c->pad[0];
  /* neighbouring columns that are neighbours in memory are copied together */
  const int together = c->x_stride == c->in_c && c->dilation[1] == 1;
  const int32_t columns = together ? c->kernel[1] : 1, channels = c->in_c;
  if (together && left >= 0 && left + columns <= c->in[1] && top >= 0 &&
      top + (c->kernel[0] - 1) * c->dilation[0] < c->in[0]) { /* no padding */
    const int32_t run = columns * channels, step = c->dilation[0] * c->in[1] * channels;
    const uint8_t* from = x + ((image * c->in[0] + top) * c->in[1] + left) * channels;
    const uint8_t* const end = to + c->kernel[0] * run;
    for (; to != end; to += run, from += step) memcpy(to, from, (size_t)run);
    return;
  }
  for (int32_t kh = 0; kh < c->kernel[0]; kh++) {
    const int32_t h = top + kh * c->dilation[0];
    for (int32_t kw = 0; kw < c->kernel[1]; kw += columns) {
      const int32_t w = left + kw * c->dilation[1];
      int32_t begin = w < 0 ? -w : 0, end = c->in[1] - w < columns ? c->in[1] - w : columns;
      if (h < 0 || h >= c->in[0] || end <= begin) begin = end = columns;
      if (begin > 0) memset(to, c->x_zero, (size_t)(begin * channels));
      if (end > begin) {
        const uint8_t* from = x + ((image * c->in[0] + h) * c->in[1] + w + begin) * c->x_stride;
        memcpy(to + begin * channels, from, (size_t)((end - begin) * channels));
      }
      to += columns * channels;
      end = columns - end;
      if (end > 0) memset(to - end * channels, c->x_zero, (size_t)(end * channels));
    }
  }
}

/*!
 * \brief The window of an output pixel as the products want it.
 *
 * \param to      [out] Its first group, aligned to 8 bytes.
 * \param pixels  [in] 1, or 2 where groups of two pixels alternate.
 * \param bytes   [out] Scratch for the window as bytes.
 */
TVMRT_NOINLINE void tvmrt_micro_window(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                       int32_t pixel, tvmrt_micro_element* to, int pixels,
                                       uint8_t* bytes) {
  const int32_t step = pixels * TVMRT_MICRO_GROUP;
  memset(bytes + c->window - TVMRT_MICRO_UNIT, 0, TVMRT_MICRO_UNIT);
  if (c->kernel[0] * c->kernel[1] == 1 && c->stride[0] * c->stride[1] == 1 &&
      (c->pad[0] | c->pad[1]) == 0 && c->in[0] == c->out[0] && c->in[1] == c->out[1]) {
    memcpy(bytes, x + pixel * c->x_stride, (size_t)c->in_c);
  } else {
    tvmrt_micro_copy_window(c, x, pixel, bytes);
  }
#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE
  const uint8_t* const end = bytes + c->window;
  const uint8_t flip = c->x_signed ? 0 : 0x80;
  for (; bytes != end; bytes += 16, to += step) {
#if TVMRT_MICRO_CAN_MVE
    vstrbq_u8((uint8_t*)to, veorq_u8(vldrbq_u8(bytes), vdupq_n_u8(flip)));
#else
    for (int i = 0; i < 16; i++) to[i] = (int8_t)(bytes[i] ^ flip);
#endif
  }
#else
  tvmrt_micro_widen_row(to, step, bytes, c->window / 4, c->x_signed);
#endif
}

/*! \brief The sum of the elements of one of the copied windows. */
static inline int32_t tvmrt_micro_window_sum(const tvmrt_micro_element* window, int pixels,
                                             int32_t n) {
  int32_t sum = 0;
  for (int32_t i = 0; i < n; i++) {
    sum += window[i];
    if ((i + 1) % TVMRT_MICRO_GROUP == 0) window += (pixels - 1) * TVMRT_MICRO_GROUP;
  }
  return sum;
}

#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_PAIRS && TVMRT_MICRO_CAN_DSP && defined(__OPTIMIZE__)
/*
 * Written out, as compilers find no way to keep everything in the registers, which just suffice.
 * The weights of a group become pairs, those of channel 0 in e0 and o0, those of channel 1 in e1
 * and o1.
 */
#define TVMRT_MICRO_WEIGHTS         \
  "ldrd %[e0], %[e1], [%[w]], #8\n" \
  "sxtb16 %[o0], %[e0], ror #8\n"   \
  "sxtb16 %[e0], %[e0]\n"           \
  "sxtb16 %[o1], %[e1], ror #8\n"   \
  "sxtb16 %[e1], %[e1]\n"
#define TVMRT_MICRO_PIXEL(A0, A1)        \
  "ldrd %[xe], %[xo], [%[x]], #8\n"      \
  "smlad %[" A0 "], %[xe], %[e0], %[" A0 \
  "]\n"                                  \
  "smlad %[" A1 "], %[xe], %[e1], %[" A1 \
  "]\n"                                  \
  "smlad %[" A0 "], %[xo], %[o0], %[" A0 \
  "]\n"                                  \
  "smlad %[" A1 "], %[xo], %[o1], %[" A1 "]\n"
#define TVMRT_MICRO_LOOP(GROUP) \
  "1:\n" GROUP GROUP            \
  "subs %[n], %[n], #8\n"       \
  "bgt 1b\n"

TVMRT_INLINE void tvmrt_micro_products_2(int32_t acc[2][2], const int16_t* x, const int8_t* weights,
                                         int32_t n) {
  int32_t a0 = acc[0][0], a1 = acc[0][1], b0 = acc[1][0], b1 = acc[1][1];
  uint32_t e0, o0, e1, o1, xe, xo;
  __asm volatile(TVMRT_MICRO_LOOP(TVMRT_MICRO_WEIGHTS TVMRT_MICRO_PIXEL("a0", "a1")
                                      TVMRT_MICRO_PIXEL("b0", "b1"))
                 : [a0] "+r"(a0), [a1] "+r"(a1), [b0] "+r"(b0), [b1] "+r"(b1), [w] "+r"(weights),
                   [x] "+r"(x), [n] "+r"(n), [e0] "=&r"(e0), [o0] "=&r"(o0), [e1] "=&r"(e1),
                   [o1] "=&r"(o1), [xe] "=&r"(xe), [xo] "=&r"(xo)
                 :
                 : "cc", "memory");
  acc[0][0] = a0;
  acc[0][1] = a1;
  acc[1][0] = b0;
  acc[1][1] = b1;
}

TVMRT_INLINE void tvmrt_micro_products_1(int32_t acc[2][2], const int16_t* x, const int8_t* weights,
                                         int32_t n) {
  int32_t a0 = acc[0][0], a1 = acc[0][1];
  uint32_t e0, o0, e1, o1, xe, xo;
  __asm volatile(
      TVMRT_MICRO_LOOP(TVMRT_MICRO_WEIGHTS TVMRT_MICRO_PIXEL("a0", "a1"))
      : [a0] "+r"(a0), [a1] "+r"(a1), [w] "+r"(weights), [x] "+r"(x), [n] "+r"(n), [e0] "=&r"(e0),
        [o0] "=&r"(o0), [e1] "=&r"(e1), [o1] "=&r"(o1), [xe] "=&r"(xe), [xo] "=&r"(xo)
      :
      : "cc", "memory");
  acc[0][0] = a0;
  acc[0][1] = a1;
}
#endif

/*!
 * \brief acc[pixel][channel] += window * weights for one or two pixels and two channels; `pixels`
 * is a literal.
 */
TVMRT_INLINE void tvmrt_micro_products(int pixels, int32_t acc[2][2], const tvmrt_micro_element* x,
                                       const int8_t* weights, int32_t n) {
#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE && TVMRT_MICRO_CAN_MVE
  for (; n > 0; n -= 16, x += 16 * pixels, weights += 32) {
    const int8x16_t w0 = vldrbq_s8(weights), w1 = vldrbq_s8(weights + 16);
    const int8x16_t a = vldrbq_s8(x);
    acc[0][0] = vmladavaq_s8(acc[0][0], a, w0);
    acc[0][1] = vmladavaq_s8(acc[0][1], a, w1);
    if (pixels == 2) {
      const int8x16_t b = vldrbq_s8(x + 16);
      acc[1][0] = vmladavaq_s8(acc[1][0], b, w0);
      acc[1][1] = vmladavaq_s8(acc[1][1], b, w1);
    }
  }
#elif TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE
  for (; n > 0; n -= 16, x += 16 * pixels, weights += 32) {
    for (int i = 0; i < 16; i++) {
      for (int p = 0; p < pixels; p++) {
        for (int o = 0; o < 2; o++) acc[p][o] += x[16 * p + i] * weights[16 * o + i];
      }
    }
  }
#elif TVMRT_MICRO_CAN_DSP && defined(__OPTIMIZE__)
  if (pixels == 2) {
    tvmrt_micro_products_2(acc, x, weights, n);
  } else {
    tvmrt_micro_products_1(acc, x, weights, n);
  }
#else
  static const uint8_t place[4] = {0, 2, 1, 3};
  for (; n > 0; n -= 4, x += 4 * pixels, weights += 8) {
    TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) {
      const int32_t w0 = weights[place[i]], w1 = weights[4 + place[i]];
      acc[0][0] += x[i] * w0;
      acc[0][1] += x[i] * w1;
      if (pixels == 2) {
        acc[1][0] += x[4 + i] * w0;
        acc[1][1] += x[4 + i] * w1;
      }
    }
  }
#endif
}

/*!
 * \brief The sums of some channels of one or two neighbouring output pixels; `pixels` is a literal.
 *
 * \param sums     [out] [pixel][TVMRT_MICRO_CHUNK].
 * \param weights  [in] Of the first of the channels; those of n elements of the window each.
 */
TVMRT_INLINE void tvmrt_micro_tile(int pixels, int32_t* sums, const tvmrt_micro_element* window,
                                   const int8_t* weights, const int32_t* bias, int32_t n,
                                   int32_t channels) {
  for (const int32_t* const end = sums + channels; sums < end; sums += 2, bias += 2) {
    int32_t acc[2][2] = {{bias[0], bias[1]}, {bias[0], bias[1]}};
    tvmrt_micro_products(pixels, acc, window, weights, n);
    weights += 2 * n;
    sums[0] = acc[0][0];
    sums[1] = acc[0][1];
    if (pixels == 2) {
      sums[TVMRT_MICRO_CHUNK] = acc[1][0];
      sums[TVMRT_MICRO_CHUNK + 1] = acc[1][1];
    }
  }
}

TVMRT_NOINLINE void tvmrt_micro_tile_1(int32_t* sums, const tvmrt_micro_element* window,
                                       const int8_t* weights, const int32_t* bias, int32_t n,
                                       int32_t channels) {
  tvmrt_micro_tile(1, sums, window, weights, bias, n, channels);
}

TVMRT_NOINLINE void tvmrt_micro_tile_2(int32_t* sums, const tvmrt_micro_element* window,
                                       const int8_t* weights, const int32_t* bias, int32_t n,
                                       int32_t channels) {
  tvmrt_micro_tile(2, sums, window, weights, bias, n, channels);
}

/*! \brief Adds to the sums what the weights lack: shift[channel] times the sum of the window. */
static inline void tvmrt_micro_add_shifts(int32_t* sums, const tvmrt_micro_element* window,
                                          const int32_t* shift, int32_t n, int32_t pixels,
                                          int32_t channels) {
  for (int32_t p = 0; p < pixels; p++, sums += TVMRT_MICRO_CHUNK) {
    const int32_t sum = tvmrt_micro_window_sum(window + p * TVMRT_MICRO_GROUP, pixels, n);
    for (int32_t i = 0; i < channels; i++) sums[i] += shift[i] * sum;
  }
}

/*! \brief All channels of one or two neighbouring output pixels. */
static inline void tvmrt_micro_conv_pixels(const tvmrt_micro_conv_i8* c,
                                           const tvmrt_micro_data* data,
                                           tvmrt_micro_element* window, int32_t pixel,
                                           int32_t pixels) {
  int32_t sums[2 * TVMRT_MICRO_CHUNK];
  const int32_t n = c->window;
  uint8_t* const bytes = (uint8_t*)(window + 2 * n);
  for (int32_t p = 0; p < pixels; p++) {
    tvmrt_micro_window(c, (const uint8_t*)data->x, pixel + p, window + p * TVMRT_MICRO_GROUP,
                       pixels, bytes);
  }
  for (int32_t channel = 0; channel < c->out_c; channel += TVMRT_MICRO_CHUNK) {
    const int32_t left = c->out_c - channel;
    const int32_t channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
    const int8_t* const weights = (const int8_t*)data->weights + channel * n;
    const int32_t* const bias = data->bias + channel;
    if (pixels == 2) {
      tvmrt_micro_tile_2(sums, window, weights, bias, n, channels);
    } else {
      tvmrt_micro_tile_1(sums, window, weights, bias, n, channels);
    }
    if (data->shift != NULL) {
      tvmrt_micro_add_shifts(sums, window, data->shift + channel, n, pixels, channels);
    }
    tvmrt_micro_finish(c, data, sums, pixel, pixels, channel, channels);
  }
}

/*!
 * \brief y = convolution of x.
 *
 * \param c    [in] Shape.
 * \param data [in] The tensors. y may be x only as the head of this file says.
 *
 * Values:  exact int32 sums (they must fit), times scale as floats, rounded to the nearest integer,
 *          ties to even; or what the epilogue makes of the sums.
 * Errors:  0, or -1 where there is no scratch.
 * Threads: on the caller alone.
 */
static inline int tvmrt_micro_conv_i8_run(const tvmrt_micro_conv_i8* c,
                                          const tvmrt_micro_data* data) {
  uint64_t few[TVMRT_MICRO_STACK_WINDOWS / 8];
  void *scratch = NULL, *window = few;
  int32_t pixel = 0;
  if (c->scratch > 0) {
    scratch = window = tvmrt_scratch_alloc(c->scratch);
    if (scratch == NULL) return -1;
  }
  for (; pixel + 1 < c->pixels; pixel += 2) {
    tvmrt_micro_conv_pixels(c, data, (tvmrt_micro_element*)window, pixel, 2);
  }
  if (pixel < c->pixels) {
    tvmrt_micro_conv_pixels(c, data, (tvmrt_micro_element*)window, pixel, 1);
  }
  return tvmrt_scratch_free(scratch);
}

#endif /* TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_ */
