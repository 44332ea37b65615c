/*!
 * \file pool_window.h
 * \brief Pooling layers and the elements of their windows, for all pooling kernels.
 */
#ifndef TVM_RUNTIME_KERNELS_POOL_WINDOW_H_
#define TVM_RUNTIME_KERNELS_POOL_WINDOW_H_

#include "scalar/compiler.h"
#include "window.h"

typedef enum {
  TVMRT_POOL_MAX,
  /*! \brief The mean of the elements inside the input. */
  TVMRT_POOL_AVERAGE,
  /*! \brief The mean of the elements inside the input and its padding, which counts as zeros. */
  TVMRT_POOL_AVERAGE_PADDED,
  /*! \brief The p-th root of the sum of the p-th powers of the absolute values; floats only. */
  TVMRT_POOL_LP,
  TVMRT_POOL_KINDS
} tvmrt_pool_kind;

/*! \brief A pooling layer; its elements are floats or bytes. */
typedef struct tvmrt_pool_layer {
  tvmrt_pool_kind kind;
  int32_t p;
  int32_t channels;
  tvmrt_window window; /*!< Windows may extend past the end padding (ceil_mode). */
  int32_t pad_end[3];  /*!< Padding at the end. */
  int32_t is_signed;   /*!< Input bytes: 1: int8, 0: uint8. */
} tvmrt_pool_layer;

/*! \brief The elements of one output's window that are inside the input. */
typedef struct tvmrt_pool_window {
  intptr_t at;      /*!< Offset of the first element in the input. */
  intptr_t row;     /*!< Offset of the first row. */
  int32_t count[3]; /*!< Number of elements in each dimension. */
  int32_t among[3]; /*!< Number of elements that an average counts. */
  intptr_t step[3]; /*!< Stride of the elements in each dimension. */
  float divisor;    /*!< Divisor of an average. */
} tvmrt_pool_window;

/*! \brief Number of k in [0, kernel) with begin + k * dilation in [low, high), from *first on. */
TVMRT_INLINE int32_t tvmrt_pool_inside(int32_t begin, int32_t kernel, int32_t dilation, int32_t low,
                                       int32_t high, int32_t* first) {
  int32_t last = kernel; /* only clipped windows need divisions */
  *first = begin < low ? (low - begin + dilation - 1) / dilation : 0;
  if (begin + (kernel - 1) * dilation >= high) {
    last = high > begin ? (high - begin + dilation - 1) / dilation : 0;
  }
  return last > *first ? last - *first : 0;
}

/* Clip the window in one dimension, from `begin` on; return its first element inside. */
static inline int32_t tvmrt_pool_dim(const tvmrt_pool_layer* layer, int dim, int32_t begin,
                                     tvmrt_pool_window* window) {
  const tvmrt_window* w = &layer->window;
  const int32_t dilation = w->dilation[dim], kernel = w->kernel[dim], in = w->in[dim];
  int32_t first, inside_end;
  window->count[dim] = tvmrt_pool_inside(begin, kernel, dilation, 0, in, &first);
  window->among[dim] = window->count[dim];
  if (layer->kind == TVMRT_POOL_AVERAGE_PADDED) {
    window->among[dim] = tvmrt_pool_inside(begin, kernel, dilation, -w->pad[dim],
                                           in + layer->pad_end[dim], &inside_end);
  }
  return begin + first * dilation;
}

/*! \brief Set up the windows of an output row; rows are counted over images and planes. */
TVMRT_INLINE void tvmrt_pool_row(const tvmrt_pool_layer* layer, int64_t row,
                                 tvmrt_pool_window* window) {
  const tvmrt_window* w = &layer->window;
  const tvmrt_row_position position = tvmrt_locate_row(w, row);
  const intptr_t line = (intptr_t)w->in[2] * w->x_stride, plane = line * w->in[1];
  const int32_t d = tvmrt_pool_dim(layer, 0, position.d, window);
  const int32_t h = tvmrt_pool_dim(layer, 1, position.h, window);
  window->row = ((intptr_t)position.image * w->in[0] + d) * plane + h * line;
  window->step[2] = (intptr_t)w->x_stride * w->dilation[2];
  window->step[1] = line * w->dilation[1];
  window->step[0] = plane * w->dilation[0];
  window->divisor = 1.0f;
}

/*! \brief Move the window to output column `column`. */
static inline void tvmrt_pool_column(const tvmrt_pool_layer* layer, int32_t column,
                                     tvmrt_pool_window* window) {
  const tvmrt_window* w = &layer->window;
  const int32_t first = tvmrt_pool_dim(layer, 2, column * w->stride[2] - w->pad[2], window);
  window->at = window->row + (intptr_t)first * w->x_stride;
  TVMRT_HANDLES(TVMRT_POOL_KINDS, 4);
  if (layer->kind == TVMRT_POOL_AVERAGE || layer->kind == TVMRT_POOL_AVERAGE_PADDED) {
    const intptr_t elements = (intptr_t)window->among[0] * window->among[1] * window->among[2];
    window->divisor = elements > 0 ? (float)elements : 1.0f;
  }
}

#endif /* TVM_RUNTIME_KERNELS_POOL_WINDOW_H_ */
