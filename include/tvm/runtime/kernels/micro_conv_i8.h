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
 * A window is [kernel row][kernel column][input channel], see micro_products_i8.h.
 *
 * Packed weights: [pair of output channels][group of the window][channel of the pair][byte],
 * aligned to 8 bytes; for tvmrt_micro_conv_i8_run_joint() as micro_joint_i8.h says.
 */
#ifndef TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_
#define TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_

#include "micro_products_i8.h"
#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_PAIRS
#include "micro_joint_i8.h"
#endif

/*! \brief Bytes of windows that lie on the stack; longer ones lie in scratch. */
#define TVMRT_MICRO_STACK_WINDOWS 160

/*! \brief Copies a window that is partly padding, as bytes. */
static inline void tvmrt_micro_copy_padded(const tvmrt_micro_conv_i8* c, const uint8_t* image,
                                           const tvmrt_micro_place* at, uint8_t* to) {
  const tvmrt_micro_shape* const s = &c->shape;
  const int32_t channels = s->in_c, bytes = at->columns * channels;
  const uint32_t zeros = (uint8_t)c->x_zero * 0x01010101u;
  for (int32_t i = s->window - 4; i >= 0; i -= 4) {
    memcpy(__builtin_assume_aligned(to + i, 4), &zeros, 4);
  }
  for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
    const int32_t h = at->top + kh * s->dilation[0];
    const int inside = h >= 0 && h < s->in[0];
    for (int32_t kw = 0; kw < s->kernel[1]; kw += at->columns, to += bytes) {
      const int32_t w = at->left + kw * s->dilation[1];
      const int32_t begin = w < 0 ? -w : 0, left = s->in[1] - w;
      const int32_t end = left < at->columns ? left : at->columns;
      if (inside && end > begin) {
        const uint8_t* const from = image + (h * s->in[1] + w + begin) * s->x_stride;
        tvmrt_micro_copy(to + begin * channels, from, (end - begin) * channels);
      }
    }
  }
}

#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_PAIRS
#if TVMRT_MICRO_ASM
/* Two quads a turn, n times. */
#define TVMRT_MICRO_WIDEN_PAIRS(WIDEN)                                                             \
  __asm volatile("1:\nldr %[a], [%[from]], #4\nldr %[c], [%[from]], #4\n" WIDEN                    \
                 " %[b], %[a], ror #8\n" WIDEN " %[a], %[a]\n" WIDEN " %[d], %[c], ror #8\n" WIDEN \
                 " %[c], %[c]\n"                                                                   \
                 "strd %[a], %[b], [%[to]]\nadd %[to], %[to], %[step]\n"                           \
                 "strd %[c], %[d], [%[to]]\nadd %[to], %[to], %[step]\n"                           \
                 "subs %[n], %[n], #1\nbne 1b\n"                                                   \
                 : [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [from] "+r"(from),      \
                   [to] "+r"(to), [n] "+r"(n)                                                      \
                 : [step] "r"(2 * step)                                                            \
                 : "cc", "memory")
#endif

/*! \brief n quads of neighbouring bytes, `step` elements from one to the next. */
TVMRT_NOINLINE void tvmrt_micro_widen_row(int16_t* to, int32_t step, const uint8_t* from, int32_t n,
                                          int is_signed) {
#if TVMRT_MICRO_ASM
  uint32_t a, b, c, d;
  if (n % 2 != 0) {
    tvmrt_micro_widen(to, from, is_signed);
    to += step;
    from += 4;
  }
  n /= 2;
  if (n == 0) return;
  if (is_signed) {
    TVMRT_MICRO_WIDEN_PAIRS("sxtb16");
  } else {
    TVMRT_MICRO_WIDEN_PAIRS("uxtb16");
  }
#else
  for (; n > 0; n--, from += 4, to += step) tvmrt_micro_widen(to, from, is_signed);
#endif
}
#endif

/*!
 * \brief Copies n elements, whole groups, of a window as the products want them, and returns where
 * the next ones go.
 */
TVMRT_INLINE tvmrt_micro_element* tvmrt_micro_place_groups(tvmrt_micro_element* to, int32_t step,
                                                           const uint8_t* from, int32_t n,
                                                           int is_signed) {
  const int32_t groups = n / TVMRT_MICRO_GROUP;
#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE
  const uint8_t flip = is_signed ? 0 : 0x80;
  for (int32_t g = 0; g < groups; g++, from += 16, to += step) {
#if TVMRT_MICRO_CAN_MVE
    vstrbq_u8((uint8_t*)to, veorq_u8(vldrbq_u8(from), vdupq_n_u8(flip)));
#else
    for (int i = 0; i < 16; i++) to[i] = (int8_t)(from[i] ^ flip);
#endif
  }
  return to;
#else
  tvmrt_micro_widen_row(to, step, from, groups, is_signed);
  return to + groups * step;
#endif
}

/* What bytes behind a window must be to become 0. */
TVMRT_INLINE int tvmrt_micro_none(int is_signed) {
  return TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE && !is_signed ? 0x80 : 0;
}

/*! \brief tvmrt_micro_window() of a pointwise layer. */
TVMRT_NOINLINE void tvmrt_micro_pointwise(const tvmrt_micro_conv_i8* c, const uint8_t* from,
                                          tvmrt_micro_element* to, int32_t step, uint8_t* bytes) {
  const int32_t n = c->shape.window;
  if (n != c->shape.in_c) {
    memset(bytes + n - TVMRT_MICRO_UNIT, tvmrt_micro_none(c->x_signed), TVMRT_MICRO_UNIT);
    tvmrt_micro_copy(bytes, from, c->shape.in_c);
    from = bytes;
  }
  tvmrt_micro_place_groups(to, step, from, n, c->x_signed);
}

/*!
 * \brief The window of an output pixel as the products want it.
 *
 * \param to      [out] Its first group, aligned to 8 bytes.
 * \param step    [in] Elements from one of its groups to the next.
 * \param bytes   [out] Scratch for the window as bytes.
 */
TVMRT_NOINLINE void tvmrt_micro_window(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                       int32_t pixel, tvmrt_micro_element* to, int32_t step,
                                       uint8_t* bytes) {
  const tvmrt_micro_shape* const s = &c->shape;
  const int32_t is_signed = c->x_signed, rest = s->window - TVMRT_MICRO_UNIT;
  const tvmrt_micro_place at = tvmrt_micro_find(s, pixel);
  const int32_t run = at.columns * s->in_c;
  if (at.inside) {
    const uint8_t* from = x + at.image + (at.top * s->in[1] + at.left) * s->x_stride;
    const int32_t row = s->dilation[0] * s->in[1] * s->x_stride;
    const int whole = run * s->kernel[0] == s->window && run % TVMRT_MICRO_GROUP == 0;
    uint8_t* end = bytes;
    if (!whole) memset(bytes + rest, tvmrt_micro_none(is_signed), TVMRT_MICRO_UNIT);
    for (int32_t kh = 0; kh < s->kernel[0]; kh++, from += row) {
      if (whole) {
        to = tvmrt_micro_place_groups(to, step, from, run, is_signed);
      } else {
        tvmrt_micro_copy(end, from, run);
        end += run;
      }
    }
    if (whole) return;
  } else {
    tvmrt_micro_copy_padded(c, x + at.image, &at, bytes);
    const int32_t n = s->kernel[0] * s->kernel[1] * s->in_c;
    memset(bytes + n, tvmrt_micro_none(is_signed), (size_t)(s->window - n));
  }
  tvmrt_micro_place_groups(to, step, bytes, s->window, is_signed);
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

/*!
 * \brief The sums of some channels of one output pixel, and of two neighbouring ones.
 *
 * \param sums     [out] [pixel][TVMRT_MICRO_CHUNK].
 * \param bias     [in] Of the first of the channels.
 * \param weights  [in] Of the first of the channels; those of n elements of the window each.
 */
TVMRT_NOINLINE void tvmrt_micro_tile_1(int32_t* sums, const int32_t* bias,
                                       const tvmrt_micro_element* window, const int8_t* weights,
                                       int32_t n, int32_t channels) {
  const int32_t* const end = sums + channels;
  do {
    weights = tvmrt_micro_products_1(sums, bias, window, weights, n);
    bias += 2;
    sums += 2;
  } while (sums < end);
}

TVMRT_NOINLINE void tvmrt_micro_tile_2(int32_t* sums, const int32_t* bias,
                                       const tvmrt_micro_element* window, const int8_t* weights,
                                       int32_t n, int32_t channels) {
  const int32_t* const end = sums + channels;
  do {
    weights = tvmrt_micro_products_2(sums, bias, window, weights, n);
    bias += 2;
    sums += 2;
  } while (sums < end);
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

/*! \brief The sums of some channels of one or two neighbouring output pixels. */
TVMRT_INLINE void tvmrt_micro_conv_sums(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                        int32_t* sums, const tvmrt_micro_element* window,
                                        int32_t pixels, int32_t channel, int32_t channels,
                                        int joint) {
  const int32_t n = c->shape.window;
#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_PAIRS
  if (joint) {
    const int16_t* const weights = (const int16_t*)data->weights + channel / 2 * (n + 4);
    const tvmrt_micro_tile t = {{window, n}, {sums, sums + channels}, weights};
    if (pixels == 2) {
      tvmrt_micro_joint_2(&t);
    } else {
      tvmrt_micro_joint_1(&t);
    }
    return;
  }
#else
  (void)joint;
#endif
  const int8_t* const weights = (const int8_t*)data->weights + channel * n;
  const int32_t* const bias = data->bias + channel;
  if (pixels == 2) {
    tvmrt_micro_tile_2(sums, bias, window, weights, n, channels);
  } else {
    tvmrt_micro_tile_1(sums, bias, window, weights, n, channels);
  }
}

/*! \brief All channels of one or two neighbouring output pixels. */
TVMRT_NOINLINE void tvmrt_micro_conv_pixels(const tvmrt_micro_conv_i8* c,
                                            const tvmrt_micro_data* data,
                                            tvmrt_micro_element* window, int32_t pixel,
                                            int32_t pixels, int joint) {
  const tvmrt_micro_shape* const s = &c->shape;
  int32_t sums[TVMRT_MICRO_SUMS];
  const int32_t n = s->window;
  uint8_t* const bytes = (uint8_t*)(window + (s->pixels > 1 ? 2 : 1) * n);
  for (int32_t p = 0; p < pixels; p++) {
    const uint8_t* const x = (const uint8_t*)data->x;
    tvmrt_micro_element* const to = window + p * TVMRT_MICRO_GROUP;
    const int32_t step = pixels * TVMRT_MICRO_GROUP;
    if (s->pointwise) {
      tvmrt_micro_pointwise(c, x + (pixel + p) * s->x_stride, to, step, bytes);
    } else {
      tvmrt_micro_window(c, x, pixel + p, to, step, bytes);
    }
  }
  for (int32_t channel = 0; channel < s->out_c; channel += TVMRT_MICRO_CHUNK) {
    const int32_t left = s->out_c - channel;
    const int32_t channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
    tvmrt_micro_conv_sums(c, data, sums, window, pixels, channel, channels, joint);
    if (data->shift != NULL) {
      tvmrt_micro_add_shifts(sums, window, data->shift + channel, n, pixels, channels);
    }
    tvmrt_micro_finish(c, data, sums, TVMRT_MICRO_CHUNK, pixel, pixels, channel, channels);
  }
}

/*! \brief What follows, for both kinds of weights. */
TVMRT_INLINE int tvmrt_micro_conv_all(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                      int joint) {
  const tvmrt_micro_shape* const s = &c->shape;
  uint64_t few[TVMRT_MICRO_STACK_WINDOWS / 8];
  void *scratch = NULL, *window = few;
  if (s->scratch > 0) {
    scratch = window = tvmrt_scratch_alloc(s->scratch);
    if (scratch == NULL) return -1;
  }
  for (int32_t pixel = 0; pixel < s->pixels; pixel += 2) {
    const int32_t left = s->pixels - pixel;
    tvmrt_micro_conv_pixels(c, data, (tvmrt_micro_element*)window, pixel, left < 2 ? left : 2,
                            joint);
  }
  return tvmrt_scratch_free(scratch);
}

/*!
 * \brief y = convolution of x.
 *
 * \param c    [in] Shape.
 * \param data [in] The tensors. y may be x only as the head of this file says.
 *
 * Values:  exact int32 sums (they must fit), times factors as floats, rounded to the nearest integer,
 *          ties to even; or what the epilogue makes of the sums.
 * Errors:  0, or -1 where there is no scratch.
 * Threads: on the caller alone.
 */
static inline int tvmrt_micro_conv_i8_run(const tvmrt_micro_conv_i8* c,
                                          const tvmrt_micro_data* data) {
  return tvmrt_micro_conv_all(c, data, 0);
}

#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_PAIRS
/*! \brief The same with joint weights. */
static inline int tvmrt_micro_conv_i8_run_joint(const tvmrt_micro_conv_i8* c,
                                                const tvmrt_micro_data* data) {
  return tvmrt_micro_conv_all(c, data, 1);
}
#endif

#endif /* TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_ */
