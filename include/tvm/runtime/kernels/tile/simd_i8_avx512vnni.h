/*!
 * \file tile/simd_i8_avx512vnni.h
 * \brief The vector operations of TVMRT_I8_X86_VNNI (AVX-512 VNNI), 16 lanes; a part of
 * tile/simd_i8.h.
 *
 * Before: tile/simd_i8.h, which includes this file where TVMRT_I8_FORMAT is TVMRT_I8_X86_VNNI.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_AVX512VNNI_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_AVX512VNNI_H_

#if !defined(TVMRT_I8_CAN_VNNI) || TVMRT_I8_FORMAT != TVMRT_I8_X86_VNNI
#error "tile/simd_i8_avx512vnni.h is a part of tile/simd_i8.h: define TVMRT_I8_FORMAT, include that"
#else

#include "simd_i8_x86_fixed.h"

#define TVMRT_I8_LANES 16
#define TVMRT_I8_QUAD_BYTES 64
typedef __m512i tvmrt_i8_acc;
typedef __m512i tvmrt_i8_quad;
typedef __m512i tvmrt_i8_weights;

TVMRT_INLINE tvmrt_i8_quad tvmrt_i8_quad_load(const uint8_t* p, int is_signed) {
  int32_t four;
  memcpy(&four, p, sizeof(four));
  __m512i x = _mm512_set1_epi32(four), flip = _mm512_set1_epi8(-128);
#if defined(__clang__) /* else it flips four bytes before the broadcast: 3 instructions, not 1 */
  __asm__("" : "+v"(flip));
#endif
  return is_signed ? _mm512_xor_si512(x, flip) : x;
}
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_weights_load(const int8_t* p) {
  return _mm512_loadu_si512(p);
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_dot(tvmrt_i8_acc acc, tvmrt_i8_quad x, tvmrt_i8_weights w) {
  return _mm512_dpbusd_epi32(acc, x, w);
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale(tvmrt_i8_acc acc, const float* scale) {
  return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(acc), _mm512_loadu_ps(scale)));
}
#define tvmrt_i8_rescale_fixed tvmrt_i8_fixed_64
TVMRT_DEFINE_X86_PACKED(_mm512, 512)
TVMRT_INLINE __m512i tvmrt_i8_pack(tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c, tvmrt_i8_acc d,
                                   const tvmrt_i8_range* range) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, tvmrt_i8_packed(a, b, c, d, range));
}
/* Store up to four vectors as n <= 64 bytes; a mask costs as much as some plain stores. */
TVMRT_INLINE void tvmrt_i8_store_packed(uint8_t* y, tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                        tvmrt_i8_acc d, const tvmrt_i8_range* range, int n) {
  const __m512i v = tvmrt_i8_pack(a, b, c, d, range);
  if (n == 64) {
    _mm512_storeu_si512(y, v);
  } else if (n == 32 || n == 48) {
    _mm256_storeu_si256((__m256i*)y, _mm512_castsi512_si256(v));
    if (n > 32) _mm_storeu_si128((__m128i*)(y + 32), _mm512_extracti32x4_epi32(v, 2));
  } else if (n == 16) {
    _mm_storeu_si128((__m128i*)y, _mm512_castsi512_si128(v));
  } else {
    _mm512_mask_storeu_epi8(y, ((__mmask64)1 << n) - 1, v);
  }
}
#define tvmrt_i8_store_pixels tvmrt_i8_store_pixels_512
TVMRT_INLINE void tvmrt_i8_store_pixels_512(uint8_t* y, int64_t step, int pixels, tvmrt_i8_acc a,
                                            tvmrt_i8_acc b, tvmrt_i8_acc c, tvmrt_i8_acc d,
                                            const tvmrt_i8_range* range) {
  const __m512i v = tvmrt_i8_pack(a, b, c, d, range);
  if (pixels == 2) {
    _mm256_storeu_si256((__m256i*)y, _mm512_castsi512_si256(v));
    _mm256_storeu_si256((__m256i*)(y + step), _mm512_extracti64x4_epi64(v, 1));
  } else {
    _mm_storeu_si128((__m128i*)y, _mm512_castsi512_si128(v));
    _mm_storeu_si128((__m128i*)(y + step), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i*)(y + 2 * step), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i*)(y + 3 * step), _mm512_extracti32x4_epi32(v, 3));
  }
}

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_AVX512VNNI_H_ */
