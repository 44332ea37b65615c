/*!
 * \file board/shape.h
 * \brief Shapes of the convolutions of microcontrollers, and where their windows are.
 *
 * Memory is channels-last with one stride between neighbouring pixels, over all rows and images. A
 * matrix product is a 1 x 1 convolution whose pixels are the rows. Strides are in elements.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_SHAPE_H_
#define TVM_RUNTIME_KERNELS_BOARD_SHAPE_H_

#include <stdint.h>

#include "../tile/simd.h"

/*! \brief Shape of a layer; pairs are {height, width}. */
typedef struct tvmrt_micro_shape {
  int32_t pixels; /*!< Output pixels of all images. */
  int16_t in[2];
  int16_t out[2];
  int16_t kernel[2];
  int16_t stride[2];
  int16_t dilation[2];
  int16_t pad[2]; /*!< At the start; negative crops. The end follows from `out`. */
  int16_t in_c;
  int16_t out_c;
  int32_t x_stride;  /*!< From one input pixel to the next. */
  int32_t y_stride;  /*!< From one output pixel to the next. */
  int32_t window;    /*!< Elements of a copied window; not of depthwise layers. */
  int32_t scratch;   /*!< Bytes that tvmrt_scratch_alloc() is asked for; 0 for none. */
  int16_t pointwise; /*!< 1: the window of an output pixel is the input pixel at its place. */
  int16_t columns;   /*!< Of a window that lie behind each other in memory: all, or one. */
} tvmrt_micro_shape;

/*! \brief Where the window of an output pixel is in the input. */
typedef struct tvmrt_micro_place {
  int32_t image;     /* elements in front of its first pixel */
  int32_t top, left; /* negative in padding */
  int32_t inside;    /* 1: nothing of it is padding, and its rows are copied together */
} tvmrt_micro_place;

static inline tvmrt_micro_place tvmrt_micro_find(const tvmrt_micro_shape* s, int32_t pixel) {
  int32_t row = pixel / s->out[1], image = row / s->out[0];
  tvmrt_micro_place at;
  TVMRT_OPAQUE(row); /* or the remainders are divisions again */
  TVMRT_OPAQUE(image);
  at.image = image * s->in[0] * s->in[1] * s->x_stride;
  at.left = (pixel - row * s->out[1]) * s->stride[1] - s->pad[1];
  at.top = (row - image * s->out[0]) * s->stride[0] - s->pad[0];
  at.inside = s->columns == s->kernel[1] && at.left >= 0 && at.left + s->columns <= s->in[1] &&
              at.top >= 0 && at.top + (s->kernel[0] - 1) * s->dilation[0] < s->in[0];
  return at;
}

/*! \brief What of an input row a depthwise layer copies, with the padding at both its ends. */
typedef struct tvmrt_micro_row {
  int32_t from;         /* elements in front of its first pixel that is copied */
  int32_t left, inside; /* columns of padding, and of the input behind them */
} tvmrt_micro_row;

/*!
 * \brief The row h of an image, counted from the first row of padding on; a row of padding has
 * nothing inside.
 *
 * \param columns  [in] Of all of it, padding included.
 */
static inline tvmrt_micro_row tvmrt_micro_find_row(const tvmrt_micro_shape* s, int32_t columns,
                                                   int32_t image, int32_t h) {
  const int32_t row = h - s->pad[0], crop = s->pad[1] < 0 ? -s->pad[1] : 0;
  tvmrt_micro_row r;
  r.from = ((image * s->in[0] + row) * s->in[1] + crop) * s->x_stride;
  r.left = columns;
  r.inside = 0;
  if (row >= 0 && row < s->in[0]) {
    r.left = crop > 0 ? 0 : s->pad[1];
    if (r.left > columns) r.left = columns;
    r.inside = s->in[1] - crop;
    if (r.inside > columns - r.left) r.inside = columns - r.left;
    if (r.inside < 0) r.inside = 0;
  }
  return r;
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_SHAPE_H_ */
