/*!
 * \file tile/simd_i8_x86_fixed.h
 * \brief Requantisation by fixed-point multipliers with AVX2 and AVX-512, in vectors of B bytes; a
 * part of tile/simd_i8.h.
 *
 * An instruction multiplies the even channels to 64 bits. The addend of a channel merges both
 * roundings of tile/simd_i8.h: with s = 31 + n, a positive product p becomes
 * (p + 2 ^ 30 + 2 ^ (s - 1)) >> s, a negative one has the addend 2 ^ 31 lower. The upper 32 bits of
 * the sums are shifted by n - 1.
 *
 * Before: tile/simd_i8.h, for the formats of x86 but TVMRT_I8_X86_SSE41.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_X86_FIXED_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_X86_FIXED_H_

#if !defined(TVMRT_I8_CAN_AVX2) || !TVMRT_I8_CAN_AVX2
#error "tile/simd_i8_x86_fixed.h is a part of tile/simd_i8.h: define TVMRT_I8_FORMAT, include that"
#else

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* The addend, 2 ^ 31 lower for negative products; the upper halves of the lanes. */
#define TVMRT_DEFINE_X86_FIXED_PARTS(B, V, MM, BITS)                                        \
  TVMRT_INLINE V tvmrt_i8_addend_##B(V addend, V product) {                                 \
    const V lower = MM##_sub_epi64(addend, MM##_set1_epi64x((int64_t)1 << 31));             \
    return MM##_castpd_si##BITS(MM##_blendv_pd(MM##_castsi##BITS##_pd(addend),              \
                                               MM##_castsi##BITS##_pd(lower),               \
                                               MM##_castsi##BITS##_pd(product)));           \
  }                                                                                         \
  TVMRT_INLINE V tvmrt_i8_upper_##B(V even, V odd) {                                        \
    return MM##_blend_epi32(MM##_srli_epi64(even, 32), odd, 0xAA & ((1 << ((B) / 4)) - 1)); \
  }
/* tvmrt_i8_fixed_B(): requantise B / 4 sums. */
#define TVMRT_DEFINE_X86_FIXED(B, V, F, MM, BITS)                                                \
  TVMRT_INLINE V tvmrt_i8_fused_##B(int rounding, V acc, const int32_t* fixed, int64_t stride) { \
    F scale, addend;                                                                             \
    memcpy(&scale, fixed, B);                                                                    \
    memcpy(&addend, fixed + stride, B);                                                          \
    const F v = MM##_cvtepi32_ps(acc);                                                           \
    if (rounding == TVMRT_ROUND_SIGNED) {                                                        \
      const V sign = MM##_and_si##BITS(MM##_castps_si##BITS(v), MM##_set1_epi32(INT32_MIN));     \
      addend = MM##_castsi##BITS##_ps(MM##_xor_si##BITS(MM##_castps_si##BITS(addend), sign));    \
    }                                                                                            \
    return MM##_cvtps_epi32(MM##_fmadd_ps(v, scale, addend));                                    \
  }                                                                                              \
  TVMRT_INLINE V tvmrt_i8_fixed_##B(int rounding, V acc, const int32_t* fixed, int64_t stride) { \
    if (rounding == TVMRT_ROUND_FLOAT || rounding == TVMRT_ROUND_SIGNED) {                       \
      return tvmrt_i8_fused_##B(rounding, acc, fixed, stride);                                   \
    }                                                                                            \
    if (rounding == TVMRT_ROUND_DOWN) return tvmrt_i8_down_##B(acc, fixed, stride);              \
    V m, shift, addend[2];                                                                       \
    memcpy(&m, fixed, B);                                                                        \
    memcpy(&shift, fixed + stride, B);                                                           \
    memcpy(&addend[0], fixed + 2 * stride, B);                                                   \
    memcpy(&addend[1], fixed + 3 * stride, B);                                                   \
    const V even = MM##_mul_epi32(acc, m);                                                       \
    const V odd = MM##_mul_epi32(MM##_srli_epi64(acc, 32), MM##_srli_epi64(m, 32));              \
    if (rounding == TVMRT_ROUND_TWICE) {                                                         \
      addend[0] = tvmrt_i8_addend_##B(addend[0], even);                                          \
      addend[1] = tvmrt_i8_addend_##B(addend[1], odd);                                           \
    }                                                                                            \
    const V upper =                                                                              \
        tvmrt_i8_upper_##B(MM##_add_epi64(even, addend[0]), MM##_add_epi64(odd, addend[1]));     \
    return MM##_srav_epi32(upper, shift);                                                        \
  }
/* tvmrt_i8_down_B(): the same for TVMRT_ROUND_DOWN; only instructions of 512 bits round down. */
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI
#define TVMRT_I8_DOWN (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define TVMRT_I8_SAME(v) (v)
#define TVMRT_DEFINE_X86_DOWN(B, V, F, MM, WIDEN, NARROW)                              \
  TVMRT_INLINE V tvmrt_i8_down_##B(V acc, const int32_t* fixed, int64_t stride) {      \
    F scale, addend, rest;                                                             \
    memcpy(&scale, fixed, B);                                                          \
    memcpy(&addend, fixed + stride, B);                                                \
    memcpy(&rest, fixed + 2 * stride, B);                                              \
    const F v = MM##_cvtepi32_ps(acc);                                                 \
    const __m512 sum = _mm512_fmadd_round_ps(                                          \
        WIDEN(v), WIDEN(scale), WIDEN(MM##_fmadd_ps(v, rest, addend)), TVMRT_I8_DOWN); \
    return NARROW(_mm512_cvt_roundps_epi32(sum, TVMRT_I8_DOWN));                       \
  }
TVMRT_DEFINE_X86_DOWN(16, __m128i, __m128, _mm, _mm512_castps128_ps512, _mm512_castsi512_si128)
TVMRT_DEFINE_X86_DOWN(32, __m256i, __m256, _mm256, _mm512_castps256_ps512, _mm512_castsi512_si256)
TVMRT_DEFINE_X86_DOWN(64, __m512i, __m512, _mm512, TVMRT_I8_SAME, TVMRT_I8_SAME)
#else /* never called */
#define tvmrt_i8_down_16(acc, fixed, stride) (acc)
#define tvmrt_i8_down_32(acc, fixed, stride) (acc)
#endif

TVMRT_DEFINE_X86_FIXED_PARTS(16, __m128i, _mm, 128)
TVMRT_DEFINE_X86_FIXED(16, __m128i, __m128, _mm, 128)
TVMRT_DEFINE_X86_FIXED_PARTS(32, __m256i, _mm256, 256)
TVMRT_DEFINE_X86_FIXED(32, __m256i, __m256, _mm256, 256)

#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI
TVMRT_INLINE __m512i tvmrt_i8_addend_64(__m512i addend, __m512i product) {
  const __mmask8 negative = _mm512_cmplt_epi64_mask(product, _mm512_setzero_si512());
  return _mm512_mask_sub_epi64(addend, negative, addend, _mm512_set1_epi64((int64_t)1 << 31));
}
TVMRT_INLINE __m512i tvmrt_i8_upper_64(__m512i even, __m512i odd) {
  return _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
}
TVMRT_DEFINE_X86_FIXED(64, __m512i, __m512, _mm512, 512)
#endif

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_X86_FIXED_H_ */
