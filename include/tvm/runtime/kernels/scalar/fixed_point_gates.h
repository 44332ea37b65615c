/*!
 * \file scalar/fixed_point_gates.h
 * \brief Activation functions of recurrent gates in 16-bit fixed point, without floating point.
 *
 * Values are int32_t in the range of int16_t; fractions are in units of 2 ^ -15.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_FIXED_POINT_GATES_H_
#define TVM_RUNTIME_KERNELS_SCALAR_FIXED_POINT_GATES_H_

#include <stdint.h>

#include "fixed_point.h"
#include "pairs.h"

static inline int32_t tvmrt_fixed_clamp16(int32_t x) {
  return x > 32767 ? 32767 : x < -32768 ? -32768 : x;
}

/*! \brief a * b as fractions, to the nearest, ties upwards. */
static inline int32_t tvmrt_fixed_mul16(int32_t a, int32_t b) {
  const int32_t product = (a * b + (1 << 14)) >> 15;
  return product > 32767 ? 32767 : product;
}

/* exp(-2 ^ n) for n from -2 on */
TVMRT_TABLE(int16_t, tvmrt_exp16_powers, 6, 25520, 19875, 12055, 4435, 600, 11);
#define tvmrt_exp16_powers tvmrt_exp16_powers

/*! \brief exp of a value up to 0 with integer_bits (1 to 5) integer bits, as a fraction. */
static inline int32_t tvmrt_fixed_exp16(int32_t a, int32_t integer_bits) {
  const int32_t bits = 15 - integer_bits;
  const int32_t quarter = 1 << (bits - 2);
  const int32_t near = (a & (quarter - 1)) - quarter;
  /* a Taylor series around -1/8 */
  const int32_t x = near * (1 << integer_bits) + (1 << 12);
  const int32_t x2 = tvmrt_fixed_mul16(x, x);
  const int32_t x3 = tvmrt_fixed_mul16(x2, x);
  const int32_t x4 = tvmrt_fixed_mul16(x2, x2);
  const int32_t third = tvmrt_fixed_mul16(tvmrt_fixed_shift(x4, 2) + x3, 10923);
  int32_t y = 28918 + tvmrt_fixed_mul16(x + tvmrt_fixed_shift(third + x2, 1), 28918);
  for (int32_t n = 0; n < 6 && n - 2 < integer_bits; ++n) {
    if ((((near - a) >> (bits + n - 2)) & 1) != 0)
      y = tvmrt_fixed_mul16(y, tvmrt_exp16_powers[0][n]);
  }
  return a == 0 ? 32767 : y;
}

/*! \brief 1 / (1 + a) of a fraction a >= 0, with two integer bits. */
static inline int32_t tvmrt_fixed_newton16(int32_t a) {
  const int32_t half = (a + 32768) >> 1;
  int32_t x = 23130 + tvmrt_fixed_mul16(half, -15420);
  for (int i = 0; i < 3; ++i) {
    const int32_t error = 8192 - tvmrt_fixed_mul16(half, x);
    x += tvmrt_fixed_clamp16(tvmrt_fixed_mul16(x, error) * 4);
  }
  return x;
}

/*! \brief The logistic function of x * 2 ^ -12, as a fraction. */
static inline int32_t tvmrt_fixed_logistic16(int32_t x) {
  const int32_t exponential = tvmrt_fixed_exp16(x > 0 ? -x : x, 3);
  const int32_t above = tvmrt_fixed_clamp16(tvmrt_fixed_newton16(exponential) * 2);
  return x == 0 ? 16384 : x > 0 ? above : 32767 - above;
}

/*! \brief tanh of x * 2 ^ (k - 15), as a fraction; k is from 0 to 4. */
static inline int32_t tvmrt_fixed_tanh16(int32_t x, int32_t k) {
  /* of twice the value: one more integer bit for the same bits */
  const int32_t exponential = tvmrt_fixed_exp16(x > 0 ? -x : x, k + 1);
  const int32_t size = tvmrt_fixed_clamp16((tvmrt_fixed_newton16(exponential) - 8192) * 4);
  return x == 0 ? 0 : x > 0 ? size : -size;
}

#endif  // TVM_RUNTIME_KERNELS_SCALAR_FIXED_POINT_GATES_H_
