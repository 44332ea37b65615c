/*!
 * \file board/residual_add_i8.h
 * \brief Epilogue of a layer with a residual add, in integer arithmetic.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_RESIDUAL_ADD_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_RESIDUAL_ADD_I8_H_

#include <stddef.h>
#include <stdint.h>

#include "common_i8.h"

/*!
 * \brief Residual add of a layer's byte q and an operand's byte b: (q * own_multiplier + b *
 * other_multiplier + offset) >> shift, clamped. The compiler of the network has compared it with
 * the float result for every pair of bytes.
 */
typedef struct tvmrt_micro_residual {
  tvmrt_micro_range range; /*!< Range of the layer's own bytes. */
  int32_t own_multiplier, other_multiplier, offset;
  int8_t shift;
  int8_t other_signed;    /*!< 1: the operand is int8, 0: uint8. */
  int16_t lo, hi;         /*!< Clamping bounds of the sum. */
  int16_t operand_stride; /*!< Pixel stride of the operand in bytes. */
} tvmrt_micro_residual;

/*! \brief The context of tvmrt_micro_residual_rows(). */
typedef struct tvmrt_micro_residual_ctx {
  const tvmrt_micro_residual* layer;
  const void* multipliers; /*!< Like those of tvmrt_micro_data, to a multiple of four. */
  const void* operand;     /*!< May be the address of the result. */
} tvmrt_micro_residual_ctx;

#if TVMRT_MICRO_RVV
/*! \brief Residual add of n bytes q of the layer and b of the operand. `own` and `other` make int8
 * uint8; `add`: the offset for such bytes. */
TVMRT_NOINLINE void tvmrt_micro_rvv_add_residual(const tvmrt_micro_residual* s, uint8_t* y,
                                                 const uint8_t* q, const uint8_t* b, int32_t n,
                                                 int32_t own, int32_t other, int32_t add) {
  int32_t vl, t;
  __asm volatile(
      TVMRT_MICRO_RVV_ON
      "1:\nvsetvli %[vl], %[n], e8, m2, ta, ma\nvle8.v v0, (%[q])\nadd %[q], %[q], %[vl]\n"
      "vle8.v v2, (%[b])\nadd %[b], %[b], %[vl]\nvxor.vx v0, v0, %[own]\n"
      "vxor.vx v2, v2, %[other]\nvsetvli zero, zero, e32, m8, ta, ma\n"
      "vzext.vf4 v8, v0\nvzext.vf4 v16, v2\nlw %[t], %[m](%[s])\nvmul.vx v8, v8, %[t]\n"
      "lw %[t], %[k](%[s])\nvmacc.vx v8, %[t], v16\nvadd.vx v8, v8, %[add]\n"
      "lb %[t], %[shift](%[s])\nvsra.vx v8, v8, %[t]\nlh %[t], %[lo](%[s])\n"
      "vmax.vx v8, v8, %[t]\nlh %[t], %[hi](%[s])\nvmin.vx v8, v8, %[t]\n"
      "vsetvli zero, zero, e16, m4, ta, ma\nvnsrl.wi v8, v8, 0\n"
      "vsetvli zero, zero, e8, m2, ta, ma\nvnsrl.wi v8, v8, 0\n"
      "sub %[n], %[n], %[vl]\nvse8.v v8, (%[y])\nadd %[y], %[y], %[vl]\nbnez %[n], "
      "1b\n" TVMRT_MICRO_RVV_OFF
      : [y] "+r"(y), [q] "+r"(q), [b] "+r"(b), [n] "+r"(n), [vl] "=&r"(vl), [t] "=&r"(t)
      : [s] "r"(s), [own] "r"(own), [other] "r"(other), [add] "r"(add),
        [m] "i"(offsetof(tvmrt_micro_residual, own_multiplier)),
        [k] "i"(offsetof(tvmrt_micro_residual, other_multiplier)),
        [shift] "i"(offsetof(tvmrt_micro_residual, shift)),
        [lo] "i"(offsetof(tvmrt_micro_residual, lo)), [hi] "i"(offsetof(tvmrt_micro_residual, hi))
      : TVMRT_MICRO_RVV_CHANGES);
}

/*! \brief Requantise n accumulators and add the residual b. */
TVMRT_INLINE void tvmrt_micro_residual_row(const tvmrt_micro_residual* s, uint8_t* y,
                                           const int32_t* acc,
                                           const tvmrt_micro_multiplier* multipliers,
                                           const uint8_t* b, int32_t n) {
  const int32_t own = s->range.lo < 0 ? 0x80 : 0, other = s->other_signed ? 0x80 : 0;
  const int32_t add = s->offset - own * s->own_multiplier - other * s->other_multiplier;
  uint8_t q[TVMRT_MICRO_CHUNK];
  for (int32_t i = 0; i < n; i += TVMRT_MICRO_CHUNK) {
    const int32_t count = n - i < TVMRT_MICRO_CHUNK ? n - i : TVMRT_MICRO_CHUNK;
    tvmrt_micro_requantize(q, acc + i, multipliers, count, &s->range);
    tvmrt_micro_rvv_add_residual(s, y + i, q, b + i, count, own, other, add);
    multipliers += TVMRT_MICRO_IS_TWICE(&s->range) ? 2 * count : count;
  }
}
#elif TVMRT_MICRO_MVE_REQUANTIZES
/*! \brief Requantise n accumulators and add the residual b. */
TVMRT_NOINLINE void tvmrt_micro_residual_row(const tvmrt_micro_residual* s, uint8_t* y,
                                             const int32_t* acc,
                                             const tvmrt_micro_multiplier* multipliers,
                                             const uint8_t* b, int32_t n) {
  /* bytes of the operand as uint8, which the flip makes of int8 */
  const int32_t flip = s->other_signed ? 0x80 : 0;
  const int32_t offset = s->offset - flip * s->other_multiplier;
  const int32x4_t low = vdupq_n_s32(s->range.lo), high = vdupq_n_s32(s->range.hi);
  for (; n > 0; n -= 4, y += 4, acc += 4, b += 4) {
    int32x4_t q = tvmrt_micro_mve_requantize_four(acc, multipliers, &s->range, low, high);
    const mve_pred16_t mask = vctp32q((uint32_t)n);
    const uint32x4_t other = veorq_u32(vldrbq_z_u32(b, mask), vdupq_n_u32((uint32_t)flip));
    q = vmulq_n_s32(q, s->own_multiplier);
    q = vaddq_n_s32(vmlaq_n_s32(q, vreinterpretq_s32_u32(other), s->other_multiplier), offset);
    q = vmaxq_s32(vshlq_r_s32(q, -s->shift), vdupq_n_s32(s->lo));
    vstrbq_p_s32((int8_t*)y, vminq_s32(q, vdupq_n_s32(s->hi)), mask);
    multipliers += TVMRT_MICRO_IS_TWICE(&s->range) ? 8 : 4;
  }
}
#else
/*! \brief Requantise n accumulators and add the residual b. */
TVMRT_INLINE void tvmrt_micro_residual_row(const tvmrt_micro_residual* s, uint8_t* y,
                                           const int32_t* acc,
                                           const tvmrt_micro_multiplier* multipliers,
                                           const uint8_t* b, int32_t n) {
  const int32_t flip = s->other_signed ? 0x80 : 0;
  const uint8_t* const end = y + n;
  while (y != end) {
    int32_t q;
    if (TVMRT_MICRO_IS_TWICE(&s->range)) {
      q = tvmrt_micro_round_twice_fixed(*acc++, multipliers[0].fixed, multipliers[1].fixed,
                                        2 * (int32_t)s->range.zero + 1);
      multipliers += 2;
    } else {
      q = tvmrt_micro_requantize_one(*acc++, *multipliers++, s->range.zero);
    }
    q = TVMRT_MICRO_CLAMP(q, s->range.lo, s->range.hi);
    /* (v ^ 0x80) - 0x80 extends the sign; modulo 2 ^ 32: only the sum is a value of int32_t */
    q = (int32_t)((uint32_t)q * (uint32_t)s->own_multiplier +
                  (uint32_t)((*b++ ^ flip) - flip) * (uint32_t)s->other_multiplier +
                  (uint32_t)s->offset) >>
        s->shift;
    *y++ = TVMRT_MICRO_CLAMP_BYTE(q, s->lo, s->hi);
  }
}
#endif

/*! \brief A function like tvmrt_micro_residual_row(). */
typedef void (*tvmrt_micro_residual_function)(const tvmrt_micro_residual* s, uint8_t* y,
                                              const int32_t* acc,
                                              const tvmrt_micro_multiplier* multipliers,
                                              const uint8_t* b, int32_t n);

/*! \brief Call the function for each row, which are not empty. */
TVMRT_INLINE void tvmrt_micro_residual_each_row(const tvmrt_i8_rows* rows, const void* ctx,
                                                tvmrt_micro_residual_function row) {
  const tvmrt_micro_residual_ctx* const to = (const tvmrt_micro_residual_ctx*)ctx;
  const tvmrt_micro_residual* const s = to->layer;
  const tvmrt_micro_multiplier* const multipliers =
      tvmrt_micro_multipliers_at(to->multipliers, &s->range, (int32_t)rows->channel);
  const uint8_t* b =
      (const uint8_t*)to->operand + (int32_t)rows->pixel * s->operand_stride + rows->channel;
  const int32_t* acc = rows->acc;
  uint8_t* y = (uint8_t*)rows->y;
  for (int32_t p = (int32_t)rows->pixels; p > 0; p--) {
    row(s, y, acc, multipliers, b, (int32_t)rows->channels);
    acc += (int32_t)rows->acc_stride;
    y += (int32_t)rows->y_stride;
    b += s->operand_stride;
  }
}

/*! \brief Epilogue (tvmrt_i8_epilogue): requantise the accumulators and add the residual. */
static inline void tvmrt_micro_residual_rows(const tvmrt_i8_rows* rows, const void* ctx) {
  tvmrt_micro_residual_each_row(rows, ctx, tvmrt_micro_residual_row);
}

#if TVMRT_MICRO_CAN_DSP && defined(__GNUC__) && !TVMRT_MICRO_MVE_REQUANTIZES
/*! \brief Requantise n accumulators and add the operand's bytes. Not inlined, as its variables just
 * fit into the registers. */
TVMRT_NOINLINE void tvmrt_micro_residual_full_range(const tvmrt_micro_residual* s, uint8_t* y,
                                                    const int32_t* acc,
                                                    const tvmrt_micro_multiplier* multipliers,
                                                    const uint8_t* operand, int32_t n) {
  const int32_t own = s->own_multiplier, other = s->other_multiplier, add = s->offset,
                places = s->shift;
  const int32_t half = (int32_t)s->range.zero * 16 + 8;
  const uint8_t* const end = y + n;
  do { /* n > 0 */
    const tvmrt_micro_multiplier factor = *multipliers++;
    int32_t q = *acc++;
    if (factor.fixed < 0) {
      __asm("smmls %0, %0, %1, %2\n\tssat %0, #8, %0, asr #4"
            : "+r"(q)
            : "r"(factor.fixed), "r"(half));
    } else {
      q = tvmrt_micro_add_zero_point(tvmrt_micro_scale_and_round(q, factor.scale), half >> 4);
      __asm("ssat %0, #8, %0" : "+r"(q));
    }
    q = (q * own + ((int8_t)*operand++ * other + add)) >> places;
    __asm("ssat %0, #8, %0" : "+r"(q));
    *y++ = (uint8_t)q;
  } while (y != end);
}

/*! \brief tvmrt_micro_residual_full_range() with pairs of multipliers. */
TVMRT_RARELY_CALLED void tvmrt_micro_residual_twice(const tvmrt_micro_residual* s, uint8_t* y,
                                                    const int32_t* acc,
                                                    const tvmrt_micro_multiplier* multipliers,
                                                    const uint8_t* operand, int32_t n) {
  const int32_t own = s->own_multiplier, other = s->other_multiplier, add = s->offset,
                places = s->shift, half = 2 * (int32_t)s->range.zero + 1;
  const uint8_t* const end = y + n;
  for (; y != end; multipliers += 2) {
    int32_t q = *acc++;
    __asm(
        "smmlar %0, %0, %1, %0\n\tadd %0, %0, %0, asr #31\n\tasr %0, %0, %2\n\t"
        "add %0, %0, %3\n\tssat %0, #8, %0, asr #1"
        : "+r"(q)
        : "r"(multipliers[0].fixed), "r"(multipliers[1].fixed), "r"(half));
    q = (q * own + ((int8_t)*operand++ * other + add)) >> places;
    __asm("ssat %0, #8, %0" : "+r"(q));
    *y++ = (uint8_t)q;
  }
}

/*! \brief tvmrt_micro_residual_rows() for int8 bytes and the bounds -128 and 127. */
static inline void tvmrt_micro_residual_full_range_rows(const tvmrt_i8_rows* rows,
                                                        const void* ctx) {
  const tvmrt_micro_residual_ctx* const to = (const tvmrt_micro_residual_ctx*)ctx;
  /* direct calls in both branches, so that the stack has a bound */
  if (TVMRT_MICRO_IS_TWICE(&to->layer->range)) {
    tvmrt_micro_residual_each_row(rows, ctx, tvmrt_micro_residual_twice);
  } else {
    tvmrt_micro_residual_each_row(rows, ctx, tvmrt_micro_residual_full_range);
  }
}
#else
#define tvmrt_micro_residual_full_range_rows tvmrt_micro_residual_rows
#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_RESIDUAL_ADD_I8_H_ */
