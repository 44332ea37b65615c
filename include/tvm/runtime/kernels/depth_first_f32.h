/*!
 * \file depth_first_f32.h
 * \brief Depth-first execution of chains of float layers, some rows at a time, so that intermediate
 * results stay in the cache.
 *
 * Layers are convolutions, pooling and channel-wise scaling. A strip is a range of rows or pixels
 * of the last layer's result. Each task has a range of strips and computes, layer by layer, the
 * input of the next strip. Of each layer inside the chain it keeps the pixels that are read again,
 * always from the start of their buffer. Layers advance by whole units: rows, or tiles of pixels if
 * an image is one long row (1x1 convolutions). So every pixel is computed by the same tile as
 * without a chain, and the result is bit-identical.
 *
 * Example: 1x1 from 16 to 96 channels, then 3x3 depthwise, stride 1, 56 x 56 pixels, strips of 4
 * rows: a strip reads 6 rows of 96 channels; 2 were kept, 4 are computed.
 */
#ifndef TVM_RUNTIME_KERNELS_DEPTH_FIRST_F32_H_
#define TVM_RUNTIME_KERNELS_DEPTH_FIRST_F32_H_

#include <string.h>

#include "conv_f32.h"
#include "depthwise_f32.h"
#include "work_partition.h"

/* Maximum layers of a chain, whose states a task has on its stack. */
#ifndef TVMRT_DEPTH_FIRST_LAYERS
#define TVMRT_DEPTH_FIRST_LAYERS 8
#endif

struct tvmrt_pool_layer;

/*! \brief Pool rows of an image, or scale its channels, on this thread: the windows of `part` in
 * channels [c_begin, c_end); `pad_end_rows` rows of the image follow those that it reads. */
typedef void (*tvmrt_depth_first_kernel_fn)(const struct tvmrt_pool_layer* pool,
                                            const tvmrt_layer_f32* part, int32_t pad_end_rows,
                                            const tvmrt_data_f32* data, int c_begin, int c_end);

/*! \brief Kernel of a chain's layer that is not a convolution. */
typedef struct tvmrt_depth_first_kernel_f32 {
  /*! \brief Its windows are those of the chain's layer; NULL for channel-wise scaling. */
  const struct tvmrt_pool_layer* pool;
  /*! \brief tvmrt_pool_f32_some_rows() or tvmrt_scale_f32_rows(), included on demand. */
  tvmrt_depth_first_kernel_fn run;
} tvmrt_depth_first_kernel_f32;

/*! \brief A layer of a chain, for one image; it reads the previous layer's output. */
typedef struct tvmrt_depth_first_layer_f32 {
  const tvmrt_layer_f32* layer;
  const tvmrt_tiles_f32* tiles;               /*!< For a dense layer, else NULL. */
  const tvmrt_depthwise_f32_tile* depthwise;  /*!< For a depthwise layer, else NULL. */
  const tvmrt_depth_first_kernel_f32* kernel; /*!< For pooling and scaling, else NULL. */
  /*! \brief Only the first layer has x, only the last has y and residual; an epilogue must not
   * depend on the pixel. */
  const tvmrt_data_f32* data;
  int64_t place; /*!< Offset of its result in the scratch in floats; 0 for the last layer. */
} tvmrt_depth_first_layer_f32;

/*! \brief A chain. */
typedef struct tvmrt_depth_first_chain_f32 {
  const tvmrt_depth_first_layer_f32* layers;
  int32_t count;   /*!< Number of layers, 2 to TVMRT_DEPTH_FIRST_LAYERS. */
  int64_t pixels;  /*!< Pixels of the result per strip: a multiple of the last layer's unit. */
  int64_t scratch; /*!< Scratch bytes of a task. */
} tvmrt_depth_first_chain_f32;

/*! \brief The channels that a task computes in all layers; end is 0 for all channels. */
typedef struct tvmrt_channel_range {
  int begin, end;
} tvmrt_channel_range;

/*! \brief A task's progress in a layer: pixels [first, end) of its result are in the scratch. */
typedef struct tvmrt_depth_first_progress {
  int64_t first, end;
} tvmrt_depth_first_progress;

/*! \brief Pixels of a layer's result. */
static inline int64_t tvmrt_depth_first_pixels(const tvmrt_depth_first_layer_f32* l) {
  return (int64_t)l->layer->window.out[1] * l->layer->window.out[2];
}

/*! \brief Pixels that are computed together: a row; for one long row a tile, or one. */
static inline int64_t tvmrt_depth_first_row_pixels(const tvmrt_depth_first_layer_f32* l) {
  if (l->layer->window.out[1] > 1) return l->layer->window.out[2];
  return l->tiles ? l->tiles->width[0] : 1;
}

/* Input row `row`, clamped to the image. */
static inline int64_t tvmrt_clamp_input_row(const tvmrt_window* w, int64_t row) {
  return row < 0 ? 0 : row < w->in[1] ? row : w->in[1];
}

/*! \brief The first input pixel needed for the result from pixel `pixel` on. */
static inline int64_t tvmrt_depth_first_input_begin(const tvmrt_depth_first_layer_f32* l,
                                                    int64_t pixel) {
  const tvmrt_window* w = &l->layer->window;
  if (w->out[1] == 1) return pixel;
  return tvmrt_clamp_input_row(w, pixel / w->out[2] * w->stride[1] - w->pad[1]) * w->in[2];
}

/*! \brief End of the input pixels needed for the result before `end`. */
static inline int64_t tvmrt_depth_first_input_end(const tvmrt_depth_first_layer_f32* l,
                                                  int64_t end) {
  const tvmrt_window* w = &l->layer->window;
  if (w->out[1] == 1) return end;
  const int64_t last = (end / w->out[2] - 1) * w->stride[1] - w->pad[1];
  const int64_t row = last + (int64_t)(w->kernel[1] - 1) * w->dilation[1] + 1;
  return tvmrt_clamp_input_row(w, row) * w->in[2];
}

/*! \brief Compute pixels [begin, end) of a layer's result, on this thread, into y. `x` is pixel
 * `x_first` of its input. */
static inline int tvmrt_depth_first_run_layer(const tvmrt_depth_first_layer_f32* l,
                                              tvmrt_channel_range range, int64_t begin, int64_t end,
                                              const float* x, int64_t x_first, float* y) {
  tvmrt_layer_f32 part = *l->layer;
  tvmrt_window* w = &part.window;
  const int64_t rows = w->in[1];
  int64_t below = rows;
  tvmrt_data_f32 data = *l->data;
  if (w->out[1] == 1) {
    w->in[2] = w->out[2] = (int32_t)(end - begin);
    data.x = x + (begin - x_first) * w->x_stride;
  } else {
    const int64_t top = begin / w->out[2] * w->stride[1] - w->pad[1];
    const int64_t row = tvmrt_clamp_input_row(w, top);
    below = tvmrt_depth_first_input_end(l, end) / w->in[2];
    data.x = x + (row * w->in[2] - x_first) * w->x_stride;
    w->in[1] = below > row ? (int32_t)(below - row) : 0;
    w->pad[1] = (int32_t)(row - top);
    w->out[1] = (int32_t)((end - begin) / w->out[2]);
  }
  if (data.residual) data.residual += begin * part.residual_stride;
  data.y = y;
  part.work = 0;
  /* prefetch pixels of the image before a chain, as calls with named channels do; for input in a
   * task's own scratch prefetch the next weights instead */
  if (l->tiles && range.end == 0 && (part.groups != 1 || !l->data->x)) {
    return tvmrt_conv_f32(&part, l->tiles, &data);
  }
  if (range.end == 0) range.end = part.out_channels;
  if (l->tiles) return tvmrt_conv_f32_channels(&part, l->tiles, &data, range.begin, range.end);
  if (l->kernel) {
    l->kernel->run(l->kernel->pool, &part, (int32_t)(rows - below), &data, range.begin, range.end);
    return 0;
  }
  return tvmrt_depthwise_f32_channels(&part, l->depthwise, &data, range.begin, range.end);
}

/* Discard pixels of layer k's result that are not read again, and move the others to the start of
 * its buffer. */
static inline void tvmrt_depth_first_f32_drop_pixels(const tvmrt_depth_first_chain_f32* s,
                                                     tvmrt_depth_first_progress* at, int k,
                                                     float* place) {
  const int64_t pixel = s->layers[k].layer->window.y_stride;
  const int64_t read = tvmrt_depth_first_input_begin(&s->layers[k + 1], at[k + 1].end);
  const int64_t kept = read < at[k].end ? read : at[k].end;
  if (kept <= at[k].first) return;
  memmove(place, place + (kept - at[k].first) * pixel,
          (size_t)((at[k].end - kept) * pixel) * sizeof(*place));
  at[k].first = kept;
}

/* Compute the pixels of the result before `end`, those of a strip. */
static inline int tvmrt_depth_first_f32_run_strip(const tvmrt_depth_first_chain_f32* s,
                                                  tvmrt_channel_range range,
                                                  tvmrt_depth_first_progress* at, int64_t end,
                                                  float* scratch) {
  int64_t ends[TVMRT_DEPTH_FIRST_LAYERS];
  const int last = s->count - 1;
  int rc = 0;
  ends[last] = end;
  for (int k = last - 1; k >= 0; k--) {
    const int64_t unit = tvmrt_depth_first_row_pixels(&s->layers[k]),
                  pixels = tvmrt_depth_first_pixels(&s->layers[k]);
    const int64_t read = tvmrt_depth_first_input_end(&s->layers[k + 1], ends[k + 1]);
    const int64_t whole = (read + unit - 1) / unit * unit;
    ends[k] = whole < pixels ? whole : pixels;
  }
  for (int k = 0; k <= last && rc == 0; k++) {
    const tvmrt_depth_first_layer_f32* l = &s->layers[k];
    const float* x = k > 0 ? scratch + l[-1].place : l->data->x;
    float* y = scratch + l->place;
    if (ends[k] <= at[k].end) continue;
    if (k == last) {
      y = l->data->y + at[k].end * l->layer->window.y_stride;
    } else {
      tvmrt_depth_first_f32_drop_pixels(s, at, k, y);
      y += (at[k].end - at[k].first) * l->layer->window.y_stride;
    }
    rc = tvmrt_depth_first_run_layer(l, range, at[k].end, ends[k], x, k > 0 ? at[k - 1].first : 0,
                                     y);
    at[k].end = ends[k];
  }
  return rc;
}

/* Set a task's start in each layer if its part of the result begins with pixel `begin`. */
static inline void tvmrt_depth_first_f32_begin(const tvmrt_depth_first_chain_f32* s, int64_t begin,
                                               tvmrt_depth_first_progress* at) {
  const int last = s->count - 1;
  at[last].first = at[last].end = begin;
  for (int k = last - 1; k >= 0; k--) {
    const int64_t read = tvmrt_depth_first_input_begin(&s->layers[k + 1], at[k + 1].end);
    at[k].first = at[k].end = read - read % tvmrt_depth_first_row_pixels(&s->layers[k]);
  }
}

/* Unit of channels that tasks may divide in all layers: whole blocks and vectors; 0 if a layer
 * after the first one reads other channels than its own. */
static inline int tvmrt_depth_first_f32_channel_block(const tvmrt_depth_first_chain_f32* s) {
  const tvmrt_depth_first_layer_f32* l = s->layers;
  const int block = l->tiles ? (int)l->tiles->block : (int)TVMRT_DEPTHWISE_UNIT;
  int unit = block;
  if (l->layer->groups != 1) return 0;
  for (int k = 1; k < s->count; k++) {
    if (l[k].tiles) return 0;
  }
  while (unit % TVMRT_DEPTHWISE_UNIT) unit += block;
  return unit;
}

/* Relative time of a task in the middle if tasks divide pixels and compute halos. */
static inline float tvmrt_depth_first_f32_halo_cost(const tvmrt_depth_first_chain_f32* s,
                                                    int num_task) {
  const tvmrt_depth_first_layer_f32* l = &s->layers[s->count - 1];
  const int64_t pixels = tvmrt_depth_first_pixels(l), unit = tvmrt_depth_first_row_pixels(l);
  int64_t end = tvmrt_task_begin(pixels, unit, num_task / 2 + 1, num_task);
  float largest = 0.0f, all = 0.0f;
  tvmrt_depth_first_progress at[TVMRT_DEPTH_FIRST_LAYERS];
  tvmrt_depth_first_f32_begin(s, tvmrt_task_begin(pixels, unit, num_task / 2, num_task), at);
  for (int k = s->count - 1; k >= 0; k--) {
    const float work = (float)s->layers[k].layer->work;
    all += work;
    largest += work * (float)(end - at[k].end) / (float)tvmrt_depth_first_pixels(&s->layers[k]);
    end = tvmrt_depth_first_input_end(&s->layers[k], end);
  }
  return all > 0.0f ? largest / all * (float)num_task : 1.0f;
}

/* Whether tasks divide units of channels, because by rows several tasks would compute the same
 * rows. A unit at the boundary of two tasks may be divided by rows, `*cut`, if that is more even:
 * both compute the halo of their rows, and one has half a row more. */
static inline int tvmrt_depth_first_f32_splits_channels(const tvmrt_depth_first_chain_f32* s,
                                                        int unit, int num_task, int* cut) {
  const tvmrt_layer_f32* first = s->layers[0].layer;
  const tvmrt_depth_first_layer_f32* last = &s->layers[s->count - 1];
  const tvmrt_window* w = &first->window;
  const float in = (float)w->in[1] * (float)w->in[2] * (float)first->in_channels;
  if (unit == 0 || num_task == 1) return 0;
  const int units = (first->out_channels + unit - 1) / unit;
  const float rows =
      (float)tvmrt_depth_first_pixels(last) / (float)tvmrt_depth_first_row_pixels(last);
  const float around = tvmrt_depth_first_f32_halo_cost(s, num_task);
  const float more = around - 1.0f + 0.5f * (float)num_task / rows;
  const float whole = tvmrt_task_imbalance(units, num_task), part = 1.0f + more / (float)units;
  const float outputs = (float)tvmrt_depth_first_pixels(&s->layers[0]);
  /* a depthwise layer has separate input channels */
  const float products = s->layers[0].tiles ? (float)first->work / in : INFINITY;
  *cut = part < whole;
  return tvmrt_splits_channels(*cut ? part : whole, around, products, outputs, num_task);
}

/* Granularity in pixels of the tasks' parts: units; or single pixels of one long row. Single
 * pixels balance the work of few units; the layer's tiles must be able to compute any number of
 * pixels. */
static inline int64_t tvmrt_depth_first_f32_granularity(const tvmrt_depth_first_layer_f32* last,
                                                        int num_task) {
  const int64_t unit = tvmrt_depth_first_row_pixels(last),
                units = (tvmrt_depth_first_pixels(last) + unit - 1) / unit;
  if (last->layer->window.out[1] > 1) return unit;
  if (last->tiles && !tvmrt_covers_any_f32(last->tiles)) return unit;
  return tvmrt_task_imbalance(units, num_task) > 1.25f ? 1 : unit;
}

/* Pixels [begin, stop) of the result in some channels. */
TVMRT_SHARED int tvmrt_depth_first_f32_run_range(const tvmrt_depth_first_chain_f32* s,
                                                 tvmrt_channel_range range, int64_t begin,
                                                 int64_t stop, float* scratch) {
  tvmrt_depth_first_progress at[TVMRT_DEPTH_FIRST_LAYERS];
  int rc = 0;
  tvmrt_depth_first_f32_begin(s, begin, at);
  for (int64_t end = begin; end < stop && rc == 0;) {
    end = stop - end < s->pixels ? stop : end + s->pixels;
    rc = tvmrt_depth_first_f32_run_strip(s, range, at, end, scratch);
  }
  return rc;
}

/* A task's units of channels: whole ones together, and its pixels of divided ones. */
static inline int tvmrt_depth_first_f32_run_units(const tvmrt_depth_first_chain_f32* s,
                                                  const tvmrt_work_part* share, int unit,
                                                  float* scratch) {
  const int channels = s->layers[0].layer->out_channels;
  int rc = 0;
  for (int64_t u = share->begin.unit, next = u; u < tvmrt_work_part_end(share) && rc == 0;
       u = next) {
    const int64_t first = tvmrt_work_first_row(share, u), last = tvmrt_work_end_row(share, u);
    next = first > 0 || u >= share->end.unit ? u + 1 : share->end.unit;
    const int64_t end = next * unit < channels ? next * unit : channels;
    const tvmrt_channel_range range = {(int)(u * unit), (int)end};
    rc = tvmrt_depth_first_f32_run_range(s, range, first, last, scratch);
  }
  return rc;
}

static inline int tvmrt_depth_first_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_depth_first_chain_f32* s = (const tvmrt_depth_first_chain_f32*)closure;
  const tvmrt_depth_first_layer_f32* last = &s->layers[s->count - 1];
  const int64_t pixels = tvmrt_depth_first_pixels(last);
  const int unit = tvmrt_depth_first_f32_channel_block(s),
            channels = s->layers[0].layer->out_channels;
  const tvmrt_channel_range all = {0, 0};
  int cut = 0, rc = 0;
  const int by_channels = tvmrt_depth_first_f32_splits_channels(s, unit, env->num_task, &cut);
  const int64_t width = by_channels && !cut ? pixels
                        : by_channels       ? tvmrt_depth_first_row_pixels(last)
                                      : tvmrt_depth_first_f32_granularity(last, env->num_task);
  const tvmrt_work_part share =
      by_channels ? tvmrt_split_units(1, channels, unit, pixels, width, task, env->num_task)
                  : tvmrt_split_rows(1, pixels, width, task, env->num_task);
  if (tvmrt_work_part_is_empty(&share)) return 0;
  float* scratch = (float*)tvmrt_scratch_alloc(s->scratch);
  if (!scratch) return -1;
  rc = by_channels ? tvmrt_depth_first_f32_run_units(s, &share, unit, scratch)
                   : tvmrt_depth_first_f32_run_range(s, all, share.first, share.last, scratch);
  if (tvmrt_scratch_free(scratch) != 0) rc = -1;
  return rc;
}

/*!
 * \brief Compute the result of the last layer, bit-identical to separate layers: see
 * tvmrt_conv_f32(), tvmrt_depthwise_f32() and tvmrt_pool_f32().
 * \param chain The chain. Each task computes the halo rows above and below its range itself. If
 * these are many, and no layer after the first reads other channels than its own, tasks divide
 * channels. Intermediate results are written nowhere else.
 * \return 0; -1 if scratch memory runs out or a thread failed.
 *
 * Uses the threads of the runtime if the chain is large enough. The result does not depend on their
 * number.
 */
static inline int tvmrt_depth_first_f32(const tvmrt_depth_first_chain_f32* chain) {
  tvmrt_depth_first_chain_f32 job = *chain;
  int64_t work = 0;
  for (int k = 0; k < job.count; k++) work += job.layers[k].layer->work;
  return tvmrt_launch(tvmrt_depth_first_f32_task, &job, work, TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_DEPTH_FIRST_F32_H_ */
