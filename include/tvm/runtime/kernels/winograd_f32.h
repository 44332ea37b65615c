/*!
 * \file winograd_f32.h
 * \brief Winograd convolution: 3x3, stride 1.
 *
 * The output is divided into Winograd tiles of `size` x `size` pixels, 2 or 4. The (size + 2) x
 * (size + 2) input pixels of a tile are transformed to the same number of elements of the transform
 * domain. Each element is multiplied by a transformed weight and summed over the input channels;
 * the sums are transformed back to the tile's pixels. Multiplications per pixel, input and output
 * channel: 9 directly, 4 with tiles of 2, 2.25 with tiles of 4. The products of one element over
 * many tiles are one matmul, with the micro-kernels of tile/gemm_f32.h.
 *
 * Along an axis a tile of 4 evaluates at 0, +-sqrt(1/2), +-sqrt(2) and infinity, which loses half a
 * digit less than integer points do; a tile of 2 at 0, +-1 and infinity. The compiler transforms
 * and packs the weights: [element][block][ic][packed], tvmrt.compiler.codegen.window.winograd.
 */
#ifndef TVM_RUNTIME_KERNELS_WINOGRAD_F32_H_
#define TVM_RUNTIME_KERNELS_WINOGRAD_F32_H_

#include <math.h>

#include "layer_f32.h"

/*! \brief A layer, precomputed by the compiler. Strides and pitches are in floats. */
typedef struct tvmrt_winograd_f32 {
  tvmrt_window window; /*!< 3x3, stride and dilation 1, one plane. */
  int32_t in_channels;
  int32_t out_channels;
  int32_t down; /*!< Winograd tiles in a column of the output, and in a row. */
  int32_t across;
  int32_t at_once;         /*!< Winograd tiles whose elements are in scratch: whole matmul tiles. */
  int32_t packed;          /*!< Channels of a block of packed weights. */
  int32_t residual_stride; /*!< Pixel stride of the residual. */
  int64_t w_position;      /*!< Stride of the weights between elements of the transform domain. */
  int64_t x_position;      /*!< Stride of the inputs between elements, in scratch. */
  int64_t y_position;      /*!< Stride of the sums of a block between elements. */
  int64_t scratch;         /*!< Scratch bytes of each task. */
  float lo;                /*!< Clamp bounds, -INFINITY and INFINITY for none. */
  float hi;
  int64_t work; /*!< In the unit of tvmrt_launch(). */
} tvmrt_winograd_f32;

typedef struct tvmrt_winograd_job {
  const tvmrt_winograd_f32* layer;
  const tvmrt_tiles_f32* tiles;
  const tvmrt_data_f32* data;
} tvmrt_winograd_job;

/* Output extents of Winograd tiles. For each of them, X is expanded to the transforms of an axis,
 * tvmrt_winograd_in_SIZE and tvmrt_winograd_out_SIZE, to their selection, and to a task: a size
 * without one of these does not compile. */
#define TVMRT_WINOGRAD_SIZES(X) X(2) X(4)

/* Maximum input pixels of a Winograd tile along an axis. */
enum { TVMRT_WINOGRAD_EDGE = 6 };
#define TVMRT_WINOGRAD_FITS(size) \
  typedef char tvmrt_winograd_fits_##size[(size) + 2 <= TVMRT_WINOGRAD_EDGE ? 1 : -1];
TVMRT_WINOGRAD_SIZES(TVMRT_WINOGRAD_FITS)

/* Position of a Winograd tile, clipped to the input and output. */
typedef struct tvmrt_winograd_tile {
  int64_t first; /* Offset of the first input pixel of the tile, which may be padding. */
  int row[2];    /* Rows of the tile that are inside the input: [begin, end). */
  int column[2];
  int64_t pixel; /* Index of its first output pixel. */
  int height;
  int width;
} tvmrt_winograd_tile;

/* A part of the output: Winograd tiles [begin, end), output channels [c_begin, c_end). */
typedef struct tvmrt_winograd_part {
  int64_t begin, end;
  int c_begin, c_end;
} tvmrt_winograd_part;

/* ---- one axis ---- */

TVMRT_INLINE void tvmrt_winograd_in_2(tvmrt_f32v* d) {
  const tvmrt_f32v d1 = d[1];
  d[0] = d[2] - d[0];
  d[1] = d1 + d[2];
  d[3] = d[3] - d1;
  d[2] = d[2] - d1;
}

TVMRT_INLINE void tvmrt_winograd_out_2(tvmrt_f32v* m) {
  const tvmrt_f32v m1 = m[1];
  m[0] = m[0] + m1 + m[2];
  m[1] = m1 - m[2] + m[3];
}

TVMRT_INLINE void tvmrt_winograd_in_4(tvmrt_f32v* d) {
  const float a = 0.70710678118654752f, b = 1.41421356237309505f; /* a * b = 1 */
  const tvmrt_f32v middle = TVMRT_F32V(splat)(-2.5f);
  const tvmrt_f32v d0 = TVMRT_F32V(fma)(middle, d[2], d[0]) + d[4];
  const tvmrt_f32v d5 = TVMRT_F32V(fma)(middle, d[3], d[1]) + d[5];
  const tvmrt_f32v even_a = TVMRT_F32V(fma)(TVMRT_F32V(splat)(-2.0f), d[2], d[4]);
  const tvmrt_f32v even_b = TVMRT_F32V(fma)(TVMRT_F32V(splat)(-0.5f), d[2], d[4]);
  const tvmrt_f32v odd_a = TVMRT_F32V(fma)(TVMRT_F32V(splat)(a), d[3], d[1] * -b);
  const tvmrt_f32v odd_b = TVMRT_F32V(fma)(TVMRT_F32V(splat)(b), d[3], d[1] * -a);
  d[0] = d0;
  d[1] = even_a + odd_a;
  d[2] = even_a - odd_a;
  d[3] = even_b + odd_b;
  d[4] = even_b - odd_b;
  d[5] = d5;
}

TVMRT_INLINE void tvmrt_winograd_out_4(tvmrt_f32v* m) {
  const float a = 0.70710678118654752f, b = 1.41421356237309505f;
  const tvmrt_f32v even_a = m[1] + m[2], odd_a = m[1] - m[2];
  const tvmrt_f32v even_b = m[3] + m[4], odd_b = m[3] - m[4];
  m[0] = m[0] + even_a + even_b;
  m[1] = TVMRT_F32V(fma)(TVMRT_F32V(splat)(b), odd_b, odd_a * a);
  m[2] = TVMRT_F32V(fma)(TVMRT_F32V(splat)(2.0f), even_b, even_a * 0.5f);
  m[3] = TVMRT_F32V(fma)(TVMRT_F32V(splat)(2.0f * b), odd_b, odd_a * (0.5f * a)) + m[5];
}

/* `size` is a constant wherever these are inlined; the arrays of an axis then stay in registers. */
#define TVMRT_WINOGRAD_IN(n) \
  if (size == (n)) tvmrt_winograd_in_##n(d);
TVMRT_INLINE void tvmrt_winograd_in(int size, tvmrt_f32v* d) {
  TVMRT_WINOGRAD_SIZES(TVMRT_WINOGRAD_IN);
}

#define TVMRT_WINOGRAD_OUT(n) \
  if (size == (n)) tvmrt_winograd_out_##n(m);
TVMRT_INLINE void tvmrt_winograd_out(int size, tvmrt_f32v* m) {
  TVMRT_WINOGRAD_SIZES(TVMRT_WINOGRAD_OUT);
}

TVMRT_INLINE tvmrt_f32v tvmrt_winograd_load(const float* from, int n) {
  return n == TVMRT_SIMD_LANES_F32 ? TVMRT_F32V(load)(from) : TVMRT_F32V(load_n)(from, n);
}

TVMRT_INLINE void tvmrt_winograd_store(float* to, tvmrt_f32v v, int n) {
  if (n == TVMRT_SIMD_LANES_F32) {
    TVMRT_F32V(store)(to, v);
  } else {
    TVMRT_F32V(store_n)(to, v, n);
  }
}

/* ---- a Winograd tile ---- */

TVMRT_INLINE tvmrt_winograd_tile tvmrt_winograd_locate_tile(const tvmrt_winograd_job* job, int size,
                                                            int64_t number) {
  const tvmrt_window* w = &job->layer->window;
  const int32_t across = job->layer->across, down = job->layer->down;
  const int32_t column = (int32_t)(number % across) * size;
  const int32_t row = (int32_t)(number / across % down) * size;
  const int64_t image = number / across / down;
  const int32_t top = row - w->pad[1], left = column - w->pad[2], edge = size + 2;
  tvmrt_winograd_tile at;
  at.first = ((image * w->in[1] + top) * w->in[2] + left) * w->x_stride;
  at.row[0] = top < 0 ? -top : 0;
  at.row[1] = w->in[1] - top < edge ? w->in[1] - top : edge;
  at.column[0] = left < 0 ? -left : 0;
  at.column[1] = w->in[2] - left < edge ? w->in[2] - left : edge;
  at.pixel = (image * w->out[1] + row) * w->out[2] + column;
  at.height = w->out[1] - row < size ? w->out[1] - row : size;
  at.width = w->out[2] - column < size ? w->out[2] - column : size;
  return at;
}

/* Transform the input of n channels; `whole`: the tile has no padding. */
TVMRT_INLINE void tvmrt_winograd_read(int size, const tvmrt_winograd_f32* layer, const float* x,
                                      const tvmrt_winograd_tile* at, int whole, int n, float* to) {
  const int edge = size + 2;
  const int64_t x_column = layer->window.x_stride, x_row = layer->window.in[2] * x_column;
  tvmrt_f32v each[TVMRT_WINOGRAD_EDGE][TVMRT_WINOGRAD_EDGE];
  for (int j = 0; j < edge; j++) {
    tvmrt_f32v line[TVMRT_WINOGRAD_EDGE];
    const int is_inside = whole || (j >= at->column[0] && j < at->column[1]);
    TVMRT_UNROLL(8)
    for (int i = 0; i < edge; i++) {
      const int exists = whole || (is_inside && i >= at->row[0] && i < at->row[1]);
      line[i] = exists ? tvmrt_winograd_load(x + at->first + i * x_row + j * x_column, n)
                       : TVMRT_F32V(splat)(0.0f);
    }
    tvmrt_winograd_in(size, line);
    TVMRT_UNROLL(8)
    for (int i = 0; i < edge; i++) each[i][j] = line[i];
  }
  for (int i = 0; i < edge; i++) {
    tvmrt_winograd_in(size, each[i]);
    TVMRT_UNROLL(8)
    for (int j = 0; j < edge; j++, to += layer->x_position) {
      tvmrt_winograd_store(to, each[i][j], n);
    }
  }
}

TVMRT_INLINE void tvmrt_winograd_read_tile(int size, const tvmrt_winograd_job* job, int64_t number,
                                           float* to) {
  const tvmrt_winograd_f32* layer = job->layer;
  const tvmrt_winograd_tile at = tvmrt_winograd_locate_tile(job, size, number);
  const int edge = size + 2, lanes = TVMRT_SIMD_LANES_F32;
  int c = 0;
  if (at.row[0] == 0 && at.column[0] == 0 && at.row[1] == edge && at.column[1] == edge) {
    for (; c + lanes <= layer->in_channels; c += lanes) {
      tvmrt_winograd_read(size, layer, job->data->x + c, &at, 1, TVMRT_SIMD_LANES_F32, to + c);
    }
  }
  for (; c < layer->in_channels; c += lanes) {
    const int n = layer->in_channels - c < lanes ? layer->in_channels - c : lanes;
    tvmrt_winograd_read(size, layer, job->data->x + c, &at, 0, n, to + c);
  }
}

/* A row of pixels of a tile: bias, residual and clamping of n channels. */
TVMRT_INLINE void tvmrt_winograd_write(const tvmrt_winograd_job* job, const tvmrt_f32v* sum,
                                       int64_t pixel, int pixels, int c, int n) {
  const tvmrt_winograd_f32* layer = job->layer;
  const tvmrt_data_f32* data = job->data;
  const tvmrt_f32v lo = TVMRT_F32V(splat)(layer->lo), hi = TVMRT_F32V(splat)(layer->hi);
  const tvmrt_f32v bias =
      data->bias ? tvmrt_winograd_load(data->bias + c, n) : TVMRT_F32V(splat)(0.0f);
  for (int j = 0; j < pixels; j++) {
    tvmrt_f32v total = sum[j] + bias;
    if (data->residual) {
      total += tvmrt_winograd_load(data->residual + (pixel + j) * layer->residual_stride + c, n);
    }
    total = TVMRT_F32V(min)(TVMRT_F32V(max)(total, lo), hi);
    tvmrt_winograd_store(data->y + (pixel + j) * layer->window.y_stride + c, total, n);
  }
}

/* Transform the sums in `from` back to the pixels of a tile, in n channels from c on. */
TVMRT_INLINE void tvmrt_winograd_transform_back(int size, const tvmrt_winograd_job* job,
                                                const tvmrt_winograd_tile* at, const float* from,
                                                int c, int n) {
  const int edge = size + 2;
  const int64_t position = job->layer->y_position;
  tvmrt_f32v each[TVMRT_WINOGRAD_EDGE][TVMRT_WINOGRAD_EDGE];
  for (int j = 0; j < edge; j++) {
    tvmrt_f32v line[TVMRT_WINOGRAD_EDGE];
    TVMRT_UNROLL(8)
    for (int i = 0; i < edge; i++) {
      line[i] = tvmrt_winograd_load(from + (i * edge + j) * position, n);
    }
    tvmrt_winograd_out(size, line);
    TVMRT_UNROLL(8)
    for (int i = 0; i < size; i++) each[i][j] = line[i];
  }
  for (int i = 0; i < at->height; i++) {
    tvmrt_winograd_out(size, each[i]);
    tvmrt_winograd_write(job, each[i], at->pixel + (int64_t)i * job->layer->window.out[2],
                         at->width, c, n);
  }
}

TVMRT_INLINE void tvmrt_winograd_write_tile(int size, const tvmrt_winograd_job* job,
                                            const tvmrt_winograd_part* part, int64_t number,
                                            const float* from) {
  const tvmrt_winograd_f32* layer = job->layer;
  const tvmrt_data_f32* data = job->data;
  const tvmrt_winograd_tile at = tvmrt_winograd_locate_tile(job, size, number);
  const int lanes = TVMRT_SIMD_LANES_F32, end = part->c_end;
  int c = part->c_begin;
  for (; c + lanes <= end; c += lanes, from += lanes) {
    tvmrt_winograd_transform_back(size, job, &at, from, c, TVMRT_SIMD_LANES_F32);
  }
  if (c < end) tvmrt_winograd_transform_back(size, job, &at, from, c, end - c);
  if (!data->epilogue) return;
  for (int i = 0; i < at.height; i++) {
    const int64_t pixel = at.pixel + (int64_t)i * layer->window.out[2];
    data->epilogue(data->y + pixel * layer->window.y_stride + part->c_begin, pixel, at.width,
                   part->c_begin, end - part->c_begin, data->ctx);
  }
}

/* ---- all Winograd tiles ---- */

/* Time of the largest task if tasks divide Winograd tiles by whole matmul tiles: 1 is ideal. The
 * last matmul tile may be narrow. */
static inline float tvmrt_winograd_imbalance(int64_t count, int64_t width, int num_task) {
  int64_t largest = 0;
  for (int task = 0; task < num_task; task++) {
    const int64_t own = tvmrt_task_begin(count, width, task + 1, num_task) -
                        tvmrt_task_begin(count, width, task, num_task);
    if (own > largest) largest = own;
  }
  return (float)(largest * num_task) / (float)(count > 0 ? count : 1);
}

/* Few Winograd tiles are divided by channels, which also reads each weight only once. Every task
 * then transforms all of the input, which takes as long as TVMRT_WINOGRAD_READ_COST multiplications
 * per element. */
#define TVMRT_WINOGRAD_READ_COST 40.0f
static inline tvmrt_winograd_part tvmrt_winograd_part_of(const tvmrt_winograd_job* job, int task,
                                                         int num_task) {
  const tvmrt_winograd_f32* layer = job->layer;
  const int channels = layer->out_channels, block = job->tiles->block;
  const int64_t width = job->tiles->width[0] > 0 ? job->tiles->width[0] : 1;
  const int64_t count = (int64_t)layer->window.batch * layer->down * layer->across;
  const float by_tiles = tvmrt_winograd_imbalance(count, width, num_task);
  const float by_channels = tvmrt_task_imbalance((channels + block - 1) / block, num_task) +
                            TVMRT_WINOGRAD_READ_COST * (float)(num_task - 1) / (float)channels;
  tvmrt_winograd_part part = {0, count, 0, channels};
  if (tvmrt_splits_channels(by_channels, by_tiles, INFINITY, (float)count, num_task)) {
    part.c_begin = (int)tvmrt_task_begin(channels, block, task, num_task);
    part.c_end = (int)tvmrt_task_begin(channels, block, task + 1, num_task);
  } else {
    part.begin = tvmrt_task_begin(count, width, task, num_task);
    part.end = tvmrt_task_begin(count, width, task + 1, num_task);
  }
  return part;
}

/* End of the channels that are computed with channel c: those of a block of weights. */
static inline int tvmrt_winograd_block_end(const tvmrt_winograd_f32* layer, int c, int c_end) {
  const int end = (c / layer->packed + 1) * layer->packed;
  return end < c_end ? end : c_end;
}

/* For each element, the sums over the input channels of the tiles in scratch, in channels of one
 * block of weights. `next_weights`: offset of the weights read next, after those of the last
 * element; 0 for none. */
static inline int tvmrt_winograd_matmuls(const tvmrt_winograd_job* job,
                                         const tvmrt_winograd_part* chunk, int positions,
                                         int64_t next_weights, const float* inputs, float* sums) {
  const tvmrt_winograd_f32* layer = job->layer;
  const int block = chunk->c_begin / layer->packed, channel = chunk->c_begin % layer->packed;
  const int64_t floats = (int64_t)layer->in_channels * layer->packed;
  const int64_t winograd_tiles = chunk->end - chunk->begin,
                tile_calls = tvmrt_tile_count_f32(job->tiles, winograd_tiles);
  tvmrt_segment_f32 segment = {NULL, 0};
  tvmrt_tile_row_f32_args row;
  int rc = 0;
  memset(&row, 0, sizeof(row));
  row.tiles = job->tiles;
  row.tile.segments = &segment;
  row.tile.segment_count = 1;
  row.tile.run = layer->in_channels;
  row.tile.x_stride = layer->in_channels;
  row.tile.w_stride = layer->packed;
  row.tile.out_stride = layer->packed;
  row.tile.lo = -INFINITY;
  row.tile.hi = INFINITY;
  row.packed = layer->packed;
  row.w = job->data->w + block * floats + channel;
  for (int p = 0; p < positions && rc == 0; p++) {
    segment.x = inputs + p * layer->x_position;
    row.out = sums + p * layer->y_position;
    const int64_t ahead = p + 1 < positions ? layer->w_position : next_weights;
    row.tile.fetch = 0;
    if (ahead)
      tvmrt_set_prefetch_f32(&row.tile, row.w + ahead, floats, tile_calls * layer->in_channels);
    rc = tvmrt_tile_row_f32(&row, 0, winograd_tiles, 0, chunk->c_end - chunk->c_begin);
    row.w += layer->w_position;
  }
  return rc;
}

/* The Winograd tiles in scratch, one block of channels after the other: each weight is read once
 * for all of them, and sums stay in the cache. `more`: the first weights are read again. */
TVMRT_INLINE int tvmrt_winograd_blocks(int size, const tvmrt_winograd_job* job,
                                       const tvmrt_winograd_part* all, int more,
                                       const float* inputs, float* sums) {
  const tvmrt_winograd_f32* layer = job->layer;
  const int positions = (size + 2) * (size + 2), first = all->c_begin / layer->packed;
  const int64_t block = (int64_t)layer->in_channels * layer->packed;
  const int64_t last = (positions - 1) * layer->w_position;
  tvmrt_winograd_part chunk = *all;
  int rc = 0;
  for (int c = all->c_begin; c < all->c_end && rc == 0; c = chunk.c_end) {
    const int blocks = c / layer->packed - first;
    chunk.c_begin = c;
    chunk.c_end = tvmrt_winograd_block_end(layer, c, all->c_end);
    const int64_t next_weights = chunk.c_end < all->c_end ? block - last
                                 : more                   ? -blocks * block - last
                                                          : 0;
    rc = tvmrt_winograd_matmuls(job, &chunk, positions, next_weights, inputs, sums);
    for (int64_t i = chunk.begin; i < chunk.end && rc == 0; i++) {
      tvmrt_winograd_write_tile(size, job, &chunk, i, sums + (i - chunk.begin) * layer->packed);
    }
  }
  return rc;
}

TVMRT_INLINE int tvmrt_winograd_task(int size, const tvmrt_winograd_job* job, int task,
                                     int num_task) {
  const tvmrt_winograd_f32* layer = job->layer;
  const int positions = (size + 2) * (size + 2);
  const tvmrt_winograd_part part = tvmrt_winograd_part_of(job, task, num_task);
  tvmrt_winograd_part chunk = part;
  int rc = 0;
  if (part.begin == part.end || part.c_begin == part.c_end) return 0;
  float* inputs = (float*)tvmrt_scratch_alloc(layer->scratch);
  if (!inputs) return -1;
  for (; chunk.begin < part.end && rc == 0; chunk.begin = chunk.end) {
    const int64_t left = part.end - chunk.begin;
    chunk.end = chunk.begin + (left < layer->at_once ? left : layer->at_once);
    for (int64_t i = chunk.begin; i < chunk.end; i++) {
      tvmrt_winograd_read_tile(size, job, i, inputs + (i - chunk.begin) * layer->in_channels);
    }
    rc = tvmrt_winograd_blocks(size, job, &chunk, chunk.end < part.end, inputs,
                               inputs + positions * layer->x_position);
  }
  if (tvmrt_scratch_free(inputs) != 0) rc = -1;
  return rc;
}

#define TVMRT_WINOGRAD_TASK(size)                                                              \
  static inline int tvmrt_winograd_task_##size(int task, TVMParallelGroupEnv* env,             \
                                               void* closure) {                                \
    return tvmrt_winograd_task(size, (const tvmrt_winograd_job*)closure, task, env->num_task); \
  }
TVMRT_WINOGRAD_SIZES(TVMRT_WINOGRAD_TASK)

/*!
 * \brief y = clamp(convolution(x, w) + bias + residual), then the epilogue, with Winograd tiles of
 * 2 x 2 pixels.
 * \param layer The layer.
 * \param tiles Matmul tiles whose widths cover a row of all Winograd tiles.
 * \param data The tensors; the bias has out_channels floats. y must not overlap x.
 * \return 0; -1 if scratch memory runs out or a thread failed.
 *
 * Uses the threads of the runtime if the layer is large enough. The result does not depend on their
 * number. The error is some 1e-6 of the largest results, compared with 1e-7 for direct convolution.
 */
static inline int tvmrt_winograd_f32_2(const tvmrt_winograd_f32* layer,
                                       const tvmrt_tiles_f32* tiles, const tvmrt_data_f32* data) {
  tvmrt_winograd_job job = {layer, tiles, data};
  return tvmrt_launch(tvmrt_winograd_task_2, &job, layer->work, TVMRT_PARALLEL_MIN_MACS);
}

/*! \brief tvmrt_winograd_f32_2() with Winograd tiles of 4 x 4 pixels. */
static inline int tvmrt_winograd_f32_4(const tvmrt_winograd_f32* layer,
                                       const tvmrt_tiles_f32* tiles, const tvmrt_data_f32* data) {
  tvmrt_winograd_job job = {layer, tiles, data};
  return tvmrt_launch(tvmrt_winograd_task_4, &job, layer->work, TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_WINOGRAD_F32_H_ */
