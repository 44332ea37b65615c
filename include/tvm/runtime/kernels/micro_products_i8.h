/*!
 * \file micro_products_i8.h
 * \brief The inner loops of the integer kernels of microcontrollers: DSP instructions, Helium, C.
 *
 * Two copied windows alternate: a group of the first pixel, the same one of the second; groups have
 * 4 elements for TVMRT_MICRO_PAIRS (a quad, see micro_i8.h), 16 for TVMRT_MICRO_MVE. A window ends
 * with zeros to a multiple of TVMRT_MICRO_UNIT elements.
 */
#ifndef TVM_RUNTIME_KERNELS_MICRO_PRODUCTS_I8_H_
#define TVM_RUNTIME_KERNELS_MICRO_PRODUCTS_I8_H_

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

/*
 * tvmrt_micro_products_1(sums, bias, x, weights, n) and tvmrt_micro_products_2(): the biases of two
 * channels plus the products of their weights and n elements of one window, or two, to
 * sums[channel], and to sums[TVMRT_MICRO_CHUNK + channel] for the second window. They return the
 * weights of the next two channels.
 */
#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE && TVMRT_MICRO_CAN_MVE

TVMRT_INLINE const int8_t* tvmrt_micro_products_1(int32_t* sums, const int32_t* bias,
                                                  const int8_t* x, const int8_t* weights,
                                                  int32_t n) {
  int32_t a0 = bias[0], a1 = bias[1];
  for (; n > 0; n -= 16, x += 16, weights += 32) {
    const int8x16_t a = vldrbq_s8(x);
    a0 = vmladavaq_s8(a0, a, vldrbq_s8(weights));
    a1 = vmladavaq_s8(a1, a, vldrbq_s8(weights + 16));
  }
  sums[0] = a0;
  sums[1] = a1;
  return weights;
}

TVMRT_INLINE const int8_t* tvmrt_micro_products_2(int32_t* sums, const int32_t* bias,
                                                  const int8_t* x, const int8_t* weights,
                                                  int32_t n) {
  int32_t* const second = sums + TVMRT_MICRO_CHUNK;
  int32_t a0 = bias[0], a1 = bias[1], b0 = a0, b1 = a1;
  for (; n > 0; n -= 16, x += 32, weights += 32) {
    const int8x16_t a = vldrbq_s8(x), b = vldrbq_s8(x + 16);
    const int8x16_t w0 = vldrbq_s8(weights), w1 = vldrbq_s8(weights + 16);
    a0 = vmladavaq_s8(a0, a, w0);
    a1 = vmladavaq_s8(a1, a, w1);
    b0 = vmladavaq_s8(b0, b, w0);
    b1 = vmladavaq_s8(b1, b, w1);
  }
  sums[0] = a0;
  sums[1] = a1;
  second[0] = b0;
  second[1] = b1;
  return weights;
}

#elif TVMRT_MICRO_FORMAT == TVMRT_MICRO_PAIRS && TVMRT_MICRO_ASM

/* Weights of a group as pairs: those of channel 0 in e0 and o0, those of channel 1 in e1 and o1. */
#define TVMRT_MICRO_WEIGHTS         \
  "ldrd %[e0], %[e1], [%[w]], #8\n" \
  "sxtb16 %[o0], %[e0], ror #8\n"   \
  "sxtb16 %[e0], %[e0]\n"           \
  "sxtb16 %[o1], %[e1], ror #8\n"   \
  "sxtb16 %[e1], %[e1]\n"
/* The products of a quad and the pairs of both channels, added to a0 and a1 or to b0 and b1. */
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
/* Two groups if their number is no multiple of four, then four at a time. */
#define TVMRT_MICRO_LOOP(GROUP)        \
  "tst %[n], #8\nbeq 1f\n" GROUP GROUP \
  "subs %[n], %[n], #8\nble 2f\n"      \
  "1:\n" GROUP GROUP GROUP GROUP "subs %[n], %[n], #16\nbgt 1b\n2:\n"

TVMRT_INLINE const int8_t* tvmrt_micro_products_1(int32_t* sums, const int32_t* bias,
                                                  const int16_t* x, const int8_t* weights,
                                                  int32_t n) {
  int32_t a0 = bias[0], a1 = bias[1];
  uint32_t e0, o0, e1, o1, xe, xo;
  __asm volatile(
      TVMRT_MICRO_LOOP(TVMRT_MICRO_WEIGHTS TVMRT_MICRO_FIRST)
      : [a0] "+r"(a0), [a1] "+r"(a1), [w] "+r"(weights), [x] "+r"(x), [n] "+r"(n), [e0] "=&r"(e0),
        [o0] "=&r"(o0), [e1] "=&r"(e1), [o1] "=&r"(o1), [xe] "=&r"(xe), [xo] "=&r"(xo)
      :
      : "cc", "memory");
  sums[0] = a0;
  sums[1] = a1;
  return weights;
}

TVMRT_INLINE const int8_t* tvmrt_micro_products_2(int32_t* sums, const int32_t* bias,
                                                  const int16_t* x, const int8_t* weights,
                                                  int32_t n) {
  int32_t* const second = sums + TVMRT_MICRO_CHUNK;
  int32_t a0 = bias[0], a1 = bias[1], b0 = a0, b1 = a1;
  uint32_t e0, o0, e1, o1, xe, xo;
  __asm volatile(TVMRT_MICRO_LOOP(TVMRT_MICRO_WEIGHTS TVMRT_MICRO_FIRST TVMRT_MICRO_SECOND)
                 : [a0] "+r"(a0), [a1] "+r"(a1), [b0] "+r"(b0), [b1] "+r"(b1), [w] "+r"(weights),
                   [x] "+r"(x), [n] "+r"(n), [e0] "=&r"(e0), [o0] "=&r"(o0), [e1] "=&r"(e1),
                   [o1] "=&r"(o1), [xe] "=&r"(xe), [xo] "=&r"(xo)
                 :
                 : "cc", "memory");
  sums[0] = a0;
  sums[1] = a1;
  second[0] = b0;
  second[1] = b1;
  return weights;
}

#else

/* Place of element i of a group in its weights: quads are in the order 0, 2, 1, 3. */
TVMRT_INLINE int tvmrt_micro_weight_at(int i) {
#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE
  return i;
#else
  return i == 1 ? 2 : i == 2 ? 1 : i;
#endif
}

TVMRT_INLINE const int8_t* tvmrt_micro_products_1(int32_t* sums, const int32_t* bias,
                                                  const tvmrt_micro_element* x,
                                                  const int8_t* weights, int32_t n) {
  int32_t a0 = bias[0], a1 = bias[1];
  for (; n > 0; n -= TVMRT_MICRO_GROUP, x += TVMRT_MICRO_GROUP, weights += 2 * TVMRT_MICRO_GROUP) {
    TVMRT_UNROLL(4) for (int i = 0; i < TVMRT_MICRO_GROUP; i++) {
      const int at = tvmrt_micro_weight_at(i);
      a0 += x[i] * weights[at];
      a1 += x[i] * weights[TVMRT_MICRO_GROUP + at];
    }
  }
  sums[0] = a0;
  sums[1] = a1;
  return weights;
}

TVMRT_INLINE const int8_t* tvmrt_micro_products_2(int32_t* sums, const int32_t* bias,
                                                  const tvmrt_micro_element* x,
                                                  const int8_t* weights, int32_t n) {
  int32_t* const second = sums + TVMRT_MICRO_CHUNK;
  int32_t a0 = bias[0], a1 = bias[1], b0 = a0, b1 = a1;
  for (; n > 0; n -= TVMRT_MICRO_GROUP, weights += 2 * TVMRT_MICRO_GROUP) {
    TVMRT_UNROLL(4) for (int i = 0; i < TVMRT_MICRO_GROUP; i++) {
      const int at = tvmrt_micro_weight_at(i);
      const int32_t w0 = weights[at], w1 = weights[TVMRT_MICRO_GROUP + at];
      a0 += x[i] * w0;
      a1 += x[i] * w1;
      b0 += x[TVMRT_MICRO_GROUP + i] * w0;
      b1 += x[TVMRT_MICRO_GROUP + i] * w1;
    }
    x += 2 * TVMRT_MICRO_GROUP;
  }
  sums[0] = a0;
  sums[1] = a1;
  second[0] = b0;
  second[1] = b1;
  return weights;
}

#endif

#endif /* TVM_RUNTIME_KERNELS_MICRO_PRODUCTS_I8_H_ */
