/*!
 * \file widen_narrow_i8.h
 * \brief Conversion of neighbouring bytes to int32 and back, for vectors of channels.
 *
 * Compilers choose a loop's vector length by its narrowest type, and a pixel often has fewer
 * channels than a vector has bytes. The loops of generated epilogues therefore work on int32 and
 * float alone, 16, 8 or 4 at a time, between these two steps.
 *
 *     tvmrt_widen_int8_16(to, from)    16 int8 to int32
 *     tvmrt_widen_uint8_16(to, from)   16 uint8 to int32
 *     tvmrt_narrow_16(to, from)        the low bytes of 16 int32
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_WIDEN_NARROW_I8_H_
#define TVM_RUNTIME_KERNELS_TILE_WIDEN_NARROW_I8_H_

#include <stdint.h>

#include "intrinsics.h"
#include "simd.h"

#define TVMRT_DEFINE_WIDEN(N)                                               \
  static inline void tvmrt_widen_int8_##N(int32_t* to, const void* from) {  \
    const int8_t* x = (const int8_t*)from;                                  \
    for (int i = 0; i < N; ++i) to[i] = x[i];                               \
  }                                                                         \
  static inline void tvmrt_widen_uint8_##N(int32_t* to, const void* from) { \
    const uint8_t* x = (const uint8_t*)from;                                \
    for (int i = 0; i < N; ++i) to[i] = x[i];                               \
  }
#define TVMRT_DEFINE_NARROW(N)                                         \
  static inline void tvmrt_narrow_##N(void* to, const int32_t* from) { \
    uint8_t* y = (uint8_t*)to;                                         \
    for (int i = 0; i < N; ++i) y[i] = (uint8_t)from[i];               \
  }

#if defined(__AVX512F__)
static inline void tvmrt_widen_int8_16(int32_t* to, const void* from) {
  _mm512_storeu_si512(to, _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)from)));
}
static inline void tvmrt_widen_uint8_16(int32_t* to, const void* from) {
  _mm512_storeu_si512(to, _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)from)));
}
static inline void tvmrt_narrow_16(void* to, const int32_t* from) {
  _mm_storeu_si128((__m128i*)to, _mm512_cvtepi32_epi8(_mm512_loadu_si512(from)));
}
#else
TVMRT_DEFINE_WIDEN(16)
TVMRT_DEFINE_NARROW(16)
#endif

#if defined(__AVX2__)
static inline void tvmrt_widen_int8_8(int32_t* to, const void* from) {
  _mm256_storeu_si256((__m256i*)to, _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)from)));
}
static inline void tvmrt_widen_uint8_8(int32_t* to, const void* from) {
  _mm256_storeu_si256((__m256i*)to, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)from)));
}
static inline void tvmrt_narrow_8(void* to, const int32_t* from) {
  const __m256i x = _mm256_loadu_si256((const __m256i*)from);
  const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xFF));
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  _mm_storel_epi64((__m128i*)to, _mm_packus_epi16(words, words));
}
#else
TVMRT_DEFINE_WIDEN(8)
TVMRT_DEFINE_NARROW(8)
#endif

TVMRT_DEFINE_WIDEN(4)
TVMRT_DEFINE_NARROW(4)

#endif /* TVM_RUNTIME_KERNELS_TILE_WIDEN_NARROW_I8_H_ */
