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

/*! \brief The weights of a channel. */
TVMRT_INLINE const int16_t* tvmrt_micro_joint_weights(const tvmrt_micro_conv_i8* c,
                                                      const tvmrt_micro_data* data,
                                                      int32_t channel) {
  return (const int16_t*)data->weights + (channel >> 1) * (c->shape.kept.windows.length + 4);
}

/*! \brief The sum for v, where `both` has the products of u + 256 * v. */
TVMRT_INLINE int32_t tvmrt_micro_upper(uint32_t both, int32_t u) {
  return (int32_t)(both - (uint32_t)u) >> 8;
}

#if TVMRT_MICRO_ASM
/* Two quads of one pixel, which LDM loads into r3 to r6. */
#define TVMRT_MICRO_JOINT_TWO_QUADS                                                            \
  "ldmia %[x]!, {r3-r6}\n" TVMRT_MICRO_JOINT_QUAD_1("r3", "r4") TVMRT_MICRO_JOINT_QUAD_1("r5", \
                                                                                         "r"   \
                                                                                         "6")
#define TVMRT_MICRO_JOINT_QUAD_1(X0, X1) \
  "ldrd %[w0], %[w1], [%[w]], #8\n"      \
  "smlad %[b], " X0                      \
  ", %[w0], %[b]\nsxtb16 %[w0], %[w0]\n" \
  "smlad %[b], " X1                      \
  ", %[w1], %[b]\nsxtb16 %[w1], %[w1]\n" \
  "smlad %[u], " X0 ", %[w0], %[u]\nsmlad %[u], " X1 ", %[w1], %[u]\n"
#endif

/*! \brief The sums of channels of one pixel, and n elements of its window. */
TVMRT_NOINLINE void tvmrt_micro_joint_1(int32_t* sums, const int32_t* end, const int16_t* w,
                                        const int16_t* window, int32_t length) {
  for (; sums < end; sums += 2) {
    const int16_t* x = window;
    int32_t u = ((const int32_t*)(const void*)w)[0], n = length;
    uint32_t b = ((const uint32_t*)(const void*)w)[1];
    w += 4;
#if TVMRT_MICRO_ASM
    uint32_t w0, w1;
    __asm volatile("tst %[n], #8\nbne 2f\n1:\n" TVMRT_MICRO_JOINT_TWO_QUADS
                   "2:\n" TVMRT_MICRO_JOINT_TWO_QUADS "subs %[n], %[n], #16\nbgt 1b\n"
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

/*
 * The sums of two channels as the bytes of both pixels: products with the channels' factors, which
 * %[bytes] leads to, shifted and saturated; r3 is where they go.
 */
#define TVMRT_MICRO_JOINT_BYTES                                    \
  "ldrd r5, r6, %[bytes]\n"                                        \
  "ldrd %[w0], %[w1], [r5], #8\n"                                  \
  "str r5, %[bytes]\n"                                             \
  "ldrd %[n], %[x], %[end]\n"                                      \
  "smmls %[u0], %[u0], %[w0], r6\nsmmls %[b0], %[b0], %[w1], r6\n" \
  "smmls %[u1], %[u1], %[w0], r6\nsmmls %[b1], %[b1], %[w1], r6\n" \
  "ssat %[u0], #8, %[u0], asr #4\nssat %[b0], #8, %[b0], asr #4\n" \
  "ssat %[u1], #8, %[u1], asr #4\nssat %[b1], #8, %[b1], asr #4\n" \
  "strb %[u1], [r3, %[n]]\nstrb %[u0], [r3], #1\n"                 \
  "strb %[b1], [r3, %[n]]\nstrb %[b0], [r3], #1\n"                 \
  "str r3, %[out]\n"                                               \
  "cmp r3, %[x]\nblo 1b\n"

/*!
 * \brief The sums of channels of two pixels, [pixel][TVMRT_MICRO_CHUNK]; or, where y is not NULL,
 * the bytes of all channels, y being those of the first pixel.
 */
TVMRT_NOINLINE void tvmrt_micro_joint_2(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                        const int16_t* window, int32_t channel, int32_t* sums,
                                        int32_t channels, uint8_t* y) {
  const int16_t* w = tvmrt_micro_joint_weights(c, data, channel);
  /* on the stack, where no register is needed to find them */
  const struct {
    const int16_t* window;
    int32_t n;
  } in = {window, c->shape.kept.windows.length};
  struct {
    void* at;
    const void* last; /* of sums; NULL tells that bytes are made */
  } out = {sums, sums + ((channels - 1) & ~1)};
  struct {
    const void* factors;
    int32_t half; /* what is added to products with them */
    int32_t stride;
    const uint8_t* end;
  } bytes;
  if (y != NULL) {
    out.at = y;
    out.last = NULL;
    bytes.factors = data->factors;
    bytes.half = c->range.zero * 16 + 8;
    bytes.stride = c->shape.y_stride;
    bytes.end = y + channels;
  }
  uint32_t u0, u1, b0, b1, w0, w1, x, n;
  __asm volatile(
      "1:\n"
      "ldrd %[u1], %[b1], [%[w]]\n"
      "ldrd %[u0], %[b0], [%[w]], #8\n"
      "ldrd %[x], %[n], %[in]\n"
      /* four quads at a time; two at first if their number is no multiple of four */
      "tst %[n], #8\nbne 3f\n"
      "2:\n" TVMRT_MICRO_JOINT_QUAD TVMRT_MICRO_JOINT_QUAD
      "3:\n" TVMRT_MICRO_JOINT_QUAD TVMRT_MICRO_JOINT_QUAD
      "subs %[n], %[n], #16\nbgt 2b\n"
      "ldrd r3, r4, %[out]\n"
      "sub %[b0], %[b0], %[u0]\n"
      "sub %[b1], %[b1], %[u1]\n"
      "asr %[b0], %[b0], #8\n"
      "asr %[b1], %[b1], #8\n"
      "cmp r3, r4\nbhi 4f\n"
      "strd %[u1], %[b1], [r3, #128]\n"
      "strd %[u0], %[b0], [r3], #8\n"
      "str r3, %[out]\n"
      "blo 1b\nb 5f\n" /* as compared: there is nothing that changes the flags in between */
      "4:\n" TVMRT_MICRO_JOINT_BYTES "5:\n"
      : [u0] "=&r"(u0), [u1] "=&r"(u1), [b0] "=&r"(b0), [b1] "=&r"(b1), [w] "+r"(w), [w0] "=&r"(w0),
        [w1] "=&r"(w1), [x] "=&r"(x), [n] "=&r"(n), [out] "+m"(out), [bytes] "+m"(bytes)
      : [in] "m"(in), [end] "m"(bytes.stride)
      : "r3", "r4", "r5", "r6", "cc", "memory");
}

#else

TVMRT_NOINLINE void tvmrt_micro_joint_2(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                        const int16_t* window, int32_t channel, int32_t* sums,
                                        int32_t channels, uint8_t* y) {
  const int16_t* w = tvmrt_micro_joint_weights(c, data, channel);
  (void)y;
  const int32_t* const end = sums + channels;
  for (int32_t* at = sums; at < end; at += 2) {
    const int16_t* x = window;
    int32_t u0 = ((const int32_t*)(const void*)w)[0], u1 = u0;
    uint32_t b0 = ((const uint32_t*)(const void*)w)[1], b1 = b0;
    w += 4;
    for (int32_t n = c->shape.kept.windows.length; n > 0; n -= 4, x += 8, w += 4) {
      TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) {
        const int32_t u = *(const int8_t*)(w + i), both = w[i];
        u0 += x[i] * u;
        b0 += (uint32_t)(x[i] * both);
        u1 += x[4 + i] * u;
        b1 += (uint32_t)(x[4 + i] * both);
      }
    }
    at[0] = u0;
    at[1] = tvmrt_micro_upper(b0, u0);
    at[TVMRT_MICRO_CHUNK] = u1;
    at[TVMRT_MICRO_CHUNK + 1] = tvmrt_micro_upper(b1, u1);
  }
}

#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_JOINT_I8_H_ */
