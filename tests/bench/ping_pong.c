/*
 * How long a word takes from one processor to another and back.
 *
 *   ping_pong
 *
 * Prints nanoseconds a round trip between the first two processors that the process may use: the
 * fastest of some batches. Where both share a cache these are some hundred, where each has its own
 * several times as many.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { BATCHES = 20, TRIPS = 500, MOST = 1024 };

static _Alignas(128) _Atomic int ball;
static int places[2];

static void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  (void)sched_setaffinity(0, sizeof(set), &set);
}

static void wait_for(int value) {
  while (atomic_load_explicit(&ball, memory_order_acquire) != value) {
  }
}

static void* answer(void* unused) {
  int i;
  (void)unused;
  stay_on(places[1]);
  for (i = 0; i < BATCHES * TRIPS; ++i) {
    wait_for(2 * i + 1);
    atomic_store_explicit(&ball, 2 * i + 2, memory_order_release);
  }
  return NULL;
}

static double nanoseconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static double fastest_trip(void) {
  double least = 0.0;
  int batch;
  int i;
  for (batch = 0; batch < BATCHES; ++batch) {
    const double begin = nanoseconds();
    double trip;
    for (i = batch * TRIPS; i < (batch + 1) * TRIPS; ++i) {
      atomic_store_explicit(&ball, 2 * i + 1, memory_order_release);
      wait_for(2 * i + 2);
    }
    trip = (nanoseconds() - begin) / TRIPS;
    if (batch == 0 || trip < least) least = trip;
  }
  return least;
}

int main(void) {
  cpu_set_t allowed;
  pthread_t other;
  int found = 0;
  int i;
  (void)sched_getaffinity(0, sizeof(allowed), &allowed);
  for (i = 0; i < MOST && found < 2; ++i) {
    if (CPU_ISSET(i, &allowed)) places[found++] = i;
  }
  if (found < 2) {
    fprintf(stderr, "there is one processor\n");
    return 1;
  }
  if (pthread_create(&other, NULL, answer, NULL) != 0) return 1;
  stay_on(places[0]);
  printf("%.0f\n", fastest_trip());
  return pthread_join(other, NULL);
}
