/* threads.h on POSIX systems: what is not a call of theirs alone. */
#define _GNU_SOURCE      /* processors of a thread */
#define _DARWIN_C_SOURCE /* macOS: waiting for a time */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "reals.h"
#include "system.h"
#include "threads.h"

/* Of numbers that are not negative: both parts are then in range. */
static struct timespec time_of(double seconds) {
  struct timespec t;
  t.tv_sec = tvmrt__whole_seconds(seconds);
  t.tv_nsec = tvmrt__nanoseconds(seconds);
  return t;
}

/* By the clock that nobody sets: a wait with a time limit ends after that time. */
#if defined(__APPLE__)
int tvmrt__cond_init(tvmrt_cond* c) { return pthread_cond_init(c, NULL); }

bool tvmrt__wait_until(tvmrt_cond* c, tvmrt_mutex* m, double when) {
  const double left = when - tvmrt__seconds();
  const struct timespec t = time_of(left < 0 ? 0 : left);
  return pthread_cond_timedwait_relative_np(c, m, &t) != ETIMEDOUT;
}
#else
int tvmrt__cond_init(tvmrt_cond* c) {
  pthread_condattr_t attr;
  int rc = pthread_condattr_init(&attr);
  if (rc != 0) return rc;
  /* Where it cannot be set, times of tvmrt__seconds() are long past by the other clock: waits end
   * at once, and callers look again. */
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  rc = pthread_cond_init(c, &attr);
  (void)pthread_condattr_destroy(&attr);
  return rc;
}

/* Only ETIMEDOUT is a no: what else ends the wait is looked at by the caller. */
bool tvmrt__wait_until(tvmrt_cond* c, tvmrt_mutex* m, double when) {
  const struct timespec t = time_of(when);
  return pthread_cond_timedwait(c, m, &t) != ETIMEDOUT;
}
#endif

/* 0, or the system's number of the error. *out is to be joined once, or its stack stays. */
int tvmrt__thread_start(tvmrt_os_thread* out, void* (*body)(void*), void* argument) {
  return pthread_create(out, NULL, body, argument);
}

/* Nobody waits for its end, and what it holds goes with it. */
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

/* To the processor at that place among those that the process may use, counted around. A hint:
 * where it fails the thread runs anywhere. */
void tvmrt__thread_bind(tvmrt_os_thread* thread, int place) {
#if defined(__linux__)
  cpu_set_t all;
  cpu_set_t one;
  int cpu;
  /* fails where the machine has more processors than the set, 1024 */
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return;
  place %= CPU_COUNT(&all);
  for (cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    /* `place` counts down over the processors that are there */
    if (!CPU_ISSET(cpu, &all) || place-- != 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)pthread_setaffinity_np(*thread, sizeof(one), &one);
    return;
  }
#else
  (void)thread;
  (void)place;
#endif
}

/* A key is there for its destructor: thread-local storage of C has none. */
static pthread_key_t end_key;
static bool has_end_key; /* key 0 is another library's where the process has none left */
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static _Atomic(void (*)(void*)) end_function; /* the same of all threads, which set it at once */

/* At the first use in the process; never deleted, since threads may end after the library's last
 * call. */
static void make_end_key(void) {
  has_end_key = pthread_key_create(&end_key, atomic_load(&end_function)) == 0;
}

/* One function for the process, with a state for each thread. -1 where it will not be called: the
 * state is then lost with the thread. A state of NULL is not called for: that is how one takes
 * its state back. */
int tvmrt__at_thread_end(void (*f)(void* state), void* state) {
  atomic_store(&end_function, f);
  (void)pthread_once(&end_once, make_end_key);
  return has_end_key && pthread_setspecific(end_key, state) == 0 ? 0 : -1;
}

/* For locks that fork() would leave taken in the child. Without memory it is not noted, and a child
 * may hang, as it would have without this. */
void tvmrt__at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  (void)pthread_atfork(before, in_parent, in_child);
}

/* At least 1, also where the system does not tell. */
int tvmrt__num_processors(void) {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
  cpu_set_t set; /* a container or taskset may leave fewer to this process */
  if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
#endif
  return count < 1 ? 1 : (int)count;
}
