/*!
 * \file depth_first_pool_f32.h
 * \brief Pooling as a layer of a depth-first chain, some rows at a time (depth_first_f32.h).
 */
#ifndef TVM_RUNTIME_KERNELS_DEPTH_FIRST_POOL_F32_H_
#define TVM_RUNTIME_KERNELS_DEPTH_FIRST_POOL_F32_H_

#include "depth_first_f32.h"
#include "pool.h"

/*! \brief A tvmrt_depth_first_kernel_fn. */
static inline void tvmrt_pool_f32_some_rows(const struct tvmrt_pool_layer* pool,
                                            const tvmrt_layer_f32* part, int32_t pad_end_rows,
                                            const tvmrt_data_f32* data, int c_begin, int c_end) {
  tvmrt_pool_layer layer = *pool;
  const tvmrt_pool_f32_job job = {&layer, data->x, data->y, data->epilogue, data->ctx};
  layer.window = part->window;
  layer.pad_end[1] += pad_end_rows; /* end of the padding, relative to the last available row */
  tvmrt_pool_f32_part(&job, 0, (int64_t)layer.window.out[1] * layer.window.out[2], c_begin, c_end);
}

#endif /* TVM_RUNTIME_KERNELS_DEPTH_FIRST_POOL_F32_H_ */
