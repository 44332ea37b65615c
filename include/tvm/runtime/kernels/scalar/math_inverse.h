/*!
 * \file scalar/math_inverse.h
 * \brief Inverse and hyperbolic functions of one float, remainders, and functions for float64.
 *
 * The less common half of scalar/math.h, in the same style: branch-free code that compilers
 * vectorise, within 4 units in the last place unless a function says otherwise.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_MATH_INVERSE_H_
#define TVM_RUNTIME_KERNELS_SCALAR_MATH_INVERSE_H_

#include "math.h"

static inline double tvmrt_abs_f64(double x) { return fabs(x); }
static inline double tvmrt_max_f64(double a, double b) { return a > b || a != a ? a : b; }
static inline double tvmrt_min_f64(double a, double b) { return a < b || a != a ? a : b; }

/*! \brief 1 for NaN, tested with integers so that no compiler option can assume it away. */
static inline int tvmrt_isnan_f32(float x) {
  return (tvmrt_bits_f32(x) & 0x7fffffffu) > 0x7f800000u;
}

/*! \brief Round to the nearest integer, ties to even. */
static inline float tvmrt_round_even_f32(float x) { return nearbyintf(x); }

/*! \brief a - b * floor(a / b): the remainder with the divisor's sign. */
static inline float tvmrt_floor_mod_f32(float a, float b) {
  const float rest = fmodf(a, b);
  return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
static inline double tvmrt_floor_mod_f64(double a, double b) {
  const double rest = fmod(a, b);
  return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

/*! \brief x to an integer power y; `odd` is whether it is odd: y may be too large to tell. */
static inline double tvmrt_pow_integer_f64(double x, double y, int odd) {
  const double size = pow(fabs(x), y);
  return odd ? copysign(size, x) : size;
}

/*! \brief Arc tangent; within 3 units in the last place. */
static inline float tvmrt_atan_f32(float x) {
  const float a = tvmrt_abs_f32(x);
  const int large = a > 2.414213562373095f, middle = a > 0.4142135623730950f;
  const float offset = large ? 1.5707963267948966f : middle ? 0.7853981633974483f : 0.0f;
  const float v = large ? -1.0f / a : middle ? (a - 1.0f) / (a + 1.0f) : a;
  const float z = v * v;
  float p = 8.05374449538e-2f;
  p = p * z - 1.38776856032e-1f;
  p = p * z + 1.99777106478e-1f;
  p = p * z - 3.33329491539e-1f;
  return tvmrt_copysign_f32(offset + (p * z * v + v), x);
}

/*! \brief Arc sine, NaN outside [-1, 1]; within 3 units in the last place. */
static inline float tvmrt_asin_f32(float x) {
  const float a = tvmrt_abs_f32(x);
  const int outer = a > 0.5f;
  const float z = outer ? 0.5f * (1.0f - a) : a * a;
  const float v = outer ? sqrtf(z) : a;
  float p = 4.2163199048e-2f;
  p = p * z + 2.4181311049e-2f;
  p = p * z + 4.5470025998e-2f;
  p = p * z + 7.4953002686e-2f;
  p = p * z + 1.6666752422e-1f;
  p = p * z * v + v;
  const float y = outer ? 1.5707963267948966f - (p + p) : p;
  return tvmrt_copysign_f32(y, x);
}

/*! \brief Arc cosine, NaN outside [-1, 1]; within 4 units in the last place away from 1. */
static inline float tvmrt_acos_f32(float x) {
  const float high = 2.0f * tvmrt_asin_f32(sqrtf(0.5f * (1.0f - x)));
  const float low = 3.14159265358979f - 2.0f * tvmrt_asin_f32(sqrtf(0.5f * (1.0f + x)));
  const float middle = 1.5707963267948966f - tvmrt_asin_f32(x);
  return x > 0.5f ? high : x < -0.5f ? low : middle;
}

/*! \brief Hyperbolic sine. */
static inline float tvmrt_sinh_f32(float x) {
  const float a = tvmrt_abs_f32(x);
  const float e = tvmrt_expm1_f32(a);
  /* exp(a / 2) squared keeps the result finite as long as possible */
  const float h = tvmrt_exp_f32(0.5f * a);
  const float y = a > 80.0f ? 0.5f * h * h : 0.5f * (e + e / (e + 1.0f));
  return tvmrt_copysign_f32(y, x);
}

/*! \brief Hyperbolic cosine. */
static inline float tvmrt_cosh_f32(float x) {
  const float h = tvmrt_exp_f32(0.5f * tvmrt_abs_f32(x));
  const float e = h * h;
  return tvmrt_abs_f32(x) > 80.0f ? 0.5f * h * h : 0.5f * e + 0.5f / e;
}

/*! \brief Inverse hyperbolic sine. */
static inline float tvmrt_asinh_f32(float x) {
  const float a = tvmrt_abs_f32(x);
  const float near = tvmrt_log1p_f32(a + a * a / (1.0f + sqrtf(a * a + 1.0f)));
  const float far = tvmrt_log_f32(a) + 0.693147180559945f;
  return tvmrt_copysign_f32(a > 1e9f ? far : near, x);
}

/*! \brief Inverse hyperbolic cosine, NaN below 1. */
static inline float tvmrt_acosh_f32(float x) {
  const float t = x - 1.0f;
  const float near = tvmrt_log1p_f32(t + sqrtf(2.0f * t + t * t));
  const float far = tvmrt_log_f32(x) + 0.693147180559945f;
  return x > 1e9f ? far : x >= 1.0f ? near : NAN;
}

/*! \brief Inverse hyperbolic tangent, NaN outside [-1, 1]. */
static inline float tvmrt_atanh_f32(float x) {
  const float a = tvmrt_abs_f32(x);
  return tvmrt_copysign_f32(0.5f * tvmrt_log1p_f32(2.0f * a / (1.0f - a)), x);
}

#endif /* TVM_RUNTIME_KERNELS_SCALAR_MATH_INVERSE_H_ */
