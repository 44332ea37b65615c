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
 * \brief What the function is told of a layer: inputs << 16 | results << 1 | whether there is a
 * rectifier, see tvmrt_micro_dense_size_of().
 *
 * A number, as compilers load that into a register where they call, and the call is a jump then. A
 * struct of bit fields takes up to 40 bytes of code more in a network, by GCC.
 */
typedef uint32_t tvmrt_micro_dense_size;

/*! \brief The size of a layer; results are less than 2 ^ 15, inputs less than 2 ^ 16. */
TVMRT_INLINE tvmrt_micro_dense_size tvmrt_micro_dense_size_of(uint32_t inputs, uint32_t results,
                                                              uint32_t rectified) {
  return inputs << 16 | results << 1 | rectified;
}

/*!
 * \brief y[o] = w[o][0] + sum of x[i] * w[o][1 + i], with 0 for what is negative where asked for.
 *
 * \param x    [in] Inputs.
 * \param y    [out] Results; not x.
 * \param w    [in] Bias and weights of each result.
 * \param size [in] At least one input and one result.
 * \return 0.
 */
TVMRT_NOINLINE int tvmrt_micro_dense_f32(const float* x, float* y, const float* w,
                                         tvmrt_micro_dense_size size) {
  const uint32_t inputs = size >> 16, results = size >> 1 & 0x7FFF, rectified = size & 1;
  const float* const end = y + results;
  do {
    float sum = *w++;
    uint32_t i = 0;
    do {
      sum = TVMRT_FMAF(x[i], *w++, sum);
    } while (++i != inputs);
    *y++ = rectified != 0 && sum < 0.0f ? 0.0f : sum;
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
  const tvmrt_micro_dense_size size = tvmrt_micro_dense_size_of(
      (uint32_t)c->shape.in_c, (uint32_t)c->shape.out_c, c->lo == 0.0f ? 1 : 0);
  return tvmrt_micro_dense_f32(data->x, data->y, data->weights, size);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_ */
