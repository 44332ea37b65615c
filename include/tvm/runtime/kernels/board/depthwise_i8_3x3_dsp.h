/*!
 * \file board/depthwise_i8_3x3_dsp.h
 * \brief Depthwise 3 x 3 convolution of 8-bit tensors on microcontrollers, stride 1 or 2.
 *
 * The line buffer (board/line_buffer.h) holds two pairs of rows as int8: [channel][column][4 rows].
 * SMLAD multiplies the first and the third row of a window with two weights of a kernel column. A
 * step uses the previous step's pair and a new one: with stride 1 it computes two output rows, with
 * stride 2 one. The accumulators of four channels of these rows are in scratch, before the line
 * buffer: [column][2 output rows][4].
 *
 * uint8 activations are shifted by 128 while they are copied; the folded bias compensates.
 *
 * Packed weights: int16 [channel][10], aligned to 4 bytes: the first and the third row of each
 * kernel column, then the second row: w[0][0], w[2][0], w[0][1], w[2][1], w[0][2], w[2][2],
 * w[1][0], w[1][1], w[1][2], 0. Weights, bias and scales: per channel, to a multiple of four
 * channels.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_

#include "requantize_i8_4ch_dsp.h"

#if TVMRT_MICRO_ASM
/* Copy columns of four channels: bytes of two rows of channels 0 and 2, then of 1 and 3. */
#define TVMRT_MICRO_3X3_COPY(FLIP)                                                          \
  __asm volatile(                                                                           \
      "1:\nldr %[e], [%[above]]\nldr %[f], [%[below]]\n"                                    \
      "add %[above], %[above], %[above_step]\nadd %[below], %[below], %[below_step]\n" FLIP \
      "uxtb16 %[g], %[e], ror #8\nuxtb16 %[e], %[e]\nuxtb16 %[h], %[f], ror #8\n"           \
      "uxtb16 %[f], %[f]\norr %[e], %[e], %[f], lsl #8\norr %[g], %[g], %[h], lsl #8\n"     \
      "strh %[e], [%[to]]\nlsr %[e], %[e], #16\nstrh %[g], [%[to], %[plane]]\n"             \
      "lsr %[g], %[g], #16\nstrh %[e], [%[to], %[plane], lsl #1]\n"                         \
      "strh %[g], [%[to], %[planes]]\nadd %[to], %[to], #4\nsubs %[n], %[n], #1\nbne 1b\n"  \
      : [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h), [above] "+r"(above.x),      \
        [below] "+r"(below.x), [to] "+r"(to), [n] "+r"(n)                                   \
      : [above_step] "r"(above.pixel), [below_step] "r"(below.pixel), [plane] "r"(plane),   \
        [planes] "r"(3 * plane)                                                             \
      : "cc", "memory")
#endif

/*! \brief Copy four channels of n columns of a pair of rows to the channels' planes. */
TVMRT_NOINLINE void tvmrt_micro_3x3_copy(int8_t* to, int32_t plane, tvmrt_micro_source above,
                                         tvmrt_micro_source below, int32_t n, int is_signed) {
#if TVMRT_MICRO_ASM
  uint32_t e, f, g, h;
  if (n <= 0) return;
  if (is_signed) {
    TVMRT_MICRO_3X3_COPY("");
  } else {
    TVMRT_MICRO_3X3_COPY("eor %[e], %[e], #0x80808080\neor %[f], %[f], #0x80808080\n");
  }
#else
  const int32_t flip = is_signed ? 0x80 : 0; /* (v ^ 0x80) - 0x80 extends the sign */
  for (; n > 0; n--, to += 4, above.x += above.pixel, below.x += below.pixel) {
    for (int i = 0; i < 4; i++) {
      to[i * plane] = (int8_t)((above.x[i] ^ flip) - 0x80);
      to[i * plane + 1] = (int8_t)((below.x[i] ^ flip) - 0x80);
    }
  }
#endif
}

/*! \brief Copy the last, fewer than four channels of n columns of a pair of rows. */
static inline void tvmrt_micro_3x3_copy_tail(int8_t* to, int32_t plane, tvmrt_micro_source above,
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
  int8_t* to = (int8_t*)d->line_buffer + tvmrt_micro_padding(s) * 4 + pair % 2 * 2;
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
/* p has the first row of each pair of a column's four rows, q the second one */
#define TVMRT_MICRO_3X3_LOAD(AT) "ldr %[p], [%[x]" AT "\n"
#define TVMRT_MICRO_3X3_WIDEN "sxtb16 %[q], %[p], ror #8\nsxtb16 %[p], %[p]\n"
/* Add weights OUTER of a window's first and third row, or the one of the second row, which is half
 * HALF of INNER, to TO; it begins with FROM. */
#define TVMRT_MICRO_3X3_OUTER(SMLAD, TO, X, FROM, OUTER, HALF, INNER) \
  SMLAD " %[" TO "], %[" X "], %[" OUTER "], %[" FROM "]\n"
#define TVMRT_MICRO_3X3_INNER(SIDE, TO, X, FROM, OUTER, HALF, INNER) \
  "smla" SIDE HALF " %[" TO "], %[" X "], %[" INNER "], %[" FROM "]\n"
#define TVMRT_MICRO_3X3_W0 "w0", "b", "w3" /* OUTER, HALF, INNER of kernel column 0 */
#define TVMRT_MICRO_3X3_W1 "w1", "t", "w3"
#define TVMRT_MICRO_3X3_W2 "w2", "b", "w4"
/* Products of the first output row A and the second one B: with q of A, p of A, p of B, q of B. O,
 * N: halves of the older and the newer pair; SMLAD: with X if the newer pair is the first one. */
#define TVMRT_MICRO_3X3_QA(SMLAD, O, N, A, FROM, ...) \
  TVMRT_MICRO_3X3_INNER(O, A, "q", FROM, __VA_ARGS__)
#define TVMRT_MICRO_3X3_PA(SMLAD, O, N, A, FROM, ...) \
  TVMRT_MICRO_3X3_OUTER(SMLAD, A, "p", FROM, __VA_ARGS__)
#define TVMRT_MICRO_3X3_PB(SMLAD, O, N, B, FROM, ...) \
  TVMRT_MICRO_3X3_INNER(N, B, "p", FROM, __VA_ARGS__)
#define TVMRT_MICRO_3X3_QB(SMLAD, O, N, B, ...) TVMRT_MICRO_3X3_OUTER(SMLAD, B, "q", B, __VA_ARGS__)
#define TVMRT_MICRO_3X3_QPP(SMLAD, O, N, A, B, FROM_A, FROM_B, ...) \
  TVMRT_MICRO_3X3_QA(SMLAD, O, N, A, FROM_A, __VA_ARGS__)           \
  TVMRT_MICRO_3X3_PA(SMLAD, O, N, A, A, __VA_ARGS__)                \
  TVMRT_MICRO_3X3_PB(SMLAD, O, N, B, FROM_B, __VA_ARGS__)
/* clang-format off */
/* a, b: sums of an output column; c, d: of the next one. d begins with the bias. Other instructions
 * are between products, because a Cortex-M7 issues both together. */
#define TVMRT_MICRO_3X3_LOOP_TWO(...)                                                             \
  "1:\n" TVMRT_MICRO_3X3_LOAD("], #4")                                                            \
  TVMRT_MICRO_3X3_WIDEN                                                                           \
  TVMRT_MICRO_3X3_QPP(__VA_ARGS__, "a", "b", "d", "d", TVMRT_MICRO_3X3_W0)                        \
  TVMRT_MICRO_3X3_LOAD("], #4") TVMRT_MICRO_3X3_QB(__VA_ARGS__, "b", TVMRT_MICRO_3X3_W0)          \
  TVMRT_MICRO_3X3_WIDEN                                                                           \
  TVMRT_MICRO_3X3_QPP(__VA_ARGS__, "a", "b", "a", "b", TVMRT_MICRO_3X3_W1)                        \
  TVMRT_MICRO_3X3_QPP(__VA_ARGS__, "c", "d", "d", "d", TVMRT_MICRO_3X3_W0)                        \
  TVMRT_MICRO_3X3_LOAD("]") TVMRT_MICRO_3X3_QB(__VA_ARGS__, "b", TVMRT_MICRO_3X3_W1)              \
  TVMRT_MICRO_3X3_QB(__VA_ARGS__, "d", TVMRT_MICRO_3X3_W0)                                        \
  TVMRT_MICRO_3X3_WIDEN                                                                           \
  TVMRT_MICRO_3X3_QPP(__VA_ARGS__, "a", "b", "a", "b", TVMRT_MICRO_3X3_W2)                        \
  TVMRT_MICRO_3X3_QPP(__VA_ARGS__, "c", "d", "c", "d", TVMRT_MICRO_3X3_W1)                        \
  TVMRT_MICRO_3X3_LOAD(", #4]") TVMRT_MICRO_3X3_QB(__VA_ARGS__, "b", TVMRT_MICRO_3X3_W2)          \
  TVMRT_MICRO_3X3_QB(__VA_ARGS__, "d", TVMRT_MICRO_3X3_W1)                                        \
  TVMRT_MICRO_3X3_WIDEN                                                                           \
  TVMRT_MICRO_3X3_QA(__VA_ARGS__, "c", "c", TVMRT_MICRO_3X3_W2) "str %[b], [%[s], #16]\n"         \
  TVMRT_MICRO_3X3_PA(__VA_ARGS__, "c", "c", TVMRT_MICRO_3X3_W2) "str %[a], [%[s]], #64\n"         \
  TVMRT_MICRO_3X3_PB(__VA_ARGS__, "d", "d", TVMRT_MICRO_3X3_W2) "str %[c], [%[s], #-32]\n"        \
  TVMRT_MICRO_3X3_QB(__VA_ARGS__, "d", TVMRT_MICRO_3X3_W2)                                        \
  "str %[d], [%[s], #-16]\n" TVMRT_MICRO_3X3_NEXT
#define TVMRT_MICRO_3X3_LOOP_ONE(...)                                                             \
  "1:\n" TVMRT_MICRO_3X3_LOAD("], #4")                                                            \
  TVMRT_MICRO_3X3_WIDEN TVMRT_MICRO_3X3_PA(__VA_ARGS__, "a", "d", TVMRT_MICRO_3X3_W0)             \
  TVMRT_MICRO_3X3_LOAD("], #4") TVMRT_MICRO_3X3_QA(__VA_ARGS__, "a", "a", TVMRT_MICRO_3X3_W0)     \
  TVMRT_MICRO_3X3_WIDEN TVMRT_MICRO_3X3_PA(__VA_ARGS__, "a", "a", TVMRT_MICRO_3X3_W1)             \
  TVMRT_MICRO_3X3_LOAD("], #4") TVMRT_MICRO_3X3_QA(__VA_ARGS__, "a", "a", TVMRT_MICRO_3X3_W1)     \
  TVMRT_MICRO_3X3_WIDEN TVMRT_MICRO_3X3_PA(__VA_ARGS__, "a", "a", TVMRT_MICRO_3X3_W2)             \
  TVMRT_MICRO_3X3_PA(__VA_ARGS__, "c", "d", TVMRT_MICRO_3X3_W0)                                   \
  TVMRT_MICRO_3X3_LOAD("], #4") TVMRT_MICRO_3X3_QA(__VA_ARGS__, "a", "a", TVMRT_MICRO_3X3_W2)     \
  TVMRT_MICRO_3X3_QA(__VA_ARGS__, "c", "c", TVMRT_MICRO_3X3_W0)                                   \
  TVMRT_MICRO_3X3_WIDEN TVMRT_MICRO_3X3_PA(__VA_ARGS__, "c", "c", TVMRT_MICRO_3X3_W1)             \
  TVMRT_MICRO_3X3_LOAD("]") TVMRT_MICRO_3X3_QA(__VA_ARGS__, "c", "c", TVMRT_MICRO_3X3_W1)         \
  TVMRT_MICRO_3X3_WIDEN TVMRT_MICRO_3X3_PA(__VA_ARGS__, "c", "c", TVMRT_MICRO_3X3_W2)             \
  TVMRT_MICRO_3X3_QA(__VA_ARGS__, "c", "c", TVMRT_MICRO_3X3_W2)                                   \
  "str %[c], [%[s], #32]\nstr %[a], [%[s]], #64\n" TVMRT_MICRO_3X3_NEXT
/* one column, as for two rows: the last of an odd number */
#define TVMRT_MICRO_3X3_ONE_COLUMN(...)                                                           \
  TVMRT_MICRO_3X3_LOAD("], #4")                                                                   \
  TVMRT_MICRO_3X3_WIDEN                                                                           \
  TVMRT_MICRO_3X3_QPP(__VA_ARGS__, "a", "b", "d", "d", TVMRT_MICRO_3X3_W0)                        \
  TVMRT_MICRO_3X3_LOAD("], #4") TVMRT_MICRO_3X3_QB(__VA_ARGS__, "b", TVMRT_MICRO_3X3_W0)          \
  TVMRT_MICRO_3X3_WIDEN                                                                           \
  TVMRT_MICRO_3X3_QPP(__VA_ARGS__, "a", "b", "a", "b", TVMRT_MICRO_3X3_W1)                        \
  TVMRT_MICRO_3X3_LOAD("]") TVMRT_MICRO_3X3_QB(__VA_ARGS__, "b", TVMRT_MICRO_3X3_W1)              \
  TVMRT_MICRO_3X3_WIDEN                                                                           \
  TVMRT_MICRO_3X3_QPP(__VA_ARGS__, "a", "b", "a", "b", TVMRT_MICRO_3X3_W2)                        \
  TVMRT_MICRO_3X3_QB(__VA_ARGS__, "b", TVMRT_MICRO_3X3_W2)                                        \
  "str %[a], [%[s]]\nstr %[b], [%[s], #16]\n"
/* clang-format on */
/* p has the end of the pairs of columns */
#define TVMRT_MICRO_3X3_NEXT "ldrd %[d], %[p], %[kept]\ncmp %[x], %[p]\nbne 1b\n"
#define TVMRT_MICRO_3X3_RUN(LOOP)                                                              \
  __asm volatile(                                                                              \
      LOOP                                                                                     \
      : [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "+r"(d), [p] "=&r"(p), [q] "=&r"(q),     \
        [x] "+r"(x), [s] "+r"(sums)                                                            \
      : [w0] "r"(w0), [w1] "r"(w1), [w2] "r"(w2), [w3] "r"(w3), [w4] "r"(w4), [kept] "m"(kept) \
      : "cc", "memory")
#define TVMRT_MICRO_3X3_COLUMN(...)                                                     \
  __asm volatile(TVMRT_MICRO_3X3_ONE_COLUMN(__VA_ARGS__)                                \
                 : [a] "=&r"(a), [b] "=&r"(b), [p] "=&r"(p), [q] "=&r"(q), [x] "+r"(x)  \
                 : [d] "r"(d), [s] "r"(sums), [w0] "r"(w0), [w1] "r"(w1), [w2] "r"(w2), \
                   [w3] "r"(w3), [w4] "r"(w4)                                           \
                 : "memory")
#define TVMRT_MICRO_3X3_LAST                    \
  if (newer) {                                  \
    TVMRT_MICRO_3X3_COLUMN("smlad", "b", "t");  \
  } else {                                      \
    TVMRT_MICRO_3X3_COLUMN("smladx", "t", "b"); \
  }

TVMRT_INLINE void tvmrt_micro_3x3_accumulators(int32_t* sums, int32_t bias, const int8_t* x,
                                               const int8_t* end, const int16_t* w, int32_t rows,
                                               int32_t newer) {
  uint32_t a, b, d = (uint32_t)bias, p, q, w0, w1, w2, w3, w4;
  memcpy(&w0, TVMRT_ALIGNED(w, 4), 4);
  memcpy(&w1, TVMRT_ALIGNED(w + 2, 4), 4);
  memcpy(&w2, TVMRT_ALIGNED(w + 4, 4), 4);
  memcpy(&w3, TVMRT_ALIGNED(w + 6, 4), 4);
  memcpy(&w4, TVMRT_ALIGNED(w + 8, 4), 4);
#ifdef __clang__ /* it finds no registers for the operands of the loops over pairs of columns */
  for (; x < end; x += 4 - 4 * rows, sums += 8) { /* the assembly adds 8 to x */
    TVMRT_MICRO_3X3_LAST
  }
#else
  const int32_t odd = (int32_t)(end - x) & (12 - 4 * rows); /* bytes of a last column */
  uint32_t c;
  const struct {
    int32_t bias;
    const int8_t* end;
  } kept = {bias, end - odd};
  if (x == kept.end) {
    /* one column */
  } else if (rows == 2 && newer) {
    TVMRT_MICRO_3X3_RUN(TVMRT_MICRO_3X3_LOOP_TWO("smlad", "b", "t"));
  } else if (rows == 2) {
    TVMRT_MICRO_3X3_RUN(TVMRT_MICRO_3X3_LOOP_TWO("smladx", "t", "b"));
  } else if (newer) {
    TVMRT_MICRO_3X3_RUN(TVMRT_MICRO_3X3_LOOP_ONE("smlad", "b", "t"));
  } else {
    TVMRT_MICRO_3X3_RUN(TVMRT_MICRO_3X3_LOOP_ONE("smladx", "t", "b"));
  }
  if (odd) {
    TVMRT_MICRO_3X3_LAST
  }
#endif
}
#else
TVMRT_INLINE void tvmrt_micro_3x3_accumulators(int32_t* sums, int32_t bias, const int8_t* x,
                                               const int8_t* end, const int16_t* w, int32_t rows,
                                               int32_t newer) {
  const int8_t *older = x + (newer ? 0 : 2), *below = x + (newer ? 2 : 0);
  int32_t first[3], second[3], third[3]; /* weights of the kernel's rows */
  TVMRT_UNROLL(3) for (int i = 0; i < 3; i++) {
    first[i] = w[2 * i];
    second[i] = w[6 + i];
    third[i] = w[2 * i + 1];
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
  const int8_t* x = (const int8_t*)d->line_buffer + channel * plane;
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
      tvmrt_micro_int8_padding(c) * 0x01010101u};
  return tile;
}

TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_3x3_i8, tvmrt_micro_3x3_tile(c))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_DSP_H_ */
