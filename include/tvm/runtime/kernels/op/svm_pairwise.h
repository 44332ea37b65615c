/*!
 * \file svm_pairwise.h
 * \brief Class probabilities from pairwise probabilities, for support vector machines.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_SVM_PAIRWISE_H_
#define TVM_RUNTIME_KERNELS_OP_SVM_PAIRWISE_H_

#include <math.h>
#include <stdint.h>

/* The probability of class i against class j; `pairs` has those with i before j. */
static inline float tvmrt_pair(const float* pairs, int32_t classes, int32_t i, int32_t j) {
  const int32_t a = i < j ? i : j, b = i < j ? j : i;
  const float p = pairs[a * classes - a * (a + 1) / 2 + b - a - 1];
  return i < j ? p : 1.0f - p;
}

/*!
 * \brief The p with minimum summed differences of p[i] * r[j][i] and p[j] * r[i][j].
 *
 * The method of Wu, Lin and Weng (2004) as iterated by libsvm: coordinate by coordinate, until no
 * condition is violated by more than 0.005 / classes.
 *
 * \param pairs [in] r, (0, 1), (0, 2), ... (1, 2), ...
 * \param p     [out] `classes` probabilities that sum to 1; must not be pairs.
 * \param q     [scratch] classes * (classes + 1) floats.
 */
static inline void tvmrt_svm_pairwise_f32(const float* pairs, int32_t classes, float* p, float* q) {
  float* const qp = q + classes * classes;
  const float enough = 0.005f / (float)classes;
  for (int32_t t = 0; t < classes; t++) {
    p[t] = 1.0f / (float)classes;
    q[t * classes + t] = 0.0f;
    for (int32_t j = 0; j < classes; j++) {
      if (j == t) continue;
      const float against = tvmrt_pair(pairs, classes, j, t);
      q[t * classes + t] += against * against;
      q[t * classes + j] = -against * tvmrt_pair(pairs, classes, t, j);
    }
  }
  for (int32_t round = 0; round < 100 || round < classes; round++) {
    float pqp = 0.0f, worst = 0.0f;
    for (int32_t t = 0; t < classes; t++) {
      qp[t] = 0.0f;
      for (int32_t j = 0; j < classes; j++) qp[t] += q[t * classes + j] * p[j];
      pqp += p[t] * qp[t];
    }
    for (int32_t t = 0; t < classes; t++) worst = fmaxf(worst, fabsf(qp[t] - pqp));
    if (worst < enough) break;
    for (int32_t t = 0; t < classes; t++) {
      const float own = q[t * classes + t], step = (pqp - qp[t]) / own;
      p[t] += step;
      pqp = (pqp + step * (step * own + 2.0f * qp[t])) / ((1.0f + step) * (1.0f + step));
      for (int32_t j = 0; j < classes; j++) {
        qp[j] = (qp[j] + step * q[t * classes + j]) / (1.0f + step);
        p[j] /= 1.0f + step;
      }
    }
  }
}

#endif /* TVM_RUNTIME_KERNELS_OP_SVM_PAIRWISE_H_ */
