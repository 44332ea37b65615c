/*!
 * \file topk.h
 * \brief The k largest or smallest elements of a row, in order.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_TOPK_H_
#define TVM_RUNTIME_KERNELS_OP_TOPK_H_

#include <stdint.h>

/* tvmrt_topk_NAME(x, stride, count, k, largest, heap, values, value_stride, indices, index_stride)
 *
 * x[0], x[stride], ... are count elements, 0 <= k <= count <= INT32_MAX. The selected ones go to
 * values[0], values[value_stride], ... and their indices to indices likewise, best first; ties go
 * to the lower index. NaN is larger than every number. heap is scratch for k integers.
 *
 * The heap holds the best k indices so far with the worst of them on top, so most elements of a
 * long row cost one comparison. Sorting it in place then gives the order. */
#define TVMRT_DEFINE_TOPK(NAME, TYPE)                                                      \
  static inline int tvmrt_topk_is_worse_##NAME(const TYPE* x, int64_t stride, int32_t a,   \
                                               int32_t b, int largest) {                   \
    const TYPE va = x[a * stride], vb = x[b * stride];                                     \
    if (va < vb || (vb != vb && va == va)) return largest;                                 \
    if (va > vb || (va != va && vb == vb)) return !largest;                                \
    return a > b;                                                                          \
  }                                                                                        \
  static inline void tvmrt_topk_sink_##NAME(const TYPE* x, int64_t stride, int32_t* heap,  \
                                            int32_t size, int32_t root, int largest) {     \
    const int32_t item = heap[root];                                                       \
    for (int32_t child = 2 * root + 1; child < size; child = 2 * root + 1) {               \
      if (child + 1 < size &&                                                              \
          tvmrt_topk_is_worse_##NAME(x, stride, heap[child + 1], heap[child], largest)) {  \
        ++child;                                                                           \
      }                                                                                    \
      if (!tvmrt_topk_is_worse_##NAME(x, stride, heap[child], item, largest)) break;       \
      heap[root] = heap[child];                                                            \
      root = child;                                                                        \
    }                                                                                      \
    heap[root] = item;                                                                     \
  }                                                                                        \
  static inline void tvmrt_topk_##NAME(                                                    \
      const TYPE* x, int64_t stride, int32_t count, int32_t k, int largest, int32_t* heap, \
      TYPE* values, int64_t value_stride, int64_t* indices, int64_t index_stride) {        \
    if (k == 0) return;                                                                    \
    for (int32_t i = 0; i < k; ++i) heap[i] = i;                                           \
    for (int32_t i = k / 2 - 1; i >= 0; --i) {                                             \
      tvmrt_topk_sink_##NAME(x, stride, heap, k, i, largest);                              \
    }                                                                                      \
    for (int32_t i = k; i < count; ++i) {                                                  \
      if (!tvmrt_topk_is_worse_##NAME(x, stride, heap[0], i, largest)) continue;           \
      heap[0] = i;                                                                         \
      tvmrt_topk_sink_##NAME(x, stride, heap, k, 0, largest);                              \
    }                                                                                      \
    for (int32_t left = k; left > 0; --left) {                                             \
      const int32_t worst = heap[0];                                                       \
      values[(left - 1) * value_stride] = x[worst * stride];                               \
      indices[(left - 1) * index_stride] = worst;                                          \
      heap[0] = heap[left - 1];                                                            \
      tvmrt_topk_sink_##NAME(x, stride, heap, left - 1, 0, largest);                       \
    }                                                                                      \
  }

TVMRT_DEFINE_TOPK(float32, float)
TVMRT_DEFINE_TOPK(float64, double)
TVMRT_DEFINE_TOPK(int8, int8_t)
TVMRT_DEFINE_TOPK(int16, int16_t)
TVMRT_DEFINE_TOPK(int32, int32_t)
TVMRT_DEFINE_TOPK(int64, int64_t)
TVMRT_DEFINE_TOPK(uint8, uint8_t)
TVMRT_DEFINE_TOPK(uint16, uint16_t)
TVMRT_DEFINE_TOPK(uint32, uint32_t)
TVMRT_DEFINE_TOPK(uint64, uint64_t)

#endif /* TVM_RUNTIME_KERNELS_OP_TOPK_H_ */
