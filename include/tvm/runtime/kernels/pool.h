/*!
 * \file pool.h
 * \brief Pooling in float32 over channels-last memory: maximum, average and Lp, 1 to 3 dimensions.
 *
 * Vectors hold channels; nothing is packed. Global pooling is a window of the input's size.
 */
#ifndef TVM_RUNTIME_KERNELS_POOL_H_
#define TVM_RUNTIME_KERNELS_POOL_H_

#include <math.h>
#include <stddef.h>

#include "parallel.h"
#include "pool_window.h"
#include "scalar/math.h"
#include "tile/gemm_f32.h"

typedef struct tvmrt_pool_f32_job {
  const tvmrt_pool_layer* layer;
  const float* x;
  float* y;
  tvmrt_epilogue_f32 epilogue;
  const void* ctx;
} tvmrt_pool_f32_job;

/* Reduce `count` vectors over windows, of n channels each and `spacing` floats from one to the
 * next: neighbouring channels of a pixel, or the same channels of neighbouring pixels. x is the
 * first element. Each row is summed separately first, which limits the rounding error of large
 * windows. */
#ifdef TVMRT_NO_WIDE_LOOPS
enum { TVMRT_POOL_VECTORS = 1 }; /* little code, little stack */
#else
enum { TVMRT_POOL_VECTORS = 4 };
#endif
#define TVMRT_POOL_F32_REDUCE(NAME, START, STEP, JOIN)                                      \
  TVMRT_INLINE void NAME(const tvmrt_pool_window* window, const float* x, intptr_t spacing, \
                         int count, int n, tvmrt_f32v* total) {                             \
    tvmrt_f32v row[TVMRT_POOL_VECTORS];                                                     \
    TVMRT_UNROLL(4)                                                                         \
    for (int i = 0; i < count; i++) total[i] = TVMRT_F32V(splat)(START);                    \
    for (int d = 0; d < window->count[0]; d++) {                                            \
      for (int h = 0; h < window->count[1]; h++) {                                          \
        const float* from = x + d * window->step[0] + h * window->step[1];                  \
        TVMRT_UNROLL(4)                                                                     \
        for (int i = 0; i < count; i++) row[i] = TVMRT_F32V(splat)(START);                  \
        for (int w = 0; w < window->count[2]; w++, from += window->step[2]) {               \
          TVMRT_UNROLL(4)                                                                   \
          for (int i = 0; i < count; i++) {                                                 \
            const float* p = from + i * spacing;                                            \
            const tvmrt_f32v each =                                                         \
                n == TVMRT_SIMD_LANES_F32 ? TVMRT_F32V(load)(p) : TVMRT_F32V(load_n)(p, n); \
            row[i] = STEP(each, row[i]);                                                    \
          }                                                                                 \
        }                                                                                   \
        TVMRT_UNROLL(4)                                                                     \
        for (int i = 0; i < count; i++) total[i] = JOIN(row[i], total[i]);                  \
      }                                                                                     \
    }                                                                                       \
  }
#define TVMRT_POOL_F32_ADD(each, sum) ((sum) + (each))
#define TVMRT_POOL_F32_ADD_SIZE(each, sum) \
  ((sum) + TVMRT_F32V(max)(each, TVMRT_F32V(splat)(0.0f) - (each)))
#define TVMRT_POOL_F32_ADD_SQUARE(each, sum) TVMRT_F32V(fma)(each, each, sum)
TVMRT_POOL_F32_REDUCE(tvmrt_pool_f32_sum, 0.0f, TVMRT_POOL_F32_ADD, TVMRT_POOL_F32_ADD)
TVMRT_POOL_F32_REDUCE(tvmrt_pool_f32_l1, 0.0f, TVMRT_POOL_F32_ADD_SIZE, TVMRT_POOL_F32_ADD)
TVMRT_POOL_F32_REDUCE(tvmrt_pool_f32_l2, 0.0f, TVMRT_POOL_F32_ADD_SQUARE, TVMRT_POOL_F32_ADD)

/* Maximum of one channel over the window; NaN if there is one. */
static inline float tvmrt_pool_f32_max_of(const tvmrt_pool_window* window, const float* x) {
  float best = -INFINITY;
  for (int d = 0; d < window->count[0]; d++) {
    for (int h = 0; h < window->count[1]; h++) {
      const float* from = x + d * window->step[0] + h * window->step[1];
      for (int w = 0; w < window->count[2]; w++, from += window->step[2]) {
        best = tvmrt_max_f32(best, *from);
      }
    }
  }
  return best;
}

#if TVMRT_SIMD_LANES_F32 == 1
TVMRT_INLINE void tvmrt_pool_f32_max(const tvmrt_pool_window* window, const float* x,
                                     intptr_t spacing, int count, int n, tvmrt_f32v* total) {
  (void)n; /* 1 */
  for (int i = 0; i < count; i++) total[i] = tvmrt_pool_f32_max_of(window, x + i * spacing);
}
#else
/* Maximum of `count` vectors. Vector maximum ignores NaN on most processors. So products of the
 * elements are summed too: the sum is NaN if an element is, and rarely otherwise. One multiply-add
 * for two elements is cheaper than comparing each with itself. */
TVMRT_INLINE void tvmrt_pool_f32_max(const tvmrt_pool_window* window, const float* x,
                                     intptr_t spacing, int count, int n, tvmrt_f32v* total) {
  enum { kLanes = TVMRT_SIMD_LANES_F32 };
  tvmrt_f32v each[TVMRT_POOL_VECTORS], sum[TVMRT_POOL_VECTORS];
  TVMRT_UNROLL(4)
  for (int i = 0; i < count; i++) {
    total[i] = TVMRT_F32V(splat)(-INFINITY);
    sum[i] = TVMRT_F32V(splat)(0.0f);
  }
  for (int d = 0; d < window->count[0]; d++) {
    for (int h = 0; h < window->count[1]; h++) {
      const float* from = x + d * window->step[0] + h * window->step[1];
      for (int w = 0; w < window->count[2]; w++, from += window->step[2]) {
        TVMRT_UNROLL(4)
        for (int i = 0; i < count; i++) {
          const float* p = from + i * spacing;
          each[i] = n == kLanes ? TVMRT_F32V(load)(p) : TVMRT_F32V(load_n)(p, n);
          each[i] = TVMRT_F32V(keep)(each[i]);
          total[i] = TVMRT_F32V(max)(each[i], total[i]);
        }
        TVMRT_UNROLL(4)
        for (int i = 0; i < count; i += 2) {
          sum[i] = TVMRT_F32V(fma)(each[i], each[i + 1 < count ? i + 1 : i], sum[i]);
        }
      }
    }
  }
  for (int i = 2; i < count; i += 2) sum[0] += sum[i];
  const float all = TVMRT_F32V(sum)(sum[0]);
  if (TVMRT_LIKELY(all == all)) return;
  for (int i = 0; i < count; i++) {
    float lane[kLanes] = {0};
    for (int j = 0; j < n; j++) lane[j] = tvmrt_pool_f32_max_of(window, x + i * spacing + j);
    total[i] = TVMRT_F32V(load)(lane);
  }
}
#endif

/* Lp for any p, one channel at a time. */
static inline float tvmrt_pool_f32_lp(const tvmrt_pool_window* window, const float* x, int p) {
  float total = 0.0f;
  for (int d = 0; d < window->count[0]; d++) {
    for (int h = 0; h < window->count[1]; h++) {
      for (int w = 0; w < window->count[2]; w++) {
        const float each = x[d * window->step[0] + h * window->step[1] + w * window->step[2]];
        total += tvmrt_pow_f32(tvmrt_abs_f32(each), (float)p);
      }
    }
  }
  return tvmrt_pow_f32(total, 1.0f / (float)p);
}

TVMRT_INLINE void tvmrt_pool_f32_put(float* y, tvmrt_f32v value, int n) {
  if (n == TVMRT_SIMD_LANES_F32) {
    TVMRT_F32V(store)(y, value);
  } else {
    TVMRT_F32V(store_n)(y, value, n);
  }
}

/* Reduce `count` vectors of n channels; those of y are y_apart floats apart. */
TVMRT_INLINE void tvmrt_pool_f32_vectors(const tvmrt_pool_layer* layer,
                                         const tvmrt_pool_window* window, const float* x,
                                         intptr_t spacing, float* y, intptr_t y_apart, int count,
                                         int n) {
  enum { kLanes = TVMRT_SIMD_LANES_F32 };
  tvmrt_f32v total[TVMRT_POOL_VECTORS];
  float root[kLanes];
  TVMRT_HANDLES(TVMRT_POOL_KINDS, 4);
  if (layer->kind == TVMRT_POOL_MAX) {
    tvmrt_pool_f32_max(window, x, spacing, count, n, total);
  } else if (layer->kind != TVMRT_POOL_LP) {
    tvmrt_pool_f32_sum(window, x, spacing, count, n, total);
    for (int i = 0; i < count; i++) total[i] /= TVMRT_F32V(splat)(window->divisor);
  } else if (layer->p == 1) {
    tvmrt_pool_f32_l1(window, x, spacing, count, n, total);
  } else if (layer->p == 2) {
    tvmrt_pool_f32_l2(window, x, spacing, count, n, total);
    for (int i = 0; i < count; i++) {
      TVMRT_F32V(store)(root, total[i]);
      for (int j = 0; j < n; j++) y[i * y_apart + j] = sqrtf(root[j]);
    }
    return;
  } else {
    for (int i = 0; i < count; i++) {
      for (int j = 0; j < n; j++) {
        y[i * y_apart + j] = tvmrt_pool_f32_lp(window, x + i * spacing + j, layer->p);
      }
    }
    return;
  }
  TVMRT_UNROLL(4)
  for (int i = 0; i < count; i++) tvmrt_pool_f32_put(y + i * y_apart, total[i], n);
}

/* One vector of n channels of each of `pixels` pixels, 1 or TVMRT_POOL_VECTORS of them. */
TVMRT_INLINE void tvmrt_pool_f32_vector(const tvmrt_pool_layer* layer,
                                        const tvmrt_pool_window* window, const float* x, float* y,
                                        int pixels, int n) {
  const intptr_t spacing = (intptr_t)layer->window.stride[2] * layer->window.x_stride;
  if (TVMRT_POOL_VECTORS == 1 || pixels == 1) {
    tvmrt_pool_f32_vectors(layer, window, x, 0, y, 0, 1, n);
  } else {
    tvmrt_pool_f32_vectors(layer, window, x, spacing, y, layer->window.y_stride, TVMRT_POOL_VECTORS,
                           n);
  }
}

/* Output pixels from `pixel` on for channels [c_begin, c_end): 1, or TVMRT_POOL_VECTORS of them
 * with windows inside the input. */
static inline void tvmrt_pool_f32_pixels(const tvmrt_pool_f32_job* job,
                                         const tvmrt_pool_window* window, int64_t pixel, int pixels,
                                         int c_begin, int c_end) {
  enum { kLanes = TVMRT_SIMD_LANES_F32 };
  const tvmrt_pool_layer* layer = job->layer;
  const float* from = job->x + window->at;
  float* y = job->y + pixel * layer->window.y_stride;
  int c = c_begin;
#ifndef TVMRT_NO_WIDE_LOOPS
  const intptr_t spacing = (intptr_t)layer->window.stride[2] * layer->window.x_stride;
  const int together = (int)TVMRT_POOL_VECTORS * kLanes;
  for (; c + together <= c_end; c += together) {
    for (int p = 0; p < pixels; p++) {
      tvmrt_pool_f32_vectors(layer, window, from + p * spacing + c, kLanes,
                             y + (intptr_t)p * layer->window.y_stride + c, kLanes,
                             TVMRT_POOL_VECTORS, kLanes);
    }
  }
#endif
  for (; c + kLanes <= c_end; c += kLanes) {
    tvmrt_pool_f32_vector(layer, window, from + c, y + c, pixels, kLanes);
  }
  if (c < c_end) tvmrt_pool_f32_vector(layer, window, from + c, y + c, pixels, c_end - c);
  if (job->epilogue) job->epilogue(y + c_begin, pixel, pixels, c_begin, c_end - c_begin, job->ctx);
}

/* Whether the windows of output columns [begin, end) are inside the input's rows. */
static inline int tvmrt_pool_f32_is_inside(const tvmrt_window* window, int begin, int end) {
  const int64_t reach = (int64_t)(window->kernel[2] - 1) * window->dilation[2];
  const int64_t last = (int64_t)(end - 1) * window->stride[2] - window->pad[2] + reach;
  return (int64_t)begin * window->stride[2] >= window->pad[2] && last < window->in[2];
}

/* Pixels [begin, end) of one output row, counted from its first. Several inner pixels are computed
 * at once: with few channels, finding a window takes longer than reducing it. */
static inline void tvmrt_pool_f32_row(const tvmrt_pool_f32_job* job, int64_t row, int begin,
                                      int end, int c_begin, int c_end) {
  const tvmrt_pool_layer* layer = job->layer;
  tvmrt_pool_window window;
  tvmrt_pool_row(layer, row, &window);
  for (int ow = begin, pixels = 1; ow < end; ow += pixels) {
    const int stop = ow + TVMRT_POOL_VECTORS;
    pixels =
        stop <= end && tvmrt_pool_f32_is_inside(&layer->window, ow, stop) ? TVMRT_POOL_VECTORS : 1;
    tvmrt_pool_column(layer, ow, &window);
    tvmrt_pool_f32_pixels(job, &window, row * layer->window.out[2] + ow, pixels, c_begin, c_end);
  }
}

/* Pixels [begin, end) of all rows, for channels [c_begin, c_end). */
static inline void tvmrt_pool_f32_part(const tvmrt_pool_f32_job* job, int64_t begin, int64_t end,
                                       int c_begin, int c_end) {
  const int64_t columns = job->layer->window.out[2];
  while (begin < end && c_begin < c_end) {
    const int64_t row = begin / columns, first = row * columns;
    const int64_t stop = end < first + columns ? end : first + columns;
    tvmrt_pool_f32_row(job, row, (int)(begin - first), (int)(stop - first), c_begin, c_end);
    begin = stop;
  }
}

/* Tasks divide pixels, or the channels if there are few pixels (global pooling). */
static inline int tvmrt_pool_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_pool_f32_job* job = (const tvmrt_pool_f32_job*)closure;
  const tvmrt_pool_layer* layer = job->layer;
  const int count = env->num_task, by_channels = job->epilogue == NULL;
  const int64_t pixels = tvmrt_window_rows(&layer->window) * layer->window.out[2];
  int64_t begin = 0, end = pixels, c_begin = 0, c_end = layer->channels;
  if (by_channels && pixels < 4 * (int64_t)count) {
    c_begin = tvmrt_task_begin(layer->channels, TVMRT_SIMD_LANES_F32, task, count);
    c_end = tvmrt_task_begin(layer->channels, TVMRT_SIMD_LANES_F32, task + 1, count);
  } else {
    begin = tvmrt_task_begin(pixels, 1, task, count);
    end = tvmrt_task_begin(pixels, 1, task + 1, count);
  }
  tvmrt_pool_f32_part(job, begin, end, (int)c_begin, (int)c_end);
  return 0;
}

/*!
 * \brief y = pooled x, then the epilogue.
 * \param layer Kind, sizes and strides.
 * \param x Input, [batch][in][x_stride].
 * \param y Output, [batch][out][y_stride]; must not overlap x.
 * \param epilogue Called on finished pixels of y, or NULL.
 * \param ctx Context of the epilogue.
 * \return 0; -1 if a thread failed.
 *
 * A window without any element inside the input gives -INFINITY for the maximum and 0 otherwise.
 * Needs no scratch memory. The result does not depend on the number of threads.
 */
static inline int tvmrt_pool_f32(const tvmrt_pool_layer* layer, const float* x, float* y,
                                 tvmrt_epilogue_f32 epilogue, const void* ctx) {
  tvmrt_pool_f32_job job = {layer, x, y, epilogue, ctx};
  int64_t taps = 1; /* a window may be far larger than the input */
  for (int dim = 0; dim < 3; dim++) {
    taps *= layer->window.kernel[dim] < layer->window.in[dim] ? layer->window.kernel[dim]
                                                              : layer->window.in[dim];
  }
  const int64_t outputs = tvmrt_window_rows(&layer->window) * layer->window.out[2];
  return tvmrt_launch(tvmrt_pool_f32_task, &job, outputs * layer->channels * taps,
                      TVMRT_PARALLEL_MIN_FLOATS);
}

#endif /* TVM_RUNTIME_KERNELS_POOL_H_ */
