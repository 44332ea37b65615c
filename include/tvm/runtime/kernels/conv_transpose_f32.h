/*!
 * \file conv_transpose_f32.h
 * \brief Transposed convolution in float32 over channels-last memory, 1 to 3 dimensions.
 *
 * Output pixel o reads input pixel i through window element k where o + pad = i * stride + k *
 * dilation. Output columns with the same remainder modulo the stride (a phase) use the same
 * elements. Each phase of a row is therefore a plain convolution of stride 1 with those elements:
 * nothing is scattered, and the register tile of tile/gemm_f32.h does the work. Rows are copied
 * once, with zeros at their ends, if some output column uses columns outside the input.
 *
 * To few channels, all phases of a row are computed together: an output row, counted with its
 * padding, is a row of fewer pixels with stride * oc channels. Their weights are [kw / stride][ic]
 * [kw % stride][oc], which takes windows of whole strides.
 *
 * Weights are packed as for a convolution, [group][block][kd][kh][kw][ic][NR * V], from ONNX
 * weights [ic][oc][kd][kh][kw] of each group; the bias as for a convolution. Worked example: 2x2,
 * stride 2, 64 channels in, 32 out, V = 16, NR = 2: one block of 2 * 2 * 64 * 32 floats; even
 * output columns use kw = 0 alone, odd ones kw = 1 alone.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_F32_H_
#define TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_F32_H_

#include "layer_f32.h"

/* The index i with at = i * stride + k * dilation in dimension dim, or -1 if none is in the
 * input. */
static inline int tvmrt_conv_transpose_f32_index(const tvmrt_window* w, int dim, int at, int k) {
  const int from = at - k * w->dilation[dim];
  if (from < 0 || from % w->stride[dim] != 0) return -1;
  return from / w->stride[dim] < w->in[dim] ? from / w->stride[dim] : -1;
}

/* Set the input segments under the first column of phase `phase` of an output row; `joined`: phases
 * that are computed together from it on. */
TVMRT_INLINE int tvmrt_conv_transpose_segments(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                               tvmrt_rows_f32* r, int64_t output_row, int phase,
                                               int joined) {
  const tvmrt_window* w = &job->layer->window;
  const int channels = job->layer->in_channels, packed = tvmrt_packed_f32(job);
  const int64_t plane = output_row / w->out[1];
  const int image = (int)(plane / w->out[0]);
  const int od = (int)(plane % w->out[0]) + w->pad[0],
            oh = (int)(output_row % w->out[1]) + w->pad[1];
  int count = 0;
  for (int kd = 0; kd < w->kernel[0]; kd++) {
    const int d = tvmrt_conv_transpose_f32_index(w, 0, od, kd);
    for (int kh = 0; kh < w->kernel[1]; kh++) {
      const int h = tvmrt_conv_transpose_f32_index(w, 1, oh, kh);
      const float* row =
          (const float*)(const void*)tvmrt_read_row_by(copy, &r->reader, image, d, h);
      if (!row) continue;
      for (int kw = 0; kw < w->kernel[2]; kw++) {
        const int from = phase + w->pad[2] - kw * w->dilation[2];
        if (from % w->stride[2] != 0) continue;
        const int64_t k = (int64_t)(kd * w->kernel[1] + kh) * w->kernel[2] + kw;
        const int64_t column = (int64_t)job->layer->rows.left + from / w->stride[2];
        r->segments[count].x = row + column * job->layer->rows.x_pixel;
        r->segments[count++].w = k / joined * channels * packed;
      }
    }
  }
  return count;
}

/* Phases that are computed together: then the channels of all of them count. */
static inline int tvmrt_conv_transpose_joined(const tvmrt_layer_f32* layer) {
#if TVMRT_SIMD_LANES_F32 > 1 && !defined(TVMRT_BOARD)
  return layer->out_channels > layer->window.y_stride ? layer->window.stride[2] : 1;
#else
  return (void)layer, 1;
#endif
}

/* All phases of an output row. Their row begins and ends with the padding, at the end of scratch. */
TVMRT_INLINE int tvmrt_conv_transpose_joined_row(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                                 tvmrt_rows_f32* rows, int64_t output_row,
                                                 tvmrt_tile_row_f32_args* row) {
  const tvmrt_window* w = &job->layer->window;
  const int channels = job->layer->out_channels, before = w->pad[2] % w->stride[2];
  const int64_t skip = (int64_t)before * w->y_stride, floats = (int64_t)w->out[2] * w->y_stride;
  const int64_t pixels = (skip + floats + channels - 1) / channels;
  float* sums = (float*)rows->scratch + job->layer->rows.scratch / 4 - pixels * channels;
  row->tile.segment_count =
      tvmrt_conv_transpose_segments(copy, job, rows, output_row, -before, w->stride[2]);
  tvmrt_row_f32_set_pixel(job, output_row * w->out[2], row);
  float* y = row->out;
  if (row->residual) memcpy(sums + skip, row->residual, (size_t)floats * sizeof(float));
  row->residual = row->residual ? sums : NULL;
  row->out = sums;
  if (tvmrt_tile_row_f32(row, 0, pixels, 0, channels) != 0) return -1;
  memcpy(y, sums + skip, (size_t)floats * sizeof(float));
  return 0;
}

/* Output rows [begin, end) of all images for channels [c_begin, c_end) of one group. The epilogue
 * needs neighbouring pixels, so it runs after all phases of a row. */
TVMRT_INLINE int tvmrt_conv_transpose_rows(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                           tvmrt_rows_f32* rows, int group, int64_t begin,
                                           int64_t end, int c_begin, int c_end) {
  const tvmrt_window* w = &job->layer->window;
  const tvmrt_data_f32* data = job->data;
  const int joined = tvmrt_conv_transpose_joined(job->layer);
  const int phases = joined > 1 ? 0 : w->stride[2] < w->out[2] ? w->stride[2] : w->out[2];
  tvmrt_tile_row_f32_args row;
  tvmrt_row_f32_init(job, rows, group, &row);
  row.tile.out_stride *= w->stride[2];
  row.tile.residual_stride *= w->stride[2];
  row.epilogue = NULL;
  for (int64_t r = begin; r < end; r++) {
    const int64_t pixel = r * w->out[2];
    if (joined > 1 && tvmrt_conv_transpose_joined_row(copy, job, rows, r, &row) != 0) return -1;
    for (int phase = 0; phase < phases; phase++) {
      const int64_t pixels = (w->out[2] - phase + w->stride[2] - 1) / w->stride[2];
      row.tile.segment_count = tvmrt_conv_transpose_segments(copy, job, rows, r, phase, 1);
      tvmrt_row_f32_set_pixel(job, pixel + phase, &row);
      if (tvmrt_tile_row_f32(&row, 0, pixels, c_begin, c_end) != 0) return -1;
    }
    if (data->epilogue) {
      data->epilogue(data->y + pixel * w->y_stride + row.channel + c_begin, pixel, w->out[2],
                     row.channel + c_begin, (c_end - c_begin) / joined, data->ctx);
    }
  }
  return 0;
}

/* Compute the part of a task; `floats` is the size of a group's part of a pixel of x. */
TVMRT_INLINE int tvmrt_conv_transpose_task_by(tvmrt_copy_fn copy, const tvmrt_job_f32* job,
                                              int32_t floats, int task, int num_task) {
  const tvmrt_layer_f32* layer = job->layer;
  const int64_t count = tvmrt_window_rows(&layer->window);
  const int64_t begin = tvmrt_task_begin(count, 1, task, num_task);
  const int64_t end = tvmrt_task_begin(count, 1, task + 1, num_task);
  const int channels = layer->out_channels;
  const int at_once =
      tvmrt_conv_transpose_joined(layer) > 1 ? channels : tvmrt_channels_at_once(job->tiles);
  tvmrt_rows_f32 rows;
  int rc = 0;
  if (begin == end) return 0;
  if (tvmrt_rows_f32_begin(&rows, job) != 0) return -1;
  for (int group = 0; group < layer->groups && rc == 0; group++) {
    tvmrt_row_reader_select_channels(&rows.reader, job->data->x + (int64_t)group * floats);
    for (int c = 0; c < channels && rc == 0; c += at_once) {
      const int c_end = channels - c < at_once ? channels : c + at_once;
      rc = tvmrt_conv_transpose_rows(copy, job, &rows, group, begin, end, c, c_end);
    }
  }
  if (tvmrt_scratch_free(rows.scratch) != 0) rc = -1;
  return rc;
}

static inline int tvmrt_conv_transpose_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_job_f32* job = (const tvmrt_job_f32*)closure;
  return tvmrt_conv_transpose_task_by(tvmrt_copy_pixels, job, job->layer->in_channels, task,
                                      env->num_task);
}

/*!
 * \brief y = clamp(transposed convolution(x, w) + bias + residual), then the epilogue.
 * \param layer The layer; the window's pad is cropped before the first depth, row, column of the
 * full output.
 * \param tiles Tiles whose widths cover the phases of a row: out[2] / stride[2] pixels, rounded up
 * for the first phases and down for the others; the weights are packed for them.
 * \param data The tensors.
 * \return 0; -1 if scratch memory runs out or a thread failed.
 *
 * Uses the threads of the runtime if the layer is large enough. The result does not depend on their
 * number.
 */
static inline int tvmrt_conv_transpose_f32(const tvmrt_layer_f32* layer,
                                           const tvmrt_tiles_f32* tiles,
                                           const tvmrt_data_f32* data) {
  tvmrt_job_f32 job = {layer, tiles, data};
  return tvmrt_launch(tvmrt_conv_transpose_f32_task, &job, layer->work, TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_F32_H_ */
