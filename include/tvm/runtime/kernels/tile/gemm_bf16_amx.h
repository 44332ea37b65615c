/*!
 * \file tile/gemm_bf16_amx.h
 * \brief Micro-kernel over pairs of bfloat16 with AMX: up to 32 pixels times two vectors of 16
 * output channels.
 *
 * All eight AMX registers (tile/amx.h) have 16 rows of 64 bytes here: accumulators of 16 pixels by
 * 16 channels, 16 pairs of 16 pixels, or 16 pairs of 16 channels, packed as in tile/gemm_bf16.h.
 *
 * Configuring the register sizes takes longer than a dozen matrix products, so a task does it once
 * (tvmrt_amx_begin()). The sizes fit the pixels of the widest tile and equal parts of its run, or
 * 16 pairs if there are none; then the tail of a run is copied and zero-padded. Narrower tiles also
 * read pixels past the end of a row and discard their results: rows are in scratch that has room
 * for them.
 *
 * Before: the compiler's __x86_64__.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_GEMM_BF16_AMX_H_
#define TVM_RUNTIME_KERNELS_TILE_GEMM_BF16_AMX_H_

#if !defined(__x86_64__)
#error "tile/gemm_bf16_amx.h has instructions of x86-64: compile for __x86_64__"
#else

#include "amx.h"
#include "gemm_bf16.h"

/* Pairs per AMX instruction: equal parts of a run, or the maximum. */
static inline int tvmrt_amx_pairs(int64_t run) {
  const int all = (int)run;
  if (run < 16) return all > 0 ? all : 1;
  for (int pairs = 16; pairs >= 8; pairs--) {
    if (all % pairs == 0) return pairs;
  }
  return 16;
}

/*! \brief Configure the registers on this thread for tiles of up to `widest` pixels. */
static inline void tvmrt_amx_begin(int widest, int64_t run) {
  const int first = widest < TVMRT_AMX_ROWS ? widest : TVMRT_AMX_ROWS, more = widest - first;
  const int a = first > 0 ? first : 1, b = more > 0 ? more : 1;
  tvmrt_amx_configure(a, b, a, b, tvmrt_amx_pairs(run));
}

/*! \brief Release the registers, so that the system need not save them. */
static inline void tvmrt_amx_end(void) { _tile_release(); }

/*! \brief Descriptor of all tiles of this file. */
TVMRT_TABLE(tvmrt_pairs_f32, tvmrt_amx_pairs_table, 1, {0, tvmrt_amx_begin, tvmrt_amx_end});
#define tvmrt_amx_pairs_table tvmrt_amx_pairs_table
#define tvmrt_pairs_amx tvmrt_amx_pairs_table[0][0]

/* Copy `rows` rows of `words` words into a zeroed buffer of a register's size. */
TVMRT_RARELY_CALLED void tvmrt_amx_copy(int32_t part[TVMRT_AMX_ROWS][16], const int32_t* from,
                                        intptr_t stride, int rows, int words) {
  memset(part, 0, TVMRT_AMX_ROWS * TVMRT_AMX_BYTES);
  for (int i = 0; i < rows; i++) memcpy(part[i], from + i * stride, (size_t)words * sizeof(*from));
  /* GCC's intrinsics do not declare that they read memory */
  __asm__ volatile("" : : "r"(part) : "memory");
}

/* Load a register of `rows` rows and `words` words, directly if `whole`, else zero-padded. */
#define TVMRT_AMX_LOAD(number, from, stride, rows, words, whole)     \
  if (whole) {                                                       \
    _tile_loadd(number, from, (stride) * (intptr_t)sizeof(int32_t)); \
  } else {                                                           \
    tvmrt_amx_copy(part, from, stride, rows, words);                 \
    _tile_loadd(number, part, TVMRT_AMX_BYTES);                      \
  }

/* Add the products of `pairs` pairs of pixels at x with weights at w. */
TVMRT_INLINE void tvmrt_amx_step(int vectors, int pixels, const int32_t* x, intptr_t x_stride,
                                 const int32_t* w, intptr_t w_stride, int pairs, int whole) {
  int32_t part[TVMRT_AMX_ROWS][16];
  const int first = pixels < TVMRT_AMX_ROWS ? pixels : TVMRT_AMX_ROWS, more = pixels - first;
  TVMRT_AMX_LOAD(6, w, w_stride, pairs, 16, whole)
  if (vectors > 1) {
    TVMRT_AMX_LOAD(7, w + 16, w_stride, pairs, 16, whole)
  }
  TVMRT_AMX_LOAD(4, x, x_stride, first, pairs, whole)
  _tile_dpbf16ps(0, 4, 6);
  if (vectors > 1) _tile_dpbf16ps(1, 4, 7);
  if (more > 0) {
    TVMRT_AMX_LOAD(5, x + TVMRT_AMX_ROWS * x_stride, x_stride, more, pairs, whole)
    _tile_dpbf16ps(2, 5, 6);
    if (vectors > 1) _tile_dpbf16ps(3, 5, 7);
  }
}

/* Accumulate all pixels and channels of a tile, `pairs` at once. */
TVMRT_INLINE void tvmrt_amx_sum(int vectors, int pixels, int pairs, const tvmrt_tile_f32* tile,
                                int64_t x_offset, const float* w, float* sums) {
  const int64_t stride = vectors * TVMRT_AMX_BYTES;
  const intptr_t x_stride = (intptr_t)tile->x_stride, w_stride = (intptr_t)tile->w_stride;
  const int64_t steps = tile->segment_count * ((tile->run + pairs - 1) / pairs);
  int64_t lines = (tile->ahead_bytes + TVMRT_AMX_BYTES - 1) / TVMRT_AMX_BYTES;
  const int64_t at_once = steps > 0 ? (lines + steps - 1) / steps : 0;
  uintptr_t ahead = (uintptr_t)w + (uintptr_t)tile->ahead;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t s = 0; s < tile->segment_count; s++) {
    const tvmrt_segment_f32* segment = tile->segments + s;
    const int32_t* x = (const int32_t*)(const void*)segment->x + x_offset;
    const int32_t* wk = (const int32_t*)(const void*)(w + segment->w);
    for (int64_t k = 0; k < tile->run; k += pairs) {
      const int64_t left = tile->run - k;
      const int whole = left >= pairs;
      for (int64_t i = 0; i < at_once && lines > 0; i++, lines--, ahead += TVMRT_AMX_BYTES) {
        TVMRT_PREFETCH(ahead);
      }
      tvmrt_amx_step(vectors, pixels, x + k, x_stride, wk + k * w_stride, w_stride,
                     whole ? pairs : (int)left, whole);
    }
  }
  _tile_stored(0, sums, stride);
  if (vectors > 1) _tile_stored(1, sums + 16, stride);
  if (pixels > TVMRT_AMX_ROWS) {
    float* second_half = sums + TVMRT_AMX_ROWS * vectors * 16;
    _tile_stored(2, second_half, stride);
    if (vectors > 1) _tile_stored(3, second_half + 16, stride);
  }
}

/* clang-format off */
#define TVMRT_DEFINE_TILE_BF16_AMX(V, NR, MR)                                                      \
  TVMRT_DEFINE_TILE_BF16_AMX_NAMED(tvmrt_tile_bf16_amx_##V##x##NR##x##MR, V, NR, MR)
#define TVMRT_DEFINE_REMAINDER_BF16_AMX(V, NR, MR)                                                 \
  TVMRT_DEFINE_TILE_BF16_AMX_NAMED(tvmrt_remainder_bf16_amx_##V##x##NR##x##MR, V, NR, MR)
#define TVMRT_DEFINE_TILE_BF16_AMX_NAMED(NAME, V, NR, MR)                                          \
  TVMRT_NOINLINE void NAME(const tvmrt_tile_f32* tile, int64_t x_offset, const float* w,           \
                           const float* bias, const float* residual, float* out, int channels) {   \
    const int pairs = tvmrt_amx_pairs(tile->run);                                                  \
    enum { kRows = (MR) > TVMRT_AMX_ROWS ? 2 * TVMRT_AMX_ROWS : TVMRT_AMX_ROWS };                  \
    /* accumulators stored by AMX, loaded as vectors, must not straddle lines */             \
    _Alignas(TVMRT_AMX_BYTES) float sum[kRows][NR][V];                                             \
    TVMRT_TILE_F32_ENDS(tvmrt_f32x##V)                                                             \
    tvmrt_amx_sum(NR, MR, pairs, tile, x_offset, w, &sum[0][0][0]);                                \
    for (int t = 0; t < (MR); t++) {                                                               \
      TVMRT_TILE_F32_EACH(o, NR) {                                                                 \
        tvmrt_f32x##V total = tvmrt_f32x##V##_load(sum[t][o]);                                     \
        if (bias) total += tvmrt_f32x##V##_load(bias + o * (V));                                   \
        TVMRT_TILE_F32_STORE(tvmrt_f32x##V, V)                                                     \
      }                                                                                            \
    }                                                                                              \
  }
/* clang-format on */

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_GEMM_BF16_AMX_H_ */
