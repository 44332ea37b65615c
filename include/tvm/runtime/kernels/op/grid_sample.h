/*!
 * \file grid_sample.h
 * \brief Sampling of channels-last images at coordinates: nearest, linear, cubic, 2-D, 3-D.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_GRID_SAMPLE_H_
#define TVM_RUNTIME_KERNELS_OP_GRID_SAMPLE_H_

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "../scalar/compiler.h"

typedef enum {
  TVMRT_SAMPLE_NEAREST,
  TVMRT_SAMPLE_LINEAR,
  TVMRT_SAMPLE_CUBIC,
  TVMRT_SAMPLE_MODES
} tvmrt_sample_mode;
typedef enum {
  TVMRT_OUTSIDE_ZERO,
  TVMRT_OUTSIDE_BORDER,
  TVMRT_OUTSIDE_REFLECT,
  TVMRT_OUTSIDE_MODES
} tvmrt_outside;

/*! \brief Sizes of a layer; triples are {depth, height, width}, strides are in floats. */
typedef struct tvmrt_grid_sample_f32_layer {
  tvmrt_sample_mode mode;
  tvmrt_outside outside;
  /*! \brief Whether -1 and 1 are the centres of the outermost pixels instead of their edges. */
  int32_t align_corners;
  /*! \brief Components of a coordinate: 2 (x, y) or 3 (x, y, z). */
  int32_t rank;
  int32_t channels;
  int32_t in[3];
  /*! \brief Pixels of one image of the result. */
  int64_t out_pixels;
  int32_t x_stride;
  int32_t y_stride;
} tvmrt_grid_sample_f32_layer;

/* Along one axis: element indices (-1: zero) and their weights. */
typedef struct tvmrt_sample_taps {
  int32_t count;
  int32_t at[4];
  float weight[4];
} tvmrt_sample_taps;

/* x reflected at low and high until it is between them. */
static inline float tvmrt_sample_reflect(float x, float low, float high) {
  const float range = high - low;
  const float beyond = x < low ? low - x : x > high ? x - high : 0.0f;
  float turns, rest;
  if (beyond == 0.0f) return x;
  if (range <= 0.0f) return low;
  turns = floorf(beyond / range);
  rest = beyond - turns * range;
  if (((int64_t)turns % 2 == 0) == (x < low)) return low + rest;
  return high - rest;
}

/* The index of the element that replaces element i of n; -1 for zero. */
static inline int32_t tvmrt_sample_element(const tvmrt_grid_sample_f32_layer* layer, int64_t i,
                                           int n) {
  TVMRT_HANDLES(TVMRT_OUTSIDE_MODES, 3);
  if (i >= 0 && i < n) return (int32_t)i;
  if (layer->outside == TVMRT_OUTSIDE_ZERO) return -1;
  if (layer->outside == TVMRT_OUTSIDE_REFLECT) {
    const float low = layer->align_corners ? 0.0f : -0.5f;
    i = (int64_t)tvmrt_sample_reflect((float)i, low, (float)(n - 1) - low);
  }
  return i < 0 ? 0 : i >= n ? n - 1 : (int32_t)i;
}

/* Weights of the cubic convolution kernel with a = -3/4 at fraction t. */
static inline void tvmrt_sample_cubic(float t, float weight[4]) {
  const float a = -0.75f, u = 1.0f - t;
  weight[0] = ((a * (t + 1.0f) - 5.0f * a) * (t + 1.0f) + 8.0f * a) * (t + 1.0f) - 4.0f * a;
  weight[1] = ((a + 2.0f) * t - (a + 3.0f)) * t * t + 1.0f;
  weight[2] = ((a + 2.0f) * u - (a + 3.0f)) * u * u + 1.0f;
  weight[3] = ((a * (u + 1.0f) - 5.0f * a) * (u + 1.0f) + 8.0f * a) * (u + 1.0f) - 4.0f * a;
}

/* Taps of coordinate `at`, -1 to 1, along an axis of n elements; NaN counts as -1. Samples of empty
 * axes are 0. */
static inline tvmrt_sample_taps tvmrt_sample_taps_at(const tvmrt_grid_sample_f32_layer* layer,
                                                     float at, int n) {
  const float low = layer->align_corners ? 0.0f : -0.5f, high = (float)(n - 1) - low;
  const float far = 1e8f;
  tvmrt_sample_taps taps = {1, {-1, 0, 0, 0}, {0.0f, 0.0f, 0.0f, 0.0f}};
  if (n == 0) return taps;
  const float from_edge = at == at ? at + 1.0f : 0.0f;
  float x = layer->align_corners ? from_edge * 0.5f * (float)(n - 1)
                                 : (from_edge * (float)n - 1.0f) * 0.5f;
  float fraction;
  int64_t first;
  TVMRT_HANDLES(TVMRT_SAMPLE_MODES, 3);
  /* coordinates beyond the integer range are outside */
  x = x > -far ? x : -far;
  x = x < far ? x : far;
  if (layer->mode == TVMRT_SAMPLE_NEAREST) x = nearbyintf(x);
  /* the elements of a cubic window are looked up one by one */
  if (layer->mode != TVMRT_SAMPLE_CUBIC && (x < low || x > high)) {
    if (layer->outside == TVMRT_OUTSIDE_BORDER) {
      x = x < 0.0f ? 0.0f : x > (float)(n - 1) ? (float)(n - 1) : x;
    } else if (layer->outside == TVMRT_OUTSIDE_REFLECT) {
      x = tvmrt_sample_reflect(x, low, high);
    }
  }
  if (layer->mode == TVMRT_SAMPLE_NEAREST) {
    taps.count = 1;
    taps.at[0] = tvmrt_sample_element(layer, (int64_t)nearbyintf(x), n);
    taps.weight[0] = 1.0f;
    return taps;
  }
  first = (int64_t)floorf(x);
  fraction = x - (float)first;
  if (layer->mode == TVMRT_SAMPLE_LINEAR) {
    taps.count = 2;
    taps.weight[0] = 1.0f - fraction;
    taps.weight[1] = fraction;
  } else {
    taps.count = 4;
    tvmrt_sample_cubic(fraction, taps.weight);
    first -= 1;
  }
  for (int t = 0; t < taps.count; t++) taps.at[t] = tvmrt_sample_element(layer, first + t, n);
  return taps;
}

/*!
 * \brief Compute pixels [begin, end) of the result, counted over the whole batch.
 * \param layer Mode and sizes.
 * \param x Input, [batch][in][x_stride].
 * \param grid Coordinates, [batch][out_pixels][rank], x first.
 * \param y Output, [batch][out_pixels][y_stride]; must not overlap x.
 * \return 0.
 */
static inline int tvmrt_grid_sample_f32(const tvmrt_grid_sample_f32_layer* layer, const float* x,
                                        const float* grid, float* y, int64_t begin, int64_t end) {
  const int64_t image = (int64_t)layer->in[0] * layer->in[1] * layer->in[2] * layer->x_stride;
  const int channels = layer->channels;
  for (int64_t p = begin; p < end; p++) {
    const float* coordinates = grid + p * layer->rank;
    const float* from = x + p / layer->out_pixels * image;
    float* TVMRT_RESTRICT out = y + p * layer->y_stride;
    const tvmrt_sample_taps none = {1, {0, 0, 0, 0}, {1.0f, 0.0f, 0.0f, 0.0f}};
    const tvmrt_sample_taps w = tvmrt_sample_taps_at(layer, coordinates[0], layer->in[2]);
    const tvmrt_sample_taps h = tvmrt_sample_taps_at(layer, coordinates[1], layer->in[1]);
    const tvmrt_sample_taps d =
        layer->rank == 3 ? tvmrt_sample_taps_at(layer, coordinates[2], layer->in[0]) : none;
    for (int c = 0; c < channels; c++) out[c] = 0.0f;
    for (int i = 0; i < d.count; i++) {
      for (int j = 0; j < h.count; j++) {
        for (int k = 0; k < w.count; k++) {
          if (d.at[i] < 0 || h.at[j] < 0 || w.at[k] < 0) continue;
          const float weight = d.weight[i] * h.weight[j] * w.weight[k];
          const int64_t pixel =
              ((int64_t)d.at[i] * layer->in[1] + h.at[j]) * layer->in[2] + w.at[k];
          const float* TVMRT_RESTRICT in = from + pixel * layer->x_stride;
          for (int c = 0; c < channels; c++) out[c] += weight * in[c];
        }
      }
    }
  }
  return 0;
}

#endif /* TVM_RUNTIME_KERNELS_OP_GRID_SAMPLE_H_ */
