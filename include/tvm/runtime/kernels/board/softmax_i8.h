/*!
 * \file board/softmax_i8.h
 * \brief Softmax of 8-bit rows by a table of exponentials, in the arithmetic of TensorFlow Lite.
 *
 * A row of bytes has at most 256 different exponentials. Microcontrollers take 40 instructions to
 * compute one in float, or 2,000 without floating point.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_SOFTMAX_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_SOFTMAX_I8_H_

#include "../scalar/fixed_point.h"

/*! \brief Constants of a softmax. */
typedef struct tvmrt_softmax_i8 {
  const int32_t* powers; /*!< e^(-scale * d) for the distance d from the largest element, with 31
                              fraction bits. */
  int32_t factor;        /*!< 1 / (scale of y * 2 ^ bits) with 31 fraction bits; 0: 1. */
  int8_t shift;          /*!< 43 - bits. */
  int8_t is_signed;      /*!< 1: x is int8, 0: uint8. */
  int16_t zero, hi;      /*!< Zero point and maximum of y. */
} tvmrt_softmax_i8;

/*!
 * \brief Softmax of rows of n bytes, 1 to 4095; y may be x.
 *
 * Values: at most one step from the result in real numbers, the same on all processors.
 */
static inline void tvmrt_softmax_i8_rows(const tvmrt_softmax_i8* s, const void* x, void* y,
                                         int32_t rows, int32_t n) {
  const int32_t* const powers = s->powers;
  const uint32_t flip = s->is_signed ? 0x80 : 0; /* orders int8 like uint8 */
  const uint8_t* from = (const uint8_t*)x;
  uint8_t* to = (uint8_t*)y;
  const int32_t hi = s->hi, zero = s->zero;
  for (; rows > 0; rows--, from += n) {
    uint32_t top = 0, sum = 0;
    for (int32_t i = 0; i < n; i++) {
      const uint32_t v = from[i] ^ flip;
      if (v > top) top = v;
    }
    top ^= flip;
    for (int32_t i = 0; i < n; i++) {
      sum += ((uint32_t)powers[(uint8_t)(top - from[i])] + (1 << 11)) >> 12;
    }
    const int32_t zeros = tvmrt_leading_zeros((int32_t)sum);
    int32_t inverse = tvmrt_fixed_reciprocal((int32_t)((sum << zeros) & INT32_MAX));
    if (s->factor != 0) inverse = tvmrt_fixed_mul(inverse, s->factor);
    int32_t shift = s->shift - zeros;
    if (shift > 31) shift = 31, inverse = 0; /* no probability is half a step */
    const uint32_t half = (uint32_t)1 << (shift - 1);
    for (int32_t i = 0; i < n; i++) {
      /* tvmrt_fixed_mul() and tvmrt_fixed_shift() of numbers that are not negative */
      const uint64_t product =
          (uint64_t)(uint32_t)inverse * (uint32_t)powers[(uint8_t)(top - from[i])];
      const uint32_t part = (uint32_t)((product + ((uint64_t)1 << 30)) >> 31);
      const int32_t q = (int32_t)((part + half) >> shift) + zero;
      *to++ = (uint8_t)(q > hi ? hi : q);
    }
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_SOFTMAX_I8_H_ */
