/*!
 * \file norm.h
 * \brief Normalisation in float32: layer and RMS norm, instance, group and local response norm.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_NORM_H_
#define TVM_RUNTIME_KERNELS_OP_NORM_H_

#include "../parallel.h"
#include "../scalar/math.h"
#include "softmax.h"

/* ---- rows ---- */

/*! \brief The sum of (x[i] - mean)^2 over n contiguous floats. */
static inline float tvmrt_row_deviation_f32(const float* x, float mean, int64_t n) {
  enum { kLanes = TVMRT_SUM_LANES };
  const tvmrt_sum_f32 middle = TVMRT_SUM_F32(splat)(mean);
  tvmrt_sum_f32 sum[2] = {TVMRT_SUM_F32(splat)(0.0f), TVMRT_SUM_F32(splat)(0.0f)};
  const int64_t whole = n / (2 * kLanes) * (2 * kLanes);
  for (int64_t i = 0; i < whole; i += 2 * kLanes) {
    for (int j = 0; j < 2; j++) {
      const tvmrt_sum_f32 each = TVMRT_SUM_F32(load)(x + i + j * kLanes) - middle;
      sum[j] = TVMRT_SUM_F32(fma)(each, each, sum[j]);
    }
  }
  float result = TVMRT_SUM_F32(sum)(sum[0] + sum[1]);
  for (int64_t i = whole; i < n; i++) result += (x[i] - mean) * (x[i] - mean);
  return result;
}

/*! \brief Normalisation of the rows of [rows][n]. */
typedef struct tvmrt_layer_norm_f32_layer {
  int64_t rows;
  int64_t n;
  /*! \brief Row strides of x and y, in floats. */
  int64_t x_stride;
  int64_t y_stride;
  /*! \brief Added to the variance (or mean square) before the root. */
  float epsilon;
  /*! \brief 1: around the mean (layer norm); 0: around zero (RMS norm). */
  int32_t centre;
} tvmrt_layer_norm_f32_layer;

typedef struct tvmrt_layer_norm_f32_job {
  const tvmrt_layer_norm_f32_layer* layer;
  const float* x;
  const float* scale;
  const float* shift;
  float* y;
} tvmrt_layer_norm_f32_job;

static inline int tvmrt_layer_norm_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_layer_norm_f32_job* job = (const tvmrt_layer_norm_f32_job*)closure;
  const tvmrt_layer_norm_f32_layer* layer = job->layer;
  const int64_t n = layer->n, end = tvmrt_task_begin(layer->rows, 1, task + 1, env->num_task);
  for (int64_t r = tvmrt_task_begin(layer->rows, 1, task, env->num_task); r < end; r++) {
    const float* x = job->x + r * layer->x_stride;
    float* y = job->y + r * layer->y_stride;
    const float mean = layer->centre ? tvmrt_row_sum_f32(x, n) / (float)n : 0.0f;
    const float variance = tvmrt_row_deviation_f32(x, mean, n) / (float)n;
    const float factor = 1.0f / sqrtf(variance + layer->epsilon);
    if (job->scale && job->shift) {
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * job->scale[i] + job->shift[i];
    } else if (job->scale) {
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * job->scale[i];
    } else {
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * factor;
    }
  }
  return 0;
}

/*!
 * \brief y = (x - mean) / sqrt(variance + epsilon) * scale + shift, row by row.
 * \param layer Sizes.
 * \param x Input rows.
 * \param scale n floats, or NULL for ones.
 * \param shift n floats, or NULL for zeros; not without scale.
 * \param y Output rows; may be x.
 * \return 0; -1 if a thread failed.
 */
static inline int tvmrt_layer_norm_f32(const tvmrt_layer_norm_f32_layer* layer, const float* x,
                                       const float* scale, const float* shift, float* y) {
  tvmrt_layer_norm_f32_job job = {layer, x, scale, shift, y};
  return tvmrt_launch(tvmrt_layer_norm_f32_task, &job, 3 * layer->rows * layer->n,
                      TVMRT_PARALLEL_MIN_FLOATS);
}

/* ---- instance and group norm, channels last ---- */

/*! \brief Normalisation of [batch][pixels][channels] over pixels and the channels of a group. */
typedef struct tvmrt_group_norm_f32_layer {
  int64_t batch;
  int64_t pixels;
  int32_t channels;
  /*! \brief Number of groups; equals channels for instance norm. */
  int32_t groups;
  int32_t x_stride;
  int32_t y_stride;
  float epsilon;
} tvmrt_group_norm_f32_layer;

/* Sum a term of each pixel for every channel, in parts to limit rounding errors. */
#define TVMRT_GROUP_NORM_SUM(NAME, TERM)                                           \
  static inline void NAME(const tvmrt_group_norm_f32_layer* layer, const float* x, \
                          const float* mean, float* part, float* sum) {            \
    const int channels = layer->channels;                                          \
    for (int c = 0; c < channels; c++) sum[c] = 0.0f;                              \
    for (int64_t begin = 0; begin < layer->pixels; begin += 64) {                  \
      const int64_t end = layer->pixels - begin < 64 ? layer->pixels : begin + 64; \
      for (int c = 0; c < channels; c++) part[c] = 0.0f;                           \
      for (int64_t p = begin; p < end; p++) {                                      \
        const float* row = x + p * layer->x_stride;                                \
        for (int c = 0; c < channels; c++) part[c] += TERM;                        \
      }                                                                            \
      for (int c = 0; c < channels; c++) sum[c] += part[c];                        \
    }                                                                              \
    (void)mean;                                                                    \
  }
TVMRT_GROUP_NORM_SUM(tvmrt_group_norm_f32_sum, row[c])
TVMRT_GROUP_NORM_SUM(tvmrt_group_norm_f32_deviation, (row[c] - mean[c]) * (row[c] - mean[c]))

/* Replace each channel's value by the mean over its group's channels. */
static inline void tvmrt_group_norm_f32_work_part(const tvmrt_group_norm_f32_layer* layer,
                                                  float* value) {
  const int size = layer->channels / layer->groups;
  for (int g = 0; g < layer->groups; g++) {
    float sum = 0.0f;
    for (int c = 0; c < size; c++) sum += value[g * size + c];
    sum /= (float)size * (float)layer->pixels;
    for (int c = 0; c < size; c++) value[g * size + c] = sum;
  }
}

/*!
 * \brief Instance norm (groups = channels) or group norm.
 * \param layer Sizes; groups divides channels.
 * \param x Input, [batch][pixels][x_stride].
 * \param scale One float a channel, or NULL for ones.
 * \param shift One float a channel, or NULL for zeros.
 * \param y Output, [batch][pixels][y_stride]; may be x.
 * \return 0; -1 if scratch memory runs out.
 *
 * Takes 3 * channels floats of scratch memory.
 */
static inline int tvmrt_group_norm_f32(const tvmrt_group_norm_f32_layer* layer, const float* x,
                                       const float* scale, const float* shift, float* y) {
  const int channels = layer->channels;
  float* mean = (float*)tvmrt_scratch_alloc(3 * (int64_t)channels * (int64_t)sizeof(float));
  if (!mean) return -1;
  float *factor = mean + channels, *part = factor + channels;
  for (int64_t b = 0; b < layer->batch; b++) {
    const float* from = x + b * layer->pixels * layer->x_stride;
    float* to = y + b * layer->pixels * layer->y_stride;
    tvmrt_group_norm_f32_sum(layer, from, NULL, part, mean);
    tvmrt_group_norm_f32_work_part(layer, mean);
    tvmrt_group_norm_f32_deviation(layer, from, mean, part, factor);
    tvmrt_group_norm_f32_work_part(layer, factor);
    for (int c = 0; c < channels; c++) {
      factor[c] = (scale ? scale[c] : 1.0f) / sqrtf(factor[c] + layer->epsilon);
      part[c] = (shift ? shift[c] : 0.0f) - mean[c] * factor[c];
    }
    for (int64_t p = 0; p < layer->pixels; p++) {
      const float* in = from + p * layer->x_stride;
      float* out = to + p * layer->y_stride;
      for (int c = 0; c < channels; c++) out[c] = in[c] * factor[c] + part[c];
    }
  }
  return tvmrt_scratch_free(mean);
}

/* ---- local response norm ---- */

/*! \brief Channels of [pixels][channels] over a power of their neighbours' sum of squares. */
typedef struct tvmrt_lrn_f32_layer {
  int64_t pixels;
  int32_t channels;
  int32_t x_stride;
  int32_t y_stride;
  /*! \brief Channels in the sum, (size - 1) / 2 of them before the channel itself. */
  int32_t size;
  float alpha;
  float beta;
  float bias;
} tvmrt_lrn_f32_layer;

typedef struct tvmrt_lrn_f32_job {
  const tvmrt_lrn_f32_layer* layer;
  const float* x;
  float* y;
} tvmrt_lrn_f32_job;

/* x / sum^beta; with roots for the usual 3/4, because a power costs three times as much. */
TVMRT_INLINE void tvmrt_lrn_f32_divide(const tvmrt_lrn_f32_layer* layer, const float* x,
                                       const float* sum, float* y) {
  const float factor = layer->alpha / (float)layer->size;
  if (layer->beta == 0.75f) {
    for (int c = 0; c < layer->channels; c++) {
      const float root = sqrtf(layer->bias + factor * sum[c]);
      y[c] = x[c] / (root * sqrtf(root));
    }
  } else {
    for (int c = 0; c < layer->channels; c++) {
      y[c] = x[c] * tvmrt_exp_f32(-layer->beta * tvmrt_log_f32(layer->bias + factor * sum[c]));
    }
  }
}

static inline int tvmrt_lrn_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_lrn_f32_job* job = (const tvmrt_lrn_f32_job*)closure;
  const tvmrt_lrn_f32_layer* layer = job->layer;
  const int channels = layer->channels, before = (layer->size - 1) / 2;
  const int64_t end = tvmrt_task_begin(layer->pixels, 1, task + 1, env->num_task);
  /* Squares with zeros around them, so that every window is complete. */
  const int64_t floats = 2 * (int64_t)channels + layer->size;
  float* square = (float*)tvmrt_scratch_alloc(floats * (int64_t)sizeof(float));
  if (!square) return -1;
  float* sum = square + channels + layer->size;
  for (int64_t i = 0; i < floats; i++) square[i] = 0.0f;
  for (int64_t p = tvmrt_task_begin(layer->pixels, 1, task, env->num_task); p < end; p++) {
    const float* x = job->x + p * layer->x_stride;
    for (int c = 0; c < channels; c++) square[before + c] = x[c] * x[c];
    for (int c = 0; c < channels; c++) sum[c] = square[c];
    for (int k = 1; k < layer->size; k++) {
      for (int c = 0; c < channels; c++) sum[c] += square[c + k];
    }
    tvmrt_lrn_f32_divide(layer, x, sum, job->y + p * layer->y_stride);
  }
  return tvmrt_scratch_free(square);
}

/*!
 * \brief y = x / (bias + alpha / size * sum over the squared size channels around)^beta.
 * \param layer Sizes and constants.
 * \param x Input, [pixels][x_stride], the pixels of the whole batch.
 * \param y Output, [pixels][y_stride]; may be x.
 * \return 0; -1 if scratch memory runs out or a thread failed.
 *
 * Each task takes 2 * channels + size floats of scratch memory.
 */
static inline int tvmrt_lrn_f32(const tvmrt_lrn_f32_layer* layer, const float* x, float* y) {
  tvmrt_lrn_f32_job job = {layer, x, y};
  return tvmrt_launch(tvmrt_lrn_f32_task, &job, 5 * layer->pixels * layer->channels,
                      TVMRT_PARALLEL_MIN_FLOATS);
}

#endif /* TVM_RUNTIME_KERNELS_OP_NORM_H_ */
