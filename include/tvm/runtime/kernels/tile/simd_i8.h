/*!
 * \file tile/simd_i8.h
 * \brief The vector operations of the integer kernels: dot products of bytes, rounding, packing.
 *
 * Every dense kernel accumulates products of four neighbouring bytes at a time ("a quad"). The
 * memory order of the four weights of a quad depends on the instruction that multiplies them.
 * Packed weights therefore have one of the formats below. The compiler of the network chooses it
 * for its target and names it before it includes a kernel:
 *
 *     #define TVMRT_I8_FORMAT TVMRT_I8_X86_VNNI
 *
 * Without that line the best format for the target processor is used. A format that the processor
 * cannot run is an error when the C file is compiled, never a wrong result.
 *
 *     format               lanes  activations  weights of one quad for all lanes
 *     TVMRT_I8_PLAIN           1  as stored    int8 [lane][4]
 *     TVMRT_I8_X86_VNNI       16  uint8        int8 [lane][4]
 *     TVMRT_I8_X86_AVX_VNNI    8  uint8        int8 [lane][4]
 *     TVMRT_I8_X86_AVX2        8  uint8        int16 [lane][w0, w2], then int16 [lane][w1, w3]
 *     TVMRT_I8_X86_SSE41       4  uint8        int8 [lane][4]
 *     TVMRT_I8_NEON            4  int8         int8 [lane][w0, w1], then int8 [lane][w2, w3]
 *     TVMRT_I8_NEON_DOT        4  int8         int8 [lane][4]
 *     TVMRT_I8_NEON_I8MM       4  int8         int8 [lane][4]
 *     TVMRT_I8_NEON32          4  int8         int8 [lane][4]
 *     TVMRT_I8_RVV             8  as stored    int8 [lane][4]
 *     TVMRT_I8_WASM            4  uint8        int8 [lane][4]
 *
 * "activations uint8" means that the format multiplies unsigned bytes: signed ones are shifted by
 * 128 while they are loaded (their top bit is flipped), and the folded bias compensates. "int8" is
 * the reverse.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_H_

#include <stdint.h>
#include <string.h>

#include "../scalar/any_weights.h"
#include "../scalar/soft_float.h"
#include "simd.h"

/*! \brief Unroll the following loop fully; its bounds are literals after inlining. */
#if defined(__clang__)
#define TVMRT_UNROLL_ALL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define TVMRT_UNROLL_ALL _Pragma("GCC unroll 64")
#else
#define TVMRT_UNROLL_ALL
#endif

#define TVMRT_I8_PLAIN 1
#define TVMRT_I8_X86_VNNI 2
#define TVMRT_I8_X86_AVX2 3
#define TVMRT_I8_NEON 4
#define TVMRT_I8_NEON_DOT 5
#define TVMRT_I8_X86_SSE41 6
#define TVMRT_I8_NEON_I8MM 7
#define TVMRT_I8_NEON32 8
#define TVMRT_I8_RVV 9
#define TVMRT_I8_X86_AVX_VNNI 10
#define TVMRT_I8_WASM 11

/*! \brief Rounding of requantisation by fixed-point multipliers, a literal in the functions of a tile;
 * without one of them it multiplies floats.
 *
 * A multiplier is m * 2 ^ (-31 - n), m from 2 ^ 30 to 2 ^ 31 - 1, n from 1 to 31. TWICE: the product
 * is rounded to the nearest multiple of 2 ^ -n, ties upwards, and that to an integer, ties away
 * from zero, as TensorFlow Lite does. POSITIVE: the same, but negative results are arbitrary: the
 * range starts at the zero point. ONCE: to the nearest integer, ties upwards. The constants are
 * arrays of 32-bit words, `stride` words apart, with an entry per channel:
 *
 *     0     m
 *     1     n - 1; for SSE4.1 and WebAssembly, which shift all lanes alike, 2 ^ (31 - n)
 *     2, 3  AVX2 and later only: the 64-bit addend of the product of each even channel, of each odd
 *           channel: 2 ^ (30 + n), plus 2 ^ 30 if the product is rounded twice
 *
 * FLOAT, with AVX2 and later only: sum * scale + addend in float32, rounded once, then to the
 * nearest integer; the arrays are the scales and the addends, for which a compiler has proved the
 * same results. SIGNED: the addend is negated for negative sums. DOWN, with AVX-512 only: the arrays
 * are the scales, the addends, and the rests that float32 cannot hold of the scales. sum * rest +
 * addend is rounded to float32. That plus sum * scale is rounded down to float32, which cannot pass
 * an integer, and then to an integer.
 */
#define TVMRT_ROUND_TWICE 8
#define TVMRT_ROUND_POSITIVE 16
#define TVMRT_ROUND_ONCE 32
#define TVMRT_ROUND_FLOAT 64
#define TVMRT_ROUND_SIGNED 128
#define TVMRT_ROUND_DOWN 256
#define TVMRT_ROUND_MASK 504 /* of these */
/*! \brief Addend of the product before the first rounding; 0: it is rounded down. */
#define TVMRT_I8_FIRST_HALF(rounding) \
  ((rounding) == TVMRT_ROUND_ONCE ? (int64_t)0 : (int64_t)1 << 30)

/*! \brief 2 ^ 23 + 2 ^ 22: adding it to a small float leaves the nearest integer (ties to even) in
 * the low bits. */
#define TVMRT_I8_ROUND 12582912.0f

/*! \brief Zero point and clamp bounds of an output tensor of bytes. */
typedef struct tvmrt_i8_range {
  int32_t zero;      /*!< Zero point of the output, in the range of its type. */
  int32_t lo;        /*!< Minimum, at least that of the type. */
  int32_t hi;        /*!< Maximum, at most that of the type. */
  int32_t is_signed; /*!< 1: int8, 0: uint8. */
} tvmrt_i8_range;

/*!
 * \brief y = clamp(round((a * fa + b * fb) / divisor) + zero), a and b minus their zero points.
 *
 * With fa = a_scale, fb = b_scale and divisor y_scale this is bit-identical to DequantizeLinear,
 * Add and QuantizeLinear; with a_scale / y_scale, b_scale / y_scale and 1 it is QLinearAdd.
 */
typedef struct tvmrt_add_i8 {
  float fa, fb, divisor;
  int32_t a_zero, a_signed; /* signed: 1 for int8, 0 for uint8 */
  int32_t b_zero, b_signed;
  tvmrt_i8_range range;
} tvmrt_add_i8;

/*! \brief Return the product, kept from being fused with a following addition. */
TVMRT_INLINE float tvmrt_i8_unfused_product(float product) {
#if defined(__GNUC__) && defined(__x86_64__)
  __asm__("" : "+x"(product));
#elif defined(__GNUC__) && defined(__aarch64__)
  __asm__("" : "+w"(product));
#elif defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP)
  __asm__("" : "+t"(product));
#elif defined(__GNUC__) && defined(__riscv_v)
  __asm__("" : "+f"(product));
#elif defined(__GNUC__) && defined(__FP_FAST_FMAF)
  __asm__("" : "+m"(product));
#endif
  return product;
}

/*! \brief A product rounded to the nearest integer, ties to even; saturates at +-2 ^ 20. */
TVMRT_INLINE int32_t tvmrt_i8_round_product(float product) {
#if TVMRT_SOFT_FLOAT
  return tvmrt_round_to_int32(product);
#else
  float v = tvmrt_i8_unfused_product(product);
  int32_t bits;
  v = tvmrt_limited_f32(v, 1048576.0f);
  v += TVMRT_I8_ROUND;
  memcpy(&bits, &v, sizeof(bits));
  return bits - 0x4B400000;
#endif
}

/*! \brief Add the zero point to q and clamp to the range. */
TVMRT_INLINE int32_t tvmrt_i8_clamp_to_range(int32_t q, const tvmrt_i8_range* range) {
  int32_t v = q + range->zero;
  return v < range->lo ? range->lo : v > range->hi ? range->hi : v;
}

/* Whether the format is one of NEON's. */
#define TVMRT_I8_ANY_NEON                                                      \
  (TVMRT_I8_FORMAT == TVMRT_I8_NEON || TVMRT_I8_FORMAT == TVMRT_I8_NEON_DOT || \
   TVMRT_I8_FORMAT == TVMRT_I8_NEON_I8MM || TVMRT_I8_FORMAT == TVMRT_I8_NEON32)

/* Code for boards uses no processor-specific instructions, wherever it is compiled: their headers
 * may be missing. */
#ifndef TVMRT_BOARD
#include "simd_i8_formats.h"
#elif !defined(TVMRT_I8_FORMAT)
#define TVMRT_I8_FORMAT TVMRT_I8_PLAIN
#endif

/* 256 bits: the two formats differ in quads of weights and inputs, and in their dot product. */
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX2 || TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX_VNNI
#define TVMRT_I8_X86_256 1
#else
#define TVMRT_I8_X86_256 0
#endif

/* ---- plain C: 1 lane ---- */

#if TVMRT_I8_FORMAT == TVMRT_I8_PLAIN

#define TVMRT_I8_LANES 1
#define TVMRT_I8_QUAD_BYTES 4
typedef int32_t tvmrt_i8_acc;
typedef struct tvmrt_i8_quad {
  int32_t v[4];
} tvmrt_i8_quad;
typedef tvmrt_i8_quad tvmrt_i8_weights;

TVMRT_INLINE tvmrt_i8_quad tvmrt_i8_quad_load(const uint8_t* p, int is_signed) {
  tvmrt_i8_quad quad;
  for (int i = 0; i < 4; i++)
    quad.v[i] = is_signed ? (int32_t)((const int8_t*)p)[i] : (int32_t)p[i];
  return quad;
}
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_weights_load(const int8_t* p) {
  tvmrt_i8_weights w;
  for (int i = 0; i < 4; i++) w.v[i] = p[i];
  return w;
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_dot(tvmrt_i8_acc acc, tvmrt_i8_quad x, tvmrt_i8_weights w) {
#ifdef TVMRT_ANY_WEIGHTS
  for (int i = 0; i < 4; i++) TVMRT_WRAP_ADD_TO(acc, x.v[i] * w.v[i]);
  return acc;
#else
  return acc + x.v[0] * w.v[0] + x.v[1] * w.v[1] + x.v[2] * w.v[2] + x.v[3] * w.v[3];
#endif
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale(tvmrt_i8_acc acc, const float* scale) {
  return tvmrt_i8_round_product((float)acc * *scale);
}
TVMRT_INLINE void tvmrt_i8_store_packed(uint8_t* y, tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                        tvmrt_i8_acc d, const tvmrt_i8_range* range, int n) {
  y[0] = (uint8_t)tvmrt_i8_clamp_to_range(a, range);
  if (n > 1) y[1] = (uint8_t)tvmrt_i8_clamp_to_range(b, range);
  if (n > 2) y[2] = (uint8_t)tvmrt_i8_clamp_to_range(c, range);
  if (n > 3) y[3] = (uint8_t)tvmrt_i8_clamp_to_range(d, range);
}

TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale_fixed(int rounding, tvmrt_i8_acc acc,
                                                 const int32_t* fixed, int64_t stride) {
  int32_t x = (int32_t)(((int64_t)acc * fixed[0] + TVMRT_I8_FIRST_HALF(rounding)) >> 31);
  if (rounding == TVMRT_ROUND_TWICE) TVMRT_WRAP_ADD_TO(x, x >> 31);
  return TVMRT_WRAP_ADD(TVMRT_WRAP_SHIFT_RIGHT(x, fixed[stride]), 1) >> 1;
}

#elif !defined(TVMRT_I8_LANES)
#error "TVMRT_I8_FORMAT is none of the formats of tile/simd_i8.h."
#endif

#if TVMRT_I8_LANES == 1
typedef int32_t tvmrt_i8_acc_in_memory;
#else
typedef tvmrt_i8_acc tvmrt_i8_acc_in_memory __attribute__((aligned(4), may_alias));
#endif
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_acc_load(const int32_t* p) {
  return *(const tvmrt_i8_acc_in_memory*)p;
}
TVMRT_INLINE void tvmrt_i8_acc_store(int32_t* p, tvmrt_i8_acc v) {
  *(tvmrt_i8_acc_in_memory*)p = v;
}

/*! \brief Return acc + shift * sum, where sum is the same for all lanes. */
#ifndef tvmrt_i8_add_shifted
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_add_shifted(tvmrt_i8_acc acc, const int32_t* shift,
                                               int32_t sum) {
#if TVMRT_I8_LANES == 1
  return TVMRT_WRAP_ADD(acc, TVMRT_WRAP_MULTIPLY(*shift, sum));
#else
  typedef uint32_t lanes __attribute__((vector_size(sizeof(acc))));
  return (tvmrt_i8_acc)((lanes)acc + (lanes)tvmrt_i8_acc_load(shift) * (uint32_t)sum);
#endif
}
#endif

/*! \brief Requantise the sums of LANES channels to integers without zero point: by float scales, or by
 * the fixed-point constants in their place if the epilogue, a literal, is one of TVMRT_ROUND_*. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_requantize(int epilogue, tvmrt_i8_acc acc, const float* scale,
                                              int64_t stride) {
  const int rounding = epilogue & TVMRT_ROUND_MASK;
  if (rounding == 0) return tvmrt_i8_rescale(acc, scale);
  return tvmrt_i8_rescale_fixed(rounding, acc, (const int32_t*)(const void*)scale, stride);
}

/*! \brief Store four vectors with the bytes of 2 or 4 pixels. */
#ifndef tvmrt_i8_store_pixels
TVMRT_INLINE void tvmrt_i8_store_pixels(uint8_t* y, int64_t step, int pixels, tvmrt_i8_acc a,
                                        tvmrt_i8_acc b, tvmrt_i8_acc c, tvmrt_i8_acc d,
                                        const tvmrt_i8_range* range) {
  const int n = 4 / pixels * TVMRT_I8_LANES;
  tvmrt_i8_store_packed(y, a, b, a, b, range, n);
  if (pixels == 2) {
    tvmrt_i8_store_packed(y + step, c, d, c, d, range, n);
  } else {
    tvmrt_i8_store_packed(y + step, b, b, b, b, range, n);
    tvmrt_i8_store_packed(y + 2 * step, c, c, c, c, range, n);
    tvmrt_i8_store_packed(y + 3 * step, d, d, d, d, range, n);
  }
}
#endif

/*! \brief Load int8 [lane][4], the order of TVMRT_I8_X86_VNNI. */
#ifndef tvmrt_i8_shared_load
#define tvmrt_i8_shared_load tvmrt_i8_weights_load
#endif

/* ---- rows of bytes as floats, LANES at a time ---- */

#if TVMRT_I8_LANES > 1
#define TVMRT_I8_VECTOR(element) \
  element __attribute__((vector_size(sizeof(element) * TVMRT_I8_LANES)))
typedef TVMRT_I8_VECTOR(float) tvmrt_i8_floats;
typedef TVMRT_I8_VECTOR(int32_t) tvmrt_i8_ints;
typedef TVMRT_I8_VECTOR(uint8_t) tvmrt_i8_unsigned_bytes;
typedef TVMRT_I8_VECTOR(int8_t) tvmrt_i8_signed_bytes;

/*! \brief Load LANES bytes minus their zero point, as floats. */
TVMRT_INLINE tvmrt_i8_floats tvmrt_i8_floats_load(const uint8_t* p, int32_t zero, int is_signed) {
  tvmrt_i8_ints wide;
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI
  /* gcc before 13 converts vectors of bytes element by element */
  const __m128i v = _mm_loadu_si128((const __m128i*)p);
  wide = (tvmrt_i8_ints)(is_signed ? _mm512_cvtepi8_epi32(v) : _mm512_cvtepu8_epi32(v));
#elif TVMRT_I8_X86_256
  const __m128i v = _mm_loadl_epi64((const __m128i*)p);
  wide = (tvmrt_i8_ints)(is_signed ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_SSE41
  int32_t four;
  memcpy(&four, p, sizeof(four));
  const __m128i v = _mm_cvtsi32_si128(four);
  wide = (tvmrt_i8_ints)(is_signed ? _mm_cvtepi8_epi32(v) : _mm_cvtepu8_epi32(v));
#elif TVMRT_I8_FORMAT == TVMRT_I8_WASM
  const v128_t v = wasm_v128_load32_zero(p);
  wide = (tvmrt_i8_ints)(is_signed ? wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(v))
                                   : wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(v)));
#else /* of any processor */
  if (is_signed) {
    tvmrt_i8_signed_bytes v;
    memcpy(&v, p, sizeof(v));
    wide = __builtin_convertvector(v, tvmrt_i8_ints);
  } else {
    tvmrt_i8_unsigned_bytes v;
    memcpy(&v, p, sizeof(v));
    wide = __builtin_convertvector(v, tvmrt_i8_ints);
  }
#endif
  return __builtin_convertvector(wide - zero, tvmrt_i8_floats);
}
TVMRT_INLINE tvmrt_i8_floats tvmrt_i8_floats_splat(float s) { return s - (tvmrt_i8_floats){0}; }
TVMRT_INLINE tvmrt_i8_floats tvmrt_i8_floats_clamp(tvmrt_i8_floats v, float lo, float hi) {
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_SSE41 /* tile/simd.h names no instructions of it */
  return (tvmrt_i8_floats)_mm_min_ps(_mm_max_ps((__m128)v, _mm_set1_ps(lo)), _mm_set1_ps(hi));
#else
#define TVMRT_I8_F32 TVMRT_JOIN(tvmrt_f32x, TVMRT_I8_LANES, )
#define TVMRT_I8_F32V(operation) TVMRT_JOIN(TVMRT_I8_F32, _, operation)
  const TVMRT_I8_F32 above = TVMRT_I8_F32V(max)((TVMRT_I8_F32)v, TVMRT_I8_F32V(splat)(lo));
  return (tvmrt_i8_floats)TVMRT_I8_F32V(min)(above, TVMRT_I8_F32V(splat)(hi));
#endif
}
/*! \brief Convert integers to floats. */
TVMRT_INLINE tvmrt_i8_floats tvmrt_i8_floats_of(tvmrt_i8_acc v) {
  return __builtin_convertvector((tvmrt_i8_ints)v, tvmrt_i8_floats);
}
/*! \brief Round to the nearest integers, ties to even; inputs in +-2 ^ 21. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_floats_round(tvmrt_i8_floats v) {
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI
  return _mm512_cvtps_epi32((__m512)v);
#elif TVMRT_I8_X86_256
  return _mm256_cvtps_epi32((__m256)v);
#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_SSE41
  return _mm_cvtps_epi32((__m128)v);
#else /* of any processor */
  return (tvmrt_i8_acc)((tvmrt_i8_ints)(v + TVMRT_I8_ROUND) - 0x4B400000);
#endif
}
/*! \brief Store clamp(round(v) + zero) as LANES bytes. */
TVMRT_INLINE void tvmrt_i8_floats_store(uint8_t* y, tvmrt_i8_floats v,
                                        const tvmrt_i8_range* range) {
  v = tvmrt_i8_floats_clamp(v, (float)(range->lo - range->zero), (float)(range->hi - range->zero));
  tvmrt_i8_ints q = (tvmrt_i8_ints)(v + TVMRT_I8_ROUND) - (0x4B400000 - range->zero);
#if TVMRT_I8_X86_256
  const __m256i low = _mm256_and_si256((__m256i)q, _mm256_set1_epi32(0xFF));
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  _mm_storel_epi64((__m128i*)y, _mm_packus_epi16(words, words));
#else
  tvmrt_i8_unsigned_bytes bytes = __builtin_convertvector(q, tvmrt_i8_unsigned_bytes);
  memcpy(y, &bytes, sizeof(bytes));
#endif
}
/*! \brief Return the value, and prevent the compiler from fusing it with a following addition. */
TVMRT_INLINE tvmrt_i8_floats tvmrt_i8_floats_unfused_product(tvmrt_i8_floats product) {
#if defined(__aarch64__) || defined(__arm__)
  __asm__("" : "+w"(product));
#elif defined(__riscv)
  __asm__("" : "+m"(product));
#elif !defined(__wasm__) /* which has no fused multiply-add */
  __asm__("" : "+v"(product));
#endif
  return product;
}

#else

typedef float tvmrt_i8_floats;
TVMRT_INLINE float tvmrt_i8_floats_load(const uint8_t* p, int32_t zero, int is_signed) {
  return (float)((is_signed ? (int32_t) * (const int8_t*)p : (int32_t)*p) - zero);
}
TVMRT_INLINE float tvmrt_i8_floats_splat(float s) { return s; }
TVMRT_INLINE float tvmrt_i8_floats_clamp(float v, float lo, float hi) {
  return v < lo ? lo : v > hi ? hi : v;
}
TVMRT_INLINE float tvmrt_i8_floats_of(tvmrt_i8_acc v) { return (float)v; }
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_floats_round(float v) { return tvmrt_i8_round_product(v); }
TVMRT_INLINE void tvmrt_i8_floats_store(uint8_t* y, float v, const tvmrt_i8_range* range) {
  *y = (uint8_t)tvmrt_i8_clamp_to_range(tvmrt_i8_round_product(v), range);
}
TVMRT_INLINE float tvmrt_i8_floats_unfused_product(float product) {
  return tvmrt_i8_unfused_product(product);
}
#endif

/*! \brief round(a * fa + b * fb) for LANES values and divisor 1: q is a minus its zero point, not
 * yet clamped to its `range`, which has the same zero point. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_add_residual(tvmrt_i8_acc q, const tvmrt_i8_range* range,
                                                const tvmrt_add_i8* f, const uint8_t* b,
                                                int b_signed) {
  const float lo = (float)(range->lo - range->zero), hi = (float)(range->hi - range->zero);
  const tvmrt_i8_floats u = tvmrt_i8_floats_clamp(tvmrt_i8_floats_of(q), lo, hi) * f->fa;
  const tvmrt_i8_floats v = tvmrt_i8_floats_load(b, f->b_zero, b_signed) * f->fb;
  return tvmrt_i8_floats_round(tvmrt_i8_floats_unfused_product(u) +
                               tvmrt_i8_floats_unfused_product(v));
}

#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_H_ */
