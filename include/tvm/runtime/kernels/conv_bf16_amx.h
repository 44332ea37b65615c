/*!
 * \file conv_bf16_amx.h
 * \brief The convolutions of conv_bf16.h by the tiles of AMX.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_BF16_AMX_H_
#define TVM_RUNTIME_KERNELS_CONV_BF16_AMX_H_

#include "conv_bf16.h"
#include "tile/amx_bf16.h"

static inline int tvmrt_conv_bf16_amx_task(int task, TVMParallelGroupEnv* env, void* closure) {
  tvmrt_amx_begin();
  const int rc = tvmrt_conv_bf16_task(task, env, closure);
  tvmrt_amx_end();
  return rc;
}

/*! \brief As tvmrt_conv_bf16(), by tiles of AMX. */
static inline int tvmrt_conv_bf16_amx(const tvmrt_layer_f32* layer, const tvmrt_tiles_f32* tiles,
                                      const tvmrt_data_f32* data) {
  tvmrt_job_f32 job = {layer, tiles, data};
  return tvmrt_launch_on(tvmrt_conv_bf16_amx_task, &job, layer->work, TVMRT_PARALLEL_MIN_MACS,
                         layer->threads);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_BF16_AMX_H_ */
