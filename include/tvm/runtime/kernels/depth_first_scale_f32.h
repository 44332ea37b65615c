/*!
 * \file depth_first_scale_f32.h
 * \brief Channel-wise scaling of pixels, as after squeeze-and-excitation, as a layer of a
 * depth-first chain (depth_first_f32.h).
 */
#ifndef TVM_RUNTIME_KERNELS_DEPTH_FIRST_SCALE_F32_H_
#define TVM_RUNTIME_KERNELS_DEPTH_FIRST_SCALE_F32_H_

#include "depth_first_f32.h"

/* Scale `vectors` vectors of a pixel's channels. */
TVMRT_INLINE void tvmrt_scale_f32_vectors(const float* x, const float* scales, float* y,
                                          const int vectors) {
  const int lanes = TVMRT_SIMD_LANES_F32;
  for (int v = 0; v < vectors; v++) {
    const tvmrt_f32v factor = TVMRT_F32V(load)(scales + v * lanes);
    TVMRT_F32V(store)(y + v * lanes, TVMRT_F32V(load)(x + v * lanes) * factor);
  }
}

/*! \brief A tvmrt_depth_first_kernel_fn; the scales are the weights. */
static inline void tvmrt_scale_f32_rows(const struct tvmrt_pool_layer* none,
                                        const tvmrt_layer_f32* part, int32_t pad_end_rows,
                                        const tvmrt_data_f32* data, int c_begin, int c_end) {
  const tvmrt_window* w = &part->window;
  const int lanes = TVMRT_SIMD_LANES_F32;
  const float* scales = data->w;
  (void)none;
  (void)pad_end_rows;
  for (int64_t p = 0; p < w->out[2]; p++) {
    const float* x = data->x + p * w->x_stride;
    float* y = data->y + p * w->y_stride;
    int c = c_begin;
    for (; c_end - c >= 4 * lanes; c += 4 * lanes) {
      tvmrt_scale_f32_vectors(x + c, scales + c, y + c, 4);
    }
    for (; c_end - c >= lanes; c += lanes) {
      tvmrt_scale_f32_vectors(x + c, scales + c, y + c, 1);
    }
    if (c < c_end) {
      const tvmrt_f32v factor = TVMRT_F32V(load_n)(scales + c, c_end - c);
      TVMRT_F32V(store_n)(y + c, TVMRT_F32V(load_n)(x + c, c_end - c) * factor, c_end - c);
    }
  }
}

#endif /* TVM_RUNTIME_KERNELS_DEPTH_FIRST_SCALE_F32_H_ */
