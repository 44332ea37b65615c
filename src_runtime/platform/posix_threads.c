/* threads.h on POSIX systems: functions that are more than one call. */
#define _GNU_SOURCE      /* processor affinity */
#define _DARWIN_C_SOURCE /* macOS: relative timed waits */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "float_to_int.h"
#include "system.h"
#include "threads.h"

/* For non-negative numbers: both parts are then in range. */
static struct timespec time_of(double seconds) {
  struct timespec t;
  t.tv_sec = tvmrt__floor_seconds(seconds);
  t.tv_nsec = tvmrt__nanoseconds(seconds);
  return t;
}

/* Uses the monotonic clock: a wait with a timeout ends after that time. */
#if defined(__APPLE__)
int tvmrt__cond_init(tvmrt_cond* c) { return pthread_cond_init(c, NULL); }

bool tvmrt__wait_until(tvmrt_cond* c, tvmrt_mutex* m, double deadline) {
  const double left = deadline - tvmrt__seconds();
  const struct timespec t = time_of(left < 0 ? 0 : left);
  return pthread_cond_timedwait_relative_np(c, m, &t) != ETIMEDOUT;
}
#else
int tvmrt__cond_init(tvmrt_cond* c) {
  pthread_condattr_t attr;
  int rc = pthread_condattr_init(&attr);
  if (rc != 0) return rc;
  /* If this fails, times of tvmrt__seconds() are long past by the other clock: waits end at once,
   * and callers check again. */
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  rc = pthread_cond_init(c, &attr);
  (void)pthread_condattr_destroy(&attr);
  return rc;
}

/* Only ETIMEDOUT gives false: after any other wake-up the caller checks its condition. */
bool tvmrt__wait_until(tvmrt_cond* c, tvmrt_mutex* m, double deadline) {
  const struct timespec t = time_of(deadline);
  return pthread_cond_timedwait(c, m, &t) != ETIMEDOUT;
}
#endif

/* 0, or the system's error number. *out must be joined once, or its stack leaks. */
int tvmrt__thread_start(tvmrt_os_thread* out, void* (*body)(void*), void* argument) {
  return pthread_create(out, NULL, body, argument);
}

/* The thread is not joined; its resources are released when it ends. */
int tvmrt__thread_start_detached(void* (*body)(void*), void* argument) {
  pthread_attr_t attr;
  pthread_t thread;
  int rc = pthread_attr_init(&attr);
  if (rc != 0) return rc;
  (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  rc = pthread_create(&thread, &attr, body, argument);
  (void)pthread_attr_destroy(&attr);
  return rc;
}

void tvmrt__thread_join(tvmrt_os_thread* thread) { (void)pthread_join(*thread, NULL); }

/* Bind to processor number `cpu_index`, modulo their number, of those that the process may use. A
 * hint: on failure the thread runs anywhere. */
void tvmrt__thread_bind(tvmrt_os_thread* thread, int cpu_index) {
#if defined(__linux__)
  cpu_set_t all;
  cpu_set_t one;
  int cpu;
  /* fails if the machine has more than 1024 processors, the size of the set */
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return;
  cpu_index %= CPU_COUNT(&all);
  for (cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    /* `cpu_index` counts down over the available processors */
    if (!CPU_ISSET(cpu, &all) || cpu_index-- != 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)pthread_setaffinity_np(*thread, sizeof(one), &one);
    return;
  }
#else
  (void)thread;
  (void)cpu_index;
#endif
}

/* A pthread key for its destructor: C's thread-local storage has none. */
static pthread_key_t end_key;
static bool has_end_key; /* key 0 belongs to another library if the process has no key left */
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static _Atomic(void (*)(void*)) end_function; /* equal for all threads, which may set it
                                               * concurrently */

/* On first use in the process; never deleted, since threads may end after the library's last
 * call. */
static void make_end_key(void) {
  has_end_key = pthread_key_create(&end_key, atomic_load(&end_function)) == 0;
}

/* One function per process, with a state per thread. -1 if it will not be called: the state then
 * leaks with the thread. It is not called for a NULL state: this is how to cancel it. */
int tvmrt__at_thread_end(void (*f)(void* state), void* state) {
  atomic_store(&end_function, f);
  (void)pthread_once(&end_once, make_end_key);
  return has_end_key && pthread_setspecific(end_key, state) == 0 ? 0 : -1;
}

/* For locks that fork() would leave locked in the child. If memory is exhausted, nothing is
 * registered, and a child may hang, as it would without this. */
void tvmrt__at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  (void)pthread_atfork(before, in_parent, in_child);
}

/* At least 1, also if the system reports no number. */
static int num_processors(void) {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : (int)count;
}

#if defined(__linux__)
enum { TEXT_BYTES = 64 };

/* Read the beginning of a file that the kernel makes; false if there is none. */
static bool read_text(const char* path, char* text) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? -1 : read(file, text, TEXT_BYTES - 1);
  if (file >= 0) (void)close(file);
  text[got < 0 ? 0 : got] = '\0';
  return got >= 0;
}

/* The first of the processors that share a core with this one; itself if the system does not say. */
static int first_of_core(int processor) {
  char path[80];
  char text[TEXT_BYTES];
  char* end;
  long first;
  (void)snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 processor);
  (void)read_text(path, text);
  first = strtol(text, &end, 10); /* of a list such as 0,4 or 0-1 */
  return end == text || first < 0 || first >= CPU_SETSIZE ? processor : (int)first;
}

/* Processors whose time the container may use, rounded up; INT_MAX without a limit. A container finds
 * its own limit at these paths, of version 2 of control groups or of version 1. */
static int container_limit(void) {
  char text[TEXT_BYTES];
  char* end = text;
  long quota;
  long period;
  if (read_text("/sys/fs/cgroup/cpu.max", text)) {
    quota = strtol(text, &end, 10); /* 0 for the word max */
    period = strtol(end, NULL, 10);
  } else {
    (void)read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text);
    quota = strtol(text, NULL, 10); /* -1: no limit */
    (void)read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", text);
    period = strtol(text, NULL, 10);
  }
  if (quota <= 0 || period <= 0 || quota / period >= INT_MAX) return INT_MAX;
  return (int)((quota - 1) / period) + 1;
}

/* A container or taskset may restrict this process to some processors, or to a share of their
 * time. */
int tvmrt__num_cores(void) {
  const int limit = container_limit();
  int count = num_processors();
  cpu_set_t usable;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(usable), &usable) == 0) {
    CPU_ZERO(&cores);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &usable)) CPU_SET(first_of_core(i), &cores);
    }
    count = CPU_COUNT(&cores);
  }
  return count < limit ? count : limit;
}
#elif defined(__APPLE__)
int tvmrt__num_cores(void) {
  int count = 0;
  size_t bytes = sizeof(count);
  const int rc = sysctlbyname("hw.physicalcpu", &count, &bytes, NULL, 0);
  return rc == 0 && count > 0 ? count : num_processors();
}
#else
int tvmrt__num_cores(void) { return num_processors(); }
#endif
