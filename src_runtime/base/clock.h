/* The monotonic clock. */
#ifndef TVMRT_SRC_RUNTIME_BASE_CLOCK_H_
#define TVMRT_SRC_RUNTIME_BASE_CLOCK_H_

#include <time.h>

/* Seconds since some fixed moment. */
static inline double tvmrt__seconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0.0;
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
