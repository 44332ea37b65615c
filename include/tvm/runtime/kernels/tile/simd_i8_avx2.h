/*!
 * \file tile/simd_i8_avx2.h
 * \brief The vector operations of TVMRT_I8_X86_AVX2 and TVMRT_I8_X86_AVX_VNNI, 8 lanes; a part of
 * tile/simd_i8.h.
 *
 * Before: tile/simd_i8.h, which includes this file where TVMRT_I8_FORMAT is
 * TVMRT_I8_X86_AVX2 or TVMRT_I8_X86_AVX_VNNI.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_AVX2_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_AVX2_H_

#if !defined(TVMRT_I8_CAN_VNNI) || \
    (TVMRT_I8_FORMAT != TVMRT_I8_X86_AVX2 && TVMRT_I8_FORMAT != TVMRT_I8_X86_AVX_VNNI)
#error "tile/simd_i8_avx2.h is a part of tile/simd_i8.h: define TVMRT_I8_FORMAT, include that"
#else

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "simd_i8_x86_fixed.h"

#define TVMRT_I8_LANES 8
typedef __m256i tvmrt_i8_acc;

/* Broadcast four bytes of the input to all lanes. */
TVMRT_INLINE __m256i tvmrt_i8_four_load(const uint8_t* p, int is_signed) {
  int32_t four;
  memcpy(&four, p, sizeof(four));
  return _mm256_set1_epi32(is_signed ? (int32_t)((uint32_t)four ^ 0x80808080u) : four);
}

#if TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX_VNNI

#define TVMRT_I8_QUAD_BYTES 32
typedef __m256i tvmrt_i8_quad;
typedef __m256i tvmrt_i8_weights;

TVMRT_INLINE tvmrt_i8_quad tvmrt_i8_quad_load(const uint8_t* p, int is_signed) {
  return tvmrt_i8_four_load(p, is_signed);
}
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_weights_load(const int8_t* p) {
  return _mm256_loadu_si256((const __m256i*)p);
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_dot(tvmrt_i8_acc acc, tvmrt_i8_quad x, tvmrt_i8_weights w) {
  return _mm256_dpbusd_epi32(acc, x, w);
}

#else

#define TVMRT_I8_QUAD_BYTES 64
TVMRT_DEFINE_I8_EVEN_ODD(_mm256_madd_epi16)
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_weights_load(const int8_t* p) {
  tvmrt_i8_weights w;
  w.even = _mm256_loadu_si256((const __m256i*)p);
  w.odd = _mm256_loadu_si256((const __m256i*)(p + 32));
  return w;
}
#define tvmrt_i8_shared_load tvmrt_i8_bytes_load

#endif

TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale(tvmrt_i8_acc acc, const float* scale) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_loadu_ps(scale)));
}
#define tvmrt_i8_rescale_fixed tvmrt_i8_fixed_32
TVMRT_DEFINE_X86_PACKED(_mm256, 256)
TVMRT_INLINE __m256i tvmrt_i8_pack(tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c, tvmrt_i8_acc d,
                                   const tvmrt_i8_range* range) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(tvmrt_i8_packed(a, b, c, d, range), order);
}
TVMRT_INLINE void tvmrt_i8_store_packed(uint8_t* y, tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                        tvmrt_i8_acc d, const tvmrt_i8_range* range, int n) {
  const __m256i v = tvmrt_i8_pack(a, b, c, d, range);
  if (n == 32) {
    _mm256_storeu_si256((__m256i*)y, v);
  } else if (n == 16 || n == 24) {
    _mm_storeu_si128((__m128i*)y, _mm256_castsi256_si128(v));
    if (n > 16) _mm_storel_epi64((__m128i*)(y + 16), _mm256_extracti128_si256(v, 1));
  } else if (n == 8) {
    _mm_storel_epi64((__m128i*)y, _mm256_castsi256_si128(v));
  } else {
    uint8_t bytes[32];
    _mm256_storeu_si256((__m256i*)bytes, v);
    memcpy(y, bytes, (size_t)n);
  }
}
#define tvmrt_i8_store_pixels tvmrt_i8_store_pixels_256
TVMRT_INLINE void tvmrt_i8_store_pixels_256(uint8_t* y, int64_t step, int pixels, tvmrt_i8_acc a,
                                            tvmrt_i8_acc b, tvmrt_i8_acc c, tvmrt_i8_acc d,
                                            const tvmrt_i8_range* range) {
  const __m256i v = tvmrt_i8_pack(a, b, c, d, range);
  const __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);
  if (pixels == 2) {
    _mm_storeu_si128((__m128i*)y, low);
    _mm_storeu_si128((__m128i*)(y + step), high);
  } else {
    _mm_storel_epi64((__m128i*)y, low);
    _mm_storel_epi64((__m128i*)(y + step), _mm_unpackhi_epi64(low, low));
    _mm_storel_epi64((__m128i*)(y + 2 * step), high);
    _mm_storel_epi64((__m128i*)(y + 3 * step), _mm_unpackhi_epi64(high, high));
  }
}

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_AVX2_H_ */
