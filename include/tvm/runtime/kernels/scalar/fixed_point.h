/*!
 * \file scalar/fixed_point.h
 * \brief Requantisation by fixed-point multipliers, without floating point, bit-identical to
 * TensorFlow Lite.
 *
 * A quantized multiplier (m, e) stands for m * 2 ^ (e - 31), m from 2 ^ 30 on; e is from -31 to 31.
 * Fractions are int32_t whose value is x * 2 ^ -31.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_FIXED_POINT_H_
#define TVM_RUNTIME_KERNELS_SCALAR_FIXED_POINT_H_

#include <stdint.h>

#include "any_weights.h"

/*! \brief a * b as fractions, to the nearest, ties upwards; the one overflow saturates. */
static inline int32_t tvmrt_fixed_mul(int32_t a, int32_t b) {
  const int64_t product = ((int64_t)a * b + ((int64_t)1 << 30)) >> 31;
#if defined(TVMRT_BOARD) /* no branch */
  return (int32_t)(product - (product == (int64_t)1 << 31));
#else /* vectors of hosts */
  return product > INT32_MAX ? INT32_MAX : (int32_t)product;
#endif
}

/*! \brief x / 2 ^ n to the nearest, ties away from zero; n is from 0 to 31. */
static inline int32_t tvmrt_fixed_shift(int32_t x, int32_t n) {
  const uint32_t mask = ((uint32_t)1 << n) - 1;
  const uint32_t rest = (uint32_t)x & mask;
  return (x >> n) + (int32_t)(rest > (mask >> 1) + (uint32_t)(x < 0));
}

/*! \brief x times the multiplier (m, e), rounded twice; a left shift wraps around. */
static inline int32_t tvmrt_fixed_scale(int32_t x, int32_t m, int32_t e) {
  TVMRT_WRAP_LIMIT(e, 31);
  const int32_t shifted = (int32_t)((uint32_t)x << (e > 0 ? e : 0));
  return tvmrt_fixed_shift(tvmrt_fixed_mul(shifted, m), e > 0 ? 0 : -e);
}

/*!
 * \brief x times the multiplier (m, e), plus zero, clamped to [low, high].
 *
 * For GCC, clamping comes before the addition of zero. If the sum has fewer bits than the shifted
 * product, GCC 12 vectorises the shift with elements that are too narrow for the product. Clang has
 * instructions that saturate to bytes only after the sum.
 */
static inline int32_t tvmrt_fixed_requantize(int32_t x, int32_t m, int32_t e, int32_t zero,
                                             int32_t low, int32_t high) {
  const int32_t scaled = tvmrt_fixed_scale(x, m, e);
#if defined(__GNUC__) && !defined(__clang__)
  const int32_t smallest = low - zero, largest = high - zero;
  return (scaled < smallest ? smallest : scaled > largest ? largest : scaled) + zero;
#else
  const int32_t moved = (int32_t)((uint32_t)scaled + (uint32_t)zero);
  return moved < low ? low : moved > high ? high : moved;
#endif
}

/*! \brief tvmrt_fixed_requantize() rounded once, ties upwards; e is not positive, |x| < 2 ^ 30. */
static inline int32_t tvmrt_fixed_requantize_once(int32_t x, int32_t m, int32_t e, int32_t zero,
                                                  int32_t low, int32_t high) {
  TVMRT_WRAP_LIMIT(e, 0);
  const int64_t product = (int64_t)x * m + ((int64_t)1 << (30 - e));
  const int32_t moved = TVMRT_WRAP_ADD((int32_t)(product >> (31 - e)), zero);
  return moved < low ? low : moved > high ? high : moved;
}

/*!
 * \brief (a * m + b * n + offset) >> shift, clamped to [low, high].
 *
 * Modulo 2 ^ 32, as only the sum has to be in the range of int32_t.
 */
static inline int32_t tvmrt_fixed_add(int32_t a, int32_t m, int32_t b, int32_t n, int32_t offset,
                                      int32_t shift, int32_t low, int32_t high) {
  const uint32_t products = (uint32_t)a * (uint32_t)m + (uint32_t)b * (uint32_t)n;
  /* from 0, so that one instruction of Arm clamps int8, too */
  const int32_t sum = ((int32_t)(products + (uint32_t)offset) >> shift) - low, most = high - low;
  return (sum < 0 ? 0 : sum > most ? most : sum) + low;
}

/*! \brief x, within +-2 ^ 47, times the multiplier (m, e) rounded to 15 bits; e is below 15. */
static inline int32_t tvmrt_fixed_scale_wide(int64_t x, int32_t m, int32_t e) {
  const int32_t narrow = m < 0x7FFF0000 ? (m + (INT32_C(1) << 15)) >> 16 : 0x7FFF;
  return (int32_t)((x * narrow + ((int64_t)1 << (14 - e))) >> (15 - e));
}

/*! \brief x times the scale in double, to the nearest, ties away from zero, saturated. */
static inline int32_t tvmrt_float_scale(double x, double factor) {
  const double v = x * factor;
  /* the largest value below a half: adding a half itself could round up to an integer */
  const double w = v < 0 ? v - 0.49999999999999994 : v + 0.49999999999999994;
  return w >= 2147483647.0 ? INT32_MAX : w > -2147483648.0 ? (int32_t)w : INT32_MIN;
}

/*! \brief The number of zero bits above the highest one; 32 for 0. */
static inline int32_t tvmrt_leading_zeros(int32_t x) {
  uint32_t rest = (uint32_t)x;
  int32_t count = rest == 0;
  for (int32_t step = 16; step > 0; step >>= 1) {
    const int32_t zeros = step & -(int32_t)(rest < (uint32_t)1 << (32 - step)); /* no branch */
    count += zeros;
    rest <<= zeros;
  }
  return count;
}

/*! \brief a << 2, saturated. */
static inline int32_t tvmrt_fixed_times_4(int32_t a) {
  /* masks: the compiler may make a branch of a condition */
  const uint32_t above = (uint32_t)0 - (a > INT32_MAX / 4);
  const uint32_t below = (uint32_t)0 - (a < INT32_MIN / 4);
  const uint32_t inside = ((uint32_t)a << 2) & ~(above | below);
  return (int32_t)(inside | (above & INT32_MAX) | (below & 0x80000000u));
}

/*! \brief 1 / (1 + a) as a fraction, for a fraction a >= 0: three Newton steps. */
static inline int32_t tvmrt_fixed_reciprocal(int32_t a) {
  const int32_t half = (int32_t)(((int64_t)a + ((int64_t)1 << 31)) >> 1);
  /* two integer bits: 48 / 17 - 32 / 17 of the half denominator */
  int32_t x = 1515870810 + tvmrt_fixed_mul(half, -1010580540);
  for (int i = 0; i < 3; ++i) {
    const int32_t error = (INT32_C(1) << 29) - tvmrt_fixed_mul(half, x);
    x += tvmrt_fixed_times_4(tvmrt_fixed_mul(x, error));
  }
  const uint32_t above = (uint32_t)0 - (x > INT32_MAX / 2);
  return (int32_t)((((uint32_t)x << 1) & ~above) | (above & INT32_MAX));
}

/*! \brief tvmrt_fixed_scale() with a computed exponent, clamped to its range. */
static inline int32_t tvmrt_fixed_scale_by(int32_t x, int32_t m, int32_t e) {
  return tvmrt_fixed_scale(x, m, e < -31 ? -31 : e > 31 ? 31 : e);
}

/*! \brief a * 2 ^ power, saturated. */
static inline int32_t tvmrt_fixed_raise(int32_t a, int power) {
  const int64_t raised = (int64_t)a * ((int64_t)1 << power);
  return raised > INT32_MAX ? INT32_MAX : raised < INT32_MIN ? INT32_MIN : (int32_t)raised;
}

/*! \brief Normalise n to a highest bit 27 or 28; exponent: of its inverse root. */
static inline int32_t tvmrt_fixed_root_normalize(int32_t n, int32_t* exponent) {
  int32_t wide = n > 1 ? n : 1;
  int32_t e = 11;
  while (wide >= INT32_C(1) << 29) {
    wide >>= 2;
    ++e;
  }
  const int32_t pairs = ((tvmrt_leading_zeros(wide) - 1) >> 1) - 1;
  *exponent = e - pairs;
  return wide << (2 * pairs);
}

/*! \brief The m of (m, e), 1 / sqrt(n) as a multiplier, by five Newton steps; n <= 1 counts as
 * 1. */
static inline int32_t tvmrt_fixed_inverse_root(int32_t n) {
  int32_t e;
  const int32_t half = tvmrt_fixed_shift(tvmrt_fixed_root_normalize(n, &e) >> 1, 1);
  int32_t x = INT32_C(1) << 28;
  if (n <= 1) return INT32_MAX;
  for (int i = 0; i < 5; ++i) {
    const int32_t square = tvmrt_fixed_mul(x, x);
    const int32_t cube = tvmrt_fixed_raise(tvmrt_fixed_mul(square, x), 6);
    const int32_t rest = tvmrt_fixed_mul(402653184, x) - tvmrt_fixed_mul(half, cube);
    x = tvmrt_fixed_raise(rest, 3);
  }
  x = tvmrt_fixed_mul(x, 1518500250);
  return e < 0 ? (int32_t)((uint32_t)x << -e) : x;
}

/*! \brief The e of (m, e), 1 / sqrt(n) as a multiplier. */
static inline int32_t tvmrt_fixed_inverse_root_exponent(int32_t n) {
  int32_t e;
  (void)tvmrt_fixed_root_normalize(n, &e);
  return n <= 1 || e < 0 ? 0 : -e;
}

#endif  // TVM_RUNTIME_KERNELS_SCALAR_FIXED_POINT_H_
