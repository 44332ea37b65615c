/*!
 * \file conv_bf16.h
 * \brief Convolution of float32 images in bfloat16: rounded operands, float32 accumulators.
 *
 * The loops are those of conv_f32.h over pairs of input channels (tile/gemm_bf16.h); an odd channel
 * is paired with 0. The compiler rounds and packs the weights. The input is rounded as it is copied
 * into the task's scratch: rows into the line buffer, and the one long row of a 1x1 convolution
 * `columns` pixels at a time. Tiles that widen (tile/gemm_bf16.h) take a pair as two words there;
 * `copied` selects this.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_BF16_H_
#define TVM_RUNTIME_KERNELS_CONV_BF16_H_

#include "conv_f32.h"
#include "tile/gemm_bf16.h"

/* Words per input pair that tiles read. */
static inline int tvmrt_bf16_each(const tvmrt_row_plan* rows) {
  return rows->copied > (rows->floats + 1) / 2 ? 2 : 1;
}

static inline void tvmrt_round_pixels(const tvmrt_row_reader* r, uint8_t* to, const uint8_t* from) {
  const tvmrt_row_plan* rows = r->rows;
#ifndef TVMRT_NO_NCHW_INPUT
  if (rows->channel_stride > 0) {
    tvmrt_bf16_round_nchw_pixels(to, tvmrt_bf16_each(rows), (const float*)(const void*)from,
                                 rows->channel_stride, rows->floats, rows->columns);
    return;
  }
#endif
  tvmrt_bf16_round_rows(to, rows->copied, tvmrt_bf16_each(rows), (const float*)(const void*)from,
                        r->window->x_stride, rows->columns, rows->floats);
}

/* Round pixels [t, t + count) of the one row into the scratch. */
static inline void tvmrt_conv_bf16_round(const tvmrt_job_f32* job, tvmrt_rows_f32* rows,
                                         const float* x, int64_t t, int64_t count) {
  const tvmrt_row_plan* plan = &job->layer->rows;
  const int64_t x_stride = job->layer->window.x_stride, line = plan->line;
  const int each = tvmrt_bf16_each(plan);
  int32_t* words = (int32_t*)(void*)((uint8_t*)rows->scratch + plan->at_line_buffer);
  while (count > 0) {
    const int64_t left = line > 0 ? line - t % line : count, chunk = left < count ? left : count;
    const int64_t from = line > 0 ? t / line * plan->line_step + t % line * x_stride : t * x_stride;
    tvmrt_bf16_round_rows(words, plan->x_pixel, each, x + from, x_stride, chunk, plan->floats);
    words += chunk * plan->x_pixel;
    t += chunk;
    count -= chunk;
  }
}

/* Ensure that pixels [t, t + count) are in the scratch; cached ones are not rounded again. */
static inline void tvmrt_conv_bf16_keep_rows(const tvmrt_job_f32* job, tvmrt_rows_f32* rows,
                                             const float* x, int64_t t, int64_t count) {
  if (rows->rounded == x && rows->rounded_first == t && rows->rounded_count >= count) return;
  rows->rounded = x;
  rows->rounded_first = t;
  rows->rounded_count = count;
  tvmrt_conv_bf16_round(job, rows, x, t, count);
}

/* Pixels of the one row of a layer whose windows are pixels. */
static inline int tvmrt_conv_bf16_pixels(const tvmrt_job_f32* job, tvmrt_rows_f32* rows, int group,
                                         const tvmrt_conv_f32_part* part, int c_begin, int c_end) {
  const tvmrt_row_plan* plan = &job->layer->rows;
  const int64_t width = job->tiles->width[0] > 0 ? job->tiles->width[0] : 1;
  const int64_t step = plan->columns < width ? plan->columns : plan->columns / width * width;
  const int64_t tiles = (part->pixel_end - part->pixel_begin + width - 1) / width;
  const float* x = job->data->x + (int64_t)group * plan->floats;
  tvmrt_tile_row_f32_args row;
  int rc = 0;
  tvmrt_row_f32_init(job, rows, group, &row);
  rows->segments[0].x = (const float*)(void*)((uint8_t*)rows->scratch + plan->at_line_buffer);
  rows->segments[0].w = 0;
  row.tile.segment_count = 1;
  for (int64_t t = part->pixel_begin, done = 0; t < part->pixel_end; t += step) {
    const int64_t left = part->pixel_end - t, count = left < step ? left : step;
    tvmrt_conv_bf16_keep_rows(job, rows, x, t, count);
    tvmrt_row_f32_set_pixel(job, t, &row);
    for (int64_t p = 0; p < count && rc == 0; p += width, done++) {
      const int64_t end = count - p < width ? count : p + width;
      tvmrt_row_f32_set_prefetch(job, c_begin, c_end, done, tiles, &row);
      rc = tvmrt_tile_row_f32(&row, p, end, c_begin, c_end);
    }
    if (rc != 0) break;
  }
  return rc;
}

static inline int tvmrt_conv_bf16_rows(const tvmrt_job_f32* job, tvmrt_rows_f32* rows, int group,
                                       const tvmrt_conv_f32_part* part, int c_begin, int c_end) {
  if (job->layer->rows.source == TVMRT_SOURCE_LINE_BUFFER) {
    return tvmrt_conv_rows_by(tvmrt_round_pixels, job, rows, group, part, c_begin, c_end);
  }
  return tvmrt_conv_bf16_pixels(job, rows, group, part, c_begin, c_end);
}

static inline int tvmrt_conv_bf16_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_job_f32* job = (const tvmrt_job_f32*)closure;
  const int32_t floats = job->layer->rows.floats;
  tvmrt_bf16_begin(job->tiles, job->layer->rows.run);
  const int rc = tvmrt_conv_task_by(tvmrt_conv_bf16_rows, job, floats, task, env->num_task);
  tvmrt_bf16_end(job->tiles);
  return rc;
}

/*!
 * \brief y = clamp(convolution(x, w) + bias + residual), then the epilogue; x and w are rounded to
 * bfloat16.
 * \param layer The layer: its in_channels and weights count pairs, rows.floats is the channels of a
 * group; its rows are in the line buffer, or form one row of windows that are pixels.
 * \param tiles Tiles of pairs whose widths cover a row of layer->window.out[2] pixels.
 * \param data The tensors; w points to pairs.
 * \return 0; -1 if scratch memory runs out or a thread failed.
 *
 * Uses the threads of the runtime if the layer is large enough. The result does not depend on their
 * number.
 */
static inline int tvmrt_conv_bf16(const tvmrt_layer_f32* layer, const tvmrt_tiles_f32* tiles,
                                  const tvmrt_data_f32* data) {
  tvmrt_job_f32 job = {layer, tiles, data};
  return tvmrt_launch(tvmrt_conv_bf16_task, &job, layer->work,
                      tvmrt_bf16_macs(tiles) * TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_BF16_H_ */
