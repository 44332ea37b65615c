/*!
 * \file depthwise_f32.h
 * \brief Depthwise convolution in float32 over channels-last memory: one window per channel.
 *
 * Vectors hold channels; a tile is MR neighbouring output pixels of one row, for all channels.
 * Nothing is copied: rows outside the input are skipped, columns outside it count as zeros.
 *
 * Packed weights are [channels / V, rounded up][kd][kh][kw][V], the bias is [channels rounded up to
 * V], both zero-padded. Worked example: 3x3, 20 channels, V = 16: the weight of channel 17, row 1,
 * column 2 has index (1 * 9 + 1 * 3 + 2) * 16 + 1 of 2 * 9 * 16.
 *
 * A file instantiates the kernels that its layers need; the lines
 *
 *   TVMRT_DEFINE_DEPTHWISE_F32(one, 16, 3, 1, 8, 16)
 *   TVMRT_DEFINE_DEPTHWISE_ANY_F32(other, 8, 8, 16)
 *
 * define `one`, for windows 3 columns wide, stride 1, 8 pixels at a time, and `other`, with vectors
 * of 8 for any width, stride and dilation. Both take weights and bias packed for 16 channels.
 */
#ifndef TVM_RUNTIME_KERNELS_DEPTHWISE_F32_H_
#define TVM_RUNTIME_KERNELS_DEPTHWISE_F32_H_

#include <math.h>
#include <stddef.h>

#include "layer_f32.h"

/*! \brief Input rows that a tile accumulates at a time; a window of more rows takes several
 * passes. */
enum { TVMRT_DEPTHWISE_ROWS = 16 };

/*! \brief Input of a tile function: the input rows under one output row. */
typedef struct tvmrt_depthwise_f32_rows {
  const tvmrt_layer_f32* layer;
  const tvmrt_data_f32* data;
  /*! \brief Clamp bounds, infinite unless this is the last pass. */
  float lo;
  float hi;
  /*! \brief Whether the sum continues that of the previous pass, which is in out. */
  int32_t continues;
  int32_t row_count;
  struct {
    /*! \brief Column 0, channel 0 of a row inside the input. */
    const float* x;
    /*! \brief Index of the window element at column 0. */
    int64_t tap;
  } row[TVMRT_DEPTHWISE_ROWS];
} tvmrt_depthwise_f32_rows;

/*!
 * \brief Compute `pixels` output pixels of a row, all channels, MR at a time.
 * \param column Input column under the first column of the first pixel's window; may be outside the
 * input.
 * \param residual First pixel, channel 0, or NULL.
 * \param out First pixel, channel 0.
 */
typedef void (*tvmrt_depthwise_f32_fn)(const tvmrt_depthwise_f32_rows* rows, int64_t column,
                                       int pixels, const float* residual, float* out);

/* Layer sizes for the inner loops: a copy that no store can alias, so it stays in registers. */
typedef struct tvmrt_depthwise_f32_sizes {
  intptr_t x_stride, y_stride, residual_stride;
  intptr_t kernel, stride, dilation;
  float lo, hi;
} tvmrt_depthwise_f32_sizes;

/* Loops of the tile, fully unrolled so that its arrays of vectors stay in registers. */
#define TVMRT_DEPTHWISE_EACH(variable, count) \
  TVMRT_UNROLL(64)                            \
  for (int variable = 0; variable < (count); variable++)

/* clang-format off */
#define TVMRT_DEFINE_DEPTHWISE_F32(NAME, V, KW, S, MR, P)                                          \
  TVMRT_DEFINE_DEPTHWISE_F32_SUM(NAME, tvmrt_f32x##V, V, MR, KW, S, P)                             \
  TVMRT_DEFINE_DEPTHWISE_F32_TILE(NAME, tvmrt_f32x##V, V, MR, ((KW) - 1) / 2,                      \
                                  ((MR) - 1) * (S) + (KW), P, KW)

#define TVMRT_DEFINE_DEPTHWISE_ANY_F32(NAME, V, MR, P)                                             \
  TVMRT_DEFINE_DEPTHWISE_ANY_F32_SUM(NAME, tvmrt_f32x##V, V, MR, P)                                \
  TVMRT_DEFINE_DEPTHWISE_F32_TILE(NAME, tvmrt_f32x##V, V, MR, 0,                                   \
                                  ((MR) - 1) * of->stride + (of->kernel - 1) * of->dilation + 1, P,\
                                  0)

/* NAME_sum adds the contribution of one input row to sum[] of the tile's MR pixels. x is the row's
 * first column of the tile; only columns [first, last) of it are inside the input, which may not
 * hold for the outer `edge` columns on each side; n channels exist. Each column is loaded once for all windows that contain it; pointers as in tile/gemm_f32.h. */
#define TVMRT_DEFINE_DEPTHWISE_F32_SUM(NAME, VEC, V, MR, KW, S, P)                                 \
  TVMRT_INLINE void NAME##_sum(const tvmrt_depthwise_f32_sizes* of, const float* x,                \
                               const float* w, VEC* sum, int64_t first, int64_t last, int n,       \
                               int edge) {                                                         \
    enum { kColumns = ((MR) - 1) * (S) + (KW), kPointers = (kColumns + 3) / 4 };                   \
    const intptr_t stride = of->x_stride;                                                          \
    const float* p[kPointers];                                                                     \
    VEC column[kColumns];                                                                          \
    TVMRT_DEPTHWISE_EACH(i, kPointers) {                                                           \
      p[i] = x + 4 * i * stride;                                                                   \
      TVMRT_OPAQUE(p[i]);                                                                          \
    }                                                                                              \
    TVMRT_DEPTHWISE_EACH(j, kColumns) {                                                            \
      const float* from = p[j / 4] + (j % 4) * stride;                                             \
      const int outside = (j < edge && j < first) || (j >= kColumns - edge && j >= last);          \
      column[j] = outside    ? VEC##_splat(0.0f)                                                   \
                  : n == (V) ? VEC##_load(from)                                                    \
                             : VEC##_load_n(from, n);                                              \
    }                                                                                              \
    TVMRT_DEPTHWISE_EACH(kw, KW) {                                                                 \
      const VEC weight = VEC##_load(w + kw * (P));                                                 \
      TVMRT_DEPTHWISE_EACH(t, MR)                                                                  \
        sum[t] = VEC##_fma(weight, column[t * (S) + kw], sum[t]);                                  \
    }                                                                                              \
  }

#define TVMRT_DEFINE_DEPTHWISE_ANY_F32_SUM(NAME, VEC, V, MR, P)                                    \
  TVMRT_INLINE void NAME##_sum(const tvmrt_depthwise_f32_sizes* of, const float* x,                \
                               const float* w, VEC* sum, int64_t first, int64_t last, int n,       \
                               int edge) {                                                         \
    for (intptr_t kw = 0; kw < of->kernel; kw++) {                                                 \
      const VEC weight = VEC##_load(w + kw * (P));                                                 \
      TVMRT_DEPTHWISE_EACH(t, MR) {                                                                \
        const intptr_t j = kw * of->dilation + t * of->stride;                                     \
        const float* from = x + j * of->x_stride;                                                  \
        if (edge == 0 || (j >= first && j < last)) {                                               \
          sum[t] = VEC##_fma(weight, n == (V) ? VEC##_load(from) : VEC##_load_n(from, n), sum[t]); \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }

/* Offset of the weights of channel c; `window` weights per channel. */
#define TVMRT_DEPTHWISE_AT(V, P) (c * window - ((V) == (P) ? 0 : c % (P) * (window - 1)))

/* One vector of channels of the tile, then the tile, then a run of tiles. Tiles with a square window
 * of `known` rows, most of an image, are compiled with and without the edge of the input: at most
 * half a window to the left and to the right. Another copy computes the first and last rows. */
#define TVMRT_DEFINE_DEPTHWISE_F32_TILE(NAME, VEC, V, MR, EDGE, COLUMNS, P, ROWS)                  \
  TVMRT_INLINE void NAME##_vector(const tvmrt_depthwise_f32_rows* rows,                            \
                                  const tvmrt_depthwise_f32_sizes* of, const float* w,             \
                                  const float* bias, int64_t column, int pixels,                   \
                                  const float* residual, float* out, int c, int64_t first,         \
                                  int64_t last, int n, int edge, int known) {                      \
    const intptr_t offset = (intptr_t)column * of->x_stride + c;                                   \
    const VEC start = bias ? VEC##_load(bias + c) : VEC##_splat(0.0f);                             \
    VEC sum[MR];                                                                                   \
    TVMRT_DEPTHWISE_EACH(t, MR) sum[t] = start;                                                    \
    if (!known && TVMRT_UNLIKELY(rows->continues)) {                                               \
      TVMRT_DEPTHWISE_EACH(t, MR) {                                                                \
        if (t < pixels) sum[t] = VEC##_load_n(out + t * of->y_stride + c, n);                      \
      }                                                                                            \
    }                                                                                              \
    TVMRT_DEPTHWISE_EACH(r, known)                                                                 \
      NAME##_sum(of, rows->row[r].x + offset, w + r * (ROWS) * (P), sum, first, last, n, edge);    \
    for (int r = 0; !known && r < rows->row_count; r++) {                                          \
      NAME##_sum(of, rows->row[r].x + offset, w + rows->row[r].tap * (P), sum, first, last, n,     \
                 edge);                                                                            \
    }                                                                                              \
    if (residual) {                                                                                \
      TVMRT_DEPTHWISE_EACH(t, MR) {                                                                \
        const float* from = residual + t * of->residual_stride + c;                                \
        if (t < pixels) sum[t] += n == (V) ? VEC##_load(from) : VEC##_load_n(from, n);             \
      }                                                                                            \
    }                                                                                              \
    if (of->lo > -INFINITY) {                                                                      \
      const VEC lo = VEC##_splat(of->lo);                                                          \
      TVMRT_DEPTHWISE_EACH(t, MR) sum[t] = VEC##_max(sum[t], lo);                                  \
    }                                                                                              \
    if (of->hi < INFINITY) {                                                                       \
      const VEC hi = VEC##_splat(of->hi);                                                          \
      TVMRT_DEPTHWISE_EACH(t, MR) sum[t] = VEC##_min(sum[t], hi);                                  \
    }                                                                                              \
    TVMRT_DEPTHWISE_EACH(t, MR) {                                                                  \
      float* y = out + t * of->y_stride + c;                                                       \
      if (t < pixels && n == (V)) {                                                                \
        VEC##_store(y, sum[t]);                                                                    \
      } else if (t < pixels) {                                                                     \
        VEC##_store_n(y, sum[t], n);                                                               \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  TVMRT_INLINE int NAME##_tile(const tvmrt_depthwise_f32_rows* rows,                               \
                               const tvmrt_depthwise_f32_sizes* of, int64_t column, int64_t first, \
                               int64_t last, int full, const float* residual, float* out,          \
                               int edge, int known) {                                              \
    const float *w = rows->data->w, *bias = rows->data->bias;                                      \
    const intptr_t window = rows->layer->weights;                                                  \
    int c = 0;                                                                                     \
    for (; c < full; c += (V)) {                                                                   \
      NAME##_vector(rows, of, w + TVMRT_DEPTHWISE_AT(V, P), bias, column, (MR), residual, out, c,  \
                    first, last, (V), edge, known);                                                \
    }                                                                                              \
    return c;                                                                                      \
  }                                                                                                \
  TVMRT_NOINLINE void NAME(const tvmrt_depthwise_f32_rows* rows, int64_t column, int pixels,       \
                           const float* residual, float* out) {                                    \
    const tvmrt_layer_f32* layer = rows->layer;                                                    \
    const tvmrt_window* win = &layer->window;                                                      \
    const tvmrt_depthwise_f32_sizes sizes = {                                                      \
        win->x_stride,  win->y_stride,    layer->residual_stride, win->kernel[2],                  \
        win->stride[2], win->dilation[2], rows->lo,               rows->hi};                       \
    const tvmrt_depthwise_f32_sizes* of = &sizes;                                                  \
    const float *w = rows->data->w, *bias = rows->data->bias;                                      \
    const int64_t columns = (COLUMNS);                                                             \
    const int channels = layer->out_channels;                                                      \
    const intptr_t window = layer->weights;                                                        \
    const int known = (ROWS) > 0 && rows->row_count == (ROWS) && win->kernel[1] == (ROWS) &&       \
                      win->kernel[0] == 1 && !rows->continues;                                     \
    for (int t = 0; t < pixels; t += (MR)) {                                                       \
      const int many = pixels - t < (MR) ? pixels - t : (MR);                                      \
      const int64_t first = column < 0 ? -column : 0, right = column + columns - win->in[2];       \
      const int64_t last = right > 0 ? columns - right : columns;                                  \
      const int full = many == (MR) ? channels / (V) * (V) : 0;                                    \
      const int inside = first == 0 && last == columns;                                            \
      const int regular = first <= (EDGE) && columns - last <= (EDGE);                             \
      int c = 0;                                                                                   \
      if (known && inside) {                                                                       \
        c = NAME##_tile(rows, of, column, 0, columns, full, residual, out, 0, ROWS);               \
      } else if (known && regular) {                                                               \
        c = NAME##_tile(rows, of, column, first, last, full, residual, out, EDGE, ROWS);           \
      } else if (regular) {                                                                        \
        c = NAME##_tile(rows, of, column, first, last, full, residual, out, EDGE, 0);              \
      }                                                                                            \
      for (; c < channels; c += (V)) {                                                             \
        const int n = channels - c < (V) ? channels - c : (V);                                     \
        NAME##_vector(rows, of, w + TVMRT_DEPTHWISE_AT(V, P), bias, column, many, residual, out, c,\
                      first, last, n, (int)columns, 0);                                            \
      }                                                                                            \
      column += (MR) * of->stride;                                                                 \
      out += (MR) * of->y_stride;                                                                  \
      if (residual) residual += (MR) * of->residual_stride;                                        \
    }                                                                                              \
  }
/* clang-format on */

/*! \brief The tile instance of a layer. */
typedef struct tvmrt_depthwise_f32_tile {
  int32_t lanes;
  int32_t width;
  tvmrt_depthwise_f32_fn run;
} tvmrt_depthwise_f32_tile;

/*! \brief Shared data of all tasks. */
typedef struct tvmrt_depthwise_f32_job {
  const tvmrt_layer_f32* layer;
  const tvmrt_depthwise_f32_tile* tile;
  const tvmrt_data_f32* data;
  int32_t channel; /*!< The first channel, for epilogues. */
} tvmrt_depthwise_f32_job;

/* One output row with the input rows in `rows`; finishes: this is the last pass over it. */
static inline void tvmrt_depthwise_f32_row(const tvmrt_depthwise_f32_job* job,
                                           tvmrt_depthwise_f32_rows* rows, int64_t pixel,
                                           int finishes) {
  const tvmrt_layer_f32* layer = job->layer;
  const tvmrt_window* window = &layer->window;
  const tvmrt_data_f32* data = job->data;
  const int width = data->epilogue ? job->tile->width : window->out[2];
  rows->lo = finishes ? layer->lo : -INFINITY;
  rows->hi = finishes ? layer->hi : INFINITY;
  for (int t = 0; t < window->out[2]; t += width) {
    const int pixels = window->out[2] - t < width ? window->out[2] - t : width;
    const int64_t column = (int64_t)t * window->stride[2] - window->pad[2];
    float* out = data->y + (pixel + t) * window->y_stride;
    const float* residual = NULL;
    if (data->residual && finishes) {
      residual = data->residual + (pixel + t) * layer->residual_stride;
    }
    job->tile->run(rows, column, pixels, residual, out);
    if (data->epilogue && finishes) {
      data->epilogue(out, pixel + t, pixels, job->channel, layer->out_channels, data->ctx);
    }
  }
  rows->row_count = 0;
  rows->continues = 1;
}

/* An output row: collects its rows inside the input, at most TVMRT_DEPTHWISE_ROWS at a time. */
static inline void tvmrt_depthwise_f32_window(const tvmrt_depthwise_f32_job* job,
                                              const tvmrt_row_reader* reader, int64_t output_row) {
  const tvmrt_window* w = &job->layer->window;
  const tvmrt_row_position at = tvmrt_locate_row(w, output_row);
  const int64_t pixel = output_row * w->out[2];
  tvmrt_depthwise_f32_rows rows;
  rows.layer = job->layer;
  rows.data = job->data;
  rows.row_count = 0;
  rows.continues = 0;
  for (int kd = 0; kd < w->kernel[0]; kd++) {
    for (int kh = 0; kh < w->kernel[1]; kh++) {
      const float* row = (const float*)(const void*)tvmrt_read_row(
          reader, at.image, at.d + kd * w->dilation[0], at.h + kh * w->dilation[1]);
      if (!row) continue;
      if (rows.row_count == TVMRT_DEPTHWISE_ROWS) tvmrt_depthwise_f32_row(job, &rows, pixel, 0);
      rows.row[rows.row_count].x = row;
      rows.row[rows.row_count++].tap = ((int64_t)kd * w->kernel[1] + kh) * w->kernel[2];
    }
  }
  tvmrt_depthwise_f32_row(job, &rows, pixel, 1);
}

/* Alignment of channel offsets into weights and results: a multiple of any processor's vector. */
enum { TVMRT_DEPTHWISE_UNIT = 16 };

/* Rows [begin, end) of channels [c_begin, c_end); c_begin starts a unit. */
TVMRT_SHARED void tvmrt_depthwise_f32_part(const tvmrt_depthwise_f32_job* whole, int c_begin,
                                           int c_end, int64_t begin, int64_t end) {
  tvmrt_layer_f32 layer = *whole->layer;
  tvmrt_data_f32 data = *whole->data;
  const tvmrt_depthwise_f32_job job = {&layer, whole->tile, &data, c_begin};
  tvmrt_row_reader reader;
  layer.out_channels = c_end - c_begin;
  data.x += c_begin;
  data.w += (int64_t)c_begin * layer.weights;
  data.y += c_begin;
  if (data.bias) data.bias += c_begin;
  if (data.residual) data.residual += c_begin;
  tvmrt_row_reader_init(&reader, &layer.window, &layer.rows, data.x, NULL);
  for (int64_t r = begin; r < end; r++) tvmrt_depthwise_f32_window(&job, &reader, r);
}

/* Tasks divide rows, which are contiguous in memory, or channels if there are few rows. */
static inline int tvmrt_depthwise_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_depthwise_f32_job* job = (const tvmrt_depthwise_f32_job*)closure;
  const int channels = job->layer->out_channels, unit = TVMRT_DEPTHWISE_UNIT, n = env->num_task;
  const int64_t rows = tvmrt_window_rows(&job->layer->window);
  const float by_channels = tvmrt_task_imbalance((channels + unit - 1) / unit, n);
  const float by_rows = tvmrt_task_imbalance(rows, n);
  if (n > 1 && by_channels + TVMRT_OWN_ROWS_FIRST < by_rows) {
    tvmrt_depthwise_f32_part(job, (int)tvmrt_task_begin(channels, unit, task, n),
                             (int)tvmrt_task_begin(channels, unit, task + 1, n), 0, rows);
  } else {
    tvmrt_depthwise_f32_part(job, 0, channels, tvmrt_task_begin(rows, 1, task, n),
                             tvmrt_task_begin(rows, 1, task + 1, n));
  }
  return 0;
}

/*! \brief Channels [c_begin, c_end) of a layer, on this thread; c_begin starts a unit. */
static inline int tvmrt_depthwise_f32_channels(const tvmrt_layer_f32* layer,
                                               const tvmrt_depthwise_f32_tile* tile,
                                               const tvmrt_data_f32* data, int c_begin, int c_end) {
  const tvmrt_depthwise_f32_job job = {layer, tile, data, 0};
  tvmrt_depthwise_f32_part(&job, c_begin, c_end, 0, tvmrt_window_rows(&layer->window));
  return 0;
}

/*!
 * \brief y = clamp(depthwise convolution(x, w) + bias + residual), then the epilogue.
 * \param layer The layer; its rows are read in place, from column 0 on.
 * \param tile The instance; a fixed one must match the layer's kernel width and stride, with
 * dilation 1.
 * \param data The tensors; weights and bias are packed as the head of this file describes.
 * \return 0; -1 if a thread failed.
 *
 * Needs no scratch memory. The result does not depend on the number of threads.
 */
static inline int tvmrt_depthwise_f32(const tvmrt_layer_f32* layer,
                                      const tvmrt_depthwise_f32_tile* tile,
                                      const tvmrt_data_f32* data) {
  tvmrt_depthwise_f32_job job = {layer, tile, data, 0};
  return tvmrt_launch(tvmrt_depthwise_f32_task, &job, layer->work, TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_DEPTHWISE_F32_H_ */
