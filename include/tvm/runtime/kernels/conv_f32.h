/*!
 * \file conv_f32.h
 * \brief Convolution in float32 over channels-last memory, 1 to 3 dimensions, any stride,
 * dilation, padding and groups.
 *
 * Activations are [batch][d][h][w][channels] with a pixel stride of at least their channels, so
 * that a layer may read or write a slice of the channels of a wider tensor. A 1-D convolution has
 * d = h = 1, a 2-D one d = 1.
 *
 * Weights are packed as tile_f32.h describes, one group after the other:
 * [group][block][kd][kh][kw][ic][OB * V]. The bias is [group][OC / groups, rounded up to whole
 * blocks]. Worked example: 64 channels in and out, 3x3, V = 16, OB = 2: 2 blocks of 3 * 3 * 64 *
 * 32 floats; the weight of output channel 40, input channel 5, row 1, column 2 is number 1 * 18432
 * + ((1 * 3 + 2) * 64 + 5) * 32 + 8.
 *
 * How it works: rows of output are covered by register tiles. The window of an output pixel is KD
 * * KH contiguous runs of KW * IC floats (KD * KH * KW runs of IC if the columns are dilated, or
 * if the pixels of the input are not adjacent). Rows outside the input are left out of the sum. If
 * there is padding to the left or right, the rows are copied once, with zeros at their ends, into
 * a ring in scratch memory; otherwise nothing is copied.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_F32_H_
#define TVM_RUNTIME_KERNELS_CONV_F32_H_

#include <tvm/runtime/kernels/parallel.h>
#include <tvm/runtime/kernels/tile_f32.h>

/*!
 * \brief A convolution layer. Triples are {depth, height, width}; strides of pixels are in floats.
 */
typedef struct {
  int32_t batch;
  int32_t groups;
  /*! \brief Channels of the whole input and output, all groups together. */
  int32_t in_channels;
  int32_t out_channels;
  int32_t in[3];
  int32_t out[3];
  int32_t kernel[3];
  int32_t stride[3];
  int32_t dilation[3];
  /*!
   * \brief Zeros before the first depth, row, column; how many follow the last results from the
   * sizes.
   */
  int32_t pad[3];
  int32_t x_stride;
  int32_t y_stride;
  int32_t residual_stride;
  /*! \brief Bounds of the result, -INFINITY and INFINITY for none. */
  float lo;
  float hi;
} tvmrt_conv_f32_layer;

/*! \brief What all tasks of a convolution share. */
typedef struct {
  const tvmrt_conv_f32_layer* layer;
  const tvmrt_tiles_f32* tiles;
  const float* x;
  const float* w;
  const float* bias;
  const float* residual;
  float* y;
  tvmrt_epilogue_f32 epilogue;
  const void* ctx;
} tvmrt_conv_f32_job;

/*! \brief Windows of up to so many taps need no scratch memory if their rows are not copied. */
enum { TVMRT_CONV_F32_TAPS = 9 };

/*!
 * \brief Scratch of one task: the segments of the current row and the ring of padded input rows.
 */
typedef struct {
  tvmrt_segment_f32 few[TVMRT_CONV_F32_TAPS];
  tvmrt_segment_f32* segments;
  float* rows;
  int64_t* held;
  int64_t row_floats;
  int32_t ring[2];
} tvmrt_conv_f32_scratch;

static inline int tvmrt_conv_f32_span(const tvmrt_conv_f32_layer* layer, int dim) {
  return (layer->kernel[dim] - 1) * layer->dilation[dim] + 1;
}

/*! \brief Columns of input that a row of output reads, padding included. */
static inline int64_t tvmrt_conv_f32_columns(const tvmrt_conv_f32_layer* layer) {
  return (int64_t)(layer->out[2] - 1) * layer->stride[2] + tvmrt_conv_f32_span(layer, 2);
}

/*! \brief Whether rows must be copied to give them zeros at their ends. */
static inline int tvmrt_conv_f32_copies_rows(const tvmrt_conv_f32_layer* layer) {
  return layer->pad[2] > 0 || tvmrt_conv_f32_columns(layer) > (int64_t)layer->in[2] + layer->pad[2];
}

static inline int64_t tvmrt_conv_f32_window(const tvmrt_conv_f32_layer* layer) {
  return (int64_t)layer->kernel[0] * layer->kernel[1] * layer->kernel[2] *
         (layer->in_channels / layer->groups);
}

/*! \brief Bytes of scratch memory that each task of the layer takes, 0 for none. */
static inline int64_t tvmrt_conv_f32_scratch_bytes(const tvmrt_conv_f32_layer* layer) {
  const int64_t taps = (int64_t)layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
  int64_t bytes = taps > TVMRT_CONV_F32_TAPS ? taps * (int64_t)sizeof(tvmrt_segment_f32) : 0;
  if (tvmrt_conv_f32_copies_rows(layer)) {
    const int64_t rows = (int64_t)tvmrt_conv_f32_span(layer, 0) * tvmrt_conv_f32_span(layer, 1);
    const int64_t channels = layer->in_channels / layer->groups;
    bytes += rows * ((int64_t)sizeof(int64_t) +
                     (int64_t)sizeof(float) * tvmrt_conv_f32_columns(layer) * channels);
  }
  return bytes;
}

/* Lays the scratch out and puts zeros where the padding of every row will stay. */
static inline void tvmrt_conv_f32_scratch_init(const tvmrt_conv_f32_layer* layer, void* memory,
                                               tvmrt_conv_f32_scratch* scratch) {
  const int64_t taps = (int64_t)layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
  const int many = taps > TVMRT_CONV_F32_TAPS;
  scratch->segments = many ? (tvmrt_segment_f32*)memory : scratch->few;
  scratch->held = (int64_t*)((tvmrt_segment_f32*)memory + (many ? taps : 0));
  scratch->rows = NULL;
  scratch->row_floats = 0;
  scratch->ring[0] = tvmrt_conv_f32_span(layer, 0);
  scratch->ring[1] = tvmrt_conv_f32_span(layer, 1);
  if (!tvmrt_conv_f32_copies_rows(layer)) return;
  const int64_t rows = (int64_t)scratch->ring[0] * scratch->ring[1];
  scratch->row_floats = tvmrt_conv_f32_columns(layer) * (layer->in_channels / layer->groups);
  scratch->rows = (float*)(scratch->held + rows);
  memset(scratch->rows, 0, (size_t)(rows * scratch->row_floats) * sizeof(float));
}

static inline void tvmrt_conv_f32_forget_rows(tvmrt_conv_f32_scratch* scratch) {
  if (!scratch->rows) return;
  for (int64_t i = 0; i < (int64_t)scratch->ring[0] * scratch->ring[1]; i++) scratch->held[i] = -1;
}

/* The padded copy of input row (d, h) of one image and group, made unless the ring has it. */
static inline const float* tvmrt_conv_f32_padded_row(const tvmrt_conv_f32_job* job,
                                                     tvmrt_conv_f32_scratch* scratch,
                                                     const float* image, int d, int h) {
  const tvmrt_conv_f32_layer* layer = job->layer;
  const int64_t id = (int64_t)d * layer->in[1] + h;
  const int64_t slot = (int64_t)(d % scratch->ring[0]) * scratch->ring[1] + h % scratch->ring[1];
  const int64_t channels = layer->in_channels / layer->groups;
  float* row = scratch->rows + slot * scratch->row_floats;
  if (scratch->held[slot] == id) return row;
  scratch->held[slot] = id;
  int64_t columns = tvmrt_conv_f32_columns(layer) - layer->pad[2];
  if (columns > layer->in[2]) columns = layer->in[2];
  const float* from = image + id * layer->in[2] * layer->x_stride;
  float* to = row + layer->pad[2] * channels;
  if (channels == layer->x_stride) {
    if (columns > 0) memcpy(to, from, (size_t)(columns * channels) * sizeof(float));
    return row;
  }
  for (int64_t i = 0; i < columns; i++) {
    memcpy(to + i * channels, from + i * layer->x_stride, (size_t)channels * sizeof(float));
  }
  return row;
}

/* Fills in the runs of input under output row (od, oh), without those outside the input. */
static inline void tvmrt_conv_f32_row_segments(const tvmrt_conv_f32_job* job,
                                               tvmrt_conv_f32_scratch* scratch, const float* image,
                                               int od, int oh, tvmrt_tile_f32* tile) {
  const tvmrt_conv_f32_layer* layer = job->layer;
  const int channels = layer->in_channels / layer->groups;
  const int pixel = scratch->rows ? channels : layer->x_stride;
  const int joined = layer->kernel[2] == 1 || (layer->dilation[2] == 1 && pixel == channels);
  const int taps = joined ? 1 : layer->kernel[2];
  int count = 0;
  tile->run = (int64_t)channels * (joined ? layer->kernel[2] : 1);
  tile->x_stride = (int64_t)layer->stride[2] * pixel;
  for (int kd = 0; kd < layer->kernel[0]; kd++) {
    const int d = od * layer->stride[0] - layer->pad[0] + kd * layer->dilation[0];
    if (d < 0 || d >= layer->in[0]) continue;
    for (int kh = 0; kh < layer->kernel[1]; kh++) {
      const int h = oh * layer->stride[1] - layer->pad[1] + kh * layer->dilation[1];
      if (h < 0 || h >= layer->in[1]) continue;
      const float* row =
          scratch->rows ? tvmrt_conv_f32_padded_row(job, scratch, image, d, h)
                        : image + ((int64_t)d * layer->in[1] + h) * layer->in[2] * layer->x_stride;
      const int64_t k = (int64_t)(kd * layer->kernel[1] + kh) * layer->kernel[2] * channels;
      for (int tap = 0; tap < taps; tap++, count++) {
        scratch->segments[count].x = row + (int64_t)tap * layer->dilation[2] * pixel;
        scratch->segments[count].w = (k + (int64_t)tap * channels) * job->tiles->block;
      }
    }
  }
  tile->segments = scratch->segments;
  tile->segment_count = count;
}

/*! \brief What a task computes: rows of all images, pixels of each row, channels of each group. */
typedef struct {
  int64_t row_begin, row_end;
  int64_t pixel_begin, pixel_end;
  int c_begin, c_end;
} tvmrt_conv_f32_part;

static inline int tvmrt_conv_f32_rows(const tvmrt_conv_f32_job* job,
                                      tvmrt_conv_f32_scratch* scratch, int group,
                                      const tvmrt_conv_f32_part* part, int c_begin, int c_end) {
  const tvmrt_conv_f32_layer* layer = job->layer;
  const int in_channels = layer->in_channels / layer->groups,
            out_channels = layer->out_channels / layer->groups;
  const int64_t image_floats =
      (int64_t)layer->in[0] * layer->in[1] * layer->in[2] * layer->x_stride;
  const int64_t rows = (int64_t)layer->out[0] * layer->out[1];
  const int64_t blocks = (out_channels + job->tiles->block - 1) / job->tiles->block;
  tvmrt_tile_row_f32_args row;
  memset(&row, 0, sizeof(row));
  row.tiles = job->tiles;
  row.tile.w_stride = job->tiles->block;
  row.tile.out_stride = layer->y_stride;
  row.tile.residual_stride = layer->residual_stride;
  row.tile.lo = layer->lo;
  row.tile.hi = layer->hi;
  row.w_block = tvmrt_conv_f32_window(layer) * job->tiles->block;
  row.w = job->w + group * blocks * row.w_block;
  row.bias = job->bias ? job->bias + group * blocks * job->tiles->block : NULL;
  row.channel = group * out_channels;
  row.epilogue = job->epilogue;
  row.ctx = job->ctx;
  int64_t image_held = -1;
  for (int64_t r = part->row_begin; r < part->row_end; r++) {
    const int64_t image = r / rows;
    if (image != image_held) tvmrt_conv_f32_forget_rows(scratch);
    image_held = image;
    tvmrt_conv_f32_row_segments(
        job, scratch, job->x + image * image_floats + (int64_t)group * in_channels,
        (int)(r % rows / layer->out[1]), (int)(r % layer->out[1]), &row.tile);
    row.pixel = r * layer->out[2];
    row.out = job->y + row.pixel * layer->y_stride + row.channel;
    row.residual =
        job->residual ? job->residual + row.pixel * layer->residual_stride + row.channel : NULL;
    if (tvmrt_tile_row_f32(&row, part->pixel_begin, part->pixel_end, c_begin, c_end) != 0)
      return -1;
  }
  return 0;
}

/* Share of the largest task if `extent` units are dealt out among tasks: 1 is ideal, 2 twice the
 * ideal time. */
static inline float tvmrt_task_imbalance(int64_t extent, int num_task) {
  return (float)((extent + num_task - 1) / num_task * num_task) / (float)(extent > 0 ? extent : 1);
}

/* Few rows (the last layers of a network) are shared by channels, which also reads each weight only
   once; the one long row of a 1x1 convolution is shared by tiles. */
static inline tvmrt_conv_f32_part tvmrt_conv_f32_part_of(const tvmrt_conv_f32_job* job, int task,
                                                         int num_task) {
  const tvmrt_conv_f32_layer* layer = job->layer;
  const int out_channels = layer->out_channels / layer->groups, block = job->tiles->block;
  const int64_t rows = (int64_t)layer->batch * layer->out[0] * layer->out[1];
  const int64_t width = job->tiles->width[0] > 0 ? job->tiles->width[0] : 1;
  const int64_t units = rows == 1 ? (layer->out[2] + width - 1) / width : rows;
  const int blocks = (out_channels + block - 1) / block;
  tvmrt_conv_f32_part part = {0, rows, 0, layer->out[2], 0, out_channels};
  if (tvmrt_task_imbalance(blocks, num_task) < tvmrt_task_imbalance(units, num_task)) {
    part.c_begin = (int)tvmrt_task_begin(out_channels, block, task, num_task);
    part.c_end = (int)tvmrt_task_begin(out_channels, block, task + 1, num_task);
  } else if (rows == 1) {
    part.pixel_begin = tvmrt_task_begin(layer->out[2], width, task, num_task);
    part.pixel_end = tvmrt_task_begin(layer->out[2], width, task + 1, num_task);
  } else {
    part.row_begin = tvmrt_task_begin(rows, 1, task, num_task);
    part.row_end = tvmrt_task_begin(rows, 1, task + 1, num_task);
  }
  return part;
}

static inline int tvmrt_conv_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_conv_f32_job* job = (const tvmrt_conv_f32_job*)closure;
  const tvmrt_conv_f32_layer* layer = job->layer;
  const tvmrt_conv_f32_part part = tvmrt_conv_f32_part_of(job, task, env->num_task);
  const int group_channels =
      job->tiles->block * (job->tiles->blocks_per_group > 0 ? job->tiles->blocks_per_group : 1);
  tvmrt_conv_f32_scratch scratch;
  const int64_t bytes = tvmrt_conv_f32_scratch_bytes(layer);
  void* memory = NULL;
  int rc = 0;
  if (part.row_begin == part.row_end || part.pixel_begin == part.pixel_end ||
      part.c_begin == part.c_end)
    return 0;
  if (bytes > 0) {
    memory = tvmrt_scratch_alloc(bytes);
    if (!memory) return -1;
  }
  tvmrt_conv_f32_scratch_init(layer, memory, &scratch);
  for (int group = 0; group < layer->groups && rc == 0; group++) {
    for (int c = part.c_begin; c < part.c_end && rc == 0; c += group_channels) {
      const int c_end = part.c_end - c < group_channels ? part.c_end : c + group_channels;
      rc = tvmrt_conv_f32_rows(job, &scratch, group, &part, c, c_end);
    }
  }
  if (tvmrt_scratch_free(memory) != 0) rc = -1;
  return rc;
}

/* Moves the last dimension to the front: {a, b, c} becomes {c, a, b}. */
static inline void tvmrt_conv_f32_rotate(int32_t triple[3]) {
  const int32_t last = triple[2];
  triple[2] = triple[1];
  triple[1] = triple[0];
  triple[0] = last;
}

/* An image of one column (a 1-D signal along its height) is turned, so that its rows are long. */
static inline void tvmrt_conv_f32_turn(tvmrt_conv_f32_layer* layer) {
  for (int turn = 0; turn < 2; turn++) {
    if (layer->in[2] != 1 || layer->out[2] != 1 || layer->kernel[2] != 1 || layer->pad[2] != 0)
      return;
    tvmrt_conv_f32_rotate(layer->in);
    tvmrt_conv_f32_rotate(layer->out);
    tvmrt_conv_f32_rotate(layer->kernel);
    tvmrt_conv_f32_rotate(layer->stride);
    tvmrt_conv_f32_rotate(layer->dilation);
    tvmrt_conv_f32_rotate(layer->pad);
  }
}

/* A 1x1 convolution of stride 1 sees no difference between the pixels of all rows and images: one
 * long row. */
static inline void tvmrt_conv_f32_join_rows(tvmrt_conv_f32_layer* layer) {
  int64_t pixels = layer->batch;
  for (int dim = 0; dim < 3; dim++) {
    if (layer->kernel[dim] != 1 || layer->stride[dim] != 1 || layer->pad[dim] != 0 ||
        layer->in[dim] != layer->out[dim])
      return;
    pixels *= layer->in[dim];
  }
  if (pixels > INT32_MAX) return;
  layer->batch = 1;
  layer->in[0] = layer->in[1] = layer->out[0] = layer->out[1] = 1;
  layer->in[2] = layer->out[2] = (int32_t)pixels;
}

/*!
 * \brief y = clamp(convolution(x, w) + bias + residual), then the epilogue.
 * \param layer Sizes, strides and bounds.
 * \param tiles Register tiles whose widths cover a row: all pixels of a 1x1 convolution of stride 1
 *        without padding; out[2] pixels otherwise, or the length of the last other dimension that
 *        is not of size 1 where the window, the input and the output are one column wide
 *        (tvmrt.codegen.packing_f32.conv_row_pixels). The weights are packed for tiles->block.
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
static inline int tvmrt_conv_f32(const tvmrt_conv_f32_layer* layer, const tvmrt_tiles_f32* tiles,
                                 const float* x, const float* w, const float* bias,
                                 const float* residual, float* y, tvmrt_epilogue_f32 epilogue,
                                 const void* ctx) {
  tvmrt_conv_f32_layer joined = *layer;
  tvmrt_conv_f32_job job = {&joined, tiles, x, w, bias, residual, y, epilogue, ctx};
  const int64_t outputs =
      (int64_t)layer->batch * layer->out[0] * layer->out[1] * layer->out[2] * layer->out_channels;
  tvmrt_conv_f32_join_rows(&joined);
  tvmrt_conv_f32_turn(&joined);
  return tvmrt_launch(tvmrt_conv_f32_task, &job, outputs * tvmrt_conv_f32_window(layer),
                      TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_F32_H_ */
