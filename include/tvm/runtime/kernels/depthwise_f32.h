/*!
 * \file depthwise_f32.h
 * \brief Depthwise convolution in float32 over channels-last memory: each channel has its own
 * window.
 *
 * Channels lie along the vectors; a tile is WT neighbouring output pixels of one row, for all
 * channels. Nothing is copied: rows outside the input are left out, columns outside it count as
 * zeros.
 *
 * Packed weights are [kd][kh][kw][channels rounded up to V], the bias [channels rounded up to V];
 * what is added is zero. Worked example: 3x3, 20 channels, V = 16: the weight of channel 17, row
 * 1, column 2 is number (1 * 3 + 2) * 32 + 17 of 9 * 32.
 *
 * A file instantiates what its layers need: TVMRT_DEFINE_DEPTHWISE_F32(16, 3, 1, 8)   defines
 * tvmrt_depthwise_f32_16k3s1x8: 3 columns wide, stride 1, 8 pixels
 * TVMRT_DEFINE_DEPTHWISE_ANY_F32(16, 8)     defines tvmrt_depthwise_f32_16x8: any width, stride
 * and dilation
 */
#ifndef TVM_RUNTIME_KERNELS_DEPTHWISE_F32_H_
#define TVM_RUNTIME_KERNELS_DEPTHWISE_F32_H_

#include <stddef.h>
#include <tvm/runtime/kernels/parallel.h>
#include <tvm/runtime/kernels/tile_f32.h>

/*!
 * \brief A depthwise layer. Triples are {depth, height, width}; strides of pixels are in floats.
 */
typedef struct {
  int32_t batch;
  int32_t channels;
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
} tvmrt_depthwise_f32_layer;

/*!
 * \brief Input rows under one output row, and the weights that meet each: at most
 * TVMRT_DEPTHWISE_ROWS at a time.
 */
enum { TVMRT_DEPTHWISE_ROWS = 16 };

/*! \brief What a tile function works on. */
typedef struct {
  const tvmrt_depthwise_f32_layer* layer;
  /*!
   * \brief Channels rounded up to whole vectors: distance of the weights of neighbouring columns.
   */
  int32_t w_stride;
  int32_t row_count;
  /*! \brief Column 0, channel 0 of the input rows inside the input. */
  const float* row[TVMRT_DEPTHWISE_ROWS];
  const float* w[TVMRT_DEPTHWISE_ROWS];
  /*! \brief Channel 0 of the bias, or NULL. */
  const float* bias;
  /*!
   * \brief Whether the sum continues that in out (a further part of a window of very many rows).
   */
  int32_t continues;
  /*! \brief Whether this is the last part: residual and bounds apply. */
  int32_t finishes;
} tvmrt_depthwise_f32_rows;

/*!
 * \brief Computes `pixels` output pixels of all channels.
 * \param column Input column under the first column of the first pixel's window; may lie outside
 *        the input.
 * \param pixels Up to the WT of the instance.
 * \param residual First pixel, channel 0, or NULL.
 * \param out First pixel, channel 0.
 */
typedef void (*tvmrt_depthwise_f32_fn)(const tvmrt_depthwise_f32_rows* rows, int64_t column,
                                       int pixels, const float* residual, float* out);

/* clang-format off */
#define TVMRT_DEFINE_DEPTHWISE_F32(V, KW, S, WT)                                                   \
  TVMRT_DEFINE_DEPTHWISE_F32_BODY(tvmrt_depthwise_f32_##V##k##KW##s##S##x##WT, tvmrt_f32x##V, V, WT, \
                                  TVMRT_DEPTHWISE_SUM_FIXED, KW, S)

#define TVMRT_DEFINE_DEPTHWISE_ANY_F32(V, WT)                                                      \
  TVMRT_DEFINE_DEPTHWISE_F32_BODY(tvmrt_depthwise_f32_##V##x##WT, tvmrt_f32x##V, V, WT,            \
                                  TVMRT_DEPTHWISE_SUM_ANY, 0, 0)

/* Sums one input row into sum[]; inside: no column is outside the input; n: channels of this vector.
   The columns are loaded once and serve all windows that they lie in. */
#define TVMRT_DEPTHWISE_SUM_FIXED(VEC, V, WT, KW, S)                                               \
  VEC x[((WT) - 1) * (S) + (KW)];                                                                  \
  const float* p = rows->row[r] + column * x_stride + c;                                           \
  TVMRT_UNROLL(64)                                                                                 \
  for (int j = 0; j < ((WT) - 1) * (S) + (KW); j++) {                                              \
    x[j] = inside || (column + j >= 0 && column + j < columns)                                     \
               ? (n == (V) ? VEC##_load(p + j * x_stride) : VEC##_load_n(p + j * x_stride, n)) : VEC##_splat(0.0f); \
  }                                                                                                \
  TVMRT_UNROLL(64)                                                                                 \
  for (int kw = 0; kw < (KW); kw++) {                                                              \
    const VEC weight = VEC##_load(rows->w[r] + kw * rows->w_stride + c);                           \
    TVMRT_UNROLL(64)                                                                               \
    for (int t = 0; t < (WT); t++) sum[t] = VEC##_fma(weight, x[t * (S) + kw], sum[t]);            \
  }

#define TVMRT_DEPTHWISE_SUM_ANY(VEC, V, WT, KW, S)                                                 \
  const int64_t stride = layer->stride[2], dilation = layer->dilation[2];                          \
  const float* p = rows->row[r] + column * x_stride + c;                                           \
  for (int kw = 0; kw < layer->kernel[2]; kw++) {                                                  \
    const VEC weight = VEC##_load(rows->w[r] + kw * rows->w_stride + c);                           \
    TVMRT_UNROLL(64)                                                                               \
    for (int t = 0; t < (WT); t++) {                                                               \
      const int64_t j = kw * dilation + t * stride;                                                \
      if (inside || (column + j >= 0 && column + j < columns)) {                                   \
        const VEC x = n == (V) ? VEC##_load(p + j * x_stride) : VEC##_load_n(p + j * x_stride, n); \
        sum[t] = VEC##_fma(weight, x, sum[t]);                                                     \
      }                                                                                            \
    }                                                                                              \
  }

#define TVMRT_DEFINE_DEPTHWISE_F32_BODY(NAME, VEC, V, WT, SUM, KW, S)                              \
  TVMRT_INLINE void NAME##_vector(const tvmrt_depthwise_f32_rows* rows, int64_t column, int pixels, \
                                  const float* residual, float* out, int c, int n, int inside) {   \
    const tvmrt_depthwise_f32_layer* layer = rows->layer;                                          \
    const int64_t x_stride = layer->x_stride, y_stride = layer->y_stride, columns = layer->in[2];  \
    const VEC lo = VEC##_splat(layer->lo), hi = VEC##_splat(layer->hi);                            \
    VEC sum[WT];                                                                                   \
    TVMRT_UNROLL(64)                                                                               \
    for (int t = 0; t < (WT); t++) sum[t] = rows->bias ? VEC##_load(rows->bias + c) : VEC##_splat(0.0f); \
    if (TVMRT_UNLIKELY(rows->continues)) {                                                         \
      TVMRT_UNROLL(64)                                                                             \
      for (int t = 0; t < (WT); t++) {                                                             \
        if (t < pixels) sum[t] = VEC##_load_n(out + t * y_stride + c, n);                          \
      }                                                                                            \
    }                                                                                              \
    for (int r = 0; r < rows->row_count; r++) {                                                    \
      SUM(VEC, V, WT, KW, S)                                                                       \
    }                                                                                              \
    if (residual) {                                                                                \
      TVMRT_UNROLL(64)                                                                             \
      for (int t = 0; t < (WT); t++) {                                                             \
        const float* p = residual + t * (int64_t)layer->residual_stride + c;                       \
        if (inside || t < pixels) sum[t] += n == (V) ? VEC##_load(p) : VEC##_load_n(p, n);         \
      }                                                                                            \
    }                                                                                              \
    TVMRT_UNROLL(64)                                                                               \
    for (int t = 0; t < (WT); t++) {                                                               \
      const VEC y = rows->finishes ? VEC##_min(VEC##_max(sum[t], lo), hi) : sum[t];                \
      if (!inside && t >= pixels) continue;                                                        \
      if (n == (V)) {                                                                              \
        VEC##_store(out + t * y_stride + c, y);                                                    \
      } else {                                                                                     \
        VEC##_store_n(out + t * y_stride + c, y, n);                                               \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  TVMRT_NOINLINE void NAME(const tvmrt_depthwise_f32_rows* rows, int64_t column, int pixels, const float* residual, \
                           float* out) {                                                           \
    const tvmrt_depthwise_f32_layer* layer = rows->layer;                                          \
    const int channels = layer->channels;                                                          \
    const int64_t end = column + ((WT) - 1) * (int64_t)layer->stride[2] +                          \
                        (layer->kernel[2] - 1) * (int64_t)layer->dilation[2] + 1;                  \
    int c = 0;                                                                                     \
    if (pixels == (WT) && column >= 0 && end <= layer->in[2]) {                                    \
      for (; c + (V) <= channels; c += (V)) NAME##_vector(rows, column, pixels, residual, out, c, (V), 1); \
    } else {                                                                                       \
      for (; c + (V) <= channels; c += (V)) NAME##_vector(rows, column, pixels, residual, out, c, (V), 0); \
    }                                                                                              \
    if (c < channels) NAME##_vector(rows, column, pixels, residual, out, c, channels - c, 0);      \
  }
/* clang-format on */

/*! \brief The instance that a layer runs on. */
typedef struct {
  int32_t lanes;
  int32_t width;
  tvmrt_depthwise_f32_fn run;
} tvmrt_depthwise_f32_tile;

/*! \brief What all tasks share. */
typedef struct {
  const tvmrt_depthwise_f32_layer* layer;
  const tvmrt_depthwise_f32_tile* tile;
  const float* x;
  const float* w;
  const float* bias;
  const float* residual;
  float* y;
  tvmrt_epilogue_f32 epilogue;
  const void* ctx;
} tvmrt_depthwise_f32_job;

/* One output row with the input rows that `rows` holds. */
static inline void tvmrt_depthwise_f32_row(const tvmrt_depthwise_f32_job* job,
                                           const tvmrt_depthwise_f32_rows* rows, int64_t pixel) {
  const tvmrt_depthwise_f32_layer* layer = job->layer;
  const int width = job->tile->width;
  for (int t = 0; t < layer->out[2]; t += width) {
    const int pixels = layer->out[2] - t < width ? layer->out[2] - t : width;
    float* out = job->y + (pixel + t) * layer->y_stride;
    const float* residual = job->residual && rows->finishes
                                ? job->residual + (pixel + t) * layer->residual_stride
                                : NULL;
    job->tile->run(rows, (int64_t)t * layer->stride[2] - layer->pad[2], pixels, residual, out);
    if (job->epilogue && rows->finishes) {
      job->epilogue(out, pixel + t, pixels, 0, layer->channels, job->ctx);
    }
  }
}

/* Output row (od, oh) of one image: gathers the input rows inside the input, a handful at a time.
 */
static inline void tvmrt_depthwise_f32_window(const tvmrt_depthwise_f32_job* job,
                                              const float* image, int od, int oh, int64_t pixel) {
  const tvmrt_depthwise_f32_layer* layer = job->layer;
  tvmrt_depthwise_f32_rows rows;
  rows.layer = layer;
  rows.w_stride = (layer->channels + job->tile->lanes - 1) / job->tile->lanes * job->tile->lanes;
  rows.row_count = 0;
  rows.bias = job->bias;
  rows.continues = 0;
  rows.finishes = 0;
  for (int kd = 0; kd < layer->kernel[0]; kd++) {
    const int d = od * layer->stride[0] - layer->pad[0] + kd * layer->dilation[0];
    if (d < 0 || d >= layer->in[0]) continue;
    for (int kh = 0; kh < layer->kernel[1]; kh++) {
      const int h = oh * layer->stride[1] - layer->pad[1] + kh * layer->dilation[1];
      if (h < 0 || h >= layer->in[1]) continue;
      if (rows.row_count == TVMRT_DEPTHWISE_ROWS) {
        tvmrt_depthwise_f32_row(job, &rows, pixel);
        rows.row_count = 0;
        rows.continues = 1;
      }
      rows.row[rows.row_count] =
          image + ((int64_t)d * layer->in[1] + h) * layer->in[2] * layer->x_stride;
      rows.w[rows.row_count++] = job->w + ((int64_t)kd * layer->kernel[1] + kh) * layer->kernel[2] *
                                              (int64_t)rows.w_stride;
    }
  }
  rows.finishes = 1;
  tvmrt_depthwise_f32_row(job, &rows, pixel);
}

static inline int tvmrt_depthwise_f32_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_depthwise_f32_job* job = (const tvmrt_depthwise_f32_job*)closure;
  const tvmrt_depthwise_f32_layer* layer = job->layer;
  const int64_t image_rows = (int64_t)layer->out[0] * layer->out[1];
  const int64_t rows = layer->batch * image_rows;
  const int64_t end = tvmrt_task_begin(rows, 1, task + 1, env->num_task);
  for (int64_t r = tvmrt_task_begin(rows, 1, task, env->num_task); r < end; r++) {
    const int64_t image = r / image_rows;
    const int64_t image_floats =
        (int64_t)layer->in[0] * layer->in[1] * layer->in[2] * layer->x_stride;
    tvmrt_depthwise_f32_window(job, job->x + image * image_floats,
                               (int)(r % image_rows / layer->out[1]), (int)(r % layer->out[1]),
                               r * layer->out[2]);
  }
  return 0;
}

/*!
 * \brief y = clamp(depthwise convolution(x, w) + bias + residual), then the epilogue.
 * \param layer Sizes, strides and bounds.
 * \param tile The instance; a fixed one must match the layer's kernel width and stride, with
 *        dilation 1.
 * \param x Input, [batch][in][x_stride].
 * \param w Packed weights, see above.
 * \param bias Padded bias, or NULL for none.
 * \param residual Added before the bounds, [batch][out][residual_stride], or NULL; may be y.
 * \param y Output, [batch][out][y_stride]; must not overlap x.
 * \param epilogue Called on finished pixels of y, or NULL.
 * \param ctx Given to the epilogue.
 * \return 0; -1 if a thread failed.
 *
 * Needs no scratch memory. The result does not depend on the number of threads.
 */
static inline int tvmrt_depthwise_f32(const tvmrt_depthwise_f32_layer* layer,
                                      const tvmrt_depthwise_f32_tile* tile, const float* x,
                                      const float* w, const float* bias, const float* residual,
                                      float* y, tvmrt_epilogue_f32 epilogue, const void* ctx) {
  tvmrt_depthwise_f32_job job = {layer, tile, x, w, bias, residual, y, epilogue, ctx};
  const int64_t taps = (int64_t)layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
  const int64_t outputs =
      (int64_t)layer->batch * layer->out[0] * layer->out[1] * layer->out[2] * layer->channels;
  /* A multiply-add here costs about twice one of a dense layer. */
  return tvmrt_launch(tvmrt_depthwise_f32_task, &job, 2 * outputs * taps, TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_DEPTHWISE_F32_H_ */
