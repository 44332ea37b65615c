/*!
 * \file board/depthwise_i8_3x3_dsp.h
 * \brief Depthwise 3 x 3 convolution of 8-bit tensors on microcontrollers, stride 1 or 2.
 *
 * The line buffer (board/line_buffer.h) holds two pairs of rows as int16: [channel][column][pair of
 * rows][2]. SMLAD multiplies a pair with two weights of a kernel column. A step uses the previous
 * step's pair and a new one: with stride 1 it computes two output rows, with stride 2 one. The
 * accumulators of four channels of these rows are in scratch, before the line buffer: [column][2
 * output rows][4].
 *
 * Packed weights: int16 [channel][10], aligned to 4 bytes: the first two rows of each kernel
 * column, then the third row: w[0][0], w[1][0], w[0][1], w[1][1], w[0][2], w[1][2], w[2][0],
 * w[2][1], 0, w[2][2]. Weights, bias and scales: per channel, to a multiple of four channels.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_

#include "requantize_i8_4ch_dsp.h"

#if TVMRT_MICRO_ASM
/* Copy columns of four channels; widening yields channels 0 and 2, then 1 and 3. */
#define TVMRT_MICRO_3X3_COPY(WIDEN)                                                           \
  __asm volatile(                                                                             \
      "1:\nldr %[e], [%[above]]\nldr %[f], [%[below]]\n"                                      \
      "add %[above], %[above], %[above_step]\nadd %[below], %[below], %[below_step]\n" WIDEN  \
      " %[g], %[e], ror #8\n" WIDEN " %[e], %[e]\n" WIDEN " %[h], %[f], ror #8\n" WIDEN       \
      " %[f], %[f]\n"                                                                         \
      "pkhbt %[t], %[e], %[f], lsl #16\npkhtb %[f], %[f], %[e], asr #16\n"                    \
      "str %[t], [%[to]]\nstr %[f], [%[to], %[plane], lsl #1]\n"                              \
      "pkhbt %[t], %[g], %[h], lsl #16\npkhtb %[h], %[h], %[g], asr #16\n"                    \
      "str %[t], [%[to], %[plane]]\nstr %[h], [%[to], %[planes]]\n"                           \
      "add %[to], %[to], #8\nsubs %[n], %[n], #1\nbne 1b\n"                                   \
      : [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h), [t] "=&r"(t),                 \
        [above] "+r"(above.x), [below] "+r"(below.x), [to] "+r"(to), [n] "+r"(n)              \
      : [above_step] "r"(above.pixel), [below_step] "r"(below.pixel), [plane] "r"(2 * plane), \
        [planes] "r"(6 * plane)                                                               \
      : "cc", "memory")
#endif

/*! \brief Copy four channels of n columns of a pair of rows to the channels' planes. */
TVMRT_NOINLINE void tvmrt_micro_3x3_copy(int16_t* to, int32_t plane, tvmrt_micro_source above,
                                         tvmrt_micro_source below, int32_t n, int is_signed) {
#if TVMRT_MICRO_ASM
  uint32_t e, f, g, h, t;
  if (n <= 0) return;
  if (is_signed) {
    TVMRT_MICRO_3X3_COPY("sxtb16");
  } else {
    TVMRT_MICRO_3X3_COPY("uxtb16");
  }
#else
  const int32_t flip = is_signed ? 0x80 : 0; /* (v ^ 0x80) - 0x80 extends the sign */
  for (; n > 0; n--, to += 4, above.x += above.pixel, below.x += below.pixel) {
    for (int i = 0; i < 4; i++) {
      to[i * plane] = (int16_t)((above.x[i] ^ flip) - flip);
      to[i * plane + 1] = (int16_t)((below.x[i] ^ flip) - flip);
    }
  }
#endif
}

/*! \brief Copy the last, fewer than four channels of n columns of a pair of rows. */
static inline void tvmrt_micro_3x3_copy_tail(int16_t* to, int32_t plane, tvmrt_micro_source above,
                                             tvmrt_micro_source below, int32_t n, int32_t channels,
                                             int is_signed) {
  uint8_t first[4] = {0, 0, 0, 0}, second[4] = {0, 0, 0, 0};
  const tvmrt_micro_source four = {first, 0, 0}, next = {second, 0, 0};
  for (; n > 0; n--, to += 4, above.x += above.pixel, below.x += below.pixel) {
    for (int32_t i = 0; i < channels; i++) {
      first[i] = above.x[i];
      second[i] = below.x[i];
    }
    tvmrt_micro_3x3_copy(to, plane, four, next, 1, is_signed);
  }
}

/*! \brief Copy a pair of input rows into the line buffer, between columns of padding. */
TVMRT_NOINLINE void tvmrt_micro_3x3_copy_pair(const void* layer, int32_t image, int32_t pair) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_conv_i8* const c = d->conv;
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_line_buffer* const line_buffer = &s->layout.line_buffer;
  const uint8_t zero = (uint8_t)c->x_zero, padding[4] = {zero, zero, zero, zero};
  tvmrt_micro_source above = tvmrt_micro_find_source(d, image, 2 * pair, padding, 4);
  tvmrt_micro_source below = tvmrt_micro_find_source(d, image, 2 * pair + 1, padding, 4);
  int16_t* to = (int16_t*)d->line_buffer + tvmrt_micro_padding(s) * 4 + pair % 2 * 2;
  for (int32_t channel = 0; channel < s->in_c; channel += 4, to += 4 * line_buffer->plane) {
    const int32_t rest = s->in_c - channel;
    if (rest < 4) {
      tvmrt_micro_3x3_copy_tail(to, line_buffer->plane, above, below, line_buffer->inside, rest,
                                c->x_signed);
    } else {
      tvmrt_micro_3x3_copy(to, line_buffer->plane, above, below, line_buffer->inside, c->x_signed);
    }
    above.x += above.channels;
    below.x += below.channels;
  }
}

/* tvmrt_micro_3x3_accumulators(sums, bias, x, end, w, rows, newer): accumulates one channel of a
 * step's rows, from its columns x to end in the line buffer. `newer` is 1 if the newer pair is the
 * second one in memory. */
#if TVMRT_MICRO_ASM
/* a kernel column and two output rows, or one; the older pair is O, the newer one N, and the first
 * row adds to FROM */
#define TVMRT_MICRO_3X3_TWO(AT, A, B, O, N, FROM) \
  "ldrd %[x0], %[x1], [%[x]" AT                   \
  "\n"                                            \
  "smlad %[a], %[" O "], %[" A "], %[" FROM       \
  "]\n"                                           \
  "smlabt %[a], %[" N "], %[" B                   \
  "], %[a]\n"                                     \
  "smlatb %[b], %[" O "], %[" A                   \
  "], %[b]\n"                                     \
  "smlad %[b], %[" N "], %[" B "], %[b]\n"
#define TVMRT_MICRO_3X3_ONE(AT, A, B, O, N, FROM) \
  "ldrd %[x0], %[x1], [%[x]" AT                   \
  "\n"                                            \
  "smlad %[a], %[" O "], %[" A "], %[" FROM       \
  "]\n"                                           \
  "smlabt %[a], %[" N "], %[" B "], %[a]\n"
/* b has the bias, x0 the end of the columns */
#define TVMRT_MICRO_3X3_NEXT "ldrd %[b], %[x0], %[kept]\ncmp %[x], %[x0]\nbne 1b\n"
#define TVMRT_MICRO_3X3_LOOP_TWO(O, N)                                     \
  "1:\n" TVMRT_MICRO_3X3_TWO("], #8", "a0", "b0", O, N, "b")               \
      TVMRT_MICRO_3X3_TWO("]", "a1", "b1", O, N, "a") TVMRT_MICRO_3X3_TWO( \
          ", #8]", "a2", "b2", O, N,                                       \
          "a") "str %[b], [%[s], #16]\nstr %[a], [%[s]], #32\n" TVMRT_MICRO_3X3_NEXT
#define TVMRT_MICRO_3X3_LOOP_ONE(O, N)                                         \
  "1:\n" TVMRT_MICRO_3X3_ONE("], #8", "a0", "b0", O, N, "b")                   \
      TVMRT_MICRO_3X3_ONE("], #8", "a1", "b1", O, N, "a") TVMRT_MICRO_3X3_ONE( \
          "]", "a2", "b2", O, N, "a") "str %[a], [%[s]], #32\n" TVMRT_MICRO_3X3_NEXT
#define TVMRT_MICRO_3X3_RUN(LOOP)                                                              \
  __asm volatile(                                                                              \
      LOOP                                                                                     \
      : [a] "=&r"(a), [b] "+r"(b), [x0] "=&r"(x0), [x1] "=&r"(x1), [x] "+r"(x), [s] "+r"(sums) \
      : [a0] "r"(a0), [a1] "r"(a1), [a2] "r"(a2), [b0] "r"(b0), [b1] "r"(b1), [b2] "r"(b2),    \
        [kept] "m"(kept)                                                                       \
      : "cc", "memory")

TVMRT_INLINE void tvmrt_micro_3x3_accumulators(int32_t* sums, int32_t bias, const int16_t* x,
                                               const int16_t* end, const int16_t* w, int32_t rows,
                                               int32_t newer) {
  uint32_t a, b = (uint32_t)bias, x0, x1, a0, a1, a2, b0, b1, b2;
  memcpy(&a0, TVMRT_ALIGNED(w, 4), 4);
  memcpy(&a1, TVMRT_ALIGNED(w + 2, 4), 4);
  memcpy(&a2, TVMRT_ALIGNED(w + 4, 4), 4);
  memcpy(&x0, TVMRT_ALIGNED(w + 6, 4), 4);
  memcpy(&x1, TVMRT_ALIGNED(w + 8, 4), 4);
  b0 = a0 >> 16 | x0 << 16;
  __asm("pkhtb %0, %1, %2, asr #16" : "=r"(b1) : "r"(x0), "r"(a1));
  __asm("pkhtb %0, %1, %2, asr #16" : "=r"(b2) : "r"(x1), "r"(a2));
  const struct {
    int32_t bias;
    const int16_t* end;
  } kept = {bias, end};
  if (rows == 2 && newer) {
    TVMRT_MICRO_3X3_RUN(TVMRT_MICRO_3X3_LOOP_TWO("x0", "x1"));
  } else if (rows == 2) {
    TVMRT_MICRO_3X3_RUN(TVMRT_MICRO_3X3_LOOP_TWO("x1", "x0"));
  } else if (newer) {
    TVMRT_MICRO_3X3_RUN(TVMRT_MICRO_3X3_LOOP_ONE("x0", "x1"));
  } else {
    TVMRT_MICRO_3X3_RUN(TVMRT_MICRO_3X3_LOOP_ONE("x1", "x0"));
  }
}
#else
TVMRT_INLINE void tvmrt_micro_3x3_accumulators(int32_t* sums, int32_t bias, const int16_t* x,
                                               const int16_t* end, const int16_t* w, int32_t rows,
                                               int32_t newer) {
  const int16_t *older = x + (newer ? 0 : 2), *below = x + (newer ? 2 : 0);
  int32_t first[3], second[3], third[3]; /* weights of the kernel's rows */
  TVMRT_UNROLL(3) for (int i = 0; i < 3; i++) {
    first[i] = w[2 * i];
    second[i] = w[2 * i + 1];
    third[i] = w[i == 2 ? 9 : 6 + i];
  }
  for (int32_t left = (int32_t)(end - x); left > 0; left -= 12 - 4 * rows) {
    int32_t a = bias, b = bias;
    TVMRT_UNROLL(3) for (int i = 0; i < 3; i++) {
      const int32_t x1 = older[4 * i + 1], x2 = below[4 * i];
      TVMRT_WRAP_ADD_TO(a, older[4 * i] * first[i] + x1 * second[i] + x2 * third[i]);
      if (rows == 2) {
        TVMRT_WRAP_ADD_TO(b, x1 * first[i] + x2 * second[i] + below[4 * i + 1] * third[i]);
      }
    }
    older += 12 - 4 * rows;
    below += 12 - 4 * rows;
    sums[0] = a;
    if (rows == 2) sums[4] = b;
    sums += 8;
  }
}
#endif

/*! \brief Accumulate four channels of a step's rows. */
TVMRT_NOINLINE_TIGHT void tvmrt_micro_3x3_quad(const tvmrt_micro_layer* d, int32_t channel,
                                               int32_t newer) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int16_t* w = (const int16_t*)d->data->weights + channel * 10;
  const int32_t plane = s->layout.line_buffer.plane;
  const int16_t* x = (const int16_t*)d->line_buffer + channel * plane;
  const int32_t* bias = d->data->bias + channel;
  const int32_t reach = s->out[1] * s->stride[1] * 4, stride = s->stride[0];
  int32_t *sums = d->sums, *const end = sums + 4;
  do {
    if (stride == 1) { /* a step computes two rows */
      tvmrt_micro_3x3_accumulators(sums, *bias, x, x + reach, w, 2, newer);
    } else {
      tvmrt_micro_3x3_accumulators(sums, *bias, x, x + reach, w, 1, newer);
    }
    sums++;
    bias++;
    w += 10;
    x += plane;
  } while (sums != end);
}

/*! \brief Compute the output rows of a step; a slot is a pair. */
static inline void tvmrt_micro_3x3_step(const void* layer, int32_t top, int32_t rows,
                                        int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  for (int32_t channel = 0; channel < d->conv->shape.out_c; channel += 4) {
    tvmrt_micro_3x3_quad(d, channel, slot % 2 == 0);
    for (int32_t row = 0; row < rows; row++) {
      tvmrt_micro_quad_finish(d, d->sums + 4 * row, 8, top + row, channel);
    }
  }
}

/*! \brief Return the kernel's tile; in_c is out_c, dilation is 1, strides are both 1 or 2. */
TVMRT_INLINE tvmrt_micro_tile tvmrt_micro_3x3_tile(const tvmrt_micro_conv_i8* c) {
  const tvmrt_micro_tile tile = {
      {tvmrt_micro_3x3_copy_pair, tvmrt_micro_3x3_step, 2, 1, 3 - c->shape.stride[0]},
      2,
      32 * c->shape.out[1],
      (uint16_t)c->x_zero * 0x00010001u};
  return tile;
}

TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_3x3_i8, tvmrt_micro_3x3_tile(c))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_ */
