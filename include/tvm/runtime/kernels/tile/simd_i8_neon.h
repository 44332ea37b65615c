/*!
 * \file tile/simd_i8_neon.h
 * \brief The vector operations of ARM's formats, 4 lanes; a part of tile/simd_i8.h.
 *
 * Before: tile/simd_i8.h, which includes this file where TVMRT_I8_FORMAT is
 * TVMRT_I8_NEON or TVMRT_I8_NEON_DOT or TVMRT_I8_NEON_I8MM or TVMRT_I8_NEON32.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_NEON_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_NEON_H_

#if !defined(TVMRT_I8_CAN_VNNI) || !TVMRT_I8_ANY_NEON
#error "tile/simd_i8_neon.h is a part of tile/simd_i8.h: define TVMRT_I8_FORMAT, include that"
#else

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define TVMRT_I8_LANES 4
#define TVMRT_I8_QUAD_BYTES 16
typedef int32x4_t tvmrt_i8_acc;

TVMRT_INLINE uint32_t tvmrt_i8_four_signed(const uint8_t* p, int is_signed) {
  uint32_t four;
  memcpy(&four, p, sizeof(four));
  return is_signed ? four : four ^ 0x80808080u;
}

#if TVMRT_I8_FORMAT == TVMRT_I8_NEON_DOT || TVMRT_I8_FORMAT == TVMRT_I8_NEON_I8MM
typedef int8x16_t tvmrt_i8_weights;
typedef int8x16_t tvmrt_i8_quad;
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_weights_load(const int8_t* p) { return vld1q_s8(p); }
TVMRT_INLINE tvmrt_i8_quad tvmrt_i8_quad_load(const uint8_t* p, int is_signed) {
  return vreinterpretq_s8_u32(vdupq_n_u32(tvmrt_i8_four_signed(p, is_signed)));
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_dot(tvmrt_i8_acc acc, tvmrt_i8_quad x, tvmrt_i8_weights w) {
  return vdotq_s32(acc, x, w);
}
#else
typedef struct tvmrt_i8_quad {
  int8x8_t first, second; /* bytes 0 and 1, bytes 2 and 3, each pair repeated */
} tvmrt_i8_quad;
typedef tvmrt_i8_quad tvmrt_i8_weights; /* those bytes of each lane */
#if TVMRT_I8_FORMAT == TVMRT_I8_NEON32
/* int8 [lane][4], with the pairs separated */
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_weights_load(const int8_t* p) {
  const int16x4x2_t v = vld2_s16((const int16_t*)(const void*)p);
  tvmrt_i8_weights w;
  w.first = vreinterpret_s8_s16(v.val[0]);
  w.second = vreinterpret_s8_s16(v.val[1]);
  return w;
}
#else
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_weights_load(const int8_t* p) {
  tvmrt_i8_weights w;
  w.first = vld1_s8(p);
  w.second = vld1_s8(p + 8);
  return w;
}
/* int8 [lane][4], with the pairs separated */
#define tvmrt_i8_shared_load tvmrt_i8_bytes_load
TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_bytes_load(const int8_t* p) {
  const int16x8_t v = vreinterpretq_s16_s8(vld1q_s8(p));
  tvmrt_i8_weights w;
  w.first = vreinterpret_s8_s16(vget_low_s16(vuzp1q_s16(v, v)));
  w.second = vreinterpret_s8_s16(vget_low_s16(vuzp2q_s16(v, v)));
  return w;
}
#endif
TVMRT_INLINE tvmrt_i8_quad tvmrt_i8_quad_load(const uint8_t* p, int is_signed) {
  uint32_t four = tvmrt_i8_four_signed(p, is_signed);
  tvmrt_i8_quad quad;
  quad.first = vreinterpret_s8_u16(vdup_n_u16((uint16_t)four));
  quad.second = vreinterpret_s8_u16(vdup_n_u16((uint16_t)(four >> 16)));
  return quad;
}
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_dot(tvmrt_i8_acc acc, tvmrt_i8_quad x, tvmrt_i8_weights w) {
  acc = vpadalq_s16(acc, vmull_s8(x.first, w.first));
  return vpadalq_s16(acc, vmull_s8(x.second, w.second));
}
#endif

#define tvmrt_i8_add_shifted(acc, shift, sum) vmlaq_n_s32(acc, vld1q_s32(shift), sum)
#if TVMRT_I8_FORMAT == TVMRT_I8_NEON32
/* No instruction rounds to the nearest; an addition does for values that are small enough. Values
 * beyond a byte's range are clamped anyway. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale(tvmrt_i8_acc acc, const float* scale) {
  const float32x4_t bound = vdupq_n_f32(1048576.0f);
  float32x4_t v = vmulq_f32(vcvtq_f32_s32(acc), vld1q_f32(scale));
  v = vmaxq_f32(vminq_f32(v, bound), vnegq_f32(bound));
  v = vaddq_f32(v, vdupq_n_f32(TVMRT_I8_ROUND));
  return vsubq_s32(vreinterpretq_s32_f32(v), vdupq_n_s32(0x4B400000));
}
#else
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale(tvmrt_i8_acc acc, const float* scale) {
  return vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(acc), vld1q_f32(scale)));
}
#endif
TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_rescale_fixed(int rounding, tvmrt_i8_acc acc,
                                                 const int32_t* fixed, int64_t stride) {
  const int32x4_t m = vld1q_s32(fixed), n = vmvnq_s32(vld1q_s32(fixed + stride)); /* -n */
  int32x4_t x = rounding == TVMRT_ROUND_ONCE ? vqdmulhq_s32(acc, m) : vqrdmulhq_s32(acc, m);
  if (rounding == TVMRT_ROUND_TWICE) x = vsraq_n_s32(x, x, 31);
  return vrshlq_s32(x, n);
}
TVMRT_INLINE void tvmrt_i8_store_packed(uint8_t* y, tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                        tvmrt_i8_acc d, const tvmrt_i8_range* range, int n) {
  int offset = range->is_signed ? 128 : 0;
  int16x8_t zero = vdupq_n_s16((int16_t)(range->zero + offset));
  int16x8_t ab = vqaddq_s16(vcombine_s16(vqmovn_s32(a), vqmovn_s32(b)), zero);
  int16x8_t cd = vqaddq_s16(vcombine_s16(vqmovn_s32(c), vqmovn_s32(d)), zero);
  uint8x16_t v = vcombine_u8(vqmovun_s16(ab), vqmovun_s16(cd));
  v = vmaxq_u8(v, vdupq_n_u8((uint8_t)(range->lo + offset)));
  v = vminq_u8(v, vdupq_n_u8((uint8_t)(range->hi + offset)));
  v = veorq_u8(v, vdupq_n_u8((uint8_t)offset));
  memcpy(y, &v, (size_t)n);
}

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_NEON_H_ */
