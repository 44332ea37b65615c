/*!
 * \file board/dequantize_i8.h
 * \brief Epilogue of an int8 layer whose result is dequantised at once, as at the end of networks
 * with float outputs. One function serves all layers and networks of an image.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEQUANTIZE_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEQUANTIZE_I8_H_

#include <stdint.h>

#include "../scalar/quant.h"
#include "../scalar/soft_float.h"
#include "../tile/epilogue_i8.h"

/*! \brief The context of tvmrt_micro_dequantize_rows(). */
typedef struct tvmrt_micro_dequantize_ctx {
  float acc_scale;   /*!< Scale from accumulators to quantised values. */
  float scale;       /*!< Scale from quantised values to the float result. */
  int32_t min_value; /*!< The minimum quantised value minus the zero point. */
} tvmrt_micro_dequantize_ctx;

/*! \brief Epilogue (tvmrt_i8_epilogue): requantise accumulators, then dequantise them to floats. */
static inline void tvmrt_micro_dequantize_rows(const tvmrt_i8_rows* rows, const void* ctx) {
  const tvmrt_micro_dequantize_ctx by = *(const tvmrt_micro_dequantize_ctx*)ctx;
  const int32_t* acc = rows->acc;
  float* y = (float*)rows->y;
  for (int32_t p = rows->pixels; p > 0; p--) {
    const int32_t* from = acc;
    float* to = y;
    const int32_t* const end = from + rows->channels;
    while (from != end) {
      const float sum = tvmrt_mul_f32(tvmrt_int32_to_f32(*from++), by.acc_scale);
      const int32_t above = tvmrt_round_and_add_zero_point(sum, -by.min_value, 0, 255);
      *to++ = tvmrt_dequantize(above + by.min_value, by.scale);
    }
    acc += (int32_t)rows->acc_stride;
    y += (int32_t)rows->y_stride;
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEQUANTIZE_I8_H_ */
