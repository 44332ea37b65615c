/* system.h on POSIX systems. */
#include <stdlib.h>
#include <unistd.h>

#include "system.h"

void tvmrt__sleep(double seconds) {
  struct timespec pause;
  if (!(seconds > 0)) return;
  pause.tv_sec = (time_t)seconds;
  pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
  (void)nanosleep(&pause, NULL);
}

void* tvmrt__aligned_alloc(size_t align, size_t bytes) {
  void* memory = NULL;
  return posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}

void tvmrt__aligned_free(void* memory) { free(memory); }

long tvmrt__process_id(void) { return (long)getpid(); }
