/*!
 * \file scalar/half.h
 * \brief Conversion between float and float16 values stored as their 16 bits.
 *
 * Networks compute in float32; only float16 tensors of the caller are converted here. Conversions
 * to 16 bits round to nearest, ties to even; infinities stay, NaN stays NaN, denormals are kept.
 * The code is branch-free integer arithmetic, which vectorises.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_HALF_H_
#define TVM_RUNTIME_KERNELS_SCALAR_HALF_H_

#include "math.h"

/*!
 * \brief IEEE binary16 to float; exact.
 *
 * Denormals are converted by a subtraction of normal numbers, because the vector units of Helium and
 * of 32-bit NEON take denormals of float32 for zeros.
 */
static inline float tvmrt_float16_to_f32(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t rest = (uint32_t)(half & 0x7fffu) << 13;
  /* with the exponent 113 the fields of a denormal are 2^-14 above its value */
  const float above = tvmrt_from_bits_f32(rest + 0x38800000u);
  const uint32_t denormal = tvmrt_bits_f32(above - 6.103515625e-5f);
  uint32_t bits = rest < 0x00800000u ? denormal : rest + 0x38000000u;
  bits = rest >= 0x0f800000u ? (rest | 0x7f800000u) : bits;
  return tvmrt_from_bits_f32(sign | bits);
}

/*! \brief Float to IEEE binary16. */
static inline uint16_t tvmrt_f32_to_float16(float x) {
  const uint32_t bits = tvmrt_bits_f32(x) & 0x7fffffffu;
  const uint32_t sign = (tvmrt_bits_f32(x) >> 16) & 0x8000u;
  /* normal results: move the exponent, add half a unit, and one more for odd values */
  const uint32_t moved = bits - 0x38000000u;
  const uint32_t normal = (moved + 0xfffu + ((moved >> 13) & 1u)) >> 13;
  /* small results: adding 0.5 leaves the rounded denormal in the low bits */
  const uint32_t tiny = tvmrt_bits_f32(tvmrt_from_bits_f32(bits) + 0.5f) - 0x3f000000u;
  uint32_t half = bits < 0x38800000u ? tiny : normal;
  half = bits >= 0x477ff000u ? 0x7c00u : half;
  half = bits > 0x7f800000u ? 0x7e00u : half;
  return (uint16_t)(sign | half);
}

/*! \brief bfloat16 to float; exact. */
static inline float tvmrt_bfloat16_to_f32(uint16_t half) {
  return tvmrt_from_bits_f32((uint32_t)half << 16);
}

/*! \brief Float to bfloat16. */
static inline uint16_t tvmrt_f32_to_bfloat16(float x) {
  const uint32_t bits = tvmrt_bits_f32(x);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const int nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return (uint16_t)(nan ? (bits >> 16) | 0x40u : rounded >> 16);
}

#endif /* TVM_RUNTIME_KERNELS_SCALAR_HALF_H_ */
