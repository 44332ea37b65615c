/*!
 * \file tile/transpose.h
 * \brief Transposing copies, blocked for the cache.
 *
 * A plain loop over such a copy touches a new cache line with every element on one of the sides.
 * These copies go by square blocks, so that a loaded line is used completely before it is evicted,
 * and along the lines of x if these share few sets of a cache.
 *
 *   y[r * ys + c] = x[c * xs + r]      for r < rows, c < columns; strides in elements
 *
 * TVMRT_DEFINE_TRANSPOSE(type) defines tvmrt_transpose_<type>(x, xs, y, ys, rows, columns) for a
 * type named by one word; x and y must not overlap.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_TRANSPOSE_H_
#define TVM_RUNTIME_KERNELS_TILE_TRANSPOSE_H_

#include "simd.h"

enum {
  TVMRT_TRANSPOSE_BLOCK = 8,
  TVMRT_TRANSPOSE_PAGE = 4096,  /*!< Lines at this distance evict each other from a cache. */
  TVMRT_TRANSPOSE_FAR = 1 << 20 /*!< Bytes from which on lines are prefetched. */
};

#if defined(__AVX__) && defined(__GNUC__)
/* Select eight lanes of two vectors; those of the second are counted from 8 on. */
#if defined(__clang__)
#define TVMRT_LANES_OF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TVMRT_LANES_OF(a, b, ...) __builtin_shuffle(a, b, (tvmrt_i32x8){__VA_ARGS__})
#endif
/* Transpose eight rows of eight 32-bit elements in registers. */
TVMRT_INLINE void tvmrt_transpose_block_32(const void* x, int64_t xs, void* y, int64_t ys) {
  tvmrt_f32x8 a[8], b[8];
  TVMRT_UNROLL(8)
  for (int i = 0; i < 8; i++) a[i] = tvmrt_f32x8_load((const float*)x + i * xs);
  TVMRT_UNROLL(4)
  for (int i = 0; i < 4; i++) {
    b[2 * i] = TVMRT_LANES_OF(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[2 * i + 1] = TVMRT_LANES_OF(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  TVMRT_UNROLL(2)
  for (int i = 0; i < 2; i++) {
    a[4 * i] = TVMRT_LANES_OF(b[4 * i], b[4 * i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[4 * i + 1] = TVMRT_LANES_OF(b[4 * i], b[4 * i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    a[4 * i + 2] = TVMRT_LANES_OF(b[4 * i + 1], b[4 * i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    a[4 * i + 3] = TVMRT_LANES_OF(b[4 * i + 1], b[4 * i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  TVMRT_UNROLL(4)
  for (int i = 0; i < 4; i++) {
    const tvmrt_f32x8 low = TVMRT_LANES_OF(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    const tvmrt_f32x8 high = TVMRT_LANES_OF(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    tvmrt_f32x8_store((float*)y + i * ys, low);
    tvmrt_f32x8_store((float*)y + (i + 4) * ys, high);
  }
}
#define TVMRT_TRANSPOSE_WORDS(x, xs, y, ys) (tvmrt_transpose_block_32(x, xs, y, ys), 1)
#else
#define TVMRT_TRANSPOSE_WORDS(x, xs, y, ys) 0
#endif

#if defined(__GNUC__) && TVMRT_SIMD_LANES_F32 > 1 && !defined(TVMRT_BOARD)
typedef uint8_t tvmrt_u8x16 __attribute__((vector_size(16)));
#if defined(__clang__)
#define TVMRT_BYTES_OF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TVMRT_BYTES_OF(a, b, ...) __builtin_shuffle(a, b, (tvmrt_u8x16){__VA_ARGS__})
#endif
/* Transpose 16 rows of 16 bytes in registers: each step moves one bit of the row's index into the
 * lane's, and one of the lane's into the row's. */
TVMRT_INLINE void tvmrt_transpose_block_8(const void* x, int64_t xs, void* y, int64_t ys) {
  tvmrt_u8x16 a[16], b[16];
  TVMRT_UNROLL(16)
  for (int i = 0; i < 16; i++) memcpy(&a[i], (const uint8_t*)x + i * xs, 16);
  TVMRT_UNROLL(4)
  for (int step = 0; step < 4; step++) {
    TVMRT_UNROLL(8)
    for (int i = 0; i < 8; i++) {
      b[2 * i] =
          TVMRT_BYTES_OF(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      b[2 * i + 1] = TVMRT_BYTES_OF(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                    14, 30, 15, 31);
    }
    memcpy(a, b, sizeof(a));
  }
  TVMRT_UNROLL(16)
  for (int i = 0; i < 16; i++) memcpy((uint8_t*)y + i * ys, &a[i], 16);
}
#define TVMRT_TRANSPOSE_BYTES(x, xs, y, ys) (tvmrt_transpose_block_8(x, xs, y, ys), 1)
#else
#define TVMRT_TRANSPOSE_BYTES(x, xs, y, ys) 0
#endif
#define TVMRT_TRANSPOSE_IN_REGISTERS(TYPE, x, xs, y, ys)     \
  (sizeof(TYPE) == 4   ? TVMRT_TRANSPOSE_WORDS(x, xs, y, ys) \
   : sizeof(TYPE) == 1 ? TVMRT_TRANSPOSE_BYTES(x, xs, y, ys) \
                       : 0)

#define TVMRT_DEFINE_TRANSPOSE(TYPE)                                                               \
  static inline void tvmrt_transpose_part_##TYPE(const TYPE* TVMRT_RESTRICT x, int64_t xs,         \
                                                 TYPE* TVMRT_RESTRICT y, int64_t ys, int rows,     \
                                                 int columns) {                                    \
    for (int r = 0; r < rows; r++) {                                                               \
      for (int c = 0; c < columns; c++) y[r * ys + c] = x[c * xs + r];                             \
    }                                                                                              \
  }                                                                                                \
  static inline void tvmrt_transpose_##TYPE(const TYPE* TVMRT_RESTRICT x, int64_t xs,              \
                                            TYPE* TVMRT_RESTRICT y, int64_t ys, int rows,          \
                                            int columns) {                                         \
    const int block = sizeof(TYPE) == 1 ? 2 * TVMRT_TRANSPOSE_BLOCK : TVMRT_TRANSPOSE_BLOCK;       \
    const int by_columns = xs * (int64_t)sizeof(TYPE) % TVMRT_TRANSPOSE_PAGE == 0;                 \
    const int outer = by_columns ? columns : rows, inner = by_columns ? rows : columns;            \
    const int far = (int64_t)rows * columns * (int64_t)sizeof(TYPE) >= TVMRT_TRANSPOSE_FAR;        \
    for (int i = 0; i < outer; i += block) {                                                       \
      for (int j = 0; j < inner; j += block) {                                                     \
        int r = by_columns ? j : i, c = by_columns ? i : j;                                        \
        if (sizeof(TYPE) == 1 && rows >= block && columns >= block) { /* the last ones overlap */  \
          r = rows - r < block ? rows - block : r;                                                 \
          c = columns - c < block ? columns - block : c;                                           \
        }                                                                                          \
        const int height = rows - r < block ? rows - r : block;                                    \
        const int width = columns - c < block ? columns - c : block;                               \
        const TYPE* from = x + c * xs + r;                                                         \
        TYPE* to = y + r * ys + c;                                                                 \
        for (int k = 0; far && k < width; k++) TVMRT_PREFETCH(from + k * xs + 128 / sizeof(TYPE)); \
        if (height == block && width == block) {                                                   \
          if (TVMRT_TRANSPOSE_IN_REGISTERS(TYPE, from, xs, to, ys)) continue;                      \
          tvmrt_transpose_part_##TYPE(from, xs, to, ys, block, block);                             \
        } else {                                                                                   \
          tvmrt_transpose_part_##TYPE(from, xs, to, ys, height, width);                            \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }

TVMRT_DEFINE_TRANSPOSE(float)
TVMRT_DEFINE_TRANSPOSE(double)
TVMRT_DEFINE_TRANSPOSE(int8_t)
TVMRT_DEFINE_TRANSPOSE(uint8_t)
TVMRT_DEFINE_TRANSPOSE(int16_t)
TVMRT_DEFINE_TRANSPOSE(uint16_t)
TVMRT_DEFINE_TRANSPOSE(int32_t)
TVMRT_DEFINE_TRANSPOSE(uint32_t)
TVMRT_DEFINE_TRANSPOSE(int64_t)
TVMRT_DEFINE_TRANSPOSE(uint64_t)

#endif /* TVM_RUNTIME_KERNELS_TILE_TRANSPOSE_H_ */
