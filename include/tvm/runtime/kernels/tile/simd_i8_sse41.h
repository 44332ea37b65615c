/*!
 * \file tile/simd_i8_sse41.h
 * \brief The vector operations of TVMRT_I8_X86_SSE41, 4 lanes; a part of tile/simd_i8.h.
 *
 * Before: tile/simd_i8.h, which includes this file where TVMRT_I8_FORMAT is
 * TVMRT_I8_X86_SSE41.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_SSE41_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_SSE41_H_

#if !defined(TVMRT_I8_CAN_VNNI) || TVMRT_I8_FORMAT != TVMRT_I8_X86_SSE41
#error "tile/simd_i8_sse41.h is a part of tile/simd_i8.h: define TVMRT_I8_FORMAT, include that"
#else

#include <smmintrin.h>
#include <stdint.h>
#include <string.h>

#define TVMRT_I8_LANES 4
#define TVMRT_I8_QUAD_BYTES 16
typedef __m128i tvmrt_i8_acc;
/* Broadcast four bytes of the input to all lanes. */
TVMRT_INLINE __m128i tvmrt_i8_four_load(const uint8_t* p, int is_signed) {
  int32_t four;
  memcpy(&four, p, sizeof(four));
  return _mm_set1_epi32(is_signed ? (int32_t)((uint32_t)four ^ 0x80808080u) : four);
}
TVMRT_DEFINE_I8_EVEN_ODD(_mm_madd_epi16)
#define tvmrt_i8_weights_load tvmrt_i8_bytes_load
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale(tvmrt_i8_acc acc, const float* scale) {
  return _mm_cvtps_epi32(_mm_mul_ps(_mm_cvtepi32_ps(acc), _mm_loadu_ps(scale)));
}
/* (a * b + half) >> 31 */
TVMRT_INLINE __m128i tvmrt_sse41_fixed_product(__m128i a, __m128i b, int64_t half) {
  const __m128i addend = _mm_set1_epi64x(half);
  const __m128i even = _mm_add_epi64(_mm_mul_epi32(a, b), addend);
  const __m128i odd =
      _mm_add_epi64(_mm_mul_epi32(_mm_srli_epi64(a, 32), _mm_srli_epi64(b, 32)), addend);
  return _mm_blend_epi16(_mm_srli_epi64(even, 31), _mm_add_epi64(odd, odd), 0xCC);
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale_fixed(int rounding, tvmrt_i8_acc acc,
                                                 const int32_t* fixed, int64_t stride) {
  const __m128i m = _mm_loadu_si128((const __m128i*)fixed);
  const __m128i power = _mm_loadu_si128((const __m128i*)(fixed + stride));
  __m128i x = tvmrt_sse41_fixed_product(acc, m, TVMRT_I8_FIRST_HALF(rounding));
  if (rounding == TVMRT_ROUND_TWICE) x = _mm_add_epi32(x, _mm_srai_epi32(x, 31));
  return tvmrt_sse41_fixed_product(x, power, (int64_t)1 << 30);
}
TVMRT_DEFINE_X86_PACKED(_mm, 128)
TVMRT_INLINE void tvmrt_i8_store_packed(uint8_t* y, tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                        tvmrt_i8_acc d, const tvmrt_i8_range* range, int n) {
  const __m128i v = tvmrt_i8_packed(a, b, c, d, range);
  memcpy(y, &v, (size_t)n);
}

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_SSE41_H_ */
