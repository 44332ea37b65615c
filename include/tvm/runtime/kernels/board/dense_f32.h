/*!
 * \file board/dense_f32.h
 * \brief Small dense layers in float32 on microcontrollers: as little code as can be.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_
#define TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_

#include <stdint.h>

#include "../tile/simd.h"

/*!
 * \brief A layer: extents below 32768, and 1 for RELU where results are not to be negative.
 *
 * It is a number, as compilers put that into a register where they call, and the call is a jump
 * then. A structure is read from a table: 16 bytes of code more in a network that has 240.
 */
typedef uint32_t tvmrt_micro_dense;
#define TVMRT_MICRO_DENSE(INPUTS, RESULTS, RELU) \
  ((tvmrt_micro_dense)(INPUTS) << 16 | (tvmrt_micro_dense)(RESULTS) << 1 | (RELU))

/*!
 * \brief y[o] = w[o][0] + sum of x[i] * w[o][1 + i], with 0 for what is negative where asked for.
 *
 * \param x [in] Inputs.
 * \param y [out] Results; not x.
 * \param w [in] Bias and weights of each result.
 * \return 0.
 */
TVMRT_NOINLINE int tvmrt_micro_dense_f32(const float* x, float* y, const float* w,
                                         tvmrt_micro_dense layer) {
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

#endif /* TVM_RUNTIME_KERNELS_BOARD_DENSE_F32_H_ */
