/*!
 * \file board/requantize_i16.h
 * \brief Requantisation of the sums of layers of microcontrollers to int16.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I16_H_
#define TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I16_H_

#include "common_i8.h"

/*! \brief Context of tvmrt_micro_i16_rows(). */
typedef struct tvmrt_micro_i16_range {
  const int32_t* multipliers; /*!< 2 ^ 32 times the scale of each channel. */
  int32_t lo, hi;             /*!< Bounds of the result. */
} tvmrt_micro_i16_range;

#if TVMRT_MICRO_ASM && TVMRT_MICRO_CAN_DSP && !TVMRT_MICRO_CAN_MVE
/* Requantise `pairs` channels, an even number above 0. */
#define TVMRT_MICRO_I16_PAIRS(SATURATE)                                                         \
  __asm volatile(                                                                               \
      "1:\nldrd %[a], %[b], [%[s]], #8\nldrd %[c], %[d], [%[m]], #8\nsmmulr %[a], %[a], %[c]\n" \
      "smmulr %[b], %[b], %[d]\n" SATURATE                                                      \
      "pkhbt %[a], %[a], %[b], lsl #16\nstr %[a], [%[y]], #4\nsubs %[n], %[n], #2\nbgt 1b\n"    \
      : [s] "+r"(s), [m] "+r"(m), [y] "+r"(to), [n] "+r"(pairs), [a] "=&r"(a), [b] "=&r"(b),    \
        [c] "=&r"(c), [d] "=&r"(d)                                                              \
      :                                                                                         \
      : "cc", "memory")
#endif

/*! \brief A tvmrt_i8_epilogue: sums times scales, rounded, ties upwards, and clamped. */
static inline void tvmrt_micro_i16_rows(const tvmrt_i8_rows* rows, const void* ctx) {
  const tvmrt_micro_i16_range range = *(const tvmrt_micro_i16_range*)ctx;
  for (int32_t p = 0; p < rows->pixels; p++) {
    const int32_t* s = rows->acc + p * (int32_t)rows->acc_stride;
    const int32_t* m = range.multipliers + rows->channel;
    int16_t* to = (int16_t*)rows->y + p * (int32_t)rows->y_stride;
    int32_t n = rows->channels;
#if TVMRT_MICRO_CAN_MVE
    for (; n >= 4; n -= 4, s += 4, m += 4, to += 4) {
      int32x4_t q = vrmulhq_s32(vldrwq_s32(s), vldrwq_s32(m));
      q = vminq_s32(vmaxq_s32(q, vdupq_n_s32(range.lo)), vdupq_n_s32(range.hi));
      vstrhq_s32(to, q);
    }
#elif TVMRT_MICRO_ASM && TVMRT_MICRO_CAN_DSP
    int32_t pairs = n & ~1, a, b, c, d;
    if (pairs > 0 && range.lo == INT16_MIN && range.hi == INT16_MAX) {
      TVMRT_MICRO_I16_PAIRS("ssat %[a], #16, %[a]\nssat %[b], #16, %[b]\n");
      n &= 1;
    } else if (pairs > 0 && range.lo == 0 && range.hi == INT16_MAX) {
      TVMRT_MICRO_I16_PAIRS("usat %[a], #15, %[a]\nusat %[b], #15, %[b]\n");
      n &= 1;
    }
#endif
    for (; n > 0; n--) {
      int32_t q = (int32_t)(((int64_t)*s++ * *m++ + INT64_C(0x80000000)) >> 32);
      if (q < range.lo) q = range.lo;
      if (q > range.hi) q = range.hi;
      *to++ = (int16_t)q;
    }
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I16_H_ */
