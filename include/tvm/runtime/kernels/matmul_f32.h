/*!
 * \file matmul_f32.h
 * \brief Matrix multiplication in float32: y = clamp(a * b + bias + residual), batched, b constant
 * or computed.
 *
 * a is [m][k] and y is [m][n], each with a row stride. b has one of three layouts:
 *
 *     TVMRT_B_PACKED   constant weights, packed as tile/gemm_f32.h describes: [block][k][NR * V]
 *     TVMRT_B_ROWS     [k][n] with a row stride, as computed by another operator
 *     TVMRT_B_COLUMNS  [n][k] with a row stride (a is multiplied with b transposed)
 *
 * Worked example of packing, k = 2, n = 3, b = {{1, 2, 3}, {4, 5, 6}}, V = 2, NR = 1: 1 2 4 5 | 3 0
 * 6 0.
 *
 * A b that is not packed is packed into scratch memory one block at a time. If few rows of a use
 * it, it is read in place.
 */
#ifndef TVM_RUNTIME_KERNELS_MATMUL_F32_H_
#define TVM_RUNTIME_KERNELS_MATMUL_F32_H_

#include "conv_f32.h"
#include "tile/transpose.h"

typedef enum { TVMRT_B_PACKED, TVMRT_B_ROWS, TVMRT_B_COLUMNS, TVMRT_B_ORDERS } tvmrt_b_order;

/*! \brief A matmul over two batch dimensions (1 if not needed); all strides are in floats and may
 * be 0. */
typedef struct tvmrt_matmul_f32_layer {
  int32_t batch[2];
  int32_t m, n, k;
  int64_t a_batch[2], b_batch[2], y_batch[2], residual_batch[2];
  int32_t a_stride;
  /*! \brief Row stride of b as stored; unused if it is packed. */
  int32_t b_stride;
  int32_t y_stride;
  /*! \brief 0 adds one row of n floats to all rows: a computed bias. */
  int32_t residual_stride;
  /*! \brief Clamp bounds, -INFINITY and INFINITY for none. */
  float lo;
  float hi;
  tvmrt_b_order b_order;
} tvmrt_matmul_f32_layer;

/*! \brief Maximum rows of a for which b is read in place. */
enum { TVMRT_MATMUL_FEW_ROWS = 4 };

/*! \brief Rows of a per task that amortise packing a b shared with other tasks: packing takes as
 * long as some sixteen rows. */
enum { TVMRT_MATMUL_MANY_ROWS = 64 };

typedef struct tvmrt_matmul_f32_job {
  const tvmrt_matmul_f32_layer* layer;
  const tvmrt_tiles_f32* tiles;
  const tvmrt_data_f32* data;
} tvmrt_matmul_f32_job;

/* Elements of a batched operand before the matrix number `batch`. */
static inline int64_t tvmrt_matmul_f32_offset(const tvmrt_matmul_f32_layer* layer,
                                              const int64_t strides[2], int64_t batch) {
  return batch / layer->batch[1] * strides[0] + batch % layer->batch[1] * strides[1];
}

/*! \brief Scratch bytes of each task of the layer, 0 for none. */
static inline int64_t tvmrt_matmul_f32_scratch_bytes(const tvmrt_matmul_f32_layer* layer,
                                                     int block) {
  return layer->b_order == TVMRT_B_PACKED ? 0 : (int64_t)layer->k * block * (int64_t)sizeof(float);
}

/* Pack columns [c, c + count) of a row-major b, in blocks of `block`. */
static inline void tvmrt_matmul_f32_pack_rows(const tvmrt_matmul_f32_layer* layer, const float* b,
                                              int c, int count, int block, float* panel) {
  for (int k = 0; k < layer->k; k++) {
    float* row = panel + (int64_t)k * block;
    const float* from = b + (int64_t)k * layer->b_stride + c;
#if TVMRT_SIMD_LANES_F32 > 1
    enum { kLanes = TVMRT_SIMD_LANES_F32 };
    int i = 0;
    for (; i + kLanes <= count; i += kLanes) TVMRT_F32V(store)(row + i, TVMRT_F32V(load)(from + i));
    for (; i < count; i++) row[i] = from[i];
#else
    memcpy(row, from, (size_t)count * sizeof(float));
#endif
  }
}

/* Pack columns [c, c + count) of a column-major b, in blocks of `block`. */
static inline void tvmrt_matmul_f32_pack_columns(const tvmrt_matmul_f32_layer* layer,
                                                 const float* b, int c, int count, int block,
                                                 float* panel) {
  tvmrt_transpose_float(b + (int64_t)c * layer->b_stride, layer->b_stride, panel, block, layer->k,
                        count);
}

/* Pack columns [c, c + count) of b at panel; count <= block. */
static inline void tvmrt_matmul_f32_pack(const tvmrt_matmul_f32_layer* layer, const float* b, int c,
                                         int count, int block, float* panel) {
  TVMRT_HANDLES(TVMRT_B_ORDERS, 3);
  if (layer->b_order == TVMRT_B_ROWS) {
    tvmrt_matmul_f32_pack_rows(layer, b, c, count, block, panel);
  } else {
    tvmrt_matmul_f32_pack_columns(layer, b, c, count, block, panel);
  }
  for (int k = 0; k < layer->k && count < block; k++) {
    for (int i = count; i < block; i++) panel[(int64_t)k * block + i] = 0.0f;
  }
}

/* Dot products of x with four rows of b, k floats each. */
static inline void tvmrt_matmul_f32_dot4(const float* x, const float* const b[4], int k,
                                         float result[4]) {
  enum { kLanes = TVMRT_SIMD_LANES_F32 };
  tvmrt_f32v sum[4];
  const int whole = k / kLanes * kLanes;
  for (int i = 0; i < 4; i++) sum[i] = TVMRT_F32V(splat)(0.0f);
  for (int j = 0; j < whole; j += kLanes) {
    const tvmrt_f32v each = TVMRT_F32V(load)(x + j);
    for (int i = 0; i < 4; i++) {
      sum[i] = TVMRT_F32V(fma)(each, TVMRT_F32V(load)(b[i] + j), sum[i]);
    }
  }
  for (int i = 0; i < 4; i++) {
    const tvmrt_f32v each = TVMRT_F32V(load_n)(x + whole, k - whole);
    const tvmrt_f32v tail = TVMRT_F32V(load_n)(b[i] + whole, k - whole);
    result[i] = TVMRT_F32V(sum)(TVMRT_F32V(fma)(each, tail, sum[i]));
  }
}

/* Few rows times a column-major b: too few uses of b for packing to pay. */
static inline void tvmrt_matmul_f32_dots(const tvmrt_tile_row_f32_args* row, const float* b,
                                         const tvmrt_matmul_f32_layer* layer, int64_t begin,
                                         int64_t end, int count) {
  for (int64_t m = begin; m < end; m++) {
    const float* x = row->tile.segments[0].x + m * layer->a_stride;
    float* out = row->out + m * layer->y_stride;
    for (int c = 0; c < count; c += 4) {
      const float* columns[4];
      float result[4];
      for (int i = 0; i < 4; i++) {
        columns[i] = b + (int64_t)(c + i < count ? c + i : count - 1) * layer->b_stride;
      }
      tvmrt_matmul_f32_dot4(x, columns, layer->k, result);
      for (int i = 0; i < 4 && c + i < count; i++) {
        float y = result[i] + (row->bias ? row->bias[c + i] : 0.0f);
        if (row->residual) y += row->residual[m * layer->residual_stride + c + i];
        y = y < layer->lo ? layer->lo : y;
        out[c + i] = y > layer->hi ? layer->hi : y;
      }
    }
    if (row->epilogue) row->epilogue(out, row->pixel + m, 1, row->channel, count, row->ctx);
  }
}

/* Set the arguments shared by all rows of one block of columns: sums of `run` elements from rows
 * of a that are x_stride apart; out and residual are those of row 0. */
static inline void tvmrt_matmul_f32_row(const tvmrt_matmul_f32_job* job, int64_t batch, int c,
                                        int64_t run, int64_t x_stride,
                                        tvmrt_tile_row_f32_args* row) {
  const tvmrt_matmul_f32_layer* layer = job->layer;
  const tvmrt_data_f32* data = job->data;
  memset(row, 0, sizeof(*row));
  row->tiles = job->tiles;
  row->tile.segment_count = 1;
  row->tile.run = run;
  row->tile.x_stride = x_stride;
  row->tile.w_stride = job->tiles->block;
  row->packed = job->tiles->block;
  row->tile.out_stride = layer->y_stride;
  row->tile.residual_stride = layer->residual_stride;
  row->tile.lo = layer->lo;
  row->tile.hi = layer->hi;
  row->bias = data->bias ? data->bias + c : NULL;
  row->out = data->y + tvmrt_matmul_f32_offset(layer, layer->y_batch, batch) + c;
  if (data->residual) {
    row->residual =
        data->residual + tvmrt_matmul_f32_offset(layer, layer->residual_batch, batch) + c;
  }
  row->pixel = batch * layer->m;
  row->channel = c;
  row->epilogue = data->epilogue;
  row->ctx = data->ctx;
}

/* Rows [begin, end) of one block of columns of one matrix of the batch. `more`: another block
 * follows, whose weights are prefetched. */
static inline int tvmrt_matmul_f32_block(const tvmrt_matmul_f32_job* job, int64_t batch, int c,
                                         int64_t begin, int64_t end, int more, float* panel) {
  const tvmrt_matmul_f32_layer* layer = job->layer;
  const int block = job->tiles->block, count = layer->n - c < block ? layer->n - c : block;
  const float* b = job->data->w + tvmrt_matmul_f32_offset(layer, layer->b_batch, batch);
  tvmrt_segment_f32 segment = {job->data->x + tvmrt_matmul_f32_offset(layer, layer->a_batch, batch),
                               0};
  tvmrt_tile_row_f32_args row;
  tvmrt_matmul_f32_row(job, batch, c, layer->k, layer->a_stride, &row);
  row.tile.segments = &segment;
  const int few = layer->m <= TVMRT_MATMUL_FEW_ROWS;
#ifndef TVMRT_FIXED_ORDER /* where the bits must not depend on the number of rows */
  if (layer->b_order == TVMRT_B_COLUMNS && few) {
    tvmrt_matmul_f32_dots(&row, b + (int64_t)c * layer->b_stride, layer, begin, end, count);
    return 0;
  }
#endif
  if (layer->b_order == TVMRT_B_PACKED) {
    row.w = b + (int64_t)(c / block) * layer->k * block;
    if (more) {
      const int64_t floats = (int64_t)layer->k * block;
      tvmrt_set_prefetch_f32(&row.tile, row.w + floats, floats,
                             tvmrt_tile_count_f32(job->tiles, end - begin) * layer->k);
    }
  } else if (layer->b_order == TVMRT_B_ROWS && few && count == block) {
    row.w = b + c;
    row.tile.w_stride = layer->b_stride;
  } else {
    tvmrt_matmul_f32_pack(layer, b, c, count, block, panel);
    row.w = panel;
  }
  return tvmrt_tile_row_f32(&row, begin, end, 0, count);
}

/* Part of a task: blocks of columns, counted over the batch, divided by rows. Tasks have whole
 * matrices of a batch, and rows of those at their boundaries. Neighbouring steps, such as the
 * softmax of an attention, are divided by rows too, so little data moves to another core. */
static inline tvmrt_work_part tvmrt_matmul_f32_work_part_of_blocks(const tvmrt_matmul_f32_job* job,
                                                                   int64_t rows, int task,
                                                                   int num_task) {
  const tvmrt_matmul_f32_layer* layer = job->layer;
  const int block = job->tiles->block, width = job->tiles->width[0] > 0 ? job->tiles->width[0] : 1;
  const int64_t blocks = (layer->n + block - 1) / block, tiles = (rows + width - 1) / width;
  const int64_t batch = (int64_t)layer->batch[0] * layer->batch[1], units = blocks * batch;
#ifndef TVMRT_FREESTANDING /* with one task: a second call would not be optimised out */
  if (batch > 1 && batch * rows >= (int64_t)num_task * TVMRT_MATMUL_MANY_ROWS) {
    return tvmrt_split_batch(batch, blocks, rows, width, task, num_task);
  }
#endif
  const float by_rows = tvmrt_task_imbalance(tiles, num_task);
  const float by_units = tvmrt_task_imbalance(units * tiles, num_task);
  /* matrices of a batch have separate operands, and tasks with rows would each pack all of b */
  const int alone = batch == 1 && layer->b_order == TVMRT_B_PACKED;
  if (alone ? !tvmrt_splits_channels(by_units, by_rows, (float)layer->n, (float)layer->m, num_task)
            : by_rows < by_units) {
    return tvmrt_split_rows(units, rows, width, task, num_task);
  }
  /* a narrower last block takes as long as the others */
  return tvmrt_split_units(batch, blocks * block, block, rows, width, task, num_task);
}

static inline tvmrt_work_part tvmrt_matmul_f32_work_part(const tvmrt_matmul_f32_job* job, int task,
                                                         int num_task) {
  const int64_t rows = tvmrt_pixels_to_cut_f32(job->tiles, job->layer->m);
  return tvmrt_extend_rows(tvmrt_matmul_f32_work_part_of_blocks(job, rows, task, num_task), rows,
                           job->layer->m);
}

static inline int tvmrt_matmul_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_matmul_f32_job* job = (const tvmrt_matmul_f32_job*)closure;
  const tvmrt_work_part share = tvmrt_matmul_f32_work_part(job, task, env->num_task);
  const int block = job->tiles->block;
  const int64_t blocks = (job->layer->n + block - 1) / block;
  const int64_t bytes = tvmrt_matmul_f32_scratch_bytes(job->layer, block);
  float* panel = NULL;
  int rc = 0;
  if (tvmrt_work_part_is_empty(&share)) return 0;
  if (bytes > 0) {
    panel = (float*)tvmrt_scratch_alloc(bytes);
    if (!panel) return -1;
  }
  for (int64_t u = share.begin.unit; u < tvmrt_work_part_end(&share) && rc == 0; u++) {
    rc =
        tvmrt_matmul_f32_block(job, u / blocks, (int)(u % blocks) * block,
                               tvmrt_work_first_row(&share, u), tvmrt_work_end_row(&share, u),
                               u + 1 < tvmrt_work_part_end(&share) && (u + 1) % blocks != 0, panel);
  }
  if (tvmrt_scratch_free(panel) != 0) rc = -1;
  return rc;
}

/*!
 * \brief y = clamp(a * b + bias + residual), then the epilogue.
 * \param layer Sizes, strides, clamp bounds and the layout of b.
 * \param tiles Tiles whose widths cover m rows.
 * \param data x is a, rows of k contiguous floats; w is b, in the layout given by the layer. For
 * the epilogue, a row of the batch is a pixel, a column a channel.
 * \return 0; -1 if scratch memory runs out or a thread failed.
 *
 * Uses the threads of the runtime if the matmul is large enough. The result does not depend on
 * their number.
 */
static inline int tvmrt_matmul_f32(const tvmrt_matmul_f32_layer* layer,
                                   const tvmrt_tiles_f32* tiles, const tvmrt_data_f32* data) {
  tvmrt_matmul_f32_job job = {layer, tiles, data};
  const int64_t batch = (int64_t)layer->batch[0] * layer->batch[1];
  return tvmrt_launch(tvmrt_matmul_f32_task, &job, batch * layer->m * layer->n * layer->k,
                      TVMRT_PARALLEL_MIN_PRODUCT);
}

#endif /* TVM_RUNTIME_KERNELS_MATMUL_F32_H_ */
