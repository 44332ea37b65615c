/*!
 * \file tile/gemv_f32.h
 * \brief Float32 micro-kernel for one pixel whose weights are not in the cache: it streams a run of
 * them from several addresses at a time.
 *
 * Arguments, result and packed weights are those of tile/gemm_f32.h; the line
 *
 *   TVMRT_DEFINE_GEMV_F32(16, 2, 4)
 *
 * defines tvmrt_gemv_f32_16x2x4, of V = 16 lanes, NR = 2 vectors, and PARTS = 4 parts of a run with
 * separate accumulators. The product of one row is bound by the latency of its weights, and one
 * sequential stream has fewer cache lines in flight than several. The hardware prefetcher works
 * within a page and restarts at its end. tvmrt.compiler.codegen.window.tiles_f32 chooses this tile:
 * Tiles.in_parts().
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_GEMV_F32_H_
#define TVM_RUNTIME_KERNELS_TILE_GEMV_F32_H_

#include "gemm_f32.h"

/* clang-format off */
#define TVMRT_DEFINE_GEMV_F32(V, NR, PARTS)                                                        \
  TVMRT_DEFINE_GEMV_F32_NAMED(tvmrt_gemv_f32_##V##x##NR##x##PARTS, tvmrt_f32x##V, V, NR, PARTS)

#define TVMRT_DEFINE_GEMV_F32_NAMED(NAME, VEC, V, NR, PARTS)                                       \
  TVMRT_NOINLINE void NAME(const tvmrt_tile_f32* tile, int64_t x_offset, const float* w,           \
                           const float* bias, const float* residual, float* out, int channels) {   \
    enum { kChains = PARTS };                                                                      \
    const intptr_t w_stride = (intptr_t)tile->w_stride, part = (intptr_t)tile->run / (PARTS);      \
    const intptr_t w_part = part * w_stride;                                                       \
    VEC sum[kChains][1][NR];                                                                       \
    TVMRT_TILE_F32_EACH(o, NR) {                                                                   \
      sum[0][0][o] = bias ? VEC##_load(bias + o * (V)) : VEC##_splat(0.0f);                        \
      TVMRT_TILE_F32_EACH(p, kChains - 1) sum[p + 1][0][o] = VEC##_splat(0.0f);                    \
    }                                                                                              \
    for (int64_t s = 0; s < tile->segment_count; s++) {                                            \
      const float* wk = w + tile->segments[s].w;                                                   \
      const float* x = tile->segments[s].x + x_offset;                                             \
      for (intptr_t k = 0; k < part; k++) {                                                        \
        TVMRT_TILE_F32_EACH(p, kChains) {                                                          \
          const VEC pixel = VEC##_splat(x[p * part]);                                              \
          TVMRT_TILE_F32_EACH(o, NR)                                                               \
            sum[p][0][o] = VEC##_fma(pixel, VEC##_load(wk + p * w_part + o * (V)), sum[p][0][o]);  \
        }                                                                                          \
        x++;                                                                                       \
        wk += w_stride;                                                                            \
      }                                                                                            \
      x += (kChains - 1) * part;                                                                   \
      wk += (kChains - 1) * w_part;                                                                \
      for (intptr_t k = kChains * part; k < (intptr_t)tile->run; k++) {                            \
        const VEC pixel = VEC##_splat(*x++);                                                       \
        TVMRT_TILE_F32_EACH(o, NR)                                                                 \
          sum[0][0][o] = VEC##_fma(pixel, VEC##_load(wk + o * (V)), sum[0][0][o]);                 \
        wk += w_stride;                                                                            \
      }                                                                                            \
    }                                                                                              \
    TVMRT_TILE_F32_ENDS(VEC)                                                                       \
    TVMRT_TILE_F32_FINISH(VEC, V, NR, 1)                                                           \
  }
/* clang-format on */

#endif /* TVM_RUNTIME_KERNELS_TILE_GEMV_F32_H_ */
