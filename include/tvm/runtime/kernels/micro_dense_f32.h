/*!
 * \file micro_dense_f32.h
 * \brief Small dense layers in float32 on microcontrollers: as little code as can be.
 */
#ifndef TVM_RUNTIME_KERNELS_MICRO_DENSE_F32_H_
#define TVM_RUNTIME_KERNELS_MICRO_DENSE_F32_H_

#include <stdint.h>

#include "simd.h"

/*!
 * \brief y[o] = w[o][0] + sum of x[i] * w[o][1 + i], with 0 for what is negative where asked for.
 *
 * \param x    [in] Inputs.
 * \param y    [out] Results; not x.
 * \param w    [in] Bias and weights of each result.
 * \param size [in] inputs * 65536 + results * 2 + (1 for the bound, or 0); both below 32768. One
 *             number, as the call is a jump then.
 * \return 0.
 */
TVMRT_NOINLINE int tvmrt_micro_dense_f32(const float* x, float* y, const float* w, uint32_t size) {
  const float* const end = y + (size >> 1 & 0x7FFF);
  do {
    float sum = *w++;
    uint32_t i = 0;
    do {
      sum = TVMRT_FMAF(x[i], *w++, sum);
    } while (++i != size >> 16);
    *y++ = (size & 1) != 0 && sum < 0.0f ? 0.0f : sum;
  } while (y != end);
  return 0;
}

#endif /* TVM_RUNTIME_KERNELS_MICRO_DENSE_F32_H_ */
