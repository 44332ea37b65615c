#include "fewer_threads.h"

#include <string.h>

#include "../platform/system.h"

enum {
  SURELY_WAKES = 24, /* tasks: kernels request one per two microseconds of work */
  LONG_LAUNCHES = 32 /* number of launches that wake workers after a long launch of few tasks */
};

/* Time that launches then use fewer threads, in seconds: at first, and at most when it repeats. */
static const double SHORTEST_TRUCE = 10e-3;
static const double LONGEST_TRUCE = 320e-3;

/* Time that launches are watched after a launch that waited long, and time that they are trusted if
 * that finds nothing, in seconds. Uneven tasks cause waiting too; watching costs system calls. */
static const double WATCH = 20e-3;
static const double TRUST = 60e-3;

/* Total time of launches with fewer tasks than SURELY_WAKES that justifies waking, in seconds:
 * waking a worker takes its caller ten microseconds, and the worker starts some fifty later. */
static const double WORTH_WAKING = 50e-6;
/* Maximum gap between two of them, in seconds: as long as workers stay awake. */
static const double SOON = 100e-6;

static struct {
  int threads; /* limit for launches until `until`; 0: no limit */
  double until;
  double length;
  double watched; /* end of the watching of launches */
} truce;

/* Launches without workers, because the workers slept. */
static struct {
  double begin;   /* of the launch in progress, else 0 */
  double end;     /* of the last launch */
  double seconds; /* total time of launches in quick succession */
  int long_ones;  /* remaining launches that wake workers */
} without;

int tvmrt__peaceful(int count) {
  if (truce.threads == 0 || truce.threads >= count) return count;
  if (tvmrt__seconds() < truce.until) return truce.threads;
  truce.threads = 0;
  return count;
}

bool tvmrt__is_watched(double begin) { return begin < truce.watched; }

/* Two steps: a launch that waited long causes the next ones to be watched, since uneven tasks may
 * have caused the waiting. Only a watched launch whose workers had no processor starts a truce.
 * Consecutive truces double in length; after a long time without one they start short again. */
void tvmrt__keep_peace(int count, int late, double own, double end) {
  if (late > 0 && end - own > TVMRT_LATE) {
    truce.length = truce.length > 0.0 ? 2.0 * truce.length : SHORTEST_TRUCE;
    if (truce.length > LONGEST_TRUCE) truce.length = LONGEST_TRUCE;
    truce.until = end + truce.length;
    truce.threads = count - late;
    truce.watched = truce.until + WATCH;
  } else if (end - own > TVMRT_LATE) {
    if (end > truce.watched + TRUST) truce.watched = end + WATCH;
  } else if (end - truce.until > LONGEST_TRUCE) {
    truce.length = 0.0;
  }
}

bool tvmrt__does_without(int wanted) {
  if (wanted == 0 || wanted >= SURELY_WAKES) return false;
  if (without.long_ones > 0) {
    --without.long_ones;
    return false;
  }
  if (without.seconds >= WORTH_WAKING) {
    without.seconds = 0.0;
    return false;
  }
  without.begin = tvmrt__seconds();
  if (without.begin - without.end > SOON) without.seconds = 0.0;
  return true;
}

/* If the number of tasks underestimates a launch's time, as in third-party code, it is ignored for
 * a while. */
void tvmrt__end_without(void) {
  double took;
  if (without.begin == 0.0) return;
  without.end = tvmrt__seconds();
  took = without.end - without.begin;
  without.seconds += took;
  if (took >= WORTH_WAKING) without.long_ones = LONG_LAUNCHES;
  without.begin = 0.0;
}

void tvmrt__forget_launches(void) {
  memset(&truce, 0, sizeof(truce));
  memset(&without, 0, sizeof(without));
}
