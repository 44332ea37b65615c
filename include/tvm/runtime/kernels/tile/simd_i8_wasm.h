/*!
 * \file tile/simd_i8_wasm.h
 * \brief The vector operations of TVMRT_I8_WASM, 4 lanes; a part of tile/simd_i8.h.
 *
 * Before: tile/simd_i8.h, which includes this file where TVMRT_I8_FORMAT is TVMRT_I8_WASM.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_WASM_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_WASM_H_

#if !defined(TVMRT_I8_CAN_VNNI) || TVMRT_I8_FORMAT != TVMRT_I8_WASM
#error "tile/simd_i8_wasm.h is a part of tile/simd_i8.h: define TVMRT_I8_FORMAT, include that"
#else

#include <stdint.h>
#include <string.h>
#include <wasm_simd128.h>

#define TVMRT_I8_LANES 4
#define TVMRT_I8_QUAD_BYTES 16
typedef v128_t tvmrt_i8_acc;
/* Broadcast four bytes of the input to all lanes. */
TVMRT_INLINE v128_t tvmrt_i8_four_load(const uint8_t* p, int is_signed) {
  const v128_t x = wasm_v128_load32_splat(p);
  return is_signed ? wasm_v128_xor(x, wasm_u8x16_const_splat(0x80)) : x;
}
TVMRT_DEFINE_I8_EVEN_ODD(wasm_i32x4_dot_i16x8)
#define tvmrt_i8_weights_load tvmrt_i8_bytes_load
/* Conversions with saturation take several instructions on processors; an addition rounds values
 * that are small enough. Values beyond a byte's range are clamped anyway. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale(tvmrt_i8_acc acc, const float* scale) {
  v128_t v = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(acc), wasm_v128_load(scale));
  v = wasm_f32x4_pmax(v, wasm_f32x4_const_splat(-1048576.0f));
  v = wasm_f32x4_pmin(v, wasm_f32x4_const_splat(1048576.0f));
  v = wasm_f32x4_add(v, wasm_f32x4_const_splat(TVMRT_I8_ROUND));
  return wasm_i32x4_sub(v, wasm_i32x4_const_splat(0x4B400000));
}
/* (a * b + half) >> 31 */
TVMRT_INLINE v128_t tvmrt_wasm_fixed_product(v128_t a, v128_t b, int64_t half) {
  v128_t low = wasm_i64x2_add(wasm_i64x2_extmul_low_i32x4(a, b), wasm_i64x2_splat(half));
  v128_t high = wasm_i64x2_add(wasm_i64x2_extmul_high_i32x4(a, b), wasm_i64x2_splat(half));
  low = wasm_i64x2_shl(low, 1);
  high = wasm_i64x2_shl(high, 1);
  return wasm_i32x4_shuffle(low, high, 1, 3, 5, 7);
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale_fixed(int rounding, tvmrt_i8_acc acc,
                                                 const int32_t* fixed, int64_t stride) {
  const int64_t half = TVMRT_I8_FIRST_HALF(rounding);
  v128_t x = tvmrt_wasm_fixed_product(acc, wasm_v128_load(fixed), half);
  if (rounding == TVMRT_ROUND_TWICE) x = wasm_i32x4_add(x, wasm_i32x4_shr(x, 31));
  return tvmrt_wasm_fixed_product(x, wasm_v128_load(fixed + stride), (int64_t)1 << 30);
}
TVMRT_INLINE void tvmrt_i8_store_packed(uint8_t* y, tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                        tvmrt_i8_acc d, const tvmrt_i8_range* range, int n) {
  const int offset = range->is_signed ? 128 : 0;
  const v128_t zero = wasm_i16x8_splat((int16_t)(range->zero + offset));
  const v128_t ab = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(a, b), zero);
  const v128_t cd = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(c, d), zero);
  v128_t v = wasm_u8x16_narrow_i16x8(ab, cd);
  v = wasm_u8x16_max(v, wasm_i8x16_splat((int8_t)(range->lo + offset)));
  v = wasm_u8x16_min(v, wasm_i8x16_splat((int8_t)(range->hi + offset)));
  v = wasm_v128_xor(v, wasm_i8x16_splat((int8_t)offset));
  memcpy(y, &v, (size_t)n);
}

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_WASM_H_ */
