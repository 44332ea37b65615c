/*!
 * \file board/rows.h
 * \brief Layers of microcontrollers a few rows at a time, and chains of them.
 *
 * A chain computes its layers in turns, as rows of input come: between two layers lie only the rows
 * that the second one has not read yet, always from the beginning of their place on, and what a
 * depthwise layer reads again is in a ring of its own (board/ring.h). The compiler of the network has
 * found all calls, and how many rows lie where: tables, of which the chain's own function makes the
 * calls in their order. Batches are of one image.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_ROWS_H_
#define TVM_RUNTIME_KERNELS_BOARD_ROWS_H_

#include <stdint.h>

#include "i8.h"
#include "ring.h"

/*! \brief Some rows of a layer. */
typedef struct tvmrt_micro_rows {
  int32_t first; /*!< The first input row that lies in memory. */
  int32_t count; /*!< Input rows that lie there, behind each other. */
  int32_t row;   /*!< The first output row that is made. */
  int32_t rows;  /*!< Output rows that are made; 0: the input goes into the ring alone. */
} tvmrt_micro_rows;

/*! \brief A dense layer of some rows only: its input is what lies in memory. */
TVMRT_INLINE tvmrt_micro_conv_i8 tvmrt_micro_part(const tvmrt_micro_conv_i8* whole,
                                                  const tvmrt_micro_rows* at) {
  tvmrt_micro_conv_i8 part = *whole;
  tvmrt_micro_shape* const s = &part.shape;
  s->in[0] = (int16_t)at->count;
  s->out[0] = (int16_t)at->rows;
  s->pad[0] = (int16_t)(s->pad[0] + at->first - at->row * s->stride[0]);
  s->kept.windows.pixels = at->rows * s->out[1];
  return part;
}

/*! \brief A depthwise layer with these input rows; those outside of them are padding. */
TVMRT_INLINE tvmrt_micro_conv_i8 tvmrt_micro_ring_part(const tvmrt_micro_conv_i8* whole,
                                                       const tvmrt_micro_rows* at) {
  tvmrt_micro_conv_i8 part = *whole;
  part.shape.in[0] = (int16_t)at->count;
  part.shape.pad[0] = (int16_t)(part.shape.pad[0] + at->first);
  return part;
}

/*!
 * \brief One step of tvmrt_micro_walk_ring(): copies the slots whose rows lie in memory, at most those
 * of the next step, and makes that step's output rows, if there are to be any.
 *
 * \param whole [in] Shape of the whole layer.
 * \param unit  [in] Rows of a slot.
 * \param layer [in] What the tile is told, of tvmrt_micro_ring_part(): output rows are counted from
 *                   the data's y on.
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

/*! \brief A call of a chain: `rows` output rows of a layer, and how many rows of its input that lie
 * in memory are not read again. */
typedef struct tvmrt_chain_call {
  uint8_t layer, rows, dropped;
} tvmrt_chain_call;

/*! \brief How far a layer is: the first input row in memory, how many lie there, output rows made. */
typedef struct tvmrt_chain_at {
  int16_t first, count, row;
} tvmrt_chain_at;

/*!
 * \brief Counts a call that was made.
 *
 * \param at    [in,out] The layer's; the next one's follows.
 * \param input [in,out] Where the layer's input rows lie, of which what is left moves to the front;
 *                       NULL for the chain's own input.
 */
TVMRT_INLINE void tvmrt_chain_count(tvmrt_chain_at* at, const tvmrt_chain_call* call,
                                    uint8_t* input, int32_t row_bytes) {
  at->row = (int16_t)(at->row + call->rows);
  at[1].count = (int16_t)(at[1].count + call->rows);
  at->first = (int16_t)(at->first + call->dropped);
  at->count = (int16_t)(at->count - call->dropped);
  if (input == NULL || call->dropped == 0) return;
  const int32_t distance = call->dropped * row_bytes, left = at->count * row_bytes;
  if (distance >= 4) {
    tvmrt_micro_copy(input, input + distance, left); /* by words, from the front on */
  } else {
    for (int32_t i = 0; i < left; i++) input[i] = input[i + distance];
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_ROWS_H_ */
