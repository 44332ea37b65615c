/*!
 * \file matmul_bf16.h
 * \brief Matrix multiplication of float32 in bfloat16: rounded operands, float32 accumulators.
 *
 * Like matmul_f32.h, except that a tile reads pairs of neighbouring k (tile/gemm_bf16.h). Rows of a
 * are rounded into scratch some at a time, a computed b one block of columns at a time. The
 * compiler has rounded a packed b; its strides count pairs.
 */
#ifndef TVM_RUNTIME_KERNELS_MATMUL_BF16_H_
#define TVM_RUNTIME_KERNELS_MATMUL_BF16_H_

#include "matmul_f32.h"
#include "tile/gemm_bf16.h"

/* Bytes of rows of a that are rounded at a time (scratch of generated code); at least a tile's
 * rows. */
#ifndef TVMRT_MATMUL_BF16_BYTES
#define TVMRT_MATMUL_BF16_BYTES 65536
#endif

/*! \brief The scratch of a task: a panel of b, and rounded rows of a. */
typedef struct tvmrt_matmul_bf16_scratch {
  int32_t* panel;
  int32_t* rows;
  int each; /*!< Words per pair in the rows. */
  int64_t rows_at_once;
  const float* first_rounded; /*!< The first of the rows that are in scratch. */
} tvmrt_matmul_bf16_scratch;

/* Pair rows k and k + 1 of b, `count` columns, zero-padded to the block; `second` may be NULL. */
static inline void tvmrt_matmul_bf16_pair_rows(const float* first, const float* second, int count,
                                               int block, int32_t* panel) {
  if (second) {
    for (int i = 0; i < count; i++) panel[i] = (int32_t)tvmrt_bf16_pair(first[i], second[i]);
  } else {
    for (int i = 0; i < count; i++) panel[i] = (int32_t)tvmrt_bf16_pair(first[i], 0.0f);
  }
  for (int i = count; i < block; i++) panel[i] = 0;
}

/* Pack columns [c, c + count) of b into the panel; count <= block. */
static inline void tvmrt_matmul_bf16_pack(const tvmrt_matmul_f32_layer* layer, const float* b,
                                          int c, int count, int block, int32_t* panel) {
  enum { kAtOnce = 32 };
  int32_t pairs[kAtOnce / 2];
  TVMRT_HANDLES(TVMRT_B_ORDERS, 3);
  if (layer->b_order == TVMRT_B_ROWS) {
    for (int k = 0; k < layer->k; k += 2) {
      const float* row = b + (int64_t)k * layer->b_stride + c;
      const float* next = k + 1 < layer->k ? row + layer->b_stride : NULL;
      tvmrt_matmul_bf16_pair_rows(row, next, count, block, panel + (int64_t)(k / 2) * block);
    }
    return;
  }
  /* A few k at a time, so that the written lines of the panel stay in the cache. */
  for (int k = 0; k < layer->k; k += kAtOnce) {
    const int chunk = layer->k - k < kAtOnce ? (int)layer->k - k : (int)kAtOnce;
    int32_t* to = panel + (int64_t)(k / 2) * block;
    for (int i = 0; i < count; i++) {
      tvmrt_bf16_round(pairs, b + (int64_t)(c + i) * layer->b_stride + k, chunk);
      for (int j = 0; j < (chunk + 1) / 2; j++) to[(int64_t)j * block + i] = pairs[j];
    }
    for (int j = 0; j < (chunk + 1) / 2; j++) {
      for (int i = count; i < block; i++) to[(int64_t)j * block + i] = 0;
    }
  }
}

/* Rows [begin, end) of one block of columns of one matrix of the batch. */
static inline int tvmrt_matmul_bf16_block(const tvmrt_matmul_f32_job* job, int64_t batch, int c,
                                          int64_t begin, int64_t end,
                                          tvmrt_matmul_bf16_scratch* scratch) {
  const tvmrt_matmul_f32_layer* layer = job->layer;
  const int block = job->tiles->block, pairs = (layer->k + 1) / 2;
  const int count = layer->n - c < block ? layer->n - c : block;
  const float* a = job->data->x + tvmrt_matmul_f32_offset(layer, layer->a_batch, batch);
  const float* b = job->data->w + tvmrt_matmul_f32_offset(layer, layer->b_batch, batch);
  tvmrt_segment_f32 segment = {(const float*)(const void*)scratch->rows, 0};
  tvmrt_tile_row_f32_args row;
  int rc = 0;
  tvmrt_matmul_f32_row(job, batch, c, pairs, (int64_t)pairs * scratch->each, &row);
  row.tile.segments = &segment;
  if (layer->b_order == TVMRT_B_PACKED) {
    row.w = b + (int64_t)(c / block) * pairs * block;
  } else {
    tvmrt_matmul_bf16_pack(layer, b, c, count, block, scratch->panel);
    row.w = (const float*)(const void*)scratch->panel;
  }
  float* const y = row.out;
  const float* const residual = row.residual;
  for (int64_t t = begin; t < end && rc == 0; t += scratch->rows_at_once) {
    const int64_t left = end - t,
                  chunk = left < scratch->rows_at_once ? left : scratch->rows_at_once;
    const float* from = a + t * layer->a_stride;
    if (scratch->first_rounded != from) {
      tvmrt_bf16_round_rows(scratch->rows, row.tile.x_stride, scratch->each, from, layer->a_stride,
                            chunk, layer->k);
      scratch->first_rounded = from;
    }
    row.out = y + t * layer->y_stride;
    row.residual = residual ? residual + t * layer->residual_stride : NULL;
    row.pixel = batch * layer->m + t;
    rc = tvmrt_tile_row_f32(&row, 0, chunk, 0, count);
  }
  return rc;
}

/* Allocate the scratch of a task with that many rows. \return Its memory, or NULL. */
static inline void* tvmrt_matmul_bf16_begin(const tvmrt_matmul_f32_job* job, int64_t rows,
                                            tvmrt_matmul_bf16_scratch* scratch) {
  const int each = job->tiles->pairs && job->tiles->pairs->wide ? 2 : 1;
  const int64_t pairs = ((int64_t)job->layer->k + 1) / 2, size = (int64_t)sizeof(int32_t);
  const int64_t width = job->tiles->width[0] > 0 ? job->tiles->width[0] : 1;
  const int64_t panel = job->layer->b_order == TVMRT_B_PACKED ? 0 : pairs * job->tiles->block;
  const int64_t row = pairs * each;
  int64_t chunk = row > 0 ? TVMRT_MATMUL_BF16_BYTES / (row * size) : rows;
  chunk = chunk < 2 * width ? 2 * width : chunk / width * width;
  chunk = chunk < rows ? chunk : rows;
  const int64_t overread =
      job->tiles->pairs && job->tiles->pairs->begin ? TVMRT_OVERREAD_PIXELS : 0;
  /* at least a byte: NULL is an error */
  void* memory = tvmrt_scratch_alloc((panel + (chunk + overread) * row) * size + 1);
  scratch->panel = (int32_t*)memory;
  scratch->rows = memory ? (int32_t*)memory + panel : NULL;
  scratch->each = each;
  scratch->rows_at_once = chunk;
  scratch->first_rounded = NULL;
  return memory;
}

static inline int tvmrt_matmul_bf16_part(const tvmrt_matmul_f32_job* job, int task, int num_task) {
  const tvmrt_work_part share = tvmrt_matmul_f32_work_part(job, task, num_task);
  const int block = job->tiles->block;
  const int64_t blocks = (job->layer->n + block - 1) / block;
  tvmrt_matmul_bf16_scratch scratch;
  int rc = 0;
  if (tvmrt_work_part_is_empty(&share)) return 0;
  void* memory = tvmrt_matmul_bf16_begin(job, share.last - share.first, &scratch);
  if (!memory) return -1;
  for (int64_t u = share.begin.unit; u < tvmrt_work_part_end(&share) && rc == 0; u++) {
    rc = tvmrt_matmul_bf16_block(job, u / blocks, (int)(u % blocks) * block,
                                 tvmrt_work_first_row(&share, u), tvmrt_work_end_row(&share, u),
                                 &scratch);
  }
  if (tvmrt_scratch_free(memory) != 0) rc = -1;
  return rc;
}

static inline int tvmrt_matmul_bf16_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_matmul_f32_job* job = (const tvmrt_matmul_f32_job*)closure;
  tvmrt_bf16_begin(job->tiles, ((int64_t)job->layer->k + 1) / 2);
  const int rc = tvmrt_matmul_bf16_part(job, task, env->num_task);
  tvmrt_bf16_end(job->tiles);
  return rc;
}

/*! \brief y = clamp(a * b + bias + residual), then the epilogue; like tvmrt_matmul_f32() with a and
 * b rounded to bfloat16, and tiles of pairs. */
static inline int tvmrt_matmul_bf16(const tvmrt_matmul_f32_layer* layer,
                                    const tvmrt_tiles_f32* tiles, const tvmrt_data_f32* data) {
  tvmrt_matmul_f32_job job = {layer, tiles, data};
  const int64_t batch = (int64_t)layer->batch[0] * layer->batch[1];
  const int64_t work = batch * layer->m * layer->n * (((int64_t)layer->k + 1) / 2);
  return tvmrt_launch(tvmrt_matmul_bf16_task, &job, work,
                      tvmrt_bf16_macs(tiles) * TVMRT_PARALLEL_MIN_PRODUCT);
}

#endif /* TVM_RUNTIME_KERNELS_MATMUL_BF16_H_ */
