/* The asynchronous scheduler: one thread per queue of a device, shared by all executors of the
 * process. The thread of a region's device starts the region's run and waits for it.
 *
 * Each run gives every device a lane: its steps in order. A device takes a step of the oldest run
 * whose next step in the lane is ready; so the order in which steps begin on each device is the
 * same in every run, steps on different devices overlap, and so do runs of several executors. */
#include <stdlib.h>
#include <string.h>

#include "../platform/system.h"
#include "../platform/threads.h"
#include "schedule.h"

typedef struct worker {
  char* device;   /* copied: it outlives executors and their graphs */
  uint32_t queue; /* queues of one device share its steps; the first free one takes a step */
  struct worker* next;
} worker;

/* A plug-in states the number of queues of its device: a damaged number must not start too many
 * threads. */
enum { MAX_QUEUES = 64 };

/* The steps of a run on one device, in the order in which they must begin. */
typedef struct lane {
  const char* device;   /* borrowed from the plan's first step on it */
  const int32_t* steps; /* in `lane_steps` */
  int32_t count;
  int32_t next;    /* step to begin */
  uint32_t queues; /* of the device */
} lane;

/* Stored in plan->privacy. */
typedef struct active_run {
  tvmrt_plan* plan;
  struct active_run* next; /* in `active_runs` */
  lane* lanes;
  int32_t num_lanes;
  int32_t* lane_steps;      /* the steps of all lanes, consecutively */
  int32_t* num_pending;     /* per step: steps that must end before it */
  int32_t* first_successor; /* per step: position in `successor` of the steps that wait for it */
  int32_t* successor;
  int32_t remaining; /* steps that have not ended */
  int32_t busy;      /* steps that are running */
  bool is_stopped;   /* a step failed, or the run was cancelled: no more steps begin */
  bool is_active;    /* it is in `active_runs` */
} active_run;

static tvmrt_mutex lock = TVMRT_MUTEX_INIT; /* guards everything below */
static tvmrt_cond changed;                  /* exists if has_changed */
static bool has_changed;
static bool has_fork_handlers;
static worker* workers;
static active_run* active_runs; /* unfinished runs, oldest first */

/* The three are called around fork() by the forking thread: the lock ensures that the lists are
 * consistent, and parent and child release their own copies of it. */
static void lock_for_fork(void) { tvmrt__lock(&lock); }
static void unlock_in_parent(void) { tvmrt__unlock(&lock); }

/* A child of fork has no workers: unfinished runs do not end there. */
static void forget_in_child(void) {
  for (; active_runs != NULL; active_runs = active_runs->next) {
    active_runs->is_stopped = true;
    active_runs->is_active = false;
  }
  workers = NULL;
  has_changed = false; /* threads of the parent wait for it: the next run creates a new one */
  tvmrt__unlock(&lock);
}

/* Called with the lock held, before each run: it may succeed after a failure, and a child of fork
 * needs its own. Not by tvmrt__call_once(), which would not retry after a failure. */
static int set_up(void) {
  if (has_changed) return 0;
  if (tvmrt__cond_init(&changed) != 0) return tvmrt__fail_memory(sizeof(changed));
  has_changed = true;
  if (!has_fork_handlers) tvmrt__at_fork(lock_for_fork, unlock_in_parent, forget_in_child);
  has_fork_handlers = true; /* a child inherits it */
  return 0;
}

/* Linear search by name, as devices are few. NULL if the run has no step on the device. */
static lane* lane_of(const active_run* f, const char* device) {
  int32_t i;
  for (i = 0; i < f->num_lanes; ++i) {
    if (strcmp(f->lanes[i].device, device) == 0) return &f->lanes[i];
  }
  return NULL;
}

/* The next step of a device, of the oldest run that has one ready. A linear search: runs are
 * few. */
static active_run* next_step(const char* device, int32_t* out_step) {
  active_run* f;
  for (f = active_runs; f != NULL; f = f->next) {
    lane* l = f->is_stopped ? NULL : lane_of(f, device);
    /* Only the lane's next step: a later one has to wait even if ready, so that all runs have the
     * same order. */
    if (l == NULL || l->next == l->count || f->num_pending[l->steps[l->next]] > 0) continue;
    *out_step = l->steps[l->next++];
    return f;
  }
  return NULL;
}

/* Called with the lock held. Afterwards the waiting thread may end the plan. */
static void finish_run(active_run* f) {
  active_run** at = &active_runs;
  while (*at != f) at = &(*at)->next;
  *at = f->next;
  f->is_active = false;
}

/* Whether a thread other than that of the ended step may take one of this device. The thread itself
 * looks for its next step without being woken. */
static bool should_wake(const active_run* f, const char* of, const char* ended) {
  const lane* l = lane_of(f, of);
  return strcmp(of, ended) != 0 || (l != NULL && l->queues > 1);
}

/* After a step: update the steps that wait for it. Other threads are woken if one is ready. */
static void end_step(active_run* f, int32_t step, int rc, const char* device) {
  bool wake = false;
  int32_t i;
  --f->busy;
  --f->remaining;
  /* Running steps continue to their end: a device's step cannot be aborted. */
  if (rc != 0) f->is_stopped = true;
  for (i = f->first_successor[step]; i < f->first_successor[step + 1]; ++i) {
    const int32_t successor = f->successor[i];
    if (--f->num_pending[successor] == 0)
      wake |= should_wake(f, f->plan->steps[successor].device, device);
  }
  if (f->busy == 0 && (f->remaining == 0 || f->is_stopped)) {
    finish_run(f);
    wake = true;
  }
  if (wake) tvmrt__wake_all(&changed);
}

/* The only place where steps run: without the lock. A step of a cancelled run ends as failed, which
 * stops the flight; it is removed when its running steps have ended. */
static void* worker_main(void* argument) {
  const worker* w = argument;
  tvmrt__lock(&lock);
  for (;;) {
    int32_t step;
    active_run* f = next_step(w->device, &step);
    int rc;
    if (f == NULL) {
      tvmrt__wait(&changed, &lock);
      continue;
    }
    ++f->busy;
    tvmrt__unlock(&lock);
    rc = f->plan->is_cancelled(f->plan) ? -1 : f->plan->run_step(f->plan, step);
    tvmrt__lock(&lock);
    end_step(f, step, rc, w->device);
  }
  return NULL;
}

/* Detached, as workers never end: `w` stays valid as long as the process lives. */
static int start_thread(worker* w) {
  const int rc = tvmrt__thread_start_detached(worker_main, w);
  if (rc == 0) return 0;
  return tvmrt__fail("OSError: no thread for device '%.60s' (error %d).", w->device, rc);
}

/* Called with the lock held. Workers stay: there is one per queue of a device. */
static int ensure_worker(const char* device, uint32_t queue) {
  worker* w = workers;
  while (w != NULL && (w->queue != queue || strcmp(w->device, device) != 0)) w = w->next;
  if (w != NULL) return 0;
  w = tvmrt__calloc(1, sizeof(*w));
  if (w == NULL) return -1;
  w->device = tvmrt__strdup(device);
  w->queue = queue;
  if (w->device == NULL || start_thread(w) != 0) {
    free(w->device);
    free(w);
    return -1;
  }
  w->next = workers;
  workers = w;
  return 0;
}

/* Also for a partially built flight. A plan lives until its flight has ended, so no worker reads
 * this memory any more. */
static void free_run(active_run* f) {
  free(f->lanes);
  free(f->lane_steps);
  free(f->num_pending);
  free(f->first_successor);
  free(f->successor);
  free(f);
}

/* 1 also for a missing device, which the CPU replaces. */
static uint32_t count_queues(const char* name) {
  tvmrt_device* device = NULL;
  if (strcmp(name, "cpu") == 0) return 1;
  if (tvmrt_device_find(name, &device) != 0) tvmrt__forget_error();
  if (device == NULL || device->num_queues == 0) return 1;
  return device->num_queues < MAX_QUEUES ? device->num_queues : MAX_QUEUES;
}

/* Sort the steps into lanes, each in order. */
static void fill_lanes(active_run* f) {
  const tvmrt_plan* plan = f->plan;
  int32_t at = 0;
  int32_t i;
  int32_t k;
  for (i = 0; i < plan->num_steps; ++i) {
    lane* l = lane_of(f, plan->steps[i].device);
    if (l != NULL) continue;
    l = &f->lanes[f->num_lanes++];
    l->device = plan->steps[i].device;
    l->queues = count_queues(l->device);
    l->steps = f->lane_steps + at;
    for (k = i; k < plan->num_steps; ++k) {
      if (strcmp(plan->steps[k].device, l->device) != 0) continue;
      f->lane_steps[at++] = k;
      ++l->count;
    }
  }
}

/* Invert the dependencies: count per step, sum up, fill from the ends. The steps that wait for step
 * s are then at first_successor[s] to first_successor[s + 1]. */
static int fill_successors(active_run* f) {
  const tvmrt_plan* plan = f->plan;
  const int32_t count = plan->num_steps;
  size_t total = 0;
  int32_t i;
  int32_t k;
  for (i = 0; i < count; ++i) {
    total += (size_t)plan->steps[i].num_after;
    for (k = 0; k < plan->steps[i].num_after; ++k) ++f->first_successor[plan->steps[i].after[k]];
  }
  if (total > INT32_MAX) return tvmrt__fail_memory(total);
  f->successor = tvmrt__calloc(total, sizeof(*f->successor));
  if (f->successor == NULL) return -1;
  for (i = 1; i <= count; ++i) f->first_successor[i] += f->first_successor[i - 1];
  for (i = 0; i < count; ++i) {
    for (k = 0; k < plan->steps[i].num_after; ++k) {
      f->successor[--f->first_successor[plan->steps[i].after[k]]] = i;
    }
  }
  return 0;
}

/* Once per plan, before its runs: data that all runs share. Reads the devices' numbers of
 * queues. */
static int async_pre_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  const size_t count = (size_t)plan->num_steps;
  active_run* f = tvmrt__calloc(1, sizeof(*f));
  int rc = -1;
  (void)scheduler;
  if (f == NULL) return -1;
  f->plan = plan;
  f->lanes = tvmrt__calloc(count, sizeof(*f->lanes));
  f->lane_steps = tvmrt__calloc(count, sizeof(*f->lane_steps));
  f->num_pending = tvmrt__calloc(count, sizeof(*f->num_pending));
  f->first_successor = tvmrt__calloc(count + 1, sizeof(*f->first_successor));
  if (f->lanes != NULL && f->lane_steps != NULL && f->num_pending != NULL &&
      f->first_successor != NULL) {
    rc = fill_successors(f);
  }
  if (rc == 0) {
    fill_lanes(f);
    plan->privacy = f;
  } else {
    free_run(f);
  }
  return rc;
}

/* The runtime waits for a run before it ends the plan, so no flight is active. */
static void async_post_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  free_run(plan->privacy);
}

/* Called with the lock held. Only missing threads are created here: a prepared run begins at
 * once. */
static int start_run(active_run* f) {
  active_run** at = &active_runs;
  uint32_t queue;
  int32_t i;
  TVMRT_RETURN_IF_ERROR(set_up());
  for (i = 0; i < f->num_lanes; ++i) {
    for (queue = 0; queue < f->lanes[i].queues; ++queue) { /* a child of fork has none */
      TVMRT_RETURN_IF_ERROR(ensure_worker(f->lanes[i].device, queue));
    }
    f->lanes[i].next = 0;
  }
  /* The executor's previous run has ended, so its counters may be reset. */
  for (i = 0; i < f->plan->num_steps; ++i) f->num_pending[i] = f->plan->steps[i].num_after;
  f->remaining = f->plan->num_steps;
  f->is_stopped = false;
  if (f->remaining == 0) return 0; /* no step would ever end it */
  f->is_active = true;
  f->next = NULL;
  /* After all others: next_step() takes the oldest first. */
  while (*at != NULL) at = &(*at)->next;
  *at = f;
  tvmrt__wake_all(&changed);
  return 0;
}

/* Returns while the run continues; the caller waits for its end by async_wait(). */
static int async_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  int rc;
  (void)scheduler;
  tvmrt__lock(&lock);
  rc = start_run(plan->privacy);
  tvmrt__unlock(&lock);
  return rc;
}

/* A negative timeout waits without limit. A failed run has ended: its error is reported by the
 * runtime, which has stored it. */
static int async_wait(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int64_t timeout_ms) {
  const active_run* f = plan->privacy;
  /* Read before locking, so that time spent waiting for the lock counts. */
  const double until = tvmrt__seconds() + 1e-3 * (double)timeout_ms;
  bool is_late = false;
  int rc;
  (void)scheduler;
  tvmrt__lock(&lock);
  while (f->is_active && !is_late) {
    if (timeout_ms < 0) {
      tvmrt__wait(&changed, &lock);
    } else {
      is_late = !tvmrt__wait_until(&changed, &lock, until);
    }
  }
  /* A stopped run is reported only at its end: running steps may still write to tensors. */
  rc = f->is_active ? TVMRT_DEVICE_BUSY : f->is_stopped ? -1 : 0;
  tvmrt__unlock(&lock);
  return rc;
}

const tvmrt_scheduler tvmrt__async_scheduler = {
    .struct_bytes = sizeof(tvmrt__async_scheduler),
    .name = "async",
    .pre_run = async_pre_run,
    .run = async_run,
    .wait = async_wait,
    .post_run = async_post_run,
};
