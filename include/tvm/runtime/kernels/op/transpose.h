/*!
 * \file transpose.h
 * \brief Copies whose source and destination run along different axes.
 *
 * A plain loop over such a copy touches a new cache line with every element on one of the sides.
 * These go by square blocks, so that a line that is loaded is used up before it is lost.
 *
 *   y[r * ys + c] = x[c * xs + r]      for r < rows, c < columns; strides in elements
 *
 * TVMRT_DEFINE_TRANSPOSE(type) defines tvmrt_transpose_<type>(x, xs, y, ys, rows, columns) for a
 * type named by one word; x and y do not overlap.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_TRANSPOSE_H_
#define TVM_RUNTIME_KERNELS_OP_TRANSPOSE_H_

#include "../tile/simd.h"

enum { TVMRT_TRANSPOSE_BLOCK = 8 };

#if defined(__AVX__)
/* Eight rows of eight 32-bit elements through registers. */
TVMRT_INLINE void tvmrt_transpose_block_32(const void* x, int64_t xs, void* y, int64_t ys) {
  __m256 a[8], b[8];
  TVMRT_UNROLL(8)
  for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps((const float*)x + i * xs);
  TVMRT_UNROLL(4)
  for (int i = 0; i < 4; i++) {
    b[2 * i] = _mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]);
  }
  TVMRT_UNROLL(2)
  for (int i = 0; i < 2; i++) {
    a[4 * i] = _mm256_shuffle_ps(b[4 * i], b[4 * i + 2], 0x44);
    a[4 * i + 1] = _mm256_shuffle_ps(b[4 * i], b[4 * i + 2], 0xee);
    a[4 * i + 2] = _mm256_shuffle_ps(b[4 * i + 1], b[4 * i + 3], 0x44);
    a[4 * i + 3] = _mm256_shuffle_ps(b[4 * i + 1], b[4 * i + 3], 0xee);
  }
  TVMRT_UNROLL(4)
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps((float*)y + i * ys, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_storeu_ps((float*)y + (i + 4) * ys, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}
#define TVMRT_TRANSPOSE_IN_REGISTERS(TYPE, x, xs, y, ys) \
  (sizeof(TYPE) == 4 ? (tvmrt_transpose_block_32(x, xs, y, ys), 1) : 0)
#else
#define TVMRT_TRANSPOSE_IN_REGISTERS(TYPE, x, xs, y, ys) 0
#endif

#define TVMRT_DEFINE_TRANSPOSE(TYPE)                                                           \
  static inline void tvmrt_transpose_part_##TYPE(const TYPE* TVMRT_RESTRICT x, int64_t xs,     \
                                                 TYPE* TVMRT_RESTRICT y, int64_t ys, int rows, \
                                                 int columns) {                                \
    for (int r = 0; r < rows; r++) {                                                           \
      for (int c = 0; c < columns; c++) y[r * ys + c] = x[c * xs + r];                         \
    }                                                                                          \
  }                                                                                            \
  static inline void tvmrt_transpose_##TYPE(const TYPE* TVMRT_RESTRICT x, int64_t xs,          \
                                            TYPE* TVMRT_RESTRICT y, int64_t ys, int rows,      \
                                            int columns) {                                     \
    const int block = TVMRT_TRANSPOSE_BLOCK;                                                   \
    for (int r = 0; r < rows; r += block) {                                                    \
      const int height = rows - r < block ? rows - r : block;                                  \
      for (int c = 0; c < columns; c += block) {                                               \
        const int width = columns - c < block ? columns - c : block;                           \
        const TYPE* from = x + c * xs + r;                                                     \
        TYPE* to = y + r * ys + c;                                                             \
        if (height == block && width == block) {                                               \
          if (TVMRT_TRANSPOSE_IN_REGISTERS(TYPE, from, xs, to, ys)) continue;                  \
          tvmrt_transpose_part_##TYPE(from, xs, to, ys, TVMRT_TRANSPOSE_BLOCK,                 \
                                      TVMRT_TRANSPOSE_BLOCK);                                  \
        } else {                                                                               \
          tvmrt_transpose_part_##TYPE(from, xs, to, ys, height, width);                        \
        }                                                                                      \
      }                                                                                        \
    }                                                                                          \
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

#endif /* TVM_RUNTIME_KERNELS_OP_TRANSPOSE_H_ */
