/*!
 * \file determinant.h
 * \brief Determinants by Gaussian elimination with row exchange.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_DETERMINANT_H_
#define TVM_RUNTIME_KERNELS_OP_DETERMINANT_H_

#include <stdint.h>

/* tvmrt_det_NAME(x, a, n): the determinant of the n x n matrix x; scratch a: n * n elements. */
#define TVMRT_DEFINE_DET(NAME, TYPE)                                                   \
  static inline TYPE tvmrt_det_##NAME(const TYPE* x, TYPE* a, int n) {                 \
    TYPE det = 1;                                                                      \
    for (int i = 0; i < n * n; ++i) a[i] = x[i];                                       \
    for (int k = 0; k < n; ++k) {                                                      \
      int pivot = k;                                                                   \
      for (int r = k + 1; r < n; ++r) {                                                \
        const TYPE element = a[r * n + k], best = a[pivot * n + k];                    \
        if ((element < 0 ? -element : element) > (best < 0 ? -best : best)) pivot = r; \
      }                                                                                \
      if (a[pivot * n + k] == 0) return 0;                                             \
      if (pivot != k) {                                                                \
        det = -det;                                                                    \
        for (int c = k; c < n; ++c) {                                                  \
          const TYPE other = a[pivot * n + c];                                         \
          a[pivot * n + c] = a[k * n + c];                                             \
          a[k * n + c] = other;                                                        \
        }                                                                              \
      }                                                                                \
      det *= a[k * n + k];                                                             \
      for (int r = k + 1; r < n; ++r) {                                                \
        const TYPE factor = a[r * n + k] / a[k * n + k];                               \
        for (int c = k + 1; c < n; ++c) a[r * n + c] -= factor * a[k * n + c];         \
      }                                                                                \
    }                                                                                  \
    return det;                                                                        \
  }

TVMRT_DEFINE_DET(float32, float)
TVMRT_DEFINE_DET(float64, double)

#endif /* TVM_RUNTIME_KERNELS_OP_DETERMINANT_H_ */
