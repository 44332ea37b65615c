/*!
 * \file board/requantize_i8_mve.h
 * \brief tvmrt_micro_requantize() with Helium; included by board/common_i8.h.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_MVE_H_
#define TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_MVE_H_

#if TVMRT_MICRO_MVE_REQUANTIZES

/*! \brief Pairs of multipliers (TVMRT_MICRO_TWICE) of four channels: m and -n. */
typedef struct tvmrt_micro_mve_pairs {
  int32x4_t m, shift;
} tvmrt_micro_mve_pairs;

TVMRT_INLINE tvmrt_micro_mve_pairs tvmrt_micro_mve_load_pairs(const void* multipliers) {
  const uint32x4x2_t pairs = vld2q_u32((const uint32_t*)multipliers); /* 2 * m, n - 1 */
  const tvmrt_micro_mve_pairs k = {vreinterpretq_s32_u32(vshrq_n_u32(pairs.val[0], 1)),
                                   vreinterpretq_s32_u32(vmvnq_u32(pairs.val[1]))};
  return k;
}

/*! \brief Round four sums twice, ties away from zero. */
TVMRT_INLINE int32x4_t tvmrt_micro_mve_round_twice(int32x4_t q, const tvmrt_micro_mve_pairs* k) {
  q = vqrdmulhq_s32(q, k->m);
  return vrshlq_s32(vaddq_s32(q, vshrq_n_s32(q, 31)), k->shift);
}

#if TVMRT_MICRO_ASM
/* Round the sums in Q twice; AWAY moves ties away from zero, with the temporary vector T. */
#define TVMRT_MICRO_MVE_TWICE(Q, M, SHIFT, T, AWAY) \
  "vqrdmulh.s32 " Q ", " Q ", " M "\n" AWAY(Q, T) "vrshl.s32 " Q ", " Q ", " SHIFT "\n"
#define TVMRT_MICRO_MVE_AWAY(Q, T) "vshr.s32 " T ", " Q ", #31\nvadd.i32 " Q ", " Q ", " T "\n"
#define TVMRT_MICRO_MVE_UPWARDS(Q, T) ""
#define TVMRT_MICRO_MVE_TWICE_BYTES(SUMS, Y, AWAY) \
  "vldrw.32 q2, [" SUMS "], #16\n" TVMRT_MICRO_MVE_TWICE("q2", "q0", "q1", "q3", AWAY) \
  "vadd.i32 q2, q2, %[zero]\nvmax.s32 q2, q2, %q[low]\nvmin.s32 q2, q2, %q[high]\n" \
  "vstrb.32 q2, [" Y "], #4\n"
/* Groups of four channels of two pixels. */
#define TVMRT_MICRO_MVE_TWICE_ROWS(AWAY)                                                     \
  __asm volatile(                                                                            \
      "subs %[n], %[n], #4\nblt 2f\n"                                                        \
      "1:\nvld20.32 {q0, q1}, [%[f]]\nvld21.32 {q0, q1}, [%[f]]!\n"                          \
      "vshr.u32 q0, q0, #1\nvmvn q1, q1\n" TVMRT_MICRO_MVE_TWICE_BYTES("%[s]", "%[y]", AWAY) \
          TVMRT_MICRO_MVE_TWICE_BYTES(                                                       \
              "%[second]", "%[next]",                                                        \
              AWAY) "subs %[n], %[n], #4\nbge 1b\n2:\nadds %[n], %[n], #4\n"                 \
      : [y] "+l"(y), [next] "+l"(next), [s] "+r"(sums), [second] "+r"(second),               \
        [f] "+r"(multipliers), [n] "+r"(n)                                                   \
      : [zero] "r"(zero), [low] "w"(low), [high] "w"(high)                                   \
      : "q0", "q1", "q2", "q3", "cc", "memory")
#endif

/*! \brief Requantise four sums that all have fixed-point multipliers, or none. */
TVMRT_NOINLINE int32x4_t tvmrt_micro_requantize_four(const int32_t* sums,
                                                     const tvmrt_micro_multiplier* multipliers,
                                                     int32_t zero, int32x4_t low, int32x4_t high) {
  int32x4_t q = vldrwq_s32(sums);
  if (multipliers->fixed < 0) {
    q = vmulhq_s32(q, vnegq_s32(vldrwq_s32(&multipliers->fixed)));
    q = vshrq_n_s32(vaddq_n_s32(q, zero * 16 + 8), 4);
  } else {
    q = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(q), vldrwq_f32(&multipliers->scale)));
    q = vqaddq_n_s32(q, zero);
  }
  return vminq_s32(vmaxq_s32(q, low), high);
}

/*! \brief Requantise four sums with their multipliers; low and high are the range's. */
TVMRT_INLINE int32x4_t tvmrt_micro_mve_requantize_four(const int32_t* sums,
                                                       const tvmrt_micro_multiplier* multipliers,
                                                       const tvmrt_micro_range* range,
                                                       int32x4_t low, int32x4_t high) {
  if (TVMRT_MICRO_IS_TWICE(range)) {
    const tvmrt_micro_mve_pairs k = tvmrt_micro_mve_load_pairs(multipliers);
    const int32x4_t q = tvmrt_micro_mve_round_twice(vldrwq_s32(sums), &k);
    return vminq_s32(vmaxq_s32(vaddq_n_s32(q, range->zero), low), high);
  }
  return tvmrt_micro_requantize_four(sums, multipliers, range->zero, low, high);
}

/*!
 * \brief Requantise n channels of two pixels; their sums are `stride` apart and their bytes
 * `step`. Both are 0 for one pixel.
 */
TVMRT_NOINLINE void tvmrt_micro_requantize_two(uint8_t* y, int32_t step, const int32_t* sums,
                                               int32_t stride,
                                               const tvmrt_micro_multiplier* multipliers, int32_t n,
                                               const tvmrt_micro_range* range) {
  const int32x4_t low = vdupq_n_s32(range->lo), high = vdupq_n_s32(range->hi);
#if TVMRT_MICRO_ASM
  const int32_t zero = range->zero; /* of 32 bits, as assembly needs it */
  uint8_t* next = y + step;
  const int32_t* second = sums + stride;
  if (TVMRT_MICRO_TWICE_OF(range) == TVMRT_MICRO_TWICE) {
    TVMRT_MICRO_MVE_TWICE_ROWS(TVMRT_MICRO_MVE_AWAY);
  } else if (TVMRT_MICRO_IS_TWICE(range)) {
    TVMRT_MICRO_MVE_TWICE_ROWS(TVMRT_MICRO_MVE_UPWARDS);
  } else { /* up to the first group without fixed-point multipliers */
    int32_t factor;
    __asm volatile(
        "subs %[n], %[n], #4\nblt 2f\n"
        "1:\nldr %[factor], [%[f]]\nvldrw.32 q0, [%[f]]\ncmp %[factor], #0\nbge 2f\n"
        "vldrw.32 q1, [%[s]], #16\nvneg.s32 q0, q0\nadds %[f], %[f], #16\n"
        "vmulh.s32 q1, q1, q0\nvadd.i32 q1, q1, %[half]\nvshr.s32 q1, q1, #4\n"
        "vmax.s32 q1, q1, %q[low]\nvmin.s32 q1, q1, %q[high]\nvstrb.32 q1, [%[y]], #4\n"
        "vldrw.32 q1, [%[second]], #16\n"
        "vmulh.s32 q1, q1, q0\nvadd.i32 q1, q1, %[half]\nvshr.s32 q1, q1, #4\n"
        "vmax.s32 q1, q1, %q[low]\nvmin.s32 q1, q1, %q[high]\nvstrb.32 q1, [%[next]], #4\n"
        "subs %[n], %[n], #4\nbge 1b\n"
        "2:\nadds %[n], %[n], #4\n"
        : [y] "+l"(y), [next] "+l"(next), [s] "+r"(sums), [second] "+r"(second),
          [f] "+r"(multipliers), [n] "+r"(n), [factor] "=&r"(factor)
        : [half] "r"(zero * 16 + 8), [low] "w"(low), [high] "w"(high)
        : "q0", "q1", "cc", "memory");
  }
#endif
  for (; n > 0; n -= 4, y += 4, sums += 4) {
    const mve_pred16_t mask = vctp32q((uint32_t)n);
    int32x4_t q = tvmrt_micro_mve_requantize_four(sums + stride, multipliers, range, low, high);
    vstrbq_p_s32((int8_t*)y + step, q, mask);
    q = tvmrt_micro_mve_requantize_four(sums, multipliers, range, low, high);
    vstrbq_p_s32((int8_t*)y, q, mask);
    multipliers += TVMRT_MICRO_IS_TWICE(range) ? 8 : 4;
  }
}

TVMRT_INLINE void tvmrt_micro_requantize(uint8_t* y, const int32_t* sums,
                                         const tvmrt_micro_multiplier* multipliers, int32_t n,
                                         const tvmrt_micro_range* range) {
  tvmrt_micro_requantize_two(y, 0, sums, 0, multipliers, n, range);
}

#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_MVE_H_ */
