/*!
 * \file nonzero.h
 * \brief Data-dependent sizes: how many elements are kept, and which.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_NONZERO_H_
#define TVM_RUNTIME_KERNELS_OP_NONZERO_H_

#include <stdint.h>
#include <string.h>

#include "index_bounds.h"

/*!
 * \brief Check a data-dependent count and store it as an extent.
 * \param where Operator, node and counted quantity.
 * \return 0; -1 with "ValueError: WHERE is N, expected LOW to HIGH" if it is out of range.
 */
static inline int tvmrt_count(int64_t number, int32_t low, int32_t high, const char* where,
                              int32_t* out) {
#ifndef TVMRT_FREESTANDING
  char text[512];
  const char* const end = text + sizeof(text) - 1;
  char* p = text;
  const int64_t numbers[] = {number, low, high};
  const char* const words[] = {" is ", ", expected ", " to "};
#endif
  if (TVMRT_LIKELY(number >= low && number <= high)) {
    *out = (int32_t)number;
    return 0;
  }
#ifdef TVMRT_FREESTANDING
  (void)where;
#else
  p = tvmrt_index_put(p, end, "ValueError: ", 12);
  p = tvmrt_index_put(p, end, where, strlen(where));
  for (int i = 0; i < 3; ++i) {
    p = tvmrt_index_put(p, end, words[i], strlen(words[i]));
    p = tvmrt_index_put_number(p, end, numbers[i]);
  }
  *p = '\0';
  TVMAPISetLastError(text);
#endif
  return -1;
}

/* tvmrt_count_nonzero_NAME(x, count): the number of elements that are not 0. tvmrt_nonzero_NAME(x,
 * rank, shape, num_kept, y): the indices of the first `num_kept` of these, in row-major order:
 * y[axis * num_kept + i] is the index of the i-th along an axis. */
#define TVMRT_DEFINE_NONZERO(NAME, TYPE)                                                 \
  static inline int64_t tvmrt_count_nonzero_##NAME(const TYPE* x, int64_t count) {       \
    int64_t found = 0;                                                                   \
    for (int64_t i = 0; i < count; ++i) found += x[i] != 0;                              \
    return found;                                                                        \
  }                                                                                      \
  static inline void tvmrt_nonzero_##NAME(const TYPE* x, int rank, const int32_t* shape, \
                                          int64_t num_kept, int64_t* y) {                \
    int64_t i = 0, size = 1;                                                             \
    for (int axis = 0; axis < rank; ++axis) size *= shape[axis];                         \
    for (int64_t index = 0; i < num_kept && index < size; ++index) {                     \
      int64_t rest = index;                                                              \
      if (x[index] == 0) continue;                                                       \
      for (int axis = rank - 1; axis >= 0; --axis) {                                     \
        y[axis * num_kept + i] = rest % shape[axis];                                     \
        rest /= shape[axis];                                                             \
      }                                                                                  \
      ++i;                                                                               \
    }                                                                                    \
  }

TVMRT_DEFINE_NONZERO(bool, uint8_t)
TVMRT_DEFINE_NONZERO(float32, float)
TVMRT_DEFINE_NONZERO(float64, double)
TVMRT_DEFINE_NONZERO(int8, int8_t)
TVMRT_DEFINE_NONZERO(int16, int16_t)
TVMRT_DEFINE_NONZERO(int32, int32_t)
TVMRT_DEFINE_NONZERO(int64, int64_t)
TVMRT_DEFINE_NONZERO(uint8, uint8_t)
TVMRT_DEFINE_NONZERO(uint16, uint16_t)
TVMRT_DEFINE_NONZERO(uint32, uint32_t)
TVMRT_DEFINE_NONZERO(uint64, uint64_t)

#endif /* TVM_RUNTIME_KERNELS_OP_NONZERO_H_ */
