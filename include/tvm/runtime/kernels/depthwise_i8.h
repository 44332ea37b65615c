/*!
 * \file depthwise_i8.h
 * \brief Depthwise convolution of 8-bit tensors: tiles for the driver of conv_i8.h.
 *
 * Vectors hold channels, a block at a time: 64 (AVX-512), 32 (AVX2), 16 (AArch64) or 4 (plain C);
 * the last block may be narrower. A tile computes MR neighbouring output pixels of a block. On
 * x86 the bytes of four kernel rows are interleaved once per input column, so that four-way
 * dot-product instructions apply; every output pixel whose window contains the column uses it.
 *
 * "Rows" are the kernel rows KD * KH; a kernel of a single row counts each of its taps as a row of
 * one column.
 *
 * Packed weights, int8 unless noted, block by block:
 *
 *     x86        [row / 4][column][part][quarter q][lane][row % 4], int16 for AVX2 as in
 *                tile/simd_i8.h; the lane 4 L + i of quarter q is the channel 16 L + 4 q + i of the
 *                block. Rows past the last have the weight 0.
 *     otherwise  [row][column][channel], int16 where `parts` is 2
 *
 * Weights minus their zero point may not fit into int8. On VNNI such a weight is the sum of two
 * parts (255 of three). If all of them are in one row, that row is read twice instead (spare row:
 * one more row with the remainder). bias and scale: per block in the order of the accumulators, on
 * x86 that of the lanes, else the channels'.
 *
 * Example: 3 x 3, 16 channels, AVX-512 VNNI: one block of 16 channels, 3 columns of 4 quarters of
 * 16 bytes. The first 4 bytes are the weights of channel 0 in the rows 0, 1, 2 of column 0 and a 0,
 * then come the channels 1, 2, 3; the second quarter has the channels 4 to 7.
 */
#ifndef TVM_RUNTIME_KERNELS_DEPTHWISE_I8_H_
#define TVM_RUNTIME_KERNELS_DEPTHWISE_I8_H_

#include "conv_i8.h"

/*! \brief Shape of a depthwise tile; all members are literals. */
typedef struct tvmrt_depthwise_i8_shape {
  int rows, columns, stride, dilation; /* of the columns */
  int mr;                              /* output pixels */
  int channels;                        /* in this block */
  int parts;                           /* 1, or 2 or 3 if the weights need it */
  int is_signed;                       /* input is int8, else uint8 */
  int epilogue;                        /* TVMRT_RESIDUAL_NONE or one of TVMRT_ROUND_* */
} tvmrt_depthwise_i8_shape;

/*! \brief The kernel column that output pixel t uses in input column `column`, or -1. */
TVMRT_INLINE int tvmrt_depthwise_i8_tap(const tvmrt_depthwise_i8_shape s, int column, int t) {
  int distance = column - t * s.stride;
  if (distance < 0 || distance % s.dilation != 0 || distance / s.dilation >= s.columns) return -1;
  return distance / s.dilation;
}

#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI || TVMRT_I8_X86_256

/* Load the first n bytes of a vector; n is a literal. */
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI
#define TVMRT_DW_LOAD(B, V, M)                                                        \
  TVMRT_INLINE V tvmrt_dw##B##_load(const uint8_t* p, int n) {                        \
    if (n < (B)) return M##maskz_loadu_epi8((__mmask##B)(((uint64_t)1 << n) - 1), p); \
    V v;                                                                              \
    memcpy(&v, p, B);                                                                 \
    return v;                                                                         \
  }
#define TVMRT_DW_STORE(B, V, M)                                        \
  TVMRT_INLINE void tvmrt_dw##B##_store(uint8_t* p, V v, int n) {      \
    if (n < (B)) {                                                     \
      M##mask_storeu_epi8(p, (__mmask##B)(((uint64_t)1 << n) - 1), v); \
    } else {                                                           \
      memcpy(p, &v, B);                                                \
    }                                                                  \
  }
#else
#define TVMRT_DW_LOAD(B, V, M)                                 \
  TVMRT_INLINE V tvmrt_dw##B##_load(const uint8_t* p, int n) { \
    V v = {0};                                                 \
    memcpy(&v, p, (size_t)(n < (B) ? n : (B)));                \
    return v;                                                  \
  }
#define TVMRT_DW_STORE(B, V, M)                                   \
  TVMRT_INLINE void tvmrt_dw##B##_store(uint8_t* p, V v, int n) { \
    memcpy(p, &v, (size_t)(n < (B) ? n : (B)));                   \
  }
#endif

#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI || TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX_VNNI
#define TVMRT_DW_DOT(B, V, M)                                     \
  TVMRT_INLINE V tvmrt_dw##B##_dot(V acc, V x, const int8_t* w) { \
    V quads;                                                      \
    memcpy(&quads, w, B);                                         \
    return M##dpbusd_epi32(acc, x, quads);                        \
  }
#define TVMRT_DW_QUARTER_SIZE(B) (B)
#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX2
#define TVMRT_DW_DOT(B, V, M)                                              \
  TVMRT_INLINE V tvmrt_dw##B##_dot(V acc, V x, const int8_t* w) {          \
    V even, odd;                                                           \
    memcpy(&even, w, B);                                                   \
    memcpy(&odd, w + (B), B);                                              \
    acc = M##add_epi32(acc, M##madd_epi16(x & M##set1_epi16(0xFF), even)); \
    return M##add_epi32(acc, M##madd_epi16(M##srli_epi16(x, 8), odd));     \
  }
#define TVMRT_DW_QUARTER_SIZE(B) (2 * (B))
#else
#error "depthwise_i8.h lacks this TVMRT_I8_FORMAT: define its dot products."
#endif

/* Blocks of B channels in vectors V of B bytes with the intrinsics M. */
#define TVMRT_DEFINE_DW_X86(B, V, F, M)                                                            \
  TVMRT_DW_LOAD(B, V, M)                                                                           \
  TVMRT_DW_STORE(B, V, M)                                                                          \
  TVMRT_DW_DOT(B, V, M)                                                                            \
  /* Interleave four rows of an input column to four quarters of quads. */                         \
  TVMRT_INLINE void tvmrt_dw##B##_column(const tvmrt_depthwise_i8_shape s,                         \
                                         const uint8_t* const* row, int64_t offset, int first,     \
                                         V quads[4]) {                                             \
    const V flip = M##set1_epi8((char)(s.is_signed ? -128 : 0));                                   \
    V x[4];                                                                                        \
    TVMRT_UNROLL_ALL for (int i = 0; i < 4; i++) {                                                 \
      x[i] = flip;                                                                                 \
      if (first + i < s.rows) x[i] ^= tvmrt_dw##B##_load(row[first + i] + offset, s.channels);     \
    }                                                                                              \
    V lo01 = M##unpacklo_epi8(x[0], x[1]), hi01 = M##unpackhi_epi8(x[0], x[1]);                    \
    V lo23 = M##unpacklo_epi8(x[2], x[3]), hi23 = M##unpackhi_epi8(x[2], x[3]);                    \
    quads[0] = M##unpacklo_epi16(lo01, lo23);                                                      \
    quads[1] = M##unpackhi_epi16(lo01, lo23);                                                      \
    quads[2] = M##unpacklo_epi16(hi01, hi23);                                                      \
    quads[3] = M##unpackhi_epi16(hi01, hi23);                                                      \
  }                                                                                                \
  TVMRT_INLINE V tvmrt_dw##B##_rescale(int epilogue, V acc, const float* scale, int64_t stride) {  \
    if (epilogue != TVMRT_RESIDUAL_NONE) {                                                         \
      return tvmrt_i8_fixed_##B(epilogue, acc, (const int32_t*)(const void*)scale, stride);        \
    }                                                                                              \
    return M##cvtps_epi32(M##mul_ps(M##cvtepi32_ps(acc), M##loadu_ps(scale)));                     \
  }                                                                                                \
  /* The packs work within 128 bits like the unpacks: the bytes come out in order. */              \
  TVMRT_INLINE void tvmrt_dw##B##_finish(                                                          \
      const tvmrt_depthwise_i8_shape s, const tvmrt_tile_i8_args* a, uint8_t* y, const V acc[4]) { \
    const tvmrt_i8_range* range = a->range;                                                        \
    int offset = range->is_signed ? 128 : 0;                                                       \
    V zero = M##set1_epi16((short)(range->zero + offset));                                         \
    V q[4];                                                                                        \
    TVMRT_UNROLL_ALL for (int i = 0; i < 4; i++) {                                                 \
      const float* scale = a->scale + i * ((B) / 4);                                               \
      q[i] = tvmrt_dw##B##_rescale(s.epilogue, acc[i], scale, a->fixed_stride);                    \
    }                                                                                              \
    V v = M##packus_epi16(M##adds_epi16(M##packs_epi32(q[0], q[1]), zero),                         \
                          M##adds_epi16(M##packs_epi32(q[2], q[3]), zero));                        \
    v = M##max_epu8(v, M##set1_epi8((char)(range->lo + offset)));                                  \
    v = M##min_epu8(v, M##set1_epi8((char)(range->hi + offset)));                                  \
    tvmrt_dw##B##_store(y, v ^ M##set1_epi8((char)offset), s.channels);                            \
  }                                                                                                \
  TVMRT_INLINE void tvmrt_dw##B##_sums(int32_t* y, const V acc[4]) {                               \
    for (int i = 0; i < 4; i++) {                                                                  \
      int32_t lanes[(B) / 4];                                                                      \
      memcpy(lanes, &acc[i], B);                                                                   \
      for (int l = 0; l < (B) / 16; l++) memcpy(y + 16 * l + 4 * i, lanes + 4 * l, 16);            \
    }                                                                                              \
  }                                                                                                \
  TVMRT_INLINE void tvmrt_dw##B##_tile(const tvmrt_depthwise_i8_shape s,                           \
                                       const tvmrt_tile_i8_args* a, int64_t offset, void* y) {     \
    V acc[TVMRT_TILE_I8_MAX_MR][4];                                                                \
    const uint8_t* const* row = a->segment;                                                        \
    const int64_t pixel = a->x_pixel;                                                              \
    const int span = (s.mr - 1) * s.stride + (s.columns - 1) * s.dilation + 1;                     \
    TVMRT_UNROLL_ALL for (int t = 0; t < s.mr; t++) {                                              \
      TVMRT_UNROLL_ALL for (int i = 0; i < 4; i++) memcpy(&acc[t][i], a->bias + i * ((B) / 4), B); \
    }                                                                                              \
    TVMRT_UNROLL_ALL for (int first = 0; first < s.rows; first += 4) {                             \
      const int8_t* weights =                                                                      \
          a->weights + (int64_t)first / 4 * s.columns * s.parts * 4 * TVMRT_DW_QUARTER_SIZE(B);    \
      TVMRT_UNROLL_ALL for (int column = 0; column < span; column++) {                             \
        int used = 0;                                                                              \
        TVMRT_UNROLL_ALL for (int t = 0; t < s.mr; t++) {                                          \
          used |= tvmrt_depthwise_i8_tap(s, column, t) >= 0;                                       \
        }                                                                                          \
        if (!used) continue;                                                                       \
        V quads[4];                                                                                \
        tvmrt_dw##B##_column(s, row, offset + column * pixel, first, quads);                       \
        TVMRT_UNROLL_ALL for (int t = 0; t < s.mr; t++) {                                          \
          int tap = tvmrt_depthwise_i8_tap(s, column, t);                                          \
          if (tap < 0) continue;                                                                   \
          TVMRT_UNROLL_ALL for (int i = 0; i < 4 * s.parts; i++) {                                 \
            acc[t][i % 4] =                                                                        \
                tvmrt_dw##B##_dot(acc[t][i % 4], quads[i % 4],                                     \
                                  weights + (tap * s.parts * 4 + i) * TVMRT_DW_QUARTER_SIZE(B));   \
          }                                                                                        \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    TVMRT_UNROLL_ALL for (int t = 0; t < s.mr; t++) {                                              \
      if (a->range != NULL) {                                                                      \
        tvmrt_dw##B##_finish(s, a, (uint8_t*)y + t * a->y_step, acc[t]);                           \
      } else {                                                                                     \
        tvmrt_dw##B##_sums((int32_t*)y + t * a->y_step, acc[t]);                                   \
      }                                                                                            \
    }                                                                                              \
  }

TVMRT_DEFINE_DW_X86(16, __m128i, __m128, _mm_)
TVMRT_DEFINE_DW_X86(32, __m256i, __m256, _mm256_)
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI
TVMRT_DEFINE_DW_X86(64, __m512i, __m512, _mm512_)
#else
#define tvmrt_dw64_tile tvmrt_dw32_tile
#endif

TVMRT_INLINE void tvmrt_depthwise_i8_tile(const tvmrt_depthwise_i8_shape s,
                                          const tvmrt_tile_i8_args* a, int64_t offset, void* y) {
  if (s.channels > 32) {
    tvmrt_dw64_tile(s, a, offset, y);
  } else if (s.channels > 16) {
    tvmrt_dw32_tile(s, a, offset, y);
  } else {
    tvmrt_dw16_tile(s, a, offset, y);
  }
}

#else /* neither: the compiler vectorises over the channels if it can */

#if TVMRT_I8_FORMAT == TVMRT_I8_PLAIN
#define TVMRT_DW_BLOCK 4
#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_SSE41 || TVMRT_I8_ANY_NEON || \
    TVMRT_I8_FORMAT == TVMRT_I8_RVV || TVMRT_I8_FORMAT == TVMRT_I8_WASM
#define TVMRT_DW_BLOCK 16
#else
#error "depthwise_i8.h lacks this TVMRT_I8_FORMAT: define its channels of a block."
#endif

/* One tap for a block of channels: acc += x * w. */
#if TVMRT_DW_BLOCK == 16
typedef uint8_t tvmrt_dw_u8x16 __attribute__((vector_size(16)));
typedef int8_t tvmrt_dw_s8x16 __attribute__((vector_size(16)));
typedef int16_t tvmrt_dw_s16x16 __attribute__((vector_size(32), aligned(16)));

TVMRT_INLINE void tvmrt_dw_tap(const tvmrt_depthwise_i8_shape s, int32_t acc[16], const uint8_t* x,
                               const int8_t* w) {
  uint8_t tail_bytes[16] = {0};
  tvmrt_dw_u8x16 unsigned_x;
  tvmrt_dw_s16x16 wide_x, wide_w;
  tvmrt_i32x16 sum = tvmrt_i32x16_load(acc);
  if (s.channels < 16) x = (const uint8_t*)memcpy(tail_bytes, x, (size_t)s.channels);
  memcpy(&unsigned_x, x, 16);
  wide_x = s.is_signed ? __builtin_convertvector((tvmrt_dw_s8x16)unsigned_x, tvmrt_dw_s16x16)
                       : __builtin_convertvector(unsigned_x, tvmrt_dw_s16x16);
  if (s.parts == 1) {
    tvmrt_dw_s8x16 narrow;
    memcpy(&narrow, w, 16);
    wide_w = __builtin_convertvector(narrow, tvmrt_dw_s16x16);
  } else {
    memcpy(&wide_w, w, 32);
  }
  sum +=
      __builtin_convertvector(wide_x, tvmrt_i32x16) * __builtin_convertvector(wide_w, tvmrt_i32x16);
  tvmrt_i32x16_store(acc, sum);
}
#else
TVMRT_INLINE int32_t tvmrt_dw_weight(const int8_t* w, int parts) {
  int16_t wide;
  if (parts == 1) return *w;
  memcpy(&wide, w, 2);
  return wide;
}

TVMRT_INLINE void tvmrt_dw_tap(const tvmrt_depthwise_i8_shape s, int32_t acc[TVMRT_DW_BLOCK],
                               const uint8_t* x, const int8_t* w) {
  TVMRT_UNROLL_ALL for (int c = 0; c < TVMRT_DW_BLOCK; c++) {
    if (c < s.channels) {
      int32_t value = s.is_signed ? (int32_t)((const int8_t*)x)[c] : (int32_t)x[c];
      acc[c] += value * tvmrt_dw_weight(w + c * s.parts, s.parts);
    }
  }
}
#endif

TVMRT_INLINE void tvmrt_dw_finish(const tvmrt_depthwise_i8_shape s, const tvmrt_tile_i8_args* a,
                                  void* y, const int32_t acc[TVMRT_DW_BLOCK]) {
  if (a->range == NULL) {
    memcpy(y, acc, sizeof(int32_t) * TVMRT_DW_BLOCK);
    return;
  }
  if (s.epilogue != TVMRT_RESIDUAL_NONE ||
      (TVMRT_I8_FORMAT == TVMRT_I8_WASM && s.channels == TVMRT_DW_BLOCK)) {
    tvmrt_i8_acc v[4];
    TVMRT_UNROLL_ALL for (int i = 0; i < 4; i++) {
      const int at = i * TVMRT_I8_LANES % TVMRT_DW_BLOCK;
      v[i] = tvmrt_i8_requantize(s.epilogue, tvmrt_i8_acc_load(acc + at), a->scale + at,
                                 a->fixed_stride);
    }
    tvmrt_i8_store_packed((uint8_t*)y, v[0], v[1], v[2], v[3], a->range, s.channels);
    return;
  }
  for (int c = 0; c < s.channels; c++) {
    ((uint8_t*)y)[c] = (uint8_t)tvmrt_i8_clamp_to_range(
        tvmrt_i8_round_product((float)acc[c] * a->scale[c]), a->range);
  }
}

TVMRT_INLINE void tvmrt_depthwise_i8_tile(const tvmrt_depthwise_i8_shape s,
                                          const tvmrt_tile_i8_args* a, int64_t offset, void* y) {
  const int size = a->range != NULL ? 1 : 4;
  for (int t = 0; t < s.mr; t++) {
    int32_t acc[TVMRT_DW_BLOCK];
    const int8_t* w = a->weights;
    TVMRT_UNROLL_ALL for (int c = 0; c < TVMRT_DW_BLOCK; c++) acc[c] = a->bias[c];
    for (int r = 0; r < s.rows; r++) {
      const uint8_t* x = a->segment[r] + offset + t * a->x_step;
      for (int k = 0; k < s.columns;
           k++, x += s.dilation * a->x_pixel, w += TVMRT_DW_BLOCK * s.parts) {
        tvmrt_dw_tap(s, acc, x, w);
      }
    }
    tvmrt_dw_finish(s, a, (uint8_t*)y + t * a->y_step * size, acc);
  }
}

#endif

/*!
 * \brief Define one tile as a function that is compiled once in this file; its type is
 * tvmrt_tile_i8.
 *
 *     TVMRT_DEFINE_DEPTHWISE_I8(depthwise_3x3s1x4, 3, 3, 1, 1, 4, 64, 1, 0, TVMRT_RESIDUAL_NONE)
 *
 * \param name      of the function.
 * \param rows      KD * KH; KW for a kernel of a single row.
 * \param columns   KW; 1 for a kernel of a single row.
 * \param stride    of the output pixels in a row.
 * \param dilation  of the columns.
 * \param mr        output pixels, 1 to 16.
 * \param channels  to compute: the block, or the remainder in the last block.
 * \param parts     1, 2 or 3 as the weights were packed.
 * \param is_signed 1 if the input is int8, 0 if it is uint8.
 * \param epilogue  one of TVMRT_ROUND_*, see tile/simd_i8.h, or TVMRT_RESIDUAL_NONE.
 */
#define TVMRT_DEFINE_DEPTHWISE_I8(name, rows, columns, stride, dilation, mr, channels, parts, \
                                  is_signed, epilogue)                                        \
  TVMRT_NOINLINE void name(const tvmrt_tile_i8_args* a, int64_t offset, void* y,              \
                           const int32_t* sums) {                                             \
    const tvmrt_depthwise_i8_shape shape = {rows,     columns, stride,    dilation, mr,       \
                                            channels, parts,   is_signed, epilogue};          \
    (void)sums;                                                                               \
    tvmrt_depthwise_i8_tile(shape, a, offset, y);                                             \
  }

#endif /* TVM_RUNTIME_KERNELS_DEPTHWISE_I8_H_ */
