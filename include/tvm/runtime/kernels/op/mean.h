/*!
 * \file mean.h
 * \brief Mean of 64-bit integers; their sum may exceed every integer type.
 *
 * For NAME in int64, uint64, and n elements in total, n at least 1 and below 2^31:
 *
 *   tvmrt_mean_start_NAME()       the state before the first element
 *   tvmrt_mean_add_NAME(m, x, n)  the state after element x
 *   tvmrt_mean_end_NAME(m, n)     the mean, rounded toward zero
 */
#ifndef TVM_RUNTIME_KERNELS_OP_MEAN_H_
#define TVM_RUNTIME_KERNELS_OP_MEAN_H_

#include <stdint.h>

/* The sum is whole * n + rest: neither the quotients nor the remainders of n elements overflow 64
 * bits. */
#define TVMRT_DEFINE_MEAN(NAME, TYPE)                                                          \
  typedef struct {                                                                             \
    TYPE whole, rest;                                                                          \
  } tvmrt_mean_##NAME;                                                                         \
  static inline tvmrt_mean_##NAME tvmrt_mean_start_##NAME(void) {                              \
    const tvmrt_mean_##NAME none = {0, 0};                                                     \
    return none;                                                                               \
  }                                                                                            \
  static inline tvmrt_mean_##NAME tvmrt_mean_add_##NAME(tvmrt_mean_##NAME m, TYPE x, TYPE n) { \
    m.whole += x / n;                                                                          \
    m.rest += x % n;                                                                           \
    return m;                                                                                  \
  }

TVMRT_DEFINE_MEAN(int64, int64_t)
TVMRT_DEFINE_MEAN(uint64, uint64_t)

/* If quotient and remainder have different signs, the quotient is one too far from zero. */
static inline int64_t tvmrt_mean_end_int64(tvmrt_mean_int64 m, int64_t n) {
  const int64_t whole = m.whole + m.rest / n, rest = m.rest % n;
  if (whole > 0 && rest < 0) return whole - 1;
  return whole < 0 && rest > 0 ? whole + 1 : whole;
}

static inline uint64_t tvmrt_mean_end_uint64(tvmrt_mean_uint64 m, uint64_t n) {
  return m.whole + m.rest / n;
}

#endif /* TVM_RUNTIME_KERNELS_OP_MEAN_H_ */
