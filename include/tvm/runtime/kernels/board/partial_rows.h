/*!
 * \file board/partial_rows.h
 * \brief Layers of microcontrollers that compute a few rows per call, for chains (board/row_fusion.h).
 *
 * Arguments give the input rows in memory. A depthwise layer keeps rows that it reads again in a
 * line buffer (board/line_buffer.h) across calls.
 *
 * The header of a depthwise kernel defines its own parts as a tvmrt_micro_tile.
 * TVMRT_MICRO_DEPTHWISE() generates from it the functions for a whole layer and for some rows.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_PARTIAL_ROWS_H_
#define TVM_RUNTIME_KERNELS_BOARD_PARTIAL_ROWS_H_

#include <stdint.h>

#include "../window.h"
#include "common_i8.h"
#include "line_buffer.h"

/*! \brief Some rows of a layer. */
typedef struct tvmrt_micro_rows {
  int32_t first; /*!< First input row in memory. */
  int32_t count; /*!< Number of contiguous input rows in memory. */
  int32_t row;   /*!< First output row to compute. */
  int32_t rows;  /*!< Output rows to compute; 0: only fill the line buffer. */
} tvmrt_micro_rows;

/*! \brief Restrict a dense layer's shape to some rows; its input is the rows in memory. */
TVMRT_INLINE void tvmrt_micro_restrict_dense(tvmrt_micro_shape* s, const tvmrt_micro_rows* at) {
  s->in[0] = (int16_t)at->count;
  s->out[0] = (int16_t)at->rows;
  s->pad[0] = (int16_t)(s->pad[0] + at->first - at->row * s->stride[0]);
  s->layout.windows.pixels = at->rows * s->out[1];
}

/*! \brief Restrict a depthwise layer's shape to these input rows; others are padding. */
TVMRT_INLINE void tvmrt_micro_restrict_depthwise(tvmrt_micro_shape* s, const tvmrt_micro_rows* at) {
  s->in[0] = (int16_t)at->count;
  s->pad[0] = (int16_t)(s->pad[0] + at->first);
}

/*! \brief Restrict a pooling layer's window to some rows; `pad_end` is its padding at the end. */
TVMRT_INLINE void tvmrt_window_restrict_rows(tvmrt_window* w, int32_t* pad_end,
                                             const tvmrt_micro_rows* at) {
  *pad_end += w->in[1] - at->first - at->count;
  w->batch = 1;
  w->in[1] = at->count;
  w->out[1] = at->rows;
  w->pad[1] += at->first - at->row * w->stride[1];
}

/*!
 * \brief One step of tvmrt_micro_run_all_rows(): copies the slots in memory that the next step needs,
 * and computes that step's output rows, if any.
 *
 * \param whole [in] Shape of the whole layer.
 * \param unit  [in] Rows of a slot.
 * \param layer [in] Descriptor of the layer, restricted by tvmrt_micro_restrict_depthwise(): output rows are
 * counted from the data's y on.
 */
TVMRT_INLINE void tvmrt_micro_run_rows(const tvmrt_micro_shape* whole, const tvmrt_micro_rows* at,
                                       tvmrt_micro_steps by, int32_t unit, const void* layer) {
  const int32_t slot = at->row / by.rows * by.advance, there = at->first + at->count;
  const int32_t copied = (there + whole->pad[0]) / unit;
  /* the last slot may be partly padding, and `first` inside of it */
  int32_t next = at->first > 0 ? (at->first + whole->pad[0] + unit - 1) / unit : 0;
  int32_t end = slot + by.slots;
  if (there < whole->in[0] && copied < end) end = copied;
  if (next < slot) next = slot;
  for (; next < end; next++) by.copy(layer, 0, next);
  if (at->rows > 0) by.make(layer, 0, at->rows, slot);
}

/*! \brief Shared data of the steps of an integer depthwise layer. */
typedef struct tvmrt_micro_layer {
  const tvmrt_micro_conv_i8* conv;
  const tvmrt_micro_data* data;
  void* line_buffer;
  int32_t* sums; /*!< Before the line buffer, for tiles with accumulators there. */
} tvmrt_micro_layer;

/*! \brief Source of an input row: byte strides of pixels and of channel groups; 0 in padding. */
typedef struct tvmrt_micro_source {
  const uint8_t* x;
  int32_t pixel, channels;
} tvmrt_micro_source;

/*!
 * \brief Source of row h of an image, counted from the first row of padding on.
 *
 * \param padding  [in] A pixel of padding, of as many channels as are read at a time.
 * \param channels [in] That number.
 */
TVMRT_INLINE tvmrt_micro_source tvmrt_micro_find_source(const tvmrt_micro_layer* d, int32_t image,
                                                        int32_t h, const uint8_t* padding,
                                                        int32_t channels) {
  const int32_t from = tvmrt_micro_row_offset(&d->conv->shape, image, h);
  tvmrt_micro_source row = {padding, 0, 0};
  if (from >= 0) {
    row.x = (const uint8_t*)d->data->x + from;
    row.pixel = d->conv->shape.x_stride;
    row.channels = channels * TVMRT_MICRO_BYTES(d->conv);
  }
  return row;
}

/*! \brief Activation i of a pixel; `type` is x_signed, a constant. */
TVMRT_INLINE int16_t tvmrt_micro_activation(const uint8_t* x, int32_t i, int type) {
#if TVMRT_MICRO_INT16
  if (type == TVMRT_MICRO_X_INT16) return ((const int16_t*)(const void*)x)[i];
#endif
  return type == 0 ? x[i] : (int8_t)x[i];
}

/*! \brief Implementation of a depthwise kernel. */
typedef struct tvmrt_micro_tile {
  tvmrt_micro_steps steps; /*!< Called with the LAYER of TVMRT_MICRO_DEPTHWISE(). */
  int32_t unit;            /*!< Input rows of a slot. */
  int32_t front;           /*!< Bytes of scratch before the line buffer, a multiple of four. */
  uint32_t padding;        /*!< Four bytes of padding as in the line buffer. */
} tvmrt_micro_tile;

/*!
 * \brief Define the functions of a depthwise kernel from the TILE of a layer, an expression of
 * `c`. CONV is the type of a layer, DATA of its tensors, and LAYER of the steps' descriptor, which
 * begins like tvmrt_micro_layer:
 *
 *     NAME_run(c, data)                y = depthwise convolution of x; 0, or -1 without scratch
 *     NAME_rows(c, data, at, scratch)  some rows of it, for chains: x is the first input row in
 *                                      memory, y the first computed row of a step or the tail;
 *                                      scratch: shape.scratch bytes, aligned to 8, reused
 *
 * y may be x only in the case that board/line_buffer.h names. Values and threads are those of
 * dense layers; shift is not used.
 */
#define TVMRT_MICRO_DEPTHWISE(NAME, CONV, DATA, LAYER, TILE)                                       \
  static inline int NAME##_run(const CONV* c, const DATA* data) {                                  \
    const tvmrt_micro_tile by = TILE;                                                              \
    uint8_t* const scratch = (uint8_t*)tvmrt_scratch_alloc(c->shape.scratch);                      \
    if (scratch == NULL) return -1;                                                                \
    const LAYER d = {c, data, scratch + by.front, (int32_t*)(void*)scratch};                       \
    tvmrt_micro_fill(d.line_buffer, scratch + c->shape.scratch, by.padding);                       \
    tvmrt_micro_run_all_rows(&c->shape, by.steps, &d);                                             \
    return tvmrt_scratch_free(scratch);                                                            \
  }                                                                                                \
  static inline int NAME##_rows(const CONV* c, const DATA* data, const tvmrt_micro_rows* at,       \
                                uint8_t* scratch) {                                                \
    const tvmrt_micro_tile by = TILE;                                                              \
    CONV part = *c;                                                                                \
    tvmrt_micro_restrict_depthwise(&part.shape, at);                                               \
    const LAYER d = {&part, data, scratch + by.front, (int32_t*)(void*)scratch};                   \
    if (at->first == 0) tvmrt_micro_fill(d.line_buffer, scratch + part.shape.scratch, by.padding); \
    tvmrt_micro_run_rows(&c->shape, at, by.steps, by.unit, &d);                                    \
    return 0;                                                                                      \
  }

/*! \brief TVMRT_MICRO_DEPTHWISE() for integer layers. */
#define TVMRT_MICRO_DEPTHWISE_I8(NAME, TILE) \
  TVMRT_MICRO_DEPTHWISE(NAME, tvmrt_micro_conv_i8, tvmrt_micro_data, tvmrt_micro_layer, TILE)

#endif /* TVM_RUNTIME_KERNELS_BOARD_PARTIAL_ROWS_H_ */
