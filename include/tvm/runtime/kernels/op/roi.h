/*!
 * \file roi.h
 * \brief Pooling of regions of channels-last images whose corners are computed at run time.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_ROI_H_
#define TVM_RUNTIME_KERNELS_OP_ROI_H_

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "../scalar/compiler.h"
#include "../scalar/int.h"
#include "index_bounds.h"

/*! \brief Sizes of a layer; pairs are {rows, columns}, strides are in floats. */
typedef struct tvmrt_roi_f32_layer {
  int32_t images;
  int32_t channels;
  int32_t in[2];
  int32_t out[2];
  int32_t x_stride;
  int32_t y_stride;
  /*! \brief Scale from the regions' coordinates to pixels. */
  float scale;
  /*! \brief Samples along each side of a cell; 0: one per pixel. */
  int32_t ratio;
  /*! \brief Maximum of the samples instead of the mean. */
  int32_t largest;
  /*! \brief Whether pixel centres are at halves. */
  int32_t half_pixel;
} tvmrt_roi_f32_layer;

/* More samples than this per cell only come from invalid regions. */
enum { TVMRT_ROI_MAX_SAMPLES = 4096 };

/* Along one axis: the two pixels around a coordinate and their weights; all zero outside. */
typedef struct tvmrt_roi_pair {
  int32_t low, high;
  float low_weight, high_weight;
} tvmrt_roi_pair;

static inline tvmrt_roi_pair tvmrt_roi_pair_at(float at, int n) {
  tvmrt_roi_pair pair = {0, 0, 0.0f, 0.0f};
  if (n == 0 || !(at >= -1.0f && at <= (float)n)) return pair;
  if (at < 0.0f) at = 0.0f;
  pair.low = (int32_t)at;
  if (pair.low >= n - 1) {
    pair.low = pair.high = n - 1;
    at = (float)pair.low;
  } else {
    pair.high = pair.low + 1;
  }
  pair.high_weight = at - (float)pair.low;
  pair.low_weight = 1.0f - pair.high_weight;
  return pair;
}

/* Maximum of both; NaN if either is. */
static inline float tvmrt_roi_larger(float a, float b) { return a > b || a != a ? a : b; }

/* Accumulate one sample into a cell. */
static inline void tvmrt_roi_sample_f32(const tvmrt_roi_f32_layer* layer, const float* image,
                                        tvmrt_roi_pair row, tvmrt_roi_pair column, int first,
                                        float* TVMRT_RESTRICT y) {
  const int64_t line = (int64_t)layer->in[1] * layer->x_stride;
  const float* top = image + row.low * line;
  const float* bottom = image + row.high * line;
  const float* a = top + (int64_t)column.low * layer->x_stride;
  const float* b = top + (int64_t)column.high * layer->x_stride;
  const float* c = bottom + (int64_t)column.low * layer->x_stride;
  const float* d = bottom + (int64_t)column.high * layer->x_stride;
  const float wa = row.low_weight * column.low_weight, wb = row.low_weight * column.high_weight;
  const float wc = row.high_weight * column.low_weight, wd = row.high_weight * column.high_weight;
  if (!layer->largest) {
    for (int i = 0; i < layer->channels; i++) {
      y[i] += wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i];
    }
    return;
  }
  for (int i = 0; i < layer->channels; i++) {
    const float upper = tvmrt_roi_larger(wa * a[i], wb * b[i]);
    const float lower = tvmrt_roi_larger(wc * c[i], wd * d[i]);
    const float best = tvmrt_roi_larger(upper, lower);
    y[i] = first ? best : tvmrt_roi_larger(best, y[i]);
  }
}

static inline int tvmrt_roi_samples(const tvmrt_roi_f32_layer* layer, float cell) {
  if (layer->ratio > 0) return layer->ratio;
  if (!(cell > 0.0f)) return 0;
  return cell < (float)TVMRT_ROI_MAX_SAMPLES ? (int)ceilf(cell) : TVMRT_ROI_MAX_SAMPLES;
}

/*!
 * \brief Compute regions [begin, end): the mean or maximum of bilinear samples in a grid of cells.
 * \param layer Sizes.
 * \param x Input, [images][in][x_stride].
 * \param regions [regions][4]: x1, y1, x2, y2.
 * \param images The image of each region.
 * \param y Output, [regions][out][y_stride]; must not overlap x.
 * \param where Operator, node and operand, for the error text.
 * \return 0, or -1 with an error text if there is no such image.
 */
static inline int tvmrt_roi_align_f32(const tvmrt_roi_f32_layer* layer, const float* x,
                                      const float* regions, const int64_t* images,
                                      const char* where, float* y, int64_t begin, int64_t end) {
  const float offset = layer->half_pixel ? 0.5f : 0.0f, min_size = layer->half_pixel ? 0.0f : 1.0f;
  const int64_t pixels = (int64_t)layer->in[0] * layer->in[1];
  const int64_t cells = (int64_t)layer->out[0] * layer->out[1];
  for (int64_t r = begin; r < end; r++) {
    const float* region = regions + r * 4;
    const float left = region[0] * layer->scale - offset, top = region[1] * layer->scale - offset;
    float width = region[2] * layer->scale - offset - left;
    float height = region[3] * layer->scale - offset - top;
    if (images[r] < 0 || images[r] >= layer->images) {
      return (int)tvmrt_index_error(images[r], layer->images, where);
    }
    if (!layer->half_pixel && !(width > min_size)) width = min_size;
    if (!layer->half_pixel && !(height > min_size)) height = min_size;
    const float cell_h = height / (float)layer->out[0], cell_w = width / (float)layer->out[1];
    const int rows = tvmrt_roi_samples(layer, cell_h), columns = tvmrt_roi_samples(layer, cell_w);
    const float* image = x + images[r] * pixels * layer->x_stride;
    for (int64_t cell = 0; cell < cells; cell++) {
      float* out = y + (r * cells + cell) * layer->y_stride;
      const float cell_top = top + (float)(cell / layer->out[1]) * cell_h;
      const float cell_left = left + (float)(cell % layer->out[1]) * cell_w;
      for (int c = 0; c < layer->channels; c++) out[c] = 0.0f;
      for (int i = 0; i < rows; i++) {
        const float at_h = cell_top + ((float)i + 0.5f) * cell_h / (float)rows;
        const tvmrt_roi_pair row = tvmrt_roi_pair_at(at_h, layer->in[0]);
        for (int j = 0; j < columns; j++) {
          const float at_w = cell_left + ((float)j + 0.5f) * cell_w / (float)columns;
          const tvmrt_roi_pair column = tvmrt_roi_pair_at(at_w, layer->in[1]);
          tvmrt_roi_sample_f32(layer, image, row, column, i + j == 0, out);
        }
      }
      if (!layer->largest && rows * columns > 0) {
        for (int c = 0; c < layer->channels; c++) out[c] /= (float)(rows * columns);
      }
    }
  }
  return 0;
}

/* Pixels [*first, *last) of a cell along one axis. */
static inline void tvmrt_roi_span(float start, float length, int cell, int cells, int n, int* first,
                                  int* last) {
  const float size = length / (float)cells;
  const float low = start + floorf((float)cell * size);
  const float high = start + ceilf((float)(cell + 1) * size);
  *first = low > 0.0f ? (low < (float)n ? (int)low : n) : 0;
  *last = high > 0.0f ? (high < (float)n ? (int)high : n) : 0;
}

/*!
 * \brief Compute regions [begin, end): the largest pixel of each cell, 0 for empty ones.
 *
 * regions is [regions][5]: image, x1, y1, x2, y2; others as in tvmrt_roi_align_f32().
 */
static inline int tvmrt_max_roi_pool_f32(const tvmrt_roi_f32_layer* layer, const float* x,
                                         const float* regions, const char* where, float* y,
                                         int64_t begin, int64_t end) {
  const int64_t pixels = (int64_t)layer->in[0] * layer->in[1];
  for (int64_t r = begin; r < end; r++) {
    const float* region = regions + r * 5;
    const float left = roundf(region[1] * layer->scale), top = roundf(region[2] * layer->scale);
    const float right = roundf(region[3] * layer->scale);
    const float bottom = roundf(region[4] * layer->scale);
    const float width = right - left + 1.0f > 1.0f ? right - left + 1.0f : 1.0f;
    const float height = bottom - top + 1.0f > 1.0f ? bottom - top + 1.0f : 1.0f;
    if (!(region[0] >= 0.0f && region[0] < (float)layer->images)) {
      return (int)tvmrt_index_error(tvmrt_f32_to_int64(region[0]), layer->images, where);
    }
    const float* image = x + (int64_t)region[0] * pixels * layer->x_stride;
    for (int h = 0; h < layer->out[0]; h++) {
      int h_first, h_last;
      tvmrt_roi_span(top, height, h, layer->out[0], layer->in[0], &h_first, &h_last);
      for (int w = 0; w < layer->out[1]; w++) {
        float* TVMRT_RESTRICT out =
            y + ((r * layer->out[0] + h) * layer->out[1] + w) * layer->y_stride;
        int w_first, w_last;
        tvmrt_roi_span(left, width, w, layer->out[1], layer->in[1], &w_first, &w_last);
        const int empty = h_first >= h_last || w_first >= w_last;
        for (int c = 0; c < layer->channels; c++) out[c] = empty ? 0.0f : -INFINITY;
        for (int i = h_first; i < h_last; i++) {
          for (int j = w_first; j < w_last; j++) {
            const float* in = image + ((int64_t)i * layer->in[1] + j) * layer->x_stride;
            for (int c = 0; c < layer->channels; c++) out[c] = tvmrt_roi_larger(in[c], out[c]);
          }
        }
      }
    }
  }
  return 0;
}

#endif /* TVM_RUNTIME_KERNELS_OP_ROI_H_ */
