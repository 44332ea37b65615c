/*!
 * \file board/common_i8.h
 * \brief Shared parts of the integer kernels of microcontrollers: dot products, rounding,
 * requantisation.
 *
 * Kernels compile for every processor and give the same bytes; C replaces missing instructions.
 *
 * Activations are widened once and used many times. A quad is four activations as int16 in the
 * order 0, 2, 1, 3, the order in which SXTB16 yields them. The pairs of an activation quad thus
 * match the pairs that SXTB16 yields from four bytes of weights.
 *
 * The loops for DSP instructions are assembly, because compilers do not find the instruction order
 * that just fits the registers. Each loop takes at most 13 registers, including one that clang
 * needs for an operand in memory. So gcc and clang build the same loops, also with frame pointers.
 * Code that reserves registers (-ffixed-r9, say) may define TVMRT_MICRO_ASM as 0; the Makefile of
 * an archive does so where necessary.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_COMMON_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_COMMON_I8_H_

#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "../parallel.h"
#include "../scalar/any_weights.h"
#include "../scalar/soft_float.h"
#include "../tile/epilogue_i8.h"
#include "../tile/simd.h"
#include "cpu_features.h"
#include "shape.h"
#if TVMRT_MICRO_RVV
#include "rvv.h"
#endif

/*! \brief Whether Helium requantises, which requires its float vectors. */
#if TVMRT_MICRO_CAN_MVE && (__ARM_FEATURE_MVE & 2)
#define TVMRT_MICRO_MVE_REQUANTIZES 1
#else
#define TVMRT_MICRO_MVE_REQUANTIZES 0
#endif

/*! \brief Channels whose sums are kept before they become bytes. */
#if TVMRT_MICRO_RVV
#define TVMRT_MICRO_CHUNK 64
#else
#define TVMRT_MICRO_CHUNK 32
#endif
/*! \brief Sums that are kept, of all pixels together. */
#define TVMRT_MICRO_ACCUMULATORS (2 * TVMRT_MICRO_CHUNK)
/*! \brief Maximum bytes of copied windows on the stack; longer ones are in scratch. */
#define TVMRT_MICRO_STACK_WINDOWS 160

/*! \brief Values of tvmrt_micro_range.full_range: -128 to 127, 0 to 255. */
enum { TVMRT_MICRO_FULL_INT8 = 1, TVMRT_MICRO_FULL_UINT8 = 2 };

/*!
 * \brief Values of tvmrt_micro_range.twice. TVMRT_MICRO_TWICE: a multiplier is a pair of integers,
 * 2 * m - 2 ^ 32 and n - 1, and sums are rounded twice like in TensorFlow Lite: x = sum * m / 2 ^ 31
 * to the nearest integer, then x / 2 ^ n, ties away from zero. TVMRT_MICRO_TWICE_UPWARDS: ties may
 * be rounded upwards, because no byte is below the zero point. |sum| is below 2 ^ 30, n at least 1.
 */
enum { TVMRT_MICRO_TWICE = 1, TVMRT_MICRO_TWICE_UPWARDS = 2 };

/*! \brief Whether the file has layers that round twice; other files do not contain that code. */
#ifndef TVMRT_MICRO_ROUNDS_TWICE
#define TVMRT_MICRO_ROUNDS_TWICE 0
#endif

/*! \brief Range of a tensor's bytes. */
typedef struct tvmrt_micro_range {
  int16_t zero;      /*!< Zero point. */
  int16_t lo;        /*!< Minimum. */
  int16_t hi;        /*!< Maximum. */
  int8_t full_range; /*!< TVMRT_MICRO_FULL_INT8 or _UINT8; 0 for other bounds. */
  /*! 1: int8's full range, even channels, only fixed-point multipliers, no shift. */
  int8_t fixed_point_only;
#if TVMRT_MICRO_ROUNDS_TWICE
  int8_t twice; /*!< TVMRT_MICRO_TWICE or _UPWARDS; 0: multipliers as below, rounded once. */
#endif
} tvmrt_micro_range;

/*! \brief A layer. */
typedef struct tvmrt_micro_conv_i8 {
  tvmrt_micro_shape shape;
  int16_t x_zero;          /*!< Zero point of the input and value of padding. */
  int8_t x_signed;         /*!< 1: int8, 0: uint8. */
  int8_t y_bytes;          /*!< Size of an element of y. */
  tvmrt_micro_range range; /*!< Range of the output; not used with an epilogue. */
#ifdef TVMRT_MICRO_CHANNEL_GROUPS
  int32_t channel; /*!< First output channel for the epilogue; see board/channel_groups_i8.h. */
#endif
} tvmrt_micro_conv_i8;

/*!
 * \brief Requantisation multiplier of a channel: a float scale, or a negative fixed-point
 * multiplier, about -2 ^ 36 times the scale.
 *
 * sum * scale is rounded to a float, then to an integer, ties to even. If the compiler of the
 * network finds fixed-point multipliers that give the same bytes for all sums, groups of four
 * channels use them. Scales are positive, so the sign distinguishes the two: a table of flags would
 * cost another load in addition to the 17 instructions for four bytes.
 */
typedef union tvmrt_micro_multiplier {
  float scale;
  int32_t fixed;
} tvmrt_micro_multiplier;

/*! \brief The tensors of a layer; borrowed for the call. */
typedef struct tvmrt_micro_data {
  const void* x;
  const void* weights;        /*!< Packed. */
  const int32_t* bias;        /*!< Folded, for each padded channel; NULL with joint weights. */
  const void* multipliers;    /*!< tvmrt_micro_multiplier of the sums, laid out like bias; pairs of
                                   them if range.twice is set. */
  const int32_t* shift;       /*!< Weight shifts per channel, times the sum of a window; or NULL. */
  void* y;                    /*!< May be x if the layer allows it. */
  tvmrt_i8_epilogue epilogue; /*!< NULL: y = requantised bytes. */
  const void* ctx;            /*!< Context of the epilogue. */
} tvmrt_micro_data;

/*! \brief Whether multipliers are pairs; see tvmrt_micro_range.twice. */
#if TVMRT_MICRO_ROUNDS_TWICE
#define TVMRT_MICRO_TWICE_OF(range) ((range)->twice)
#else
#define TVMRT_MICRO_TWICE_OF(range) ((void)(range), 0)
#endif
#define TVMRT_MICRO_IS_TWICE(range) (TVMRT_MICRO_TWICE_OF(range) != 0)

/*! \brief The multipliers from a channel on. */
TVMRT_INLINE const tvmrt_micro_multiplier* tvmrt_micro_multipliers_at(
    const void* multipliers, const tvmrt_micro_range* range, int32_t channel) {
  return (const tvmrt_micro_multiplier*)multipliers +
         (TVMRT_MICRO_IS_TWICE(range) ? 2 * channel : channel);
}

/*! \brief Padding byte for kernels that convert uint8 to int8 by subtracting 128. */
TVMRT_INLINE uint8_t tvmrt_micro_int8_padding(const tvmrt_micro_conv_i8* c) {
  return (uint8_t)(c->x_signed ? c->x_zero : c->x_zero ^ 0x80);
}

#if !TVMRT_MICRO_HAS_FPU
#if !TVMRT_SOFT_FLOAT
/*! \brief x / 2 ^ n, rounded to the nearest integer, ties to even; n is 0 to 63. */
static inline uint64_t tvmrt_micro_shift_and_round(uint64_t x, int n) {
  if (n == 0) return x;
  return (x + (((uint64_t)1 << (n - 1)) - 1) + ((x >> n) & 1)) >> n;
}

/*! \brief Number of binary digits of x, below 2 ^ 56, beyond a float's significand. */
static inline int tvmrt_micro_excess_bits(uint64_t x) {
  uint32_t excess = (uint32_t)(x >> 24);
  int n = 0;
  for (int half = 16; half > 0; half /= 2) { /* as many steps for every x */
    const int digits = (excess >> half != 0) * half;
    excess >>= digits;
    n += digits;
  }
  return n + (excess != 0);
}

/*!
 * \brief size * factor / 2 ^ places via the float product: rounded to 24 digits, then to an
 * integer.
 */
TVMRT_NOINLINE int32_t tvmrt_micro_round_twice(uint32_t size, uint32_t factor, int places) {
  int excess = tvmrt_micro_excess_bits(size);
  uint64_t product = (tvmrt_micro_shift_and_round(size, excess) << excess) * factor;
  excess = tvmrt_micro_excess_bits(product);
  product = tvmrt_micro_shift_and_round(product, excess);
  places -= excess;
  if (places <= 0) return (int32_t)1 << 20; /* exceeds any range */
  return places > 25 ? 0 : (int32_t)tvmrt_micro_shift_and_round(product, places);
}
#endif

/*!
 * \brief Emulate acc * scale in float, rounded to an integer, ties to even; results of 512 or more
 * may be any integer of that sign from 512 on.
 *
 * The product of the significands is rounded only once. Below 512 this differs only if the product
 * is so near a tie that the float product may have been rounded onto or over it.
 *
 * \param scale [in] Positive, below 2 ^ 8.
 */
static inline int32_t tvmrt_micro_scale_and_round(int32_t acc, float scale) {
  uint32_t bits, size = acc < 0 ? 0u - (uint32_t)acc : (uint32_t)acc, fixed;
  memcpy(&bits, &scale, sizeof(bits));
  const int places = 150 - (int)TVMRT_WRAP_EXPONENT(bits); /* 16 or more */
  const uint32_t factor = (bits & 0x7FFFFF) | 0x800000;
  const uint64_t product = (uint64_t)size * factor; /* below 2 ^ 55 */
  const uint32_t high = (uint32_t)(product >> 32), low = (uint32_t)product;
  /* the product in 256ths; shifts of 32 bits, because those of 64 are calls on small processors */
  if (places >= 40) {
    if (places > 63) return 0;
    fixed = high >> (places - 40);
  } else {
    if (high >> (places - 8) != 0) return acc < 0 ? -65536 : 65536;
    fixed = high << (40 - places) | low >> (places - 8);
  }
  const uint32_t rest = fixed & 0xFF;
  int32_t q = (int32_t)(fixed >> 8) + (rest >= 128);
#if TVMRT_SOFT_FLOAT
  if (rest >= 126 && rest <= 129) {
    return tvmrt_round_to_int32(tvmrt_mul_f32(tvmrt_int32_to_f32(acc), scale));
  }
#else
  if (rest >= 126 && rest <= 129) q = tvmrt_micro_round_twice(size, factor, places);
#endif
  return acc < 0 ? (int32_t)(0u - (uint32_t)q) : q;
}
#elif defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP)
/*! \brief acc * scale as a float, rounded to an integer, ties to even. */
TVMRT_INLINE int32_t tvmrt_micro_scale_and_round(int32_t acc, float scale) {
  float v = (float)acc * scale;
  int32_t q;
  __asm("vcvtr.s32.f32 %0, %0" : "+t"(v)); /* in the processor's mode: to nearest */
  memcpy(&q, &v, sizeof(q));
  return q;
}
#else
/*! \brief acc * scale as a float, rounded to an integer, ties to even; saturates at +-2 ^ 20. */
TVMRT_INLINE int32_t tvmrt_micro_scale_and_round(int32_t acc, float scale) {
  float v = (float)acc * scale;
  int32_t q;
  v = tvmrt_limited_f32(v, 1048576.0f);
  v += 12582912.0f; /* 2 ^ 23 + 2 ^ 22: the integer is in the lowest digits */
  memcpy(&q, &v, sizeof(q));
  return q - 0x4B400000;
}
#endif

/*! \brief q clamped to [lo, hi], without a branch where the processor can, and its byte. */
#if TVMRT_MICRO_HAS_SELECT
TVMRT_INLINE int32_t tvmrt_micro_clamp_i32(int32_t q, int32_t lo, int32_t hi) {
  q = q < lo ? lo : q;
  return q > hi ? hi : q;
}
#define TVMRT_MICRO_CLAMP(q, lo, hi) tvmrt_micro_clamp_i32(q, lo, hi)
#else /* no function: GCC would keep other values in registers */
#define TVMRT_MICRO_CLAMP(q, lo, hi) ((q) < (lo) ? (lo) : (q) > (hi) ? (hi) : (q))
#endif
#define TVMRT_MICRO_CLAMP_BYTE(q, lo, hi) ((uint8_t)TVMRT_MICRO_CLAMP(q, lo, hi))

/*! \brief Add the zero point to a rounded sum, which may be large. */
TVMRT_INLINE int32_t tvmrt_micro_add_zero_point(int32_t q, int32_t zero) {
#if TVMRT_MICRO_CAN_DSP
  return __qadd(q, zero);
#else
  return (q < -65536 ? -65536 : q > 65536 ? 65536 : q) + zero;
#endif
}

/*! \brief Requantise one sum like tvmrt_micro_requantize(), without clamping. */
TVMRT_INLINE int32_t tvmrt_micro_requantize_one(int32_t sum, tvmrt_micro_multiplier factor,
                                                int32_t zero) {
  if (factor.fixed < 0) {
    return ((int32_t)(((int64_t)sum * TVMRT_WRAP_NEG(factor.fixed)) >> 32) + zero * 16 + 8) >> 4;
  }
  return tvmrt_micro_add_zero_point(tvmrt_micro_scale_and_round(sum, factor.scale), zero);
}

/*!
 * \brief Requantise a sum with a fixed-point multiplier; `factor` is its absolute value, `half`
 * the zero point times 16, plus 8.
 */
TVMRT_INLINE uint8_t tvmrt_micro_requantize_fixed(int32_t sum, int32_t factor, int32_t half,
                                                  const tvmrt_micro_range* range) {
  int32_t q = ((int32_t)(((int64_t)sum * factor) >> 32) + half) >> 4;
  if (q < range->lo) q = range->lo;
  if (q > range->hi) q = range->hi;
  return (uint8_t)q;
}

#if TVMRT_MICRO_CAN_DSP && TVMRT_MICRO_HAS_FPU
/* Four products s0 to s3 of sums and scales, rounded, to r3 to r6. */
#define TVMRT_MICRO_ROUND                                                                    \
  "vcvt.f32.s32 s0, s0\nvcvt.f32.s32 s1, s1\nvcvt.f32.s32 s2, s2\nvcvt.f32.s32 s3, s3\n"     \
  "vmul.f32 s0, s0, s4\nvmul.f32 s1, s1, s5\nvmul.f32 s2, s2, s6\nvmul.f32 s3, s3, s7\n"     \
  "vcvtr.s32.f32 s0, s0\nvcvtr.s32.f32 s1, s1\nvcvtr.s32.f32 s2, s2\nvcvtr.s32.f32 s3, s3\n" \
  "vmov r3, r4, s0, s1\nvmov r5, r6, s2, s3\n"                                               \
  "qadd r3, r3, %[zero]\nqadd r4, r4, %[zero]\nqadd r5, r5, %[zero]\nqadd r6, r6, %[zero]\n"
#endif

#include "requantize_i8_twice.h"

/* tvmrt_micro_requantize(y, sums, factors, n, range): y[i] = the byte of sums[i] and factors[i].
 * With Helium, whole vectors of sums and factors are read, which must exist. */
#if TVMRT_MICRO_MVE_REQUANTIZES
#include "requantize_i8_mve.h"
#else

#if TVMRT_MICRO_ASM && TVMRT_MICRO_HAS_FPU
/* *y++ = the byte of *s++ and *f++, n times; n is a positive multiple of 4. */
#define TVMRT_MICRO_REQUANTIZE(SATURATE)                                                         \
  __asm volatile(                                                                                \
      "1:\nldrd %[f0], %[f1], [%[f]]\ncmp %[f0], #0\nbge 2f\n"                                   \
      "ldmia %[s]!, {r3-r6}\n"                                                                   \
      "smmls r3, r3, %[f0], %[half]\nsmmls r4, r4, %[f1], %[half]\n"                             \
      "ldrd %[f0], %[f1], [%[f], #8]\nadds %[f], %[f], #16\n"                                    \
      "smmls r5, r5, %[f0], %[half]\nsmmls r6, r6, %[f1], %[half]\n" SATURATE                    \
      " r3, #8, r3, asr #4\n" SATURATE " r4, #8, r4, asr #4\n" SATURATE                          \
      " r5, #8, r5, asr #4\n" SATURATE                                                           \
      " r6, #8, r6, asr #4\nb 3f\n"                                                              \
      "2:\nvldmia %[s]!, {s0-s3}\nvldmia %[f]!, {s4-s7}\n" TVMRT_MICRO_ROUND SATURATE            \
      " r3, #8, r3\n" SATURATE " r4, #8, r4\n" SATURATE " r5, #8, r5\n" SATURATE                 \
      " r6, #8, r6\n"                                                                            \
      "3:\nstrb r3, [%[y]], #1\nstrb r4, [%[y]], #1\nstrb r5, [%[y]], #1\nstrb r6, [%[y]], #1\n" \
      "subs %[n], %[n], #4\nbgt 1b\n"                                                            \
      : [y] "+r"(y), [s] "+r"(sums), [f] "+r"(multipliers), [n] "+r"(fours), [f0] "=&r"(f0),     \
        [f1] "=&r"(f1)                                                                           \
      : [zero] "r"(zero), [half] "r"(half)                                                       \
      : "r3", "r4", "r5", "r6", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "cc", "memory")
#endif

/*! \brief tvmrt_micro_requantize() of sums with fixed-point multipliers, float scales, or both. */
TVMRT_INLINE void tvmrt_micro_requantize_any(uint8_t* y, const int32_t* sums,
                                             const tvmrt_micro_multiplier* multipliers, int32_t n,
                                             const tvmrt_micro_range* range) {
  const int32_t lo = range->lo, hi = range->hi, zero_point = range->zero;
  for (; n > 0; n--) {
    const int32_t q = tvmrt_micro_requantize_one(*sums++, *multipliers++, zero_point);
    *y++ = TVMRT_MICRO_CLAMP_BYTE(q, lo, hi);
  }
}

#if TVMRT_MICRO_RVV
#include "requantize_i8_rvv.h"
#else

#if !TVMRT_MICRO_HAS_FPU
/*! \brief tvmrt_micro_requantize_any() as a function: floats take registers that fixed-point
 * multipliers do not. */
TVMRT_NOINLINE void tvmrt_micro_requantize_floats(uint8_t* y, const int32_t* sums,
                                                  const tvmrt_micro_multiplier* multipliers,
                                                  int32_t n, const tvmrt_micro_range* range) {
  tvmrt_micro_requantize_any(y, sums, multipliers, n, range);
}
#endif

/*! \brief tvmrt_micro_requantize() with multipliers that are no pairs. */
TVMRT_NOINLINE void tvmrt_micro_requantize_once(uint8_t* y, const int32_t* sums,
                                                const tvmrt_micro_multiplier* multipliers,
                                                int32_t n, const tvmrt_micro_range* range) {
#if TVMRT_MICRO_ASM && TVMRT_MICRO_HAS_FPU
  int32_t fours = n & ~3;
  if (fours > 0 && range->full_range > 0) {
    const int32_t zero = range->zero, half = zero * 16 + 8;
    uint32_t f0, f1;
    if (range->full_range == TVMRT_MICRO_FULL_INT8) {
      TVMRT_MICRO_REQUANTIZE("ssat");
    } else {
      TVMRT_MICRO_REQUANTIZE("usat");
    }
    n &= 3;
  }
#endif
#if !TVMRT_MICRO_HAS_FPU
  const tvmrt_micro_range kept = *range;
  const int32_t zero = (int32_t)kept.zero * 16 + 8;
  for (const int32_t* const end = sums + n; sums != end && multipliers->fixed < 0;) {
    *y++ =
        tvmrt_micro_requantize_fixed(*sums++, TVMRT_WRAP_NEG((multipliers++)->fixed), zero, &kept);
    n--;
  }
  if (n > 0) tvmrt_micro_requantize_floats(y, sums, multipliers, n, range);
#else
  tvmrt_micro_requantize_any(y, sums, multipliers, n, range);
#endif
}

TVMRT_INLINE void tvmrt_micro_requantize(uint8_t* y, const int32_t* sums,
                                         const tvmrt_micro_multiplier* multipliers, int32_t n,
                                         const tvmrt_micro_range* range) {
  if (TVMRT_MICRO_IS_TWICE(range)) {
    tvmrt_micro_requantize_twice(y, sums, multipliers, n, range);
  } else {
    tvmrt_micro_requantize_once(y, sums, multipliers, n, range);
  }
}

#endif
#endif

/* Helium's rounding uses more stack; so the epilogue's stack is kept separate there. */
#if TVMRT_MICRO_MVE_REQUANTIZES
#define TVMRT_MICRO_EPILOGUE TVMRT_NOINLINE
#define TVMRT_MICRO_FINISH TVMRT_INLINE
#else
#define TVMRT_MICRO_EPILOGUE TVMRT_INLINE
#define TVMRT_MICRO_FINISH static inline
#endif

/*! \brief tvmrt_micro_finish() with the layer's epilogue. */
TVMRT_MICRO_EPILOGUE void tvmrt_micro_epilogue(const tvmrt_micro_conv_i8* c,
                                               const tvmrt_micro_data* data, const int32_t* sums,
                                               int32_t stride, int32_t pixel, int32_t pixels,
                                               int32_t channel, int32_t channels) {
  const int32_t at = pixel * c->shape.y_stride + channel;
#ifdef TVMRT_MICRO_CHANNEL_GROUPS
  channel += c->channel;
#endif
#if TVMRT_MICRO_CAN_DSP
  TVMRT_OPAQUE(pixel); /* or 64 bits are counted, and kept when registers are scarce */
  TVMRT_OPAQUE(stride);
#endif
  const tvmrt_i8_rows rows = {
      .acc = sums,
      .acc_stride = stride,
      .pixel = pixel,
      .pixels = pixels,
      .channel = channel,
      .channels = channels,
      .y = (uint8_t*)data->y + at * c->y_bytes,
      .y_stride = c->shape.y_stride,
  };
  data->epilogue(&rows, data->ctx);
}

/*!
 * \brief Finish the sums of some channels of neighbouring pixels: requantisation or epilogue.
 *
 * \param sums   [in] [pixel][stride].
 * \param pixel  [in] Index of the first pixel in the output.
 */
TVMRT_MICRO_FINISH void tvmrt_micro_finish(const tvmrt_micro_conv_i8* c,
                                           const tvmrt_micro_data* data, const int32_t* sums,
                                           int32_t stride, int32_t pixel, int32_t pixels,
                                           int32_t channel, int32_t channels) {
  const int32_t at = pixel * c->shape.y_stride + channel;
  if (data->epilogue != NULL) {
    tvmrt_micro_epilogue(c, data, sums, stride, pixel, pixels, channel, channels);
    return;
  }
  const tvmrt_micro_multiplier* const multipliers =
      tvmrt_micro_multipliers_at(data->multipliers, &c->range, channel);
  uint8_t* y = (uint8_t*)data->y + at;
#if TVMRT_MICRO_MVE_REQUANTIZES
  for (; pixels >= 2; pixels -= 2, sums += 2 * stride, y += 2 * c->shape.y_stride) {
    tvmrt_micro_requantize_two(y, c->shape.y_stride, sums, stride, multipliers, channels,
                               &c->range);
  }
#endif
  for (; pixels > 0; pixels--, sums += stride, y += c->shape.y_stride) {
    tvmrt_micro_requantize(y, sums, multipliers, channels, &c->range);
  }
}

/*! \brief Widen four bytes to a quad. */
TVMRT_INLINE void tvmrt_micro_widen(int16_t* to, const uint8_t* from, int is_signed) {
#if TVMRT_MICRO_CAN_DSP && defined(__GNUC__)
  uint32_t v, even, odd;
  memcpy(&v, from, sizeof(v));
  if (is_signed) {
    __asm("sxtb16 %0, %1" : "=r"(even) : "r"(v));
    __asm("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(v));
  } else {
    __asm("uxtb16 %0, %1" : "=r"(even) : "r"(v));
    __asm("uxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(v));
  }
  to = (int16_t*)TVMRT_ALIGNED(to, 8);
  memcpy(to, &even, sizeof(even));
  memcpy(to + 2, &odd, sizeof(odd));
#else
  const int32_t flip = is_signed ? 0x80 : 0; /* (v ^ 0x80) - 0x80 extends the sign */
  const uint8_t v[4] = {from[0], from[2], from[1], from[3]};
  for (int i = 0; i < 4; i++) to[i] = (int16_t)((v[i] ^ flip) - flip);
#endif
}

/*! \brief memcpy() of a few bytes; small C libraries copy bytewise. */
TVMRT_INLINE void tvmrt_micro_copy(uint8_t* to, const uint8_t* from, int32_t n) {
#if TVMRT_MICRO_RVV
  tvmrt_micro_rvv_copy(to, from, n, 0);
  return;
#endif
#if TVMRT_MICRO_UNALIGNED
  if (n >= 4) { /* words; the last one may overlap the one before it */
    const uint8_t* const last = from + n - 4;
    uint8_t* const end = to + n - 4;
    uint32_t word;
    do {
      memcpy(&word, from, 4);
      TVMRT_OPAQUE(word); /* or it becomes a call of memcpy() again */
      memcpy(to, &word, 4);
      from += 4;
      to += 4;
    } while (from < last);
    memcpy(&word, last, 4);
    memcpy(end, &word, 4);
    return;
  }
#endif
  for (; n > 0; n--) {
    *to++ = *from++;
    TVMRT_OPAQUE(to);
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_COMMON_I8_H_ */
