/*!
 * \file argmax.h
 * \brief Indices of the largest or smallest element of rows (ArgMax, ArgMin).
 *
 * Ties go to the first element, or to the last if `last` is 1. NaN precedes every number, for
 * ArgMax and ArgMin alike. For every element type NAME:
 *
 *   tvmrt_argmax_NAME(x, count, stride, last)
 *     the index in x[0], x[stride], ...
 *   tvmrt_argmax_rows_NAME(x, y, count, stride, width, last)
 *     for c < width the index in x[c], x[c + stride], ... into y[c]
 *
 * and likewise for argmin. Counts are at least 1 and at most INT32_MAX.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_ARGMAX_H_
#define TVM_RUNTIME_KERNELS_OP_ARGMAX_H_

#include <stdint.h>

/*! \brief Elements compared in parallel; the loops over them vectorise. */
#define TVMRT_ARG_LANES 32

/* A contiguous row is read twice, for the extreme value and then for its index: both passes
 * vectorise, unlike a single pass that tracks indices. */
#define TVMRT_DEFINE_ARG(KIND, NAME, TYPE, BETTER)                                             \
  static inline TYPE tvmrt_##KIND##_value_##NAME(const TYPE* x, int64_t count, int* has_nan) { \
    const int64_t whole = count - count % TVMRT_ARG_LANES;                                     \
    TYPE best = x[0];                                                                          \
    int missing = 0;                                                                           \
    if (whole > 0) {                                                                           \
      TYPE lane[TVMRT_ARG_LANES];                                                              \
      int odd[TVMRT_ARG_LANES];                                                                \
      for (int j = 0; j < TVMRT_ARG_LANES; ++j) lane[j] = x[j], odd[j] = x[j] != x[j];         \
      for (int64_t i = TVMRT_ARG_LANES; i < whole; i += TVMRT_ARG_LANES) {                     \
        for (int j = 0; j < TVMRT_ARG_LANES; ++j) {                                            \
          odd[j] |= x[i + j] != x[i + j];                                                      \
          lane[j] = x[i + j] BETTER lane[j] ? x[i + j] : lane[j];                              \
        }                                                                                      \
      }                                                                                        \
      for (int j = 0; j < TVMRT_ARG_LANES; ++j) {                                              \
        missing |= odd[j];                                                                     \
        best = lane[j] BETTER best ? lane[j] : best;                                           \
      }                                                                                        \
    }                                                                                          \
    for (int64_t i = whole; i < count; ++i) {                                                  \
      missing |= x[i] != x[i];                                                                 \
      best = x[i] BETTER best ? x[i] : best;                                                   \
    }                                                                                          \
    *has_nan = missing;                                                                        \
    return best;                                                                               \
  }                                                                                            \
  static inline int64_t tvmrt_##KIND##_find_##NAME(const TYPE* x, int64_t count, TYPE best,    \
                                                   int last) {                                 \
    const int64_t whole = count - count % TVMRT_ARG_LANES;                                     \
    int64_t i = 0;                                                                             \
    if (last) {                                                                                \
      for (i = count - 1; i > 0 && x[i] != best; --i) {                                        \
      }                                                                                        \
      return i;                                                                                \
    }                                                                                          \
    for (; i < whole; i += TVMRT_ARG_LANES) {                                                  \
      int hits = 0;                                                                            \
      for (int j = 0; j < TVMRT_ARG_LANES; ++j) hits |= x[i + j] == best;                      \
      if (hits) break;                                                                         \
    }                                                                                          \
    for (; i < count; ++i) {                                                                   \
      if (x[i] == best) return i;                                                              \
    }                                                                                          \
    return 0;                                                                                  \
  }                                                                                            \
  static inline int64_t tvmrt_##KIND##_nan_##NAME(const TYPE* x, int64_t count, int last) {    \
    int64_t i = last ? count - 1 : 0;                                                          \
    while (x[i] == x[i]) i += last ? -1 : 1;                                                   \
    return i;                                                                                  \
  }                                                                                            \
  static inline int64_t tvmrt_##KIND##_##NAME(const TYPE* x, int64_t count, int64_t stride,    \
                                              int last) {                                      \
    TYPE best = x[0];                                                                          \
    int64_t index = 0;                                                                         \
    if (stride == 1) {                                                                         \
      int has_nan;                                                                             \
      best = tvmrt_##KIND##_value_##NAME(x, count, &has_nan);                                  \
      if (has_nan) return tvmrt_##KIND##_nan_##NAME(x, count, last);                           \
      return tvmrt_##KIND##_find_##NAME(x, count, best, last);                                 \
    }                                                                                          \
    for (int64_t i = 1; i < count; ++i) {                                                      \
      const TYPE v = x[i * stride];                                                            \
      if (v BETTER best || (v != v && best == best) ||                                         \
          (last && (v == best || (v != v && best != best)))) {                                 \
        best = v;                                                                              \
        index = i;                                                                             \
      }                                                                                        \
    }                                                                                          \
    return index;                                                                              \
  }                                                                                            \
  static inline void tvmrt_##KIND##_rows_##NAME(const TYPE* x, int64_t* y, int64_t count,      \
                                                int64_t stride, int64_t width, int last) {     \
    for (int64_t first = 0; first < width; first += TVMRT_ARG_LANES) {                         \
      const int n = (int)(width - first < TVMRT_ARG_LANES ? width - first : TVMRT_ARG_LANES);  \
      TYPE best[TVMRT_ARG_LANES];                                                              \
      int32_t index[TVMRT_ARG_LANES], odd[TVMRT_ARG_LANES];                                    \
      for (int j = 0; j < n; ++j) {                                                            \
        best[j] = x[first + j];                                                                \
        index[j] = 0;                                                                          \
        odd[j] = best[j] != best[j];                                                           \
      }                                                                                        \
      for (int32_t i = 1; i < count; ++i) {                                                    \
        const TYPE* row = x + first + i * stride;                                              \
        for (int j = 0; j < n; ++j) {                                                          \
          const int take = (row[j] BETTER best[j]) | (last & (row[j] == best[j]));             \
          odd[j] |= row[j] != row[j];                                                          \
          index[j] = take ? i : index[j];                                                      \
          best[j] = take ? row[j] : best[j];                                                   \
        }                                                                                      \
      }                                                                                        \
      for (int j = 0; j < n; ++j) {                                                            \
        y[first + j] =                                                                         \
            odd[j] ? tvmrt_##KIND##_##NAME(x + first + j, count, stride, last) : index[j];     \
      }                                                                                        \
    }                                                                                          \
  }

#define TVMRT_DEFINE_ARGS(NAME, TYPE)     \
  TVMRT_DEFINE_ARG(argmax, NAME, TYPE, >) \
  TVMRT_DEFINE_ARG(argmin, NAME, TYPE, <)

TVMRT_DEFINE_ARGS(float32, float)
TVMRT_DEFINE_ARGS(float64, double)
TVMRT_DEFINE_ARGS(int8, int8_t)
TVMRT_DEFINE_ARGS(int16, int16_t)
TVMRT_DEFINE_ARGS(int32, int32_t)
TVMRT_DEFINE_ARGS(int64, int64_t)
TVMRT_DEFINE_ARGS(uint8, uint8_t)
TVMRT_DEFINE_ARGS(uint16, uint16_t)
TVMRT_DEFINE_ARGS(uint32, uint32_t)
TVMRT_DEFINE_ARGS(uint64, uint64_t)
TVMRT_DEFINE_ARGS(bool, uint8_t)

#endif /* TVM_RUNTIME_KERNELS_OP_ARGMAX_H_ */
