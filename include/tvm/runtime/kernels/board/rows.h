/*!
 * \file board/rows.h
 * \brief Layers of microcontrollers that compute a few rows per call, for chains (board/chain.h).
 *
 * The argument of such a function says which input rows are in memory. A depthwise layer keeps the
 * rows that it reads again in its own line buffer (board/ring.h), across calls.
 *
 * The header of a depthwise kernel defines its own parts as a tvmrt_micro_tile.
 * TVMRT_MICRO_DEPTHWISE() generates from it the functions for a whole layer and for some rows.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_ROWS_H_
#define TVM_RUNTIME_KERNELS_BOARD_ROWS_H_

#include <stdint.h>

#include "../window.h"
#include "i8.h"
#include "ring.h"

/*! \brief Some rows of a layer. */
typedef struct tvmrt_micro_rows {
  int32_t first; /*!< The first input row that lies in memory. */
  int32_t count; /*!< Input rows that lie there, behind each other. */
  int32_t row;   /*!< The first output row that is made. */
  int32_t rows;  /*!< Output rows that are made; 0: the input goes into the ring alone. */
} tvmrt_micro_rows;

/*! \brief Makes a dense layer's shape that of some rows: its input is what lies in memory. */
TVMRT_INLINE void tvmrt_micro_cut(tvmrt_micro_shape* s, const tvmrt_micro_rows* at) {
  s->in[0] = (int16_t)at->count;
  s->out[0] = (int16_t)at->rows;
  s->pad[0] = (int16_t)(s->pad[0] + at->first - at->row * s->stride[0]);
  s->kept.windows.pixels = at->rows * s->out[1];
}

/*! \brief The same of a depthwise layer with these input rows; those outside of them are padding. */
TVMRT_INLINE void tvmrt_micro_cut_ring(tvmrt_micro_shape* s, const tvmrt_micro_rows* at) {
  s->in[0] = (int16_t)at->count;
  s->pad[0] = (int16_t)(s->pad[0] + at->first);
}

/*! \brief The same of a pooling layer; `pad_end` is its padding behind the rows. */
TVMRT_INLINE void tvmrt_window_cut(tvmrt_window* w, int32_t* pad_end, const tvmrt_micro_rows* at) {
  *pad_end += w->in[1] - at->first - at->count;
  w->batch = 1;
  w->in[1] = at->count;
  w->out[1] = at->rows;
  w->pad[1] += at->first - at->row * w->stride[1];
}

/*!
 * \brief One step of tvmrt_micro_walk_ring(): copies the slots whose rows lie in memory, at most those
 * of the next step, and makes that step's output rows, if there are to be any.
 *
 * \param whole [in] Shape of the whole layer.
 * \param unit  [in] Rows of a slot.
 * \param layer [in] What the tile is told, of the layer cut by tvmrt_micro_cut_ring(): output rows are
 *                   counted from the data's y on.
 */
TVMRT_INLINE void tvmrt_micro_walk_rows(const tvmrt_micro_shape* whole, const tvmrt_micro_rows* at,
                                        tvmrt_micro_steps by, int32_t unit, const void* layer) {
  const int32_t slot = at->row / by.rows * by.advance, there = at->first + at->count;
  const int32_t copied = (there + whole->pad[0]) / unit;
  /* the last slot may be padding in part, so that `first` is inside of it */
  int32_t next = at->first > 0 ? (at->first + whole->pad[0] + unit - 1) / unit : 0;
  int32_t end = slot + by.slots;
  if (there < whole->in[0] && copied < end) end = copied;
  if (next < slot) next = slot;
  for (; next < end; next++) by.copy(layer, 0, next);
  if (at->rows > 0) by.make(layer, 0, at->rows, slot);
}

/*! \brief What the steps of a depthwise layer of integers share. */
typedef struct tvmrt_micro_layer {
  const tvmrt_micro_conv_i8* conv;
  const tvmrt_micro_data* data;
  void* ring;
  int32_t* sums; /*!< In front of the ring, for tiles that keep some there. */
} tvmrt_micro_layer;

/*! \brief Where an input row is read: bytes to the next pixel and to the next channels; 0 in padding. */
typedef struct tvmrt_micro_source {
  const uint8_t* x;
  int32_t pixel, channels;
} tvmrt_micro_source;

/*!
 * \brief Row h of an image, counted from the first row of padding on.
 *
 * \param padding  [in] Bytes of a pixel of padding, as many as are read at a time.
 * \param channels [in] That number.
 */
TVMRT_INLINE tvmrt_micro_source tvmrt_micro_find_source(const tvmrt_micro_layer* d, int32_t image,
                                                        int32_t h, const uint8_t* padding,
                                                        int32_t channels) {
  const int32_t from = tvmrt_micro_find_row(&d->conv->shape, image, h);
  tvmrt_micro_source row = {padding, 0, 0};
  if (from >= 0) {
    row.x = (const uint8_t*)d->data->x + from;
    row.pixel = d->conv->shape.x_stride;
    row.channels = channels;
  }
  return row;
}

/*! \brief How a kernel computes a depthwise layer. */
typedef struct tvmrt_micro_tile {
  tvmrt_micro_steps steps; /*!< They are told the LAYER of TVMRT_MICRO_DEPTHWISE(). */
  int32_t unit;            /*!< Input rows of a slot. */
  int32_t front;           /*!< Bytes of scratch in front of the ring, a multiple of four. */
  uint32_t padding;        /*!< Four bytes of padding as they are in the ring. */
} tvmrt_micro_tile;

/*!
 * \brief The functions of a depthwise kernel by the TILE of a layer, an expression of `c`; CONV is the
 * type of a layer, DATA of its tensors, and LAYER of what the steps are told, which begins as
 * tvmrt_micro_layer does:
 *
 *     NAME_run(c, data)                 y = depthwise convolution of x; 0, or -1 where there is no scratch
 *     NAME_rows(c, data, at, scratch)   some rows of it, for chains: x is the first input row in memory,
 *                                       y the first row that is made, as many as a step makes or what is
 *                                       left; scratch: shape.scratch bytes, aligned to 8, kept from call
 *                                       to call
 *
 * y may be x only as board/ring.h says. Values and threads are those of dense layers; shift is not used.
 */
#define TVMRT_MICRO_DEPTHWISE(NAME, CONV, DATA, LAYER, TILE)                                 \
  static inline int NAME##_run(const CONV* c, const DATA* data) {                            \
    const tvmrt_micro_tile by = TILE;                                                        \
    uint8_t* const scratch = (uint8_t*)tvmrt_scratch_alloc(c->shape.scratch);                \
    if (scratch == NULL) return -1;                                                          \
    const LAYER d = {c, data, scratch + by.front, (int32_t*)(void*)scratch};                 \
    tvmrt_micro_fill(d.ring, scratch + c->shape.scratch, by.padding);                        \
    tvmrt_micro_walk_ring(&c->shape, by.steps, &d);                                          \
    return tvmrt_scratch_free(scratch);                                                      \
  }                                                                                          \
  static inline int NAME##_rows(const CONV* c, const DATA* data, const tvmrt_micro_rows* at, \
                                uint8_t* scratch) {                                          \
    const tvmrt_micro_tile by = TILE;                                                        \
    CONV part = *c;                                                                          \
    tvmrt_micro_cut_ring(&part.shape, at);                                                   \
    const LAYER d = {&part, data, scratch + by.front, (int32_t*)(void*)scratch};             \
    if (at->first == 0) tvmrt_micro_fill(d.ring, scratch + part.shape.scratch, by.padding);  \
    tvmrt_micro_walk_rows(&c->shape, at, by.steps, by.unit, &d);                             \
    return 0;                                                                                \
  }

/*! \brief The same for layers of integers. */
#define TVMRT_MICRO_DEPTHWISE_I8(NAME, TILE) \
  TVMRT_MICRO_DEPTHWISE(NAME, tvmrt_micro_conv_i8, tvmrt_micro_data, tvmrt_micro_layer, TILE)

#endif /* TVM_RUNTIME_KERNELS_BOARD_ROWS_H_ */
