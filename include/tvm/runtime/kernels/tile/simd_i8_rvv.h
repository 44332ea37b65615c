/*!
 * \file tile/simd_i8_rvv.h
 * \brief The vector operations of TVMRT_I8_RVV, 8 lanes; a part of tile/simd_i8.h.
 *
 * The RISC-V vector extension multiplies a vector by a scalar. A quad of inputs is therefore four
 * scalars and its weights are four vectors, widened once for all pixels of a tile. Eight lanes are
 * two registers of 128 bits, the minimum of the extension.
 *
 * Before: tile/simd_i8.h, which includes this file where TVMRT_I8_FORMAT is TVMRT_I8_RVV.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_RVV_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_RVV_H_

#if !defined(TVMRT_I8_CAN_VNNI) || TVMRT_I8_FORMAT != TVMRT_I8_RVV
#error "tile/simd_i8_rvv.h is a part of tile/simd_i8.h: define TVMRT_I8_FORMAT, include that"
#else

#include <stdint.h>
#include <string.h>

#define TVMRT_I8_LANES 8
#define TVMRT_I8_QUAD_BYTES 32
typedef tvmrt_i32x8 tvmrt_i8_acc;
typedef uint8_t tvmrt_rvv_bytes __attribute__((vector_size(8)));
typedef struct tvmrt_i8_quad {
  int32_t v[4];
} tvmrt_i8_quad;
/* byte 0 of each lane, byte 1 of each lane, and so on */
typedef struct tvmrt_i8_weights {
  tvmrt_i32x8 v[4];
} tvmrt_i8_weights;

TVMRT_INLINE tvmrt_i8_quad tvmrt_i8_quad_load(const uint8_t* p, int is_signed) {
  tvmrt_i8_quad quad;
  for (int i = 0; i < 4; i++)
    quad.v[i] = is_signed ? (int32_t)((const int8_t*)p)[i] : (int32_t)p[i];
  return quad;
}
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_weights_load(const int8_t* p) {
  typedef uint32_t quads __attribute__((vector_size(32)));
  quads all;
  tvmrt_i8_weights w;
  memcpy(&all, p, sizeof(all));
  w.v[0] = (tvmrt_i32x8)(all << 24) >> 24;
  w.v[1] = (tvmrt_i32x8)(all << 16) >> 24;
  w.v[2] = (tvmrt_i32x8)(all << 8) >> 24;
  w.v[3] = (tvmrt_i32x8)all >> 24;
  return w;
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_dot(tvmrt_i8_acc acc, tvmrt_i8_quad x, tvmrt_i8_weights w) {
  for (int i = 0; i < 4; i++) acc += w.v[i] * x.v[i];
  return acc;
}
/* The clamping keeps the compiler from fusing the product with the addition that rounds it. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale(tvmrt_i8_acc acc, const float* scale) {
  const tvmrt_f32x8 bound = tvmrt_f32x8_splat(1048576.0f);
  tvmrt_f32x8 v = __builtin_convertvector(acc, tvmrt_f32x8) * tvmrt_f32x8_load(scale);
  v = tvmrt_f32x8_max(tvmrt_f32x8_min(v, bound), -bound);
  return (tvmrt_i32x8)(v + TVMRT_I8_ROUND) - 0x4B400000;
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale_fixed(int rounding, tvmrt_i8_acc acc,
                                                 const int32_t* fixed, int64_t stride) {
  typedef int64_t wide __attribute__((vector_size(64)));
  const wide m = __builtin_convertvector(tvmrt_i32x8_load(fixed), wide);
  const wide product = __builtin_convertvector(acc, wide) * m + TVMRT_I8_FIRST_HALF(rounding);
  tvmrt_i32x8 x = __builtin_convertvector(product >> 31, tvmrt_i32x8);
  if (rounding == TVMRT_ROUND_TWICE) x += x >> 31;
  return ((x >> tvmrt_i32x8_load(fixed + stride)) + 1) >> 1;
}
/* Add the zero point, clamp, and store n of LANES values. */
TVMRT_INLINE void tvmrt_rvv_store(uint8_t* y, tvmrt_i8_acc v, const tvmrt_i8_range* range, int n) {
  const tvmrt_i32x8 lo = tvmrt_i32x8_splat(range->lo), hi = tvmrt_i32x8_splat(range->hi);
  v += range->zero;
  tvmrt_i32x8 take = v < lo;
  v = (take & lo) | (~take & v);
  take = v > hi;
  v = (take & hi) | (~take & v);
  const tvmrt_rvv_bytes bytes = __builtin_convertvector(v, tvmrt_rvv_bytes);
  memcpy(y, &bytes, (size_t)n);
}
TVMRT_INLINE void tvmrt_i8_store_packed(uint8_t* y, tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                        tvmrt_i8_acc d, const tvmrt_i8_range* range, int n) {
  const tvmrt_i8_acc all[4] = {a, b, c, d};
  TVMRT_UNROLL_ALL for (int i = 0; i < 4; i++) {
    const int left = n - i * TVMRT_I8_LANES;
    if (left >= TVMRT_I8_LANES) {
      tvmrt_rvv_store(y + i * TVMRT_I8_LANES, all[i], range, TVMRT_I8_LANES);
    } else if (left > 0) {
      tvmrt_rvv_store(y + i * TVMRT_I8_LANES, all[i], range, left);
    }
  }
}

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_RVV_H_ */
