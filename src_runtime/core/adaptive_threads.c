#include "adaptive_threads.h"

#include <string.h>

#include "../platform/system.h"

enum {
  ALWAYS_WAKE_TASKS = 24, /* tasks: kernels request one per two microseconds of work */
  WAKING_LAUNCHES = 32 /* number of launches that wake workers after a long launch of few tasks */
};

/* Time that launches then use fewer threads, in seconds: at first, and at most when it repeats. */
static const double MIN_TRUCE = 10e-3;
static const double MAX_TRUCE = 320e-3;

/* Time that launches are watched after a launch that waited long, and time that they are trusted if
 * that finds nothing, in seconds. Uneven tasks cause waiting too; watching costs system calls. */
static const double MONITOR_TIME = 20e-3;
static const double TRUST_TIME = 60e-3;

/* Total time of launches with fewer tasks than ALWAYS_WAKE_TASKS that justifies waking, in seconds:
 * waking a worker takes its caller ten microseconds, and the worker starts some fifty later. */
static const double WAKE_THRESHOLD = 50e-6;
/* Maximum gap between two of them, in seconds: as long as workers stay awake. */
static const double MAX_BURST_GAP = 100e-6;

static struct {
  int threads; /* limit for launches until `until`; 0: no limit */
  double until;
  double length;
  double monitored_until; /* end of the watching of launches */
} truce;

/* Launches without workers, because the workers slept. */
static struct {
  double begin;        /* of the launch in progress, else 0 */
  double end;          /* of the last launch */
  double seconds;      /* total time of launches in quick succession */
  int waking_launches; /* remaining launches that wake workers */
} awake_only;

int tvmrt__allowed_threads(int count) {
  if (truce.threads == 0 || truce.threads >= count) return count;
  if (tvmrt__seconds() < truce.until) return truce.threads;
  truce.threads = 0;
  return count;
}

bool tvmrt__is_monitored(double begin) { return begin < truce.monitored_until; }

/* Two steps: a launch that waited long causes the next ones to be watched, since uneven tasks may
 * have caused the waiting. Only a watched launch whose workers had no processor starts a truce.
 * Consecutive truces double in length; after a long time without one they start short again. */
void tvmrt__record_launch(int count, int late, double own_end, double end) {
  if (late > 0 && end - own_end > TVMRT_LATE_SECONDS) {
    truce.length = truce.length > 0.0 ? 2.0 * truce.length : MIN_TRUCE;
    if (truce.length > MAX_TRUCE) truce.length = MAX_TRUCE;
    truce.until = end + truce.length;
    truce.threads = count - late;
    truce.monitored_until = truce.until + MONITOR_TIME;
  } else if (end - own_end > TVMRT_LATE_SECONDS) {
    if (end > truce.monitored_until + TRUST_TIME) truce.monitored_until = end + MONITOR_TIME;
  } else if (end - truce.until > MAX_TRUCE) {
    truce.length = 0.0;
  }
}

bool tvmrt__uses_awake_workers_only(int num_tasks) {
  if (num_tasks == 0 || num_tasks >= ALWAYS_WAKE_TASKS) return false;
  if (awake_only.waking_launches > 0) {
    --awake_only.waking_launches;
    return false;
  }
  if (awake_only.seconds >= WAKE_THRESHOLD) {
    awake_only.seconds = 0.0;
    return false;
  }
  awake_only.begin = tvmrt__seconds();
  if (awake_only.begin - awake_only.end > MAX_BURST_GAP) awake_only.seconds = 0.0;
  return true;
}

/* If the number of tasks underestimates a launch's time, as in third-party code, it is ignored for
 * a while. */
void tvmrt__end_awake_only_launch(void) {
  double took;
  if (awake_only.begin == 0.0) return;
  awake_only.end = tvmrt__seconds();
  took = awake_only.end - awake_only.begin;
  awake_only.seconds += took;
  if (took >= WAKE_THRESHOLD) awake_only.waking_launches = WAKING_LAUNCHES;
  awake_only.begin = 0.0;
}

void tvmrt__forget_launches(void) {
  memset(&truce, 0, sizeof(truce));
  memset(&awake_only, 0, sizeof(awake_only));
}
