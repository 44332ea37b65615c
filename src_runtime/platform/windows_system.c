/* system.h on Windows. */
#include <malloc.h>
#include <process.h>

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

void tvmrt__sleep(double seconds) {
  if (!(seconds > 0)) return;
  Sleep(seconds >= 4e6 ? 4000000000u : (DWORD)(1e3 * seconds + 0.5));
}

void* tvmrt__aligned_alloc(size_t align, size_t bytes) { return _aligned_malloc(bytes, align); }

void tvmrt__aligned_free(void* memory) { _aligned_free(memory); }

/* Discarding what a view of a file has read is left to the system. */
void tvmrt__leave_pages(const void* begin, size_t bytes) {
  (void)begin;
  (void)bytes;
}

long tvmrt__process_id(void) { return (long)_getpid(); }
