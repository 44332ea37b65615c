/*!
 * \file board/dense_f32.h
 * \brief Small dense layers in float32 on microcontrollers: as little code as can be.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_
#define TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_

#include <stdint.h>

#include "../scalar/compiler.h"
#include "layer_f32.h"

/*!
 * \brief y[o] = w[o][0] + sum of x[i] * w[o][1 + i], with 0 for what is negative where asked for.
 *
 * \param x     [in] Inputs.
 * \param y     [out] Results; not x.
 * \param w     [in] Bias and weights of each result.
 * \param layer [in] Inputs << 16 | results << 1 | whether there is a rectifier. It is a number, as
 *                   compilers put that into a register where they call, and the call is a jump then.
 * \return 0.
 */
TVMRT_NOINLINE int tvmrt_micro_dense_f32(const float* x, float* y, const float* w, uint32_t layer) {
  const uint32_t inputs = layer >> 16, results = layer >> 1 & 0x7FFF, relu = layer & 1;
  const float* const end = y + results;
  do {
    float sum = *w++;
    uint32_t i = 0;
    do {
      sum = TVMRT_FMAF(x[i], *w++, sum);
    } while (++i != inputs);
    *y++ = relu != 0 && sum < 0.0f ? 0.0f : sum;
  } while (y != end);
  return 0;
}

/*!
 * \brief y = the product of x and the weights, which have the bias of each result in front.
 *
 * \param c    [in] A layer of one pixel, whose bounds are 0 or none; a literal, of which nothing is
 *                  left in memory then.
 * \param data [in] x, y, which may not be x, and weights; there is no bias, residual or epilogue.
 *
 * Values, errors and threads: as of tvmrt_micro_dense_f32(), on the caller alone.
 */
TVMRT_INLINE int tvmrt_micro_dense_f32_run(const tvmrt_micro_conv_f32* c,
                                           const tvmrt_micro_data_f32* data) {
  const uint32_t inputs = (uint32_t)c->shape.in_c, results = (uint32_t)c->shape.out_c;
  const uint32_t relu = c->lo == 0.0f ? 1 : 0;
  return tvmrt_micro_dense_f32(data->x, data->y, data->weights, inputs << 16 | results << 1 | relu);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_ */
