/*!
 * \file tile/simd_f32_x86.h
 * \brief The vector operations that x86 has as single instructions; a part of tile/simd.h.
 *
 * If GCC has the builtins of its immintrin.h, that header is not included: see intrinsics.h.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_F32_X86_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_F32_X86_H_

#if defined(__AVX512VL__)
#define TVMRT_F32_X86 3
#elif defined(__AVX512F__)
#define TVMRT_F32_X86 2
#else
#define TVMRT_F32_X86 1
#endif

#if defined(__GNUC__) && !defined(__clang__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_maskloadps256) && __has_builtin(__builtin_ia32_vfmaddps256) && \
    (!defined(__AVX512F__) || __has_builtin(__builtin_ia32_vfmaddps512_mask))
#define TVMRT_X86_BUILTINS 1
#endif
#endif

#if defined(TVMRT_X86_BUILTINS)
/* -1: all lanes; 4: current rounding mode */
#define TVMRT_X86_FMA_4(a, b, c) __builtin_ia32_vfmaddps(a, b, c)
#define TVMRT_X86_FMA_8(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#define TVMRT_X86_FMA_16(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)
#define TVMRT_X86_MAX_4(a, b) __builtin_ia32_maxps(a, b)
#define TVMRT_X86_MAX_8(a, b) __builtin_ia32_maxps256(a, b)
#define TVMRT_X86_MAX_16(a, b) __builtin_ia32_maxps512_mask(a, b, (tvmrt_f32x16){0}, -1, 4)
#define TVMRT_X86_MIN_4(a, b) __builtin_ia32_minps(a, b)
#define TVMRT_X86_MIN_8(a, b) __builtin_ia32_minps256(a, b)
#define TVMRT_X86_MIN_16(a, b) __builtin_ia32_minps512_mask(a, b, (tvmrt_f32x16){0}, -1, 4)
#define TVMRT_X86_LOAD_4(p, n) \
  __builtin_ia32_loadups128_mask(p, (tvmrt_f32x4){0}, (uint8_t)((1u << (n)) - 1))
#define TVMRT_X86_LOAD_8(p, n) \
  __builtin_ia32_loadups256_mask(p, (tvmrt_f32x8){0}, (uint8_t)((1u << (n)) - 1))
#define TVMRT_X86_LOAD_16(p, n) \
  __builtin_ia32_loadups512_mask(p, (tvmrt_f32x16){0}, (uint16_t)((1u << (n)) - 1))
#define TVMRT_X86_STORE_4(p, v, n) __builtin_ia32_storeups128_mask(p, v, (uint8_t)((1u << (n)) - 1))
#define TVMRT_X86_STORE_8(p, v, n) __builtin_ia32_storeups256_mask(p, v, (uint8_t)((1u << (n)) - 1))
#define TVMRT_X86_STORE_16(p, v, n) \
  __builtin_ia32_storeups512_mask(p, v, (uint16_t)((1u << (n)) - 1))
#define TVMRT_X86_LOAD_WHERE(p, where) __builtin_ia32_maskloadps256((const tvmrt_f32x8*)p, where)
#define TVMRT_X86_STORE_WHERE(p, where, v) __builtin_ia32_maskstoreps256((tvmrt_f32x8*)p, where, v)
#else
#include "intrinsics.h"
#define TVMRT_X86_FMA_4(a, b, c) _mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c)
#define TVMRT_X86_FMA_8(a, b, c) _mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c)
#define TVMRT_X86_FMA_16(a, b, c) _mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c)
#define TVMRT_X86_MAX_4(a, b) _mm_max_ps((__m128)a, (__m128)b)
#define TVMRT_X86_MAX_8(a, b) _mm256_max_ps((__m256)a, (__m256)b)
#define TVMRT_X86_MAX_16(a, b) _mm512_max_ps((__m512)a, (__m512)b)
#define TVMRT_X86_MIN_4(a, b) _mm_min_ps((__m128)a, (__m128)b)
#define TVMRT_X86_MIN_8(a, b) _mm256_min_ps((__m256)a, (__m256)b)
#define TVMRT_X86_MIN_16(a, b) _mm512_min_ps((__m512)a, (__m512)b)
#define TVMRT_X86_LOAD_4(p, n) _mm_maskz_loadu_ps((__mmask8)((1u << (n)) - 1), p)
#define TVMRT_X86_LOAD_8(p, n) _mm256_maskz_loadu_ps((__mmask8)((1u << (n)) - 1), p)
#define TVMRT_X86_LOAD_16(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p)
#define TVMRT_X86_STORE_4(p, v, n) _mm_mask_storeu_ps(p, (__mmask8)((1u << (n)) - 1), (__m128)v)
#define TVMRT_X86_STORE_8(p, v, n) _mm256_mask_storeu_ps(p, (__mmask8)((1u << (n)) - 1), (__m256)v)
#define TVMRT_X86_STORE_16(p, v, n) \
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), (__m512)v)
#define TVMRT_X86_LOAD_WHERE(p, where) _mm256_maskload_ps(p, (__m256i)where)
#define TVMRT_X86_STORE_WHERE(p, where, v) _mm256_maskstore_ps(p, (__m256i)where, (__m256)v)
#endif

#define TVMRT_DEFINE_X86_ARITHMETIC(L)                                                   \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_fma(tvmrt_f32x##L a, tvmrt_f32x##L b,       \
                                                 tvmrt_f32x##L c) {                      \
    return (tvmrt_f32x##L)TVMRT_X86_FMA_##L(a, b, c);                                    \
  }                                                                                      \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_max(tvmrt_f32x##L v, tvmrt_f32x##L bound) { \
    return (tvmrt_f32x##L)TVMRT_X86_MAX_##L(bound, v);                                   \
  }                                                                                      \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_min(tvmrt_f32x##L v, tvmrt_f32x##L bound) { \
    return (tvmrt_f32x##L)TVMRT_X86_MIN_##L(bound, v);                                   \
  }

#define TVMRT_DEFINE_X86_PARTIAL(L)                                             \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_load_n(const float* p, int n) {    \
    return (tvmrt_f32x##L)TVMRT_X86_LOAD_##L(p, n);                             \
  }                                                                             \
  TVMRT_INLINE void tvmrt_f32x##L##_store_n(float* p, tvmrt_f32x##L v, int n) { \
    TVMRT_X86_STORE_##L(p, v, n);                                               \
  }

#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_F32_X86_H_ */
