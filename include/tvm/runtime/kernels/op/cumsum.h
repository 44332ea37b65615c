/*!
 * \file cumsum.h
 * \brief Cumulative sums and products along one axis.
 *
 * For every element type NAME and KIND in sum, product:
 *
 *   tvmrt_cumulative_KIND_NAME(x, y, count, x_step, y_step, width, exclusive)
 *     y[i * y_step + c] = x[c] op x[x_step + c] op ... op x[i * x_step + c]  for c < width
 *
 * `exclusive` omits the last term, so that y begins with the neutral element. Steps may be
 * negative: with pointers to the last row this runs from the end. Integers wrap around. x and y
 * must not overlap.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_CUMSUM_H_
#define TVM_RUNTIME_KERNELS_OP_CUMSUM_H_

#include <stdint.h>

/* WIDE is the type of the arithmetic: unsigned for integers, which may overflow. */
#define TVMRT_DEFINE_CUMULATIVE(KIND, OP, START, NAME, TYPE, WIDE)                           \
  static inline void tvmrt_cumulative_##KIND##_##NAME(const TYPE* x, TYPE* y, int64_t count, \
                                                      int64_t x_step, int64_t y_step,        \
                                                      int64_t width, int exclusive) {        \
    if (width == 1) {                                                                        \
      WIDE total = (WIDE)(START);                                                            \
      for (int64_t i = 0; i < count; ++i) {                                                  \
        const WIDE next = total OP(WIDE) x[i * x_step];                                      \
        y[i * y_step] = (TYPE)(exclusive ? total : next);                                    \
        total = next;                                                                        \
      }                                                                                      \
      return;                                                                                \
    }                                                                                        \
    for (int64_t i = 0; i < count; ++i) {                                                    \
      TYPE* row = y + i * y_step;                                                            \
      const TYPE *term, *before;                                                             \
      if (i == 0) {                                                                          \
        for (int64_t c = 0; c < width; ++c) row[c] = exclusive ? (TYPE)(START) : x[c];       \
        continue;                                                                            \
      }                                                                                      \
      term = x + (i - exclusive) * x_step;                                                   \
      before = y + (i - 1) * y_step;                                                         \
      for (int64_t c = 0; c < width; ++c) row[c] = (TYPE)((WIDE)before[c] OP(WIDE) term[c]); \
    }                                                                                        \
  }

#define TVMRT_DEFINE_CUMULATIVES(NAME, TYPE, WIDE)     \
  TVMRT_DEFINE_CUMULATIVE(sum, +, 0, NAME, TYPE, WIDE) \
  TVMRT_DEFINE_CUMULATIVE(product, *, 1, NAME, TYPE, WIDE)

TVMRT_DEFINE_CUMULATIVES(float32, float, float)
TVMRT_DEFINE_CUMULATIVES(float64, double, double)
TVMRT_DEFINE_CUMULATIVES(int32, int32_t, uint32_t)
TVMRT_DEFINE_CUMULATIVES(int64, int64_t, uint64_t)
TVMRT_DEFINE_CUMULATIVES(uint32, uint32_t, uint32_t)
TVMRT_DEFINE_CUMULATIVES(uint64, uint64_t, uint64_t)

#endif /* TVM_RUNTIME_KERNELS_OP_CUMSUM_H_ */
