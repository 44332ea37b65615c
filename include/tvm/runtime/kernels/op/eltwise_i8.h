/*!
 * \file op/eltwise_i8.h
 * \brief Elementwise operators on 8-bit tensors of equal shape.
 *
 * Unary functions, including changes of scale, are 256-byte look-up tables that the compiler of the
 * network computes. Sums and products of two tensors are computed in float with one rounding per
 * step, as ONNX defines them.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_ELTWISE_I8_H_
#define TVM_RUNTIME_KERNELS_OP_ELTWISE_I8_H_

#include <tvm/runtime/c_backend_api.h>

#include "../parallel.h"
#include "../tile/requantize.h"

/*!
 * \brief y = clamp(round((a * fa) * (b * fb) * factor / divisor) + zero), minus zero points.
 *
 * With fa = a_scale, fb = b_scale, 1 and y_scale this is bit-identical to DequantizeLinear, Mul and
 * QuantizeLinear; with 1, 1, a_scale * b_scale / y_scale and 1 it is QLinearMul.
 */
typedef struct tvmrt_mul_i8 {
  float fa, fb, factor, divisor;
  int32_t a_zero, a_signed; /* signed: 1 for int8, 0 for uint8 */
  int32_t b_zero, b_signed;
  tvmrt_i8_range range;
} tvmrt_mul_i8;

TVMRT_INLINE void tvmrt_mul_i8_lanes(const tvmrt_mul_i8* f, uint8_t* y, const uint8_t* a,
                                     const uint8_t* b) {
  tvmrt_i8_floats u = tvmrt_i8_floats_load(a, f->a_zero, f->a_signed) * f->fa;
  tvmrt_i8_floats v = tvmrt_i8_floats_load(b, f->b_zero, f->b_signed) * f->fb;
  u = u * v * f->factor;
  if (f->divisor != 1.0f) u = u / f->divisor;
  /* keeps the product from being fused with the rounding that follows */
  tvmrt_i8_floats_store(y, tvmrt_i8_floats_unfused_product(u), &f->range);
}

TVMRT_DEFINE_PAIR_I8_ROW(tvmrt_mul_i8_row, tvmrt_mul_i8, tvmrt_mul_i8_lanes)

/*! \brief Arguments of one of the functions below, for its tasks. */
typedef struct tvmrt_eltwise_i8_job {
  const tvmrt_add_i8* add; /* one of these three */
  const tvmrt_mul_i8* mul;
  const uint8_t* table;
  const uint8_t *a, *b;
  uint8_t* y;
  int64_t n;
} tvmrt_eltwise_i8_job;

static inline int tvmrt_eltwise_i8_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_eltwise_i8_job* job = (const tvmrt_eltwise_i8_job*)closure;
  /* parts of whole cache lines, so that no two tasks write to one */
  const int64_t lines = (job->n + 63) / 64;
  const int64_t begin = lines * task / env->num_task * 64;
  int64_t end = lines * (task + 1) / env->num_task * 64;
  if (end > job->n) end = job->n;
  if (begin >= end) return 0;
  if (job->add != NULL) {
    tvmrt_add_i8_row(job->add, job->y + begin, job->a + begin, job->b + begin, end - begin);
  } else if (job->mul != NULL) {
    tvmrt_mul_i8_row(job->mul, job->y + begin, job->a + begin, job->b + begin, end - begin);
  } else {
    tvmrt_table_row(job->y + begin, job->a + begin, job->table, end - begin);
  }
  return 0;
}

TVMRT_INLINE int tvmrt_eltwise_i8_run(tvmrt_eltwise_i8_job* job, int threads) {
  TVMParallelGroupEnv alone = {NULL, 1};
  if (threads == 1) return tvmrt_eltwise_i8_task(0, &alone, job);
  return tvmrt_launch(tvmrt_eltwise_i8_task, job, job->n / 4, TVMRT_PARALLEL_MIN_FLOATS);
}

/*!
 * \brief Add two tensors of n elements; see tvmrt_add_i8. y may be a or b.
 * \param threads [in] 1: calling thread only; 0: all workers, if there is enough work.
 * Errors: 0, or -1 if a task failed to start.
 */
static inline int tvmrt_add_i8_run(const tvmrt_add_i8* f, void* y, const void* a, const void* b,
                                   int64_t n, int threads) {
  tvmrt_eltwise_i8_job job = {f, NULL, NULL, (const uint8_t*)a, (const uint8_t*)b, (uint8_t*)y, n};
  return tvmrt_eltwise_i8_run(&job, threads);
}

/*! \brief Multiply two tensors of n elements; see tvmrt_mul_i8; else as tvmrt_add_i8_run(). */
static inline int tvmrt_mul_i8_run(const tvmrt_mul_i8* f, void* y, const void* a, const void* b,
                                   int64_t n, int threads) {
  tvmrt_eltwise_i8_job job = {NULL, f, NULL, (const uint8_t*)a, (const uint8_t*)b, (uint8_t*)y, n};
  return tvmrt_eltwise_i8_run(&job, threads);
}

/*! \brief Apply a unary function to n elements by its table; otherwise like tvmrt_add_i8_run. */
static inline int tvmrt_table_i8_run(const uint8_t table[256], void* y, const void* a, int64_t n,
                                     int threads) {
  tvmrt_eltwise_i8_job job = {NULL, NULL, table, (const uint8_t*)a, NULL, (uint8_t*)y, n};
  return tvmrt_eltwise_i8_run(&job, threads);
}

/*! \brief Rows of n elements to which a table is applied; strides are in bytes. */
typedef struct tvmrt_table_i8_rows {
  const uint8_t* table;
  const uint8_t* x;
  uint8_t* y;
  int64_t x_stride, y_stride, rows, n;
} tvmrt_table_i8_rows;

static inline int tvmrt_table_i8_rows_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_table_i8_rows* job = (const tvmrt_table_i8_rows*)closure;
  const int64_t end = tvmrt_task_begin(job->rows, 1, task + 1, env->num_task);
  for (int64_t r = tvmrt_task_begin(job->rows, 1, task, env->num_task); r < end; r++) {
    tvmrt_table_row(job->y + r * job->y_stride, job->x + r * job->x_stride, job->table, job->n);
  }
  return 0;
}

/*! \brief Apply a table to rows; otherwise like tvmrt_table_i8_run(). */
static inline int tvmrt_table_i8_rows_run(const tvmrt_table_i8_rows* rows, int threads) {
  TVMParallelGroupEnv alone = {NULL, 1};
  tvmrt_table_i8_rows job = *rows;
  if (threads == 1) return tvmrt_table_i8_rows_task(0, &alone, &job);
  return tvmrt_launch(tvmrt_table_i8_rows_task, &job, job.rows * job.n / 4,
                      TVMRT_PARALLEL_MIN_FLOATS);
}

#endif /* TVM_RUNTIME_KERNELS_OP_ELTWISE_I8_H_ */
