/*
 * A machine with a GPU, without one: libcuda, NVRTC and cuBLAS with the functions that the device "cuda"
 * calls. Kernels are compiled for the host and run there, so that their arithmetic is what is tested.
 *
 * Streams do nothing until somebody waits or asks; the GPU's memory can be touched by what runs on a
 * stream alone; copies from pinned memory read it when they run. So a wait that is missing, or an address
 * of the wrong side, shows.
 *
 * TVMRT_STAND_IN_FAIL=FUNCTION[:STATUS] makes each call of a function fail.
 */
#ifndef TESTS_C_CUDA_STAND_IN_STAND_IN_H_
#define TESTS_C_CUDA_STAND_IN_STAND_IN_H_

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* The status that a call of this function has to return at once; 0: none. */
static inline int stand_in_failure(const char* name) {
  const char* given = getenv("TVMRT_STAND_IN_FAIL");
  const size_t length = strlen(name);
  if (given == NULL || strncmp(given, name, length) != 0) return 0;
  if (given[length] == ':') return atoi(given + length + 1);
  return given[length] == '\0' ? 719 : 0;
}
#define FAIL_IF_ASKED()                            \
  do {                                             \
    const int asked_ = stand_in_failure(__func__); \
    if (asked_ != 0) return asked_;                \
  } while (0)

/* Have a stream call a function with a copy of some bytes. */
EXPORT int stand_in_enqueue(void* stream, void (*run)(void*), const void* bytes, size_t size);

#endif
