/* Makes the n-th allocation, lock or thread creation fail. */
#ifndef TVMRT_TESTS_C_ALLOCATION_FAULTS_H_
#define TVMRT_TESTS_C_ALLOCATION_FAULTS_H_

#include "fault_injection.h"

void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* ptr, size_t size);
int __real_posix_memalign(void** out, size_t align, size_t size);
void* __wrap_malloc(size_t size);
void* __wrap_calloc(size_t count, size_t size);
void* __wrap_realloc(void* ptr, size_t size);
int __wrap_posix_memalign(void** out, size_t align, size_t size);

void* __wrap_malloc(size_t size) { return fails_now(ENOMEM) ? NULL : __real_malloc(size); }
void* __wrap_calloc(size_t count, size_t size) {
  return fails_now(ENOMEM) ? NULL : __real_calloc(count, size);
}
void* __wrap_realloc(void* ptr, size_t size) {
  return fails_now(ENOMEM) ? NULL : __real_realloc(ptr, size);
}
int __wrap_posix_memalign(void** out, size_t align, size_t size) {
  return fails_now(0) ? ENOMEM : __real_posix_memalign(out, align, size);
}

#endif
