/*!
 * \file board/dense_f32.h
 * \brief Small dense layers in float32 on microcontrollers, optimised for code size.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_
#define TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_

#include <stdint.h>

#include "../scalar/compiler.h"
#include "layer_f32.h"

/*!
 * \brief Sizes and flags of a layer: inputs << 16 | outputs << 1 | 1 if a ReLU follows, see
 * tvmrt_micro_dense_size_of().
 *
 * An integer, because compilers load it into a register at the call, which is then a tail call. A
 * struct of bit fields takes up to 40 bytes of code more in a network (GCC).
 */
typedef uint32_t tvmrt_micro_dense_size;

/*! \brief Encode the size of a layer; results < 2 ^ 15, inputs < 2 ^ 16. */
TVMRT_INLINE tvmrt_micro_dense_size tvmrt_micro_dense_size_of(uint32_t inputs, uint32_t results,
                                                              uint32_t rectified) {
  return inputs << 16 | results << 1 | rectified;
}

/*!
 * \brief y[o] = w[o][0] + sum of x[i] * w[o][1 + i], followed by a ReLU if requested.
 *
 * \param x    [in] Inputs.
 * \param y    [out] Outputs; must not be x.
 * \param w    [in] Bias and weights of each output.
 * \param size [in] At least one input and one output.
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
 * \brief Compute y = weights * x, where the weights of each output start with its bias.
 *
 * \param c    [in] A layer of one pixel with a lower bound of 0 or none. Pass a literal, so that
 * the compiler removes the struct.
 * \param data [in] x, y (must not be x) and weights; bias, residual and epilogue must be absent.
 *
 * Values, errors and threads: as tvmrt_micro_dense_f32(), on the calling thread alone.
 */
TVMRT_INLINE int tvmrt_micro_dense_f32_run(const tvmrt_micro_conv_f32* c,
                                           const tvmrt_micro_data_f32* data) {
  const tvmrt_micro_dense_size size = tvmrt_micro_dense_size_of(
      (uint32_t)c->shape.in_c, (uint32_t)c->shape.out_c, c->lo == 0.0f ? 1 : 0);
  return tvmrt_micro_dense_f32(data->x, data->y, data->weights, size);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_ */
