/*!
 * \file softmax.h
 * \brief Softmax and log-softmax in float32 over one axis of a tensor seen as [outer][n][inner].
 */
#ifndef TVM_RUNTIME_KERNELS_OP_SOFTMAX_H_
#define TVM_RUNTIME_KERNELS_OP_SOFTMAX_H_

#include "../parallel.h"
#include "../scalar/math.h"
#include "../tile/simd.h"

/*! \brief Elements that are worked on at a time; few where the stack is small. */
#ifdef TVMRT_FREESTANDING
enum { TVMRT_SOFTMAX_PART = 4 * TVMRT_SIMD_LANES_F32 };
#else
enum { TVMRT_SOFTMAX_PART = 64 };
#endif

/*! \brief The largest of n contiguous floats; -INFINITY for none. */
static inline float tvmrt_row_max_f32(const float* x, int64_t n) {
  enum { kLanes = TVMRT_SIMD_LANES_F32, kStep = 4 * kLanes };
  tvmrt_f32v largest[4];
  const int64_t whole = n / kStep * kStep;
  for (int j = 0; j < 4; j++) largest[j] = TVMRT_F32V(splat)(-INFINITY);
  for (int64_t i = 0; i < whole; i += kStep) {
    for (int j = 0; j < 4; j++) {
      largest[j] = TVMRT_F32V(max)(TVMRT_F32V(load)(x + i + j * kLanes), largest[j]);
    }
  }
  float result = TVMRT_F32V(max_lane)(TVMRT_F32V(max)(TVMRT_F32V(max)(largest[0], largest[1]),
                                                      TVMRT_F32V(max)(largest[2], largest[3])));
  for (int64_t i = whole; i < n; i++) result = x[i] > result ? x[i] : result;
  return result;
}

/*! \brief The sum of n contiguous floats, in four vectors' worth of partial sums. */
static inline float tvmrt_row_sum_f32(const float* x, int64_t n) {
  enum { kLanes = TVMRT_SIMD_LANES_F32, kStep = 4 * kLanes };
  tvmrt_f32v sum[4];
  const int64_t whole = n / kStep * kStep;
  for (int j = 0; j < 4; j++) sum[j] = TVMRT_F32V(splat)(0.0f);
  for (int64_t i = 0; i < whole; i += kStep) {
    for (int j = 0; j < 4; j++) sum[j] += TVMRT_F32V(load)(x + i + j * kLanes);
  }
  float result = TVMRT_F32V(sum)((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (int64_t i = whole; i < n; i++) result += x[i];
  return result;
}

/* y[i] = e^(x[i] - largest) unless y is NULL, which may be x; returns the sum. */
static inline float tvmrt_softmax_exp_row_f32(const float* x, float largest, float* y, int64_t n) {
  enum { kPart = TVMRT_SOFTMAX_PART };
  const int64_t whole = n / kPart * kPart;
  float part[kPart], partial[kPart];
  for (int j = 0; j < kPart; j++) partial[j] = 0.0f;
  for (int64_t i = 0; i < whole; i += kPart) {
    for (int j = 0; j < kPart; j++) part[j] = tvmrt_exp_nonpositive_f32(x[i + j] - largest);
    for (int j = 0; j < kPart; j++) partial[j] += part[j];
    if (y) memcpy(y + i, part, sizeof(part));
  }
  if (whole < n) {
    const int rest = (int)(n - whole);
    for (int j = 0; j < kPart; j++) part[j] = j < rest ? x[whole + j] - largest : -INFINITY;
    for (int j = 0; j < kPart; j++) part[j] = tvmrt_exp_nonpositive_f32(part[j]);
    for (int j = 0; j < kPart; j++) partial[j] += part[j];
    if (y) memcpy(y + whole, part, (size_t)rest * sizeof(float));
  }
  return tvmrt_row_sum_f32(partial, kPart);
}

/*!
 * \brief Softmax of one row of n contiguous floats; y may be x.
 *
 * A row of -INFINITY alone gives NaN, as the definition does.
 */
static inline void tvmrt_softmax_row_f32(const float* x, float* y, int64_t n) {
  const float scale = 1.0f / tvmrt_softmax_exp_row_f32(x, tvmrt_row_max_f32(x, n), y, n);
  for (int64_t i = 0; i < n; i++) y[i] *= scale;
}

/*! \brief Log-softmax of one row of n contiguous floats; y may be x. */
static inline void tvmrt_log_softmax_row_f32(const float* x, float* y, int64_t n) {
  const float largest = tvmrt_row_max_f32(x, n);
  const float sum = tvmrt_softmax_exp_row_f32(x, largest, NULL, n);
  const float offset = largest + tvmrt_log_f32(sum);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] - offset;
}

typedef struct {
  const float* x;
  float* y;
  int64_t outer, n, inner;
  int log;
} tvmrt_softmax_f32_job;

/* `count` neighbouring columns of an [n][inner] matrix, up to TVMRT_SOFTMAX_COLUMNS at a time. */
enum { TVMRT_SOFTMAX_COLUMNS = TVMRT_SOFTMAX_PART };
static inline void tvmrt_softmax_columns_f32(const tvmrt_softmax_f32_job* job, const float* x,
                                             float* y, int count) {
  float largest[TVMRT_SOFTMAX_COLUMNS], sum[TVMRT_SOFTMAX_COLUMNS];
  const int64_t inner = job->inner;
  for (int j = 0; j < count; j++) largest[j] = x[j], sum[j] = 0.0f;
  for (int64_t i = 1; i < job->n; i++) {
    for (int j = 0; j < count; j++) {
      largest[j] = x[i * inner + j] > largest[j] ? x[i * inner + j] : largest[j];
    }
  }
  for (int64_t i = 0; i < job->n; i++) {
    for (int j = 0; j < count; j++) {
      const float shifted = x[i * inner + j] - largest[j], e = tvmrt_exp_nonpositive_f32(shifted);
      y[i * inner + j] = job->log ? shifted : e;
      sum[j] += e;
    }
  }
  for (int j = 0; j < count; j++) sum[j] = job->log ? tvmrt_log_f32(sum[j]) : 1.0f / sum[j];
  for (int64_t i = 0; i < job->n; i++) {
    for (int j = 0; j < count; j++) {
      const float each = y[i * inner + j];
      y[i * inner + j] = job->log ? each - sum[j] : each * sum[j];
    }
  }
}

static inline int tvmrt_softmax_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_softmax_f32_job* job = (const tvmrt_softmax_f32_job*)closure;
  const int64_t begin = tvmrt_task_begin(job->outer, 1, task, env->num_task);
  const int64_t end = tvmrt_task_begin(job->outer, 1, task + 1, env->num_task);
  for (int64_t o = begin; o < end; o++) {
    const float* x = job->x + o * job->n * job->inner;
    float* y = job->y + o * job->n * job->inner;
    if (job->inner == 1 && job->log) {
      tvmrt_log_softmax_row_f32(x, y, job->n);
    } else if (job->inner == 1) {
      tvmrt_softmax_row_f32(x, y, job->n);
    } else {
      for (int64_t j = 0; j < job->inner; j += TVMRT_SOFTMAX_COLUMNS) {
        const int64_t rest = job->inner - j;
        const int count = rest < TVMRT_SOFTMAX_COLUMNS ? (int)rest : TVMRT_SOFTMAX_COLUMNS;
        tvmrt_softmax_columns_f32(job, x + j, y + j, count);
      }
    }
  }
  return 0;
}

static inline int tvmrt_softmax_f32_run(const tvmrt_softmax_f32_job* job) {
  tvmrt_softmax_f32_job copy = *job;
  /* An exponential costs about ten moves. */
  return tvmrt_launch(tvmrt_softmax_f32_task, &copy, 10 * job->outer * job->n * job->inner,
                      TVMRT_PARALLEL_MIN_FLOATS);
}

/*!
 * \brief y = softmax of x along the middle axis of [outer][n][inner], contiguous.
 * \param x Input.
 * \param y Output of the same shape; may be x.
 * \param outer Number of independent blocks.
 * \param n Length of the axis, at least 1.
 * \param inner Elements behind each other that belong to different sums; 1 for the last axis.
 * \return 0; -1 if a thread failed.
 */
static inline int tvmrt_softmax_f32(const float* x, float* y, int64_t outer, int64_t n,
                                    int64_t inner) {
  const tvmrt_softmax_f32_job job = {x, y, outer, n, inner, 0};
  return tvmrt_softmax_f32_run(&job);
}

/*! \brief The logarithm of the softmax; parameters as for tvmrt_softmax_f32(). */
static inline int tvmrt_log_softmax_f32(const float* x, float* y, int64_t outer, int64_t n,
                                        int64_t inner) {
  const tvmrt_softmax_f32_job job = {x, y, outer, n, inner, 1};
  return tvmrt_softmax_f32_run(&job);
}

#endif /* TVM_RUNTIME_KERNELS_OP_SOFTMAX_H_ */
