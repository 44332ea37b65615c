/*!
 * \file attention_f32.h
 * \brief Attention in float32: y = softmax(q * k) * v, a few rows of q at a time.
 *
 * As three steps, it writes all scores q * k to memory, m * n floats for each matrix of the batch,
 * and reads them twice. Here a task packs k and v of a matrix once, and its scores stay in its
 * cache. Each element is computed as by the three steps, so its bits are the same.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_ATTENTION_F32_H_
#define TVM_RUNTIME_KERNELS_OP_ATTENTION_F32_H_

#include "../matmul_f32.h"
#include "softmax.h"

/*! \brief Bytes of the scores that a task computes at a time, unless a tile has more. */
enum { TVMRT_ATTENTION_BYTES = 64 << 10 };

/*! \brief A function of whole rows of scores, element by element, which are one after the other;
 * `pixel` counts rows over the batch. NULL for none. */
typedef struct tvmrt_attention_f32_function {
  tvmrt_epilogue_f32 run;
  const void* ctx;
} tvmrt_attention_f32_function;

/*! \brief An attention. Neither right operand is packed. */
typedef struct tvmrt_attention_f32_job {
  /*! \brief The matmul of q and k. Its y has a row stride of n and batch strides of 0: each task has
   * its own. */
  tvmrt_matmul_f32_job scores;
  /*! \brief The matmul of the scores and v, of as many matrices and rows. Its x is that y. */
  tvmrt_matmul_f32_job values;
  /*! \brief What is computed before and after the softmax, such as a mask. */
  tvmrt_attention_f32_function before, after;
} tvmrt_attention_f32_job;

/* Memory of a task: k and v of a matrix, packed, or for few rows a block of it, and scores. */
typedef struct tvmrt_attention_f32_memory {
  float *keys, *values, *scores;
} tvmrt_attention_f32_memory;

/* Floats of a packed right operand. */
static inline int64_t tvmrt_attention_f32_packed(const tvmrt_matmul_f32_job* job) {
  const int64_t block = job->tiles->block;
  return (job->layer->n + block - 1) / block * block * job->layer->k;
}

/* Pack the right operand of a matrix, one block of columns after the other. */
static inline void tvmrt_attention_f32_pack(const tvmrt_matmul_f32_job* job, int64_t batch,
                                            float* panel) {
  const tvmrt_matmul_f32_layer* layer = job->layer;
  const int block = job->tiles->block;
  const float* b = job->data->w + tvmrt_matmul_f32_offset(layer, layer->b_batch, batch);
  for (int c = 0; c < layer->n; c += block) {
    const int count = layer->n - c < block ? layer->n - c : block;
    tvmrt_matmul_f32_pack(layer, b, c, count, block, panel + (int64_t)c * layer->k);
  }
}

/* Rows [begin, end) of a product: x has these rows of a, y receives them. The epilogue of scores
 * follows for whole rows, which are one long row for it. */
static inline int tvmrt_attention_f32_product(const tvmrt_matmul_f32_job* job, int64_t batch,
                                              int64_t begin, int64_t end, const float* x,
                                              const float* packed, float* y) {
  const tvmrt_matmul_f32_layer* layer = job->layer;
  const int block = job->tiles->block;
  const tvmrt_segment_f32 segment = {x, 0};
  tvmrt_data_f32 data = *job->data;
  const tvmrt_matmul_f32_job product = {layer, job->tiles, &data};
  if (data.y == NULL) data.y = y, data.epilogue = NULL; /* scores */
  for (int c = 0; c < layer->n; c += block) {
    const int count = layer->n - c < block ? layer->n - c : block;
    tvmrt_tile_row_f32_args row;
    tvmrt_matmul_f32_row(&product, batch, c, layer->k, layer->a_stride, &row);
    row.tile.segments = &segment;
    row.w = packed + (int64_t)c * layer->k;
    row.out = y + c;
    row.pixel += begin;
    if (row.residual) row.residual += begin * layer->residual_stride;
    if (tvmrt_tile_row_f32(&row, 0, end - begin, 0, count) != 0) return -1;
  }
  return 0;
}

/* Apply a function to rows of scores, the first of which is number `pixel`. */
static inline void tvmrt_attention_f32_apply(const tvmrt_attention_f32_function* function,
                                             float* scores, int64_t pixel, int64_t rows, int n) {
  if (function->run) function->run(scores, pixel, (int)rows, 0, n, function->ctx);
}

/* The epilogue and softmax of rows [begin, end) of a matrix, with the functions around it. */
static inline void tvmrt_attention_f32_softmax(const tvmrt_attention_f32_job* job, int64_t batch,
                                               int64_t begin, int64_t end, float* scores) {
  const tvmrt_matmul_f32_layer* layer = job->scores.layer;
  const int64_t pixel = batch * layer->m + begin, rows = end - begin;
  tvmrt_softmax_f32_job softmax = {scores, scores, rows, layer->n, 1, 0, 0};
  TVMParallelGroupEnv alone = {0, 1};
  const tvmrt_attention_f32_function epilogue = {job->scores.data->epilogue, job->scores.data->ctx};
  tvmrt_attention_f32_apply(&epilogue, scores, pixel, rows, layer->n);
  tvmrt_attention_f32_apply(&job->before, scores, pixel, rows, layer->n);
  (void)tvmrt_softmax_f32_task(0, &alone, &softmax); /* always 0 */
  tvmrt_attention_f32_apply(&job->after, scores, pixel, rows, layer->n);
}

/* Rows [begin, end) of a matrix whose right operands are packed. */
static inline int tvmrt_attention_f32_rows(const tvmrt_attention_f32_job* job, int64_t batch,
                                           int64_t begin, int64_t end,
                                           const tvmrt_attention_f32_memory* memory) {
  const tvmrt_matmul_f32_layer *scores = job->scores.layer, *values = job->values.layer;
  const float* x = job->scores.data->x + begin * scores->a_stride +
                   tvmrt_matmul_f32_offset(scores, scores->a_batch, batch);
  float* y = job->values.data->y + begin * values->y_stride +
             tvmrt_matmul_f32_offset(values, values->y_batch, batch);
  if (tvmrt_attention_f32_product(&job->scores, batch, begin, end, x, memory->keys,
                                  memory->scores) != 0) {
    return -1;
  }
  tvmrt_attention_f32_softmax(job, batch, begin, end, memory->scores);
  return tvmrt_attention_f32_product(&job->values, batch, begin, end, memory->scores,
                                     memory->values, y);
}

/* All rows of a matrix, too few to pack k and v for: their columns are packed or read in place as
 * the matmul alone does. */
static inline int tvmrt_attention_f32_few_rows(const tvmrt_attention_f32_job* job, int64_t batch,
                                               const tvmrt_attention_f32_memory* memory) {
  tvmrt_data_f32 data[2] = {*job->scores.data, *job->values.data};
  const tvmrt_matmul_f32_job* const jobs[2] = {&job->scores, &job->values};
  float* const panels[2] = {memory->keys, memory->values};
  data[0].y = memory->scores;
  data[0].epilogue = NULL;
  data[1].x = memory->scores;
  for (int i = 0; i < 2; i++) {
    const tvmrt_matmul_f32_layer* layer = jobs[i]->layer;
    const tvmrt_matmul_f32_job product = {layer, jobs[i]->tiles, &data[i]};
    for (int c = 0; c < layer->n; c += product.tiles->block) {
      if (tvmrt_matmul_f32_block(&product, batch, c, 0, layer->m, 0, panels[i]) != 0) return -1;
    }
    if (i == 0) tvmrt_attention_f32_softmax(job, batch, 0, layer->m, memory->scores);
  }
  return 0;
}

/* How a task divides rows of a matrix: at multiples of `unit` before `rows`, a multiple of both
 * matmuls' widths; `step` of them are computed at a time, and the last with those after `rows`. */
typedef struct tvmrt_attention_f32_cuts {
  int64_t unit, rows, step;
} tvmrt_attention_f32_cuts;

static inline tvmrt_attention_f32_cuts tvmrt_attention_f32_cut(const tvmrt_attention_f32_job* job) {
  const tvmrt_matmul_f32_layer* layer = job->scores.layer;
  const tvmrt_tiles_f32 *first = job->scores.tiles, *second = job->values.tiles;
  const int64_t one = tvmrt_pixels_to_cut_f32(first, layer->m);
  const int64_t other = tvmrt_pixels_to_cut_f32(second, layer->m);
  const int64_t row_bytes = (int64_t)layer->y_stride * (int64_t)sizeof(float);
  const int width = first->width[0] > 0 ? first->width[0] : 1;
  tvmrt_attention_f32_cuts cuts = {width, one < other ? one : other, 0};
  while (second->width[0] > 0 && cuts.unit % second->width[0] != 0) cuts.unit += width;
  cuts.step = TVMRT_ATTENTION_BYTES / (row_bytes > 0 ? row_bytes : 1) / cuts.unit * cuts.unit;
  if (cuts.step < cuts.unit) cuts.step = cuts.unit;
  return cuts;
}

/* Rows [begin, end) of a matrix, in parts that fit the memory. */
static inline int tvmrt_attention_f32_matrix(const tvmrt_attention_f32_job* job, int64_t batch,
                                             int64_t begin, int64_t end,
                                             const tvmrt_attention_f32_cuts* cuts,
                                             const tvmrt_attention_f32_memory* memory) {
  tvmrt_attention_f32_pack(&job->scores, batch, memory->keys);
  tvmrt_attention_f32_pack(&job->values, batch, memory->values);
  for (int64_t m = begin; m < end;) {
    const int64_t next = m + cuts->step, last = next >= cuts->rows || next > end ? end : next;
    if (tvmrt_attention_f32_rows(job, batch, m, last, memory) != 0) return -1;
    m = last;
  }
  return 0;
}

static inline int tvmrt_attention_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_attention_f32_job* job = (const tvmrt_attention_f32_job*)closure;
  const tvmrt_matmul_f32_layer* layer = job->scores.layer;
  const int64_t batch = (int64_t)layer->batch[0] * layer->batch[1];
  const int few = layer->m <= TVMRT_MATMUL_FEW_ROWS;
  tvmrt_attention_f32_cuts cuts = tvmrt_attention_f32_cut(job);
  if (few) cuts.unit = cuts.rows = layer->m; /* one task has all rows of a matrix */
  const tvmrt_work_part share = tvmrt_extend_rows(
      tvmrt_split_batch(batch, 1, cuts.rows, cuts.unit, task, env->num_task), cuts.rows, layer->m);
  if (tvmrt_work_part_is_empty(&share)) return 0;
  const int64_t keys = tvmrt_attention_f32_packed(&job->scores);
  const int64_t values = keys + tvmrt_attention_f32_packed(&job->values);
  const int64_t rows = cuts.step < layer->m ? cuts.step + layer->m - cuts.rows : layer->m;
  const int64_t floats = values + rows * layer->y_stride;
  float* all = (float*)tvmrt_scratch_alloc((floats > 0 ? floats : 1) * (int64_t)sizeof(float));
  if (!all) return -1;
  const tvmrt_attention_f32_memory memory = {all, all + keys, all + values};
  int rc = 0;
  for (int64_t u = share.begin.unit; u < tvmrt_work_part_end(&share) && rc == 0; u++) {
    rc = few ? tvmrt_attention_f32_few_rows(job, u, &memory)
             : tvmrt_attention_f32_matrix(job, u, tvmrt_work_first_row(&share, u),
                                          tvmrt_work_end_row(&share, u), &cuts, &memory);
  }
  if (tvmrt_scratch_free(all) != 0) rc = -1;
  return rc;
}

/*!
 * \brief y = after(softmax(before(q * k))) * v, with the epilogues of both matmuls.
 * \param job Its tensors are borrowed during the call.
 * \return 0; -1 if scratch memory runs out or a thread failed.
 *
 * Uses the threads of the runtime if the work is large enough. The result does not depend on their
 * number.
 */
static inline int tvmrt_attention_f32(const tvmrt_attention_f32_job* job) {
  tvmrt_attention_f32_job copy = *job;
  const tvmrt_matmul_f32_layer* layer = job->scores.layer;
  const int64_t depths = (int64_t)layer->k + job->values.layer->n;
  return tvmrt_launch(tvmrt_attention_f32_task, &copy,
                      (int64_t)layer->batch[0] * layer->batch[1] * layer->m * layer->n * depths,
                      TVMRT_PARALLEL_MIN_PRODUCT);
}

#endif /* TVM_RUNTIME_KERNELS_OP_ATTENTION_F32_H_ */
