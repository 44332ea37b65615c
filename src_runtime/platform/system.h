/* Time, aligned memory, and the process. The environment is read by getenv(). */
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

/* Seconds since a fixed moment, by a monotonic clock. */
static inline double tvmrt__seconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0.0;
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Processor time of the calling thread in seconds; tvmrt__seconds() if the system's resolution is
 * too coarse. */
static inline double tvmrt__thread_seconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return tvmrt__seconds();
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
#endif

/* Sleep for that time, or shorter if a signal arrives. */
TVMRT_SDK void tvmrt__sleep(double seconds);

/* Memory aligned to `align`, a power of two of at least sizeof(void*); NULL if memory is exhausted.
 * Released by tvmrt__aligned_free(), which accepts NULL. */
TVMRT_SDK void* tvmrt__aligned_alloc(size_t align, size_t bytes);
TVMRT_SDK void tvmrt__aligned_free(void* memory);

/* Memory of its own pages, at least 4096 bytes aligned; NULL if memory is exhausted.
 * tvmrt__pages_free() returns it to the system at once, where the heap would keep it. */
void* tvmrt__pages_alloc(size_t bytes);
void tvmrt__pages_free(void* memory, size_t bytes);

/* Drop whole pages of a mapped, never written file from memory: the system reads them again on
 * access. No-op if the system does not support this. */
TVMRT_SDK void tvmrt__leave_pages(const void* begin, size_t bytes);

/* 64 unpredictable bits; from the clock if the system has no source of them. */
TVMRT_SDK uint64_t tvmrt__random_number(void);

/* The id of this process. */
long tvmrt__process_id(void);

#endif
