/*!
 * \file board/joint_i8.h
 * \brief Products of a window with joint weights: two channels in one number of 16 bits.
 *
 * A weight u of one channel and v of the next are the number u + 256 * v. SMLAD multiplies it as it
 * lies in memory; SXTB16 is needed for u alone. What is left of the sum of the joint products, less
 * those of u, is 256 times the sum of the products of v. That sum keeps 24 of its bits, so the
 * compiler of the network joins weights only where no input makes the sum larger, and where 16 bits
 * hold every joint number. Sums that overflow meanwhile do no harm.
 *
 * Windows are quads, as in board/pairs_i8.h. Packed weights: int16 [pair of
 * output channels][4 of biases, then quads of the window], aligned to 4 bytes; quads have their
 * order, the biases are two numbers of 32 bits, of u and joint.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_JOINT_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_JOINT_I8_H_

#include "i8.h"

/*! \brief Some channels of one output pixel, or of two neighbouring ones. */
typedef struct tvmrt_micro_tile {
  struct {
    const int16_t* window;
    int32_t n; /* elements of it */
  } in;
  struct {
    int32_t* sums;      /* of the first channel; [pixel][TVMRT_MICRO_CHUNK] */
    const int32_t* end; /* of those of the first pixel */
  } out;
  const int16_t* weights; /* of the first channel */
} tvmrt_micro_tile;

/*! \brief The sum for v, where `both` has the products of u + 256 * v. */
TVMRT_INLINE int32_t tvmrt_micro_upper(uint32_t both, int32_t u) {
  return (int32_t)(both - (uint32_t)u) >> 8;
}

#if TVMRT_MICRO_ASM
/* Two quads of one pixel, which LDM loads into r3 to r6. */
#define TVMRT_MICRO_JOINT_TWO_QUADS                             \
  "1:\n"                                                        \
  "ldmia %[x]!, {r3-r6}\n" TVMRT_MICRO_JOINT_QUAD_1("r3", "r4") \
      TVMRT_MICRO_JOINT_QUAD_1("r5", "r6") "subs %[n], %[n], #8\nbgt 1b\n"
#define TVMRT_MICRO_JOINT_QUAD_1(X0, X1) \
  "ldrd %[w0], %[w1], [%[w]], #8\n"      \
  "smlad %[b], " X0                      \
  ", %[w0], %[b]\nsxtb16 %[w0], %[w0]\n" \
  "smlad %[b], " X1                      \
  ", %[w1], %[b]\nsxtb16 %[w1], %[w1]\n" \
  "smlad %[u], " X0 ", %[w0], %[u]\nsmlad %[u], " X1 ", %[w1], %[u]\n"
#endif

/*! \brief The sums of one pixel. */
TVMRT_NOINLINE void tvmrt_micro_joint_1(const tvmrt_micro_tile* t) {
  const int16_t* w = t->weights;
  for (int32_t* sums = t->out.sums; sums < t->out.end; sums += 2) {
    const int16_t* x = t->in.window;
    int32_t u = ((const int32_t*)(const void*)w)[0], n = t->in.n;
    uint32_t b = ((const uint32_t*)(const void*)w)[1];
    w += 4;
#if TVMRT_MICRO_ASM
    uint32_t w0, w1;
    __asm volatile(TVMRT_MICRO_JOINT_TWO_QUADS
                   : [u] "+r"(u), [b] "+r"(b), [w] "+r"(w), [x] "+r"(x), [n] "+r"(n),
                     [w0] "=&r"(w0), [w1] "=&r"(w1)
                   :
                   : "r3", "r4", "r5", "r6", "cc", "memory");
#else
    for (; n > 0; n -= 4, x += 4, w += 4) {
      TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) {
        u += x[i] * *(const int8_t*)(w + i);
        b += (uint32_t)(x[i] * w[i]);
      }
    }
#endif
    sums[0] = u;
    sums[1] = tvmrt_micro_upper(b, u);
  }
}

#if TVMRT_MICRO_ASM

/*
 * A quad of both pixels: r3 to r6 are loaded by one instruction; u0 and u1 get the products of u of
 * the two pixels, b0 and b1 the joint ones.
 */
#define TVMRT_MICRO_JOINT_QUAD      \
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

/*! \brief The sums of two pixels. */
TVMRT_NOINLINE void tvmrt_micro_joint_2(const tvmrt_micro_tile* t) {
  tvmrt_micro_tile tile = *t; /* on the stack, where no register is needed to find it */
  const int16_t* w = tile.weights;
  uint32_t u0, u1, b0, b1, w0, w1, x, n;
  __asm volatile(
      "1:\n"
      "ldrd %[u0], %[b0], [%[w]], #8\n"
      "ldrd %[x], %[n], %[in]\n"
      "mov %[u1], %[u0]\n"
      "mov %[b1], %[b0]\n"
      /* two quads if their number is no multiple of four, then four at a time */
      "tst %[n], #8\nbeq 2f\n" TVMRT_MICRO_JOINT_QUAD TVMRT_MICRO_JOINT_QUAD
      "subs %[n], %[n], #8\nble 3f\n"
      "2:\n" TVMRT_MICRO_JOINT_QUAD TVMRT_MICRO_JOINT_QUAD TVMRT_MICRO_JOINT_QUAD
          TVMRT_MICRO_JOINT_QUAD
      "subs %[n], %[n], #16\nbgt 2b\n"
      "3:\n"
      "ldrd r3, r4, %[out]\n"
      "sub %[b0], %[b0], %[u0]\n"
      "sub %[b1], %[b1], %[u1]\n"
      "asr %[b0], %[b0], #8\n"
      "asr %[b1], %[b1], #8\n"
      "strd %[u1], %[b1], [r3, #128]\n"
      "strd %[u0], %[b0], [r3], #8\n"
      "str r3, %[out]\n"
      "cmp r3, r4\nblo 1b\n"
      : [u0] "=&r"(u0), [u1] "=&r"(u1), [b0] "=&r"(b0), [b1] "=&r"(b1), [w] "+r"(w), [w0] "=&r"(w0),
        [w1] "=&r"(w1), [x] "=&r"(x), [n] "=&r"(n), [out] "+m"(tile.out)
      : [in] "m"(tile.in)
      : "r3", "r4", "r5", "r6", "cc", "memory");
}

#else

TVMRT_NOINLINE void tvmrt_micro_joint_2(const tvmrt_micro_tile* t) {
  const int16_t* w = t->weights;
  for (int32_t* sums = t->out.sums; sums < t->out.end; sums += 2) {
    const int16_t* x = t->in.window;
    int32_t u0 = ((const int32_t*)(const void*)w)[0], u1 = u0;
    uint32_t b0 = ((const uint32_t*)(const void*)w)[1], b1 = b0;
    w += 4;
    for (int32_t n = t->in.n; n > 0; n -= 4, x += 8, w += 4) {
      TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) {
        const int32_t u = *(const int8_t*)(w + i), both = w[i];
        u0 += x[i] * u;
        b0 += (uint32_t)(x[i] * both);
        u1 += x[4 + i] * u;
        b1 += (uint32_t)(x[4 + i] * both);
      }
    }
    sums[0] = u0;
    sums[1] = tvmrt_micro_upper(b0, u0);
    sums[TVMRT_MICRO_CHUNK] = u1;
    sums[TVMRT_MICRO_CHUNK + 1] = tvmrt_micro_upper(b1, u1);
  }
}

#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_JOINT_I8_H_ */
