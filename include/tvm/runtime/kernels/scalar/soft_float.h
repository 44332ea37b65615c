/*!
 * \file scalar/soft_float.h
 * \brief Software floating point for integer networks on processors without a floating-point unit.
 *
 * Quantising inputs, dequantising results and softmax use floats; compilers' libraries for them
 * take some 5 KB. These few functions give the same bits, including denormals and infinities; all
 * NaN count as equal. If TVMRT_SOFT_FLOAT is 0, they are the operators.
 *
 * The compiler of a network defines TVMRT_FEW_FLOATS if most of the network is in integers.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_SOFT_FLOAT_H_
#define TVM_RUNTIME_KERNELS_SCALAR_SOFT_FLOAT_H_

#include <stdint.h>
#include <string.h>

#include "compiler.h"

#ifndef TVMRT_SOFT_FLOAT
#if defined(TVMRT_FEW_FLOATS) && defined(__riscv) && !defined(__riscv_flen)
#define TVMRT_SOFT_FLOAT 1
#else
#define TVMRT_SOFT_FLOAT 0
#endif
#endif

#if TVMRT_SOFT_FLOAT

#define TVMRT_SOFT_SIGN 0x80000000u
#define TVMRT_SOFT_INFINITY 0x7F800000u
#define TVMRT_SOFT_NAN 0x7FC00000u
#define TVMRT_SOFT_ONE 0x00800000u /* the first of 24 digits */

/*! \brief digits * 2 ^ (power - 150); digits are 24 bits, or 0; power is 255 for infinity and
 * NaN. */
typedef struct tvmrt_soft_float {
  uint32_t sign; /* the highest bit */
  int32_t power;
  uint32_t digits;
} tvmrt_soft_float;

static inline uint32_t tvmrt_soft_float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

static inline float tvmrt_soft_float_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

TVMRT_RARELY_CALLED void tvmrt_soft_float_unpack(tvmrt_soft_float* s, float x) {
  const uint32_t bits = tvmrt_soft_float_bits(x);
  s->sign = bits & TVMRT_SOFT_SIGN;
  s->power = (int32_t)(bits >> 23 & 0xFF);
  s->digits = bits & (TVMRT_SOFT_ONE - 1);
  if (s->power != 0) {
    s->digits |= TVMRT_SOFT_ONE;
  } else if (s->digits == 0) {
    s->power = -200; /* less than any value's */
  } else {
    for (s->power = 1; s->digits < TVMRT_SOFT_ONE; s->power--) s->digits <<= 1;
  }
}

/*! \brief digits * 2 ^ power, rounded, ties to even. After truncation the caller passes at least 26
 * digits, with the lowest set to 1 if nonzero digits were lost. */
TVMRT_RARELY_CALLED float tvmrt_soft_float_pack(uint32_t sign, int32_t power, uint32_t digits) {
  if (digits == 0) return tvmrt_soft_float_from_bits(sign);
  for (; digits < TVMRT_SOFT_SIGN; power--) digits <<= 1;
  power += 158;
  if (power >= 255) return tvmrt_soft_float_from_bits(sign | TVMRT_SOFT_INFINITY);
  if (power <= 0) {
    const int32_t n = 1 - power;
    digits = n > 31 ? 1 : digits >> n | (digits << (32 - n) != 0);
    power = 1;
  }
  const uint32_t whole = digits >> 8, up = (digits & 0xFF) + (whole & 1) > 128;
  return tvmrt_soft_float_from_bits(sign | (((uint32_t)(power - 1) << 23) + whole + up));
}

TVMRT_RARELY_CALLED float tvmrt_add_f32(float x, float y) {
  tvmrt_soft_float a, b;
  tvmrt_soft_float_unpack(&a, x);
  tvmrt_soft_float_unpack(&b, y);
  if (a.power == 255) {
    const int other = b.power == 255 && tvmrt_soft_float_bits(x) != tvmrt_soft_float_bits(y);
    return other ? tvmrt_soft_float_from_bits(TVMRT_SOFT_NAN) : x;
  }
  if (b.power == 255) return y;
  if (a.power < b.power) {
    const tvmrt_soft_float c = a;
    a = b;
    b = c;
  }
  const int32_t n = a.power - b.power;
  uint32_t digits = a.digits << 7, less = b.digits << 7;
  if (n > 31) {
    less = less != 0;
  } else if (n > 0) {
    less = less >> n | (less << (32 - n) != 0);
  }
  if (a.sign == b.sign) {
    digits += less;
  } else {
    digits -= less;
    if (digits > TVMRT_SOFT_SIGN) {
      digits = 0u - digits;
      a.sign ^= TVMRT_SOFT_SIGN;
    }
    if (digits == 0) a.sign = 0;
  }
  return tvmrt_soft_float_pack(a.sign, a.power - 157, digits);
}

/*! \brief Whether a value is NaN. */
static inline int tvmrt_soft_float_nan(const tvmrt_soft_float* s) {
  return s->power == 255 && s->digits != TVMRT_SOFT_ONE;
}

TVMRT_RARELY_CALLED float tvmrt_mul_f32(float x, float y) {
  tvmrt_soft_float a, b;
  tvmrt_soft_float_unpack(&a, x);
  tvmrt_soft_float_unpack(&b, y);
  const uint32_t sign = a.sign ^ b.sign;
  if (a.power == 255 || b.power == 255) {
    const int nan =
        tvmrt_soft_float_nan(&a) || tvmrt_soft_float_nan(&b) || a.digits == 0 || b.digits == 0;
    return tvmrt_soft_float_from_bits(nan ? TVMRT_SOFT_NAN : sign | TVMRT_SOFT_INFINITY);
  }
  const uint64_t product = (uint64_t)(a.digits << 8) * (b.digits << 8);
  const uint32_t digits = (uint32_t)(product >> 32) | ((uint32_t)product != 0);
  return tvmrt_soft_float_pack(sign, a.power + b.power - 284, digits);
}

TVMRT_RARELY_CALLED float tvmrt_div_f32(float x, float y) {
  tvmrt_soft_float a, b;
  tvmrt_soft_float_unpack(&a, x);
  tvmrt_soft_float_unpack(&b, y);
  const uint32_t sign = a.sign ^ b.sign;
  if (a.power == 255 || b.power == 255 || b.digits == 0) {
    const int alike = a.power == b.power && (a.power == 255 || a.digits == 0);
    if (tvmrt_soft_float_nan(&a) || tvmrt_soft_float_nan(&b) || alike) {
      return tvmrt_soft_float_from_bits(TVMRT_SOFT_NAN);
    }
    return tvmrt_soft_float_from_bits(b.power == 255 ? sign : sign | TVMRT_SOFT_INFINITY);
  }
  uint32_t digits = 0, rest = a.digits;
  for (int32_t n = 7; n <= 31; n += 8) {
    rest <<= n == 7 ? 7 : 8;
    digits = digits << 8 | rest / b.digits;
    rest %= b.digits;
  }
  return tvmrt_soft_float_pack(sign, a.power - b.power - 31, digits | (rest != 0));
}

/*! \brief n as a float. */
TVMRT_RARELY_CALLED float tvmrt_int32_to_f32(int32_t n) {
  const uint32_t sign = (uint32_t)n & TVMRT_SOFT_SIGN;
  return tvmrt_soft_float_pack(sign, 0, sign != 0 ? 0u - (uint32_t)n : (uint32_t)n);
}

/*! \brief Whether x < y; -0 is less than 0. */
static inline int tvmrt_less_f32(float x, float y) {
  const int32_t a = (int32_t)tvmrt_soft_float_bits(x), b = (int32_t)tvmrt_soft_float_bits(y);
  return (a ^ (a >> 31 & 0x7FFFFFFF)) < (b ^ (b >> 31 & 0x7FFFFFFF));
}

/*! \brief The nearest integer, ties to even; saturates at +-2 ^ 23; NaN gives -2 ^ 23. */
TVMRT_RARELY_CALLED int32_t tvmrt_round_to_int32(float x) {
  tvmrt_soft_float s;
  tvmrt_soft_float_unpack(&s, x);
  const int32_t n = 150 - s.power, largest = INT32_C(1) << 23;
  if (n > 24) return 0;
  if (n <= 0) return s.sign != 0 || tvmrt_soft_float_nan(&s) ? -largest : largest;
  const uint32_t q = s.digits >> n, rest = s.digits << (32 - n);
  const int32_t size = (int32_t)(q + (rest > TVMRT_SOFT_SIGN - (q & 1)));
  return s.sign != 0 ? -size : size;
}

#else

static inline float tvmrt_mul_f32(float x, float y) { return x * y; }
static inline float tvmrt_div_f32(float x, float y) { return x / y; }
static inline float tvmrt_int32_to_f32(int32_t n) { return (float)n; }

#endif

#endif /* TVM_RUNTIME_KERNELS_SCALAR_SOFT_FLOAT_H_ */
