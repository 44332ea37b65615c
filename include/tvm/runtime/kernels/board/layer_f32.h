/*!
 * \file board/layer_f32.h
 * \brief Layer descriptors of the float kernels of microcontrollers.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_LAYER_F32_H_
#define TVM_RUNTIME_KERNELS_BOARD_LAYER_F32_H_

#include <stdint.h>

#include "../tile/gemm_f32.h"
#include "shape.h"

/*! \brief A layer. */
typedef struct tvmrt_micro_conv_f32 {
  tvmrt_micro_shape shape;
  int32_t residual_stride; /*!< Pixel stride of the residual in elements. */
  float lo;                /*!< Minimum result; -INFINITY for none. */
  float hi;                /*!< Maximum result; INFINITY for none. */
} tvmrt_micro_conv_f32;

/*! \brief The tensors of a layer; borrowed for the call. */
typedef struct tvmrt_micro_data_f32 {
  const float* x;
  const float* weights;        /*!< Packed. */
  const float* bias;           /*!< Padded to a multiple of four channels; or NULL. */
  const float* residual;       /*!< Added to the sums, or NULL. May be y. */
  float* y;                    /*!< May be x if the layer allows it. */
  tvmrt_epilogue_f32 epilogue; /*!< Called on finished pixels, or NULL. */
  const void* ctx;             /*!< Context of the epilogue. */
} tvmrt_micro_data_f32;

#endif /* TVM_RUNTIME_KERNELS_BOARD_LAYER_F32_H_ */
