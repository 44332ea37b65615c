/*!
 * \file tile/requantize.h
 * \brief Conversion of rows between int32 accumulators, 8-bit tensors and float.
 *
 * A row is n contiguous elements. Rounding is to the nearest integer, ties to even. All functions
 * round after each operation and never contract a product and a sum, so every processor gives the
 * same bytes. Pointers may be equal if the element sizes are; otherwise input and output must not
 * overlap.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_REQUANTIZE_H_
#define TVM_RUNTIME_KERNELS_TILE_REQUANTIZE_H_

#include "../scalar/quant.h"
#include "epilogue_i8.h"
#include "simd_i8.h"

/*! \brief y[i] = acc[i] * scale[i]: int32 sums with one scale per channel to float. */
static inline void tvmrt_dequantize_acc(float* y, const int32_t* acc, const float* scale,
                                        int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (float)acc[i] * scale[i];
}

/*! \brief y[i] = clamp(round(acc[i] * scale[i]) + zero), for products of any magnitude. */
static inline void tvmrt_requantize_row(uint8_t* y, const int32_t* acc, const float* scale,
                                        int64_t n, const tvmrt_i8_range* range) {
  const int32_t zero = range->zero, low = range->lo - zero, high = range->hi - zero;
  for (int64_t i = 0; i < n; i++) {
    y[i] = (uint8_t)(tvmrt_round_and_clamp((float)acc[i] * scale[i], low, high) + zero);
  }
}

/*!
 * \brief y[i] = table[x[i]]: any unary function of an 8-bit tensor, including a change of scale.
 *
 * For int8 the table is indexed by the bits of x, so that entry 255 belongs to -1. y may be x.
 */
static inline void tvmrt_table_row(uint8_t* y, const uint8_t* x, const uint8_t table[256],
                                   int64_t n) {
  int64_t i = 0;
#if defined(TVMRT_BOARD)
#elif defined(__AVX512VBMI__) && defined(__AVX512BW__)
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (; i < n; i += 64) {
    const __mmask64 inside = ~(uint64_t)0 >> (n - i < 64 ? 64 - (n - i) : 0);
    __m512i index = _mm512_maskz_loadu_epi8(inside, x + i);
    __m512i low = _mm512_permutex2var_epi8(t0, index, t1);
    __m512i high = _mm512_permutex2var_epi8(t2, index, t3);
    _mm512_mask_storeu_epi8(y + i, inside,
                            _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
#elif defined(__aarch64__) && defined(__ARM_NEON)
  const uint8x16x4_t t0 = vld1q_u8_x4(table), t1 = vld1q_u8_x4(table + 64);
  const uint8x16x4_t t2 = vld1q_u8_x4(table + 128), t3 = vld1q_u8_x4(table + 192);
  for (; i + 16 <= n; i += 16) {
    uint8x16_t index = vld1q_u8(x + i), step = vdupq_n_u8(64);
    uint8x16_t v = vqtbl4q_u8(t0, index);
    v = vqtbx4q_u8(v, t1, index = vsubq_u8(index, step));
    v = vqtbx4q_u8(v, t2, index = vsubq_u8(index, step));
    vst1q_u8(y + i, vqtbx4q_u8(v, t3, vsubq_u8(index, step)));
  }
#endif
  for (; i < n; i++) y[i] = table[x[i]];
}

TVMRT_INLINE void tvmrt_add_i8_lanes(const tvmrt_add_i8* f, uint8_t* y, const uint8_t* a,
                                     const uint8_t* b) {
  tvmrt_i8_floats u = tvmrt_i8_floats_load(a, f->a_zero, f->a_signed) * f->fa;
  tvmrt_i8_floats v = tvmrt_i8_floats_load(b, f->b_zero, f->b_signed) * f->fb;
  u = tvmrt_i8_floats_unfused_product(u) + tvmrt_i8_floats_unfused_product(v);
  if (f->divisor != 1.0f) u = u / f->divisor;
  tvmrt_i8_floats_store(y, u, &f->range);
}

/* NAME: applies LANES to vectors of n elements of a and b, with FACTORS. y may be a or b. */
#define TVMRT_DEFINE_PAIR_I8_ROW(NAME, FACTORS, LANES)                                      \
  static inline void NAME(const FACTORS* f, uint8_t* y, const uint8_t* a, const uint8_t* b, \
                          int64_t n) {                                                      \
    int64_t i = 0;                                                                          \
    for (; i + TVMRT_I8_LANES <= n; i += TVMRT_I8_LANES) LANES(f, y + i, a + i, b + i);     \
    if (i < n) {                                                                            \
      uint8_t tail[3][TVMRT_I8_LANES] = {{0}};                                              \
      memcpy(tail[0], a + i, (size_t)(n - i));                                              \
      memcpy(tail[1], b + i, (size_t)(n - i));                                              \
      LANES(f, tail[2], tail[0], tail[1]);                                                  \
      memcpy(y + i, tail[2], (size_t)(n - i));                                              \
    }                                                                                       \
  }
TVMRT_DEFINE_PAIR_I8_ROW(tvmrt_add_i8_row, tvmrt_add_i8, tvmrt_add_i8_lanes)

/* ---- epilogues of convolutions and matmuls ---- */

/*! \brief Context of tvmrt_i8_rows_requantize. */
typedef struct tvmrt_i8_requantize_ctx {
  const float* scale;   /*!< Multiplier of the sums per output channel. */
  tvmrt_i8_range range; /*!< Range of the output. */
} tvmrt_i8_requantize_ctx;

/*! \brief Epilogue: requantised bytes for multipliers too large for the tile's code. */
static inline void tvmrt_i8_rows_requantize(const tvmrt_i8_rows* rows, const void* ctx) {
  const tvmrt_i8_requantize_ctx* t = (const tvmrt_i8_requantize_ctx*)ctx;
  for (int32_t p = 0; p < rows->pixels; p++) {
    tvmrt_requantize_row((uint8_t*)rows->y + p * rows->y_stride, rows->acc + p * rows->acc_stride,
                         t->scale + rows->channel, rows->channels, &t->range);
  }
}

/*! \brief Epilogue: the int32 sums themselves. ctx is unused. */
static inline void tvmrt_i8_rows_int32(const tvmrt_i8_rows* rows, const void* ctx) {
  (void)ctx;
  for (int32_t p = 0; p < rows->pixels; p++) {
    memcpy((int32_t*)rows->y + p * rows->y_stride, rows->acc + p * rows->acc_stride,
           (size_t)rows->channels * 4);
  }
}

/*! \brief Epilogue: y = sum * scale as float. ctx: const float*, x_scale * w_scale per output
 * channel. */
static inline void tvmrt_i8_rows_float(const tvmrt_i8_rows* rows, const void* ctx) {
  const float* scale = (const float*)ctx + rows->channel;
  for (int32_t p = 0; p < rows->pixels; p++) {
    tvmrt_dequantize_acc((float*)rows->y + p * rows->y_stride, rows->acc + p * rows->acc_stride,
                         scale, rows->channels);
  }
}

#endif /* TVM_RUNTIME_KERNELS_TILE_REQUANTIZE_H_ */
