/*!
 * \file board/conv_i16_mve.h
 * \brief Dense layers of int16 activations and int8 weights with Helium (Cortex-M55, M85): eight
 * multiply-adds at a time.
 *
 * Packed weights and biases: [quad of output channels][8 elements of the window][channel of the
 * quad][element]. Values, errors and threads: see board/conv_i16.h.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I16_MVE_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I16_MVE_H_

#include "conv_i8_mve.h"

#define TVMRT_MICRO_I16_GROUP 8

#if TVMRT_MICRO_CAN_MVE && TVMRT_MICRO_ASM
TVMRT_DEFINE_MVE_QUADS(mve_i16, int16_t, "vldrh.16", "vldrb.s16", "vmladava.s16", "8")
#define TVMRT_MICRO_I16_TILE(pixels, ...)                   \
  ((pixels) == 2 ? tvmrt_micro_mve_i16_quads_2(__VA_ARGS__) \
                 : tvmrt_micro_mve_i16_quads_1(__VA_ARGS__))
#else
/*! \brief Accumulate some channels of one or two neighbouring output pixels. */
TVMRT_NOINLINE void tvmrt_micro_mve_i16_quads(int32_t pixels, int32_t* sums, const int32_t* bias,
                                              const int16_t* window, const int8_t* weights,
                                              int32_t n, int32_t channels) {
  for (int32_t i = 0; i < channels * pixels; i++) {
    const int32_t channel = i / pixels, p = i % pixels;
    const int8_t* w = weights + channel / 4 * 4 * n + channel % 4 * 8;
    const int16_t* x = window + p * 8;
    int32_t sum = bias[channel];
    for (int32_t k = 0; k < n; k += 8, x += 8 * pixels, w += 32) {
      for (int32_t j = 0; j < 8; j++) TVMRT_WRAP_ADD_TO(sum, x[j] * w[j]);
    }
    sums[p * TVMRT_MICRO_CHUNK + channel] = sum;
  }
}
#define TVMRT_MICRO_I16_TILE tvmrt_micro_mve_i16_quads
#endif

#include "conv_i16.h"

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I16_MVE_H_ */
