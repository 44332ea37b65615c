/* system.h on Windows. */
#define _CRT_RAND_S
#include <malloc.h>
#include <process.h>
#include <stdlib.h>

#include "system.h"
#include "windows_api.h"

double tvmrt__seconds(void) {
  LARGE_INTEGER count;
  LARGE_INTEGER each_second;
  /* neither fails from Windows XP on, and the frequency never changes */
  (void)QueryPerformanceCounter(&count);
  (void)QueryPerformanceFrequency(&each_second);
  return (double)count.QuadPart / (double)each_second.QuadPart;
}

/* Processor time has a resolution of 16 ms there: no worker is detected as late. */
double tvmrt__thread_seconds(void) { return tvmrt__seconds(); }

/* In milliseconds; the largest number would mean infinity. The comparison is also false for a
 * NaN. */
void tvmrt__sleep(double seconds) {
  if (!(seconds > 0)) return;
  Sleep(seconds >= 4e6 ? 4000000000u : (DWORD)(1e3 * seconds + 0.5));
}

/* Not for free(): the block begins before the returned address. */
void* tvmrt__aligned_alloc(size_t align, size_t bytes) { return _aligned_malloc(bytes, align); }

void tvmrt__aligned_free(void* memory) { _aligned_free(memory); }

/* The heap of this system returns large blocks by itself. */
void* tvmrt__pages_alloc(size_t bytes) { return _aligned_malloc(bytes, 4096); }

void tvmrt__pages_free(void* memory, size_t bytes) {
  (void)bytes;
  _aligned_free(memory);
}

/* Dropping pages of a mapped file is left to the system. */
void tvmrt__leave_pages(const void* begin, size_t bytes) {
  (void)begin;
  (void)bytes;
}

/* From the system's generator, 32 bits per call; on failure from the clock and the process id. */
uint64_t tvmrt__random_number(void) {
  uint64_t bits = 0;
  int i;
  for (i = 0; i < 2; ++i) {
    unsigned part = 0;
    if (rand_s(&part) != 0) part = (unsigned)(tvmrt__seconds() * 1e7) ^ (unsigned)_getpid() << 16;
    bits = bits << 32 | part;
  }
  return bits;
}

long tvmrt__process_id(void) { return (long)_getpid(); }
