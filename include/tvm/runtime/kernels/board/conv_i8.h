/*!
 * \file board/conv_i8.h
 * \brief Dense layers of 8-bit tensors on microcontrollers by pairs of 16-bit numbers, with weights
 * of two channels apart or joint.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I8_H_

#include "pairs_i8.h"
/* the walk, by that tile */
#include "conv_walk_i8.h"

/*! \brief tvmrt_micro_conv_i8_run() with joint weights, see board/joint_i8.h. */
static inline int tvmrt_micro_conv_i8_run_joint(const tvmrt_micro_conv_i8* c,
                                                const tvmrt_micro_data* data) {
  return tvmrt_micro_conv_all(c, data, 1, TVMRT_MICRO_ANY);
}

/*! \brief tvmrt_micro_pointwise_i8_run() with joint weights. */
static inline int tvmrt_micro_pointwise_i8_run_joint(const tvmrt_micro_conv_i8* c,
                                                     const tvmrt_micro_data* data) {
  return tvmrt_micro_conv_all(c, data, 1, TVMRT_MICRO_POINTS);
}

/*! \brief tvmrt_micro_pixel_i8_run() with joint weights. */
static inline int tvmrt_micro_pixel_i8_run_joint(const tvmrt_micro_conv_i8* c,
                                                 const tvmrt_micro_data* data) {
  return tvmrt_micro_conv_all(c, data, 1, TVMRT_MICRO_PIXEL);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I8_H_ */
