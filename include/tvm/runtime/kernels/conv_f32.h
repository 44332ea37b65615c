/*!
 * \file conv_f32.h
 * \brief Convolution in float32 over channels-last memory, 1 to 3 dimensions, any stride, dilation,
 * padding and groups.
 *
 * Register tiles cover the rows of the output; layer_f32.h describes the memory layout. Worked
 * example: 64 channels in and out, 3x3, V = 16, NR = 2: 2 blocks of 3 * 3 * 64 * 32 floats; the
 * weight of output channel 40, input channel 5, row 1, column 2 has index 1 * 18432 + ((1 * 3 + 2)
 * * 64 + 5) * 32 + 8.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_F32_H_
#define TVM_RUNTIME_KERNELS_CONV_F32_H_

#include "layer_f32.h"

/* Kernel columns of a row whose segments follow each other. Column by column, columns that only cover
 * padding can be omitted; boards compute row by row. */
#if defined(TVMRT_FIXED_ORDER)
#define TVMRT_COLUMNS_TOGETHER(columns) (columns)
#else
#define TVMRT_COLUMNS_TOGETHER(columns) 1
#endif

/* Set the input segments under kernel columns [first, end), without rows outside the input. `x` is
 * the pixel, as rows are read, under column 0 of the kernel. */
TVMRT_INLINE void tvmrt_conv_f32_row_segments(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                              tvmrt_rows_f32* r, int64_t output_row, int first,
                                              int end, int64_t x, tvmrt_tile_f32* tile) {
  const tvmrt_window* window = &job->layer->window;
  const tvmrt_row_plan* rows = &job->layer->rows;
  const tvmrt_row_position at = tvmrt_locate_row(window, output_row);
  const int32_t channels = job->layer->in_channels;
  const int packed = tvmrt_packed_f32(job);
  int count = 0;
  for (int column = first, next; column < end; column = next) {
    next = column + TVMRT_COLUMNS_TOGETHER(end - first);
    for (int kd = 0; kd < window->kernel[0]; kd++) {
      for (int kh = 0; kh < window->kernel[1]; kh++) {
        const int32_t d = at.d + kd * window->dilation[0], h = at.h + kh * window->dilation[1];
        const float* row =
            (const float*)(const void*)tvmrt_read_row_by(copy, &r->reader, at.image, d, h);
        if (!row) continue;
        const int64_t k = (int64_t)(kd * window->kernel[1] + kh) * window->kernel[2] * channels;
        for (int tap = column; tap < next; tap++) {
          const int64_t pixel = x + (int64_t)tap * window->dilation[2];
          r->segments[count].x = row + pixel * rows->x_pixel;
          r->segments[count++].w = (k + (int64_t)tap * channels) * packed;
        }
      }
    }
  }
  tile->segment_count = count;
}

/* Number of `taps` kernel columns, dilation[2] apart, that are before input column 0 if the first
 * is at column x. */
static inline int tvmrt_taps_before(const tvmrt_window* window, int64_t x, int taps) {
  const int64_t step = window->dilation[2], count = x < 0 ? (-x + step - 1) / step : 0;
  return count < taps ? (int)count : taps;
}

/* Pixels [begin, end) of a row, one tile at a time, without kernel columns that only cover padding:
 * with a large dilation these are many. */
static inline int tvmrt_conv_f32_tiles(const tvmrt_job_f32* job, const tvmrt_rows_f32* r,
                                       tvmrt_tile_row_f32_args* row, int64_t begin, int64_t end,
                                       int c_begin, int c_end) {
  const tvmrt_window* window = &job->layer->window;
  const int taps = job->layer->rows.taps;
  const int64_t width = job->tiles->width[0], stride = window->stride[2];
  const int64_t each = row->tile.segment_count / taps;
  int rc = 0;
  for (int64_t t = begin; t < end && rc == 0; t += width) {
    const int64_t stop = end - t < width ? end : t + width;
    const int64_t first = t * stride - window->pad[2], last = (stop - 1) * stride - window->pad[2];
    const int before = tvmrt_taps_before(window, last, taps);
    const int inside = tvmrt_taps_before(window, first - window->in[2], taps);
    row->tile.segments = r->segments + before * each;
    row->tile.segment_count = inside > before ? (inside - before) * each : 0;
    rc = tvmrt_tile_row_f32(row, t, stop, c_begin, c_end);
  }
  row->tile.segments = r->segments;
  return rc;
}

/* End of the run of pixels from t on that all use kernel columns [*first, *end). */
static inline int64_t tvmrt_conv_run(const tvmrt_window* window, int64_t t, int taps, int* first,
                                     int* end) {
  const int64_t stride = window->stride[2], spacing = window->dilation[2];
  const int64_t x = t * stride - window->pad[2];
  int64_t stop = window->out[2];
  *first = tvmrt_taps_before(window, x, taps);
  *end = tvmrt_taps_before(window, x - window->in[2], taps);
  if (*first > 0) { /* the last kernel column in the left padding before the row enters it */
    const int64_t enters = t + (-(x + (*first - 1) * spacing) + stride - 1) / stride;
    if (enters < stop) stop = enters;
  }
  if (*end > 0) { /* the last kernel column before the right padding leaves it */
    const int64_t leaves = t + (window->in[2] - (x + (*end - 1) * spacing) + stride - 1) / stride;
    if (leaves < stop) stop = leaves;
  }
  return stop;
}

/* Output row `output_row` run by run, each as a separate row. */
TVMRT_INLINE int tvmrt_conv_f32_runs(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                     tvmrt_rows_f32* r, int64_t output_row,
                                     tvmrt_tile_row_f32_args* row, int c_begin, int c_end) {
  const tvmrt_window* window = &job->layer->window;
  const tvmrt_row_plan* rows = &job->layer->rows;
  int rc = 0, first = 0, end = 0;
  for (int64_t t = 0, stop = 0; t < window->out[2] && rc == 0; t = stop) {
    const int64_t x = t * window->stride[2] - window->pad[2] + rows->left - rows->skip;
    stop = tvmrt_conv_run(window, t, rows->taps, &first, &end);
    tvmrt_conv_f32_row_segments(copy, job, r, output_row, first, end, x, &row->tile);
    tvmrt_row_f32_set_pixel(job, output_row * window->out[2] + t, row);
    rc = tvmrt_tile_row_f32(row, 0, stop - t, c_begin, c_end);
  }
  return rc;
}

/*! \brief A part of the output: rows of all images, pixels of each row. */
typedef struct tvmrt_conv_f32_part {
  int64_t row_begin, row_end;
  int64_t pixel_begin, pixel_end;
  int next_weights; /* channels of the group that follow those of the part, or 0 */
} tvmrt_conv_f32_part;

/* Compute channels [c_begin, c_end) of a group, for the rows and pixels of a part. */
typedef int (*tvmrt_conv_rows_fn)(const tvmrt_job_f32* job, tvmrt_rows_f32* rows, int group,
                                  const tvmrt_conv_f32_part* part, int c_begin, int c_end);

/* Prefetch part `part` of `parts` of the next group's weights: tiles of one vector do not, and
 * the hardware prefetcher stops at the end of a page. Large weights would arrive too early. */
static inline void tvmrt_conv_f32_prefetch_group(const tvmrt_job_f32* job, int group, int64_t part,
                                                 int64_t parts,
                                                 const tvmrt_tile_row_f32_args* row) {
#if !defined(TVMRT_NO_PREFETCH) && TVMRT_SIMD_LANES_F32 > 1
  enum { kMax = 128 }; /* cache lines */
  const int64_t bytes = row->w_block * (int64_t)sizeof(float);
  const uintptr_t from = (uintptr_t)row->w + (uintptr_t)bytes;
  const int alone = job->layer->out_channels <= row->packed;
  if (!alone || group + 1 >= job->layer->groups || bytes > (int64_t)kMax * TVMRT_LINE_BYTES) return;
  for (int64_t i = bytes * part / parts; i < bytes * (part + 1) / parts; i += TVMRT_LINE_BYTES) {
    TVMRT_PREFETCH(from + (uintptr_t)i);
  }
#else
  (void)job, (void)group, (void)part, (void)parts, (void)row;
#endif
}

/* Make the tiles of a part prefetch the weights of the following channels. */
static inline void tvmrt_conv_f32_set_prefetch(const tvmrt_job_f32* job,
                                               const tvmrt_conv_f32_part* part, int c_begin,
                                               int c_end, tvmrt_tile_row_f32_args* row) {
  const int64_t pixels = part->pixel_end - part->pixel_begin;
  const int64_t tile_calls =
      tvmrt_tile_count_f32(job->tiles, pixels) * (part->row_end - part->row_begin);
  const int64_t tiles = tile_calls * ((c_end - c_begin) / job->tiles->block);
  const float* w = row->w + (int64_t)(c_end / row->packed) * row->w_block;
  tvmrt_set_prefetch_f32(&row->tile, w, (int64_t)part->next_weights * job->layer->weights,
                         tiles * job->layer->weights);
}

/* Whether tasks divide the pixels of the one long row of a 1x1 convolution (without runs). */
static inline int tvmrt_conv_f32_splits_pixels(const tvmrt_layer_f32* layer) {
  return tvmrt_window_rows(&layer->window) == 1 && !layer->rows.runs;
}

/* Whether tiles of a row prefetch pixels: there is nothing else to prefetch, and pixels are
 * contiguous. */
static inline int tvmrt_conv_f32_prefetches_pixels(const tvmrt_job_f32* job,
                                                   const tvmrt_conv_f32_part* part,
                                                   const tvmrt_tile_f32* tile) {
  if (TVMRT_SIMD_LANES_F32 == 1 || part->next_weights > 0 || job->tiles->pairs) return 0;
  if (tile->segment_count != 1 || tile->run != tile->x_stride) return 0;
  return job->tiles->width[0] > 0 && tvmrt_conv_f32_splits_pixels(job->layer);
}

/* The pixels of a part in a row. Tiles prefetch the next pixels: where tasks divide channels, other
 * threads have written half of the pixels. */
static inline int tvmrt_conv_f32_pixels(const tvmrt_job_f32* job, const tvmrt_conv_f32_part* part,
                                        tvmrt_tile_row_f32_args* row, int c_begin, int c_end) {
  const int64_t width = job->tiles->width[0], block = job->tiles->block, end = part->pixel_end;
  const int64_t steps = (c_end - c_begin + block - 1) / block * row->tile.run;
  int rc = 0;
  if (!tvmrt_conv_f32_prefetches_pixels(job, part, &row->tile)) {
    return tvmrt_tile_row_f32(row, part->pixel_begin, end, c_begin, c_end);
  }
  for (int64_t t = part->pixel_begin, stop = t; t < end && rc == 0; t = stop) {
    const int is_tail = end - t < width || tvmrt_is_last_f32(job->tiles, end - t);
    stop = is_tail ? end : t + width;
    const int64_t next = end - stop < width ? end - stop : width;
    tvmrt_set_prefetch_f32(&row->tile, row->tile.segments[0].x + stop * row->tile.x_stride,
                           next * row->tile.x_stride, steps);
    rc = tvmrt_tile_row_f32(row, t, stop, c_begin, c_end);
  }
  return rc;
}

TVMRT_INLINE int tvmrt_conv_rows_by(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                    tvmrt_rows_f32* rows, int group,
                                    const tvmrt_conv_f32_part* part, int c_begin, int c_end) {
  const tvmrt_row_plan* plan = &job->layer->rows;
  const int spacing = TVMRT_COLUMNS_TOGETHER(plan->taps) < plan->taps &&
                      plan->source == TVMRT_SOURCE_LINE_BUFFER && job->tiles->width[0] > 0;
  tvmrt_tile_row_f32_args row;
  tvmrt_row_f32_init(job, rows, group, &row);
  if (part->next_weights > 0) tvmrt_conv_f32_set_prefetch(job, part, c_begin, c_end, &row);
  for (int64_t r = part->row_begin; r < part->row_end; r++) {
    int rc = 0;
    tvmrt_row_f32_set_prefetch(job, c_begin, c_end, r - part->row_begin,
                               part->row_end - part->row_begin, &row);
    tvmrt_conv_f32_prefetch_group(job, group, r - part->row_begin, part->row_end - part->row_begin,
                                  &row);
    if (plan->runs) {
      rc = tvmrt_conv_f32_runs(copy, job, rows, r, &row, c_begin, c_end);
    } else {
      tvmrt_conv_f32_row_segments(copy, job, rows, r, 0, plan->taps, 0, &row.tile);
      tvmrt_row_f32_set_pixel(job, r * job->layer->window.out[2], &row);
      rc = spacing ? tvmrt_conv_f32_tiles(job, rows, &row, part->pixel_begin, part->pixel_end,
                                          c_begin, c_end)
                   : tvmrt_conv_f32_pixels(job, part, &row, c_begin, c_end);
    }
    if (rc != 0) return -1;
  }
  return 0;
}

TVMRT_SHARED int tvmrt_conv_f32_rows(const tvmrt_job_f32* job, tvmrt_rows_f32* rows, int group,
                                     const tvmrt_conv_f32_part* part, int c_begin, int c_end) {
  return tvmrt_conv_rows_by(tvmrt_copy_pixels, job, rows, group, part, c_begin, c_end);
}

/* Maximum pixels of an input for which a layer without windows is divided by channels like its
 * producer. */
#define TVMRT_FEW_PIXELS 64

/* Whether tasks divide a layer's channels, given its units of rows and tiles of those. A remainder
 * is distributed in both cases. Tasks that divide many groups only read their own channels, as in
 * depthwise layers; if there are few pixels, they have written these themselves. */
static inline int tvmrt_conv_f32_splits_channels(const tvmrt_layer_f32* layer, int64_t units,
                                                 int64_t tiles, int num_task) {
  const float evenly = tvmrt_task_imbalance(units * tiles, num_task);
  const tvmrt_window* w = &layer->window;
  const float in = (float)((int64_t)w->batch * w->in[0] * w->in[1]) * (float)w->in[2];
  if (layer->groups >= 4 * num_task) {
    return in <= TVMRT_FEW_PIXELS &&
           evenly + TVMRT_OWN_ROWS_FIRST < tvmrt_task_imbalance(tiles, num_task);
  }
  const float out = (float)tvmrt_window_rows(w) * (float)w->out[2];
  const float products = out * (float)layer->weights * (float)layer->out_channels;
  return tvmrt_splits_channels(evenly, evenly, products / (in * (float)layer->in_channels), out,
                               num_task);
}

/* Part of a task: blocks of channels of all groups divided by rows, or by pixels for the one long
 * row of a 1x1 convolution. Few rows (the last layers of a network) are divided by channels, which
 * also reads each weight only once. */
static inline tvmrt_work_part tvmrt_conv_f32_work_part(const tvmrt_job_f32* job, int task,
                                                       int num_task) {
  const tvmrt_layer_f32* layer = job->layer;
  const int block = job->tiles->block, groups = layer->groups;
  const int pixels = tvmrt_conv_f32_splits_pixels(layer);
  const int64_t whole = pixels ? layer->window.out[2] : tvmrt_window_rows(&layer->window);
  const int64_t rows = pixels ? tvmrt_pixels_to_cut_f32(job->tiles, whole) : whole;
  const int64_t width = pixels && job->tiles->width[0] > 0 ? job->tiles->width[0] : 1;
  const int64_t units = (int64_t)groups * ((layer->out_channels + block - 1) / block);
  if (num_task > 1 &&
      tvmrt_conv_f32_splits_channels(layer, units, (rows + width - 1) / width, num_task)) {
    /* a narrower last block takes as long as the others */
    return tvmrt_extend_rows(
        tvmrt_split_units(1, units * block, block, rows, width, task, num_task), rows, whole);
  }
  return tvmrt_extend_rows(tvmrt_split_rows_evenly(units, rows, width, task, num_task), rows,
                           whole);
}

/* Blocks of channels from unit `u` on that are computed together: as many as fit the cache. */
static inline int64_t tvmrt_conv_f32_block_count(const tvmrt_job_f32* job,
                                                 const tvmrt_work_part* share, int64_t blocks,
                                                 int64_t u) {
  const int64_t at_once = tvmrt_channels_at_once(job->tiles) / job->tiles->block;
  const int64_t group = blocks - u % blocks, whole = share->end.unit - u;
  int64_t count = at_once < group ? at_once : group;
  if (whole < count) count = whole;
  count = tvmrt_equal_units(share, u, count);
  return count > 1 && (u > share->begin.unit || share->begin.row == 0) ? count : 1;
}

/* Channels whose weights the tiles before unit `u` prefetch: those of the same group computed next.
 * After a layer's weights usually come the next layer's, which tasks that divide rows read from the
 * start. These tasks prefetch the same amount of them. */
static inline int tvmrt_conv_f32_next_channels(const tvmrt_job_f32* job,
                                               const tvmrt_work_part* share, int64_t blocks,
                                               int64_t u) {
  const int64_t units = blocks * job->layer->groups;
  if (u == units && share->begin.unit == 0 && share->end.unit == units) {
    const int64_t at_once = tvmrt_channels_at_once(job->tiles) / job->tiles->block;
    return (int)(at_once < blocks ? at_once : blocks) * job->tiles->block;
  }
  if (u >= tvmrt_work_part_end(share) || u % blocks == 0) return 0;
  return (int)tvmrt_conv_f32_block_count(job, share, blocks, u) * job->tiles->block;
}

/* Compute the part of a task; `floats` is the size of a group's part of a pixel of x. */
TVMRT_INLINE int tvmrt_conv_task_by(tvmrt_conv_rows_fn compute, const tvmrt_job_f32* job,
                                    int32_t floats, int task, int num_task) {
  const int32_t channels = job->layer->out_channels, block = job->tiles->block;
  const int by_pixels = tvmrt_conv_f32_splits_pixels(job->layer);
  const int64_t blocks = (channels + block - 1) / block;
  const tvmrt_work_part share = tvmrt_conv_f32_work_part(job, task, num_task);
  tvmrt_rows_f32 rows;
  int rc = 0;
  if (tvmrt_work_part_is_empty(&share)) return 0;
  if (tvmrt_rows_f32_begin(&rows, job) != 0) return -1;
  for (int64_t u = share.begin.unit; u < tvmrt_work_part_end(&share) && rc == 0;) {
    const int64_t count = tvmrt_conv_f32_block_count(job, &share, blocks, u);
    const int64_t first = tvmrt_work_first_row(&share, u), last = tvmrt_work_end_row(&share, u);
    const int64_t end = (u % blocks + count) * block;
    const int next_weights = tvmrt_conv_f32_next_channels(job, &share, blocks, u + count);
    const tvmrt_conv_f32_part span = {first, last, 0, job->layer->window.out[2], next_weights};
    const tvmrt_conv_f32_part pixels = {0, 1, first, last, next_weights};
    const int64_t from = u;
    u += count;
    if (first == last) continue;
    tvmrt_row_reader_select_channels(&rows.reader, job->data->x + from / blocks * floats);
    rc = compute(job, &rows, (int)(from / blocks), by_pixels ? &pixels : &span,
                 (int)(from % blocks) * block, end < channels ? (int)end : channels);
  }
  if (tvmrt_scratch_free(rows.scratch) != 0) rc = -1;
  return rc;
}

static inline int tvmrt_conv_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_job_f32* job = (const tvmrt_job_f32*)closure;
  return tvmrt_conv_task_by(tvmrt_conv_f32_rows, job, job->layer->in_channels, task, env->num_task);
}

/*! \brief Channels [c_begin, c_end) of a layer of one group, on this thread, from a block's start
 * on. */
static inline int tvmrt_conv_f32_channels(const tvmrt_layer_f32* layer,
                                          const tvmrt_tiles_f32* tiles, const tvmrt_data_f32* data,
                                          int c_begin, int c_end) {
  const tvmrt_job_f32 job = {layer, tiles, data};
  tvmrt_conv_f32_part all = {0, tvmrt_window_rows(&layer->window), 0, layer->window.out[2], 0};
  const int at_once = tvmrt_channels_at_once(tiles);
  tvmrt_rows_f32 rows;
  int rc = 0;
  if (tvmrt_rows_f32_begin(&rows, &job) != 0) return -1;
  for (int c = c_begin; c < c_end && rc == 0; c += at_once) {
    const int end = c_end - c < at_once ? c_end : c + at_once, left = c_end - end;
    all.next_weights = left < at_once ? left : at_once;
    rc = tvmrt_conv_f32_rows(&job, &rows, 0, &all, c, end);
  }
  if (tvmrt_scratch_free(rows.scratch) != 0) rc = -1;
  return rc;
}

/*!
 * \brief y = clamp(convolution(x, w) + bias + residual), then the epilogue.
 * \param layer The layer, in maximally long rows.
 * \param tiles Tiles whose widths cover a row of layer->window.out[2] pixels. The weights are
 * packed for tiles->block.
 * \param data The tensors.
 * \return 0; -1 if scratch memory runs out or a thread failed.
 *
 * Uses the threads of the runtime if the layer is large enough. The result does not depend on their
 * number.
 */
static inline int tvmrt_conv_f32(const tvmrt_layer_f32* layer, const tvmrt_tiles_f32* tiles,
                                 const tvmrt_data_f32* data) {
  tvmrt_job_f32 job = {layer, tiles, data};
  return tvmrt_launch(tvmrt_conv_f32_task, &job, layer->work, TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_F32_H_ */
