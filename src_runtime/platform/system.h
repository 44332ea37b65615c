/* Time, memory with an alignment, and the process. The environment is read by getenv(). */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_SYSTEM_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_SYSTEM_H_

#include <stddef.h>
#include <stdint.h>

#include "compiler.h"

#if defined(_WIN32)
TVMRT_SDK double tvmrt__seconds(void);
double tvmrt__thread_seconds(void);
#else
#include <time.h>

/* Seconds since some fixed moment, of a clock that nobody sets. */
static inline double tvmrt__seconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0.0;
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds for which the calling thread has had a processor; tvmrt__seconds() where the system counts
 * them too coarsely. */
static inline double tvmrt__thread_seconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return tvmrt__seconds();
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
#endif

/* Let others run for that long, or less if a signal comes. */
TVMRT_SDK void tvmrt__sleep(double seconds);

/* Memory at a multiple of `align`, a power of two of at least sizeof(void*); NULL if there is none.
 * Given back by tvmrt__aligned_free(), which does nothing to NULL. */
TVMRT_SDK void* tvmrt__aligned_alloc(size_t align, size_t bytes);
TVMRT_SDK void tvmrt__aligned_free(void* memory);

/* Let the whole pages in these bytes, which are of a file that was mapped and never written, leave
 * memory: the system reads them again when they are touched. Nothing where it knows no such thing. */
TVMRT_SDK void tvmrt__leave_pages(const void* begin, size_t bytes);

/* 64 bits that nobody guesses; the clock where the system has no source of them. */
TVMRT_SDK uint64_t tvmrt__random_number(void);

/* The number of this process. */
long tvmrt__process_id(void);

#endif
