/*!
 * \file matmul_nbits_panels.h
 * \brief The matmul of matmul_nbits.h for many rows: weights are widened once, a panel of columns
 * at a time, in the order in which the register tiles of tile/gemm_f32.h read them.
 *
 * If they were widened again for each few rows, this would cost more than the multiplication.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_PANELS_H_
#define TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_PANELS_H_

#include "../tile/gemm_f32.h"
#include "matmul_nbits.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
  /*! \brief Columns that are widened together, and bytes of each of them. */
  TVMRT_PANEL_COLUMNS = 16,
  /*! \brief Multiples of these bytes read from a column together: a cache line. */
  TVMRT_PANEL_PARTS = 4
};

typedef struct tvmrt_matmul_panels_job {
  tvmrt_matmul_nbits_job blocks;
  const tvmrt_tiles_f32* tiles;
} tvmrt_matmul_panels_job;

/*! \brief Transpose 16 x 16 bytes. */
TVMRT_INLINE void tvmrt_transpose_bytes(uint8_t from[TVMRT_PANEL_COLUMNS][TVMRT_PANEL_COLUMNS],
                                        uint8_t to[TVMRT_PANEL_COLUMNS][TVMRT_PANEL_COLUMNS]) {
#ifdef __SSE2__
  __m128i a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = _mm_loadu_si128((const __m128i*)from[i]);
  /* Each iteration moves one bit of a byte's row index to its column index. */
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 8; i++) {
      b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
      b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
    }
    for (int i = 0; i < 8; i++) {
      a[2 * i] = _mm_unpacklo_epi8(b[i], b[i + 8]);
      a[2 * i + 1] = _mm_unpackhi_epi8(b[i], b[i + 8]);
    }
  }
  for (int i = 0; i < 16; i++) _mm_storeu_si128((__m128i*)to[i], a[i]);
#else
  for (int i = 0; i < TVMRT_PANEL_COLUMNS; i++) {
    for (int j = 0; j < TVMRT_PANEL_COLUMNS; j++) to[i][j] = from[j][i];
  }
#endif
}

/*! \brief Scales and offsets of 16 columns for a block. */
typedef struct tvmrt_panel_scales {
  float scales[TVMRT_PANEL_COLUMNS];
  float shifts[TVMRT_PANEL_COLUMNS];
} tvmrt_panel_scales;

/*!
 * \brief Widen one weight of each of ``count`` bytes of some columns to floats, into rows that are
 * ``stride`` apart.
 */
TVMRT_INLINE void tvmrt_widen_columns(uint8_t w[][TVMRT_PANEL_COLUMNS], int count, int low,
                                      int mask, const tvmrt_panel_scales* of, float* q, int stride,
                                      int columns) {
#if defined(__GNUC__) && TVMRT_SIMD_LANES_F32 > 1
  enum { kLanes = TVMRT_SIMD_LANES_F32 };
  for (int c = 0; c < columns; c += kLanes) {
    const tvmrt_f32v scale = TVMRT_F32V(load)(of->scales + c);
    const tvmrt_f32v shift = TVMRT_F32V(load)(of->shifts + c);
    for (int i = 0; i < count; i++) {
      const tvmrt_block_ints wide = tvmrt_load_block_bytes(w[i] + c);
      const tvmrt_f32v numbers =
          __builtin_convertvector(mask == 255 ? wide : (wide >> low) & mask, tvmrt_f32v);
      const tvmrt_f32v y = TVMRT_F32V(fma)(numbers, scale, shift);
      if (columns - c >= kLanes) {
        TVMRT_F32V(store)(q + (int64_t)i * stride + c, y);
      } else {
        TVMRT_F32V(store_n)(q + (int64_t)i * stride + c, y, columns - c);
      }
    }
  }
#else
  for (int i = 0; i < count; i++) {
    for (int c = 0; c < columns; c++) {
      q[(int64_t)i * stride + c] = (float)((w[i][c] >> low) & mask) * of->scales[c] + of->shifts[c];
    }
  }
#endif
}

/*! \brief Load the scales of block g, of ``num_valid`` columns from c on. */
TVMRT_INLINE void tvmrt_load_panel_scales(const tvmrt_matmul_nbits_job* job, int g, int blocks,
                                          int32_t c, int num_valid, tvmrt_panel_scales* of) {
  const int64_t at = (int64_t)c * blocks + g;
  for (int i = 0; g % 16 == 0 && g + 16 < blocks && i < num_valid; i++) {
    TVMRT_PREFETCH_L1((uintptr_t)(job->scales + at + (int64_t)i * blocks + 16));
  }
  for (int i = 0; i < num_valid; i++) of->scales[i] = job->scales[at + (int64_t)i * blocks];
  if (job->points == NULL) {
    const float point = job->layer->point;
    for (int i = 0; i < TVMRT_PANEL_COLUMNS; i++) of->shifts[i] = -point * of->scales[i];
    return;
  }
  for (int i = 0; i < num_valid; i++) {
    of->shifts[i] = -of->scales[i] * job->points[at + (int64_t)i * blocks];
  }
}

/*! \brief Copy the next bytes of a column into a row each; ``left`` of them exist. */
TVMRT_INLINE void tvmrt_read_column(const uint8_t* column, int left, int i,
                                    uint8_t rows[][TVMRT_PANEL_COLUMNS][TVMRT_PANEL_COLUMNS]) {
  /* Prefetch each column's next line: there are more streams than the hardware prefetcher
   * follows. */
  if (left > 64) TVMRT_PREFETCH_L1((uintptr_t)(column + 64));
  for (int j = 0; j < TVMRT_PANEL_PARTS && left > 0; j++, left -= 16) {
    if (left >= 16) { /* a constant length needs no call */
      memcpy(rows[j][i], column + 16 * j, 16);
    } else {
      memcpy(rows[j][i], column + 16 * j, (size_t)left);
    }
  }
}

/*! \brief Widen all weights of some columns from c on to floats, into rows of a panel that are
 * ``stride`` floats apart. Missing columns are zeros. */
TVMRT_INLINE void tvmrt_widen_panel_columns(const tvmrt_matmul_nbits_job* job, int bits, int block,
                                            int32_t c, int columns, float* q, int stride) {
  const tvmrt_matmul_nbits_layer* layer = job->layer;
  const int bytes = block * bits / 8, mask = (1 << bits) - 1, k = layer->k;
  const int blocks = (k + block - 1) / block, total = blocks * bytes;
  const int num_valid = layer->n - c < columns ? (int)(layer->n - c) : columns;
  const uint8_t* w = job->w + (int64_t)c * total;
  uint8_t turned[TVMRT_PANEL_COLUMNS][TVMRT_PANEL_COLUMNS];
  uint8_t rows[TVMRT_PANEL_PARTS][TVMRT_PANEL_COLUMNS][TVMRT_PANEL_COLUMNS];
  tvmrt_panel_scales of;
  memset(rows, 0, sizeof(rows));
  memset(&of, 0, sizeof(of));
  for (int b = 0; b < total; b += TVMRT_PANEL_COLUMNS) {
    const int columns_now = total - b < TVMRT_PANEL_COLUMNS ? total - b : TVMRT_PANEL_COLUMNS;
    const int part = b / TVMRT_PANEL_COLUMNS % TVMRT_PANEL_PARTS;
    /* One cache line of each column at a time: columns may be a power of two apart. */
    for (int i = 0; part == 0 && i < num_valid; i++) {
      tvmrt_read_column(w + (int64_t)i * total + b, total - b, i, rows);
    }
    tvmrt_transpose_bytes(rows[part], turned);
    for (int i = 0; i < columns_now;) {
      const int g = (b + i) / bytes, inside = (b + i) % bytes;
      const int end = columns_now - i < bytes - inside ? columns_now : i + bytes - inside;
      if (inside == 0) tvmrt_load_panel_scales(job, g, blocks, c, num_valid, &of);
      for (int low = 0; low < 8; low += bits) {
        const int first = g * block + low / bits * bytes + inside - i;
        const int last = k - first < end ? k - first : end;
        tvmrt_widen_columns(turned + i, last - i, low, mask, &of, q + (int64_t)(first + i) * stride,
                            stride, columns);
      }
      i = end;
    }
  }
}

/*! \brief Widen columns [c, c + width of a tile) of the weights in the order of a tile. */
TVMRT_INLINE void tvmrt_widen_panel(const tvmrt_matmul_panels_job* job, int bits, int block,
                                    int32_t c, float* panel) {
  const int width = job->tiles->block;
  int i = 0;
  for (; i + TVMRT_PANEL_COLUMNS <= width; i += TVMRT_PANEL_COLUMNS) {
    tvmrt_widen_panel_columns(&job->blocks, bits, block, c + i, TVMRT_PANEL_COLUMNS, panel + i,
                              width);
  }
  if (i < width) {
    tvmrt_widen_panel_columns(&job->blocks, bits, block, c + i, width - i, panel + i, width);
  }
}

/*! \brief All rows of y, for the columns of a tile from c on. */
TVMRT_INLINE int tvmrt_matmul_panel(const tvmrt_matmul_panels_job* job, int32_t c,
                                    const float* panel) {
  const tvmrt_matmul_nbits_layer* layer = job->blocks.layer;
  tvmrt_segment_f32 segment = {job->blocks.x, 0};
  tvmrt_tile_row_f32_args row;
  memset(&row, 0, sizeof(row));
  row.tiles = job->tiles;
  row.tile.segments = &segment;
  row.tile.segment_count = 1;
  row.tile.run = layer->k;
  row.tile.x_stride = layer->k;
  row.tile.w_stride = job->tiles->block;
  row.tile.out_stride = layer->n;
  row.tile.lo = -INFINITY;
  row.tile.hi = INFINITY;
  row.w = panel;
  row.out = job->blocks.y + c;
  const int32_t left = layer->n - c;
  return tvmrt_tile_row_f32(&row, 0, layer->m, 0,
                            left < job->tiles->block ? (int)left : job->tiles->block);
}

TVMRT_INLINE int tvmrt_matmul_panels_part(int task, const TVMParallelGroupEnv* env,
                                          const tvmrt_matmul_panels_job* job, int bits, int block) {
  const tvmrt_matmul_nbits_layer* layer = job->blocks.layer;
  const int width = job->tiles->block;
  const int32_t first = (int32_t)tvmrt_task_begin(layer->n, width, task, env->num_task);
  const int32_t end = (int32_t)tvmrt_task_begin(layer->n, width, task + 1, env->num_task);
  if (first >= end) return 0;
  float* panel = (float*)tvmrt_scratch_alloc((int64_t)layer->k * width * (int64_t)sizeof(float));
  if (!panel) return -1;
  int rc = 0;
  for (int32_t c = first; c < end && rc == 0; c += width) {
    tvmrt_widen_panel(job, bits, block, c, panel);
    rc = tvmrt_matmul_panel(job, c, panel);
  }
  if (tvmrt_scratch_free(panel) != 0) rc = -1;
  return rc;
}

static inline int tvmrt_matmul_panels_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_matmul_panels_job* job = (const tvmrt_matmul_panels_job*)closure;
  const tvmrt_matmul_nbits_layer* layer = job->blocks.layer;
  return tvmrt_matmul_panels_part(task, env, job, layer->bits, layer->block);
}

TVMRT_BLOCK_KINDS(TVMRT_BLOCK_TASK, tvmrt_matmul_panels)
TVMRT_BLOCK_TASK(tvmrt_matmul_panels, 8, 16)

/*! \brief Return the task function for a layer's blocks. */
TVMRT_INLINE FTVMParallelLambda tvmrt_matmul_panels_choose(int bits, int block) {
  TVMRT_BLOCK_KINDS(TVMRT_BLOCK_CHOICE, tvmrt_matmul_panels)
  TVMRT_BLOCK_CHOICE(tvmrt_matmul_panels, 8, 16)
  return tvmrt_matmul_panels_task;
}

/*!
 * \brief The matmul that the layer describes, for any number of rows that the tiles cover.
 * \param w      [in] bytes of the weights, contiguous.
 * \param scales [in] one per block, [n][blocks].
 * \param points [in] one zero point per block, or NULL for layer->point everywhere.
 * \return 0, or -1 if scratch memory runs out for a panel (k floats times the width of a tile,
 * for each thread) or a thread failed.
 */
TVMRT_INLINE int tvmrt_matmul_panels_f32(const tvmrt_matmul_nbits_layer* layer,
                                         const tvmrt_tiles_f32* tiles, const float* x,
                                         const uint8_t* w, const float* scales, const float* points,
                                         float* y) {
  tvmrt_matmul_panels_job job = {{layer, x, w, scales, points, y}, tiles};
  const int64_t macs = layer->m * layer->n * layer->k;
  const FTVMParallelLambda task = tvmrt_matmul_panels_choose(layer->bits, layer->block);
  return tvmrt_launch(task, &job, macs, TVMRT_PARALLEL_MIN_MACS);
}

#endif  // TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_PANELS_H_
