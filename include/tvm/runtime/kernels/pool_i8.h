/*!
 * \file pool_i8.h
 * \brief Maximum and average pooling of 8-bit tensors, 1-D to 3-D, channels-last.
 *
 * window.h describes the memory layout; vectors hold the channels of a pixel.
 */
#ifndef TVM_RUNTIME_KERNELS_POOL_I8_H_
#define TVM_RUNTIME_KERNELS_POOL_I8_H_

#include <tvm/runtime/c_backend_api.h>

#include "parallel.h"
#include "pool_window.h"
#include "tile/simd_i8.h"

/*!
 * \brief Scales: y = clamp(round(mean((x - x_zero) * x_scale) / y_scale + shift) + zero).
 *
 * shift is 0, or the zero point of the result if that of the range is 0: it changes the rounding of
 * ties.
 */
typedef struct tvmrt_average_i8 {
  float x_scale, y_scale, shift;
  int32_t x_zero;
  tvmrt_i8_range range;
} tvmrt_average_i8;

/*! \brief y = max(y, x) for n channels. */
TVMRT_INLINE void tvmrt_max_i8_row(uint8_t* y, const uint8_t* x, int32_t n, int is_signed) {
  if (is_signed) {
    int8_t* b = (int8_t*)y;
    const int8_t* a = (const int8_t*)x;
    TVMRT_INDEPENDENT
    for (int32_t i = 0; i < n; i++) b[i] = a[i] > b[i] ? a[i] : b[i];
  } else {
    TVMRT_INDEPENDENT
    for (int32_t i = 0; i < n; i++) y[i] = x[i] > y[i] ? x[i] : y[i];
  }
}

/*! \brief A layer and its tensors; window offsets are relative to x. */
typedef struct tvmrt_pool_i8_job {
  const tvmrt_pool_layer* layer;
  const tvmrt_average_i8* average; /* NULL: maximum */
  const uint8_t* x;
  uint8_t* y;
} tvmrt_pool_i8_job;

/*! \brief The tensors of a call, for tasks with a known layer. */
typedef struct tvmrt_pool_i8_tensors {
  const void* x;
  void* y;
} tvmrt_pool_i8_tensors;

TVMRT_INLINE void tvmrt_max_pool_i8_pixel(const tvmrt_pool_i8_job* job, const tvmrt_pool_window* at,
                                          uint8_t* y) {
  const tvmrt_pool_layer* p = job->layer;
  int first = 1;
  for (int32_t d = 0; d < at->count[0]; d++) {
    for (int32_t h = 0; h < at->count[1]; h++) {
      const uint8_t* x = job->x + at->at + d * at->step[0] + h * at->step[1];
      for (int32_t w = 0; w < at->count[2]; w++, x += at->step[2]) {
        if (first) {
          memcpy(y, x, (size_t)p->channels);
        } else {
          tvmrt_max_i8_row(y, x, p->channels, p->is_signed);
        }
        first = 0;
      }
    }
  }
  if (first) memset(y, p->is_signed ? 0x80 : 0, (size_t)p->channels); /* padding only */
}

/*! \brief The mean of a window for n <= LANES channels. */
TVMRT_INLINE void tvmrt_average_pool_i8_lanes(const tvmrt_pool_i8_job* job,
                                              const tvmrt_pool_window* at, int32_t channel,
                                              int32_t n, uint8_t* y) {
  const tvmrt_average_i8* a = job->average;
  uint8_t tail_bytes[TVMRT_I8_LANES] = {0};
  const int partly = TVMRT_I8_LANES > 1 && n < TVMRT_I8_LANES;
  tvmrt_i8_floats sum = tvmrt_i8_floats_splat(0.0f);
  for (int32_t d = 0; d < at->count[0]; d++) {
    for (int32_t h = 0; h < at->count[1]; h++) {
      const uint8_t* from = job->x + at->at + d * at->step[0] + h * at->step[1] + channel;
      for (int32_t w = 0; w < at->count[2]; w++, from += at->step[2]) {
        const uint8_t* x = partly ? (const uint8_t*)memcpy(tail_bytes, from, (size_t)n) : from;
        sum = sum + tvmrt_i8_floats_unfused_product(
                        tvmrt_i8_floats_load(x, a->x_zero, job->layer->is_signed) * a->x_scale);
      }
    }
  }
  sum = sum / at->divisor / a->y_scale + a->shift;
  if (partly) {
    tvmrt_i8_floats_store(tail_bytes, sum, &a->range);
    memcpy(y, tail_bytes, (size_t)n);
  } else {
    tvmrt_i8_floats_store(y, sum, &a->range);
  }
}

/*! \brief One task's part of the output rows. */
TVMRT_INLINE void tvmrt_pool_i8_rows(const tvmrt_pool_i8_job* job, int task, int count) {
  const tvmrt_pool_layer* p = job->layer;
  const int64_t rows = tvmrt_window_rows(&p->window);
  const int64_t end = rows * (task + 1) / count;
  for (int64_t row = rows * task / count; row < end; row++) {
    tvmrt_pool_window at;
    uint8_t* y = job->y + row * p->window.out[2] * p->window.y_stride;
    tvmrt_pool_row(p, row, &at);
    for (int32_t w = 0; w < p->window.out[2]; w++, y += p->window.y_stride) {
      tvmrt_pool_column(p, w, &at);
      if (job->average == NULL) tvmrt_max_pool_i8_pixel(job, &at, y);
      for (int32_t c = 0; c < p->channels && job->average != NULL; c += TVMRT_I8_LANES) {
        const int32_t n = p->channels - c < TVMRT_I8_LANES ? p->channels - c : TVMRT_I8_LANES;
        tvmrt_average_pool_i8_lanes(job, &at, c, n, y + c);
      }
    }
  }
}

/*!
 * \brief One task's part, inlined into a task function that knows its layer: 3 x 3 maxima then take
 * 25 % of the time.
 *
 * \param average [in] NULL: maximum.
 */
TVMRT_INLINE int tvmrt_pool_i8_part(const tvmrt_pool_layer* layer, const tvmrt_average_i8* average,
                                    const void* tensors, int task, int count) {
  const tvmrt_pool_i8_tensors* t = (const tvmrt_pool_i8_tensors*)tensors;
  const tvmrt_pool_i8_job job = {layer, average, (const uint8_t*)t->x, (uint8_t*)t->y};
  tvmrt_pool_i8_rows(&job, task, count);
  return 0;
}

/* Task function for several threads; called through its address, it is not inlined. */
static inline int tvmrt_pool_i8_task(int task, TVMParallelGroupEnv* env, void* closure) {
  tvmrt_pool_i8_rows((const tvmrt_pool_i8_job*)closure, task, env->num_task);
  return 0;
}

TVMRT_INLINE int tvmrt_pool_i8_run(tvmrt_pool_i8_job job) {
  const tvmrt_window* w = &job.layer->window;
  const int64_t taps = (int64_t)w->kernel[0] * w->kernel[1] * w->kernel[2];
  const int64_t bytes = tvmrt_window_rows(w) * w->out[2] * job.layer->channels * taps;
  if (bytes / 4 >= TVMRT_PARALLEL_MIN_FLOATS) {
    return tvmrt_launch(tvmrt_pool_i8_task, &job, bytes / 4, TVMRT_PARALLEL_MIN_FLOATS);
  }
  tvmrt_pool_i8_rows(&job, 0, 1); /* inlined with a constant layer */
  return 0;
}

/*!
 * \brief MaxPool. Padding never wins; the output has the scale of the input.
 *
 * Errors: 0, or -1 if a task failed to start. Threads: thread-safe. x and y must not overlap.
 */
TVMRT_INLINE int tvmrt_max_pool_i8(const tvmrt_pool_layer* layer, const void* x, void* y) {
  const tvmrt_pool_i8_job job = {layer, NULL, (const uint8_t*)x, (uint8_t*)y};
  return tvmrt_pool_i8_run(job);
}

/*!
 * \brief AveragePool between quantised tensors: the values are dequantised, added in the order of
 * depth, row and column, divided and quantised, each with one float rounding.
 *
 * Errors: 0, or -1 if a task failed to start. Threads: thread-safe. x and y must not overlap.
 */
TVMRT_INLINE int tvmrt_average_pool_i8(const tvmrt_pool_layer* layer,
                                       const tvmrt_average_i8* average, const void* x, void* y) {
  const tvmrt_pool_i8_job job = {layer, average, (const uint8_t*)x, (uint8_t*)y};
  return tvmrt_pool_i8_run(job);
}

/*!
 * \brief Add the bytes of `width` neighbouring channels of all pixels to their sums.
 *
 * Without vectors, sums of a few channels stay in registers; with vectors, the sums of a pixel are
 * vectors.
 */
TVMRT_INLINE void tvmrt_pixel_sums_i8(int32_t* sum, const uint8_t* from, int32_t pixels,
                                      int64_t x_stride, int is_signed, int width) {
  int32_t sums[4] = {0, 0, 0, 0};
  for (; pixels > 0; pixels--, from += x_stride) {
    TVMRT_UNROLL(4) for (int i = 0; i < width; i++) {
      sums[i] += is_signed ? ((const int8_t*)from)[i] : from[i];
    }
  }
  for (int i = 0; i < width; i++) sum[i] += sums[i];
}

/*! \brief Add the bytes of n channels of all pixels to their sums. */
TVMRT_INLINE void tvmrt_image_sums_i8(int32_t* sum, int32_t n, const uint8_t* from, int32_t pixels,
                                      int64_t x_stride, int is_signed) {
#if TVMRT_SIMD_LANES_F32 == 1 || defined(__ARM_FEATURE_MVE)
  int32_t i = 0;
  for (; i + 4 <= n; i += 4, from += 4) {
    tvmrt_pixel_sums_i8(sum + i, from, pixels, x_stride, is_signed, 4);
  }
  for (int32_t rest = n & 3; rest > 0; rest--, i++, from++) {
    tvmrt_pixel_sums_i8(sum + i, from, pixels, x_stride, is_signed, 1);
  }
#else
  for (int32_t p = 0; p < pixels; p++, from += x_stride) {
    if (is_signed) {
      for (int32_t i = 0; i < n; i++) sum[i] += ((const int8_t*)from)[i];
    } else {
      for (int32_t i = 0; i < n; i++) sum[i] += from[i];
    }
  }
#endif
}

/*! \brief y = clamp(round(sum * scale) + zero) for n channels. */
TVMRT_INLINE void tvmrt_scale_sums_i8(uint8_t* y, const int32_t* sum, int32_t n, float scale,
                                      const tvmrt_i8_range* range) {
  for (int32_t i = 0; i < n; i++) {
    const float product = tvmrt_mul_f32(tvmrt_int32_to_f32(sum[i]), scale);
    y[i] = (uint8_t)tvmrt_i8_clamp_to_range(tvmrt_i8_round_product(product), range);
  }
}

/*!
 * \brief GlobalAveragePool, or a mean over the pixels: exact integer sums, rounded once at the end.
 *
 * y[batch][channel] = clamp(round(sum(x - x_zero) * scale) + zero)
 *
 * \param batch, pixels, channels [in] Extents; pixels * 255 must fit into int32.
 * \param x_stride [in] Bytes from one pixel to the next.
 * \param scale    [in] x_scale / (y_scale * pixels).
 * \param y        [out] batch * channels bytes.
 */
static inline void tvmrt_global_average_pool_i8(int32_t batch, int32_t pixels, int32_t channels,
                                                const void* x, int64_t x_stride, int32_t x_zero,
                                                int is_signed, float scale,
                                                const tvmrt_i8_range* range, void* y) {
  for (int32_t b = 0; b < batch; b++) {
    for (int32_t c = 0; c < channels; c += 64) {
      const uint8_t* from = (const uint8_t*)x + (int64_t)b * pixels * x_stride + c;
      const int32_t n = channels - c < 64 ? channels - c : 64;
      int32_t sum[64];
      for (int32_t i = 0; i < n; i++) sum[i] = -pixels * x_zero;
      tvmrt_image_sums_i8(sum, n, from, pixels, x_stride, is_signed);
      tvmrt_scale_sums_i8((uint8_t*)y + (int64_t)b * channels + c, sum, n, scale, range);
    }
  }
}

#endif /* TVM_RUNTIME_KERNELS_POOL_I8_H_ */
