/*!
 * \file conv_transpose_f32.h
 * \brief Transposed convolution in float32 over channels-last memory, 1 to 3 dimensions.
 *
 * Output pixel o takes input pixel i through window element k where
 * o + pad = i * stride + k * dilation.
 * Output columns of the same remainder by the stride (a phase) meet the same elements, so that each
 * phase of a row is a plain convolution of stride 1 with those elements: nothing is scattered, and
 * the register tile of tile_f32.h does the work. Rows are copied once, with zeros at their ends,
 * where some output column meets columns outside the input.
 *
 * Weights are packed as for a convolution, [group][block][kd][kh][kw][ic][OB * V], from weights
 * [ic][oc][kd][kh][kw] as ONNX has them for each group; the bias as for a convolution. Worked
 * example: 2x2, stride 2, 64 channels in, 32 out, V = 16, OB = 2: one block of 2 * 2 * 64 * 32
 * floats; even output columns meet kw = 0 alone, odd ones kw = 1 alone.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_F32_H_
#define TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_F32_H_

#include <tvm/runtime/kernels/conv_f32.h>

/*!
 * \brief A transposed convolution. `pad` is what is cut off before the first depth, row, column of
 * the full output.
 */
typedef tvmrt_conv_f32_layer tvmrt_conv_transpose_f32_layer;

/*! \brief Scratch of one task: segments of the current phase, copies of the input rows in use. */
typedef struct {
  tvmrt_segment_f32* segments;
  int64_t* held;
  float* rows;
  int64_t row_floats;
  int32_t ring[2];
  /*! \brief Columns of zeros before a copied row, or -1 where rows are not copied. */
  int32_t left;
} tvmrt_conv_transpose_f32_scratch;

/* Columns of zeros that a row needs on each side; both 0 if no output column leaves the input. */
static inline void tvmrt_conv_transpose_f32_margins(const tvmrt_conv_transpose_f32_layer* layer,
                                                    int32_t* left, int32_t* right) {
  const int reach = (layer->kernel[2] - 1) * layer->dilation[2] - layer->pad[2];
  const int last = (layer->out[2] - 1 + layer->pad[2]) / layer->stride[2];
  *left = reach > 0 ? (reach + layer->stride[2] - 1) / layer->stride[2] : 0;
  *right = last >= layer->in[2] ? last - layer->in[2] + 1 : 0;
}

/* Neighbouring input rows that one output row meets in dimension dim. */
static inline int tvmrt_conv_transpose_f32_span(const tvmrt_conv_transpose_f32_layer* layer,
                                                int dim) {
  return (layer->kernel[dim] - 1) * layer->dilation[dim] / layer->stride[dim] + 1;
}

/*! \brief Bytes of scratch memory that each task of the layer takes. */
static inline int64_t tvmrt_conv_transpose_f32_scratch_bytes(
    const tvmrt_conv_transpose_f32_layer* layer) {
  const int64_t taps = (int64_t)layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
  const int64_t rows =
      (int64_t)tvmrt_conv_transpose_f32_span(layer, 0) * tvmrt_conv_transpose_f32_span(layer, 1);
  int64_t bytes = taps * (int64_t)sizeof(tvmrt_segment_f32);
  int32_t left, right;
  tvmrt_conv_transpose_f32_margins(layer, &left, &right);
  if (left == 0 && right == 0) return bytes;
  const int64_t columns = (int64_t)left + layer->in[2] + right;
  const int64_t channels = layer->in_channels / layer->groups;
  return bytes + rows * ((int64_t)sizeof(int64_t) + (int64_t)sizeof(float) * columns * channels);
}

static inline void tvmrt_conv_transpose_f32_scratch_init(
    const tvmrt_conv_transpose_f32_layer* layer, void* memory,
    tvmrt_conv_transpose_f32_scratch* scratch) {
  const int64_t taps = (int64_t)layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
  int32_t right;
  tvmrt_conv_transpose_f32_margins(layer, &scratch->left, &right);
  scratch->ring[0] = tvmrt_conv_transpose_f32_span(layer, 0);
  scratch->ring[1] = tvmrt_conv_transpose_f32_span(layer, 1);
  scratch->segments = (tvmrt_segment_f32*)memory;
  scratch->held = (int64_t*)(scratch->segments + taps);
  scratch->rows = NULL;
  scratch->row_floats = 0;
  if (scratch->left == 0 && right == 0) {
    scratch->left = -1;
    return;
  }
  const int64_t rows = (int64_t)scratch->ring[0] * scratch->ring[1];
  scratch->row_floats =
      ((int64_t)scratch->left + layer->in[2] + right) * (layer->in_channels / layer->groups);
  scratch->rows = (float*)(scratch->held + rows);
  memset(scratch->rows, 0, (size_t)(rows * scratch->row_floats) * sizeof(float));
}

/* Column 0 of input row (d, h) of one image and group, with zeros around it if rows are copied. */
static inline const float* tvmrt_conv_transpose_f32_row(const tvmrt_conv_f32_job* job,
                                                        tvmrt_conv_transpose_f32_scratch* scratch,
                                                        const float* image, int d, int h) {
  const tvmrt_conv_transpose_f32_layer* layer = job->layer;
  const int64_t id = (int64_t)d * layer->in[1] + h;
  const float* from = image + id * layer->in[2] * layer->x_stride;
  if (scratch->left < 0) return from;
  const int64_t channels = layer->in_channels / layer->groups;
  const int64_t slot = (int64_t)(d % scratch->ring[0]) * scratch->ring[1] + h % scratch->ring[1];
  float* to = scratch->rows + slot * scratch->row_floats + scratch->left * channels;
  if (scratch->held[slot] != id) {
    scratch->held[slot] = id;
    for (int64_t i = 0; i < layer->in[2]; i++) {
      memcpy(to + i * channels, from + i * layer->x_stride, (size_t)channels * sizeof(float));
    }
  }
  return to;
}

/* The index i with at = i * stride + k * dilation in dimension dim, or -1 for none in the input. */
static inline int tvmrt_conv_transpose_f32_index(const tvmrt_conv_transpose_f32_layer* layer,
                                                 int dim, int at, int k) {
  const int from = at - k * layer->dilation[dim];
  if (from < 0 || from % layer->stride[dim] != 0) return -1;
  return from / layer->stride[dim] < layer->in[dim] ? from / layer->stride[dim] : -1;
}

/* The runs of input under the first column of phase `phase` of output row (od, oh). */
static inline int tvmrt_conv_transpose_f32_segments(const tvmrt_conv_f32_job* job,
                                                    tvmrt_conv_transpose_f32_scratch* scratch,
                                                    const float* image, int od, int oh, int phase) {
  const tvmrt_conv_transpose_f32_layer* layer = job->layer;
  const int channels = layer->in_channels / layer->groups;
  const int64_t pixel = scratch->left < 0 ? layer->x_stride : channels;
  int count = 0;
  for (int kd = 0; kd < layer->kernel[0]; kd++) {
    const int d = tvmrt_conv_transpose_f32_index(layer, 0, od + layer->pad[0], kd);
    if (d < 0) continue;
    for (int kh = 0; kh < layer->kernel[1]; kh++) {
      const int h = tvmrt_conv_transpose_f32_index(layer, 1, oh + layer->pad[1], kh);
      if (h < 0) continue;
      const float* row = tvmrt_conv_transpose_f32_row(job, scratch, image, d, h);
      for (int kw = 0; kw < layer->kernel[2]; kw++) {
        const int from = phase + layer->pad[2] - kw * layer->dilation[2];
        if (from % layer->stride[2] != 0) continue;
        const int64_t k = (int64_t)(kd * layer->kernel[1] + kh) * layer->kernel[2] + kw;
        scratch->segments[count].x = row + from / layer->stride[2] * pixel;
        scratch->segments[count++].w = k * channels * job->tiles->block;
      }
    }
  }
  return count;
}

/*
 * Output rows [begin, end) of all images for channels [c_begin, c_end) of one group. The epilogue
 * wants neighbouring pixels, so it runs when all phases of a row are done.
 */
static inline int tvmrt_conv_transpose_f32_rows(const tvmrt_conv_f32_job* job,
                                                tvmrt_conv_transpose_f32_scratch* scratch,
                                                int group, int64_t begin, int64_t end, int c_begin,
                                                int c_end) {
  const tvmrt_conv_transpose_f32_layer* layer = job->layer;
  const int in_channels = layer->in_channels / layer->groups;
  const int out_channels = layer->out_channels / layer->groups;
  const int64_t taps = (int64_t)layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
  const int64_t blocks = (out_channels + job->tiles->block - 1) / job->tiles->block;
  const int64_t rows = (int64_t)layer->out[0] * layer->out[1];
  int64_t image_held = -1;
  tvmrt_tile_row_f32_args row;
  memset(&row, 0, sizeof(row));
  row.tiles = job->tiles;
  row.tile.segments = scratch->segments;
  row.tile.run = in_channels;
  row.tile.x_stride = scratch->left < 0 ? layer->x_stride : in_channels;
  row.tile.w_stride = job->tiles->block;
  row.tile.out_stride = (int64_t)layer->stride[2] * layer->y_stride;
  row.tile.residual_stride = (int64_t)layer->stride[2] * layer->residual_stride;
  row.tile.lo = layer->lo;
  row.tile.hi = layer->hi;
  row.w_block = taps * in_channels * job->tiles->block;
  row.w = job->w + group * blocks * row.w_block;
  row.bias = job->bias ? job->bias + group * blocks * job->tiles->block : NULL;
  row.channel = group * out_channels;
  for (int64_t r = begin; r < end; r++) {
    const int64_t image = r / rows, pixel = r * layer->out[2];
    const float* x = job->x + image * layer->in[0] * layer->in[1] * layer->in[2] * layer->x_stride +
                     (int64_t)group * in_channels;
    const int od = (int)(r % rows / layer->out[1]), oh = (int)(r % layer->out[1]);
    if (image != image_held && scratch->left >= 0) {
      for (int i = 0; i < scratch->ring[0] * scratch->ring[1]; i++) scratch->held[i] = -1;
    }
    image_held = image;
    for (int phase = 0; phase < layer->stride[2] && phase < layer->out[2]; phase++) {
      const int64_t at = pixel + phase;
      const int64_t pixels = (layer->out[2] - phase + layer->stride[2] - 1) / layer->stride[2];
      row.tile.segment_count = tvmrt_conv_transpose_f32_segments(job, scratch, x, od, oh, phase);
      row.out = job->y + at * layer->y_stride + row.channel;
      row.residual =
          job->residual ? job->residual + at * layer->residual_stride + row.channel : NULL;
      if (tvmrt_tile_row_f32(&row, 0, pixels, c_begin, c_end) != 0) return -1;
    }
    if (job->epilogue) {
      job->epilogue(job->y + pixel * layer->y_stride + row.channel + c_begin, pixel, layer->out[2],
                    row.channel + c_begin, c_end - c_begin, job->ctx);
    }
  }
  return 0;
}

static inline int tvmrt_conv_transpose_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_conv_f32_job* job = (const tvmrt_conv_f32_job*)closure;
  const tvmrt_conv_transpose_f32_layer* layer = job->layer;
  const int64_t rows = (int64_t)layer->batch * layer->out[0] * layer->out[1];
  const int64_t begin = tvmrt_task_begin(rows, 1, task, env->num_task);
  const int64_t end = tvmrt_task_begin(rows, 1, task + 1, env->num_task);
  const int out_channels = layer->out_channels / layer->groups;
  const int step =
      job->tiles->block * (job->tiles->blocks_per_group > 0 ? job->tiles->blocks_per_group : 1);
  tvmrt_conv_transpose_f32_scratch scratch;
  int rc = 0;
  if (begin == end) return 0;
  void* memory = tvmrt_scratch_alloc(tvmrt_conv_transpose_f32_scratch_bytes(layer));
  if (!memory) return -1;
  tvmrt_conv_transpose_f32_scratch_init(layer, memory, &scratch);
  for (int group = 0; group < layer->groups && rc == 0; group++) {
    for (int c = 0; c < out_channels && rc == 0; c += step) {
      const int c_end = out_channels - c < step ? out_channels : c + step;
      rc = tvmrt_conv_transpose_f32_rows(job, &scratch, group, begin, end, c, c_end);
    }
  }
  if (tvmrt_scratch_free(memory) != 0) rc = -1;
  return rc;
}

/*!
 * \brief y = clamp(transposed convolution(x, w) + bias + residual), then the epilogue.
 * \param layer Sizes, strides and bounds.
 * \param tiles Register tiles whose widths cover the phases of a row: out[2] / stride[2] pixels,
 *        rounded up for the first phases and down for the others; the weights are packed for them.
 * \param x Input, [batch][in][x_stride].
 * \param w Packed weights, see above.
 * \param bias Padded bias, or NULL for none.
 * \param residual Added before the bounds, [batch][out][residual_stride], or NULL; may be y.
 * \param y Output, [batch][out][y_stride]; must not overlap x.
 * \param epilogue Called on finished parts of y, or NULL.
 * \param ctx Given to the epilogue.
 * \return 0; -1 if there is no scratch memory or a thread failed.
 *
 * Uses the threads of the runtime where the layer is large enough. The result does not depend on
 * their number.
 */
static inline int tvmrt_conv_transpose_f32(const tvmrt_conv_transpose_f32_layer* layer,
                                           const tvmrt_tiles_f32* tiles, const float* x,
                                           const float* w, const float* bias, const float* residual,
                                           float* y, tvmrt_epilogue_f32 epilogue, const void* ctx) {
  tvmrt_conv_f32_job job = {layer, tiles, x, w, bias, residual, y, epilogue, ctx};
  const int64_t inputs = (int64_t)layer->batch * layer->in[0] * layer->in[1] * layer->in[2];
  const int64_t taps = (int64_t)layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
  return tvmrt_launch(tvmrt_conv_transpose_f32_task, &job,
                      inputs * taps * layer->in_channels * (layer->out_channels / layer->groups),
                      TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_TRANSPOSE_F32_H_ */
