/* Conversion of floating-point numbers to integers. Casts of out-of-range values are undefined in
 * C: numbers from outside are converted here. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_FLOAT_TO_INT_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_FLOAT_TO_INT_H_

#include <stdint.h>

/* Truncated and clamped to the range; 0 for a NaN. */
static inline int64_t tvmrt__float_to_int(double x) {
  if (x >= 9223372036854775808.0) return INT64_MAX;
  if (x <= -9223372036854775808.0) return INT64_MIN;
  return x == x ? (int64_t)x : 0;
}

/* Whole seconds of a timeout, clamped to 0 to 2e9 (63 years). */
static inline long tvmrt__floor_seconds(double x) {
  const int64_t whole = tvmrt__float_to_int(x);
  return whole > 2000000000 ? 2000000000 : whole < 0 ? 0 : (long)whole;
}

/* The fraction of a timeout without its whole seconds. */
static inline long tvmrt__nanoseconds(double x) {
  const int64_t whole = tvmrt__float_to_int(x);
  const double part = x - (double)whole;
  return whole < 0 || !(part > 0 && part < 1) ? 0 : (long)(part * 1e9);
}

#endif
