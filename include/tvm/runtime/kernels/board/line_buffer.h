/*!
 * \file board/line_buffer.h
 * \brief Row loop of depthwise layers on microcontrollers with a line buffer; a tile supplies the
 * micro-kernel.
 *
 * The input rows that output rows need are kept in a line buffer in scratch, padding included. Each
 * row, or pair of rows, is copied once into a slot of the buffer. A padding row is copied from one
 * padding pixel with a step of 0. A step computes one or two output rows from the whole buffer.
 * Rows are copied before output rows that may overlap them are written: y may be x where the stride
 * is 1, both have the same extents, and the buffer reaches as far as the output row.
 *
 * The compiler of the network chooses the sizes of the line buffer: \ref tvmrt_micro_line_buffer.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_LINE_BUFFER_H_
#define TVM_RUNTIME_KERNELS_BOARD_LINE_BUFFER_H_

#include <string.h>

#include "shape.h"

/*! \brief Steps of a tile; `layer` is the tile's descriptor of the layer. */
typedef struct tvmrt_micro_steps {
  /*! Copy slot `slot` of an image, counted from the first row of padding on. */
  void (*copy)(const void* layer, int32_t image, int32_t slot);
  /*!
   * Compute `rows` output rows from the slots from `slot` on. `row` is the index of the first one
   * over all images.
   */
  void (*make)(const void* layer, int32_t row, int32_t rows, int32_t slot);
  int32_t slots;   /*!< Slots from which a step computes output rows. */
  int32_t advance; /*!< Slots from one step's first one to the next one's. */
  int32_t rows;    /*!< Output rows of a step. */
} tvmrt_micro_steps;

/*! \brief Loop over the output rows of all images. */
TVMRT_INLINE void tvmrt_micro_run_all_rows(const tvmrt_micro_shape* s, tvmrt_micro_steps by,
                                           const void* layer) {
  for (int32_t image = 0; image < s->layout.line_buffer.images; image++) {
    int32_t next = 0;
    for (int32_t row = 0, slot = 0; row < s->out[0]; row += by.rows, slot += by.advance) {
      const int32_t left = s->out[0] - row;
      if (next < slot) next = slot; /* strides may skip rows */
      for (; next < slot + by.slots; next++) by.copy(layer, image, next);
      by.make(layer, image * s->out[0] + row, left < by.rows ? left : by.rows, slot);
    }
  }
}

/*! \brief Maximum rows of a kernel. */
#define TVMRT_MICRO_MAX_ROWS 16

/*! \brief Offset in columns of row h in a plane, counted from the first row of padding on. */
TVMRT_INLINE int32_t tvmrt_micro_line_offset(const tvmrt_micro_shape* s, int32_t h) {
  return h % s->layout.line_buffer.slots * s->layout.line_buffer.columns;
}

/*! \brief Columns of left padding. */
TVMRT_INLINE int32_t tvmrt_micro_padding(const tvmrt_micro_shape* s) {
  return s->pad[1] > 0 ? s->pad[1] : 0;
}

/*!
 * \brief Fill a line buffer with padding, which stays in the columns outside row copies. The
 * buffer holds quads of channels, so its size is a multiple of eight bytes.
 */
TVMRT_INLINE void tvmrt_micro_fill(void* line_buffer, const void* end, uint32_t padding) {
  /* halves, because static analysis joins those of a word */
  const int16_t halves[2] = {(int16_t)padding, (int16_t)(padding >> 16)};
  uint8_t* at = (uint8_t*)line_buffer;
  do {
    memcpy(TVMRT_ALIGNED(at, 4), halves, 4);
    memcpy(TVMRT_ALIGNED(at + 4, 4), halves, 4);
    at += 8;
  } while (at != (const uint8_t*)end);
}

/*!
 * \brief Offset of the first copied pixel of row h of an image, counted from the first row of
 * padding on; -1 for a row of padding.
 */
TVMRT_INLINE int32_t tvmrt_micro_row_offset(const tvmrt_micro_shape* s, int32_t image, int32_t h) {
  const int32_t row = h - s->pad[0], crop = s->pad[1] < 0 ? -s->pad[1] : 0;
  if (row < 0 || row >= s->in[0]) return -1;
  return ((image * s->in[0] + row) * s->in[1] + crop) * s->x_stride;
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_LINE_BUFFER_H_ */
