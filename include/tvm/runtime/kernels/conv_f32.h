/*!
 * \file conv_f32.h
 * \brief Convolution in float32 over channels-last memory, 1 to 3 dimensions, any stride,
 * dilation, padding and groups.
 *
 * Rows of output are covered by register tiles; layer_f32.h tells how memory looks. Worked example:
 * 64 channels in and out, 3x3, V = 16, OB = 2: 2 blocks of 3 * 3 * 64 * 32 floats; the weight of
 * output channel 40, input channel 5, row 1, column 2 is number 1 * 18432 + ((1 * 3 + 2) * 64 + 5) *
 * 32 + 8.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_F32_H_
#define TVM_RUNTIME_KERNELS_CONV_F32_H_

#include "layer_f32.h"

/* Fills in the runs of input under columns [first, end) of the kernel, without rows outside the input:
 * those of the first column come first. `x` is the pixel, as rows are read, under column 0 of the
 * kernel. */
TVMRT_INLINE void tvmrt_conv_f32_row_segments(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                              tvmrt_rows_f32* r, int64_t output_row, int first,
                                              int end, int64_t x, tvmrt_tile_f32* tile) {
  const tvmrt_window* window = &job->layer->window;
  const tvmrt_rows* rows = &job->layer->rows;
  const tvmrt_place at = tvmrt_find_row(window, output_row);
  const int32_t channels = job->layer->in_channels;
  const int packed = tvmrt_packed_f32(job);
  int count = 0;
  for (int tap = first; tap < end; tap++) {
    const int64_t pixel = x + (int64_t)tap * window->dilation[2];
    for (int kd = 0; kd < window->kernel[0]; kd++) {
      for (int kh = 0; kh < window->kernel[1]; kh++) {
        const int32_t d = at.d + kd * window->dilation[0], h = at.h + kh * window->dilation[1];
        const float* row =
            (const float*)(const void*)tvmrt_row_by(copy, &r->reader, at.image, d, h);
        if (!row) continue;
        const int64_t k = (int64_t)(kd * window->kernel[1] + kh) * window->kernel[2] * channels;
        r->segments[count].x = row + pixel * rows->x_pixel;
        r->segments[count++].w = (k + (int64_t)tap * channels) * packed;
      }
    }
  }
  tile->segment_count = count;
}

/* Of so many columns of the kernel, dilation[2] apart, those before column 0 where the first is at
 * column x. */
static inline int tvmrt_taps_before(const tvmrt_window* window, int64_t x, int taps) {
  const int64_t step = window->dilation[2], count = x < 0 ? (-x + step - 1) / step : 0;
  return count < taps ? (int)count : taps;
}

/* Pixels [begin, end) of a row, a tile at a time without the columns of the kernel that only meet
 * padding: where the dilation is large these are many. */
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

/* Where the run of pixels that begins with t ends, all of which meet columns [*first, *end) of the
 * kernel. */
static inline int64_t tvmrt_conv_run(const tvmrt_window* window, int64_t t, int taps, int* first,
                                     int* end) {
  const int64_t stride = window->stride[2], apart = window->dilation[2];
  const int64_t x = t * stride - window->pad[2];
  int64_t stop = window->out[2];
  *first = tvmrt_taps_before(window, x, taps);
  *end = tvmrt_taps_before(window, x - window->in[2], taps);
  if (*first > 0) { /* the last column in the padding before the row enters it */
    const int64_t enters = t + (-(x + (*first - 1) * apart) + stride - 1) / stride;
    if (enters < stop) stop = enters;
  }
  if (*end > 0) { /* the last column before the padding behind the row leaves it */
    const int64_t leaves = t + (window->in[2] - (x + (*end - 1) * apart) + stride - 1) / stride;
    if (leaves < stop) stop = leaves;
  }
  return stop;
}

/* Output row `output_row` run by run, each as a row of its own. */
TVMRT_INLINE int tvmrt_conv_f32_runs(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                     tvmrt_rows_f32* r, int64_t output_row,
                                     tvmrt_tile_row_f32_args* row, int c_begin, int c_end) {
  const tvmrt_window* window = &job->layer->window;
  const tvmrt_rows* rows = &job->layer->rows;
  int rc = 0, first = 0, end = 0;
  for (int64_t t = 0, stop = 0; t < window->out[2] && rc == 0; t = stop) {
    const int64_t x = t * window->stride[2] - window->pad[2] + rows->left - rows->skip;
    stop = tvmrt_conv_run(window, t, rows->taps, &first, &end);
    tvmrt_conv_f32_row_segments(copy, job, r, output_row, first, end, x, &row->tile);
    tvmrt_row_f32_place(job, output_row * window->out[2] + t, row);
    rc = tvmrt_tile_row_f32(row, 0, stop - t, c_begin, c_end);
  }
  return rc;
}

/*! \brief What a task computes: rows of all images, pixels of each row, channels of each group. */
typedef struct {
  int64_t row_begin, row_end;
  int64_t pixel_begin, pixel_end;
  int c_begin, c_end;
} tvmrt_conv_f32_part;

/* Channels [c_begin, c_end) of a group, for the rows and pixels of a part. */
typedef int (*tvmrt_conv_rows_fn)(const tvmrt_job_f32* job, tvmrt_rows_f32* rows, int group,
                                  const tvmrt_conv_f32_part* part, int c_begin, int c_end);

TVMRT_INLINE int tvmrt_conv_rows_by(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                    tvmrt_rows_f32* rows, int group,
                                    const tvmrt_conv_f32_part* part, int c_begin, int c_end) {
  const tvmrt_rows* plan = &job->layer->rows;
  const int apart = plan->taps > 1 && plan->source == TVMRT_SOURCE_RING && job->tiles->width[0] > 0;
  tvmrt_tile_row_f32_args row;
  tvmrt_row_f32_init(job, rows, group, &row);
  for (int64_t r = part->row_begin; r < part->row_end; r++) {
    int rc = 0;
    if (plan->runs) {
      rc = tvmrt_conv_f32_runs(copy, job, rows, r, &row, c_begin, c_end);
    } else {
      tvmrt_conv_f32_row_segments(copy, job, rows, r, 0, plan->taps, 0, &row.tile);
      tvmrt_row_f32_place(job, r * job->layer->window.out[2], &row);
      rc = apart ? tvmrt_conv_f32_tiles(job, rows, &row, part->pixel_begin, part->pixel_end,
                                        c_begin, c_end)
                 : tvmrt_tile_row_f32(&row, part->pixel_begin, part->pixel_end, c_begin, c_end);
    }
    if (rc != 0) return -1;
  }
  return 0;
}

static inline int tvmrt_conv_f32_rows(const tvmrt_job_f32* job, tvmrt_rows_f32* rows, int group,
                                      const tvmrt_conv_f32_part* part, int c_begin, int c_end) {
  return tvmrt_conv_rows_by(tvmrt_copy_pixels, job, rows, group, part, c_begin, c_end);
}

/* Whether a layer's channels are shared. */
static inline int tvmrt_conv_f32_by_channels(const tvmrt_layer_f32* layer, int64_t blocks,
                                             int64_t units, int num_task) {
  const tvmrt_window* w = &layer->window;
  const float in = (float)((int64_t)w->batch * w->in[0] * w->in[1]) * (float)w->in[2];
  const float out = (float)tvmrt_window_rows(w) * (float)w->out[2];
  const float products = out * (float)layer->weights * (float)layer->out_channels;
  return tvmrt_by_channels(tvmrt_task_imbalance(blocks, num_task),
                           tvmrt_task_imbalance(units, num_task),
                           products / (in * (float)layer->in_channels), out, num_task);
}

/* Few rows (the last layers of a network) are shared by channels, which also reads each weight only
   once; the one long row of a 1x1 convolution is shared by tiles. */
static inline tvmrt_conv_f32_part tvmrt_conv_f32_part_of(const tvmrt_job_f32* job, int task,
                                                         int num_task) {
  const int32_t channels = job->layer->out_channels, pixels = job->layer->window.out[2];
  const int block = job->tiles->block;
  const int64_t rows = tvmrt_window_rows(&job->layer->window);
  const int64_t width = job->tiles->width[0] > 0 ? job->tiles->width[0] : 1;
  const int64_t units = rows == 1 ? (pixels + width - 1) / width : rows;
  const int blocks = (channels + block - 1) / block;
  tvmrt_conv_f32_part part = {0, rows, 0, pixels, 0, channels};
  if (num_task > 1 && tvmrt_conv_f32_by_channels(job->layer, blocks, units, num_task)) {
    part.c_begin = (int)tvmrt_task_begin(channels, block, task, num_task);
    part.c_end = (int)tvmrt_task_begin(channels, block, task + 1, num_task);
  } else if (rows == 1) {
    part.pixel_begin = tvmrt_task_begin(pixels, width, task, num_task);
    part.pixel_end = tvmrt_task_begin(pixels, width, task + 1, num_task);
  } else {
    part.row_begin = tvmrt_task_begin(rows, 1, task, num_task);
    part.row_end = tvmrt_task_begin(rows, 1, task + 1, num_task);
  }
  return part;
}

/* What a task computes; `floats` of a pixel of x belong to a group. */
TVMRT_INLINE int tvmrt_conv_task_by(tvmrt_conv_rows_fn compute, const tvmrt_job_f32* job,
                                    int32_t floats, int task, int num_task) {
  const tvmrt_conv_f32_part part = tvmrt_conv_f32_part_of(job, task, num_task);
  const int at_once = tvmrt_channels_at_once(job->tiles);
  tvmrt_rows_f32 rows;
  int rc = 0;
  if (part.row_begin == part.row_end || part.pixel_begin == part.pixel_end ||
      part.c_begin == part.c_end)
    return 0;
  if (tvmrt_rows_f32_begin(&rows, job) != 0) return -1;
  for (int group = 0; group < job->layer->groups && rc == 0; group++) {
    tvmrt_row_reader_move(&rows.reader, job->data->x + (int64_t)group * floats);
    for (int c = part.c_begin; c < part.c_end && rc == 0; c += at_once) {
      const int c_end = part.c_end - c < at_once ? part.c_end : c + at_once;
      rc = compute(job, &rows, group, &part, c, c_end);
    }
  }
  if (tvmrt_scratch_free(rows.scratch) != 0) rc = -1;
  return rc;
}

static inline int tvmrt_conv_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_job_f32* job = (const tvmrt_job_f32*)closure;
  return tvmrt_conv_task_by(tvmrt_conv_f32_rows, job, job->layer->in_channels, task, env->num_task);
}

/*!
 * \brief y = clamp(convolution(x, w) + bias + residual), then the epilogue.
 * \param layer The layer, in rows as long as can be.
 * \param tiles Register tiles whose widths cover a row of layer->window.out[2] pixels. The weights
 *        are packed for tiles->block.
 * \param data The tensors.
 * \return 0; -1 if there is no scratch memory or a thread failed.
 *
 * Uses the threads of the runtime where the layer is large enough. The result does not depend on
 * their number.
 */
static inline int tvmrt_conv_f32(const tvmrt_layer_f32* layer, const tvmrt_tiles_f32* tiles,
                                 const tvmrt_data_f32* data) {
  tvmrt_job_f32 job = {layer, tiles, data};
  return tvmrt_launch_on(tvmrt_conv_f32_task, &job, layer->work, TVMRT_PARALLEL_MIN_MACS,
                         layer->threads);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_F32_H_ */
