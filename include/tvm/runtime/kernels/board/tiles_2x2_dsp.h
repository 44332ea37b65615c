/*!
 * \file board/tiles_2x2_dsp.h
 * \brief Products of int16 windows with int8 weights of two channels, for one or two pixels.
 *
 * Groups of windows are four elements, those of two windows alternate. Weights are [pair of output
 * channels][group][channel of the pair][element]. Both are aligned to 8 bytes. If the elements of a
 * group of weights are 0, 1, 2 and 3, those of windows are 0, 2, 1 and 3, or the other way round.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_TILES_2X2_DSP_H_
#define TVM_RUNTIME_KERNELS_BOARD_TILES_2X2_DSP_H_

#include "common_i8.h"

#if TVMRT_MICRO_ASM && TVMRT_MICRO_CAN_DSP
/* Weights of a group as pairs: those of channel 0 in e0 and o0, those of channel 1 in e1 and o1. */
#define TVMRT_MICRO_WEIGHTS         \
  "ldrd %[e0], %[e1], [%[w]], #8\n" \
  "sxtb16 %[o0], %[e0], ror #8\n"   \
  "sxtb16 %[e0], %[e0]\n"           \
  "sxtb16 %[o1], %[e1], ror #8\n"   \
  "sxtb16 %[e1], %[e1]\n"
/* Multiply a quad with the pairs of both channels, accumulated in a0 and a1 or in b0 and b1. */
#define TVMRT_MICRO_FIRST              \
  "ldrd %[xe], %[xo], [%[x]], #8\n"    \
  "smlad %[a0], %[xe], %[e0], %[a0]\n" \
  "smlad %[a1], %[xe], %[e1], %[a1]\n" \
  "smlad %[a0], %[xo], %[o0], %[a0]\n" \
  "smlad %[a1], %[xo], %[o1], %[a1]\n"
#define TVMRT_MICRO_SECOND             \
  "ldrd %[xe], %[xo], [%[x]], #8\n"    \
  "smlad %[b0], %[xe], %[e0], %[b0]\n" \
  "smlad %[b1], %[xe], %[e1], %[b1]\n" \
  "smlad %[b0], %[xo], %[o0], %[b0]\n" \
  "smlad %[b1], %[xo], %[o1], %[b1]\n"
/* Four groups per iteration; two at first if their number is not a multiple of four. */
#define TVMRT_MICRO_LOOP(GROUP) \
  "tst %[n], #8\nbne 2f\n"      \
  "1:\n" GROUP GROUP "2:\n" GROUP GROUP "subs %[n], %[n], #16\nbgt 1b\n"

#define TVMRT_MICRO_SECOND_ACCUMULATORS , [b0] "+r"(b0), [b1] "+r"(b1)
#define TVMRT_MICRO_DOT_PRODUCTS(GROUP, SUMS)                                                      \
  __asm volatile(                                                                                  \
      TVMRT_MICRO_LOOP(TVMRT_MICRO_WEIGHTS GROUP)                                                  \
      : [a0] "+r"(a0), [a1] "+r"(a1), [w] "+r"(weights), [x] "+r"(x), [n] "+r"(n), [e0] "=&r"(e0), \
        [o0] "=&r"(o0), [e1] "=&r"(e1), [o1] "=&r"(o1), [xe] "=&r"(xe), [xo] "=&r"(xo)SUMS         \
      :                                                                                            \
      : "cc", "memory")
#else
/* Position of element i of a quad in its weights: quads have the order 0, 2, 1, 3. */
TVMRT_INLINE int tvmrt_micro_weight_at(int i) { return i == 1 ? 2 : i == 2 ? 1 : i; }
#endif

/*!
 * \brief Compute the biases of two channels plus the dot products of their weights with n elements
 * of one window or two. Results go to sums[channel], and to sums[TVMRT_MICRO_CHUNK + channel] for
 * the second window. Return the weights of the next two channels.
 */
TVMRT_INLINE const int8_t* tvmrt_micro_dot_products(int32_t* sums, const int32_t* bias,
                                                    const int16_t* x, const int8_t* weights,
                                                    int32_t n, int pixels) {
  int32_t a0 = bias[0], a1 = bias[1], b0 = a0, b1 = a1;
#if TVMRT_MICRO_ASM && TVMRT_MICRO_CAN_DSP
  uint32_t e0, o0, e1, o1, xe, xo;
  if (pixels == 2) {
    TVMRT_MICRO_DOT_PRODUCTS(TVMRT_MICRO_FIRST TVMRT_MICRO_SECOND, TVMRT_MICRO_SECOND_ACCUMULATORS);
  } else {
    TVMRT_MICRO_DOT_PRODUCTS(TVMRT_MICRO_FIRST, );
  }
#else
  const int second = 4 * (pixels - 1);
  for (; n > 0; n -= 4, weights += 8) {
    TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) {
      const int at = tvmrt_micro_weight_at(i);
      const int32_t w0 = weights[at], w1 = weights[4 + at];
      TVMRT_WRAP_ADD_TO(a0, x[i] * w0);
      TVMRT_WRAP_ADD_TO(a1, x[i] * w1);
      TVMRT_WRAP_ADD_TO(b0, x[second + i] * w0);
      TVMRT_WRAP_ADD_TO(b1, x[second + i] * w1);
    }
    x += pixels * 4;
  }
#endif
  sums[0] = a0;
  sums[1] = a1;
  if (pixels == 2) {
    sums[TVMRT_MICRO_CHUNK] = b0;
    sums[TVMRT_MICRO_CHUNK + 1] = b1;
  }
  return weights;
}

/* tvmrt_micro_tile_1() and _2(): accumulate some channels of one output pixel, and of two
 * neighbouring ones, [pixel][TVMRT_MICRO_CHUNK]. bias and weights are those of the first channel; n
 * is the number of elements of the window. */
#define TVMRT_DEFINE_MICRO_TILE(PIXELS)                                                       \
  TVMRT_NOINLINE void tvmrt_micro_tile_##PIXELS(int32_t* sums, const int32_t* bias,           \
                                                const int16_t* window, const int8_t* weights, \
                                                int32_t n, int32_t channels) {                \
    const int32_t* const end = sums + channels;                                               \
    do {                                                                                      \
      weights = tvmrt_micro_dot_products(sums, bias, window, weights, n, PIXELS);             \
      bias += 2;                                                                              \
      sums += 2;                                                                              \
    } while (sums < end);                                                                     \
  }
TVMRT_DEFINE_MICRO_TILE(1)
TVMRT_DEFINE_MICRO_TILE(2)

#endif /* TVM_RUNTIME_KERNELS_BOARD_TILES_2X2_DSP_H_ */
