/*!
 * \file max_pool_indices.h
 * \brief Max pooling with indices, and its inverse, for any element type.
 *
 * Row-major memory [planes][depth][height][width], a plane being one channel of one image. These
 * are plain loops; pool.h has the fast max pooling for float32.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_MAX_POOL_INDICES_H_
#define TVM_RUNTIME_KERNELS_OP_MAX_POOL_INDICES_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../pool_window.h"
#include "index_bounds.h"

/*! \brief A pooling layer. */
typedef struct tvmrt_max_pool_indices_layer {
  tvmrt_window window; /*!< Its images are single channels. */
  /*! \brief Index stride of each dimension of the input. */
  int64_t index_stride[3];
} tvmrt_max_pool_indices_layer;

/*!
 * \brief Define int NAME(layer, x, y, indices): the first largest element of each window.
 *
 * indices may be NULL; else it receives the element's index in the whole input. A window outside
 * the input gives -1 and LOWEST. NaN wins. Returns 0.
 */
#define TVMRT_DEFINE_MAX_POOL(NAME, TYPE, LOWEST)                                            \
  static inline int NAME(const tvmrt_max_pool_indices_layer* layer, const TYPE* x, TYPE* y,  \
                         int64_t* indices) {                                                 \
    const tvmrt_window* s = &layer->window;                                                  \
    const int64_t rows = (int64_t)s->in[1] * s->in[2], plane = s->in[0] * rows;              \
    int64_t o = 0;                                                                           \
    for (int64_t p = 0; p < s->batch; p++) {                                                 \
      for (int d = 0; d < s->out[0]; d++) {                                                  \
        for (int h = 0; h < s->out[1]; h++) {                                                \
          for (int w = 0; w < s->out[2]; w++, o++) {                                         \
            const int at[3] = {d, h, w};                                                     \
            int32_t first[3], last[3], start[3];                                             \
            TYPE best = LOWEST;                                                              \
            int64_t position = -1;                                                           \
            for (int dim = 0; dim < 3; dim++) {                                              \
              start[dim] = at[dim] * s->stride[dim] - s->pad[dim];                           \
              last[dim] = tvmrt_pool_inside(start[dim], s->kernel[dim], s->dilation[dim], 0, \
                                            s->in[dim], &first[dim]);                        \
              last[dim] += first[dim];                                                       \
            }                                                                                \
            for (int i = first[0]; i < last[0]; i++) {                                       \
              const int64_t id = start[0] + (int64_t)i * s->dilation[0];                     \
              for (int j = first[1]; j < last[1]; j++) {                                     \
                const int64_t ih = start[1] + (int64_t)j * s->dilation[1];                   \
                for (int k = first[2]; k < last[2]; k++) {                                   \
                  const int64_t iw = start[2] + (int64_t)k * s->dilation[2];                 \
                  const TYPE each = x[p * plane + id * rows + ih * s->in[2] + iw];           \
                  if (position >= 0 && !(each > best) && !(each != each && best == best))    \
                    continue;                                                                \
                  best = each;                                                               \
                  position = id * layer->index_stride[0] + ih * layer->index_stride[1] +     \
                             iw * layer->index_stride[2];                                    \
                }                                                                            \
              }                                                                              \
            }                                                                                \
            y[o] = best;                                                                     \
            if (indices) indices[o] = position < 0 ? -1 : p * plane + position;              \
          }                                                                                  \
        }                                                                                    \
      }                                                                                      \
    }                                                                                        \
    return 0;                                                                                \
  }

/*!
 * \brief Scatter count elements of `bytes` bytes to their indices in y, which has `size` elements
 * and is zero elsewhere. \return 0, or -1 with an error text if an index is outside y; y then holds
 * the preceding elements. `where` names operator, node and operand in the text.
 */
static inline int tvmrt_max_unpool(const void* x, const int64_t* indices, int64_t count, void* y,
                                   int64_t size, int64_t bytes, const char* where) {
  memset(y, 0, (size_t)(size * bytes));
  for (int64_t i = 0; i < count; i++) {
    if (indices[i] < 0 || indices[i] >= size) {
      return (int)tvmrt_index_error(indices[i], size, where);
    }
    memcpy((uint8_t*)y + indices[i] * bytes, (const uint8_t*)x + i * bytes, (size_t)bytes);
  }
  return 0;
}

#endif /* TVM_RUNTIME_KERNELS_OP_MAX_POOL_INDICES_H_ */
