/*!
 * \file tile/gemm_bf16.h
 * \brief Micro-kernel over pairs of bfloat16: MR pixels times NR vectors of output channels.
 *
 * Two neighbours along the reduction share a 32-bit word, the first in its lower half. So
 * tile/gemm_f32.h applies to pairs in place of floats: strides, offsets and the run count pairs, and the
 * tiles are interchangeable. Accumulators, bias, residual and result are float32. The lines
 *
 *   TVMRT_DEFINE_TILE_BF16(16, 2, 14)
 *   TVMRT_DEFINE_TILE_BF16(16, 2, 6)
 *
 * define tvmrt_tile_bf16_16x2x14 and the tail of rows of 14 n + 6 pixels. Worked example of packed
 * weights, a 1x1 convolution of 3 input and 3 output channels with V = 2, NR = 1 (w[oc][ic] without
 * brackets, the lower half of each word first):
 *
 *   block 0: w00|w01 w10|w11, w02|0 w12|0
 *   block 1: w20|w21 0|0,     w22|0 0|0
 *
 * Tiles use the processor's dot-product instruction for such pairs. Without one, tiles ..._WIDE
 * read both elements of an input pair as floats that were rounded to bfloat16 before, two in place
 * of each word, and widen the weights in registers: the products of the same rounded operands, at
 * the speed of floats. The sums differ in their last bits.
 *
 * Tiles ..._MMLA are for an instruction that multiplies two rows of four elements by two others
 * (BFMMLA of AArch64, V = 4). For two neighbouring pixels and a vector of channels these tiles hold
 *
 *   p0c0 p0c1 p1c0 p1c1   p0c2 p0c3 p1c2 p1c3
 *
 * while they accumulate, and rearrange the data at their start and end. Weights of two neighbouring
 * k are combined in registers, once for all pixels: the packed order is that of all other tiles.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_GEMM_BF16_H_
#define TVM_RUNTIME_KERNELS_TILE_GEMM_BF16_H_

#include "../scalar/half.h"
#include "../scalar/pairs.h"
#include "gemm_f32.h"
#include "intrinsics.h"

#if defined(__AVX512BF16__) && defined(__AVX512VL__) && defined(__AVX512BW__)
#define TVMRT_HAS_BF16_DOT 1
#else
#define TVMRT_HAS_BF16_DOT 0
#endif
#if defined(__aarch64__) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define TVMRT_HAS_BF16_MMLA 1
#else
#define TVMRT_HAS_BF16_MMLA 0
#endif

/* ---- L pairs in a vector; p points to words of any alignment ---- */

/* Both halves of each pair as floats. */
#define TVMRT_DEFINE_BF16_UNPACK(L)                                         \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_bf16x##L##_first(tvmrt_i32x##L pairs) {  \
    return (tvmrt_f32x##L)(pairs << 16);                                    \
  }                                                                         \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_bf16x##L##_second(tvmrt_i32x##L pairs) { \
    return (tvmrt_f32x##L)(pairs & -65536);                                 \
  }

/* sum + the products of both halves of each pair */
#define TVMRT_DEFINE_BF16_DOT(L)                                                            \
  TVMRT_INLINE tvmrt_f32x##L tvmrt_bf16x##L##_dot(tvmrt_i32x##L a, tvmrt_i32x##L b,         \
                                                  tvmrt_f32x##L sum) {                      \
    sum = tvmrt_f32x##L##_fma(tvmrt_bf16x##L##_second(a), tvmrt_bf16x##L##_second(b), sum); \
    return tvmrt_f32x##L##_fma(tvmrt_bf16x##L##_first(a), tvmrt_bf16x##L##_first(b), sum);  \
  }

TVMRT_INLINE tvmrt_i32x1 tvmrt_i32x1_load(const int32_t* p) { return *p; }
TVMRT_INLINE tvmrt_i32x1 tvmrt_i32x1_splat(int32_t s) { return s; }
TVMRT_INLINE tvmrt_i32x1 tvmrt_bf16x1_keep(tvmrt_i32x1 v) { return v; }
TVMRT_INLINE tvmrt_f32x1 tvmrt_bf16x1_first(tvmrt_i32x1 pair) {
  return tvmrt_from_bits_f32((uint32_t)pair << 16);
}
TVMRT_INLINE tvmrt_f32x1 tvmrt_bf16x1_second(tvmrt_i32x1 pair) {
  return tvmrt_from_bits_f32((uint32_t)pair & 0xffff0000u);
}
TVMRT_DEFINE_BF16_DOT(1)

#if defined(__GNUC__)
#define TVMRT_DEFINE_BF16_KEEP(L)                                     \
  TVMRT_INLINE tvmrt_i32x##L tvmrt_bf16x##L##_keep(tvmrt_i32x##L v) { \
    return (tvmrt_i32x##L)tvmrt_f32x##L##_keep((tvmrt_f32x##L)v);     \
  }
TVMRT_DEFINE_BF16_KEEP(4)
TVMRT_DEFINE_BF16_KEEP(8)
TVMRT_DEFINE_BF16_KEEP(16)
TVMRT_DEFINE_BF16_UNPACK(4)
TVMRT_DEFINE_BF16_UNPACK(8)
TVMRT_DEFINE_BF16_UNPACK(16)

#if TVMRT_HAS_BF16_DOT
TVMRT_INLINE tvmrt_f32x4 tvmrt_bf16x4_dot(tvmrt_i32x4 a, tvmrt_i32x4 b, tvmrt_f32x4 sum) {
  return (tvmrt_f32x4)_mm_dpbf16_ps((__m128)sum, (__m128bh)a, (__m128bh)b);
}
TVMRT_INLINE tvmrt_f32x8 tvmrt_bf16x8_dot(tvmrt_i32x8 a, tvmrt_i32x8 b, tvmrt_f32x8 sum) {
  return (tvmrt_f32x8)_mm256_dpbf16_ps((__m256)sum, (__m256bh)a, (__m256bh)b);
}
TVMRT_INLINE tvmrt_f32x16 tvmrt_bf16x16_dot(tvmrt_i32x16 a, tvmrt_i32x16 b, tvmrt_f32x16 sum) {
  return (tvmrt_f32x16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#else
#if TVMRT_HAS_BF16_MMLA
TVMRT_INLINE tvmrt_f32x4 tvmrt_bf16x4_dot(tvmrt_i32x4 a, tvmrt_i32x4 b, tvmrt_f32x4 sum) {
  return (tvmrt_f32x4)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
}
#else
TVMRT_DEFINE_BF16_DOT(4)
#endif
TVMRT_DEFINE_BF16_DOT(8)
TVMRT_DEFINE_BF16_DOT(16)
#endif

/* ---- two rows of two pairs each in a vector ---- */

/* Load two rows, at a and b. */
TVMRT_INLINE tvmrt_i32x4 tvmrt_bf16x4_rows(const int32_t* a, const int32_t* b) {
#if TVMRT_HAS_BF16_MMLA
  return (tvmrt_i32x4)vcombine_s32(vld1_s32(a), vld1_s32(b));
#else
  return (tvmrt_i32x4){a[0], a[1], b[0], b[1]};
#endif
}

/* sum + the dot product of each row of a with each of b: a0 b0, a0 b1, a1 b0, a1 b1 */
TVMRT_INLINE tvmrt_f32x4 tvmrt_bf16x4_mmla(tvmrt_i32x4 a, tvmrt_i32x4 b, tvmrt_f32x4 sum) {
#if TVMRT_HAS_BF16_MMLA
  return (tvmrt_f32x4)vbfmmlaq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
#else
  const tvmrt_i32x4 first = {a[0], a[0], a[2], a[2]}, second = {a[1], a[1], a[3], a[3]};
  sum = tvmrt_bf16x4_dot(first, (tvmrt_i32x4){b[0], b[2], b[0], b[2]}, sum);
  return tvmrt_bf16x4_dot(second, (tvmrt_i32x4){b[1], b[3], b[1], b[3]}, sum);
#endif
}
#endif /* __GNUC__ */

/* ---- floats to pairs ---- */

TVMRT_INLINE uint32_t tvmrt_bf16_pair(float first, float second) {
  return tvmrt_f32_to_bfloat16(first) | (uint32_t)tvmrt_f32_to_bfloat16(second) << 16;
}

/*!
 * \brief Round `count` contiguous floats to the nearest bfloat16, ties to even, in (count + 1) / 2
 * pairs; the last is zero-padded. Denormals may become 0.
 */
TVMRT_INLINE void tvmrt_bf16_round(int32_t* pairs, const float* x, int64_t count) {
#if TVMRT_HAS_BF16_DOT
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i));
    _mm512_storeu_si512(pairs + i / 2, (__m512i)both);
  }
  if (i < count) {
    const int left = (int)(count - i), words = (left + 1) / 2;
    const __mmask16 low = (__mmask16)(left >= 16 ? 0xffff : (1u << left) - 1);
    const __mmask16 high = (__mmask16)(left > 16 ? (1u << (left - 16)) - 1 : 0);
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + i + 16),
                                              _mm512_maskz_loadu_ps(low, x + i));
    _mm512_mask_storeu_epi32(pairs + i / 2, (__mmask16)((1u << words) - 1), (__m512i)both);
  }
#else
  int64_t i = 0;
#if TVMRT_HAS_BF16_MMLA
  for (; i + 4 <= count / 2; i += 4) {
    const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(x + 2 * i));
    vst1q_s32(pairs + i, (int32x4_t)vcvtq_high_bf16_f32(low, vld1q_f32(x + 2 * i + 4)));
  }
#endif
  for (; i < count / 2; i++) {
    pairs[i] = (int32_t)tvmrt_bf16_pair(x[2 * i], x[2 * i + 1]);
  }
  if (count % 2) pairs[count / 2] = (int32_t)tvmrt_bf16_pair(x[count - 1], 0.0f);
#endif
}

#if TVMRT_HAS_BF16_DOT
/* Rows of at most 32 floats, such as groups of channels: all share the same masks. */
TVMRT_INLINE void tvmrt_bf16_round_short(int32_t* pairs, int64_t stride, const float* x,
                                         int64_t x_stride, int64_t rows, int count) {
  const int words = (count + 1) / 2;
  const __mmask16 low = (__mmask16)(count >= 16 ? 0xffff : (1u << count) - 1);
  const __mmask16 high = (__mmask16)(count > 16 ? (1u << (count - 16)) - 1 : 0);
  const __mmask16 whole = (__mmask16)((1u << words) - 1);
  for (int64_t i = 0; i < rows; i++) {
    const __m512 second = high ? _mm512_maskz_loadu_ps(high, x + 16) : _mm512_setzero_ps();
    const __m512bh both = _mm512_cvtne2ps_pbh(second, _mm512_maskz_loadu_ps(low, x));
    _mm512_mask_storeu_epi32(pairs, whole, (__m512i)both);
    x += x_stride;
    pairs += stride;
  }
}
#endif

/*! \brief Round `count` contiguous floats likewise but keep them as floats; an odd count is
 * padded with 0. */
TVMRT_INLINE void tvmrt_bf16_round_wide(float* rounded, const float* x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    rounded[i] = tvmrt_bfloat16_to_f32(tvmrt_f32_to_bfloat16(x[i]));
  }
  if (count % 2) rounded[count] = 0.0f;
}

/*!
 * \brief Round `rows` rows of `count` floats, x_stride floats apart, for tiles that read `each`
 * words per pair: 1 (pairs) or 2 (floats). Rows of words are `stride` words apart.
 */
static inline void tvmrt_bf16_round_rows(void* words, int64_t stride, int each, const float* x,
                                         int64_t x_stride, int64_t rows, int64_t count) {
  if (x_stride == count && stride * 2 == count * each) {
    count *= rows;
    rows = 1;
  }
#if TVMRT_HAS_BF16_DOT
  if (each == 1 && count <= 32) {
    tvmrt_bf16_round_short((int32_t*)words, stride, x, x_stride, rows, (int)count);
    return;
  }
#endif
  for (int64_t i = 0; i < rows; i++) {
    if (each == 1) {
      tvmrt_bf16_round((int32_t*)words + i * stride, x + i * x_stride, count);
    } else {
      tvmrt_bf16_round_wide((float*)words + i * stride, x + i * x_stride, count);
    }
  }
}

/* Round leading pixels of two or four NCHW channels to neighbouring pairs; \return how many.
 * Missing channels are NULL. */
TVMRT_INLINE int64_t tvmrt_bf16_round_some_nchw_pixels(int32_t* pairs, const float* const plane[4],
                                                       int64_t count) {
  int64_t i = 0;
#if TVMRT_HAS_BF16_DOT
  uint16_t lane_index[3][32];
  for (int lane = 0; lane < 32; lane++) {
    lane_index[0][lane] = (uint16_t)(lane / 2 + lane % 2 * 16);
    lane_index[1][lane] = (uint16_t)(lane / 4 + lane % 4 * 16);
    lane_index[2][lane] = (uint16_t)(lane / 4 + lane % 4 * 16 + 8);
  }
  const __m512i of_two = _mm512_loadu_si512(lane_index[0]), low = _mm512_loadu_si512(lane_index[1]),
                high = _mm512_loadu_si512(lane_index[2]);
  for (; i + 16 <= count; i += 16) {
    __m512 x[4];
    TVMRT_TILE_F32_EACH(p, 4) x[p] = plane[p] ? _mm512_loadu_ps(plane[p] + i) : _mm512_setzero_ps();
    const __m512i first = (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]);
    if (plane[2]) {
      const __m512i second = (__m512i)_mm512_cvtne2ps_pbh(x[3], x[2]);
      _mm512_storeu_si512(pairs + 2 * i, _mm512_permutex2var_epi16(first, low, second));
      _mm512_storeu_si512(pairs + 2 * i + 16, _mm512_permutex2var_epi16(first, high, second));
    } else {
      _mm512_storeu_si512(pairs + i, _mm512_permutexvar_epi16(of_two, first));
    }
  }
#else
  (void)pairs, (void)plane, (void)count;
#endif
  return i;
}

/*!
 * \brief Round `count` pixels of up to four NCHW channels, `channel_stride` floats apart, to pixels of
 * neighbouring pairs of `each` words.
 */
static inline void tvmrt_bf16_round_nchw_pixels(void* words, int each, const float* x,
                                                int64_t channel_stride, int channels,
                                                int64_t count) {
  const float* plane[4];
  const int pairs = (channels + 1) / 2;
  for (int p = 0; p < 4; p++) plane[p] = p < channels ? x + p * channel_stride : NULL;
  int64_t i = each == 1 ? tvmrt_bf16_round_some_nchw_pixels((int32_t*)words, plane, count) : 0;
  for (; i < count; i++) {
    float pixel[4] = {0};
    for (int p = 0; p < channels; p++) pixel[p] = plane[p][i];
    if (each == 1) {
      tvmrt_bf16_round((int32_t*)words + i * pairs, pixel, channels);
    } else {
      tvmrt_bf16_round_wide((float*)words + i * pairs * 2, pixel, channels);
    }
  }
}

/* ---- the tile ---- */

/* Multiply-adds of all pixels with the weights of pair u; one pair per step. */
#define TVMRT_TILE_BF16_STEP(VEC, WORDS, PAIRS, V, NR, MR, u, count)                    \
  WORDS weight[NR];                                                                     \
  TVMRT_TILE_F32_EACH(o, NR) {                                                          \
    weight[o] = WORDS##_load(wk + (u)*w_stride + o * (V));                              \
    if (kKeep) weight[o] = PAIRS##_keep(weight[o]);                                     \
  }                                                                                     \
  TVMRT_TILE_F32_EACH(t, MR) {                                                          \
    WORDS pixel = WORDS##_splat(TVMRT_TILE_F32_X(t, u));                                \
    if (kKeep && (NR) > 1) pixel = PAIRS##_keep(pixel);                                 \
    TVMRT_TILE_F32_EACH(o, NR)                                                          \
    sum[(u) % kChains][t][o] = PAIRS##_dot(pixel, weight[o], sum[(u) % kChains][t][o]); \
  }

#define TVMRT_TILE_BF16_WIDE_STEP(VEC, WORDS, PAIRS, V, NR, MR, u, count)             \
  VEC first[NR], second[NR];                                                          \
  TVMRT_TILE_F32_EACH(o, NR) {                                                        \
    const WORDS weight = WORDS##_load(wk + (u)*w_stride + o * (V));                   \
    first[o] = PAIRS##_first(weight);                                                 \
    second[o] = PAIRS##_second(weight);                                               \
    if (kKeep) first[o] = VEC##_keep(first[o]), second[o] = VEC##_keep(second[o]);    \
  }                                                                                   \
  TVMRT_TILE_F32_EACH(t, MR) {                                                        \
    const VEC pixel = VEC##_splat(TVMRT_TILE_F32_X(t, 2 * (u) + 1));                  \
    TVMRT_TILE_F32_EACH(o, NR)                                                        \
    sum[(u) % kChains][t][o] = VEC##_fma(pixel, second[o], sum[(u) % kChains][t][o]); \
  }                                                                                   \
  TVMRT_TILE_F32_EACH(t, MR) {                                                        \
    const VEC pixel = VEC##_splat(TVMRT_TILE_F32_X(t, 2 * (u)));                      \
    TVMRT_TILE_F32_EACH(o, NR)                                                        \
    sum[(u) % kChains][t][o] = VEC##_fma(pixel, first[o], sum[(u) % kChains][t][o]);  \
  }

/* Multiply-adds of pairs u and u + 1, or of u alone if `count` is 1. */
#define TVMRT_TILE_BF16_MMLA_STEP(VEC, WORDS, PAIRS, V, NR, MR, u, count)                 \
  const int chain = (u) / 2 % kChains, next = (u) + (count)-1;                            \
  WORDS rows[((MR) + 1) / 2];                                                             \
  TVMRT_TILE_F32_EACH(p, (MR) / 2) {                                                      \
    const int32_t *a = &TVMRT_TILE_F32_X(2 * p, u), *b = &TVMRT_TILE_F32_X(2 * p + 1, u); \
    rows[p] = (count) > 1 ? PAIRS##_rows(a, b) : (WORDS){*a, 0, *b, 0};                   \
  }                                                                                       \
  TVMRT_TILE_F32_EACH(o, NR) {                                                            \
    const WORDS low = WORDS##_load(wk + (u)*w_stride + o * (V));                          \
    const WORDS high =                                                                    \
        (count) > 1 ? WORDS##_load(wk + next * w_stride + o * (V)) : WORDS##_splat(0);    \
    const WORDS two = {low[0], high[0], low[1], high[1]};                                 \
    const WORDS others = {low[2], high[2], low[3], high[3]};                              \
    TVMRT_TILE_F32_EACH(t, (MR) / 2 * 2)                                                  \
    sum[chain][t][o] = PAIRS##_mmla(rows[t / 2], t % 2 ? others : two, sum[chain][t][o]); \
    TVMRT_TILE_F32_EACH(odd, (MR) % 2) {                                                  \
      const int t = (MR)-1;                                                               \
      const WORDS one = WORDS##_splat(TVMRT_TILE_F32_X(t, u));                            \
      const WORDS other = WORDS##_splat(TVMRT_TILE_F32_X(t, next));                       \
      sum[chain][t][o] = PAIRS##_dot(one, low, sum[chain][t][o]);                         \
      if ((count) > 1) sum[chain][t][o] = PAIRS##_dot(other, high, sum[chain][t][o]);     \
    }                                                                                     \
  }

/* Convert accumulators of pixels to those of row pairs, and back. */
#define TVMRT_TILE_BF16_TURN(VEC, NR, MR)                         \
  TVMRT_TILE_F32_EACH(c, kChains) {                               \
    TVMRT_TILE_F32_EACH(p, (MR) / 2) {                            \
      TVMRT_TILE_F32_EACH(o, NR) {                                \
        const VEC a = sum[c][2 * p][o], b = sum[c][2 * p + 1][o]; \
        sum[c][2 * p][o] = (VEC){a[0], a[1], b[0], b[1]};         \
        sum[c][2 * p + 1][o] = (VEC){a[2], a[3], b[2], b[3]};     \
      }                                                           \
    }                                                             \
  }
#define TVMRT_TILE_BF16_STAY(VEC, NR, MR)

/* clang-format off */
#define TVMRT_DEFINE_TILE_BF16(V, NR, MR)                                                          \
  TVMRT_DEFINE_TILE_BF16_NAMED(tvmrt_tile_bf16_##V##x##NR##x##MR, V, NR, MR, 1, 1,                 \
                               TVMRT_TILE_BF16_STEP, TVMRT_TILE_BF16_STAY,                         \
                               TVMRT_TILE_F32_UNROLL(NR, MR), TVMRT_TILE_F32_FINISH)
#define TVMRT_DEFINE_TILE_BF16_WIDE(V, NR, MR)                                                     \
  TVMRT_DEFINE_TILE_BF16_NAMED(tvmrt_tile_bf16_wide_##V##x##NR##x##MR, V, NR, MR, 2, 1,            \
                               TVMRT_TILE_BF16_WIDE_STEP, TVMRT_TILE_BF16_STAY,                    \
                               TVMRT_REMAINDER_UNROLL((NR) * (MR)), TVMRT_TILE_F32_FINISH)
#define TVMRT_DEFINE_TILE_BF16_MMLA(V, NR, MR)                                                     \
  TVMRT_DEFINE_TILE_BF16_NAMED(tvmrt_tile_bf16_mmla_##V##x##NR##x##MR, V, NR, MR, 1, 2,            \
                               TVMRT_TILE_BF16_MMLA_STEP, TVMRT_TILE_BF16_TURN,                    \
                               2 * TVMRT_TILE_F32_CHAINS((NR) * (MR)), TVMRT_TILE_F32_FINISH)
/* Tail of rows of dynamic length: a third of the code. */
#define TVMRT_DEFINE_REMAINDER_BF16(V, NR, MR)                                                     \
  TVMRT_DEFINE_TILE_BF16_NAMED(tvmrt_remainder_bf16_##V##x##NR##x##MR, V, NR, MR, 1, 1,            \
                               TVMRT_TILE_BF16_STEP, TVMRT_TILE_BF16_STAY,                         \
                               TVMRT_REMAINDER_UNROLL((NR) * (MR)), TVMRT_TILE_F32_FINISH_IN_TURN)
#define TVMRT_DEFINE_REMAINDER_BF16_WIDE(V, NR, MR)                                                \
  TVMRT_DEFINE_TILE_BF16_NAMED(tvmrt_remainder_bf16_wide_##V##x##NR##x##MR, V, NR, MR, 2, 1,       \
                               TVMRT_TILE_BF16_WIDE_STEP, TVMRT_TILE_BF16_STAY,                    \
                               TVMRT_REMAINDER_UNROLL((NR) * (MR)), TVMRT_TILE_F32_FINISH_IN_TURN)
#define TVMRT_DEFINE_REMAINDER_BF16_MMLA(V, NR, MR)                                                \
  TVMRT_DEFINE_TILE_BF16_NAMED(tvmrt_remainder_bf16_mmla_##V##x##NR##x##MR, V, NR, MR, 1, 2,       \
                               TVMRT_TILE_BF16_MMLA_STEP, TVMRT_TILE_BF16_TURN,                    \
                               2 * TVMRT_TILE_F32_CHAINS((NR) * (MR)),                             \
                               TVMRT_TILE_F32_FINISH_IN_TURN)

/* EACH words of the input are a pair; a step handles AT_ONCE pairs. */
#define TVMRT_DEFINE_TILE_BF16_NAMED(NAME, V, NR, MR, EACH, AT_ONCE, STEP, TURN, UNROLL, FINISH)   \
  TVMRT_DEFINE_TILE_BF16_OF(NAME, tvmrt_f32x##V, tvmrt_i32x##V, tvmrt_bf16x##V,                    \
                            TVMRT_TILE_BF16_ELEMENT_##EACH, V, NR, MR, EACH, AT_ONCE, STEP, TURN,  \
                            UNROLL, FINISH)
#define TVMRT_TILE_BF16_ELEMENT_1 int32_t
#define TVMRT_TILE_BF16_ELEMENT_2 float
#define TVMRT_DEFINE_TILE_BF16_OF(NAME, VEC, WORDS, PAIRS, ELEMENT, V, NR, MR, EACH, AT_ONCE,      \
                                  STEP, TURN, UNROLL, FINISH)                                      \
  TVMRT_NOINLINE void NAME(const tvmrt_tile_f32* tile, int64_t x_offset, const float* w,           \
                           const float* bias, const float* residual, float* out, int channels) {   \
    enum {                                                                                         \
      kChains = TVMRT_TILE_F32_CHAINS((NR) * (MR)),                                                \
      kUnroll = UNROLL,                                                                            \
      kPointers = ((MR) + 3) / 4,                                                                  \
      kKeep = (NR) * (MR) + (NR) * (EACH) < TVMRT_SIMD_REGISTERS                                   \
    };                                                                                             \
    const intptr_t x_stride = (intptr_t)tile->x_stride, w_stride = (intptr_t)tile->w_stride;       \
    const intptr_t run = (intptr_t)tile->run;                                                      \
    VEC sum[kChains][MR][NR];                                                                      \
    TVMRT_TILE_F32_EACH(t, MR) {                                                                   \
      TVMRT_TILE_F32_EACH(o, NR) {                                                                 \
        sum[0][t][o] = bias ? VEC##_load(bias + o * (V)) : VEC##_splat(0.0f);                      \
        TVMRT_TILE_F32_EACH(u, kChains - 1) sum[u + 1][t][o] = VEC##_splat(0.0f);                  \
      }                                                                                            \
    }                                                                                              \
    TURN(VEC, NR, MR)                                                                              \
    for (int64_t s = 0; s < tile->segment_count; s++) {                                            \
      const int32_t* wk = (const int32_t*)(const void*)(w + tile->segments[s].w);                  \
      const ELEMENT* x[kPointers];                                                                 \
      intptr_t k = run;                                                                            \
      TVMRT_TILE_F32_EACH(p, kPointers)                                                            \
        x[p] = (const ELEMENT*)(const void*)tile->segments[s].x + x_offset + 4 * p * x_stride;     \
      for (; k >= kUnroll; k -= kUnroll) {                                                         \
        TVMRT_TILE_F32_EACH(p, kPointers) TVMRT_OPAQUE(x[p]);                                      \
        TVMRT_TILE_F32_EACH(u, kUnroll / (AT_ONCE)) {                                              \
          STEP(VEC, WORDS, PAIRS, V, NR, MR, u * (AT_ONCE), AT_ONCE)                               \
        }                                                                                          \
        TVMRT_TILE_F32_EACH(p, kPointers) x[p] += kUnroll * (EACH);                                \
        wk += kUnroll * w_stride;                                                                  \
      }                                                                                            \
      for (; k > 0; k--) {                                                                         \
        TVMRT_TILE_F32_EACH(p, kPointers) TVMRT_OPAQUE(x[p]);                                      \
        STEP(VEC, WORDS, PAIRS, V, NR, MR, 0, 1)                                                   \
        TVMRT_TILE_F32_EACH(p, kPointers) x[p] += (EACH);                                          \
        wk += w_stride;                                                                            \
      }                                                                                            \
    }                                                                                              \
    TURN(VEC, NR, MR)                                                                              \
    TVMRT_TILE_F32_ENDS(VEC)                                                                       \
    FINISH(VEC, V, NR, MR)                                                                         \
  }
/* clang-format on */

/*! \brief Descriptor of tiles whose input pairs are two words. */
TVMRT_TABLE(tvmrt_pairs_f32, tvmrt_wide_pairs, 1, {1, NULL, NULL});
#define tvmrt_wide_pairs tvmrt_wide_pairs
#define tvmrt_pairs_wide tvmrt_wide_pairs[0][0]

/*! \brief Pairs multiplied in the time of a float multiply-add: only AMX tiles have `begin`. */
TVMRT_INLINE int64_t tvmrt_bf16_macs(const tvmrt_tiles_f32* tiles) {
  return tiles->pairs && tiles->pairs->begin ? 6 : 1;
}

/*! \brief Call before and after a task's tiles with runs of `run`, on its thread. */
TVMRT_INLINE void tvmrt_bf16_begin(const tvmrt_tiles_f32* tiles, int64_t run) {
  if (tiles->pairs && tiles->pairs->begin) tiles->pairs->begin(tiles->width[0], run);
}

TVMRT_INLINE void tvmrt_bf16_end(const tvmrt_tiles_f32* tiles) {
  if (tiles->pairs && tiles->pairs->end) tiles->pairs->end();
}

#endif /* TVM_RUNTIME_KERNELS_TILE_GEMM_BF16_H_ */
