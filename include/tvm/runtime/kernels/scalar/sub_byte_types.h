/*!
 * \file scalar/sub_byte_types.h
 * \brief Conversion of elements of 8 bits and fewer without a C type, stored as their codes.
 *
 * Elements of 4 and 2 bits are bit-packed as in ONNX: two or four per byte, the first in the lowest
 * bits. Conversion from float rounds to nearest, ties to even, and keeps denormals. The code is
 * branch-free integer arithmetic, which vectorises.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_SUB_BYTE_TYPES_H_
#define TVM_RUNTIME_KERNELS_SCALAR_SUB_BYTE_TYPES_H_

#include <stddef.h>

#include "math.h"

/* Bit-packed elements by index. tvmrt_put_*() must write them in order: the first of a byte clears
 * the bits of the others. */
static inline uint8_t tvmrt_get_4bits(const uint8_t* data, ptrdiff_t i) {
  return (uint8_t)(data[i >> 1] >> (4 * (i & 1)) & 15);
}

static inline uint8_t tvmrt_get_2bits(const uint8_t* data, ptrdiff_t i) {
  return (uint8_t)(data[i >> 2] >> (2 * (i & 3)) & 3);
}

static inline void tvmrt_put_4bits(uint8_t* data, ptrdiff_t i, uint8_t code) {
  const uint8_t before = (i & 1) ? data[i >> 1] : 0;
  data[i >> 1] = (uint8_t)(before | code << (4 * (i & 1)));
}

static inline void tvmrt_put_2bits(uint8_t* data, ptrdiff_t i, uint8_t code) {
  const uint8_t before = (i & 3) ? data[i >> 2] : 0;
  data[i >> 2] = (uint8_t)(before | code << (2 * (i & 3)));
}

/* Decode signed codes; codes of unsigned types are the values themselves. */
static inline int8_t tvmrt_int4_to_int8(uint8_t code) { return (int8_t)((code ^ 8) - 8); }
static inline int8_t tvmrt_int2_to_int8(uint8_t code) { return (int8_t)((code ^ 2) - 2); }

/*! \brief Decode a code without sign, of so many fraction bits and an exponent bias. */
static inline float tvmrt_minifloat_to_f32(uint32_t size, int fraction_bits, int bias) {
  const uint32_t fields = size << (23 - fraction_bits);
  /* denormals as in half.h: a subtraction of normal numbers */
  const uint32_t least_normal = (uint32_t)(128 - bias) << 23;
  const float denormal =
      tvmrt_from_bits_f32(fields + least_normal) - tvmrt_from_bits_f32(least_normal);
  const uint32_t normal = fields + ((uint32_t)(127 - bias) << 23);
  return fields < 0x00800000u ? denormal : tvmrt_from_bits_f32(normal);
}

static inline float tvmrt_minifloat_signed(float size, uint32_t negative) {
  return tvmrt_from_bits_f32(tvmrt_bits_f32(size) | negative << 31);
}

static inline float tvmrt_minifloat_nan(void) { return tvmrt_from_bits_f32(0x7fc00000u); }

/*! \brief Decode four bits of exponent, three of fraction; no infinity. */
static inline float tvmrt_float8_e4m3fn_to_f32(uint8_t code) {
  const uint32_t size = code & 0x7fu;
  const float x = size == 0x7f ? tvmrt_minifloat_nan() : tvmrt_minifloat_to_f32(size, 3, 7);
  return tvmrt_minifloat_signed(x, code >> 7);
}

/*! \brief Decode five bits of exponent, two of fraction, like the first byte of a binary16. */
static inline float tvmrt_float8_e5m2_to_f32(uint8_t code) {
  const uint32_t size = code & 0x7fu;
  const float special = tvmrt_from_bits_f32(size == 0x7c ? 0x7f800000u : 0x7fc00000u);
  const float x = size >= 0x7c ? special : tvmrt_minifloat_to_f32(size, 2, 15);
  return tvmrt_minifloat_signed(x, code >> 7);
}

/*! \brief Decode four bits of exponent, three of fraction, without infinity or negative zero,
 * whose code is the only NaN. */
static inline float tvmrt_float8_e4m3fnuz_to_f32(uint8_t code) {
  const float x = tvmrt_minifloat_signed(tvmrt_minifloat_to_f32(code & 0x7fu, 3, 8), code >> 7);
  return code == 0x80 ? tvmrt_minifloat_nan() : x;
}

/*! \brief Decode five bits of exponent, two of fraction; the code of -0 is the only NaN. */
static inline float tvmrt_float8_e5m2fnuz_to_f32(uint8_t code) {
  const float x = tvmrt_minifloat_signed(tvmrt_minifloat_to_f32(code & 0x7fu, 2, 16), code >> 7);
  return code == 0x80 ? tvmrt_minifloat_nan() : x;
}

/*! \brief Decode powers of two, from 2^-127 to 2^127. */
static inline float tvmrt_float8_e8m0fnu_to_f32(uint8_t code) {
  const uint32_t bits = code == 0 ? 0x00400000u : (uint32_t)code << 23;
  return code == 255 ? tvmrt_minifloat_nan() : tvmrt_from_bits_f32(bits);
}

/*! \brief Decode two bits of exponent, one of fraction; neither infinity nor NaN. */
static inline float tvmrt_float4_e2m1fn_to_f32(uint8_t code) {
  return tvmrt_minifloat_signed(tvmrt_minifloat_to_f32(code & 7u, 1, 1), (uint32_t)code >> 3 & 1u);
}

/*! \brief The nearest code to the float of these bits, which has no sign; a code above those of
 * valid values if it is too large, and anything for NaN. */
static inline uint32_t tvmrt_minifloat_from_bits(uint32_t bits, int fraction_bits, int bias) {
  const int dropped = 23 - fraction_bits;
  /* normal results: move the exponent, add half a unit, and one more for odd values */
  const uint32_t odd = bits >> dropped & 1u;
  const uint32_t normal = ((bits + (((uint32_t)1 << (dropped - 1)) - 1u) + odd) >> dropped) -
                          ((uint32_t)(127 - bias) << fraction_bits);
  /* small results: adding a float whose lowest bit is their unit leaves them rounded there */
  const uint32_t unit = (uint32_t)(127 + 24 - bias - fraction_bits) << 23;
  const float moved = tvmrt_from_bits_f32(bits) + tvmrt_from_bits_f32(unit);
  return bits < (uint32_t)(128 - bias) << 23 ? tvmrt_bits_f32(moved) - unit : normal;
}

/* Add the sign; use `beyond` for codes above the largest, and the code of NaN. */
static inline uint8_t tvmrt_f32_to_minifloat_signed(float x, uint32_t code, uint32_t largest,
                                                    uint32_t beyond, uint32_t nan) {
  const uint32_t bits = tvmrt_bits_f32(x);
  code = code > largest ? beyond : code;
  code = (bits & 0x7fffffffu) > 0x7f800000u ? nan : code;
  return (uint8_t)((bits >> 24 & 0x80u) | code);
}

/*! \brief Float to float8_e4m3fn. */
static inline uint8_t tvmrt_f32_to_float8_e4m3fn(float x, int saturate) {
  const uint32_t code = tvmrt_minifloat_from_bits(tvmrt_bits_f32(x) & 0x7fffffffu, 3, 7);
  return tvmrt_f32_to_minifloat_signed(x, code, 0x7e, saturate ? 0x7e : 0x7f, 0x7f);
}

/*! \brief Float to float8_e5m2. */
static inline uint8_t tvmrt_f32_to_float8_e5m2(float x, int saturate) {
  const uint32_t code = tvmrt_minifloat_from_bits(tvmrt_bits_f32(x) & 0x7fffffffu, 2, 15);
  return tvmrt_f32_to_minifloat_signed(x, code, 0x7b, saturate ? 0x7b : 0x7c, 0x7e);
}

static inline uint8_t tvmrt_f32_to_minifloat_fnuz(float x, int saturate, uint32_t code) {
  const uint32_t bits = tvmrt_bits_f32(x) & 0x7fffffffu;
  const uint32_t sign = code == 0 ? 0 : tvmrt_bits_f32(x) >> 24 & 0x80u;
  if (bits > 0x7f800000u || (code > 0x7f && !saturate)) return 0x80;
  return (uint8_t)(sign | (code > 0x7f ? 0x7fu : code));
}

/*! \brief Float to float8_e4m3fnuz. */
static inline uint8_t tvmrt_f32_to_float8_e4m3fnuz(float x, int saturate) {
  const uint32_t bits = tvmrt_bits_f32(x) & 0x7fffffffu;
  return tvmrt_f32_to_minifloat_fnuz(x, saturate, tvmrt_minifloat_from_bits(bits, 3, 8));
}

/*! \brief Float to float8_e5m2fnuz. */
static inline uint8_t tvmrt_f32_to_float8_e5m2fnuz(float x, int saturate) {
  const uint32_t bits = tvmrt_bits_f32(x) & 0x7fffffffu;
  return tvmrt_f32_to_minifloat_fnuz(x, saturate, tvmrt_minifloat_from_bits(bits, 2, 16));
}

/*! \brief Float to float4_e2m1fn, which saturates. NaN becomes zero with the opposite sign. */
static inline uint8_t tvmrt_f32_to_float4_e2m1fn(float x) {
  const uint32_t bits = tvmrt_bits_f32(x) & 0x7fffffffu;
  const uint32_t sign = tvmrt_bits_f32(x) >> 28 & 8u;
  const uint32_t code = tvmrt_minifloat_from_bits(bits, 1, 1);
  return (uint8_t)(bits > 0x7f800000u ? sign ^ 8u : sign | (code > 7 ? 7u : code));
}

/*! \brief The magnitude of a float as a power of two; rounding: 0 up, 1 down, 2 to the nearest. */
static inline uint8_t tvmrt_f32_to_float8_e8m0fnu(float x, int saturate, int rounding) {
  const uint32_t exponent = tvmrt_bits_f32(x) >> 23 & 255u;
  const uint32_t fraction = tvmrt_bits_f32(x) & 0x7fffffu;
  const uint32_t half = fraction > 0x400000u || (fraction == 0x400000u && exponent != 0);
  const uint32_t above = rounding == 0 ? fraction != 0 : rounding == 1 ? 0 : half;
  if (exponent == 255 || (saturate && exponent == 254)) return (uint8_t)exponent;
  return (uint8_t)(exponent + above);
}

#endif /* TVM_RUNTIME_KERNELS_SCALAR_SUB_BYTE_TYPES_H_ */
