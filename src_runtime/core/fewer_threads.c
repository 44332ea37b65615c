#include "fewer_threads.h"

#include <string.h>

#include "../platform/system.h"

enum {
  SURELY_WAKES = 24, /* tasks: kernels ask for one for each two microseconds of work */
  LONG_LAUNCHES = 32 /* that wake workers after one of few tasks that took long */
};

/* For how long launches do with fewer threads then: at first, and at most when it happens again. */
static const double SHORTEST_TRUCE = 10e-3;
static const double LONGEST_TRUCE = 320e-3;

/* For how long launches are watched once one has waited for long, and trusted if that finds nothing:
 * uneven tasks are waited for, too, and watching costs calls of the system. */
static const double WATCH = 20e-3;
static const double TRUST = 60e-3;

/* What launches of fewer tasks than SURELY_WAKES have to take together, in seconds: to wake a worker
 * takes its caller ten microseconds, and the worker comes some fifty later. */
static const double WORTH_WAKING = 50e-6;
/* What may lie between two of them: as long as workers stay awake. */
static const double SOON = 100e-6;

static struct {
  int threads; /* that launches may use until then; 0: any number */
  double until;
  double length;
  double watched; /* until when launches are watched */
} truce;

/* Launches that did without workers, since these slept. */
static struct {
  double begin;   /* of one that is on its way, else 0 */
  double end;     /* of the last one */
  double seconds; /* that they took, one soon after the other */
  int long_ones;  /* launches still to come that wake workers */
} without;

int tvmrt__peaceful(int count) {
  if (truce.threads == 0 || truce.threads >= count) return count;
  if (tvmrt__seconds() < truce.until) return truce.threads;
  truce.threads = 0;
  return count;
}

bool tvmrt__is_watched(double begin) { return begin < truce.watched; }

/* Two steps: a launch that had to wait has the next ones watched, as waiting may have been the fault
 * of uneven tasks; only a watched one, whose workers were without a processor, makes a truce. Truces
 * double while they follow each other, and after a long time without begin short again. */
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

/* Where the number of tasks said little of a launch's time, as it may in code of others, it is not
 * asked for a while. */
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
