/*!
 * \file scalar/signal.h
 * \brief Windows, roots and logarithms of integers, bit-identical to the signal library of
 * TensorFlow Lite Micro.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_SIGNAL_H_
#define TVM_RUNTIME_KERNELS_SCALAR_SIGNAL_H_

#include <stdint.h>

#include "pairs.h"

/*! \brief The number of bits of x up to its highest one; 32 for 0. */
static inline int32_t tvmrt_signal_bits(uint32_t x) {
  int32_t count = x == 0 ? 32 : 1;
  for (int32_t step = 16; step > 0; step >>= 1) {
    if (x >> step != 0) {
      count += step;
      x >>= step;
    }
  }
  return count;
}

/*! \brief A sample times a weight, shifted right, saturated. */
static inline int16_t tvmrt_signal_window(int32_t x, int32_t weight, int32_t shift) {
  const int32_t y = (x * weight) >> (shift & 31);
  return (int16_t)(y < INT16_MIN ? INT16_MIN : y > INT16_MAX ? INT16_MAX : y);
}

/*! \brief All 64 bits of a product. */
static inline uint64_t tvmrt_mul_u64(uint32_t a, uint32_t b) { return (uint64_t)a * b; }

/* Digit-by-digit square root, to the nearest, but at most `max_root`; bit is a power of 4. */
#define TVMRT_DEFINE_SIGNAL_ROOT(NAME, TYPE)                                         \
  static inline uint32_t tvmrt_signal_root_##NAME(TYPE x, TYPE bit, TYPE max_root) { \
    TYPE root = 0;                                                                   \
    while (bit > x) bit >>= 2;                                                       \
    for (; bit != 0; bit >>= 2) {                                                    \
      const TYPE tried = root + bit;                                                 \
      root >>= 1;                                                                    \
      if (x >= tried) {                                                              \
        x -= tried;                                                                  \
        root += bit;                                                                 \
      }                                                                              \
    }                                                                                \
    return (uint32_t)(root + (TYPE)(x > root && root != max_root));                  \
  }

TVMRT_DEFINE_SIGNAL_ROOT(uint32, uint32_t)
TVMRT_DEFINE_SIGNAL_ROOT(uint64, uint64_t)

/*! \brief The square root to the nearest, at most 65535 for 32-bit values. */
static inline uint32_t tvmrt_signal_root(uint64_t x) {
  if (x >> 32 == 0) return tvmrt_signal_root_uint32((uint32_t)x, (uint32_t)1 << 30, 0xFFFF);
  return tvmrt_signal_root_uint64(x, (uint64_t)1 << 62, 0xFFFFFFFF);
}

/* log2(1 + i / 128) - i / 128 in units of 2 ^ -16 */
TVMRT_TABLE(uint16_t, tvmrt_log2_table, 129, 0, 224, 442, 654, 861, 1063, 1259, 1450, 1636, 1817,
            1992, 2163, 2329, 2490, 2646, 2797, 2944, 3087, 3224, 3358, 3487, 3611, 3732, 3848,
            3960, 4068, 4172, 4272, 4368, 4460, 4549, 4633, 4714, 4791, 4864, 4934, 5001, 5063,
            5123, 5178, 5231, 5280, 5326, 5368, 5408, 5444, 5477, 5507, 5533, 5557, 5578, 5595,
            5610, 5622, 5631, 5637, 5640, 5641, 5638, 5633, 5626, 5615, 5602, 5586, 5568, 5547,
            5524, 5498, 5470, 5439, 5406, 5370, 5332, 5291, 5249, 5203, 5156, 5106, 5054, 5000,
            4944, 4885, 4825, 4762, 4697, 4630, 4561, 4490, 4416, 4341, 4264, 4184, 4103, 4020,
            3935, 3848, 3759, 3668, 3575, 3481, 3384, 3286, 3186, 3084, 2981, 2875, 2768, 2659,
            2549, 2437, 2323, 2207, 2090, 1971, 1851, 1729, 1605, 1480, 1353, 1224, 1094, 963, 830,
            695, 559, 421, 282, 142, 0);
#define tvmrt_log2_table tvmrt_log2_table

/*! \brief The natural logarithm in units of 1 / scale; 0 for values below 2. */
static inline uint32_t tvmrt_signal_log(uint32_t x, uint32_t scale) {
  if (x < 2) return 0;
  const int32_t whole = tvmrt_signal_bits(x) - 1;
  const uint32_t rest = x - ((uint32_t)1 << whole);
  const int32_t part = (int32_t)(whole < 16 ? rest << (16 - whole) : rest >> (whole - 16));
  const int32_t at = part >> 9, from = tvmrt_log2_table[0][at], to = tvmrt_log2_table[0][at + 1];
  /* the fraction of the step is in units of 2 ^ -9, but the library uses it as 2 ^ -16 */
  const int32_t log2 = (whole << 16) + part + from + (((to - from) * (part & 511)) >> 16);
  const uint32_t log = (uint32_t)(((uint64_t)45426 * (uint32_t)log2 + 32768) >> 16);
  return (scale * log + 32768) >> 16;
}

#endif /* TVM_RUNTIME_KERNELS_SCALAR_SIGNAL_H_ */
