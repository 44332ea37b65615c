/*!
 * \file slab_factors_f32.h
 * \brief Channel-wise scaling of pixels, as after squeeze-and-excitation, as a layer of a
 * depth-first chain (slabs_f32.h).
 */
#ifndef TVM_RUNTIME_KERNELS_SLAB_FACTORS_F32_H_
#define TVM_RUNTIME_KERNELS_SLAB_FACTORS_F32_H_

#include "slabs_f32.h"

/* Scale `vectors` vectors of a pixel's channels. */
TVMRT_INLINE void tvmrt_factors_f32_vectors(const float* x, const float* factors, float* y,
                                            const int vectors) {
  const int lanes = TVMRT_SIMD_LANES_F32;
  for (int v = 0; v < vectors; v++) {
    const tvmrt_f32v factor = TVMRT_F32V(load)(factors + v * lanes);
    TVMRT_F32V(store)(y + v * lanes, TVMRT_F32V(load)(x + v * lanes) * factor);
  }
}

/*! \brief A tvmrt_slab_kernel_fn; the scales are the weights. */
static inline void tvmrt_factors_f32_slab(const struct tvmrt_pool_layer* none,
                                          const tvmrt_layer_f32* part, int32_t behind,
                                          const tvmrt_data_f32* data, int c_begin, int c_end) {
  const tvmrt_window* w = &part->window;
  const int lanes = TVMRT_SIMD_LANES_F32;
  const float* factors = data->w;
  (void)none;
  (void)behind;
  for (int64_t p = 0; p < w->out[2]; p++) {
    const float* x = data->x + p * w->x_stride;
    float* y = data->y + p * w->y_stride;
    int c = c_begin;
    for (; c_end - c >= 4 * lanes; c += 4 * lanes) {
      tvmrt_factors_f32_vectors(x + c, factors + c, y + c, 4);
    }
    for (; c_end - c >= lanes; c += lanes) {
      tvmrt_factors_f32_vectors(x + c, factors + c, y + c, 1);
    }
    if (c < c_end) {
      const tvmrt_f32v factor = TVMRT_F32V(load_n)(factors + c, c_end - c);
      TVMRT_F32V(store_n)(y + c, TVMRT_F32V(load_n)(x + c, c_end - c) * factor, c_end - c);
    }
  }
}

#endif /* TVM_RUNTIME_KERNELS_SLAB_FACTORS_F32_H_ */
