/*!
 * \file board/conv_i8_2ch_dsp.h
 * \brief Dot products with two output channels packed in each 16-bit weight.
 *
 * A weight u of one channel and v of the next form the integer u + 256 * v. SMLAD multiplies it as
 * stored; SXTB16 is needed for u alone. The sum of the joint products minus the sum for u is 256
 * times the sum for v. That sum keeps 24 bits. The compiler of the network therefore joins weights
 * only where no input exceeds them, and where 16 bits hold every joint weight. Intermediate
 * overflow does no harm.
 *
 * Windows are quads, as in board/conv_i8_2x2_dsp.h. Packed weights: int16 [pair of output
 * channels][4 of biases, then quads of the window], aligned to 4 bytes. Quads keep their order; the
 * biases are two 32-bit integers, of u and joint.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2CH_DSP_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2CH_DSP_H_

#include "common_i8.h"

/*! \brief The weights of a channel. */
TVMRT_INLINE const int16_t* tvmrt_micro_2ch_weights(const tvmrt_micro_conv_i8* c,
                                                    const tvmrt_micro_data* data, int32_t channel) {
  return (const int16_t*)data->weights + (channel >> 1) * (c->shape.layout.windows.length + 4);
}

/*! \brief The sum for v; `both` has the sum for u + 256 * v. */
TVMRT_INLINE int32_t tvmrt_micro_upper(uint32_t both, int32_t u) {
  return (int32_t)(both - (uint32_t)u) >> 8;
}

#if TVMRT_MICRO_ASM
/* Two quads of one pixel; LDM loads them into r3 to r6, and their weights into r8 to r11. */
#define TVMRT_MICRO_2CH_TWO_QUADS                                    \
  "ldmia %[w]!, {r8-r11}\nldmia %[x]!, {r3-r6}\n"                    \
  "smlad %[b], r3, r8, %[b]\nsmlad %[b], r4, r9, %[b]\n"             \
  "smlad %[b], r5, r10, %[b]\nsmlad %[b], r6, r11, %[b]\n"           \
  "sxtb16 r8, r8\nsxtb16 r9, r9\nsxtb16 r10, r10\nsxtb16 r11, r11\n" \
  "smlad %[u], r3, r8, %[u]\nsmlad %[u], r4, r9, %[u]\n"             \
  "smlad %[u], r5, r10, %[u]\nsmlad %[u], r6, r11, %[u]\n"
#endif

/*! \brief Accumulate channels of one pixel over n elements of its window. */
TVMRT_NOINLINE void tvmrt_micro_2ch_1px(int32_t* sums, const int32_t* end, const int16_t* w,
                                        const int16_t* window, int32_t length) {
  do {
    const int16_t* x = window;
#if TVMRT_MICRO_ASM
    int32_t u, n = length; /* of an even number of quads */
    uint32_t b;
    __asm volatile(
        "ldrd %[u], %[b], [%[w]], #8\ntst %[n], #8\nbne 2f\n1:\n" TVMRT_MICRO_2CH_TWO_QUADS
        "2:\n" TVMRT_MICRO_2CH_TWO_QUADS "subs %[n], %[n], #16\nbgt 1b\n"
        : [u] "=&r"(u), [b] "=&r"(b), [w] "+r"(w), [x] "+r"(x), [n] "+r"(n)
        :
        : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "cc", "memory");
#else
    int32_t u = ((const int32_t*)(const void*)w)[0];
    uint32_t b = ((const uint32_t*)(const void*)w)[1];
    w += 4;
    for (int32_t n = length; n > 0; n -= 4, x += 4, w += 4) {
      TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) {
        TVMRT_WRAP_ADD_TO(u, x[i] * *(const int8_t*)(w + i));
        b += (uint32_t)(x[i] * w[i]);
      }
    }
#endif
    sums[0] = u;
    sums[1] = tvmrt_micro_upper(b, u);
    sums += 2;
  } while (sums < end);
}

#if TVMRT_MICRO_ASM

/* A quad of both pixels: one instruction loads r3 to r6; u0 and u1 accumulate the products with u
 * of the two pixels, b0 and b1 the joint ones. */
#define TVMRT_MICRO_2CH_QUAD        \
  "ldrd %[w0], %[w1], [%[w]], #8\n" \
  "ldmia %[x]!, {r3-r6}\n"          \
  "smlad %[b0], r3, %[w0], %[b0]\n" \
  "smlad %[b1], r5, %[w0], %[b1]\n" \
  "sxtb16 %[w0], %[w0]\n"           \
  "smlad %[b0], r4, %[w1], %[b0]\n" \
  "smlad %[b1], r6, %[w1], %[b1]\n" \
  "sxtb16 %[w1], %[w1]\n"           \
  "smlad %[u0], r3, %[w0], %[u0]\n" \
  "smlad %[u1], r5, %[w0], %[u1]\n" \
  "smlad %[u0], r4, %[w1], %[u0]\n" \
  "smlad %[u1], r6, %[w1], %[u1]\n"

/*! \brief Variables of the assembly block in memory, as registers are scarce; the offsets below
 * refer to it. */
typedef struct tvmrt_micro_2ch_args {
  void* at;                  /* sums, or bytes of the first pixel */
  const void* multipliers;   /* NULL: sums are stored */
  int32_t half, half_upper;  /* rounding offsets of the products with factors; half_upper is 0 for
                                pairs of multipliers */
  int32_t stride;            /* bytes from one pixel to the next */
  const void* end;           /* end of the range of `at` */
  const int16_t* window;     /* of all pixels */
  int32_t rest;              /* pairs of quads beyond a multiple of eight quads */
  const int16_t* window_end; /* of all pixels */
  uint32_t frame;            /* r7 of the caller, if the block keeps it here */
  const int16_t* weights;    /* of the first channel */
} tvmrt_micro_2ch_args;

/* Multiply two channels and two windows, eight quads per iteration; the first iteration handles
 * the remainder. The table has halves of the distances from itself. */
#define TVMRT_MICRO_2CH_DOT_PRODUCTS                               \
  "1:\nldrd %[u1], %[b1], [%[w]]\nldrd %[u0], %[b0], [%[w]], #8\n" \
  "ldrd %[x], %[w0], [%[run], #24]\ntbb [pc, %[w0]]\n"             \
  "2:\n.byte (3f-2b)/2, (6f-2b)/2, (5f-2b)/2, (4f-2b)/2\n"         \
  "3:\n" TVMRT_MICRO_2CH_QUAD TVMRT_MICRO_2CH_QUAD                 \
  "4:\n" TVMRT_MICRO_2CH_QUAD TVMRT_MICRO_2CH_QUAD                 \
  "5:\n" TVMRT_MICRO_2CH_QUAD TVMRT_MICRO_2CH_QUAD                 \
  "6:\n" TVMRT_MICRO_2CH_QUAD TVMRT_MICRO_2CH_QUAD                 \
  "ldr r3, [%[run], #32]\ncmp %[x], r3\nblo 3b\n"                  \
  "sub %[b0], %[b0], %[u0]\nsub %[b1], %[b1], %[u1]\n"

/* Requantise the sums of two channels to the bytes of both pixels, in r3 and after it: multiplied
 * with the channels' factors at r4, shifted and saturated. The remaining joint sums are 256 times
 * as large, and so is their rounding offset. */
#define TVMRT_MICRO_2CH_REQUANTIZE                                  \
  "ldrd %[w0], %[w1], [r4], #8\n"                                   \
  "smmls %[u0], %[u0], %[w0], r5\nsmmls %[b0], %[b0], %[w1], r6\n"  \
  "smmls %[u1], %[u1], %[w0], r5\nsmmls %[b1], %[b1], %[w1], r6\n"  \
  "ssat %[u0], #8, %[u0], asr #4\nssat %[b0], #8, %[b0], asr #12\n" \
  "ssat %[u1], #8, %[u1], asr #4\nssat %[b1], #8, %[b1], asr #12\n" TVMRT_MICRO_2CH_STORE
#define TVMRT_MICRO_2CH_STORE                       \
  "ldrd %[w0], %[x], [%[run], #16]\n"               \
  "strb %[u1], [r3, %[w0]]\nstrb %[u0], [r3], #1\n" \
  "strb %[b1], [r3, %[w0]]\nstrb %[b0], [r3], #1\n" \
  "strd r3, r4, [%[run]]\ncmp r3, %[x]\nblo 1b\n"

/* TVMRT_MICRO_2CH_REQUANTIZE with pairs of multipliers, see TVMRT_MICRO_TWICE. */
#define TVMRT_MICRO_2CH_TWICE(SUM0, SUM1)                                                       \
  "ldrd %[w0], %[w1], [r4], #8\n" TVMRT_MICRO_2CH_SUM(SUM0)                                     \
      TVMRT_MICRO_2CH_SUM(SUM1) "ssat " SUM0 ", #8, " SUM0 ", asr #1\nssat " SUM1 ", #8, " SUM1 \
                                ", asr #1\n"
#define TVMRT_MICRO_2CH_SUM(R)                              \
  "smmlar " R ", " R ", %[w0], " R "\nadd " R ", " R ", " R \
  ", asr #31\n"                                             \
  "asr " R ", " R ", %[w1]\nadd " R ", " R ", r5\n"
#if TVMRT_MICRO_ROUNDS_TWICE
#define TVMRT_MICRO_2CH_CHOOSE "cbz r6, 9f\n"
#define TVMRT_MICRO_2CH_REQUANTIZE_TWICE                                                     \
  "b 8f\n9:\n" TVMRT_MICRO_2CH_TWICE(                                                        \
      "%[u0]",                                                                               \
      "%[u1]") "asr %[b0], %[b0], #8\nasr %[b1], %[b1], #8\n" TVMRT_MICRO_2CH_TWICE("%[b0]", \
                                                                                    "%[b1]") \
      TVMRT_MICRO_2CH_STORE
#else
#define TVMRT_MICRO_2CH_CHOOSE
#define TVMRT_MICRO_2CH_REQUANTIZE_TWICE
#endif

/*! \brief Two channels of two pixels at a time. */
TVMRT_INLINE void tvmrt_micro_2ch_2px(tvmrt_micro_2ch_args* run) {
  const int16_t* w = run->weights;
  uint32_t u0, u1, b0, b1, w0, w1, x;
  __asm volatile(
      TVMRT_MICRO_2CH_DOT_PRODUCTS
      "ldmia %[run], {r3-r6}\ncbz r4, 7f\n" TVMRT_MICRO_2CH_CHOOSE TVMRT_MICRO_2CH_REQUANTIZE
      "b 8f\n7:\nldrd %[w0], %[x], [%[run], #16]\n"
      "asr %[b0], %[b0], #8\nasr %[b1], %[b1], #8\n"
      "strd %[u1], %[b1], [r3, #128]\nstrd %[u0], %[b0], [r3], #8\n"
      "str r3, [%[run]]\ncmp r3, %[x]\nblo 1b\n" TVMRT_MICRO_2CH_REQUANTIZE_TWICE "8:\n"
      : [u0] "=&r"(u0), [u1] "=&r"(u1), [b0] "=&r"(b0), [b1] "=&r"(b1), [w] "+r"(w), [w0] "=&r"(w0),
        [w1] "=&r"(w1), [x] "=&r"(x)
      : [run] "r"(run)
      : "r3", "r4", "r5", "r6", "cc", "memory");
}

#else

/*! \brief Accumulate two channels of two pixels; a function, because the time of static analysis grows
 * with the square of a function's iterations. \return The next pair's weights. */
static inline const int16_t* tvmrt_micro_2ch_pair(const int16_t* w, const int16_t* x, int32_t n,
                                                  int32_t* sums) {
  int32_t u0 = ((const int32_t*)(const void*)w)[0], u1 = u0;
  uint32_t b0 = ((const uint32_t*)(const void*)w)[1], b1 = b0;
  w += 4;
  for (; n > 0; n -= 4, x += 8, w += 4) {
    TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) {
      const int32_t u = *(const int8_t*)(w + i), both = w[i];
      TVMRT_WRAP_ADD_TO(u0, x[i] * u);
      b0 += (uint32_t)(x[i] * both);
      TVMRT_WRAP_ADD_TO(u1, x[4 + i] * u);
      b1 += (uint32_t)(x[4 + i] * both);
    }
  }
  sums[0] = u0;
  sums[1] = tvmrt_micro_upper(b0, u0);
  sums[TVMRT_MICRO_CHUNK] = u1;
  sums[TVMRT_MICRO_CHUNK + 1] = tvmrt_micro_upper(b1, u1);
  return w;
}

/*! \brief Accumulate channels of two pixels, [pixel][TVMRT_MICRO_CHUNK]. */
TVMRT_NOINLINE void tvmrt_micro_2ch_pixels(const tvmrt_micro_conv_i8* c,
                                           const tvmrt_micro_data* data, const int16_t* window,
                                           int32_t pixels, int32_t channel, int32_t* sums,
                                           int32_t channels, uint8_t* y) {
  const int16_t* w = tvmrt_micro_2ch_weights(c, data, channel);
  (void)y;
  (void)pixels;
  for (int32_t i = 0; i < channels; i += 2) {
    w = tvmrt_micro_2ch_pair(w, window, c->shape.layout.windows.length, sums + i);
  }
}

#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2CH_DSP_H_ */
