/*!
 * \file requantize.h
 * \brief Rows of numbers between int32 sums, 8-bit tensors and float: what follows an integer
 * kernel.
 *
 * A row is n neighbouring numbers. Rounding is to the nearest integer, ties to even. All functions
 * compute with single roundings and never contract a product and a sum, so every processor gives
 * the same bytes. Pointers may be equal where the element sizes are; otherwise input and output do
 * not overlap.
 */
#ifndef TVM_RUNTIME_KERNELS_REQUANTIZE_H_
#define TVM_RUNTIME_KERNELS_REQUANTIZE_H_

#include "conv_i8.h"
#include "simd_i8.h"

/*! \brief One element of an 8-bit tensor. */
TVMRT_INLINE int32_t tvmrt_i8_get(const uint8_t* p, int is_signed) {
  return is_signed ? (int32_t) * (const int8_t*)p : (int32_t)*p;
}

/*! \brief The value itself, which the compiler may not merge with a sum that follows. */
TVMRT_INLINE float tvmrt_i8_rounded(float product) {
#if defined(__FMA__) && defined(__GNUC__)
  __asm__("" : "+x"(product));
#elif defined(__aarch64__) && defined(__GNUC__)
  __asm__("" : "+w"(product));
#elif defined(__FP_FAST_FMAF) && defined(__GNUC__)
  __asm__("" : "+m"(product));
#endif
  return product;
}

/*! \brief q = clamp(round(x / scale) + zero): QuantizeLinear. */
static inline void tvmrt_quantize_row(uint8_t* y, const float* x, int64_t n, float scale,
                                      const tvmrt_i8_range* range) {
  float lo = (float)(range->lo - range->zero);
  float hi = (float)(range->hi - range->zero);
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] / scale;
    /* NaN becomes the least value; the bounds first, so that the rounding below holds. */
    v = v > lo ? v : lo;
    v = v < hi ? v : hi;
    v += TVMRT_I8_ROUND;
    int32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    y[i] = (uint8_t)(bits - 0x4B400000 + range->zero);
  }
}

/*! \brief x = (q - zero) * scale: DequantizeLinear of an 8-bit tensor. */
static inline void tvmrt_dequantize_row(float* y, const uint8_t* x, int64_t n, float scale,
                                        int32_t zero, int is_signed) {
  if (is_signed) {
    const int8_t* s = (const int8_t*)x;
    for (int64_t i = 0; i < n; i++) y[i] = (float)(s[i] - zero) * scale;
  } else {
    for (int64_t i = 0; i < n; i++) y[i] = (float)(x[i] - zero) * scale;
  }
}

/*! \brief y[i] = acc[i] * scale[i]: DequantizeLinear of int32 sums, one scale per channel. */
static inline void tvmrt_dequantize_acc(float* y, const int32_t* acc, const float* scale,
                                        int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (float)acc[i] * scale[i];
}

/*! \brief y[i] = clamp(round(acc[i] * scale[i]) + zero). */
static inline void tvmrt_requantize_row(uint8_t* y, const int32_t* acc, const float* scale,
                                        int64_t n, const tvmrt_i8_range* range) {
  float lo = (float)(range->lo - range->zero);
  float hi = (float)(range->hi - range->zero);
  for (int64_t i = 0; i < n; i++) {
    float v = (float)acc[i] * scale[i];
    v = v > lo ? v : lo;
    v = v < hi ? v : hi;
    v = tvmrt_i8_rounded(v) + TVMRT_I8_ROUND;
    int32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    y[i] = (uint8_t)(bits - 0x4B400000 + range->zero);
  }
}

/*! \brief y[i] = table[x[i]]; for int8 the table is indexed by the bits of x, so that entry 255
 * belongs to -1. */
static inline void tvmrt_table_row(uint8_t* y, const uint8_t* x, const uint8_t table[256],
                                   int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = table[x[i]];
}

/* ---- epilogues of convolutions and matrix products ---- */

/*! \brief For tvmrt_i8_rows_requantize_table. */
typedef struct tvmrt_i8_table_ctx {
  const float* scale;   /*!< Per output channel. */
  tvmrt_i8_range range; /*!< Of the values that enter the table. */
  const uint8_t* table; /*!< 256 bytes. */
} tvmrt_i8_table_ctx;

/*! \brief For tvmrt_i8_rows_add. */
typedef struct tvmrt_i8_add_ctx {
  const float* scale;   /*!< Multiplier of the sums per output channel. */
  tvmrt_i8_range inner; /*!< Range to which the sums are rounded before the addition. */
  const uint8_t* other; /*!< The other tensor: pixel 0, channel 0. */
  int64_t other_stride; /*!< Bytes from one of its pixels to the next. */
  int32_t other_zero;   /*!< Its zero point. */
  int32_t other_signed; /*!< 1: int8, 0: uint8. */
  float inner_scale;    /*!< Factor of the rounded sums less their zero point. */
  float other_scale;    /*!< Factor of the other tensor less its zero point. */
  float divisor; /*!< What the sum of the products is divided by; 1 where the factors contain it. */
  tvmrt_i8_range range; /*!< Of the output. */
} tvmrt_i8_add_ctx;

/*! \brief Epilogue: the int32 sums themselves. ctx is not used. */
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

/*! \brief Epilogue: y = table[rescaled sum], for a unary function between two 8-bit tensors. ctx:
 * tvmrt_i8_table_ctx. */
static inline void tvmrt_i8_rows_table(const tvmrt_i8_rows* rows, const void* ctx) {
  const tvmrt_i8_table_ctx* t = (const tvmrt_i8_table_ctx*)ctx;
  for (int32_t p = 0; p < rows->pixels; p++) {
    uint8_t* y = (uint8_t*)rows->y + p * rows->y_stride;
    tvmrt_requantize_row(y, rows->acc + p * rows->acc_stride, t->scale + rows->channel,
                         rows->channels, &t->range);
    tvmrt_table_row(y, y, t->table, rows->channels);
  }
}

/*!
 * \brief n elements of y = clamp(round((a * fa + b * fb) / divisor) + zero), a and b less their
 * zero points.
 *
 * With the factors a_scale and b_scale and the divisor y_scale this is DequantizeLinear, Add,
 * QuantizeLinear to the bit; with a_scale / y_scale, b_scale / y_scale and 1 it is QLinearAdd.
 */
static inline void tvmrt_add_i8_row(uint8_t* y, const uint8_t* a, int32_t a_zero, int a_signed,
                                    float fa, const uint8_t* b, int32_t b_zero, int b_signed,
                                    float fb, float divisor, int64_t n,
                                    const tvmrt_i8_range* range) {
  float lo = (float)(range->lo - range->zero);
  float hi = (float)(range->hi - range->zero);
  for (int64_t i = 0; i < n; i++) {
    float u = tvmrt_i8_rounded((float)(tvmrt_i8_get(a + i, a_signed) - a_zero) * fa);
    float v = u + tvmrt_i8_rounded((float)(tvmrt_i8_get(b + i, b_signed) - b_zero) * fb);
    if (divisor != 1.0f) v /= divisor;
    v = v > lo ? v : lo;
    v = v < hi ? v : hi;
    v += TVMRT_I8_ROUND;
    int32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    y[i] = (uint8_t)(bits - 0x4B400000 + range->zero);
  }
}

/*! \brief Epilogue: another 8-bit tensor is added to the rescaled and rounded sums. ctx:
 * tvmrt_i8_add_ctx. */
static inline void tvmrt_i8_rows_add(const tvmrt_i8_rows* rows, const void* ctx) {
  const tvmrt_i8_add_ctx* t = (const tvmrt_i8_add_ctx*)ctx;
  for (int32_t p = 0; p < rows->pixels; p++) {
    uint8_t* y = (uint8_t*)rows->y + p * rows->y_stride;
    const uint8_t* other =
        t->other + (rows->pixel + p * rows->pixel_step) * t->other_stride + rows->channel;
    tvmrt_requantize_row(y, rows->acc + p * rows->acc_stride, t->scale + rows->channel,
                         rows->channels, &t->inner);
    tvmrt_add_i8_row(y, y, t->inner.zero, t->inner.is_signed, t->inner_scale, other, t->other_zero,
                     t->other_signed, t->other_scale, t->divisor, rows->channels, &t->range);
  }
}

#endif /* TVM_RUNTIME_KERNELS_REQUANTIZE_H_ */
