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

/* The steps of a run on one device, which begin in order. */
typedef struct lane {
  const char* device; /* borrowed from the plan's first step on it */
  uint32_t queues;    /* of the device */
  int32_t next;       /* step to begin, or a step before it that is another lane's */
} lane;

/* Stored in plan->privacy. */
typedef struct active_run {
  tvmrt_plan* plan;
  struct active_run* next; /* in `active_runs` */
  lane* lanes;
  int32_t num_lanes;
  int32_t* lane_of;  /* per step: index of its lane */
  bool* has_ended;   /* per step */
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
static lane* find_lane(const active_run* f, const char* device) {
  int32_t i;
  for (i = 0; i < f->num_lanes; ++i) {
    if (strcmp(f->lanes[i].device, device) == 0) return &f->lanes[i];
  }
  return NULL;
}

/* Whether the lane's next step may begin. A later one has to wait even if it could, so that all
 * runs have the same order. */
static bool is_ready(const active_run* f, lane* l) {
  const tvmrt_plan* plan = f->plan;
  const tvmrt_step* step;
  int32_t i;
  while (l->next < plan->num_steps && f->lane_of[l->next] != l - f->lanes) ++l->next;
  if (l->next == plan->num_steps) return false;
  step = &plan->steps[l->next];
  for (i = 0; i < step->num_after; ++i) {
    if (!f->has_ended[step->after[i]]) return false;
  }
  return true;
}

/* The next step of a device, of the oldest run that has one ready. A linear search: runs are
 * few. */
static active_run* next_step(const char* device, int32_t* out_step) {
  active_run* f;
  for (f = active_runs; f != NULL; f = f->next) {
    lane* l = f->is_stopped ? NULL : find_lane(f, device);
    if (l == NULL || !is_ready(f, l)) continue;
    *out_step = l->next++;
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

/* Whether the end of a step lets a thread other than its own begin one. That thread itself looks
 * for its next step without being woken. */
static bool lets_others_begin(const active_run* f, int32_t ended) {
  int32_t i;
  int32_t k;
  for (i = 0; i < f->num_lanes; ++i) {
    lane* l = &f->lanes[i];
    const tvmrt_step* step;
    if ((i == f->lane_of[ended] && l->queues == 1) || !is_ready(f, l)) continue;
    step = &f->plan->steps[l->next];
    for (k = 0; k < step->num_after; ++k) {
      if (step->after[k] == ended) return true;
    }
  }
  return false;
}

/* Called with the lock held. Running steps continue to their end after a failure: a device's step
 * cannot be aborted. */
static void end_step(active_run* f, int32_t step, int rc) {
  --f->busy;
  --f->remaining;
  f->has_ended[step] = true;
  if (rc != 0) f->is_stopped = true;
  if (f->busy == 0 && (f->remaining == 0 || f->is_stopped)) {
    finish_run(f);
    tvmrt__wake_all(&changed);
  } else if (!f->is_stopped && lets_others_begin(f, step)) {
    tvmrt__wake_all(&changed);
  }
}

/* The only place where steps run: without the lock. A step of a cancelled run ends as failed, which
 * stops the run; it is removed when its running steps have ended. */
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
    end_step(f, step, rc);
  }
  return NULL;
}

/* Called with the lock held. Workers stay: there is one per queue of a device. Their threads are
 * detached, and never end: `w` stays valid as long as the process lives. */
static int ensure_worker(const char* device, uint32_t queue) {
  worker* w = workers;
  int rc = -1;
  while (w != NULL && (w->queue != queue || strcmp(w->device, device) != 0)) w = w->next;
  if (w != NULL) return 0;
  w = tvmrt__calloc(1, sizeof(*w));
  if (w == NULL) return -1;
  w->queue = queue;
  w->device = tvmrt__strdup(device);
  if (w->device != NULL) {
    rc = tvmrt__thread_start_detached(worker_main, w);
    if (rc != 0) tvmrt__set_error("OSError: no thread for device '%.60s' (error %d).", device, rc);
  }
  if (rc != 0) {
    free(w->device);
    free(w);
    return -1;
  }
  w->next = workers;
  workers = w;
  return 0;
}

/* 1 also for a missing device, which the CPU replaces. */
static uint32_t count_queues(const char* name) {
  tvmrt_device* device = NULL;
  if (strcmp(name, "cpu") == 0) return 1;
  if (tvmrt_device_find(name, &device) != 0) tvmrt__forget_error();
  if (device == NULL || device->num_queues == 0) return 1;
  return device->num_queues < MAX_QUEUES ? device->num_queues : MAX_QUEUES;
}

/* A plan lives until its run has ended, so no worker reads this memory any more. */
static void free_run(active_run* f) {
  free(f->lanes);
  free(f->lane_of);
  free(f->has_ended);
  free(f);
}

/* Assign the steps to lanes, in the order of the lanes' first steps. */
static void fill_lanes(active_run* f) {
  int32_t i;
  for (i = 0; i < f->plan->num_steps; ++i) {
    lane* l = find_lane(f, f->plan->steps[i].device);
    if (l == NULL) {
      l = &f->lanes[f->num_lanes++];
      l->device = f->plan->steps[i].device;
      l->queues = count_queues(l->device);
    }
    f->lane_of[i] = (int32_t)(l - f->lanes);
  }
}

/* Once per plan, before its runs: data that all runs share. Reads the devices' numbers of
 * queues. */
static int async_pre_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  const size_t count = (size_t)plan->num_steps;
  active_run* f = tvmrt__calloc(1, sizeof(*f));
  (void)scheduler;
  if (f == NULL) return -1;
  f->plan = plan;
  f->lanes = tvmrt__calloc(count, sizeof(*f->lanes));
  f->lane_of = tvmrt__calloc(count, sizeof(*f->lane_of));
  f->has_ended = tvmrt__calloc(count, sizeof(*f->has_ended));
  if (f->lanes == NULL || f->lane_of == NULL || f->has_ended == NULL) {
    free_run(f);
    return -1;
  }
  fill_lanes(f);
  plan->privacy = f;
  return 0;
}

/* The runtime waits for a run before it ends the plan. */
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
  f->remaining = f->plan->num_steps;
  memset(f->has_ended, 0, (size_t)f->remaining * sizeof(*f->has_ended));
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
