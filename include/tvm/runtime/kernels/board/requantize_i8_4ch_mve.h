/*!
 * \file board/requantize_i8_4ch_mve.h
 * \brief Requantise rows of accumulators of four channels with Helium, for depthwise layers.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_4CH_MVE_H_
#define TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_4CH_MVE_H_

#include "common_i8.h"

#if TVMRT_MICRO_MVE_REQUANTIZES
/*! \brief Requantisation constants of four channels. */
typedef struct tvmrt_micro_mve_quad {
  int32x4_t bias, fixed; /* -fixed of the factors */
  float32x4_t scale;
  int32x4_t lo, hi;
  int32_t zero, is_fixed;
  mve_pred16_t mask; /* of the existing channels */
} tvmrt_micro_mve_quad;

/*! \brief Requantise n pixels, whose sums are 8 apart. */
TVMRT_INLINE void tvmrt_micro_mve_requantize(const tvmrt_micro_mve_quad* k, uint8_t* y,
                                             int32_t y_stride, const int32_t* sums, int32_t n) {
  const int32_t half = k->zero * 16 + 8;
#if TVMRT_MICRO_ASM
  if (k->is_fixed) {
    __asm volatile(
        "vmsr p0, %[mask]\n"
        "1:\nvldrw.32 q0, [%[s]], #32\nvadd.i32 q0, q0, %q[bias]\nvmulh.s32 q0, q0, %q[fixed]\n"
        "vadd.i32 q0, q0, %[half]\nvshr.s32 q0, q0, #4\nvmax.s32 q0, q0, %q[lo]\n"
        "vmin.s32 q0, q0, %q[hi]\nvpst\nvstrbt.32 q0, [%[y]]\nsubs %[n], %[n], #1\n"
        "add %[y], %[y], %[step]\nbgt 1b\n"
        : [y] "+l"(y), [s] "+r"(sums), [n] "+r"(n)
        : [bias] "w"(k->bias), [fixed] "w"(k->fixed), [lo] "w"(k->lo), [hi] "w"(k->hi),
          [half] "r"(half), [step] "r"(y_stride), [mask] "r"((uint32_t)k->mask)
        : "q0", "cc", "memory" TVMRT_MICRO_CHANGES_P0);
    return;
  }
#endif
  for (; n > 0; n--, sums += 8, y += y_stride) {
    int32x4_t q = vaddq_s32(vldrwq_s32(sums), k->bias);
    if (k->is_fixed) {
      q = vshrq_n_s32(vaddq_n_s32(vmulhq_s32(q, k->fixed), half), 4);
    } else {
      q = vqaddq_n_s32(vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(q), k->scale)), k->zero);
    }
    vstrbq_p_s32((int8_t*)y, vminq_s32(vmaxq_s32(q, k->lo), k->hi), k->mask);
  }
}

/* Requantise n pixels, whose sums are 8 apart, with pairs of multipliers. */
#define TVMRT_MICRO_MVE_TWICE_PIXELS(AWAY) \
  __asm volatile(                                                                         \
      "vmsr p0, %[mask]\n1:\nvldrw.32 q0, [%[s]], #32\nvadd.i32 q0, q0, %q[bias]\n"      \
      TVMRT_MICRO_MVE_TWICE("q0", "%q[m]", "%q[shift]", "q1", AWAY)                       \
      "vadd.i32 q0, q0, %[zero]\nvmax.s32 q0, q0, %q[lo]\nvmin.s32 q0, q0, %q[hi]\n"     \
      "vpst\nvstrbt.32 q0, [%[to]]\nsubs %[n], %[n], #1\nadd %[to], %[to], %[step]\n"    \
      "bgt 1b\n"                                                                          \
      : [to] "+l"(to), [s] "+r"(from), [n] "+r"(n)                                        \
      : [bias] "w"(bias), [m] "w"(k.m), [shift] "w"(k.shift), [lo] "w"(lo), [hi] "w"(hi), \
        [zero] "r"(zero), [step] "r"(c->shape.y_stride), [mask] "r"((uint32_t)mask) \
      : "q0", "q1", "cc", "memory" TVMRT_MICRO_CHANGES_P0)

/*! \brief tvmrt_micro_mve_rows() with pairs of multipliers. */
TVMRT_NOINLINE void tvmrt_micro_mve_rows_twice(const tvmrt_micro_conv_i8* c,
                                               const tvmrt_micro_data* data, const int32_t* sums,
                                               int32_t top, int32_t rows, int32_t channel) {
  const int32x4_t bias = vldrwq_s32(data->bias + channel);
  const int32x4_t lo = vdupq_n_s32(c->range.lo), hi = vdupq_n_s32(c->range.hi);
  const tvmrt_micro_mve_pairs k =
      tvmrt_micro_mve_load_pairs(tvmrt_micro_multipliers_at(data->multipliers, &c->range, channel));
  const mve_pred16_t mask = vctp32q((uint32_t)(c->shape.out_c - channel));
  const int32_t zero = c->range.zero; /* of 32 bits, as assembly needs it */
  uint8_t* to = (uint8_t*)data->y + top * c->shape.out[1] * c->shape.y_stride + channel;
  for (; rows > 0; rows--, sums += 4) {
    const int32_t* from = sums;
    int32_t n = c->shape.out[1];
#if TVMRT_MICRO_ASM
    if (TVMRT_MICRO_TWICE_OF(&c->range) == TVMRT_MICRO_TWICE) {
      TVMRT_MICRO_MVE_TWICE_PIXELS(TVMRT_MICRO_MVE_AWAY);
    } else {
      TVMRT_MICRO_MVE_TWICE_PIXELS(TVMRT_MICRO_MVE_UPWARDS);
    }
#else
    for (; n > 0; n--, from += 8, to += c->shape.y_stride) {
      int32x4_t q = tvmrt_micro_mve_round_twice(vaddq_s32(vldrwq_s32(from), bias), &k);
      q = vminq_s32(vmaxq_s32(vaddq_n_s32(q, zero), lo), hi);
      vstrbq_p_s32((int8_t*)to, q, mask);
    }
#endif
  }
}

/*! \brief Requantise up to four channels of a step's output rows. */
TVMRT_NOINLINE void tvmrt_micro_mve_rows(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                         const int32_t* sums, int32_t top, int32_t rows,
                                         int32_t channel) {
  const tvmrt_micro_multiplier* const multipliers =
      (const tvmrt_micro_multiplier*)data->multipliers + channel;
  const int32_t width = c->shape.out[1], y_stride = c->shape.y_stride;
  const tvmrt_micro_mve_quad k = {
      vldrwq_s32(data->bias + channel), vnegq_s32(vldrwq_s32(&multipliers->fixed)),
      vldrwq_f32(&multipliers->scale),  vdupq_n_s32(c->range.lo),
      vdupq_n_s32(c->range.hi),         c->range.zero,
      multipliers->fixed < 0,           vctp32q((uint32_t)(c->shape.out_c - channel))};
  uint8_t* y = (uint8_t*)data->y + top * width * y_stride + channel;
  for (; rows > 0; rows--, sums += 4, y += width * y_stride) {
    tvmrt_micro_mve_requantize(&k, y, y_stride, sums, width);
  }
}
#endif

/*!
 * \brief Finish the sums of up to four channels of some output rows.
 *
 * \param sums [in,out] [column][8], without the biases; the next row is 4 after the first.
 */
TVMRT_INLINE void tvmrt_micro_mve_finish(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                         int32_t* sums, int32_t top, int32_t rows,
                                         int32_t channel) {
  const tvmrt_micro_shape* const s = &c->shape;
  const int32_t left = s->out_c - channel, channels = left < 4 ? left : 4;
#if TVMRT_MICRO_MVE_REQUANTIZES
  if (data->epilogue == NULL && TVMRT_MICRO_IS_TWICE(&c->range)) {
    tvmrt_micro_mve_rows_twice(c, data, sums, top, rows, channel);
    return;
  }
  if (data->epilogue == NULL) {
    tvmrt_micro_mve_rows(c, data, sums, top, rows, channel);
    return;
  }
#endif
  for (int32_t row = 0; row < rows; row++, sums += 4) {
    for (int32_t p = 0; p < s->out[1]; p++) {
      for (int32_t i = 0; i < channels; i++) {
        sums[8 * p + i] = TVMRT_WRAP_ADD(sums[8 * p + i], data->bias[channel + i]);
      }
    }
    tvmrt_micro_finish(c, data, sums, 8, (top + row) * s->out[1], s->out[1], channel, channels);
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_REQUANTIZE_I8_4CH_MVE_H_ */
