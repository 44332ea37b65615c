/*!
 * \file unique.h
 * \brief Unique slices of a tensor.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_UNIQUE_H_
#define TVM_RUNTIME_KERNELS_OP_UNIQUE_H_

#include <stdint.h>
#include <string.h>

/*! \brief A tensor [outer][count][inner] whose `count` slices are compared, and options. */
typedef struct tvmrt_unique_layer {
  int32_t outer;
  int32_t count;
  int32_t inner;
  /*! \brief Ascending; else in order of first occurrence. */
  int32_t sorted;
  /*! \brief Whether slices with NaN at the same indices are equal; else a slice with NaN equals
   * none. */
  int32_t equal_nan;
} tvmrt_unique_layer;

/* Merge order[begin, middle) and order[middle, end), stably. It takes whole names: `bool` is a
 * macro if <stdbool.h> is included, and would be expanded before it is pasted. */
#define TVMRT_UNIQUE_MERGE(MERGE, COMPARE)                                                  \
  static inline void MERGE(const tvmrt_unique_layer* p, const void* x, int32_t* order,      \
                           int32_t* merged, int32_t begin, int32_t middle, int32_t end) {   \
    int32_t a = begin, b = middle;                                                          \
    for (int32_t i = begin; i < end; ++i) {                                                 \
      const int second = a >= middle || (b < end && COMPARE(p, x, order[a], order[b]) > 0); \
      merged[i] = second ? order[b++] : order[a++];                                         \
    }                                                                                       \
    memcpy(order + begin, merged + begin, (size_t)(end - begin) * sizeof(*order));          \
  }

/* tvmrt_unique_NAME(p, x, scratch, first, inverse, counts): for each unique slice, the index of its
 * first occurrence and its count; for each slice, the number of its unique slice. Returns the
 * number of unique slices. NaN is larger than every number. scratch has space for 3 * count
 * integers, each result for count.
 *
 * compare_NAME() orders slices, NaN like NaN; nan_NAME() is whether a slice has NaN. */
#define TVMRT_DEFINE_UNIQUE(NAME, TYPE)                                                         \
  static inline int tvmrt_unique_compare_##NAME(const tvmrt_unique_layer* p, const void* data,  \
                                                int32_t a, int32_t b) {                         \
    const TYPE* const x = (const TYPE*)data;                                                    \
    for (int32_t o = 0; o < p->outer; ++o) {                                                    \
      const TYPE* const row = x + (int64_t)o * p->count * p->inner;                             \
      for (int32_t i = 0; i < p->inner; ++i) {                                                  \
        const TYPE va = row[(int64_t)a * p->inner + i], vb = row[(int64_t)b * p->inner + i];    \
        if (va < vb || (vb != vb && va == va)) return -1;                                       \
        if (va > vb || (va != va && vb == vb)) return 1;                                        \
      }                                                                                         \
    }                                                                                           \
    return 0;                                                                                   \
  }                                                                                             \
  static inline int tvmrt_unique_nan_##NAME(const tvmrt_unique_layer* p, const TYPE* x,         \
                                            int32_t a) {                                        \
    for (int32_t o = 0; o < p->outer; ++o) {                                                    \
      const TYPE* const slice = x + ((int64_t)o * p->count + a) * p->inner;                     \
      for (int32_t i = 0; i < p->inner; ++i) {                                                  \
        if (slice[i] != slice[i]) return 1;                                                     \
      }                                                                                         \
    }                                                                                           \
    return 0;                                                                                   \
  }                                                                                             \
  TVMRT_UNIQUE_MERGE(tvmrt_unique_merge_##NAME, tvmrt_unique_compare_##NAME)                    \
  static inline int64_t tvmrt_unique_##NAME(const tvmrt_unique_layer* p, const TYPE* x,         \
                                            int32_t* scratch, int64_t* first, int64_t* inverse, \
                                            int64_t* counts) {                                  \
    int32_t *const order = scratch, *const merged = scratch + p->count;                         \
    int32_t* const number = merged + p->count;                                                  \
    int64_t num_unique = 0;                                                                     \
    for (int32_t i = 0; i < p->count; ++i) order[i] = i;                                        \
    for (int64_t run = 1; run < p->count; run *= 2) {                                           \
      for (int64_t begin = 0; begin + run < p->count; begin += 2 * run) {                       \
        const int64_t end = begin + 2 * run < p->count ? begin + 2 * run : p->count;            \
        tvmrt_unique_merge_##NAME(p, x, order, merged, (int32_t)begin, (int32_t)(begin + run),  \
                                  (int32_t)end);                                                \
      }                                                                                         \
    }                                                                                           \
    for (int32_t i = 0; i < p->count; ++i) {                                                    \
      if (i == 0 || tvmrt_unique_compare_##NAME(p, x, order[i - 1], order[i]) != 0 ||           \
          (!p->equal_nan && tvmrt_unique_nan_##NAME(p, x, order[i]))) {                         \
        first[num_unique] = order[i];                                                           \
        counts[num_unique] = 0;                                                                 \
        ++num_unique;                                                                           \
      }                                                                                         \
      ++counts[num_unique - 1];                                                                 \
      inverse[order[i]] = num_unique - 1;                                                       \
    }                                                                                           \
    if (!p->sorted)                                                                             \
      tvmrt_unique_in_input_order(p->count, num_unique, order, number, first, inverse, counts); \
    return num_unique;                                                                          \
  }

/* Order unique slices by first occurrence. */
static inline void tvmrt_unique_in_input_order(int32_t count, int64_t num_unique, int32_t* sums,
                                               int32_t* number, int64_t* first, int64_t* inverse,
                                               int64_t* counts) {
  int32_t next = 0;
  for (int64_t k = 0; k < num_unique; ++k) number[k] = -1;
  for (int32_t i = 0; i < count; ++i) {
    const int64_t k = inverse[i];
    if (number[k] < 0) {
      sums[next] = (int32_t)counts[k];
      number[k] = next;
      first[next] = i;
      ++next;
    }
    inverse[i] = number[k];
  }
  for (int64_t k = 0; k < num_unique; ++k) counts[k] = sums[k];
}

TVMRT_DEFINE_UNIQUE(float32, float)
TVMRT_DEFINE_UNIQUE(float64, double)
TVMRT_DEFINE_UNIQUE(bool, uint8_t)
TVMRT_DEFINE_UNIQUE(int8, int8_t)
TVMRT_DEFINE_UNIQUE(int16, int16_t)
TVMRT_DEFINE_UNIQUE(int32, int32_t)
TVMRT_DEFINE_UNIQUE(int64, int64_t)
TVMRT_DEFINE_UNIQUE(uint8, uint8_t)
TVMRT_DEFINE_UNIQUE(uint16, uint16_t)
TVMRT_DEFINE_UNIQUE(uint32, uint32_t)
TVMRT_DEFINE_UNIQUE(uint64, uint64_t)

#endif /* TVM_RUNTIME_KERNELS_OP_UNIQUE_H_ */
