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
  /* neither fails, and the second one never changes, from Windows XP on */
  (void)QueryPerformanceCounter(&count);
  (void)QueryPerformanceFrequency(&each_second);
  return (double)count.QuadPart / (double)each_second.QuadPart;
}

/* Processor time comes in steps of 16 ms there: nobody is found to be late. */
double tvmrt__thread_seconds(void) { return tvmrt__seconds(); }

/* In milliseconds, of which the largest number would mean for ever. The test is false for a NaN,
 * too. */
void tvmrt__sleep(double seconds) {
  if (!(seconds > 0)) return;
  Sleep(seconds >= 4e6 ? 4000000000u : (DWORD)(1e3 * seconds + 0.5));
}

/* Not for free(): the block begins before the address that is given out. */
void* tvmrt__aligned_alloc(size_t align, size_t bytes) { return _aligned_malloc(bytes, align); }

void tvmrt__aligned_free(void* memory) { _aligned_free(memory); }

/* Discarding what a view of a file has read is left to the system. */
void tvmrt__leave_pages(const void* begin, size_t bytes) {
  (void)begin;
  (void)bytes;
}

/* From the system's generator, 32 bits a call; the clock and the process where that fails. */
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
