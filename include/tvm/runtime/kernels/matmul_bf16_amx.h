/*!
 * \file matmul_bf16_amx.h
 * \brief The products of matmul_bf16.h by the tiles of AMX.
 */
#ifndef TVM_RUNTIME_KERNELS_MATMUL_BF16_AMX_H_
#define TVM_RUNTIME_KERNELS_MATMUL_BF16_AMX_H_

#include "matmul_bf16.h"
#include "tile/amx_bf16.h"

static inline int tvmrt_matmul_bf16_amx_task(int task, TVMParallelGroupEnv* env, void* closure) {
  tvmrt_amx_begin();
  const int rc = tvmrt_matmul_bf16_task(task, env, closure);
  tvmrt_amx_end();
  return rc;
}

/*! \brief As tvmrt_matmul_bf16(), by tiles of AMX. */
static inline int tvmrt_matmul_bf16_amx(const tvmrt_matmul_f32_layer* layer,
                                        const tvmrt_tiles_f32* tiles, const float* a,
                                        const float* b, const float* bias, const float* residual,
                                        float* y, tvmrt_epilogue_f32 epilogue, const void* ctx) {
  tvmrt_matmul_f32_job job = {layer, tiles, a, b, bias, residual, y, epilogue, ctx};
  return tvmrt_launch(tvmrt_matmul_bf16_amx_task, &job, tvmrt_matmul_bf16_work(layer),
                      TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_MATMUL_BF16_AMX_H_ */
