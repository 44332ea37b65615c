/*!
 * \file layer_f32.h
 * \brief Shared parts of the float kernels for windowed layers: layer struct, tensors, rows.
 *
 * window.h describes windows and the reading of their rows; elements are floats here. Rows outside
 * the input are skipped. Packed weights are [group][block][kd][kh][kw][ic][NR * V], see
 * tile/gemm_f32.h; the bias is [group][channels of a group, rounded up to whole blocks].
 */
#ifndef TVM_RUNTIME_KERNELS_LAYER_F32_H_
#define TVM_RUNTIME_KERNELS_LAYER_F32_H_

#include "parallel.h"
#include "tile/gemm_f32.h"
#include "window.h"
#include "work_partition.h"

/*! \brief A layer, precomputed by the compiler (tvmrt.compiler.codegen.window.conv). */
typedef struct tvmrt_layer_f32 {
  tvmrt_window window;
  tvmrt_row_plan rows;
  int32_t groups;
  int32_t in_channels;     /*!< Per group. */
  int32_t out_channels;    /*!< Per group. */
  int32_t weights;         /*!< Weights per output channel. */
  int32_t residual_stride; /*!< Pixel stride of the residual in floats. */
  float lo;                /*!< Clamp bounds, -INFINITY and INFINITY for none. */
  float hi;
  int64_t work;   /*!< In the unit of tvmrt_launch(). */
  int32_t packed; /*!< Channels of a block of packed weights, which no tile crosses; 0: a tile's. */
} tvmrt_layer_f32;

/*! \brief The tensors of one call; borrowed. */
typedef struct tvmrt_data_f32 {
  const float* x;
  const float* w;              /*!< Packed weights. */
  const float* bias;           /*!< Padded bias, or NULL for none. */
  const float* residual;       /*!< Added before clamping, laid out like y, or NULL; may be y. */
  float* y;                    /*!< Must not overlap x. */
  tvmrt_epilogue_f32 epilogue; /*!< Called on finished parts of y, or NULL. */
  const void* ctx;             /*!< Context of the epilogue. */
} tvmrt_data_f32;

/*! \brief Shared data of all tasks of a tiled layer. */
typedef struct tvmrt_job_f32 {
  const tvmrt_layer_f32* layer;
  const tvmrt_tiles_f32* tiles;
  const tvmrt_data_f32* data;
} tvmrt_job_f32;

/*! \brief Output channels of a block of packed weights. */
static inline int tvmrt_packed_f32(const tvmrt_job_f32* job) {
  return job->layer->packed > 0 ? job->layer->packed : job->tiles->block;
}

/*! \brief Segments that fit on a task's stack; the compiler plans scratch for more. */
enum { TVMRT_SEGMENTS_F32 = 9 };

/*! \brief The rows that a task reads, and the segments of the current row. */
typedef struct tvmrt_rows_f32 {
  tvmrt_row_reader reader;
  tvmrt_segment_f32* segments;
  void* scratch;
  const float* rounded; /* pixels whose rounded copy is in scratch, or NULL; their range */
  int64_t rounded_first, rounded_count;
  tvmrt_segment_f32 few[TVMRT_SEGMENTS_F32];
} tvmrt_rows_f32;

/*! \brief Initialise the reader. \return 0, or -1 with the text of tvmrt_scratch_alloc(). */
static inline int tvmrt_rows_f32_begin(tvmrt_rows_f32* r, const tvmrt_job_f32* job) {
  const tvmrt_row_plan* rows = &job->layer->rows;
  r->scratch = NULL;
  r->rounded = NULL;
  if (rows->scratch > 0) {
    r->scratch = tvmrt_scratch_alloc(rows->scratch);
    if (!r->scratch) return -1;
  }
  r->segments = rows->segments > TVMRT_SEGMENTS_F32 ? (tvmrt_segment_f32*)r->scratch : r->few;
  tvmrt_row_reader_init(&r->reader, &job->layer->window, rows, job->data->x, r->scratch);
  return 0;
}

/*! \brief Set the arguments shared by all rows of a group; the tile's x_stride is a row's. */
static inline void tvmrt_row_f32_init(const tvmrt_job_f32* job, tvmrt_rows_f32* r, int group,
                                      tvmrt_tile_row_f32_args* row) {
  const tvmrt_layer_f32* layer = job->layer;
  const int block = tvmrt_packed_f32(job);
  const int64_t blocks = (layer->out_channels + block - 1) / block;
  memset(row, 0, sizeof(*row));
  row->tiles = job->tiles;
  row->tile.segments = r->segments;
  row->tile.run = layer->rows.run;
  row->tile.x_stride = layer->rows.x_step;
  row->tile.w_stride = block;
  row->tile.out_stride = layer->window.y_stride;
  row->tile.residual_stride = layer->residual_stride;
  row->tile.lo = layer->lo;
  row->tile.hi = layer->hi;
  row->w_block = (int64_t)layer->weights * block;
  row->packed = block;
  row->w = job->data->w + group * blocks * row->w_block;
  row->bias = job->data->bias ? job->data->bias + group * blocks * block : NULL;
  row->channel = group * layer->out_channels;
  row->epilogue = job->data->epilogue;
  row->ctx = job->data->ctx;
}

/*! \brief Move the pointers to pixel `pixel` of the output. */
static inline void tvmrt_row_f32_set_pixel(const tvmrt_job_f32* job, int64_t pixel,
                                           tvmrt_tile_row_f32_args* row) {
  const float* residual = job->data->residual;
  row->pixel = pixel;
  row->out = job->data->y + pixel * job->layer->window.y_stride + row->channel;
  row->residual = residual ? residual + pixel * job->layer->residual_stride + row->channel : NULL;
}

/*! \brief Make tiles of pairs prefetch as many bytes as the weights of channels [c_begin, c_end)
 * have, from their end on, a part of `parts`: the next channels' weights, or usually the next
 * layer's. */
static inline void tvmrt_row_f32_set_prefetch(const tvmrt_job_f32* job, int c_begin, int c_end,
                                              int64_t part, int64_t parts,
                                              tvmrt_tile_row_f32_args* row) {
#ifndef TVMRT_NO_PREFETCH
  if (!job->tiles->pairs) return;
  const int64_t bytes = row->w_block * (int64_t)sizeof(float) / parts + 1;
  const int64_t blocks = (c_end - c_begin + row->packed - 1) / row->packed;
  row->tile.ahead = blocks * row->w_block * (int64_t)sizeof(float) + part * bytes;
  row->tile.ahead_bytes = bytes;
#else
  (void)job, (void)c_begin, (void)c_end, (void)part, (void)parts, (void)row;
#endif
}

/*! \brief Channels whose weights stay in the cache while the pixels stream past. */
static inline int tvmrt_channels_at_once(const tvmrt_tiles_f32* tiles) {
  return tiles->block * (tiles->blocks_per_group > 0 ? tiles->blocks_per_group : 1);
}

#endif /* TVM_RUNTIME_KERNELS_LAYER_F32_H_ */
