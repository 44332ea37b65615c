/*!
 * \file scalar/int.h
 * \brief Integer arithmetic on single elements, defined for every operand.
 *
 * C leaves some operations undefined: division by zero, the most negative integer divided by -1,
 * conversion of floats out of range. Here x / 0 and x mod 0 are 0, that quotient wraps around,
 * and conversions saturate (NaN becomes 0). So no input of a network can cause a trap.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_INT_H_
#define TVM_RUNTIME_KERNELS_SCALAR_INT_H_

#include <stdint.h>

/* Signed types: division truncates; trunc_mod has the dividend's sign, floor_mod the divisor's. */
#define TVMRT_DEFINE_SIGNED(NAME, TYPE, UTYPE)                             \
  static inline TYPE tvmrt_abs_##NAME(TYPE x) {                            \
    return (TYPE)(x < 0 ? (UTYPE)0 - (UTYPE)x : (UTYPE)x);                 \
  }                                                                        \
  static inline TYPE tvmrt_div_##NAME(TYPE a, TYPE b) {                    \
    if (b == 0) return 0;                                                  \
    return b == -1 ? (TYPE)((UTYPE)0 - (UTYPE)a) : (TYPE)(a / b);          \
  }                                                                        \
  static inline TYPE tvmrt_trunc_mod_##NAME(TYPE a, TYPE b) {              \
    return b == 0 || b == -1 ? (TYPE)0 : (TYPE)(a % b);                    \
  }                                                                        \
  static inline TYPE tvmrt_floor_mod_##NAME(TYPE a, TYPE b) {              \
    const TYPE rest = tvmrt_trunc_mod_##NAME(a, b);                        \
    return (TYPE)(rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest); \
  }

#define TVMRT_DEFINE_UNSIGNED(NAME, TYPE)                                                          \
  static inline TYPE tvmrt_abs_##NAME(TYPE x) { return x; }                                        \
  static inline TYPE tvmrt_div_##NAME(TYPE a, TYPE b) { return b == 0 ? (TYPE)0 : (TYPE)(a / b); } \
  static inline TYPE tvmrt_trunc_mod_##NAME(TYPE a, TYPE b) {                                      \
    return b == 0 ? (TYPE)0 : (TYPE)(a % b);                                                       \
  }                                                                                                \
  static inline TYPE tvmrt_floor_mod_##NAME(TYPE a, TYPE b) { return tvmrt_trunc_mod_##NAME(a, b); }

TVMRT_DEFINE_SIGNED(int8, int8_t, uint8_t)
TVMRT_DEFINE_SIGNED(int16, int16_t, uint16_t)
TVMRT_DEFINE_SIGNED(int32, int32_t, uint32_t)
TVMRT_DEFINE_SIGNED(int64, int64_t, uint64_t)
TVMRT_DEFINE_UNSIGNED(uint8, uint8_t)
TVMRT_DEFINE_UNSIGNED(uint16, uint16_t)
TVMRT_DEFINE_UNSIGNED(uint32, uint32_t)
TVMRT_DEFINE_UNSIGNED(uint64, uint64_t)

/*!
 * \brief base to the power of exponent, wrapping around; narrower types take the low bits.
 *
 * A negative exponent (`negative`) gives 0, except for the bases 1 and -1.
 */
static inline uint64_t tvmrt_pow_int64(uint64_t base, uint64_t exponent, int negative) {
  uint64_t power = 1;
  if (negative && base != 1u && base + 1u != 0u) return 0;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1u) power *= base;
    base *= base;
  }
  return power;
}

/* Reinterpret the bits of a value as another type of the same size. */
#define TVMRT_DEFINE_BITS(FROM, FROM_TYPE, TO, TO_TYPE)            \
  static inline TO_TYPE tvmrt_##FROM##_bits_as_##TO(FROM_TYPE x) { \
    union {                                                        \
      FROM_TYPE from;                                              \
      TO_TYPE to;                                                  \
    } bits;                                                        \
    bits.from = x;                                                 \
    return bits.to;                                                \
  }

TVMRT_DEFINE_BITS(float32, float, int32, int32_t)
TVMRT_DEFINE_BITS(float32, float, uint32, uint32_t)
TVMRT_DEFINE_BITS(float64, double, int64, int64_t)
TVMRT_DEFINE_BITS(float64, double, uint64, uint64_t)
TVMRT_DEFINE_BITS(int32, int32_t, float32, float)
TVMRT_DEFINE_BITS(uint32, uint32_t, float32, float)
TVMRT_DEFINE_BITS(int64, int64_t, float64, double)
TVMRT_DEFINE_BITS(uint64, uint64_t, float64, double)

/* Bounds are the nearest floats inside the range: 2^31, 2^63 are exact, predecessors are not. */
#define TVMRT_DEFINE_FROM_FLOAT(NAME, TYPE, LOW, HIGH) \
  static inline TYPE tvmrt_f32_to_##NAME(float x) {    \
    return x != x               ? (TYPE)0              \
           : x <= (float)(LOW)  ? (TYPE)(LOW)          \
           : x >= (float)(HIGH) ? (TYPE)(HIGH)         \
                                : (TYPE)x;             \
  }                                                    \
  static inline TYPE tvmrt_f64_to_##NAME(double x) {   \
    return x != x                ? (TYPE)0             \
           : x <= (double)(LOW)  ? (TYPE)(LOW)         \
           : x >= (double)(HIGH) ? (TYPE)(HIGH)        \
                                 : (TYPE)x;            \
  }

TVMRT_DEFINE_FROM_FLOAT(int8, int8_t, INT8_MIN, INT8_MAX)
TVMRT_DEFINE_FROM_FLOAT(int16, int16_t, INT16_MIN, INT16_MAX)
TVMRT_DEFINE_FROM_FLOAT(int32, int32_t, INT32_MIN, INT32_MAX)
TVMRT_DEFINE_FROM_FLOAT(int64, int64_t, INT64_MIN, INT64_MAX)
TVMRT_DEFINE_FROM_FLOAT(uint8, uint8_t, 0, UINT8_MAX)
TVMRT_DEFINE_FROM_FLOAT(uint16, uint16_t, 0, UINT16_MAX)
TVMRT_DEFINE_FROM_FLOAT(uint32, uint32_t, 0, UINT32_MAX)
TVMRT_DEFINE_FROM_FLOAT(uint64, uint64_t, 0, UINT64_MAX)

#endif /* TVM_RUNTIME_KERNELS_SCALAR_INT_H_ */
