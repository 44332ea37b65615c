/*!
 * \file compiler.h
 * \brief Compiler features that the kernels use, and fallbacks for compilers that are not
 * GNU-compatible.
 *
 * No processor-specific header is included here, so that code without vectors does not have to
 * parse thousands of intrinsics.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_COMPILER_H_
#define TVM_RUNTIME_KERNELS_SCALAR_COMPILER_H_

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define TVMRT_RESTRICT __restrict__
#else
#define TVMRT_RESTRICT restrict
#endif

#define TVMRT_PRAGMA(text) _Pragma(#text)

/* TVMRT_FIXED_ORDER: equal bits on every processor. Each operation is rounded as it is written: no
 * product is fused with an addition but by TVMRT_FUSED(), and none is wider than a float. Clang
 * ignores the pragma with -ffp-contract=fast. */
#if defined(TVMRT_FIXED_ORDER)
#if !defined(__GNUC__) || __FLT_EVAL_METHOD__ != 0 || defined(__FAST_MATH__)
#error "--reproducible needs GCC or Clang without -ffast-math, and floats not computed as doubles"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif
#endif

/*! \brief Let the compiler reorder the following loop's sums (or products, maxima ...), if
 * compiled with -DTVMRT_OPENMP_SIMD and its option for `omp simd` (-fopenmp-simd). */
#if defined(TVMRT_OPENMP_SIMD) && !defined(TVMRT_FIXED_ORDER)
#define TVMRT_SIMD_REDUCTION(operation, variable) \
  TVMRT_PRAGMA(omp simd reduction(operation : variable))
#else
#define TVMRT_SIMD_REDUCTION(operation, variable)
#endif

/*! \brief Let the compiler vectorise the following loop before it unrolls it; no iteration may
 * read memory that another one writes. Options as for TVMRT_SIMD_REDUCTION(). */
#if defined(TVMRT_OPENMP_SIMD)
#define TVMRT_SIMD TVMRT_PRAGMA(omp simd)
#else
#define TVMRT_SIMD
#endif

/*! \brief Section of the kernels' functions, such as ".RamFunc", if the compiler is called with
 * -DTVMRT_KERNEL_SECTION='"NAME"'. A linker script can place it in RAM. */
#if defined(TVMRT_KERNEL_SECTION)
#define TVMRT_IN_KERNEL_SECTION __attribute__((section(TVMRT_KERNEL_SECTION)))
#else
#define TVMRT_IN_KERNEL_SECTION
#endif

/*! \brief Whether a * b + c with one rounding is a single instruction. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMAF)
#define TVMRT_HAS_FUSED 1
#else
#define TVMRT_HAS_FUSED 0
#endif

#if defined(__GNUC__)
/*! \brief A function that is always inlined, so that literal arguments become constants. */
#define TVMRT_INLINE static inline __attribute__((always_inline))
/*! \brief A function that is compiled once per file, however often it is called. */
#define TVMRT_NOINLINE static TVMRT_IN_KERNEL_SECTION __attribute__((noinline))
/*! \brief TVMRT_NOINLINE for a function that not every file calls. */
#define TVMRT_RARELY_CALLED static TVMRT_IN_KERNEL_SECTION __attribute__((noinline, unused))
/*! \brief A function that hosts compile once per file, so that first loads are short, and that
 * boards, where a call costs more, may inline. Not for inner loops. */
#if defined(TVMRT_FREESTANDING)
#define TVMRT_SHARED static inline
#else
#define TVMRT_SHARED TVMRT_RARELY_CALLED
#endif
/*! \brief A function for error paths: small, and placed away from hot code. */
#define TVMRT_COLD static __attribute__((noinline, cold, unused))
/*! \brief TVMRT_NOINLINE for a function whose assembly uses every register but the frame pointer:
 * without this order of allocation, GCC lacks one if it keeps a frame pointer. */
#if defined(__clang__)
#define TVMRT_NOINLINE_TIGHT TVMRT_NOINLINE
#define TVMRT_RARELY_CALLED_TIGHT TVMRT_RARELY_CALLED
#else
#define TVMRT_NOINLINE_TIGHT \
  TVMRT_NOINLINE __attribute__((optimize("ira-region=one", "ira-algorithm=priority")))
#define TVMRT_RARELY_CALLED_TIGHT TVMRT_RARELY_CALLED __attribute__((optimize("ira-region=one")))
#endif
/*! \brief Unroll the following loop n times, or fully if it has at most n iterations. */
#if defined(__clang__) || __GNUC__ >= 8
#define TVMRT_UNROLL(n) TVMRT_PRAGMA(GCC unroll n)
#else
#define TVMRT_UNROLL(n)
#endif
/*! \brief Declare that the iterations of the following loop are independent, so the compiler
 * need not compare pointers first. */
#if defined(__clang__)
#define TVMRT_INDEPENDENT TVMRT_PRAGMA(clang loop vectorize(assume_safety))
#else
#define TVMRT_INDEPENDENT TVMRT_PRAGMA(GCC ivdep)
#endif
/*! \brief TVMRT_INDEPENDENT for a loop that may replace its operand, for clang alone: its vectors are
 * for arrays that do not overlap, GCC's also for one array. Some loops cannot have vectors. */
#if defined(__clang__)
#define TVMRT_IN_PLACE TVMRT_PRAGMA(clang diagnostic ignored "-Wpass-failed") TVMRT_INDEPENDENT
#else
#define TVMRT_IN_PLACE
#endif
/*!
 * \brief Hide the origin of a pointer from the compiler.
 *
 * Keeps it from replacing a few pointers that advance together by one offset for each access, which
 * need more registers than there are.
 */
#define TVMRT_OPAQUE(p) __asm__("" : "+r"(p))
#define TVMRT_LIKELY(x) __builtin_expect(!!(x), 1)
#define TVMRT_UNLIKELY(x) __builtin_expect(!!(x), 0)
/*! \brief A pointer that is known to be a multiple of n. */
#define TVMRT_ALIGNED(p, n) __builtin_assume_aligned((p), (n))
#if defined(TVMRT_FIXED_ORDER) && !TVMRT_HAS_FUSED
#define TVMRT_FUSED(a, b, c) tvmrt_fused_f32((a), (b), (c))
#else
#define TVMRT_FUSED(a, b, c) __builtin_fmaf((a), (b), (c))
#endif
#else
#define TVMRT_INLINE static inline
#define TVMRT_NOINLINE static
#define TVMRT_RARELY_CALLED static inline
#define TVMRT_SHARED static inline
#define TVMRT_COLD static inline
#define TVMRT_NOINLINE_TIGHT static
#define TVMRT_RARELY_CALLED_TIGHT static inline
#define TVMRT_UNROLL(n)
#define TVMRT_INDEPENDENT
#define TVMRT_IN_PLACE
#define TVMRT_OPAQUE(p) ((void)0)
#define TVMRT_LIKELY(x) (x)
#define TVMRT_UNLIKELY(x) (x)
#define TVMRT_ALIGNED(p, n) (p)
#define TVMRT_FUSED(a, b, c) fmaf((a), (b), (c))
#endif

/*! \brief Address of p as an integer. Static analysis may define it as an offset in an array. */
#ifndef TVMRT_ADDRESS
#define TVMRT_ADDRESS(p) ((uintptr_t)(p))
#endif

#if defined(__AVX512F__)
#define TVMRT_SIMD_LANES_F32 16
#elif defined(__AVX__) || defined(__riscv_v)
#define TVMRT_SIMD_LANES_F32 8
#elif defined(__GNUC__) && (defined(__SSE2__) || defined(__ARM_NEON) ||                \
                            (defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)) || \
                            defined(__VSX__) || defined(__wasm_simd128__))
#define TVMRT_SIMD_LANES_F32 4
#else
#define TVMRT_SIMD_LANES_F32 1
#endif

/*! \brief Do not compile unless an enumeration has the `number` of members that the code handles. */
#define TVMRT_HANDLES(members, number) ((void)sizeof(char[(int)(members) == (number) ? 1 : -1]))

/*! \brief Number of vector registers of the processor. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define TVMRT_SIMD_REGISTERS 32
#elif defined(__ARM_FEATURE_MVE)
#define TVMRT_SIMD_REGISTERS 8
#else
#define TVMRT_SIMD_REGISTERS 16
#endif

/*! \brief Prefetch the line at an address, which need not exist, into the L2 cache, or into L1.
 * It is an integer: C has no pointers past the end of an array. */
#if defined(__GNUC__) && TVMRT_SIMD_LANES_F32 > 1
#define TVMRT_PREFETCH(address) __builtin_prefetch((const void*)(address), 0, 2)
#define TVMRT_PREFETCH_L1(address) __builtin_prefetch((const void*)(address))
#else
#define TVMRT_PREFETCH(address) ((void)(address))
#define TVMRT_PREFETCH_L1(address) ((void)(address))
#endif

/* One rounding if that is a single instruction; two otherwise, as fmaf() in software is very
 * slow. */
#if TVMRT_HAS_FUSED || defined(TVMRT_FIXED_ORDER)
#define TVMRT_FMAF(a, b, c) TVMRT_FUSED(a, b, c)
#else
#define TVMRT_FMAF(a, b, c) ((a) * (b) + (c))
#endif

#if defined(TVMRT_FIXED_ORDER) && !TVMRT_HAS_FUSED
/*!
 * \brief a * b + c in one rounding, without an instruction for it.
 *
 * The product is exact as a double. If the sum is not, its last bit is set to 1 (rounding to odd),
 * so that rounding it to a float is as if the sum were exact.
 */
TVMRT_INLINE float tvmrt_fused_f32(float a, float b, float c) {
  const double product = (double)a * (double)b, sum = product + (double)c;
  const double added = sum - product;
  const double error = (product - (sum - added)) + ((double)c - added);
  int64_t bits;
  memcpy(&bits, &sum, sizeof(bits));
  /* Away from zero or towards it; NaN, the error of an infinite sum, is neither. */
  const int inexact = error > 0.0 || error < 0.0, away = (error > 0.0) == (sum > 0.0);
  if (inexact && (bits & 1) == 0) bits += away ? 1 : -1;
  double odd;
  memcpy(&odd, &bits, sizeof(odd));
  return (float)odd;
}
#endif

/*!
 * \brief v clamped to [low, high]; NaN gives low.
 *
 * In code for boards that is compiled for x86, the bounds are kept in registers: GCC makes a branch
 * of a minimum with a constant in memory. Hosts do without, since assembly prevents vectors.
 */
TVMRT_INLINE float tvmrt_bounded_f32(float v, float low, float high) {
#if defined(__GNUC__) && defined(__x86_64__) && defined(TVMRT_BOARD)
  __asm__("" : "+x"(low), "+x"(high));
  v = v > low ? v : low;
  return v < high ? v : high;
#else
  return (v > low) != 0 ? (v < high ? v : high) : low; /* != 0: Frama-C 25 then knows NaN fails */
#endif
}

/*! \brief v clamped to +-limit; v is not NaN. */
TVMRT_INLINE float tvmrt_limited_f32(float v, float limit) {
#if defined(__GNUC__) && defined(__x86_64__) && defined(TVMRT_BOARD)
  return tvmrt_bounded_f32(v, -limit, limit);
#else
  return v < -limit ? -limit : v > limit ? limit : v;
#endif
}

#endif /* TVM_RUNTIME_KERNELS_SCALAR_COMPILER_H_ */
