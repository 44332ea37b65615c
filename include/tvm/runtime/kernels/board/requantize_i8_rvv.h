/*!
 * \file board/requantize_i8_rvv.h
 * \brief tvmrt_micro_requantize() with the RISC-V vector extension; included by board/common_i8.h.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_RVV_H_
#define TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_RVV_H_

#include "rvv.h"

#if TVMRT_MICRO_RVV
/*! \brief Number of accumulators requantised, and of those without a fixed-point multiplier. */
typedef struct tvmrt_micro_vector_length {
  int32_t n, floats;
} tvmrt_micro_vector_length;

/*!
 * \brief Requantise as many of n accumulators as eight registers hold, by fixed-point multipliers;
 * bytes with float scales are wrong afterwards.
 *
 * \param factors [in] tvmrt_micro_multiplier of each accumulator.
 * \param half    [in] The zero point times 16, plus 8.
 */
TVMRT_INLINE tvmrt_micro_vector_length tvmrt_micro_rvv_requantize(uint8_t* y, const int32_t* sums,
                                                                  const void* multipliers,
                                                                  int32_t n, int32_t half,
                                                                  int32_t lo, int32_t hi) {
  tvmrt_micro_vector_length strip;
  __asm volatile(
      TVMRT_MICRO_RVV_ON
      "vsetvli %[vl], %[n], e32, m8, ta, ma\nvle32.v v16, (%[multipliers])\nvle32.v v8, "
      "(%[sums])\n"
      "vmsgt.vi v0, v16, -1\nvrsub.vi v16, v16, 0\nvcpop.m %[floats], v0\nvmulh.vv v8, v8, v16\n"
      "vadd.vx v8, v8, %[half]\nvsra.vi v8, v8, 4\nvmax.vx v8, v8, %[lo]\nvmin.vx v8, v8, %[hi]\n"
      "vsetvli zero, zero, e16, m4, ta, ma\nvnsrl.wi v8, v8, 0\n"
      "vsetvli zero, zero, e8, m2, ta, ma\nvnsrl.wi v8, v8, 0\nvse8.v v8, "
      "(%[y])\n" TVMRT_MICRO_RVV_OFF
      : [vl] "=&r"(strip.n), [floats] "=&r"(strip.floats)
      : [y] "r"(y), [sums] "r"(sums), [multipliers] "r"(multipliers), [n] "r"(n), [half] "r"(half),
        [lo] "r"(lo), [hi] "r"(hi)
      : TVMRT_MICRO_RVV_CHANGES);
  return strip;
}

/*! \brief Maximum accumulators per tvmrt_micro_rvv_scaled(). */
#define TVMRT_MICRO_RVV_SCALED 64

/*!
 * \brief Requantise those of n accumulators that have float scales, as many as four registers
 * hold: tvmrt_micro_scale_and_round() in integers.
 *
 * \param unsure [out] Indices of the `floats` bytes that are wrong: products next to a tie.
 */
TVMRT_INLINE tvmrt_micro_vector_length tvmrt_micro_rvv_scaled(uint8_t* y, const int32_t* sums,
                                                              const void* multipliers, int32_t n,
                                                              int32_t zero, int32_t lo, int32_t hi,
                                                              uint8_t* unsure) {
  tvmrt_micro_vector_length strip;
  __asm volatile(
      TVMRT_MICRO_RVV_ON
      "vsetvli %[vl], %[n], e32, m4, ta, ma\nvle32.v v8, (%[multipliers])\nvle32.v v4, "
      "(%[sums])\n"
      /* v16: 150 minus the exponent, v8: the scale's significand, v12: the absolute accumulator */
      "vmsgt.vi v0, v8, -1\nvsrl.vi v16, v8, 23\nli %[t], 150\nvrsub.vx v16, v16, %[t]\n"
      "vsll.vi v8, v8, 9\nvrsub.vi v12, v4, 0\nvsrl.vi v8, v8, 9\nli %[t], 0x800000\n"
      "vor.vx v8, v8, %[t]\nvmax.vv v12, v12, v4\n"
      /* v20: the product in 256ths; v8: the bits above it */
      "vmulhu.vv v20, v12, v8\nvmul.vv v24, v12, v8\nvadd.vi v28, v16, -8\nli %[t], 40\n"
      "vsrl.vv v24, v24, v28\nvrsub.vx v12, v16, %[t]\nvsrl.vv v8, v20, v28\n"
      "vsll.vv v20, v20, v12\nvor.vv v20, v20, v24\n"
      /* next to a tie, or shifted by more than a word */
      "li %[t], 255\nvand.vx v24, v20, %[t]\nli %[t], -126\nvadd.vx v24, v24, %[t]\n"
      "vmsleu.vi v2, v24, 3\nli %[t], 39\nvmsgt.vx v3, v16, %[t]\nvmor.mm v2, v2, v3\n"
      "vmand.mm v2, v2, v0\n"
      /* round; saturate if there are bits above; apply the sign, clamp */
      "vsrl.vi v20, v20, 7\nli %[t], 1\nvminu.vx v8, v8, %[t]\nvadd.vi v20, v20, 1\n"
      "vsll.vi v8, v8, 16\nvsrl.vi v20, v20, 1\nvsra.vi v4, v4, 31\nvor.vv v20, v20, v8\n"
      "vxor.vv v20, v20, v4\nvsub.vv v20, v20, v4\nvadd.vx v20, v20, %[zero]\n"
      "vmax.vx v20, v20, %[lo]\nvmin.vx v20, v20, %[hi]\n"
      "vsetvli zero, zero, e16, m2, ta, ma\nvnsrl.wi v20, v20, 0\n"
      "vsetvli zero, zero, e8, m1, ta, ma\nvnsrl.wi v20, v20, 0\nvse8.v v20, (%[y]), v0.t\n"
      "vcpop.m %[t], v2\nvid.v v8\nvcompress.vm v12, v8, v2\nvse8.v v12, "
      "(%[unsure])\n" TVMRT_MICRO_RVV_OFF
      : [vl] "=&r"(strip.n), [t] "=&r"(strip.floats)
      : [y] "r"(y), [sums] "r"(sums), [multipliers] "r"(multipliers), [n] "r"(n), [zero] "r"(zero),
        [lo] "r"(lo), [hi] "r"(hi), [unsure] "r"(unsure)
      : TVMRT_MICRO_RVV_CHANGES);
  return strip;
}

/*! \brief Requantise accumulators with float scales; fixed-point ones are done. */
TVMRT_NOINLINE void tvmrt_micro_requantize_floats(uint8_t* y, const int32_t* sums,
                                                  const tvmrt_micro_multiplier* multipliers,
                                                  int32_t n, const tvmrt_micro_range* range) {
  uint8_t unsure[TVMRT_MICRO_RVV_SCALED];
  while (n > 0) {
    const int32_t count = n < TVMRT_MICRO_RVV_SCALED ? n : TVMRT_MICRO_RVV_SCALED;
    const tvmrt_micro_vector_length strip = tvmrt_micro_rvv_scaled(
        y, sums, multipliers, count, range->zero, range->lo, range->hi, unsure);
    for (int32_t i = 0; i < strip.floats; i++) {
      const int32_t at = unsure[i];
      tvmrt_micro_requantize_any(y + at, sums + at, multipliers + at, 1, range);
    }
    y += strip.n;
    sums += strip.n;
    multipliers += strip.n;
    n -= strip.n;
  }
}

/*! \brief tvmrt_micro_requantize() with pairs of multipliers, see TVMRT_MICRO_TWICE. */
TVMRT_RARELY_CALLED void tvmrt_micro_rvv_requantize_twice(uint8_t* y, const int32_t* sums,
                                                          const void* multipliers, int32_t n,
                                                          const tvmrt_micro_range* range) {
  const int32_t half = 2 * range->zero + 1, lo = range->lo, hi = range->hi;
  int32_t vl, bytes;
  __asm volatile(
      TVMRT_MICRO_RVV_ON
      "1:\nvsetvli %[vl], %[n], e32, m4, ta, ma\nvlseg2e32.v v8, (%[multipliers])\n"
      "vle32.v v4, (%[sums])\nslli %[bytes], %[vl], 2\nadd %[sums], %[sums], %[bytes]\n"
      "slli %[bytes], %[vl], 3\nadd %[multipliers], %[multipliers], %[bytes]\n"
      /* first rounding: the sum plus the upper half of the product, and its next bit */
      "vmulh.vv v16, v4, v8\nvmul.vv v20, v4, v8\nvadd.vv v4, v4, v16\nvsrl.vi v20, v20, 31\n"
      "vadd.vv v4, v4, v20\n"
      "vsra.vi v16, v4, 31\nvadd.vv v4, v4, v16\nvsra.vv v4, v4, v12\nvadd.vx v4, v4, %[half]\n"
      "vsra.vi v4, v4, 1\nvmax.vx v4, v4, %[lo]\nvmin.vx v4, v4, %[hi]\n"
      "vsetvli zero, zero, e16, m2, ta, ma\nvnsrl.wi v4, v4, 0\n"
      "vsetvli zero, zero, e8, m1, ta, ma\nvnsrl.wi v4, v4, 0\nvse8.v v4, (%[y])\n"
      "sub %[n], %[n], %[vl]\nadd %[y], %[y], %[vl]\nbnez %[n], 1b\n" TVMRT_MICRO_RVV_OFF
      : [vl] "=&r"(vl), [bytes] "=&r"(bytes), [y] "+r"(y), [sums] "+r"(sums), [n] "+r"(n),
        [multipliers] "+r"(multipliers)
      : [half] "r"(half), [lo] "r"(lo), [hi] "r"(hi)
      : TVMRT_MICRO_RVV_CHANGES);
}

TVMRT_NOINLINE void tvmrt_micro_requantize(uint8_t* y, const int32_t* sums,
                                           const tvmrt_micro_multiplier* multipliers, int32_t n,
                                           const tvmrt_micro_range* range) {
  if (TVMRT_MICRO_IS_TWICE(range)) {
    if (n > 0) tvmrt_micro_rvv_requantize_twice(y, sums, multipliers, n, range);
    return;
  }
  while (n > 0) {
    const tvmrt_micro_vector_length strip = tvmrt_micro_rvv_requantize(
        y, sums, multipliers, n, range->zero * 16 + 8, range->lo, range->hi);
    if (strip.floats > 0) tvmrt_micro_requantize_floats(y, sums, multipliers, strip.n, range);
    y += strip.n;
    sums += strip.n;
    multipliers += strip.n;
    n -= strip.n;
  }
}
#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_RVV_H_ */
