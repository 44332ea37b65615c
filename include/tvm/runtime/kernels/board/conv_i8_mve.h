/*!
 * \file board/conv_i8_mve.h
 * \brief Dense int8 layers with Helium (Cortex-M55, M85), 16 multiply-adds at a time.
 *
 * Helium multiplies int8 by int8. uint8 activations are shifted by 128 while they are copied; the
 * folded bias compensates. Packed weights: [quad of output channels][16 elements of the
 * window][channel of the quad][byte]; a last pair of channels is packed likewise. Values, errors
 * and threads: see board/conv_i8_driver.h.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_MVE_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I8_MVE_H_

#include "common_i8.h"

#define TVMRT_MICRO_GROUP 16
#define TVMRT_MICRO_UNIT 16
typedef int8_t tvmrt_micro_element;

TVMRT_NOINLINE tvmrt_micro_element* tvmrt_micro_copy_groups(tvmrt_micro_element* to, int32_t step,
                                                            const uint8_t* from, int32_t n,
                                                            int is_signed) {
  const uint8_t flip = is_signed ? 0 : 0x80;
  for (int32_t g = n / TVMRT_MICRO_GROUP; g > 0; g--, from += 16, to += step) {
#if TVMRT_MICRO_CAN_MVE
    vstrbq_u8((uint8_t*)to, veorq_u8(vldrbq_u8(from), vdupq_n_u8(flip)));
#else
    for (int i = 0; i < 16; i++) to[i] = (int8_t)(from[i] ^ flip);
#endif
  }
  return to;
}

#if TVMRT_MICRO_CAN_MVE && TVMRT_MICRO_ASM
/* A group of each channel with one pixel, and with two; loads are interleaved where they cost
 * least. */
#define TVMRT_MICRO_MVE_ONE(W, MLA, STEP, A) W " q1, [%[w]], #" STEP "\n" MLA " %[" A "], q0, q1\n"
#define TVMRT_MICRO_MVE_TWO(W, MLA, STEP, A, B) \
  TVMRT_MICRO_MVE_ONE(W, MLA, STEP, A) MLA " %[" B "], q2, q1\n"

/*
 * tvmrt_micro_NAME_quads_1() and _2(): accumulate quads of channels of one output pixel, and of two
 * neighbouring ones, whose windows are of ELEMENT. X and W load a group of a window and of weights,
 * STEP elements, which MLA multiplies.
 */
#define TVMRT_DEFINE_MVE_QUADS(NAME, ELEMENT, X, W, MLA, STEP)                                   \
  TVMRT_NOINLINE void tvmrt_micro_##NAME##_quads_1(int32_t* sums, const int32_t* bias,           \
                                                   const ELEMENT* window, const int8_t* w,       \
                                                   int32_t n, int32_t channels) {                \
    for (; channels > 0; channels -= 4, sums += 4, bias += 4) {                                  \
      const ELEMENT* x = window;                                                                 \
      int32_t a0 = bias[0], a1 = bias[1], a2 = bias[2], a3 = bias[3], left = n;                  \
      __asm volatile(                                                                            \
          "1:\n" X " q0, [%[x]], #16\n" TVMRT_MICRO_MVE_ONE(W, MLA, STEP, "a0")                  \
              TVMRT_MICRO_MVE_ONE(W, MLA, STEP, "a1") TVMRT_MICRO_MVE_ONE(W, MLA, STEP, "a2")    \
                  TVMRT_MICRO_MVE_ONE(W, MLA, STEP, "a3") "subs %[n], %[n], #" STEP "\nbgt 1b\n" \
          : [a0] "+Te"(a0), [a1] "+Te"(a1), [a2] "+Te"(a2), [a3] "+Te"(a3), [x] "+r"(x),         \
            [w] "+r"(w), [n] "+r"(left)                                                          \
          :                                                                                      \
          : "q0", "q1", "cc", "memory");                                                         \
      sums[0] = a0;                                                                              \
      sums[1] = a1;                                                                              \
      sums[2] = a2;                                                                              \
      sums[3] = a3;                                                                              \
    }                                                                                            \
  }                                                                                              \
  TVMRT_NOINLINE void tvmrt_micro_##NAME##_quads_2(int32_t* sums, const int32_t* bias,           \
                                                   const ELEMENT* window, const int8_t* w,       \
                                                   int32_t n, int32_t channels) {                \
    /* on the stack, addressed by a single register */                                           \
    struct {                                                                                     \
      int32_t* sums;                                                                             \
      const int32_t* end;                                                                        \
      const ELEMENT* window;                                                                     \
      int32_t n;                                                                                 \
      const int32_t* bias;                                                                       \
    } turn = {sums, sums + channels, window, n, bias};                                           \
    int32_t a0, a1, a2, a3, b0, b1, b2, b3;                                                      \
    const ELEMENT* x;                                                                            \
    __asm volatile(                                                                              \
        "1:\nldr %[x], [%[turn], #16]\nldrd %[a2], %[a3], [%[x], #8]\n"                          \
        "ldrd %[a0], %[a1], [%[x]], #16\nstr %[x], [%[turn], #16]\nldrd %[x], %[n], [%[turn], "  \
        "#8]\n"                                                                                  \
        "mov %[b0], %[a0]\nmov %[b1], %[a1]\nmov %[b2], %[a2]\nmov %[b3], %[a3]\n"               \
        "2:\n" X " q0, [%[x]], #16\n" X " q2, [%[x]], #16\n" TVMRT_MICRO_MVE_TWO(                \
            W, MLA, STEP, "a0", "b0") TVMRT_MICRO_MVE_TWO(W, MLA, STEP, "a1", "b1")              \
            TVMRT_MICRO_MVE_TWO(W, MLA, STEP, "a2", "b2") TVMRT_MICRO_MVE_TWO(                   \
                W, MLA, STEP, "a3",                                                              \
                "b3") "subs %[n], %[n], #" STEP                                                  \
                      "\nbgt 2b\n"                                                               \
                      "ldrd %[x], %[n], [%[turn]]\n"                                             \
                      "strd %[b0], %[b1], [%[x], #128]\nstrd %[b2], %[b3], [%[x], #136]\n"       \
                      "strd %[a2], %[a3], [%[x], #8]\nstrd %[a0], %[a1], [%[x]], #16\n"          \
                      "str %[x], [%[turn]]\ncmp %[x], %[n]\nblo 1b\n"                            \
        : [a0] "=&Te"(a0), [a1] "=&Te"(a1), [a2] "=&Te"(a2), [a3] "=&Te"(a3), [b0] "=&Te"(b0),   \
          [b1] "=&Te"(b1), [b2] "=&Te"(b2), [b3] "=&Te"(b3), [x] "=&r"(x), [w] "+r"(w),          \
          [n] "=&r"(n)                                                                           \
        : [turn] "r"(&turn)                                                                      \
        : "q0", "q1", "q2", "cc", "memory");                                                     \
  }
TVMRT_DEFINE_MVE_QUADS(mve, int8_t, "vldrb.8", "vldrb.8", "vmladava.s8", "16")
#endif

/*!
 * \brief Accumulate a pair of channels of one output pixel, or of two neighbouring ones, with minimum
 * code size, or in C.
 *
 * \param sums  [out] Of the pair, [pixel][TVMRT_MICRO_CHUNK].
 * \param step  [in] Bytes from a group of the pair's weights to the next one.
 */
TVMRT_NOINLINE void tvmrt_micro_mve_pair(int32_t* sums, const int32_t* bias, const int8_t* x,
                                         const int8_t* weights, int32_t step, int32_t n,
                                         int32_t pixels) {
  for (int32_t p = 0; p < 2 * pixels; p++) {
    const int8_t *window = x + p / 2 * 16, *w = weights + p % 2 * 16;
    int32_t sum = bias[p % 2];
    for (int32_t left = n; left > 0; left -= 16, window += 16 * pixels, w += step) {
#if TVMRT_MICRO_CAN_MVE
      sum = vmladavaq_s8(sum, vldrbq_s8(window), vldrbq_s8(w));
#else
      for (int32_t i = 0; i < 16; i++) TVMRT_WRAP_ADD_TO(sum, window[i] * w[i]);
#endif
    }
    sums[p / 2 * TVMRT_MICRO_CHUNK + p % 2] = sum;
  }
}

TVMRT_INLINE void tvmrt_micro_conv_accumulate(const tvmrt_micro_conv_i8* c,
                                              const tvmrt_micro_data* data, int32_t* sums,
                                              const tvmrt_micro_element* window, int32_t pixels,
                                              int32_t channel, int32_t channels, int tile) {
  const int32_t n = c->shape.layout.windows.length, whole = (channels + 1) & ~3;
  const int8_t* const weights = (const int8_t*)data->weights + channel * n;
  const int32_t* const bias = data->bias + channel;
  (void)tile;
#if TVMRT_MICRO_CAN_MVE && TVMRT_MICRO_ASM
  if (pixels == 2 && whole > 0) {
    tvmrt_micro_mve_quads_2(sums, bias, window, weights, n, whole);
  } else {
    tvmrt_micro_mve_quads_1(sums, bias, window, weights, n, whole);
  }
#else
  for (int32_t i = 0; i < whole; i += 2) {
    const int8_t* const w = weights + i / 4 * 4 * n + i % 4 * 16;
    tvmrt_micro_mve_pair(sums + i, bias + i, window, w, 64, n, pixels);
  }
#endif
  if (whole < channels) {
    tvmrt_micro_mve_pair(sums + whole, bias + whole, window, weights + whole * n, 32, n, pixels);
  }
}

/*! \brief Position of an element of a channel's window in the packed weights. */
TVMRT_INLINE int32_t tvmrt_micro_packed_at(const tvmrt_micro_conv_i8* c, int32_t channel,
                                           int32_t element) {
  const int32_t first = channel & ~3, left = (c->shape.out_c + 1 - first) & ~1;
  const int32_t block = left < 4 ? left : 4; /* channels of a block */
  const int32_t group = element / 16 * block + channel - first;
  return first * c->shape.layout.windows.length + group * 16 + element % 16;
}

#include "conv_i8_driver.h"

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I8_MVE_H_ */
