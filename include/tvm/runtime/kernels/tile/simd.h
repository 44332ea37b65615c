/*!
 * \file simd.h
 * \brief Fixed-width vectors of float and int32 for the kernels, portable across processors.
 *
 * A vector type of L lanes is called tvmrt_f32xL or tvmrt_i32xL with L = 1, 4, 8 or 16. All of them
 * exist on every processor with a GNU-compatible compiler. The compiler splits vectors that are
 * wider than its registers, so data packed for 16 lanes still gives the right answer on a machine
 * with 4. One lane is the plain scalar and needs no extension; it is the only width for other
 * compilers.
 *
 * TVMRT_SIMD_LANES_F32 is the width that suits the target processor.
 *
 * Operations, for each width L (p points to floats, of any alignment):
 *   tvmrt_f32xL_splat(s)          all lanes s
 *   tvmrt_f32xL_load(p)           L floats from memory
 *   tvmrt_f32xL_load_n(p, n)      n <= L floats, then zeros; no other memory is touched
 *   tvmrt_f32xL_store(p, v)       L floats to memory
 *   tvmrt_f32xL_store_n(p, v, n)  the first n <= L lanes; no other memory is touched
 *   tvmrt_f32xL_fma(a, b, c)      a * b + c, in one rounding if the processor can
 *   tvmrt_f32xL_max(v, bound)     max(v, bound); NaN in v stays NaN
 *   tvmrt_f32xL_min(v, bound)     min(v, bound); NaN in v stays NaN
 *   tvmrt_f32xL_keep(v)           v, loaded once into a register instead of again at each use
 *   tvmrt_f32xL_sum(v)            the sum of the lanes, added in a fixed order
 *   tvmrt_f32xL_max_lane(v)       the largest lane
 * + - * / and comparisons are the operators of the language.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_H_

#include <stdint.h>
#include <string.h>

#include "../scalar/compiler.h"

/* Instructions used by name: x86 up to the level TVMRT_F32_X86, NEON, or WebAssembly. */
#ifdef TVMRT_BOARD
/* none for boards, wherever the code is compiled: the headers may be missing */
#elif defined(__AVX2__) || defined(__AVX512F__)
#include "simd_f32_x86.h"
#elif defined(__ARM_NEON) && (!defined(TVMRT_FIXED_ORDER) || TVMRT_HAS_FUSED)
#define TVMRT_F32_NEON 1
#include "intrinsics.h"
#elif defined(__wasm_simd128__)
#define TVMRT_F32_WASM 1
#include "intrinsics.h"
#endif
#ifndef TVMRT_F32_X86
#define TVMRT_F32_X86 0
#endif

/* ---- one lane: plain C ---- */

typedef float tvmrt_f32x1;
typedef int32_t tvmrt_i32x1;

TVMRT_INLINE tvmrt_f32x1 tvmrt_f32x1_splat(float s) { return s; }
TVMRT_INLINE tvmrt_f32x1 tvmrt_f32x1_load(const float* p) { return *p; }
TVMRT_INLINE tvmrt_f32x1 tvmrt_f32x1_load_n(const float* p, int n) { return n > 0 ? *p : 0.0f; }
TVMRT_INLINE void tvmrt_f32x1_store(float* p, tvmrt_f32x1 v) { *p = v; }
TVMRT_INLINE void tvmrt_f32x1_store_n(float* p, tvmrt_f32x1 v, int n) {
  if (n > 0) *p = v;
}
TVMRT_INLINE tvmrt_f32x1 tvmrt_f32x1_fma(tvmrt_f32x1 a, tvmrt_f32x1 b, tvmrt_f32x1 c) {
  return TVMRT_FMAF(a, b, c);
}
TVMRT_INLINE tvmrt_f32x1 tvmrt_f32x1_max(tvmrt_f32x1 v, tvmrt_f32x1 bound) {
  return v < bound ? bound : v;
}
TVMRT_INLINE tvmrt_f32x1 tvmrt_f32x1_min(tvmrt_f32x1 v, tvmrt_f32x1 bound) {
  return v > bound ? bound : v;
}
TVMRT_INLINE tvmrt_f32x1 tvmrt_f32x1_keep(tvmrt_f32x1 v) { return v; }
TVMRT_INLINE float tvmrt_f32x1_sum(tvmrt_f32x1 v) { return v; }
TVMRT_INLINE float tvmrt_f32x1_max_lane(tvmrt_f32x1 v) { return v; }

#if defined(__GNUC__)

/* All functions here are inlined, so no vector is ever passed by a calling convention. */
#pragma GCC diagnostic ignored "-Wpsabi"

/* A vector wider than a register is aligned like a register: gcc warns about the calling convention
 * of larger alignments, even without calls. */
#define TVMRT_VECTOR_ALIGN(lanes)                \
  (4 * ((lanes) < TVMRT_SIMD_LANES_F32 ? (lanes) \
        : TVMRT_SIMD_LANES_F32 < 4     ? 4       \
                                       : TVMRT_SIMD_LANES_F32))
#define TVMRT_VECTOR(element, lanes) \
  element                            \
      __attribute__((vector_size(sizeof(element) * (lanes)), aligned(TVMRT_VECTOR_ALIGN(lanes))))
#define TVMRT_VECTOR_IN_MEMORY(element, lanes) \
  element                                      \
      __attribute__((vector_size(sizeof(element) * (lanes)), aligned(sizeof(element)), may_alias))

/* Operations without processor-specific code; fma, min, max, partial accesses follow. */
#define TVMRT_DEFINE_VECTOR(L)                                                                   \
  typedef TVMRT_VECTOR(float, L) tvmrt_f32x##L;                                                  \
  typedef TVMRT_VECTOR(int32_t, L) tvmrt_i32x##L;                                                \
  typedef TVMRT_VECTOR_IN_MEMORY(float, L) tvmrt_f32x##L##_in_memory;                            \
  typedef TVMRT_VECTOR_IN_MEMORY(int32_t, L) tvmrt_i32x##L##_in_memory;                          \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_splat(float s) { return s - (tvmrt_f32x##L){0}; }   \
  TVMRT_INLINE tvmrt_i32x##L tvmrt_i32x##L##_splat(int32_t s) { return s - (tvmrt_i32x##L){0}; } \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_load(const float* p) {                              \
    return *(const tvmrt_f32x##L##_in_memory*)p;                                                 \
  }                                                                                              \
  TVMRT_INLINE tvmrt_i32x##L tvmrt_i32x##L##_load(const int32_t* p) {                            \
    return *(const tvmrt_i32x##L##_in_memory*)p;                                                 \
  }                                                                                              \
  TVMRT_INLINE void tvmrt_f32x##L##_store(float* p, tvmrt_f32x##L v) {                           \
    *(tvmrt_f32x##L##_in_memory*)p = v;                                                          \
  }                                                                                              \
  TVMRT_INLINE void tvmrt_i32x##L##_store(int32_t* p, tvmrt_i32x##L v) {                         \
    *(tvmrt_i32x##L##_in_memory*)p = v;                                                          \
  }

/* Fold the two halves of a vector into one vector of half the width, recursively. */
#define TVMRT_DEFINE_FOLD(L, H)                                             \
  TVMRT_INLINE float tvmrt_f32x##L##_sum(tvmrt_f32x##L v) {                 \
    tvmrt_f32x##H half[2];                                                  \
    memcpy(half, &v, sizeof(half));                                         \
    return tvmrt_f32x##H##_sum(half[0] + half[1]);                          \
  }                                                                         \
  TVMRT_INLINE float tvmrt_f32x##L##_max_lane(tvmrt_f32x##L v) {            \
    tvmrt_f32x##H half[2];                                                  \
    memcpy(half, &v, sizeof(half));                                         \
    return tvmrt_f32x##H##_max_lane(tvmrt_f32x##H##_max(half[0], half[1])); \
  }

#if defined(TVMRT_FIXED_ORDER)
#define TVMRT_DEFINE_GENERIC_FMA(L, H)                                                \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_fma(tvmrt_f32x##L a, tvmrt_f32x##L b,    \
                                                 tvmrt_f32x##L c) {                   \
    tvmrt_f32x##H x[(L) / (H)], y[(L) / (H)], z[(L) / (H)];                           \
    memcpy(x, &a, sizeof(x));                                                         \
    memcpy(y, &b, sizeof(y));                                                         \
    memcpy(z, &c, sizeof(z));                                                         \
    TVMRT_UNROLL(4)                                                                   \
    for (int i = 0; i < (L) / (H); i++) z[i] = tvmrt_f32x##H##_fma(x[i], y[i], z[i]); \
    memcpy(&c, z, sizeof(c));                                                         \
    return c;                                                                         \
  }
#else
#define TVMRT_DEFINE_GENERIC_FMA(L, H)                                             \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_fma(tvmrt_f32x##L a, tvmrt_f32x##L b, \
                                                 tvmrt_f32x##L c) {                \
    return a * b + c;                                                              \
  }
#endif

#define TVMRT_DEFINE_GENERIC_ARITHMETIC(L, H)                                            \
  TVMRT_DEFINE_GENERIC_FMA(L, H)                                                         \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_max(tvmrt_f32x##L v, tvmrt_f32x##L bound) { \
    tvmrt_i32x##L take = v < bound;                                                      \
    return (tvmrt_f32x##L)((take & (tvmrt_i32x##L)bound) | (~take & (tvmrt_i32x##L)v));  \
  }                                                                                      \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_min(tvmrt_f32x##L v, tvmrt_f32x##L bound) { \
    tvmrt_i32x##L take = v > bound;                                                      \
    return (tvmrt_f32x##L)((take & (tvmrt_i32x##L)bound) | (~take & (tvmrt_i32x##L)v));  \
  }

#define TVMRT_DEFINE_GENERIC_PARTIAL(L)                                         \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_load_n(const float* p, int n) {    \
    tvmrt_f32x##L v = {0};                                                      \
    float lane[L];                                                              \
    for (int i = 0; i < (L); i++) lane[i] = i < n ? p[i] : 0.0f;                \
    memcpy(&v, lane, sizeof(lane));                                             \
    return v;                                                                   \
  }                                                                             \
  TVMRT_INLINE void tvmrt_f32x##L##_store_n(float* p, tvmrt_f32x##L v, int n) { \
    float lane[L];                                                              \
    memcpy(lane, &v, sizeof(lane));                                             \
    for (int i = 0; i < (L); i++) {                                             \
      if (i < n) p[i] = lane[i];                                                \
    }                                                                           \
  }

TVMRT_DEFINE_VECTOR(4)
TVMRT_DEFINE_VECTOR(8)
TVMRT_DEFINE_VECTOR(16)

/* With AVX, gcc folds a load into every instruction that uses it, with AVX-512 also a broadcast,
 * and loads become the bottleneck. Vectors of two registers are left alone. */
#define TVMRT_DEFINE_NO_KEEP(L) \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_keep(tvmrt_f32x##L v) { return v; }
#if defined(__AVX__) && !defined(__clang__)
#define TVMRT_DEFINE_KEEP(L)                                         \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_f32x##L##_keep(tvmrt_f32x##L v) { \
    __asm__("" : "+v"(v));                                           \
    return v;                                                        \
  }
#else
#define TVMRT_DEFINE_KEEP TVMRT_DEFINE_NO_KEEP
#endif
TVMRT_DEFINE_KEEP(4)
TVMRT_DEFINE_KEEP(8)
#if defined(__AVX512F__)
TVMRT_DEFINE_KEEP(16)
#else
TVMRT_DEFINE_NO_KEEP(16)
#endif

/* ---- 4 lanes ---- */

#if TVMRT_F32_X86 >= 3
TVMRT_DEFINE_X86_PARTIAL(4)
#else
TVMRT_DEFINE_GENERIC_PARTIAL(4)
#endif

#if TVMRT_F32_X86 && defined(__FMA__)
TVMRT_DEFINE_X86_ARITHMETIC(4)
#elif defined(TVMRT_F32_NEON)
TVMRT_INLINE tvmrt_f32x4 tvmrt_f32x4_fma(tvmrt_f32x4 a, tvmrt_f32x4 b, tvmrt_f32x4 c) {
#if defined(__ARM_FEATURE_FMA)
  return (tvmrt_f32x4)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return (tvmrt_f32x4)vmlaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
}
TVMRT_INLINE tvmrt_f32x4 tvmrt_f32x4_max(tvmrt_f32x4 v, tvmrt_f32x4 bound) {
  return (tvmrt_f32x4)vmaxq_f32((float32x4_t)v, (float32x4_t)bound);
}
TVMRT_INLINE tvmrt_f32x4 tvmrt_f32x4_min(tvmrt_f32x4 v, tvmrt_f32x4 bound) {
  return (tvmrt_f32x4)vminq_f32((float32x4_t)v, (float32x4_t)bound);
}
#elif defined(TVMRT_F32_WASM)
TVMRT_DEFINE_GENERIC_FMA(4, 1)
/* v < bound ? bound : v is the definition of pmax */
TVMRT_INLINE tvmrt_f32x4 tvmrt_f32x4_max(tvmrt_f32x4 v, tvmrt_f32x4 bound) {
  return (tvmrt_f32x4)wasm_f32x4_pmax((v128_t)v, (v128_t)bound);
}
TVMRT_INLINE tvmrt_f32x4 tvmrt_f32x4_min(tvmrt_f32x4 v, tvmrt_f32x4 bound) {
  return (tvmrt_f32x4)wasm_f32x4_pmin((v128_t)v, (v128_t)bound);
}
#else
TVMRT_DEFINE_GENERIC_ARITHMETIC(4, 1)
#endif

TVMRT_INLINE float tvmrt_f32x4_sum(tvmrt_f32x4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
TVMRT_INLINE float tvmrt_f32x4_max_lane(tvmrt_f32x4 v) {
  float a = v[0] < v[2] ? v[2] : v[0];
  float b = v[1] < v[3] ? v[3] : v[1];
  return a < b ? b : a;
}

/* ---- 8 lanes ---- */

#if TVMRT_F32_X86 >= 3
TVMRT_DEFINE_X86_PARTIAL(8)
#elif TVMRT_F32_X86
TVMRT_INLINE tvmrt_i32x8 tvmrt_f32x8_first(int n) {
  return tvmrt_i32x8_splat(n) > (tvmrt_i32x8){0, 1, 2, 3, 4, 5, 6, 7};
}
TVMRT_INLINE tvmrt_f32x8 tvmrt_f32x8_load_n(const float* p, int n) {
  return (tvmrt_f32x8)TVMRT_X86_LOAD_WHERE(p, tvmrt_f32x8_first(n));
}
TVMRT_INLINE void tvmrt_f32x8_store_n(float* p, tvmrt_f32x8 v, int n) {
  TVMRT_X86_STORE_WHERE(p, tvmrt_f32x8_first(n), v);
}
#else
TVMRT_DEFINE_GENERIC_PARTIAL(8)
#endif

#if TVMRT_F32_X86 && defined(__FMA__)
TVMRT_DEFINE_X86_ARITHMETIC(8)
#else
TVMRT_DEFINE_GENERIC_ARITHMETIC(8, 4)
#endif

TVMRT_DEFINE_FOLD(8, 4)

/* ---- 16 lanes ---- */

#if TVMRT_F32_X86 >= 2
TVMRT_DEFINE_X86_PARTIAL(16)
TVMRT_DEFINE_X86_ARITHMETIC(16)
#else
TVMRT_DEFINE_GENERIC_PARTIAL(16)
TVMRT_DEFINE_GENERIC_ARITHMETIC(16, 8)
#endif

TVMRT_DEFINE_FOLD(16, 8)

#endif /* __GNUC__ */

/* ---- the width of this processor, for kernels whose data is not packed ---- */

#define TVMRT_JOIN_(a, b, c) a##b##c
#define TVMRT_JOIN(a, b, c) TVMRT_JOIN_(a, b, c)
/*! \brief TVMRT_F32V(load) is the operation `load` on TVMRT_SIMD_LANES_F32 lanes. */
#define TVMRT_F32V(operation) \
  TVMRT_JOIN(TVMRT_JOIN(tvmrt_f32x, TVMRT_SIMD_LANES_F32, ), _, operation)
typedef TVMRT_JOIN(tvmrt_f32x, TVMRT_SIMD_LANES_F32, ) tvmrt_f32v;

/* ---- the width of sums over a row, which decides their order ---- */

#if defined(TVMRT_FIXED_ORDER)
#define TVMRT_SUM_LANES 16
#define TVMRT_ONE_ORDER 1
#else
#define TVMRT_ONE_ORDER 0
#define TVMRT_SUM_LANES TVMRT_SIMD_LANES_F32
#endif
/*! \brief TVMRT_SUM_F32(load) is the operation `load` on TVMRT_SUM_LANES lanes. */
#define TVMRT_SUM_F32(operation) TVMRT_JOIN(TVMRT_JOIN(tvmrt_f32x, TVMRT_SUM_LANES, ), _, operation)
typedef TVMRT_JOIN(tvmrt_f32x, TVMRT_SUM_LANES, ) tvmrt_sum_f32;

#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_H_ */
