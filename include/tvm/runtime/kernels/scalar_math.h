/*!
 * \file scalar_math.h
 * \brief Functions of one float that compilers turn into vector code inside loops.
 *
 * The C library's expf and its like are calls, and a loop with a call stays scalar. These are
 * straight lines of arithmetic and selections: gcc and clang vectorise loops around them with
 * -O3 -fno-math-errno -fno-trapping-math, which change no value that C defines. Errors are a few
 * units in the last place over the whole range (the bound stands at each function), infinities
 * and NaN come out as the C library gives them.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_MATH_H_
#define TVM_RUNTIME_KERNELS_SCALAR_MATH_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t tvmrt_bits_of_f32(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

static inline float tvmrt_f32_of_bits(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

/*! \brief |x|, sign of x (NaN stays NaN), the larger and the smaller of two (NaN wins). */
static inline float tvmrt_abs_f32(float x) {
  return tvmrt_f32_of_bits(tvmrt_bits_of_f32(x) & 0x7fffffff);
}
static inline double tvmrt_abs_f64(double x) { return fabs(x); }
static inline float tvmrt_sign_f32(float x) {
  return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? 0.0f : x;
}
static inline float tvmrt_max_f32(float a, float b) { return a > b || a != a ? a : b; }
static inline float tvmrt_min_f32(float a, float b) { return a < b || a != a ? a : b; }
static inline double tvmrt_max_f64(double a, double b) { return a > b || a != a ? a : b; }
static inline double tvmrt_min_f64(double a, double b) { return a < b || a != a ? a : b; }
static inline int tvmrt_isnan_f32(float x) {
  /* in integers, so that no compiler option can assume it away */
  return (tvmrt_bits_of_f32(x) & 0x7fffffff) > 0x7f800000;
}

/*! \brief x as a float of the sign of `sign`. */
static inline float tvmrt_copysign_f32(float x, float sign) {
  return tvmrt_f32_of_bits((tvmrt_bits_of_f32(x) & 0x7fffffff) |
                           (tvmrt_bits_of_f32(sign) & (int32_t)0x80000000u));
}

static inline float tvmrt_floor_f32(float x) { return floorf(x); }
static inline float tvmrt_ceil_f32(float x) { return ceilf(x); }
/*! \brief To the nearest integer, halves to the even one. */
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

/*!
 * \brief e to the x; within 2 units in the last place, denormal results included.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; a polynomial of r, times 2^n in two factors, since 2^n
 * itself leaves the range of floats before the product does.
 */
static inline float tvmrt_exp_f32(float x) {
  const float low = x < -104.0f ? -104.0f : x;
  const float v = low > 89.0f ? 89.0f : low;
  const float shifted = v * 1.44269504088896341f + 12582912.0f; /* 1.5 * 2^23: rounds to integer */
  const float n = shifted - 12582912.0f;
  const float r = (v - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const int32_t power = tvmrt_bits_of_f32(shifted) - 0x4b400000;
  const int32_t half = power >> 1;
  return p * tvmrt_f32_of_bits((int32_t)((uint32_t)(half + 127) << 23)) *
         tvmrt_f32_of_bits((int32_t)((uint32_t)(power - half + 127) << 23));
}

/*! \brief Natural logarithm; within 2 units in the last place. */
static inline float tvmrt_log_f32(float x) {
  const int tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x; /* denormals become normal */
  const int32_t bits = tvmrt_bits_of_f32(scaled);
  float e = (float)(((bits >> 23) & 0xff) - 126) - (tiny ? 23.0f : 0.0f);
  const float m = tvmrt_f32_of_bits((bits & 0x007fffff) | 0x3f000000);
  const int small = m < 0.707106781186547524f;
  e = small ? e - 1.0f : e;
  const float v = small ? m + m - 1.0f : m - 1.0f;
  const float z = v * v;
  float p = 7.0376836292e-2f;
  p = p * v - 1.1514610310e-1f;
  p = p * v + 1.1676998740e-1f;
  p = p * v - 1.2420140846e-1f;
  p = p * v + 1.4249322787e-1f;
  p = p * v - 1.6668057665e-1f;
  p = p * v + 2.0000714765e-1f;
  p = p * v - 2.4999993993e-1f;
  p = p * v + 3.3333331174e-1f;
  float y = p * v * z + e * -2.12194440e-4f - 0.5f * z;
  y = v + y + e * 0.693359375f;
  y = x == 0.0f ? -INFINITY : y;
  y = x < 0.0f ? NAN : y;
  /* infinity and NaN pass */
  return x > 3.402823466e38f || x != x ? x : y;
}

/*! \brief log(1 + x), exact for small x. */
static inline float tvmrt_log1p_f32(float x) {
  const float u = 1.0f + x;
  const float d = u - 1.0f;
  const float y = tvmrt_log_f32(u);
  /* the rounding of 1 + x is made good by the factor x / d */
  return d == 0.0f || u > 3.402823466e38f ? (d == 0.0f ? x : y) : y * (x / d);
}

/*! \brief exp(x) - 1, exact for small x; within 4 units in the last place. */
static inline float tvmrt_expm1_f32(float x) {
  float p = 1.9841270e-4f;
  p = p * x + 1.3888889e-3f;
  p = p * x + 8.3333333e-3f;
  p = p * x + 4.1666667e-2f;
  p = p * x + 1.6666667e-1f;
  p = p * x + 0.5f;
  const float near = x + x * x * p;
  return tvmrt_abs_f32(x) < 0.35f ? near : tvmrt_exp_f32(x) - 1.0f;
}

/*! \brief Hyperbolic tangent as a quotient of polynomials; within 6 units in the last place. */
static inline float tvmrt_tanh_f32(float x) {
  const float low = x < -7.90531110763549805f ? -7.90531110763549805f : x;
  const float v = low > 7.90531110763549805f ? 7.90531110763549805f : low;
  const float z = v * v;
  float p = -2.76076847742355e-16f;
  p = p * z + 2.00018790482477e-13f;
  p = p * z - 8.60467152213735e-11f;
  p = p * z + 5.12229709037114e-08f;
  p = p * z + 1.48572235717979e-05f;
  p = p * z + 6.37261928875436e-04f;
  p = p * z + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * z + 1.18534705686654e-04f;
  q = q * z + 2.26843463243900e-03f;
  q = q * z + 4.89352518554385e-03f;
  return tvmrt_abs_f32(v) < 0.0004f ? v : v * p / q;
}

/*! \brief 1 / (1 + exp(-x)); within 4 units in the last place; denormal results become 0. */
static inline float tvmrt_sigmoid_f32(float x) { return 1.0f / (1.0f + tvmrt_exp_f32(-x)); }

/*! \brief log(1 + exp(x)) without overflow. */
static inline float tvmrt_softplus_f32(float x) {
  const float top = x > 0.0f ? x : 0.0f;
  const float y = top + tvmrt_log1p_f32(tvmrt_exp_f32(-tvmrt_abs_f32(x)));
  return x != x ? x : y;
}

/*! \brief The error function as a quotient of polynomials; within 8 units in the last place. */
static inline float tvmrt_erf_f32(float x) {
  const float low = x < -3.925f ? -3.925f : x;
  const float v = low > 3.925f ? 3.925f : low;
  const float z = v * v;
  float p = -2.72614225801306e-10f;
  p = p * z + 2.77068142495902e-08f;
  p = p * z - 2.10102402082508e-06f;
  p = p * z - 5.69250639462346e-05f;
  p = p * z - 7.34990630326855e-04f;
  p = p * z - 2.95459980854025e-03f;
  p = p * z - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * z - 2.13374055278905e-04f;
  q = q * z - 1.68282697438203e-03f;
  q = q * z - 7.37332916720468e-03f;
  q = q * z - 1.42647390514189e-02f;
  return v * p / q;
}

/* sin(x + quadrant * pi / 2): the angle is reduced in double, so that arguments up to 1e9 keep
   their accuracy; of larger ones only the range of the result is promised. */
static inline float tvmrt_sin_quadrant_f32(float x, int32_t quadrant) {
  const double shifted = (double)x * 0.63661977236758134308 + 6755399441055744.0; /* 1.5 * 2^52 */
  const double n = shifted - 6755399441055744.0;
  int64_t bits;
  memcpy(&bits, &shifted, sizeof(bits));
  const int32_t q = (int32_t)bits + quadrant;
  const double reduced = ((double)x - n * 1.57079632679489661923) - n * 6.123233995736766e-17;
  const float bounded = (float)(reduced < -0.8 ? -0.8 : reduced > 0.8 ? 0.8 : reduced);
  const float r = x - x == 0.0f ? bounded : NAN;
  const float z = r * r;
  const float s = r + r * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
  const float c =
      1.0f - 0.5f * z +
      z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
  const float y = (q & 1) ? c : s;
  return (q & 2) ? -y : y;
}

/*! \brief Trigonometric functions of an angle in radians; 2 units in the last place to 1e9. */
static inline float tvmrt_sin_f32(float x) { return tvmrt_sin_quadrant_f32(x, 0); }
static inline float tvmrt_cos_f32(float x) { return tvmrt_sin_quadrant_f32(x, 1); }
static inline float tvmrt_tan_f32(float x) { return tvmrt_sin_f32(x) / tvmrt_cos_f32(x); }

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

static inline float tvmrt_sinh_f32(float x) {
  const float a = tvmrt_abs_f32(x);
  const float e = tvmrt_expm1_f32(a);
  /* exp(a / 2) twice keeps the result finite as long as it can be */
  const float h = tvmrt_exp_f32(0.5f * a);
  const float y = a > 80.0f ? 0.5f * h * h : 0.5f * (e + e / (e + 1.0f));
  return tvmrt_copysign_f32(y, x);
}

static inline float tvmrt_cosh_f32(float x) {
  const float h = tvmrt_exp_f32(0.5f * tvmrt_abs_f32(x));
  const float e = h * h;
  return tvmrt_abs_f32(x) > 80.0f ? 0.5f * h * h : 0.5f * e + 0.5f / e;
}

static inline float tvmrt_asinh_f32(float x) {
  const float a = tvmrt_abs_f32(x);
  const float near = tvmrt_log1p_f32(a + a * a / (1.0f + sqrtf(a * a + 1.0f)));
  const float far = tvmrt_log_f32(a) + 0.693147180559945f;
  return tvmrt_copysign_f32(a > 1e9f ? far : near, x);
}

static inline float tvmrt_acosh_f32(float x) {
  const float t = x - 1.0f;
  const float near = tvmrt_log1p_f32(t + sqrtf(2.0f * t + t * t));
  const float far = tvmrt_log_f32(x) + 0.693147180559945f;
  return x > 1e9f ? far : near;
}

static inline float tvmrt_atanh_f32(float x) {
  const float a = tvmrt_abs_f32(x);
  return tvmrt_copysign_f32(0.5f * tvmrt_log1p_f32(2.0f * a / (1.0f - a)), x);
}

/*! \brief a to the b, by the C library: exponents that networks use are mostly constant and are
 * written as products or roots by the compiler. */
static inline float tvmrt_pow_f32(float a, float b) { return powf(a, b); }

/*! \brief x * Phi(x) with the normal distribution, by the error function or by tanh. */
static inline float tvmrt_gelu_f32(float x) {
  return 0.5f * x * (1.0f + tvmrt_erf_f32(x * 0.70710678118654752f));
}
static inline float tvmrt_gelu_tanh_f32(float x) {
  return 0.5f * x * (1.0f + tvmrt_tanh_f32(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}

#endif /* TVM_RUNTIME_KERNELS_SCALAR_MATH_H_ */
