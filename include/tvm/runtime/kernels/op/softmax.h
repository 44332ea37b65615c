/*!
 * \file softmax.h
 * \brief Softmax and log-softmax in float32 over one axis of a tensor seen as [outer][n][inner].
 */
#ifndef TVM_RUNTIME_KERNELS_OP_SOFTMAX_H_
#define TVM_RUNTIME_KERNELS_OP_SOFTMAX_H_

#include "../parallel.h"
#include "../scalar/math.h"
#include "../scalar/pairs.h"
#include "../scalar/soft_float.h"
#include "../tile/simd.h"

/*! \brief Elements that are processed at a time; few if the stack is small. */
#ifdef TVMRT_NO_WIDE_LOOPS
enum { TVMRT_SOFTMAX_PART = 4 * TVMRT_SIMD_LANES_F32 };
#else
enum { TVMRT_SOFTMAX_PART = 64 };
#endif

/* Vectors of a row; a single element for small code. */
#if defined(TVMRT_NO_WIDE_LOOPS) && !defined(TVMRT_FIXED_ORDER)
#define TVMRT_ROW_LANES 1
#define TVMRT_ROW_F32(operation) tvmrt_f32x1_##operation
typedef tvmrt_f32x1 tvmrt_row_f32;
#else
#define TVMRT_ROW_LANES TVMRT_SUM_LANES
#define TVMRT_ROW_F32(operation) TVMRT_SUM_F32(operation)
typedef tvmrt_sum_f32 tvmrt_row_f32;
#endif

TVMRT_TABLE(float, tvmrt_softmax_beyond, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
            -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY);
#if TVMRT_ROW_LANES > 1
#define tvmrt_softmax_beyond tvmrt_softmax_beyond
#endif

/* Load the n < lanes floats at x, padded with -INFINITY. */
TVMRT_INLINE tvmrt_row_f32 tvmrt_softmax_remainder_f32v(const float* x, int n) {
  enum { kMax = 16 }; /* maximum lanes */
  return TVMRT_ROW_F32(load_n)(x, n) + TVMRT_ROW_F32(load)(tvmrt_softmax_beyond[0] + kMax - n);
}

/*! \brief The largest of n contiguous floats; -INFINITY for none. */
static inline float tvmrt_row_max_f32(const float* x, int64_t n) {
  enum { kLanes = TVMRT_ROW_LANES };
  tvmrt_row_f32 largest[4]; /* independent accumulators to hide latency */
  int64_t i = 0;
  for (int j = 0; j < 4; j++) largest[j] = TVMRT_ROW_F32(splat)(-INFINITY);
  for (; i + kLanes <= n; i += kLanes) {
    const tvmrt_row_f32 next = TVMRT_ROW_F32(max)(TVMRT_ROW_F32(load)(x + i), largest[0]);
    for (int j = 0; j < 3; j++) largest[j] = largest[j + 1];
    largest[3] = next;
  }
  if (kLanes > 1 && i < n) {
    largest[0] = TVMRT_ROW_F32(max)(tvmrt_softmax_remainder_f32v(x + i, (int)(n - i)), largest[0]);
  }
  return TVMRT_ROW_F32(max_lane)(TVMRT_ROW_F32(max)(TVMRT_ROW_F32(max)(largest[0], largest[1]),
                                                    TVMRT_ROW_F32(max)(largest[2], largest[3])));
}

/*! \brief The sum of n contiguous floats, in four vectors' worth of partial sums. */
static inline float tvmrt_row_sum_f32(const float* x, int64_t n) {
  enum { kLanes = TVMRT_SUM_LANES, kStep = 4 * kLanes };
  tvmrt_sum_f32 sum[4];
  const int64_t whole = n / kStep * kStep;
  for (int j = 0; j < 4; j++) sum[j] = TVMRT_SUM_F32(splat)(0.0f);
  for (int64_t i = 0; i < whole; i += kStep) {
    for (int j = 0; j < 4; j++) sum[j] += TVMRT_SUM_F32(load)(x + i + j * kLanes);
  }
  float result = TVMRT_SUM_F32(sum)((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (int64_t i = whole; i < n; i++) result += x[i];
  return result;
}

/* tvmrt_exp_nonpositive_f32() of every lane. */
#if TVMRT_ROW_LANES == 1
#define tvmrt_softmax_exp_f32v tvmrt_exp_nonpositive_f32
#else
TVMRT_TABLE(float, tvmrt_softmax_factors, 6, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
            5.0000001201e-1f, 1.0f, 1.0f);
#define tvmrt_softmax_factors tvmrt_softmax_factors

TVMRT_INLINE tvmrt_row_f32 tvmrt_softmax_exp_f32v(tvmrt_row_f32 x) {
  typedef TVMRT_VECTOR(uint32_t, TVMRT_ROW_LANES) u32v;
  const tvmrt_row_f32 shift = TVMRT_ROW_F32(splat)(12582912.0f);
  const tvmrt_row_f32 clamped = TVMRT_ROW_F32(max)(x, TVMRT_ROW_F32(splat)(-88.0f));
  const tvmrt_row_f32 shifted =
      TVMRT_ROW_F32(fma)(clamped, TVMRT_ROW_F32(splat)(1.44269504088896341f), shift);
  const tvmrt_row_f32 n = shifted - shift;
  tvmrt_row_f32 r = TVMRT_ROW_F32(fma)(n, TVMRT_ROW_F32(splat)(-0.693359375f), clamped);
  r = TVMRT_ROW_F32(fma)(n, TVMRT_ROW_F32(splat)(2.12194440e-4f), r);
  tvmrt_row_f32 p = TVMRT_ROW_F32(fma)(r, TVMRT_ROW_F32(splat)(1.9875691500e-4f),
                                       TVMRT_ROW_F32(splat)(1.3981999507e-3f));
  for (int i = 0; i < 6; i++)
    p = TVMRT_ROW_F32(fma)(p, r, TVMRT_ROW_F32(splat)(tvmrt_softmax_factors[0][i]));
  return p * (tvmrt_row_f32)(((u32v)shifted + 127u) << 23);
}
#endif

/* y[i] = e^(x[i] - largest) unless y is NULL; y may be x; returns the sum. The tail that does not
 * fill a vector is in `tail` instead, because reloading partial stores is slow. */
static inline float tvmrt_softmax_exp_row_f32(const float* x, float largest, float* y, int64_t n,
                                              tvmrt_row_f32* tail) {
  enum { kLanes = TVMRT_ROW_LANES };
  const tvmrt_row_f32 top = TVMRT_ROW_F32(splat)(largest);
  tvmrt_row_f32 sum[4]; /* separate accumulators, so that each adds fewer */
  int64_t i = 0;
  for (int j = 0; j < 4; j++) sum[j] = TVMRT_ROW_F32(splat)(0.0f);
  for (; i + kLanes <= n; i += kLanes) {
    const tvmrt_row_f32 e = tvmrt_softmax_exp_f32v(TVMRT_ROW_F32(load)(x + i) - top);
    const tvmrt_row_f32 next = sum[0] + e;
    if (y) TVMRT_ROW_F32(store)(y + i, e);
    for (int j = 0; j < 3; j++) sum[j] = sum[j + 1];
    sum[3] = next;
  }
  if (kLanes > 1 && i < n) {
    *tail = tvmrt_softmax_exp_f32v(tvmrt_softmax_remainder_f32v(x + i, (int)(n - i)) - top);
    sum[0] += *tail;
  }
  return TVMRT_ROW_F32(sum)((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* A row of more than one vector and at most two, which stays in registers. With shorter vectors,
 * this check costs the other rows more than these gain. */
TVMRT_INLINE void tvmrt_softmax_pair_f32(const float* x, float* y, int tail) {
  enum { kLanes = TVMRT_ROW_LANES };
  const tvmrt_row_f32 a = TVMRT_ROW_F32(load)(x),
                      b = tvmrt_softmax_remainder_f32v(x + kLanes, tail);
  const tvmrt_row_f32 top = TVMRT_ROW_F32(splat)(TVMRT_ROW_F32(max_lane)(TVMRT_ROW_F32(max)(a, b)));
  const tvmrt_row_f32 first = tvmrt_softmax_exp_f32v(a - top);
  const tvmrt_row_f32 second = tvmrt_softmax_exp_f32v(b - top);
  const tvmrt_row_f32 scale = TVMRT_ROW_F32(splat)(1.0f / TVMRT_ROW_F32(sum)(second + first));
  TVMRT_ROW_F32(store)(y, first * scale);
  TVMRT_ROW_F32(store_n)(y + kLanes, second * scale, tail);
}

#if TVMRT_SOFT_FLOAT && !defined(TVMRT_FIXED_ORDER)
#define TVMRT_SOFTMAX_SOFT 1
TVMRT_TABLE(float, tvmrt_softmax_soft_factors, 7, 1.3981999507e-3f, 8.3334519073e-3f,
            4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f, 1.0f, 1.0f);
#define tvmrt_softmax_soft_factors tvmrt_softmax_soft_factors

/* tvmrt_exp_nonpositive_f32(x - largest). */
TVMRT_RARELY_CALLED float tvmrt_softmax_soft_exp_f32(float x, float largest) {
  const float shift = 12582912.0f;
  x = tvmrt_add_f32(x, -largest);
  if (tvmrt_less_f32(x, -88.0f)) x = -88.0f;
  const float shifted = tvmrt_add_f32(tvmrt_mul_f32(x, 1.44269504088896341f), shift);
  const float n = tvmrt_add_f32(shifted, -shift);
  x = tvmrt_add_f32(tvmrt_mul_f32(n, -0.693359375f), x);
  x = tvmrt_add_f32(tvmrt_mul_f32(n, 2.12194440e-4f), x);
  float p = 1.9875691500e-4f;
  for (int i = 0; i < 7; i++)
    p = tvmrt_add_f32(tvmrt_mul_f32(p, x), tvmrt_softmax_soft_factors[0][i]);
  return tvmrt_mul_f32(p, tvmrt_from_bits_f32((tvmrt_bits_f32(shifted) + 127u) << 23));
}

/* tvmrt_softmax_row_f32() with the software floating point of an integer network. */
static inline void tvmrt_softmax_soft_row_f32(const float* x, float* y, int64_t n) {
  float largest = x[0], sums[4] = {0.0f, 0.0f, 0.0f, 0.0f}; /* separate accumulators, as below */
  for (int64_t i = 1; i < n; i++) {
    if (tvmrt_less_f32(largest, x[i])) largest = x[i];
  }
  for (int64_t i = 0; i < n; i++) {
    y[i] = tvmrt_softmax_soft_exp_f32(x[i], largest);
    sums[i % 4] = tvmrt_add_f32(sums[i % 4], y[i]);
  }
  const float first = tvmrt_add_f32(sums[n % 4], sums[(n + 1) % 4]);
  const float second = tvmrt_add_f32(sums[(n + 2) % 4], sums[(n + 3) % 4]);
  const float scale = tvmrt_div_f32(1.0f, tvmrt_add_f32(first, second));
  for (int64_t i = 0; i < n; i++) y[i] = tvmrt_mul_f32(y[i], scale);
}
#endif

/*!
 * \brief Softmax of one row of n contiguous floats; y may be x.
 *
 * A row of only -INFINITY gives NaN, as defined.
 */
static inline void tvmrt_softmax_row_f32(const float* x, float* y, int64_t n) {
#if defined(TVMRT_SOFTMAX_SOFT)
  tvmrt_softmax_soft_row_f32(x, y, n);
#else
  enum { kLanes = TVMRT_ROW_LANES };
  if (kLanes == 16 && n > kLanes && n <= 2 * kLanes) {
    tvmrt_softmax_pair_f32(x, y, (int)(n - kLanes));
    return;
  }
  tvmrt_row_f32 tail = TVMRT_ROW_F32(splat)(0.0f);
  const float sum = tvmrt_softmax_exp_row_f32(x, tvmrt_row_max_f32(x, n), y, n, &tail);
  const tvmrt_row_f32 scale = TVMRT_ROW_F32(splat)(1.0f / sum);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    TVMRT_ROW_F32(store)(y + i, TVMRT_ROW_F32(load)(y + i) * scale);
  }
  if (kLanes > 1 && i < n) TVMRT_ROW_F32(store_n)(y + i, tail * scale, (int)(n - i));
#endif
}

/*! \brief Log-softmax of one row of n contiguous floats; y may be x. */
static inline void tvmrt_log_softmax_row_f32(const float* x, float* y, int64_t n) {
  const float largest = tvmrt_row_max_f32(x, n);
  tvmrt_row_f32 tail;
  const float sum = tvmrt_softmax_exp_row_f32(x, largest, NULL, n, &tail);
  const float offset = largest + tvmrt_log_f32(sum);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] - offset;
}

typedef struct tvmrt_softmax_f32_job {
  const float* x;
  float* y;
  int64_t outer, n, inner;
  int log;
  int columns; /* with TVMRT_FIXED_ORDER: whether the order is that of columns, even for one */
} tvmrt_softmax_f32_job;

/* Whether a block is one contiguous row. */
TVMRT_INLINE int tvmrt_softmax_is_row(const tvmrt_softmax_f32_job* job) {
  return job->inner == 1 && !(TVMRT_ONE_ORDER && job->columns);
}

/* `count` neighbouring columns of an [n][inner] matrix, up to TVMRT_SOFTMAX_COLUMNS at a time. */
enum { TVMRT_SOFTMAX_COLUMNS = TVMRT_SOFTMAX_PART };
static inline void tvmrt_softmax_some_columns_f32(const tvmrt_softmax_f32_job* job, const float* x,
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

#if TVMRT_ROW_LANES > 1
/* Maximum elements per sum for which columns are held in vectors, one sum per lane. */
#if defined(TVMRT_FIXED_ORDER)
enum { TVMRT_SOFTMAX_IN_REGISTERS = 16 }; /* as boards have little stack */
#else
enum { TVMRT_SOFTMAX_IN_REGISTERS = 64 };
#endif

/* Softmax or log-softmax of each lane of n vectors. */
static inline void tvmrt_softmax_lanes_f32(float* row, int64_t n, int log) {
  enum { kLanes = TVMRT_ROW_LANES };
  tvmrt_row_f32 top = TVMRT_ROW_F32(splat)(-INFINITY), sum = TVMRT_ROW_F32(splat)(0.0f);
  for (int64_t i = 0; i < n; i++) {
    top = TVMRT_ROW_F32(max)(TVMRT_ROW_F32(load)(row + i * kLanes), top);
  }
  for (int64_t i = 0; i < n; i++) {
    const tvmrt_row_f32 shifted = TVMRT_ROW_F32(load)(row + i * kLanes) - top;
    const tvmrt_row_f32 e = tvmrt_softmax_exp_f32v(shifted);
    sum += e;
    TVMRT_ROW_F32(store)(row + i * kLanes, log ? shifted : e);
  }
  if (log) {
    float logs[kLanes];
    TVMRT_ROW_F32(store)(logs, sum);
    for (int j = 0; j < kLanes; j++) logs[j] = tvmrt_log_f32(logs[j]);
    sum = TVMRT_ROW_F32(load)(logs);
  } else {
    sum = TVMRT_ROW_F32(splat)(1.0f) / sum;
  }
  for (int64_t i = 0; i < n; i++) {
    const tvmrt_row_f32 each = TVMRT_ROW_F32(load)(row + i * kLanes);
    TVMRT_ROW_F32(store)(row + i * kLanes, log ? each - sum : each * sum);
  }
}

/* `count` neighbouring columns of an [n][inner] matrix, at most one vector. */
static inline void tvmrt_softmax_vector_f32(const tvmrt_softmax_f32_job* job, const float* x,
                                            float* y, int count) {
  enum { kLanes = TVMRT_ROW_LANES };
  float row[(int)TVMRT_SOFTMAX_IN_REGISTERS * kLanes];
  const int64_t n = job->n, inner = job->inner;
  for (int64_t i = 0; i < n; i++) {
    const tvmrt_row_f32 each = count < kLanes ? TVMRT_ROW_F32(load_n)(x + i * inner, count)
                                              : TVMRT_ROW_F32(load)(x + i * inner);
    TVMRT_ROW_F32(store)(row + i * kLanes, each);
  }
  tvmrt_softmax_lanes_f32(row, n, job->log);
  for (int64_t i = 0; i < n; i++) {
    const tvmrt_row_f32 each = TVMRT_ROW_F32(load)(row + i * kLanes);
    if (count < kLanes) {
      TVMRT_ROW_F32(store_n)(y + i * inner, each, count);
    } else {
      TVMRT_ROW_F32(store)(y + i * inner, each);
    }
  }
}

/* `count` neighbouring rows of a few elements each, at most a vector of rows. */
static inline void tvmrt_softmax_few_f32(const tvmrt_softmax_f32_job* job, const float* x, float* y,
                                         int count) {
  enum { kLanes = TVMRT_ROW_LANES };
  float row[kLanes / 2 * kLanes];
  const int64_t n = job->n;
  for (int64_t i = 0; i < n; i++) {
    for (int j = 0; j < kLanes; j++) row[i * kLanes + j] = j < count ? x[j * n + i] : 0.0f;
  }
  tvmrt_softmax_lanes_f32(row, n, job->log);
  for (int j = 0; j < count; j++) {
    for (int64_t i = 0; i < n; i++) y[j * n + i] = row[i * kLanes + j];
  }
}

/* Rows [begin, end) of a few elements each, or columns whose elements fit into vectors; returns
 * whether either case applies. */
static inline int tvmrt_softmax_in_registers_f32(const tvmrt_softmax_f32_job* job, int64_t begin,
                                                 int64_t end) {
  enum { kLanes = TVMRT_ROW_LANES };
  const int64_t n = job->n, inner = job->inner, block = n * inner;
  /* a row has one order: alone, apart from others, and in an attention */
  const int is_row = tvmrt_softmax_is_row(job);
  if (TVMRT_ONE_ORDER && is_row) return 0;
  if (n > (is_row ? kLanes / 2 : TVMRT_SOFTMAX_IN_REGISTERS)) return 0;
  if (is_row) {
    for (int64_t o = begin; o < end; o += kLanes) {
      const int count = end - o < kLanes ? (int)(end - o) : kLanes;
      tvmrt_softmax_few_f32(job, job->x + o * n, job->y + o * n, count);
    }
    return 1;
  }
  for (int64_t o = begin; o < end; o++) {
    for (int64_t j = 0; j < inner; j += kLanes) {
      const int count = inner - j < kLanes ? (int)(inner - j) : kLanes;
      tvmrt_softmax_vector_f32(job, job->x + o * block + j, job->y + o * block + j, count);
    }
  }
  return 1;
}
#else
#define tvmrt_softmax_in_registers_f32(job, begin, end) 0
#endif

static inline int tvmrt_softmax_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_softmax_f32_job* job = (const tvmrt_softmax_f32_job*)closure;
  const int64_t begin = tvmrt_task_begin(job->outer, 1, task, env->num_task);
  const int64_t end = tvmrt_task_begin(job->outer, 1, task + 1, env->num_task);
  if (tvmrt_softmax_in_registers_f32(job, begin, end)) return 0;
  for (int64_t o = begin; o < end; o++) {
    const float* x = job->x + o * job->n * job->inner;
    float* y = job->y + o * job->n * job->inner;
    if (tvmrt_softmax_is_row(job) && job->log) {
      tvmrt_log_softmax_row_f32(x, y, job->n);
    } else if (tvmrt_softmax_is_row(job)) {
      tvmrt_softmax_row_f32(x, y, job->n);
    } else {
      for (int64_t j = 0; j < job->inner; j += TVMRT_SOFTMAX_COLUMNS) {
        const int64_t tail = job->inner - j;
        const int count = tail < TVMRT_SOFTMAX_COLUMNS ? (int)tail : TVMRT_SOFTMAX_COLUMNS;
        tvmrt_softmax_some_columns_f32(job, x + j, y + j, count);
      }
    }
  }
  return 0;
}

/* tvmrt_softmax_f32_task(), compiled once for all calls of a file. */
TVMRT_RARELY_CALLED int tvmrt_softmax_f32_shared_task(int task, TVMParallelGroupEnv* env,
                                                      void* closure) {
  return tvmrt_softmax_f32_task(task, env, closure);
}

/*!
 * \brief y = softmax of x along the middle axis of [outer][n][inner], contiguous, or log-softmax.
 * \param task tvmrt_softmax_f32_task, or tvmrt_softmax_f32_shared_task for dynamic extents:
 * separate copies of the loops per call would gain nothing.
 * \param log 1 for log-softmax.
 * \param x Input.
 * \param y Output of the same shape; may be x.
 * \param outer Number of independent blocks.
 * \param n Length of the axis, at least 1.
 * \param inner Contiguous elements that belong to different sums; 1 for the last axis.
 * \return 0; -1 if a thread failed.
 */
static inline int tvmrt_softmax_f32(FTVMParallelLambda task, int log, const float* x, float* y,
                                    int64_t outer, int64_t n, int64_t inner) {
  tvmrt_softmax_f32_job job = {x, y, outer, n, inner, log, 0};
  /* An exponential costs about as much as three moves. */
  return tvmrt_launch(task, &job, 3 * outer * n * inner, TVMRT_PARALLEL_MIN_FLOATS);
}

/*! \brief tvmrt_softmax_f32() that adds as for more columns if `inner` is 1, as for one of a batch. */
static inline int tvmrt_softmax_columns_f32(FTVMParallelLambda task, int log, const float* x,
                                            float* y, int64_t outer, int64_t n, int64_t inner) {
  tvmrt_softmax_f32_job job = {x, y, outer, n, inner, log, 1};
  return tvmrt_launch(task, &job, 3 * outer * n * inner, TVMRT_PARALLEL_MIN_FLOATS);
}

#endif /* TVM_RUNTIME_KERNELS_OP_SOFTMAX_H_ */
