/*!
 * \file board/depthwise_i8_7x7_dsp.h
 * \brief Depthwise convolution of 8-bit tensors on microcontrollers, kernels of 4 to 7 columns.
 *
 * The line buffer (board/line_buffer.h) holds rows as int16: [channel][row of the buffer][column].
 * A word is two neighbouring columns, which SMLAD multiplies with two weights of a kernel row. A
 * window begins with the lower column of a word or, with stride 1, with the upper one. In the
 * second case it uses the same words with the weights shifted by one column. Four neighbouring
 * outputs are accumulated at a time.
 *
 * Packed weights: int8 [channel][kernel row][word][2], in quads (board/common_i8.h), aligned to 4
 * bytes. A row has 5 or 7 weights, the last may be 0. With stride 1 its words are w0 w1, w1 w2, w2
 * w3 and so on: even words are for windows that begin with a lower column, odd ones for the upper
 * column. With stride 2 they are w0 w1, w2 w3, w4 w5, w6 0. Weights, bias and scales: per channel,
 * to a multiple of four channels.
 *
 * Scratch before the line buffer holds the accumulators of a row of four channels, [column, to a
 * multiple of four][4], and a record of each kernel row: its address and its words of weights,
 * widened once for all outputs of a channel in a row.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_7X7_DSP_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_7X7_DSP_H_

#include "copy_quad.h"
#include "requantize_i8_4ch_dsp.h"

/*! \brief Words of weights of a kernel row. */
#define TVMRT_MICRO_WIDE_WORDS(taps, stride) ((stride) == 1 ? (taps)-1 : 4)
/*! \brief Words after the record of the last row, as many as are loaded at once. */
#define TVMRT_MICRO_WIDE_END 3

/*!
 * \brief The record of a layer, after the sums: for each kernel row the elements from a plane to
 * the row, and its words of weights; then -1.
 */
TVMRT_INLINE int32_t* tvmrt_micro_wide_record(const tvmrt_micro_layer* d) {
  return d->sums + (d->conv->shape.out[1] + 3) / 4 * 16;
}

#if TVMRT_MICRO_ASM
/* Copy two columns of four channels; widening yields channels 0 and 2, then 1 and 3. */
#define TVMRT_MICRO_WIDE_COPY(WIDEN)                                                            \
  __asm volatile(                                                                               \
      "1:\nldr %[e], [%[x]]\nldr %[f], [%[x], %[step]]\n"                                       \
      "add %[x], %[x], %[step], lsl #1\n" WIDEN " %[g], %[e], ror #8\n" WIDEN                   \
      " %[e], %[e]\n" WIDEN " %[h], %[f], ror #8\n" WIDEN                                       \
      " %[f], %[f]\n"                                                                           \
      "pkhbt %[t], %[e], %[f], lsl #16\npkhtb %[f], %[f], %[e], asr #16\n"                      \
      "str %[f], [%[to], %[plane], lsl #1]\nstr %[t], [%[to]]\n"                                \
      "pkhbt %[t], %[g], %[h], lsl #16\npkhtb %[h], %[h], %[g], asr #16\n"                      \
      "str %[t], [%[to], %[plane]]\nstr %[h], [%[to], %[planes]]\n"                             \
      "adds %[to], %[to], #4\nsubs %[n], %[n], #2\nbgt 1b\n"                                    \
      : [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h), [t] "=&r"(t), [x] "+r"(from.x), \
        [to] "+r"(to), [n] "+r"(pairs)                                                          \
      : [step] "r"(from.pixel), [plane] "r"(plane), [planes] "r"(planes)                        \
      : "cc", "memory")

/*! \brief Copy n columns of four channels of bytes; `odd`: the first one is the upper column of a
 * word. */
TVMRT_NOINLINE void tvmrt_micro_wide_copy(const tvmrt_micro_conv_i8* c, int16_t* to,
                                          tvmrt_micro_quad_layout at, tvmrt_micro_source from,
                                          int32_t n, int32_t odd) {
  const int32_t plane = 2 * at.second, planes = 3 * plane;
  uint32_t e, f, g, h, t;
  if (odd && n > 0) {
    tvmrt_micro_copy_quad(c, to++, at, from, 1, 4);
    from.x += from.pixel;
    n--;
  }
  int32_t pairs = n & ~1;
  if (pairs > 0 && c->x_signed) {
    TVMRT_MICRO_WIDE_COPY("sxtb16");
  } else if (pairs > 0) {
    TVMRT_MICRO_WIDE_COPY("uxtb16");
  }
  if (n & 1) tvmrt_micro_copy_quad(c, to, at, from, 1, 4);
}
#endif

/*! \brief Copy an input row into the line buffer, between columns of padding; a slot is a row. */
TVMRT_NOINLINE void tvmrt_micro_wide_copy_row(const void* layer, int32_t image, int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_conv_i8* const c = d->conv;
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_line_buffer* const line_buffer = &s->layout.line_buffer;
  const int32_t pad = tvmrt_micro_padding(s);
  const uint8_t zero = (uint8_t)c->x_zero, padding[8] = {zero, zero, zero, zero};
  tvmrt_micro_source from = tvmrt_micro_find_source(d, image, slot, padding, 4);
  const tvmrt_micro_quad_layout at = {1, line_buffer->plane, 2 * line_buffer->plane};
  int16_t* to = (int16_t*)d->line_buffer + tvmrt_micro_line_offset(s, slot) + pad;
  for (int32_t channel = 0; channel < s->in_c; channel += 4, to += 4 * line_buffer->plane) {
    const int32_t n = line_buffer->inside, left = s->in_c - channel;
#if TVMRT_MICRO_ASM
    if (left >= 4 && !TVMRT_MICRO_IS_INT16(c)) {
      tvmrt_micro_wide_copy(c, to, at, from, n, pad & 1);
    } else
#endif
    {
      tvmrt_micro_copy_quad(c, to, at, from, n, left);
    }
    from.x += from.channels;
  }
}

/*! \brief Outputs of a channel, whose sums are 4 apart. */
typedef struct tvmrt_micro_wide_outputs {
  const int32_t* record;
  int32_t bias;
  int32_t *sums, *end; /* the next ones, and the end; groups of four are written whole */
} tvmrt_micro_wide_outputs;

/* tvmrt_micro_wide_weights(record, w, taps, stride): writes the weights of a channel into the
 * record; returns those of the next one. tvmrt_micro_wide_accumulate(outputs, x, taps, stride):
 * accumulates a channel. */
#if TVMRT_MICRO_ASM

/* Widen two quads of weights, and one, into the record. */
#define TVMRT_MICRO_WIDE_WIDEN_TWO                                  \
  "ldrd r3, r5, [%[w]], #8\nsxtb16 r4, r3, ror #8\nsxtb16 r3, r3\n" \
  "sxtb16 r6, r5, ror #8\nsxtb16 r5, r5\nstmia %[to]!, {r3-r6}\n"
#define TVMRT_MICRO_WIDE_WIDEN_ONE \
  "ldr r3, [%[w]], #4\nsxtb16 r4, r3, ror #8\nsxtb16 r3, r3\nstmia %[to]!, {r3, r4}\n"
#define TVMRT_MICRO_WIDE_WIDEN(QUADS)                              \
  __asm volatile("ldr %[at], [%[to]], #4\n1:\n" QUADS              \
                 "ldr %[at], [%[to]], #4\ncmp %[at], #0\nbge 1b\n" \
                 : [at] "=&r"(at), [to] "+r"(record), [w] "+r"(w)  \
                 :                                                 \
                 : "r3", "r4", "r5", "r6", "cc", "memory")

TVMRT_INLINE const int8_t* tvmrt_micro_wide_weights(int32_t* record, const int8_t* w, int taps,
                                                    int32_t stride) {
  int32_t at;
  if (TVMRT_MICRO_WIDE_WORDS(taps, stride) == 4) {
    TVMRT_MICRO_WIDE_WIDEN(TVMRT_MICRO_WIDE_WIDEN_TWO);
  } else {
    TVMRT_MICRO_WIDE_WIDEN(TVMRT_MICRO_WIDE_WIDEN_TWO TVMRT_MICRO_WIDE_WIDEN_ONE);
  }
  return w;
}

/* r3 is the address of the row, r4 and r5 are words of weights; the end mark sets the carry. r6, r8
 * and r10 are words of columns. */
#define TVMRT_MICRO_WIDE_ROW "ldmia %[w]!, {r3-r5}\nadds r3, %[x], r3, lsl #1\n"
#define TVMRT_MICRO_WIDE_WEIGHTS "ldrd r4, r5, [%[w]], #8\n"
#define TVMRT_MICRO_WIDE_BOTH(SUM, X, W) "smlad %[" SUM "], " X ", " W ", %[" SUM "]\n"
#define TVMRT_MICRO_WIDE_UPPER(SUM, X, W) "smlatb %[" SUM "], " X ", " W ", %[" SUM "]\n"
#define TVMRT_MICRO_WIDE_LOWER(SUM, X, W) "smlabt %[" SUM "], " X ", " W ", %[" SUM "]\n"

/* clang-format off */
/* The first two words of weights, of windows that begin in both halves of X0 and X1. */
#define TVMRT_MICRO_WIDE_BEGIN(X0, X1) \
  TVMRT_MICRO_WIDE_EVEN(X0, X1) \
  TVMRT_MICRO_WIDE_UPPER("b", X0, "r4") TVMRT_MICRO_WIDE_UPPER("d", X1, "r4")
/* A word of weights of windows that begin with a lower column, and with an upper one. */
#define TVMRT_MICRO_WIDE_EVEN(X0, X1) \
  TVMRT_MICRO_WIDE_BOTH("a", X0, "r4") TVMRT_MICRO_WIDE_BOTH("c", X1, "r4")
#define TVMRT_MICRO_WIDE_ODD(X0, X1) \
  TVMRT_MICRO_WIDE_BOTH("b", X0, "r5") TVMRT_MICRO_WIDE_BOTH("d", X1, "r5")
/* The second weight of the last word, which the first windows use too. */
#define TVMRT_MICRO_WIDE_LAST(X0, X1) \
  TVMRT_MICRO_WIDE_LOWER("a", X0, "r5") TVMRT_MICRO_WIDE_LOWER("c", X1, "r5")
#define TVMRT_MICRO_WIDE_5 \
  "ldmia r3, {r3, r6, r8, r10}\n" \
  TVMRT_MICRO_WIDE_BEGIN("r3", "r6") TVMRT_MICRO_WIDE_ODD("r6", "r8") TVMRT_MICRO_WIDE_WEIGHTS \
  TVMRT_MICRO_WIDE_EVEN("r6", "r8") TVMRT_MICRO_WIDE_ODD("r8", "r10") \
  TVMRT_MICRO_WIDE_LAST("r8", "r10")
#define TVMRT_MICRO_WIDE_7 \
  "ldmia r3, {r6, r8, r10}\n" \
  TVMRT_MICRO_WIDE_BEGIN("r6", "r8") TVMRT_MICRO_WIDE_ODD("r8", "r10") TVMRT_MICRO_WIDE_WEIGHTS \
  TVMRT_MICRO_WIDE_EVEN("r8", "r10") "ldrd r6, r8, [r3, #12]\n" \
  TVMRT_MICRO_WIDE_ODD("r10", "r6") TVMRT_MICRO_WIDE_WEIGHTS \
  TVMRT_MICRO_WIDE_EVEN("r10", "r6") TVMRT_MICRO_WIDE_ODD("r6", "r8") \
  TVMRT_MICRO_WIDE_LAST("r6", "r8")

/* Stride 2: two words of weights, and LOAD of the next columns into X0 and X1. */
#define TVMRT_MICRO_WIDE_TWO(X0, X1, X2, LOAD) \
  TVMRT_MICRO_WIDE_BOTH("a", X0, "r4") TVMRT_MICRO_WIDE_BOTH("a", X1, "r5") \
  TVMRT_MICRO_WIDE_BOTH("b", X1, "r4") TVMRT_MICRO_WIDE_BOTH("b", X2, "r5") \
  TVMRT_MICRO_WIDE_BOTH("c", X2, "r4") LOAD TVMRT_MICRO_WIDE_BOTH("c", X0, "r5") \
  TVMRT_MICRO_WIDE_BOTH("d", X0, "r4") TVMRT_MICRO_WIDE_BOTH("d", X1, "r5")
#define TVMRT_MICRO_WIDE_TWO_FIRST \
  "ldmia r3, {r6, r8, r10}\n" \
  TVMRT_MICRO_WIDE_TWO("r6", "r8", "r10", "ldrd r6, r8, [r3, #12]\n") TVMRT_MICRO_WIDE_WEIGHTS
#define TVMRT_MICRO_WIDE_5_BY_TWO \
  TVMRT_MICRO_WIDE_TWO_FIRST TVMRT_MICRO_WIDE_EVEN("r10", "r8") \
  TVMRT_MICRO_WIDE_BOTH("b", "r6", "r4") "ldr r6, [r3, #20]\n" \
  TVMRT_MICRO_WIDE_BOTH("d", "r6", "r4")
#define TVMRT_MICRO_WIDE_7_BY_TWO \
  TVMRT_MICRO_WIDE_TWO_FIRST TVMRT_MICRO_WIDE_TWO("r10", "r6", "r8", "ldrd r10, r6, [r3, #20]\n")
/* clang-format on */

/* Four sums per iteration; COLUMNS adds a row; `run` points to the outputs. */
#define TVMRT_MICRO_WIDE_RUN(COLUMNS)                                                        \
  __asm volatile(                                                                            \
      "1:\nldrd %[w], %[a], [%[run]]\nmov %[b], %[a]\nmov %[c], %[a]\nmov %[d], "            \
      "%[a]\n" TVMRT_MICRO_WIDE_ROW "2:\n" COLUMNS TVMRT_MICRO_WIDE_ROW                      \
      "bcc 2b\nldrd r3, r4, [%[run], #8]\nadd %[x], %[x], %[step]\n"                         \
      "str %[a], [r3], #16\nstr %[b], [r3], #16\nstr %[c], [r3], #16\nstr %[d], [r3], #16\n" \
      "str r3, [%[run], #8]\ncmp r3, r4\nblo 1b\n"                                           \
      : [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [w] "=&r"(w), [x] "+r"(x)    \
      : [run] "r"(&outputs), [step] "i"(8 * stride)                                          \
      : "r3", "r4", "r5", "r6", "r8", "r10", "cc", "memory")

TVMRT_INLINE void tvmrt_micro_wide_accumulate(tvmrt_micro_wide_outputs outputs, const int16_t* x,
                                              int taps, int32_t stride) {
  int32_t a, b, c, d;
  const int32_t* w;
  if (taps == 5 && stride == 1) {
    TVMRT_MICRO_WIDE_RUN(TVMRT_MICRO_WIDE_5);
  } else if (taps == 5) {
    TVMRT_MICRO_WIDE_RUN(TVMRT_MICRO_WIDE_5_BY_TWO);
  } else if (stride == 1) {
    TVMRT_MICRO_WIDE_RUN(TVMRT_MICRO_WIDE_7);
  } else {
    TVMRT_MICRO_WIDE_RUN(TVMRT_MICRO_WIDE_7_BY_TWO);
  }
}
#else
TVMRT_INLINE const int8_t* tvmrt_micro_wide_weights(int32_t* record, const int8_t* w, int taps,
                                                    int32_t stride) {
  while (*record++ >= 0) {
    for (int32_t i = TVMRT_MICRO_WIDE_WORDS(taps, stride); i > 0; i -= 2, w += 4) {
      *record++ = (int32_t)((uint32_t)w[0] & 0xFFFF) + w[2] * 0x10000;
      *record++ = (int32_t)((uint32_t)w[1] & 0xFFFF) + w[3] * 0x10000;
    }
  }
  return w;
}

/*! \brief A weight of a row. With stride 1 it is the first of its word (the last weight: the second
 * of the last word); with stride 2 weights are contiguous. */
TVMRT_INLINE int32_t tvmrt_micro_wide_weight(const int32_t* words, int32_t tap, int taps,
                                             int32_t stride) {
  const int32_t place = stride == 2 ? tap : tap == taps - 1 ? 2 * tap - 1 : 2 * tap;
  const int32_t word = words[place / 2];
  return place % 2 ? word >> 16 : (int16_t)word;
}

/*! \brief Accumulate four neighbouring sums. */
TVMRT_INLINE void tvmrt_micro_wide_four(int32_t* sums, const int32_t* record, const int16_t* x,
                                        int32_t bias, int taps, int32_t stride) {
  int32_t a = bias, b = a, c = a, d = a;
  for (; *record >= 0; record += 1 + TVMRT_MICRO_WIDE_WORDS(taps, stride)) {
    const int16_t* at = x + *record;
    for (int32_t tap = 0; tap < taps; tap++, at++) {
      const int32_t weight = tvmrt_micro_wide_weight(record + 1, tap, taps, stride);
      TVMRT_WRAP_ADD_TO(a, at[0] * weight);
      TVMRT_WRAP_ADD_TO(b, at[stride] * weight);
      TVMRT_WRAP_ADD_TO(c, at[2 * stride] * weight);
      TVMRT_WRAP_ADD_TO(d, at[3 * stride] * weight);
    }
  }
  sums[0] = a;
  sums[4] = b;
  sums[8] = c;
  sums[12] = d;
}

TVMRT_INLINE void tvmrt_micro_wide_accumulate(tvmrt_micro_wide_outputs outputs, const int16_t* x,
                                              int taps, int32_t stride) {
  for (int32_t* sums = outputs.sums; sums < outputs.end; sums += 16, x += 4 * stride) {
    tvmrt_micro_wide_four(sums, outputs.record, x, outputs.bias, taps, stride);
  }
}
#endif

/*! \brief Accumulate an output row of four channels. */
TVMRT_INLINE void tvmrt_micro_wide_quad(const tvmrt_micro_layer* d, int32_t channel, int taps,
                                        int32_t stride) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int32_t weights = s->kernel[0] * TVMRT_MICRO_WIDE_WORDS(taps, stride) * 2;
  const int8_t* w = (const int8_t*)d->data->weights + channel * weights;
  const int32_t* const bias = d->data->bias + channel;
  const int16_t* plane = (const int16_t*)d->line_buffer + channel * s->layout.line_buffer.plane;
  int32_t* const record = tvmrt_micro_wide_record(d);
  tvmrt_micro_wide_outputs outputs = {record, 0, d->sums, d->sums + s->out[1] * 4};
  for (int i = 0; i < 4; i++, plane += s->layout.line_buffer.plane) {
    w = tvmrt_micro_wide_weights(record, w, taps, stride);
    outputs.bias = bias[i];
    tvmrt_micro_wide_accumulate(outputs, plane, taps, stride);
    outputs.sums++;
  }
}

/*! \brief Compute an output row with kernel rows of `taps` weights; `quad` accumulates four
 * channels. */
TVMRT_INLINE void tvmrt_micro_wide_row(const tvmrt_micro_layer* d, int32_t row, int32_t slot,
                                       int taps,
                                       void (*quad)(const tvmrt_micro_layer* d, int32_t channel)) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int32_t words = TVMRT_MICRO_WIDE_WORDS(taps, s->stride[1]);
  int32_t* record = tvmrt_micro_wide_record(d);
  for (int32_t kh = 0; kh < s->kernel[0]; kh++, record += 1 + words) {
    *record = tvmrt_micro_line_offset(s, slot + kh * s->dilation[0]);
  }
  *record = -1;
  for (int32_t channel = 0; channel < s->out_c; channel += 4) {
    quad(d, channel);
    tvmrt_micro_quad_finish(d, d->sums, 4, row, channel);
  }
}

/* tvmrt_micro_wide_row_TAPS(): computes one row per step. The loops are in a function for each
 * number of weights, so that unused ones are not linked. */
#define TVMRT_MICRO_WIDE_ROWS(TAPS)                                                               \
  TVMRT_NOINLINE void tvmrt_micro_wide_quad_##TAPS(const tvmrt_micro_layer* d, int32_t channel) { \
    if (d->conv->shape.stride[1] == 1) {                                                          \
      tvmrt_micro_wide_quad(d, channel, TAPS, 1);                                                 \
    } else {                                                                                      \
      tvmrt_micro_wide_quad(d, channel, TAPS, 2);                                                 \
    }                                                                                             \
  }                                                                                               \
  static inline void tvmrt_micro_wide_row_##TAPS(const void* layer, int32_t row, int32_t rows,    \
                                                 int32_t slot) {                                  \
    const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;                           \
    (void)rows;                                                                                   \
    tvmrt_micro_wide_row(d, row, slot, TAPS, tvmrt_micro_wide_quad_##TAPS);                       \
  }
TVMRT_MICRO_WIDE_ROWS(5)
TVMRT_MICRO_WIDE_ROWS(7)

/*! \brief Return the tile of this kernel for kernel rows of 5 or 7 weights; in_c is out_c, columns
 * are not dilated and their stride is 1 or 2. */
TVMRT_INLINE tvmrt_micro_tile tvmrt_micro_wide_tile(const tvmrt_micro_conv_i8* c, int taps) {
  const tvmrt_micro_shape* const s = &c->shape;
  const int32_t words = 1 + TVMRT_MICRO_WIDE_WORDS(taps, s->stride[1]);
  const tvmrt_micro_tile tile = {
      {tvmrt_micro_wide_copy_row, taps == 5 ? tvmrt_micro_wide_row_5 : tvmrt_micro_wide_row_7,
       s->layout.line_buffer.slots, s->stride[0], 1},
      1,
      (s->out[1] + 3) / 4 * 64 + 4 * (TVMRT_MICRO_WIDE_END + s->kernel[0] * words),
      (uint16_t)c->x_zero * 0x00010001u};
  return tile;
}

/* kernels of 4 or 5 columns, and of 6 or 7 */
TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_5_i8, tvmrt_micro_wide_tile(c, 5))
TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_7_i8, tvmrt_micro_wide_tile(c, 7))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_7X7_DSP_H_ */
