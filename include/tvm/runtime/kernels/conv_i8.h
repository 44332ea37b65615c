/*!
 * \file conv_i8.h
 * \brief Convolution of 8-bit tensors, 1-D to 3-D, dense, grouped or depthwise.
 *
 * window.h describes the memory layout and the reading of windows; input and output may be channel
 * slices of wider tensors. A matrix product is a 1 x 1 convolution of M pixels, K input and N
 * output channels. The tiles come from tile/gemm_i8.h (dense and grouped) or depthwise_i8.h.
 *
 * A segment has at least 4 bytes. Shorter segments are replaced by im2col, with zeros to a multiple
 * of 4. Rows of the image in the padding are read from a row of padding.
 *
 * Example: 3 x 3, IC 3, OC 64, padding 1, stride 2 on AVX-512 VNNI with NR 4: a line buffer, 3
 * segments with run 9, which are 3 quads each (bytes 0-3, 4-7 and 5-8; in the last only byte 8 has
 * a weight), one block of channels: 3 * 3 quads * 4 vectors * 64 bytes = 2304 bytes of weights.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_I8_H_
#define TVM_RUNTIME_KERNELS_CONV_I8_H_

#include <tvm/runtime/c_backend_api.h>

#include "conv_i8_amx.h"
#include "parallel.h"
#include "tile/epilogue_i8.h"
#include "tile/gemm_i8.h"
#include "window.h"

/*! \brief Value of tvmrt_conv_i8.overflow_row if no kernel row is read twice. */
#define TVMRT_NO_ROW (-1)

/*! \brief A layer and its tiling, precomputed by the compiler
 * (tvmrt.compiler.codegen.window.plan_i8). */
typedef struct tvmrt_conv_i8 {
  tvmrt_window window; /*!< In maximally long rows; elements are bytes. */
  tvmrt_row_plan rows;
  int32_t groups;
  int32_t in_c;         /*!< Input channels of a group. */
  int32_t out_c;        /*!< Output channels of a group. */
  int32_t padded;       /*!< out_c padded to whole vectors (depthwise: blocks). */
  int32_t x_signed;     /*!< 1: int8, 0: uint8; as in the tiles. */
  int32_t x_zero;       /*!< Zero point of the input and value of padding. */
  int32_t depthwise;    /*!< 1: every channel has its own kernel, see depthwise_i8.h. */
  int32_t overflow_row; /*!< Kernel row that a depthwise tile reads twice, or TVMRT_NO_ROW. */
  /*! {segment, first byte} of each overflow quad, counted twice, see tile/gemm_i8.h. */
  int32_t overflow_quads[TVMRT_TILE_I8_MAX_OVERFLOW_QUADS][2];
  int32_t num_overflow_quads; /*!< Number of those quads. */
  int32_t block;              /*!< Output channels of a block. */
  int32_t blocks;             /*!< Blocks of a group. */
  int32_t full_blocks;        /*!< Blocks that tile[0] computes; tile[1] computes the tail. */
  int32_t blocks_at_once;     /*!< Blocks whose weights stay in the cache. */
  int64_t channel_bytes;      /*!< Bytes of packed weights per output channel. */
  int32_t packed; /*!< Channels of a block of packed weights, a multiple of a tile's; 0: equal. */
  int32_t mr;     /*!< Pixels in a tile (MR). */
  int32_t tail;   /*!< Pixels in a tail tile; 0: it takes all of them. */
  int32_t chunk;  /*!< Pixels of a row that are finished for all blocks at a time. */
  int32_t chunks; /*!< Chunks in a row. */
  /*! Tiles for mr pixels and for the tail of a row. Unused ones are NULL. */
  tvmrt_tile_i8 tile[2][2];
  /*! \brief Scratch offsets of a row of padding, im2col windows, window sums of a chunk, int32
   * accumulators of a chunk. */
  int64_t at_padding_row, at_im2col, at_window_sums, at_acc;
  int64_t work;                 /*!< In the unit of tvmrt_launch(). */
  int32_t by_blocks;            /*!< 1: threads divide the blocks of channels, 0: the pixels. */
  int32_t threads;              /*!< 1: calling thread only; 0: any number for enough work. */
  const tvmrt_conv_i8_amx* amx; /*!< NULL: all tiles but those of tile/gemm_i8_amx.h. */
} tvmrt_conv_i8;

/*! \brief The tensors of one call; borrowed. */
typedef struct tvmrt_conv_i8_data {
  const void* x;
  const int8_t* weights; /*!< Packed, see tile/gemm_i8.h. */
  const int32_t* bias;   /*!< Folded; [groups][channels of a group padded to whole vectors]. */
  const float* scale;    /*!< Laid out like bias; NULL with an epilogue that needs none. Fixed-point
                            tiles: the arrays of tile/simd_i8.h, each laid out like bias. */
  const int32_t* shift;  /*!< Laid out like bias, or NULL. */
  void* y;
  const tvmrt_i8_range* range;      /*!< Range of the output bytes. Not used with an epilogue. */
  tvmrt_i8_epilogue epilogue;       /*!< NULL: y = requantised bytes. */
  const void* ctx;                  /*!< Context of the epilogue. */
  int32_t y_bytes;                  /*!< Size of one element of y: 1 or 4. */
  const tvmrt_add_i8* residual_add; /*!< Scales of a fused residual add; not with an epilogue. */
  const void* added;                /*!< Residual bytes, indexed like y; may be y. */
  int64_t added_stride;             /*!< Pixel stride of it in bytes. */
} tvmrt_conv_i8_data;

/*! \brief State of one task. */
typedef struct tvmrt_conv_i8_task_state {
  const tvmrt_conv_i8* conv;
  const tvmrt_conv_i8_data* data;
  tvmrt_tile_i8_args args;
  tvmrt_row_reader reader;
  uint64_t small[8];       /* replaces scratch if 64 bytes suffice: a few segments */
  const uint8_t** segment; /* scratch: segment pointers */
  const uint8_t* none;     /* scratch: a row of padding */
  uint8_t* im2col;         /* scratch: im2col windows */
  int32_t* sums;           /* scratch: window sums of a chunk */
  int32_t* acc;            /* scratch: int32 accumulators of a chunk */
  int64_t acc_stride;
  tvmrt_tile_i8_amx amx; /* only if conv->amx is not NULL */
} tvmrt_conv_i8_task_state;

/*!
 * \brief Set up the scratch of a task.
 * \param block [out] The allocation to free, or NULL.
 * \return 0, or -1 with the text of tvmrt_scratch_alloc().
 */
static inline int tvmrt_conv_i8_begin(tvmrt_conv_i8_task_state* w, const tvmrt_conv_i8* c,
                                      const tvmrt_conv_i8_data* data, void** block) {
  const tvmrt_row_plan* rows = &c->rows;
  uint8_t* p = (uint8_t*)w->small;
  *block = NULL;
  if (rows->scratch > 0) {
    p = (uint8_t*)tvmrt_scratch_alloc(rows->scratch);
    if (p == NULL) return -1;
    *block = p;
  }
  memset(&w->args, 0, sizeof(w->args));
  w->conv = c;
  w->data = data;
  w->segment = (const uint8_t**)(void*)p;
  w->none = p + c->at_padding_row;
  w->im2col = p + c->at_im2col;
  w->sums = (int32_t*)(void*)(p + c->at_window_sums);
  w->acc = (int32_t*)(void*)(p + c->at_acc);
  w->acc_stride = (int64_t)c->groups * c->padded;
  w->args.segment = w->segment;
  w->args.segments = rows->segments;
  w->args.run = rows->run;
  w->args.x_pixel = rows->x_pixel;
  w->args.x_step = rows->x_step;
  w->args.overflow_quads = c->overflow_quads[0];
  w->args.num_overflow_quads = c->num_overflow_quads;
  w->args.range = data->epilogue != NULL ? NULL : data->range;
  w->args.residual_add = data->residual_add;
  w->args.added_step = data->added_stride;
  w->args.fixed_stride = w->acc_stride;
  if (c->amx != NULL) {
    tvmrt_conv_i8_begin_amx(&w->amx, c->amx, c->window.out[2]);
    w->args.amx = &w->amx;
  }
  memset(p + c->at_padding_row, c->x_zero, (size_t)(c->at_im2col - c->at_padding_row));
  tvmrt_row_reader_init(&w->reader, &c->window, rows, data->x, p);
  return 0;
}

/*! \brief Row pitch in pixels of a padded image copy, or 0 without one. */
static inline int32_t tvmrt_conv_i8_padded_pitch(const tvmrt_conv_i8* c) {
  return c->amx != NULL ? c->amx->padded_pitch : 0;
}

/*! \brief Make the padded copy of an image, unless it is there already. */
static inline void tvmrt_conv_i8_copy_padded_image(tvmrt_conv_i8_task_state* w, int32_t image) {
  const tvmrt_window* window = &w->conv->window;
  const tvmrt_row_plan* rows = &w->conv->rows;
  uint8_t* to = w->reader.line_buffer;
  for (int32_t kh = 0; kh < window->kernel[1]; kh++) {
    w->segment[kh] = to + (int64_t)kh * rows->pitch;
  }
  if (w->amx.image == image) return;
  w->amx.image = image;
  for (int32_t h = -window->pad[1]; h < rows->slots[1] - window->pad[1]; h++, to += rows->pitch) {
    if (h < 0 || h >= window->in[1]) {
      memset(to, rows->fill, (size_t)rows->pitch);
    } else {
      tvmrt_copy_pixels(&w->reader, to + (int64_t)rows->left * rows->copied,
                        tvmrt_input_row(&w->reader, image, 0, h));
    }
  }
}

/*! \brief Set the segment pointers of output row `row`; `row` counts [batch][depth][height]. */
static inline void tvmrt_conv_i8_set_segments(tvmrt_conv_i8_task_state* w, int32_t row) {
  const tvmrt_window* window = &w->conv->window;
  const tvmrt_row_plan* rows = &w->conv->rows;
  const tvmrt_row_position at = tvmrt_locate_row(window, row);
  const uint8_t** segment = w->segment;
  if (tvmrt_conv_i8_padded_pitch(w->conv) > 0) {
    tvmrt_conv_i8_copy_padded_image(w, row);
    return;
  }
  if (w->conv->amx != NULL && w->conv->amx->row_pairs) {
    tvmrt_read_row_pairs(&w->reader, w->none, at, segment);
    return;
  }
  if (rows->source == TVMRT_SOURCE_IM2COL) {
    segment[0] = w->im2col;
    return;
  }
  for (int32_t kd = 0; kd < window->kernel[0]; kd++) {
    for (int32_t kh = 0; kh < window->kernel[1]; kh++) {
      const uint8_t* start = tvmrt_read_row(&w->reader, at.image, at.d + kd * window->dilation[0],
                                            at.h + kh * window->dilation[1]);
      if (start == NULL) start = w->none;
      for (int32_t t = 0; t < rows->taps; t++) {
        *segment++ = start + t * window->dilation[2] * rows->x_pixel;
      }
    }
  }
  if (w->conv->overflow_row >= 0) *segment = w->segment[w->conv->overflow_row];
}

/*! \brief Rows and row length of a task's loops. All pixels are one row with im2col across rows,
 * the pixels of an image with a padded image copy. */
static inline int64_t tvmrt_conv_i8_rows(const tvmrt_conv_i8* c) {
  if (c->amx != NULL && c->amx->im2col_across_rows) return 1;
  return tvmrt_conv_i8_padded_pitch(c) > 0 ? c->window.batch : tvmrt_window_rows(&c->window);
}
static inline int32_t tvmrt_conv_i8_width(const tvmrt_conv_i8* c) {
  const tvmrt_window* s = &c->window;
  if (c->amx == NULL) return s->out[2];
  if (c->amx->padded_pitch > 0) return (s->out[1] - 1) * c->amx->padded_pitch + s->out[2];
  return c->amx->im2col_across_rows ? (int32_t)(tvmrt_window_rows(s) * s->out[2]) : s->out[2];
}

/*! \brief Copy the window columns from x on of an input row, for one group; `from` is the row's
 * pixel 0, or NULL for a row of padding. Return the end of the written bytes. */
static inline uint8_t* tvmrt_conv_i8_im2col_row(const tvmrt_conv_i8* c, const uint8_t* from,
                                                int32_t x, uint8_t* to) {
  const tvmrt_window* s = &c->window;
  const int32_t columns = s->kernel[2], step = s->dilation[2];
  const size_t channels = (size_t)c->in_c, all = channels * (size_t)columns;
  if (from == NULL) {
    memset(to, c->x_zero, all);
  } else if (x >= 0 && x + columns <= s->in[2] && step == 1 && s->x_stride == c->in_c) {
    memcpy(to, from + x * s->x_stride, all);
  } else {
    for (int32_t i = 0; i < columns; i++, x += step) {
      if (x >= 0 && x < s->in[2]) {
        memcpy(to + (size_t)i * channels, from + x * s->x_stride, channels);
      } else {
        memset(to + (size_t)i * channels, c->x_zero, channels);
      }
    }
  }
  return to + all;
}

/*! \brief im2col of a chunk for one group: [pixel][kd][kh][kw][channel of the group], then
 * zeros. */
static inline void tvmrt_conv_i8_im2col(tvmrt_conv_i8_task_state* w, int32_t row, int32_t first,
                                        int32_t pixels, int32_t group) {
  const tvmrt_conv_i8* c = w->conv;
  const tvmrt_window* s = &c->window;
  const uint8_t* x = (const uint8_t*)w->data->x + (int64_t)group * c->in_c;
  for (int32_t p = 0; p < pixels; p++) {
    const int32_t all = row * s->out[2] + first + p;
    const tvmrt_row_position at = tvmrt_locate_row(s, all / s->out[2]);
    const int32_t left = all % s->out[2] * s->stride[2] - s->pad[2];
    uint8_t* to = w->im2col + (int64_t)p * w->args.run;
    uint8_t* end = to + w->args.run;
    for (int32_t kd = 0; kd < s->kernel[0]; kd++) {
      for (int32_t kh = 0; kh < s->kernel[1]; kh++) {
        const int32_t d = at.d + kd * s->dilation[0], h = at.h + kh * s->dilation[1];
        const int inside = d >= 0 && d < s->in[0] && h >= 0 && h < s->in[1];
        const int64_t pixel = (((int64_t)at.image * s->in[0] + d) * s->in[1] + h) * s->in[2];
        to = tvmrt_conv_i8_im2col_row(c, inside ? x + pixel * s->x_stride : NULL, left, to);
      }
    }
    memset(to, 0, (size_t)(end - to));
  }
}

/*! \brief Index of an output pixel; with a padded image copy, of pixel 0 of the image. */
static inline int64_t tvmrt_conv_i8_pixel(const tvmrt_conv_i8* c, int32_t row, int32_t pixel) {
  if (tvmrt_conv_i8_padded_pitch(c) > 0) return (int64_t)row * c->window.out[1] * c->window.out[2];
  return (int64_t)row * c->window.out[2] + pixel;
}

/*! \brief Byte offset from the segment pointers to the window of a row's pixel, for one group. */
static inline int64_t tvmrt_conv_i8_x_offset(const tvmrt_conv_i8_task_state* w, int32_t pixel,
                                             int32_t group) {
  if (w->conv->rows.source == TVMRT_SOURCE_IM2COL) return 0;
  return pixel * w->args.x_step + (int64_t)group * w->conv->in_c;
}

/*! \brief Return 1 if any of n values is not 0. */
static inline int tvmrt_i8_any(const int32_t* v, int32_t n) {
  int32_t any = 0;
  for (int32_t i = 0; i < n; i++) any |= v[i];
  return any != 0;
}

/*! \brief Set the weight pointers of a block's vectors; the block starts at `channel` of its
 * group. */
static inline void tvmrt_conv_i8_set_vectors(tvmrt_conv_i8_task_state* w, int32_t group,
                                             int32_t channel) {
  const tvmrt_conv_i8* c = w->conv;
  const int32_t packed = c->packed > 0 ? c->packed : c->block;
  for (int32_t i = 0; i < 4 && i * 16 < c->block && channel < c->padded; i++, channel += 16) {
    const int32_t inside = channel % packed, channels_left = c->padded - (channel - inside);
    const int64_t first = (int64_t)group * c->padded + channel - inside;
    w->amx.vector[i].weights = w->data->weights + first * c->channel_bytes + 4 * inside;
    w->amx.vector[i].step = 4 * (channels_left < packed ? channels_left : packed);
  }
}

/*! \brief Set the weights that AMX tiles prefetch, in equal parts per product, while a task
 * multiplies `blocks` of weights from `block` on. They prefetch as many bytes as these blocks
 * have, from prefetch_bytes after them, so that layers with few weights prefetch for layers with
 * many. A task with a part of the blocks prefetches its own blocks only, one block ahead. */
static inline void tvmrt_conv_i8_set_prefetch(tvmrt_conv_i8_task_state* w, int32_t block,
                                              int32_t blocks, int64_t chunks) {
  const tvmrt_conv_i8* c = w->conv;
  const int32_t packed = c->packed > 0 ? c->packed : c->block, all = c->groups * c->blocks;
  const int64_t one = packed * c->channel_bytes, tiles = (c->chunk + c->mr - 1) / c->mr;
  const int64_t from = (int64_t)(block / c->blocks) * c->padded + block % c->blocks * c->block;
  const int64_t parameter_bytes = 8 * (int64_t)c->groups * c->padded;
  const int64_t distance = c->amx->prefetch_bytes;
  const int64_t by = blocks < all && one < distance ? one : distance;
  const int64_t bytes =
      (int64_t)blocks * c->block * c->channel_bytes + (blocks < all ? -by : parameter_bytes);
  if (bytes <= 0) return;
  w->amx.ahead = (uintptr_t)w->data->weights + (uintptr_t)(from * c->channel_bytes + by);
  w->amx.ahead_end = w->amx.ahead + (uintptr_t)bytes;
  const int32_t products = c->rows.segments * (c->rows.run / (4 * c->amx->words));
  const int64_t parts = chunks * tiles * blocks * (2 * products + c->mr * c->block / 64);
  w->amx.ahead_lines = (int32_t)((bytes / 32 + parts - 1) / parts);
}

/*! \brief All pixels of a chunk with AMX tiles. */
static inline void tvmrt_conv_i8_amx_rows(tvmrt_conv_i8_task_state* w, const tvmrt_tile_i8* tile,
                                          int32_t pixels, int64_t offset, void* y,
                                          const int32_t* sums) {
  const tvmrt_conv_i8* c = w->conv;
  const int is_partial = pixels < c->mr;
  w->amx.tiles = !is_partial ? pixels / c->mr : c->tail > 0 ? pixels / c->tail : 1;
  w->amx.left = is_partial ? 0 : pixels % c->mr;
  tile[is_partial](&w->args, offset, y, sums);
  if (w->amx.ahead >= w->amx.ahead_end) w->amx.ahead_lines = 0;
}

/*! \brief All pixels of a chunk for one block of channels. */
static inline void tvmrt_conv_i8_block(tvmrt_conv_i8_task_state* w, int32_t row, int32_t first,
                                       int32_t pixels, int32_t block) {
  const tvmrt_conv_i8* c = w->conv;
  const tvmrt_conv_i8_data* data = w->data;
  const int32_t group = block / c->blocks, of_group = block % c->blocks;
  const int32_t channel = of_group * c->block;
  const tvmrt_tile_i8* tile = c->tile[of_group >= c->full_blocks];
  const int32_t left = c->out_c - channel, filled = c->padded - channel;
  const int64_t padded = (int64_t)group * c->padded + channel;
  const int32_t inside = c->packed > 0 ? channel % c->packed : 0;
  const int32_t channels_left = c->padded - (channel - inside);
  const int64_t offset = tvmrt_conv_i8_x_offset(w, first, group) + c->depthwise * channel;
  uint8_t* y;
  int64_t y_step;
  w->args.weights = data->weights + (padded - inside) * c->channel_bytes + 4 * inside;
  w->args.w_step = 4 * (channels_left < c->packed ? channels_left : c->packed);
  if (c->amx != NULL) tvmrt_conv_i8_set_vectors(w, group, channel);
  w->args.bias = data->bias + padded;
  w->args.scale = data->scale != NULL ? data->scale + padded : NULL;
  w->args.shift = data->shift != NULL ? data->shift + padded : NULL;
  w->args.channels = left < c->block ? left : c->block;
  if (data->epilogue != NULL) {
    w->args.y_step = w->acc_stride;
    y = (uint8_t*)(w->acc + padded);
    y_step = 4 * w->acc_stride;
  } else {
    w->args.y_step = c->window.y_stride;
    y = (uint8_t*)data->y + tvmrt_conv_i8_pixel(c, row, first) * c->window.y_stride +
        (int64_t)group * c->out_c + channel;
    y_step = c->window.y_stride;
  }
  const int32_t in_block = filled < c->block ? filled : c->block;
  const int shifted = w->args.shift != NULL && tvmrt_i8_any(w->args.shift, in_block);
  const int32_t* sums = shifted ? w->sums : NULL;
  const uint8_t* added = NULL;
  if (data->added != NULL) {
    added = (const uint8_t*)data->added + tvmrt_conv_i8_pixel(c, row, first) * data->added_stride +
            (int64_t)group * c->out_c + channel;
  }
  const int64_t added_step = data->added_stride;
  int32_t p = 0;
  if (c->amx != NULL) {
    w->args.added = added;
    tvmrt_conv_i8_amx_rows(w, tile, pixels, offset, y, sums);
    return;
  }
  for (; p + c->mr <= pixels; p += c->mr) {
    if (added != NULL) w->args.added = added + p * added_step;
    tile[0](&w->args, offset + p * w->args.x_step, y + p * y_step, sums != NULL ? sums + p : NULL);
  }
  for (const int32_t tail = c->tail > 0 ? c->tail : c->mr; p < pixels; p += tail) {
    if (added != NULL) w->args.added = added + p * added_step;
    tile[1](&w->args, offset + p * w->args.x_step, y + p * y_step, sums != NULL ? sums + p : NULL);
  }
}

/*! \brief Pass the accumulators of some blocks of one group to the epilogue. */
static inline void tvmrt_conv_i8_finish(const tvmrt_conv_i8_task_state* w, int32_t row,
                                        int32_t first, int32_t pixels, int32_t block0,
                                        int32_t block1) {
  const tvmrt_conv_i8* c = w->conv;
  const int32_t group = block0 / c->blocks;
  const int32_t channel = block0 % c->blocks * c->block;
  const int32_t end = (block1 - group * c->blocks) * c->block;
  tvmrt_i8_rows rows;
  rows.acc = w->acc + (int64_t)group * c->padded + channel;
  rows.acc_stride = w->acc_stride;
  rows.pixel = tvmrt_conv_i8_pixel(c, row, first);
  rows.pixels = pixels;
  rows.channel = group * c->out_c + channel;
  rows.channels = (end < c->out_c ? end : c->out_c) - channel;
  rows.y =
      (uint8_t*)w->data->y + (rows.pixel * c->window.y_stride + rows.channel) * w->data->y_bytes;
  rows.y_stride = c->window.y_stride;
  w->data->epilogue(&rows, w->data->ctx);
}

/*! \brief One chunk of pixels for the blocks [block0, block1). */
static inline void tvmrt_conv_i8_chunk(tvmrt_conv_i8_task_state* w, int32_t row, int32_t first,
                                       int32_t block0, int32_t block1) {
  const tvmrt_conv_i8* c = w->conv;
  const int32_t tail = tvmrt_conv_i8_width(c) - first, pixels = tail < c->chunk ? tail : c->chunk;
  int32_t begin = block0;
  int32_t group = -1;
  for (int32_t block = block0; block < block1; block++) {
    if (block / c->blocks != group) {
      group = block / c->blocks;
      begin = block;
      if (c->rows.source == TVMRT_SOURCE_IM2COL) {
        tvmrt_conv_i8_im2col(w, row, first, pixels, group);
      }
      if (w->data->shift != NULL) {
        int64_t offset = tvmrt_conv_i8_x_offset(w, first, group);
        tvmrt_i8_sum_windows(&w->args, offset, pixels, c->x_signed, w->sums);
      }
    }
    tvmrt_conv_i8_block(w, row, first, pixels, block);
    if (w->data->epilogue != NULL && (block + 1 == block1 || (block + 1) % c->blocks == 0)) {
      tvmrt_conv_i8_finish(w, row, first, pixels, begin, block + 1);
    }
  }
}

/*! \brief Compute the part of one of `count` tasks. \return 0, or -1 with a text if out of
 * memory. */
static inline int tvmrt_conv_i8_part(const tvmrt_conv_i8* c, const tvmrt_conv_i8_data* data,
                                     int task, int count) {
  const int by_blocks = c->by_blocks && count > 1;
  int64_t chunk0 = 0, chunk1 = tvmrt_conv_i8_rows(c) * c->chunks;
  int32_t block0 = 0, block1 = c->groups * c->blocks;
  tvmrt_conv_i8_task_state w;
  void* scratch;
  if (by_blocks) {
    block0 = (int32_t)tvmrt_task_begin(c->groups * c->blocks, 1, task, count);
    block1 = (int32_t)tvmrt_task_begin(c->groups * c->blocks, 1, task + 1, count);
  } else {
    chunk0 = tvmrt_task_begin(tvmrt_conv_i8_rows(c) * c->chunks, 1, task, count);
    chunk1 = tvmrt_task_begin(tvmrt_conv_i8_rows(c) * c->chunks, 1, task + 1, count);
  }
  if (chunk0 == chunk1 || block0 == block1) return 0;
  if (tvmrt_conv_i8_begin(&w, c, data, &scratch) != 0) return -1;
  if (c->amx != NULL && c->amx->prefetch_bytes > 0) {
    tvmrt_conv_i8_set_prefetch(&w, block0, block1 - block0, chunk1 - chunk0);
  }
  for (int32_t b = block0; b < block1; b += c->blocks_at_once) {
    const int32_t end = block1 - b < c->blocks_at_once ? block1 : b + c->blocks_at_once;
    int32_t row = -1;
    for (int64_t chunk = chunk0; chunk < chunk1; chunk++) {
      if ((int32_t)(chunk / c->chunks) != row) {
        row = (int32_t)(chunk / c->chunks);
        tvmrt_conv_i8_set_segments(&w, row);
      }
      tvmrt_conv_i8_chunk(&w, row, (int32_t)(chunk % c->chunks) * c->chunk, b, end);
    }
  }
  if (c->amx != NULL) c->amx->end();
  return tvmrt_scratch_free(scratch);
}

typedef struct tvmrt_conv_i8_job {
  const tvmrt_conv_i8* conv;
  const tvmrt_conv_i8_data* data;
} tvmrt_conv_i8_job;

static inline int tvmrt_conv_i8_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_conv_i8_job* job = (const tvmrt_conv_i8_job*)closure;
  return tvmrt_conv_i8_part(job->conv, job->data, task, env->num_task);
}

/*!
 * \brief y = convolution of x.
 *
 * \param c    [in] The layer; best a `static const` that the compiler sees.
 * \param data [in] The tensors. x and y must not overlap; `added` may be y.
 *
 * Values:  exact int32 sums (they must fit), then as in tile/gemm_i8.h or the epilogue.
 * Errors:  0, or -1 with a text if scratch memory runs out or a task failed.
 * Threads: thread-safe; uses the workers of the runtime according to c->threads.
 */
static inline int tvmrt_conv_i8_run(const tvmrt_conv_i8* c, const tvmrt_conv_i8_data* data) {
  tvmrt_conv_i8_job job = {c, data};
  if (c->threads == 1) return tvmrt_conv_i8_part(c, data, 0, 1);
  return tvmrt_launch(tvmrt_conv_i8_task, &job, c->work, TVMRT_PARALLEL_MIN_MACS);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_I8_H_ */
