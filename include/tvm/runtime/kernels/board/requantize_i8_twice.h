/*!
 * \file board/requantize_i8_twice.h
 * \brief tvmrt_micro_requantize() with the two roundings of TensorFlow Lite; included by
 * board/common_i8.h.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_TWICE_H_
#define TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_TWICE_H_

#ifdef TVMRT_MICRO_IS_TWICE /* of board/common_i8.h */
/*!
 * \brief Requantise one sum with a pair of multipliers, without clamping: TVMRT_MICRO_TWICE.
 *
 * \param half [in] Twice the zero point, plus 1.
 */
TVMRT_INLINE int32_t tvmrt_micro_round_twice_fixed(int32_t sum, int32_t factor, int32_t shift,
                                                   int32_t half) {
#if TVMRT_MICRO_CAN_DSP && defined(__GNUC__)
  __asm("smmlar %0, %0, %1, %0" : "+r"(sum) : "r"(factor));
#else
  const int64_t product = (int64_t)sum * factor;
  TVMRT_WRAP_ADD_TO(sum, (int32_t)(product >> 32) + (int32_t)((uint32_t)product >> 31));
#endif
  TVMRT_WRAP_ADD_TO(sum, sum >> 31);
  return TVMRT_WRAP_ADD(TVMRT_WRAP_SHIFT_RIGHT(sum, shift), half) >> 1;
}

#if TVMRT_MICRO_CAN_DSP
/* The byte in R of its sum, still to be halved and saturated; AWAY moves ties away from zero. */
#define TVMRT_MICRO_TWICE_SUM(R, FACTOR, SHIFT, AWAY)                                             \
  "smmlar " R ", " R ", " FACTOR ", " R "\n" AWAY(R) "asr " R ", " R ", " SHIFT "\nadd " R ", " R \
                                                     ", %[half]\n"
#define TVMRT_MICRO_AWAY(R) "add " R ", " R ", " R ", asr #31\n"
#define TVMRT_MICRO_UPWARDS(R) ""
#endif

#if TVMRT_MICRO_ASM && TVMRT_MICRO_HAS_FPU
#define TVMRT_MICRO_TWICE_BYTE(R, SATURATE, AWAY)                                             \
  "ldrd %[f0], %[f1], [%[f]], #8\n" TVMRT_MICRO_TWICE_SUM(R, "%[f0]", "%[f1]", AWAY) SATURATE \
      " " R ", #8, " R ", asr #1\nstrb " R ", [%[y]], #1\n"
/* *y++ = the byte of *s++ and a pair of multipliers, n times; n is a positive multiple of 4. */
#define TVMRT_MICRO_TWICE_ROW(SATURATE, AWAY) \
  __asm volatile("1:\nldmia %[s]!, {r3-r6}\n" TVMRT_MICRO_TWICE_BYTE("r3", SATURATE, AWAY)       \
                     TVMRT_MICRO_TWICE_BYTE("r4", SATURATE, AWAY)                                \
                         TVMRT_MICRO_TWICE_BYTE("r5", SATURATE, AWAY)                            \
                             TVMRT_MICRO_TWICE_BYTE("r6", SATURATE, AWAY) "subs %[n], %[n], "    \
                                                                          "#4\nbgt 1b\n"         \
                 : [y] "+r"(y), [s] "+r"(sums), [f] "+r"(multipliers), [n] "+r"(fours),          \
                   [f0] "=&r"(f0), [f1] "=&r"(f1)                                                \
                 : [half] "r"(half)                                                              \
                 : "r3", "r4", "r5", "r6", "cc", "memory")
#endif

/*! \brief tvmrt_micro_requantize() with pairs of multipliers. */
TVMRT_RARELY_CALLED void tvmrt_micro_requantize_twice(uint8_t* y, const int32_t* sums,
                                                      const tvmrt_micro_multiplier* multipliers,
                                                      int32_t n, const tvmrt_micro_range* range) {
  const int32_t lo = range->lo, hi = range->hi, half = 2 * (int32_t)range->zero + 1;
#if TVMRT_MICRO_ASM && TVMRT_MICRO_HAS_FPU
  int32_t fours = n & ~3;
  if (fours > 0 && range->full_range > 0) {
    uint32_t f0, f1;
    if (range->full_range == TVMRT_MICRO_FULL_UINT8) {
      TVMRT_MICRO_TWICE_ROW("usat", TVMRT_MICRO_AWAY);
    } else if (TVMRT_MICRO_TWICE_OF(range) == TVMRT_MICRO_TWICE) {
      TVMRT_MICRO_TWICE_ROW("ssat", TVMRT_MICRO_AWAY);
    } else {
      TVMRT_MICRO_TWICE_ROW("ssat", TVMRT_MICRO_UPWARDS);
    }
    n &= 3;
  }
#endif
  for (; n > 0; n--, multipliers += 2) {
    const int32_t q =
        tvmrt_micro_round_twice_fixed(*sums++, multipliers[0].fixed, multipliers[1].fixed, half);
    *y++ = TVMRT_MICRO_CLAMP_BYTE(q, lo, hi);
  }
}
#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_TWICE_H_ */
