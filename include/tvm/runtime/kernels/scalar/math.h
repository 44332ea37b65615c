/*!
 * \file scalar/math.h
 * \brief Functions of one float without branches or calls, so that loops over them vectorise.
 *
 * Compile with -O3 -fno-math-errno -fno-trapping-math; -ffast-math is neither needed nor wanted.
 * The results are within 4 units in the last place of the exact ones for all finite arguments
 * unless a function says otherwise; infinities give the limits, NaN gives NaN, denormals are kept.
 *
 * Polynomial coefficients are those of the Cephes library and of minimax fits of the same form.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_MATH_H_
#define TVM_RUNTIME_KERNELS_SCALAR_MATH_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"
#include "pairs.h"

TVMRT_INLINE uint32_t tvmrt_bits_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

TVMRT_INLINE float tvmrt_from_bits_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

TVMRT_INLINE float tvmrt_abs_f32(float x) {
  return tvmrt_from_bits_f32(tvmrt_bits_f32(x) & 0x7fffffffu);
}

/*! \brief The magnitude of `size` with the sign of `sign`. */
TVMRT_INLINE float tvmrt_copysign_f32(float size, float sign) {
  return tvmrt_from_bits_f32((tvmrt_bits_f32(size) & 0x7fffffffu) |
                             (tvmrt_bits_f32(sign) & 0x80000000u));
}

#if (defined(__arm__) && !defined(__ARM_FP)) || (defined(__riscv) && !defined(__riscv_flen)) || \
    defined(TVMRT_ORDER_BY_BITS)
/* Integers in the order of the floats, then NaN of both signs. Without a floating-point unit each
 * float comparison would be a call. */
TVMRT_INLINE uint32_t tvmrt_order_f32(float x) {
  const uint32_t bits = tvmrt_bits_f32(x);
  return (bits ^ (0u - (bits >> 31)) >> 1) - 0x807FFFFFu;
}
#define TVMRT_ABOVE_F32(a, b) (tvmrt_order_f32(a) > tvmrt_order_f32(b))
#elif defined(TVMRT_FREESTANDING)
#define TVMRT_ABOVE_F32(a, b) ((a) > (b) || (a) != (a))
#else /* one comparison if b is a constant: GCC vectorises it without -fthread-jumps, too */
#define TVMRT_ABOVE_F32(a, b) (((b) == (b)) & !((a) <= (b)))
#endif

/*! \brief Maximum of both; NaN if either is. */
TVMRT_INLINE float tvmrt_max_f32(float a, float b) { return TVMRT_ABOVE_F32(a, b) ? a : b; }

/*! \brief Minimum of both; NaN if either is. */
TVMRT_INLINE float tvmrt_min_f32(float a, float b) { return TVMRT_ABOVE_F32(-a, -b) ? a : b; }

/*! \brief x clamped to [lo, hi]; NaN stays. */
TVMRT_INLINE float tvmrt_clamp_f32(float x, float lo, float hi) {
  x = x < lo ? lo : x;
  return x > hi ? hi : x;
}

TVMRT_INLINE float tvmrt_floor_f32(float x) { return floorf(x); }
TVMRT_INLINE float tvmrt_ceil_f32(float x) { return ceilf(x); }
/*! \brief -1, 0 or 1 by the sign of x; NaN stays. */
TVMRT_INLINE float tvmrt_sign_f32(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }

/* x = n ln 2 + r: n and r. The low bits of `biased` are those of n + 127, the exponent of 2^n. */
TVMRT_INLINE float tvmrt_exp_split_f32(float x, uint32_t* biased) {
  /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits; 127 is added with it. */
  const float shift = 12583039.0f;
  const float shifted = TVMRT_FMAF(x, 1.44269504088896341f, shift);
  const float n = shifted - shift;
  *biased = tvmrt_bits_f32(shifted);
  return TVMRT_FMAF(n, 2.12194440e-4f, TVMRT_FMAF(n, -0.693359375f, x));
}

/* x = n ln 2 + r: e^r - 1 as a polynomial in r. */
TVMRT_INLINE float tvmrt_exp_remainder_f32(float x, uint32_t* biased) {
  const float r = tvmrt_exp_split_f32(x, biased);
  float p = 1.3814540119e-3f;
  p = TVMRT_FMAF(p, r, 8.3687451772e-3f);
  p = TVMRT_FMAF(p, r, 4.1668390790e-2f);
  p = TVMRT_FMAF(p, r, 1.6666520398e-1f);
  p = TVMRT_FMAF(p, r, 4.9999993432e-1f);
  return TVMRT_FMAF(p, r * r, r);
}

/*!
 * \brief e to the x.
 *
 * x = n ln 2 + r; a polynomial in r, and 2^n as two factors so that denormals are correct.
 */
TVMRT_INLINE float tvmrt_exp_f32(float x) {
  uint32_t biased;
  const float p = tvmrt_exp_remainder_f32(tvmrt_clamp_f32(x, -104.0f, 89.0f), &biased) + 1.0f;
  const int32_t power = (int32_t)(biased - 0x4b40007fu);
  const int32_t half = power >> 1;
  const float first = tvmrt_from_bits_f32((uint32_t)(half + 127) << 23);
  const float second = tvmrt_from_bits_f32((uint32_t)(power - half + 127) << 23);
  return p * first * second;
}

/* e to the x for -88 <= x <= 89, with one factor 2^n: 0 below the normal range, infinity from
 * 88.4. */
TVMRT_INLINE float tvmrt_exp_normal_f32(float x) {
  uint32_t biased;
  const float r = tvmrt_exp_split_f32(x, &biased);
  float p = 8.3687451772e-3f;
  p = TVMRT_FMAF(1.3814540119e-3f, r, p);
  p = TVMRT_FMAF(p, r, 4.1668390790e-2f);
  p = TVMRT_FMAF(p, r, 1.6666520398e-1f);
  p = TVMRT_FMAF(p, r, 4.9999993432e-1f);
  p = TVMRT_FMAF(p, r, 1.0f);
  p = TVMRT_FMAF(p, r, 1.0f);
  return p * tvmrt_from_bits_f32(biased << 23);
}

/*!
 * \brief e to the x for x <= 0; 0 below the normal range.
 *
 * Two thirds of the work of tvmrt_exp_f32(): there is no overflow, and one factor 2^n is enough,
 * whose bits are 0 from -88 downwards.
 */
TVMRT_INLINE float tvmrt_exp_nonpositive_f32(float x) {
  return tvmrt_exp_normal_f32(x < -88.0f ? -88.0f : x);
}

/* The natural logarithm of x, minus a far smaller value: -inf at 0, NaN below. */
TVMRT_INLINE float tvmrt_log_minus_f32(float x, float less) {
  const int tiny = x < 1.17549435e-38f;
  const uint32_t bits = tvmrt_bits_f32(tiny ? x * 8388608.0f : x);
  /* Mantissa between sqrt(1/2) and sqrt(2). */
  const uint32_t moved = bits - 0x3f3504f3u;
  const int32_t exponent = ((int32_t)moved >> 23) - (tiny ? 23 : 0);
  const float m = tvmrt_from_bits_f32((moved & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float e = (float)exponent;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = TVMRT_FMAF(p, m, -1.1514610310e-1f);
  p = TVMRT_FMAF(p, m, 1.1676998740e-1f);
  p = TVMRT_FMAF(p, m, -1.2420140846e-1f);
  p = TVMRT_FMAF(p, m, 1.4249322787e-1f);
  p = TVMRT_FMAF(p, m, -1.6668057665e-1f);
  p = TVMRT_FMAF(p, m, 2.0000714765e-1f);
  p = TVMRT_FMAF(p, m, -2.4999993993e-1f);
  p = TVMRT_FMAF(p, m, 3.3333331174e-1f);
  float y = p * m * z - less;
  y = TVMRT_FMAF(e, -2.12194440e-4f, y);
  y = TVMRT_FMAF(z, -0.5f, y);
  y = TVMRT_FMAF(e, 0.693359375f, m + y);
  y = x == INFINITY ? x : y;
  y = x == 0.0f ? -INFINITY : y;
  return x < 0.0f || x != x ? NAN : y;
}

/*! \brief The natural logarithm: -inf at 0, NaN below. */
TVMRT_INLINE float tvmrt_log_f32(float x) { return tvmrt_log_minus_f32(x, 0.0f); }

/*!
 * \brief e^x - 1 without loss near 0.
 *
 * Like tvmrt_exp_f32(): 2^n (1 + p) - 1 is 2^n p + (2^n - 1), halved as 2^128 overflows.
 */
TVMRT_INLINE float tvmrt_expm1_f32(float x) {
  uint32_t biased;
  const float p = tvmrt_exp_remainder_f32(tvmrt_clamp_f32(x, -26.0f, 89.0f), &biased);
  const float half = tvmrt_from_bits_f32((biased - 1u) << 23);
  return 2.0f * TVMRT_FMAF(half, p, half - 0.5f);
}

/*! \brief log(1 + x) without loss near 0. */
TVMRT_INLINE float tvmrt_log1p_f32(float x) {
  const float u = 1.0f + x;
  const float gained = (u - 1.0f) - x; /* by rounding */
  const float y = tvmrt_log_minus_f32(u, gained / u);
  return tvmrt_abs_f32(x) < 1e-7f ? x : y;
}

/* Apply the sign of `sign` to a value without one: neither negative nor -0. */
TVMRT_INLINE float tvmrt_apply_sign_f32(float size, float sign) {
  return tvmrt_from_bits_f32(tvmrt_bits_f32(size) | (tvmrt_bits_f32(sign) & 0x80000000u));
}

/*! \brief The hyperbolic tangent: u / (2 + u), where u is e^(2 |x|) - 1 without loss near 0. */
TVMRT_INLINE float tvmrt_tanh_f32(float x) {
  const float twice = 2.0f * tvmrt_abs_f32(x);
  uint32_t biased;
  const float p = tvmrt_exp_remainder_f32(twice > 20.0f ? 20.0f : twice, &biased);
  const float power = tvmrt_from_bits_f32(biased << 23);
  const float u = TVMRT_FMAF(power, p, power - 1.0f);
  return tvmrt_apply_sign_f32(u / (2.0f + u), x);
}

/*! \brief 1 / (1 + e^-x), with small relative error on both sides; 0 instead of a denormal. */
TVMRT_INLINE float tvmrt_sigmoid_f32(float x) {
  const float clamped = x > 88.0f ? 88.0f : x, clamped_low = clamped < -89.0f ? -89.0f : clamped;
  return 1.0f / (1.0f + tvmrt_exp_normal_f32(-clamped_low));
}

/*!
 * \brief x times its sigmoid: x / (1 + e^-x).
 *
 * The exponent is clamped as an integer, one instruction per bound; the numerator keeps NaN.
 */
TVMRT_INLINE float tvmrt_silu_f32(float x) {
  const int32_t own = (int32_t)tvmrt_bits_f32(x), high = 0x42b00000; /* 88.0f */
  const uint32_t low = 0xc2b20000u;                                  /* -89.0f */
  const uint32_t clamped = (uint32_t)(own < high ? own : high);
  return x / (1.0f + tvmrt_exp_normal_f32(-tvmrt_from_bits_f32(clamped < low ? clamped : low)));
}

/*!
 * \brief The error function: a polynomial in x up to 1.1, then 1 minus a fourth power.
 *
 * The fourth root of erfc(x) falls so slowly that 7 powers of x suffice, and its error is small
 * compared with 1.
 */
TVMRT_INLINE float tvmrt_erf_f32(float x) {
  const float magnitude = tvmrt_abs_f32(x), size = magnitude > 4.0f ? 4.0f : magnitude;
  const float s = size * size;
  float near = 7.18829397e-5f;
  near = TVMRT_FMAF(near, s, -7.80590985e-4f);
  near = TVMRT_FMAF(near, s, 5.16488124e-3f);
  near = TVMRT_FMAF(near, s, -2.68414561e-2f);
  near = TVMRT_FMAF(near, s, 1.12832926e-1f);
  near = TVMRT_FMAF(near, s, -3.76126021e-1f);
  near = TVMRT_FMAF(near, s, 1.28379166e-1f);
  near = TVMRT_FMAF(near, size, size);
  float root = -1.75604146e-4f;
  root = TVMRT_FMAF(root, size, 3.17995786e-3f);
  root = TVMRT_FMAF(root, size, -2.18964051e-2f);
  root = TVMRT_FMAF(root, size, 6.51143070e-2f);
  root = TVMRT_FMAF(root, size, -4.85975072e-2f);
  root = TVMRT_FMAF(root, size, -6.54924065e-2f);
  root = TVMRT_FMAF(root, size, -3.07549715e-1f);
  root = TVMRT_FMAF(root, size, 1.00518763f);
  root *= root;
  return tvmrt_apply_sign_f32(size > 1.1f ? TVMRT_FMAF(-root, root, 1.0f) : near, x);
}

/*! \brief log(1 + e^x); 0 instead of a denormal. */
TVMRT_INLINE float tvmrt_softplus_f32(float x) {
  const float e = tvmrt_exp_nonpositive_f32(-tvmrt_abs_f32(x));
  return (x < 0.0f ? 0.0f : x) + tvmrt_log1p_f32(e);
}

/* sin or cos of the remainder r of x = n pi/2 + r, by the quadrant n. */
TVMRT_INLINE float tvmrt_quadrant_f32(float r, int32_t quadrant) {
  const float z = r * r;
  float s = -1.9515295891e-4f;
  s = TVMRT_FMAF(s, z, 8.3321608736e-3f);
  s = TVMRT_FMAF(s, z, -1.6666654611e-1f);
  s = TVMRT_FMAF(s * z, r, r);
  float c = 2.443315711809948e-5f;
  c = TVMRT_FMAF(c, z, -1.388731625493765e-3f);
  c = TVMRT_FMAF(c, z, 4.166664568298827e-2f);
  c = TVMRT_FMAF(c * z, z, TVMRT_FMAF(z, -0.5f, 1.0f));
  const float y = quadrant & 1 ? c : s;
  return tvmrt_from_bits_f32(tvmrt_bits_f32(y) ^ ((uint32_t)quadrant << 30 & 0x80000000u));
}

/*! \brief Maximum magnitude for tvmrt_small_angle_sin_f32() and related functions. */
#define TVMRT_SMALL_ANGLE 1048576.0f

/* The remainder of x by pi/2, and the quadrant, for |x| <= TVMRT_SMALL_ANGLE. In double: the first
 * part of pi/2 has 33 bits, so its product and the difference are exact, fused or not. */
TVMRT_INLINE float tvmrt_small_angle_reduce_f32(float x, int32_t* quadrant) {
  const double shift = 6755399441055744.0; /* 1.5 * 2^52 */
  const double shifted = (double)x * 0.63661977236758134308 + shift;
  const double n = shifted - shift;
  uint64_t bits;
  memcpy(&bits, &shifted, sizeof(bits));
  *quadrant = (int32_t)(uint32_t)bits; /* the lowest two bits are the quadrant */
  return (float)(((double)x - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11);
}

/* 26 zeros, then the fractional bits of 2/pi */
TVMRT_TABLE(uint32_t, tvmrt_two_over_pi, 8, 0x00000028u, 0xbe60db93u, 0x91054a7fu, 0x09d5f47du,
            0x4d377036u, 0xd8a5664fu, 0x10e4107fu, 0x9458eaf7u);
#define tvmrt_two_over_pi tvmrt_two_over_pi

/* The remainder of x by pi/2, and the quadrant, for every finite x, in integers, exact to 2^-60;
 * scalar.
 *
 * x is m * 2^k with 24 bits in m. Only those bits of 2/pi matter that contribute less than four
 * quadrants of m * 2^k: 96 of them, from fractional bit k - 1 on, leave two bits of quadrant and 94
 * of fraction in the low 96 bits of the product. */
TVMRT_NOINLINE float tvmrt_any_angle_reduce_f32(float x, int32_t* quadrant) {
  const uint32_t bits = tvmrt_bits_f32(x) & 0x7fffffffu;
  *quadrant = 0;
  if (bits <= 0x3f490fdau) return x; /* pi/4 */
  if (bits >= 0x7f800000u) return NAN;
  const uint32_t place = (bits >> 23) - 126u;
  const uint32_t* word = tvmrt_two_over_pi[0] + (place >> 5);
  const uint32_t by = place & 31u;
  const uint64_t high = (uint64_t)word[0] << 32 | word[1], low = (uint64_t)word[2] << 32 | word[3];
  const uint64_t first = by ? high << by | low >> (64u - by) : high;
  const uint32_t second = (uint32_t)(low << by >> 32);
  const uint32_t m = (bits & 0x007fffffu) | 0x00800000u;
  const uint64_t turns = m * first + ((uint64_t)m * second >> 32);
  const uint32_t q = (uint32_t)((turns + 0x2000000000000000u) >> 62);
  const uint64_t rest = turns - ((uint64_t)q << 62); /* of a quadrant, in units of 2^-62 */
  const int below = rest >> 63 != 0;
  const uint64_t size = below ? 0 - rest : rest;
  /* times pi/2, also in units of 2^-62, without the lowest part */
  const uint32_t a = (uint32_t)(size >> 32), b = (uint32_t)size;
  const uint64_t middle = ((uint64_t)a * 0x5110b461u >> 32) + ((uint64_t)b * 0x6487ed51u >> 32);
  const uint64_t angle = (uint64_t)a * 0x6487ed51u + middle;
  const float r = (float)(int64_t)angle * 8.673617379884035e-19f; /* 2^-60 */
  const int negative = tvmrt_bits_f32(x) >> 31 != 0;
  *quadrant = (int32_t)(negative ? 0u - q : q);
  return negative != below ? -r : r;
}

/* The best reduction for a single element. */
TVMRT_INLINE float tvmrt_reduce_f32(float x, int32_t* quadrant) {
#if !defined(TVMRT_FIXED_ORDER) &&                                   \
    ((defined(__arm__) && !(defined(__ARM_FP) && (__ARM_FP & 8))) || \
     (defined(__riscv) && !defined(__riscv_flen)))
  return tvmrt_any_angle_reduce_f32(x, quadrant); /* no double in hardware */
#else
  return tvmrt_abs_f32(x) <= TVMRT_SMALL_ANGLE ? tvmrt_small_angle_reduce_f32(x, quadrant)
                                               : tvmrt_any_angle_reduce_f32(x, quadrant);
#endif
}

/* NAME: prefix of the three functions below; REDUCE: the reduction. */
#define TVMRT_DEFINE_ANGLES(NAME, REDUCE)                                                  \
  TVMRT_INLINE float tvmrt_##NAME##sin_f32(float x) {                                      \
    int32_t quadrant;                                                                      \
    const float r = REDUCE(x, &quadrant);                                                  \
    return x == 0.0f ? x : tvmrt_quadrant_f32(r, quadrant);                                \
  }                                                                                        \
  TVMRT_INLINE float tvmrt_##NAME##cos_f32(float x) {                                      \
    int32_t quadrant;                                                                      \
    const float r = REDUCE(x, &quadrant);                                                  \
    return tvmrt_quadrant_f32(r, quadrant + 1);                                            \
  }                                                                                        \
  TVMRT_INLINE float tvmrt_##NAME##tan_f32(float x) {                                      \
    int32_t quadrant;                                                                      \
    const float r = REDUCE(x, &quadrant);                                                  \
    const float y = tvmrt_quadrant_f32(r, quadrant) / tvmrt_quadrant_f32(r, quadrant + 1); \
    return x == 0.0f ? x : y;                                                              \
  }

/*!
 * \brief tvmrt_sin_f32(), tvmrt_cos_f32(), tvmrt_tan_f32(): for any angle; NaN at infinity.
 *
 * A large angle takes a branch, which prevents vectorisation.
 */
TVMRT_DEFINE_ANGLES(, tvmrt_reduce_f32)

/*! \brief tvmrt_small_angle_sin_f32() and so on: for |x| <= TVMRT_SMALL_ANGLE, without a branch. */
TVMRT_DEFINE_ANGLES(small_angle_, tvmrt_small_angle_reduce_f32)

/*! \brief An integer whose highest bit is set if the near functions are not valid for x. */
TVMRT_INLINE uint32_t tvmrt_is_large_angle_f32(float x) {
  return (tvmrt_bits_f32(x) & 0x7fffffffu) + (0x7fffffffu - 0x49800000u);
}

/* Logarithm to base 2 of a positive normal or denormal float, in double, to about 2^-40. */
TVMRT_INLINE double tvmrt_log2_f64(float x) {
  double wide = (double)x;
  uint64_t bits, mantissa;
  memcpy(&bits, &wide, sizeof(bits));
  const uint64_t moved = bits - 0x3fe6a09e667f3bcdull;
  const int32_t e = (int32_t)(moved >> 32) >> 20;
  mantissa = (moved & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull;
  memcpy(&wide, &mantissa, sizeof(wide));
  const double t = (wide - 1.0) / (wide + 1.0), z = t * t;
  double p = 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  p = p * z + 1.0;
  return (double)e + 2.88539008177792681472 * t * p;
}

/* 2 to the x in double, for |x| < 1000, to about 2^-36. */
TVMRT_INLINE double tvmrt_exp2_f64(double x) {
  const double shift = 6755399441055744.0;
  const double shifted = x + shift;
  const double r = (x - (shifted - shift)) * 0.69314718055994530942;
  uint64_t bits, power;
  memcpy(&bits, &shifted, sizeof(bits));
  power = (bits + 1023u) << 52;
  double p = 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  double scale;
  memcpy(&scale, &power, sizeof(scale));
  return p * scale;
}

/* size to the power of y; neither is negative zero or NaN, y is finite. */
TVMRT_INLINE float tvmrt_pow_positive_f32(float size, double y) {
  double power = y * tvmrt_log2_f64(size);
  power = power > 500.0 ? 500.0 : power;
  power = power < -500.0 ? -500.0 : power;
  float result = (float)tvmrt_exp2_f64(power);
  result = size == 0.0f ? (y > 0.0 ? 0.0f : INFINITY) : result;
  return size == INFINITY ? (y > 0.0 ? INFINITY : 0.0f) : result;
}

/*! \brief x to the power of y with the special cases of C's pow(); within 1 unit. */
TVMRT_INLINE float tvmrt_pow_f32(float x, float y) {
  const float size = tvmrt_abs_f32(x);
  const int whole = y == floorf(y);
  const int odd = whole && tvmrt_abs_f32(y) < 16777216.0f && floorf(y * 0.5f) * 2.0f != y;
  const int grows = (size > 1.0f) == (y > 0.0f);
  float result = tvmrt_pow_positive_f32(size, (double)y);
  result = tvmrt_abs_f32(y) == INFINITY ? (size == 1.0f ? 1.0f : grows ? INFINITY : 0.0f) : result;
  result = tvmrt_bits_f32(x) >> 31 && odd ? -result : result;
  result = x < 0.0f && x != -INFINITY && !whole ? NAN : result;
  result = x != x || y != y ? NAN : result;
  return y == 0.0f || x == 1.0f ? 1.0f : result;
}

/*! \brief x to an integer power y; `odd` is whether it is odd: y may be too large to tell. */
TVMRT_INLINE float tvmrt_pow_integer_f32(float x, double y, int odd) {
  const float size = tvmrt_pow_positive_f32(tvmrt_abs_f32(x), y);
  const float result = tvmrt_bits_f32(x) >> 31 && odd ? -size : size;
  return y == 0.0 ? 1.0f : x != x ? NAN : result;
}

#endif /* TVM_RUNTIME_KERNELS_SCALAR_MATH_H_ */
