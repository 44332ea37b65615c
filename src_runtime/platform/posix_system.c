/* system.h on POSIX systems. */
#define _DEFAULT_SOURCE /* madvise(), MAP_ANONYMOUS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "float_to_int.h"
#include "system.h"

/* A signal may end it early, which is acceptable for callers that poll. Returns at once for a NaN,
 * for which no comparison holds. */
void tvmrt__sleep(double seconds) {
  struct timespec pause;
  if (!(seconds > 0)) return;
  pause.tv_sec = tvmrt__floor_seconds(seconds);
  pause.tv_nsec = tvmrt__nanoseconds(seconds);
  (void)nanosleep(&pause, NULL);
}

/* Released only by tvmrt__aligned_free(), which differs from free() on other systems. Not C11's
 * aligned_alloc(), which requires sizes that are multiples of the alignment. */
void* tvmrt__aligned_alloc(size_t align, size_t bytes) {
  void* memory = NULL;
  return posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}

void tvmrt__aligned_free(void* memory) { free(memory); }

void* tvmrt__pages_alloc(size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void tvmrt__pages_free(void* memory, size_t bytes) { (void)munmap(memory, bytes); }

/* Only whole pages inside of the range: adjacent data may be in use. */
void tvmrt__leave_pages(const void* begin, size_t bytes) {
#if defined(__linux__)
  /* queried at run time: 4 KiB on most machines, 16 or 64 KiB on others */
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t first = ((uintptr_t)begin + page - 1) / page * page;
  const uintptr_t end = ((uintptr_t)begin + bytes) / page * page;
  if (first < end) (void)madvise((void*)first, end - first, MADV_DONTNEED);
#else
  (void)begin; /* on other systems this call may lose written data, or do nothing */
  (void)bytes;
#endif
}

/* For session keys; without the system's source it is merely unique, not secret. */
uint64_t tvmrt__random_number(void) {
  uint64_t bits = 0;
  FILE* file = fopen("/dev/urandom", "rb");
  if (file == NULL || fread(&bits, sizeof(bits), 1, file) != 1) {
    bits = (uint64_t)(tvmrt__seconds() * 1e9) ^ (uint64_t)getpid() << 32;
  }
  if (file != NULL) (void)fclose(file);
  return bits;
}

/* For names of files that several processes write. */
long tvmrt__process_id(void) { return (long)getpid(); }
