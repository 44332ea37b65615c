/*!
 * \file board/row_fusion.h
 * \brief Row-streamed chains of layers: layers take turns as rows of the input arrive.
 *
 * Only those rows of a layer's output that a later layer still needs are in memory, always from the
 * start of their buffer. The compiler determines all calls and how many rows lie where. It writes
 * them as tables; the function of the chain makes the calls in table order, for each image.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_ROW_FUSION_H_
#define TVM_RUNTIME_KERNELS_BOARD_ROW_FUSION_H_

#include <stdint.h>
#include <string.h>

#include "common_i8.h"

/*! \brief A call of a chain: `rows` output rows of a layer, and input rows to drop. */
typedef struct tvmrt_row_fusion_call {
  uint8_t layer, rows, dropped;
} tvmrt_row_fusion_call;

/*! \brief Progress of a layer. */
typedef struct tvmrt_row_fusion_progress {
  int16_t first; /*!< First input row that it still reads. */
  int16_t row;   /*!< Output rows computed so far. */
  int16_t base;  /*!< First of them that is still in the buffer. */
} tvmrt_row_fusion_progress;

/*! \brief The smaller row. */
TVMRT_INLINE int32_t tvmrt_row_fusion_min(int32_t a, int32_t b) { return a < b ? a : b; }

/*! \brief Copy n bytes to a lower address, by four words; arguments are multiples of 4. */
TVMRT_INLINE void tvmrt_row_fusion_move_words(uint8_t* to, const uint8_t* from, int32_t n) {
  uint32_t words[4];
  for (; n >= 16; n -= 16, from += 16, to += 16) {
#if defined(__arm__)
    memcpy(words, TVMRT_ALIGNED(from, 4), 16);
    memcpy(TVMRT_ALIGNED(to, 4), words, 16);
#else /* no multi-word loads: GCC would call memcpy(), a bytewise loop in small libraries */
    memcpy(&words[0], TVMRT_ALIGNED(from, 4), 4);
    memcpy(&words[1], TVMRT_ALIGNED(from + 4, 4), 4);
    memcpy(&words[2], TVMRT_ALIGNED(from + 8, 4), 4);
    memcpy(&words[3], TVMRT_ALIGNED(from + 12, 4), 4);
    memcpy(TVMRT_ALIGNED(to, 4), &words[0], 4);
    memcpy(TVMRT_ALIGNED(to + 4, 4), &words[1], 4);
    memcpy(TVMRT_ALIGNED(to + 8, 4), &words[2], 4);
    memcpy(TVMRT_ALIGNED(to + 12, 4), &words[3], 4);
#endif
    TVMRT_OPAQUE(to); /* or it becomes a call of memmove() */
  }
  for (; n > 0; n -= 4, from += 4, to += 4) {
    memcpy(words, TVMRT_ALIGNED(from, 4), 4);
    memcpy(TVMRT_ALIGNED(to, 4), words, 4);
    TVMRT_OPAQUE(to);
  }
}

/*!
 * \brief Move output rows of a layer to the start of their buffer, overwriting old rows.
 *
 * \param at        [in,out] The layer's progress.
 * \param first_kept      [in] The first row that is read again.
 * \param buffer     [in,out] Buffer of rows of `row_bytes` each; a multiple of 4.
 */
TVMRT_NOINLINE void tvmrt_row_fusion_drop_rows(tvmrt_row_fusion_progress* at, int32_t first_kept,
                                               uint8_t* buffer, int32_t row_bytes) {
  const int32_t distance = (first_kept - at->base) * row_bytes,
                left = (at->row - first_kept) * row_bytes;
  at->base = (int16_t)first_kept;
  if (distance > 0 && row_bytes % 4 == 0) {
    tvmrt_row_fusion_move_words(buffer, buffer + distance, left);
  } else if (distance >= 4) {
    tvmrt_micro_copy(buffer, buffer + distance, left); /* by words, in ascending order */
  } else if (distance > 0) {
    for (int32_t i = 0; i < left; i++) buffer[i] = buffer[i + distance];
  } else {
    /* no row is dropped */
  }
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_ROW_FUSION_H_ */
