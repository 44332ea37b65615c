/*!
 * \file conv_transpose_bf16.h
 * \brief Transposed convolution of float32 images in bfloat16: products of rounded operands,
 * accumulated in float32.
 *
 * The loops are those of conv_transpose_f32.h over pairs of input channels, as in conv_bf16.h. All
 * rows go through the line buffer; each is rounded once, when it is copied there.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_BF16_H_
#define TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_BF16_H_

#include "conv_bf16.h"
#include "conv_transpose_f32.h"

static inline int tvmrt_conv_transpose_bf16_task(int task, TVMParallelGroupEnv* env,
                                                 void* closure) {
  const tvmrt_job_f32* job = (const tvmrt_job_f32*)closure;
  const tvmrt_row_plan* rows = &job->layer->rows;
  tvmrt_bf16_begin(job->tiles, rows->run);
  const int rc =
      tvmrt_conv_transpose_task_by(tvmrt_round_pixels, job, rows->floats, task, env->num_task);
  tvmrt_bf16_end(job->tiles);
  return rc;
}

/*! \brief y = clamp(transposed convolution(x, w) + bias + residual), then the epilogue; like
 * tvmrt_conv_transpose_f32() with x and w rounded to bfloat16. Layer as in tvmrt_conv_bf16(); its
 * rows are in the line buffer. */
static inline int tvmrt_conv_transpose_bf16(const tvmrt_layer_f32* layer,
                                            const tvmrt_tiles_f32* tiles,
                                            const tvmrt_data_f32* data) {
  tvmrt_job_f32 job = {layer, tiles, data};
  return tvmrt_launch(tvmrt_conv_transpose_bf16_task, &job, layer->work,
                      tvmrt_bf16_macs(tiles) * TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_BF16_H_ */
