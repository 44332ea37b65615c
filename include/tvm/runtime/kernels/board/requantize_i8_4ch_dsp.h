/*!
 * \file board/requantize_i8_4ch_dsp.h
 * \brief Requantisation of rows of four channels, for depthwise layers of microcontrollers.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_4CH_DSP_H_
#define TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_4CH_DSP_H_

#include "partial_rows.h"

#if TVMRT_MICRO_ASM && TVMRT_MICRO_HAS_FPU
/* Store r3 to r6 as bytes of a pixel, step to the next pixel, and loop. */
#define TVMRT_MICRO_QUAD_STORE(SATURATE, SHIFT)                                                    \
  SATURATE " r3, #8, r3" SHIFT "\n" SATURATE " r4, #8, r4" SHIFT "\n" SATURATE " r5, #8, r5" SHIFT \
           "\n" SATURATE " r6, #8, r6" SHIFT                                                       \
           "\nstrb r3, [%[y]]\nstrb r4, [%[y], #1]\n"                                              \
           "strb r5, [%[y], #2]\nstrb r6, [%[y], #3]\nadd %[y], %[y], %[y_step]\n"                 \
           "subs %[n], %[n], #1\nbne 1b\n"
/* Requantise n pixels, n > 0, with float scales and fixed-point multipliers. */
#define TVMRT_MICRO_QUAD_FLOATS(SATURATE)                                                    \
  __asm volatile(                                                                            \
      "vldmia %[f], {s4-s7}\n1:\nvldmia %[s], {s0-s3}\nadd %[s], %[s], "                     \
      "%[step]\n" TVMRT_MICRO_ROUND TVMRT_MICRO_QUAD_STORE(SATURATE, "")                     \
      : [y] "+r"(y), [s] "+r"(sums), [n] "+r"(n)                                             \
      : [f] "r"(multipliers), [zero] "r"(zero), [y_step] "r"(y_step), [step] "i"(4 * stride) \
      : "r3", "r4", "r5", "r6", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "cc", "memory")
#define TVMRT_MICRO_QUAD_FIXED(SATURATE)                                                  \
  __asm volatile(                                                                         \
      "1:\nldmia %[s], {r3-r6}\nadd %[s], %[s], %[step]\n"                                \
      "smmls r3, r3, %[f0], %[half]\nsmmls r4, r4, %[f1], %[half]\n"                      \
      "smmls r5, r5, %[f2], %[half]\n"                                                    \
      "smmls r6, r6, %[f3], %[half]\n" TVMRT_MICRO_QUAD_STORE(SATURATE, ", asr #4")       \
      : [y] "+r"(y), [s] "+r"(sums), [n] "+r"(n)                                          \
      : [f0] "r"(f[0]), [f1] "r"(f[1]), [f2] "r"(f[2]), [f3] "r"(f[3]), [half] "r"(half), \
        [y_step] "r"(y_step), [step] "i"(4 * stride)                                      \
      : "r3", "r4", "r5", "r6", "cc", "memory")
/* Requantise n pixels, n > 0, with pairs of multipliers, two channels at a time. */
#define TVMRT_MICRO_QUAD_TWICE(SATURATE, AWAY)                                                  \
  for (const int32_t* const end = sums + 4; sums != end; sums += 2, y += 2, multipliers += 4) { \
    const int32_t f[4] = {multipliers[0].fixed, multipliers[1].fixed, multipliers[2].fixed,     \
                          multipliers[3].fixed};                                                \
    const int32_t* from = sums;                                                                 \
    uint8_t* to = y;                                                                            \
    int32_t n = c->shape.out[1], v0, v1;                                                        \
    __asm volatile("1:\nldrd %[v0], %[v1], [%[s]], %[step]\n" TVMRT_MICRO_TWICE_SUM(            \
                       "%[v0]", "%[f0]", "%[f1]", AWAY)                                         \
                       TVMRT_MICRO_TWICE_SUM("%[v1]", "%[f2]", "%[f3]", AWAY) SATURATE          \
                   " %[v0], #8, %[v0], asr #1\n" SATURATE                                       \
                   " %[v1], #8, %[v1], asr #1\n"                                                \
                   "strb %[v0], [%[y]]\nstrb %[v1], [%[y], #1]\nadd %[y], %[y], %[y_step]\n"    \
                   "subs %[n], %[n], #1\nbne 1b\n"                                              \
                   : [y] "+r"(to), [s] "+r"(from), [n] "+r"(n), [v0] "=&r"(v0), [v1] "=&r"(v1)  \
                   : [f0] "r"(f[0]), [f1] "r"(f[1]), [f2] "r"(f[2]), [f3] "r"(f[3]),            \
                     [half] "r"(half), [y_step] "r"(y_step), [step] "i"(4 * stride)             \
                   : "cc", "memory");                                                           \
  }
#endif

/*! \brief tvmrt_micro_requantize_quad() with pairs of multipliers. */
TVMRT_INLINE void tvmrt_micro_requantize_quad_twice(const tvmrt_micro_conv_i8* c, uint8_t* y,
                                                    const int32_t* sums, int32_t stride,
                                                    const tvmrt_micro_multiplier* multipliers) {
  const tvmrt_micro_range range = c->range;
  const int32_t half = 2 * range.zero + 1, y_step = c->shape.y_stride;
#if TVMRT_MICRO_ASM && TVMRT_MICRO_HAS_FPU
  if (range.full_range > 0) {
    if (range.full_range == TVMRT_MICRO_FULL_UINT8) {
      TVMRT_MICRO_QUAD_TWICE("usat", TVMRT_MICRO_AWAY);
    } else if (TVMRT_MICRO_TWICE_OF(&range) == TVMRT_MICRO_TWICE) {
      TVMRT_MICRO_QUAD_TWICE("ssat", TVMRT_MICRO_AWAY);
    } else {
      TVMRT_MICRO_QUAD_TWICE("ssat", TVMRT_MICRO_UPWARDS);
    }
    return;
  }
#endif
  for (int i = 0; i < 4; i++, multipliers += 2) {
    const int32_t factor = multipliers[0].fixed, shift = multipliers[1].fixed;
    const int32_t *from = sums + i, *const end = from + c->shape.out[1] * stride;
    for (uint8_t* to = y + i; from != end; from += stride, to += y_step) {
      const int32_t q = tvmrt_micro_round_twice_fixed(*from, factor, shift, half);
      *to = TVMRT_MICRO_CLAMP_BYTE(q, range.lo, range.hi);
    }
  }
}

/*!
 * \brief Requantise four channels of an output row.
 *
 * \param sums    [in] [column][stride].
 * \param stride  [in] 4 or 8, a constant.
 */
TVMRT_INLINE void tvmrt_micro_requantize_quad(const tvmrt_micro_conv_i8* c, uint8_t* y,
                                              const int32_t* sums, int32_t stride,
                                              const tvmrt_micro_multiplier* multipliers) {
  int32_t n = c->shape.out[1];
#if TVMRT_MICRO_ASM && TVMRT_MICRO_HAS_FPU
  if (c->range.full_range > 0) {
    const int32_t zero = c->range.zero, half = zero * 16 + 8;
    const int32_t y_step = c->shape.y_stride;
    const int32_t f[4] = {multipliers[0].fixed, multipliers[1].fixed, multipliers[2].fixed,
                          multipliers[3].fixed};
    if (c->range.full_range == TVMRT_MICRO_FULL_INT8 && f[0] < 0) {
      TVMRT_MICRO_QUAD_FIXED("ssat");
    } else if (c->range.full_range == TVMRT_MICRO_FULL_INT8) {
      TVMRT_MICRO_QUAD_FLOATS("ssat");
    } else if (f[0] < 0) {
      TVMRT_MICRO_QUAD_FIXED("usat");
    } else {
      TVMRT_MICRO_QUAD_FLOATS("usat");
    }
    return;
  }
#endif
#if !TVMRT_MICRO_HAS_FPU
  if (multipliers->fixed < 0) {
    const tvmrt_micro_range range = c->range;
    const int32_t half = range.zero * 16 + 8, y_step = c->shape.y_stride;
    for (int i = 0; i < 4; i++) {
      const int32_t factor = TVMRT_WRAP_NEG(multipliers[i].fixed);
      const int32_t *from = sums + i, *const end = from + n * stride;
      for (uint8_t* to = y + i; from != end; from += stride, to += y_step) {
        *to = tvmrt_micro_requantize_fixed(*from, factor, half, &range);
      }
    }
    return;
  }
#endif
  for (; n > 0; n--, sums += stride, y += c->shape.y_stride) {
    tvmrt_micro_requantize(y, sums, multipliers, 4, &c->range);
  }
}

/*! \brief tvmrt_micro_requantize_quad() for one of the two strides. */
TVMRT_NOINLINE void tvmrt_micro_requantize_quad_4(const tvmrt_micro_conv_i8* c, uint8_t* y,
                                                  const int32_t* sums,
                                                  const tvmrt_micro_multiplier* multipliers) {
  tvmrt_micro_requantize_quad(c, y, sums, 4, multipliers);
}

TVMRT_NOINLINE void tvmrt_micro_requantize_quad_8(const tvmrt_micro_conv_i8* c, uint8_t* y,
                                                  const int32_t* sums,
                                                  const tvmrt_micro_multiplier* multipliers) {
  tvmrt_micro_requantize_quad(c, y, sums, 8, multipliers);
}

/*! \brief tvmrt_micro_requantize_quad_twice() for both strides. */
TVMRT_RARELY_CALLED_TIGHT void tvmrt_micro_requantize_quad_pairs(
    const tvmrt_micro_conv_i8* c, uint8_t* y, const int32_t* sums, int32_t stride,
    const tvmrt_micro_multiplier* multipliers) {
  if (stride == 4) {
    tvmrt_micro_requantize_quad_twice(c, y, sums, 4, multipliers);
  } else {
    tvmrt_micro_requantize_quad_twice(c, y, sums, 8, multipliers);
  }
}

/*! \brief Finish the sums of up to four channels of an output row, which are 4 or 8 apart. */
TVMRT_INLINE void tvmrt_micro_quad_finish(const tvmrt_micro_layer* d, const int32_t* sums,
                                          int32_t stride, int32_t row, int32_t channel) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const tvmrt_micro_data* const data = d->data;
  const int32_t pixel = row * s->out[1], left = s->out_c - channel;
  if (data->epilogue == NULL && left >= 4) {
    uint8_t* const y = (uint8_t*)data->y + pixel * s->y_stride + channel;
    const tvmrt_micro_multiplier* const multipliers =
        tvmrt_micro_multipliers_at(data->multipliers, &d->conv->range, channel);
    if (TVMRT_MICRO_IS_TWICE(&d->conv->range)) {
      tvmrt_micro_requantize_quad_pairs(d->conv, y, sums, stride, multipliers);
    } else if (stride == 4) {
      tvmrt_micro_requantize_quad_4(d->conv, y, sums, multipliers);
    } else {
      tvmrt_micro_requantize_quad_8(d->conv, y, sums, multipliers);
    }
  } else {
    tvmrt_micro_finish(d->conv, data, sums, stride, pixel, s->out[1], channel, left < 4 ? left : 4);
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_4CH_DSP_H_ */
