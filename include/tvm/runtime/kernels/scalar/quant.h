/*!
 * \file scalar/quant.h
 * \brief QuantizeLinear and DequantizeLinear of single elements, for loops that compilers
 * vectorise.
 *
 * q = saturate(round(x / scale) + zero), ties to even. The quotient is clamped first. Adding
 * 2 ^ 23 + 2 ^ 22 then rounds it in its lowest bits, without a call or a rounding mode; NaN becomes
 * the minimum. scale is not 0.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_QUANT_H_
#define TVM_RUNTIME_KERNELS_SCALAR_QUANT_H_

#include <stdint.h>
#include <string.h>

#include "soft_float.h"

#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && defined(__ARM_FEATURE_DSP)
#define TVMRT_ROUNDS_IN_FPU 1
#include <arm_acle.h>
#else
#define TVMRT_ROUNDS_IN_FPU 0
#endif

/*!
 * \brief steps * scale: DequantizeLinear of an element minus its zero point.
 *
 * The product is rounded separately. If products and sums were fused, a sum of dequantised
 * values would be rounded once instead of twice. It could end on the other side of a tie. A
 * comparison of the product prevents this: with a bound that a literal scale does not reach,
 * with itself for any other scale, so that infinities and NaN stay.
 */
static inline float tvmrt_dequantize(int32_t steps, float scale) {
  float product = tvmrt_mul_f32(tvmrt_int32_to_f32(steps), scale);
#if TVMRT_ROUNDS_IN_FPU
  __asm("" : "+t"(product));
  return product;
#elif TVMRT_HAS_FUSED
#if defined(__GNUC__)
  if (__builtin_constant_p(scale) && scale > -1e28f && scale < 1e28f) {
    return product < 3.0e38f ? product : 3.0e38f;
  }
#endif
  return product == product ? product : product - product;
#else
  return product;
#endif
}

/*! \brief The nearest integer to v, clamped to [low, high] within +-2 ^ 21; NaN gives low. */
static inline int32_t tvmrt_round_and_clamp(float v, int32_t low, int32_t high) {
#if TVMRT_SIMD_LANES_F32 > 1 && !defined(TVMRT_BOARD)
  /* The bits of floats have the order of integers, whose minimum and maximum GCC vectorises. */
  const float sum = (v == v ? v : (float)low) + 12582912.0f;
  const int32_t least = 0x4B400000 + low, most = 0x4B400000 + high;
  int32_t bits;
  memcpy(&bits, &sum, sizeof(bits));
  bits = bits < least ? least : bits;
  return (bits > most ? most : bits) - 0x4B400000;
#else
  return (int32_t)(tvmrt_bounded_f32(v, (float)low, (float)high) + 12582912.0f) - 12582912;
#endif
}

/*! \brief round(v) + zero, clamped to [low, high]; v is not NaN. */
static inline int32_t tvmrt_round_and_add_zero_point(float v, int32_t zero, int32_t low,
                                                     int32_t high) {
#if TVMRT_ROUNDS_IN_FPU
  int32_t q;
  __asm("vcvtr.s32.f32 %0, %0" : "+t"(v)); /* in the processor's mode: to nearest */
  memcpy(&q, &v, sizeof(q));
  q = __qadd(q, zero);
#if defined(__OPTIMIZE__)
  /* not __ssat(), a macro with a conversion that triggers -Wconversion */
  if (__builtin_constant_p(low) && low == -128 && high == 127) {
    return (int32_t)__builtin_arm_ssat(q, 8);
  }
  if (__builtin_constant_p(low) && low == 0 && high == 255) return (int32_t)__usat(q, 8);
#endif
  return q < low ? low : q > high ? high : q;
#elif TVMRT_SOFT_FLOAT
  const int32_t q = tvmrt_round_to_int32(v) + zero;
  return q < low ? low : q > high ? high : q;
#else
  return tvmrt_round_and_clamp(v, low - zero, high - zero) + zero;
#endif
}

/*! \brief round(x / scale) + zero, clamped to [low, high]. */
static inline int32_t tvmrt_quantize_and_clamp(float x, float scale, int32_t zero, int32_t low,
                                               int32_t high) {
  const float v = tvmrt_div_f32(x, scale);
  const int32_t q = tvmrt_round_and_add_zero_point(v, zero, low, high);
#if TVMRT_ROUNDS_IN_FPU
  return v == v ? q : low; /* a conditional move */
#else
  return q;
#endif
}

/* NAME: the IR's name of TYPE. */
#define TVMRT_DEFINE_QUANTIZE(NAME, TYPE, LOW, HIGH)                             \
  static inline TYPE tvmrt_quantize_##NAME(float x, float scale, int32_t zero) { \
    return (TYPE)tvmrt_quantize_and_clamp(x, scale, zero, LOW, HIGH);            \
  }

TVMRT_DEFINE_QUANTIZE(int8, int8_t, -128, 127)
TVMRT_DEFINE_QUANTIZE(uint8, uint8_t, 0, 255)
TVMRT_DEFINE_QUANTIZE(int16, int16_t, -32768, 32767)
TVMRT_DEFINE_QUANTIZE(uint16, uint16_t, 0, 65535)

#endif /* TVM_RUNTIME_KERNELS_SCALAR_QUANT_H_ */
