/*!
 * \file board/float_rows_i8.h
 * \brief What follows the sums of a layer whose bytes become floats at once, as at the end of networks
 * for callers with floats: one function for all layers and networks of an image.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_FLOAT_ROWS_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_FLOAT_ROWS_I8_H_

#include <stdint.h>

#include "../scalar/quant.h"
#include "../scalar/soft.h"
#include "../tile/rows_i8.h"

/*! \brief The context of tvmrt_micro_float_rows(). */
typedef struct tvmrt_micro_floats {
  float sum;     /*!< What sums are multiplied by to be bytes. */
  float byte;    /*!< What bytes are multiplied by to be results. */
  int32_t least; /*!< The least of all 256 bytes, less the zero point. */
} tvmrt_micro_floats;

/*! \brief An epilogue (tvmrt_i8_epilogue): sums rounded to bytes, which are scaled to floats. */
static inline void tvmrt_micro_float_rows(const tvmrt_i8_rows* rows, const void* ctx) {
  const tvmrt_micro_floats by = *(const tvmrt_micro_floats*)ctx;
  const int32_t* acc = rows->acc;
  float* y = (float*)rows->y;
  for (int32_t p = rows->pixels; p > 0; p--) {
    const int32_t* from = acc;
    float* to = y;
    const int32_t* const end = from + rows->channels;
    while (from != end) {
      const float sum = tvmrt_times_f32(tvmrt_whole_f32(*from++), by.sum);
      const int32_t above = tvmrt_round_number(sum, -by.least, 0, 255);
      *to++ = tvmrt_dequantize(above + by.least, by.byte);
    }
    acc += (int32_t)rows->acc_stride;
    y += (int32_t)rows->y_stride;
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_FLOAT_ROWS_I8_H_ */
