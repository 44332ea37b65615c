/*!
 * \file board/shape.h
 * \brief Shapes of the convolutions of microcontrollers, and the addresses of their windows.
 *
 * Memory is channels-last with one stride between neighbouring pixels, over all rows and images. A
 * matrix product is a 1 x 1 convolution whose pixels are the rows. Strides are in elements.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_SHAPE_H_
#define TVM_RUNTIME_KERNELS_BOARD_SHAPE_H_

#include <stdint.h>

#include "../scalar/compiler.h"

/*! \brief x_signed of int16 activations, whose strides are in bytes; only if TVMRT_MICRO_INT16. */
enum { TVMRT_MICRO_X_INT16 = 2 };
#ifndef TVMRT_MICRO_INT16
#define TVMRT_MICRO_INT16 0
#endif
#define TVMRT_MICRO_IS_INT16(c) (TVMRT_MICRO_INT16 && (c)->x_signed == TVMRT_MICRO_X_INT16)
#define TVMRT_MICRO_BYTES(c) (TVMRT_MICRO_IS_INT16(c) ? 2 : 1) /*!< Of an activation. */

/*! \brief Copied windows of dense layers. */
typedef struct tvmrt_micro_windows {
  int32_t pixels;    /*!< Output pixels of all images. */
  int32_t length;    /*!< Elements of a copied window. */
  int16_t pointwise; /*!< 1: the window of an output pixel is the input pixel at the same index. */
  int16_t columns;   /*!< Contiguous columns of a window: all, or one. */
} tvmrt_micro_windows;

/*! \brief Line buffer of depthwise layers; see board/line_buffer.h. */
typedef struct tvmrt_micro_line_buffer {
  int32_t plane;   /*!< Elements of a channel. */
  int16_t images;  /*!< Number of images. */
  int16_t slots;   /*!< Rows, or pairs of rows, in the buffer. */
  int16_t columns; /*!< Columns of a row, padding included. */
  int16_t inside;  /*!< Columns of a row that are input. */
} tvmrt_micro_line_buffer;

/*! \brief Shape of a layer; pairs are {height, width}. */
typedef struct tvmrt_micro_shape {
  int16_t in[2];
  int16_t out[2];
  int16_t kernel[2];
  int16_t stride[2];
  int16_t dilation[2];
  int16_t pad[2]; /*!< At the start; negative crops. The end follows from `out`. */
  int16_t in_c;
  int16_t out_c;
  int32_t x_stride; /*!< Pixel stride of the input. */
  int32_t y_stride; /*!< Pixel stride of the output. */
  int32_t scratch;  /*!< Bytes requested from tvmrt_scratch_alloc(); 0 for none. */
  union {
    tvmrt_micro_windows windows;
    tvmrt_micro_line_buffer line_buffer;
  } layout; /*!< Contents of the scratch. */
} tvmrt_micro_shape;

/*! \brief Position of an output pixel's window in the input. */
typedef struct tvmrt_micro_position {
  int32_t image;     /* offset of its first pixel in elements */
  int32_t top, left; /* negative in padding */
  int32_t inside;    /* 1: the window has no padding, and its rows are copied together */
} tvmrt_micro_position;

static inline tvmrt_micro_position tvmrt_micro_locate(const tvmrt_micro_shape* s, int32_t pixel) {
  int32_t row = pixel / s->out[1], image = row / s->out[0];
  tvmrt_micro_position at;
  TVMRT_OPAQUE(row); /* or the remainders become divisions again */
  TVMRT_OPAQUE(image);
  at.image = image * s->in[0] * s->in[1] * s->x_stride;
  at.left = (pixel - row * s->out[1]) * s->stride[1] - s->pad[1];
  at.top = (row - image * s->out[0]) * s->stride[0] - s->pad[0];
  const int32_t columns = s->layout.windows.columns;
  at.inside = columns == s->kernel[1] && at.left >= 0 && at.left + columns <= s->in[1] &&
              at.top >= 0 && at.top + (int32_t)(s->kernel[0] - 1) * s->dilation[0] < s->in[0];
  return at;
}

/*! \brief Columns [begin, end) of a window's run that are inside the input; the first is `from`. */
typedef struct tvmrt_micro_run {
  int32_t begin, end, from;
} tvmrt_micro_run;

/*! \brief Find the run from a kernel column on; begin equals end if it is all padding. */
TVMRT_INLINE tvmrt_micro_run tvmrt_micro_find_run(const tvmrt_micro_shape* s,
                                                  const tvmrt_micro_position* at, int32_t kh,
                                                  int32_t kw) {
  const int32_t h = at->top + kh * s->dilation[0], w = at->left + kw * s->dilation[1];
  const int32_t columns = s->layout.windows.columns, left = s->in[1] - w;
  tvmrt_micro_run run = {w < 0 ? -w : 0, left < columns ? left : columns, 0};
  if (h < 0 || h >= s->in[0] || run.end <= run.begin) run.begin = run.end = columns;
  run.from = at->image + (h * s->in[1] + w + run.begin) * s->x_stride;
  return run;
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_SHAPE_H_ */
