/*!
 * \file board/chain.h
 * \brief Chains of layers that are computed in turns, as rows of input come.
 *
 * Of each layer's output only those rows lie in memory that a later one has not read yet, always from
 * the beginning of their place on. The compiler of the network has found all calls, and how many rows
 * lie where: tables, of which the chain's own function makes the calls in their order, image after
 * image.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CHAIN_H_
#define TVM_RUNTIME_KERNELS_BOARD_CHAIN_H_

#include <stdint.h>

#include "i8.h"

/*! \brief A call of a chain: `rows` output rows of a layer, and how many more rows of its input it
 * does not read again. */
typedef struct tvmrt_chain_call {
  uint8_t layer, rows, dropped;
} tvmrt_chain_call;

/*! \brief How far a layer is. */
typedef struct tvmrt_chain_at {
  int16_t first; /*!< The first input row that it still reads. */
  int16_t row;   /*!< Output rows that it has made. */
  int16_t base;  /*!< The first of them that lies in their place. */
} tvmrt_chain_at;

/*! \brief The lesser row. */
TVMRT_INLINE int32_t tvmrt_chain_least(int32_t a, int32_t b) { return a < b ? a : b; }

/*!
 * \brief Moves output rows of a layer to the front of their place, over those that are not read again.
 *
 * \param at        [in,out] The layer's.
 * \param kept      [in] The first row that is read again.
 * \param place     [in,out] Where its rows lie, each of `row_bytes`.
 */
TVMRT_NOINLINE void tvmrt_chain_make_room(tvmrt_chain_at* at, int32_t kept, uint8_t* place,
                                          int32_t row_bytes) {
  const int32_t distance = (kept - at->base) * row_bytes, left = (at->row - kept) * row_bytes;
  at->base = (int16_t)kept;
  if (distance >= 4) {
    tvmrt_micro_copy(place, place + distance, left); /* by words, from the front on */
  } else if (distance > 0) {
    for (int32_t i = 0; i < left; i++) place[i] = place[i + distance];
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_CHAIN_H_ */
