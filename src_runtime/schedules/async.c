/* The asynchronous scheduler: a thread for each queue of a device, shared by all executors of the
 * process. What a region's thread does is to start its run and to wait for it.
 *
 * Each run gives every device a lane: its steps in their order. A device takes, of the oldest run
 * whose next step in the lane may begin, that step; so the order in which steps begin on each
 * device is the same in every run, steps on different devices overlap, and so do runs of several executors.
 */
#include <stdlib.h>
#include <string.h>

#include "../platform/system.h"
#include "../platform/threads.h"
#include "schedule.h"

typedef struct worker {
  char* device;   /* copied: it outlives executors and their graphs */
  uint32_t queue; /* several of one device take the same steps, whoever comes first */
  struct worker* next;
} worker;

/* A plug-in says how many queues its device has: a damaged number must not start threads without
 * end. */
enum { MOST_QUEUES = 64 };

/* The steps of a run on one device, in the order in which they must begin. */
typedef struct lane {
  const char* device;   /* borrowed from the plan's first step on it */
  const int32_t* steps; /* in `lane_steps` */
  int32_t count;
  int32_t next;    /* step to begin */
  uint32_t queues; /* of the device */
} lane;

/* plan->privacy */
typedef struct flight {
  tvmrt_plan* plan;
  struct flight* next; /* in `flights` */
  lane* lanes;
  int32_t num_lanes;
  int32_t* lane_steps;  /* the steps of all lanes, one lane behind the other */
  int32_t* waits;       /* per step: steps that must end before it */
  int32_t* first_later; /* per step: place in `later` of the steps that wait for it */
  int32_t* later;
  int32_t left;      /* steps that have not ended */
  int32_t busy;      /* steps that run now */
  bool is_stopped;   /* a step failed, or the run was cancelled: none begins any more */
  bool is_under_way; /* it stands in `flights` */
} flight;

static tvmrt_mutex lock = TVMRT_MUTEX_INIT; /* of all that follows */
static tvmrt_cond changed;                  /* there once has_changed */
static bool has_changed;
static bool is_told_of_forks;
static worker* workers;
static flight* flights; /* under way, oldest first */

/* The three are called around fork() by the thread that forks: with the lock nobody is halfway
 * through the lists, and parent and child let go of their own copy of it. */
static void lock_for_fork(void) { tvmrt__lock(&lock); }
static void unlock_in_parent(void) { tvmrt__unlock(&lock); }

/* A child of fork has no workers: what was under way does not end there. */
static void forget_in_child(void) {
  for (; flights != NULL; flights = flights->next) {
    flights->is_stopped = true;
    flights->is_under_way = false;
  }
  workers = NULL;
  has_changed = false; /* threads of the parent waited for it: the next run makes it anew */
  tvmrt__unlock(&lock);
}

/* Called with the lock held, before each run: a system that had no condition left may have one now, and
 * a child of fork needs its own. Not by tvmrt__call_once(), which would take a failure for done. */
static int set_up(void) {
  if (has_changed) return 0;
  if (tvmrt__cond_init(&changed) != 0) return tvmrt__fail_memory(sizeof(changed));
  has_changed = true;
  if (!is_told_of_forks) tvmrt__at_fork(lock_for_fork, unlock_in_parent, forget_in_child);
  is_told_of_forks = true; /* a child has it from its parent */
  return 0;
}

/* Devices are few: searched by name. NULL where the run has no step on the device. */
static lane* lane_of(const flight* f, const char* device) {
  int32_t i;
  for (i = 0; i < f->num_lanes; ++i) {
    if (strcmp(f->lanes[i].device, device) == 0) return &f->lanes[i];
  }
  return NULL;
}

/* The next step of a device, of the oldest run that has one ready. Runs are few: all are looked at. */
static flight* next_step(const char* device, int32_t* out_step) {
  flight* f;
  for (f = flights; f != NULL; f = f->next) {
    lane* l = f->is_stopped ? NULL : lane_of(f, device);
    /* The lane's next step alone: one behind it that could begin has to wait, so that runs are
     * alike. */
    if (l == NULL || l->next == l->count || f->waits[l->steps[l->next]] > 0) continue;
    *out_step = l->steps[l->next++];
    return f;
  }
  return NULL;
}

/* Called with the lock held. After this the plan may be ended by whoever waits for it. */
static void land(flight* f) {
  flight** at = &flights;
  while (*at != f) at = &(*at)->next;
  *at = f->next;
  f->is_under_way = false;
}

/* Whether another thread than that of a step which has ended may take one of this device. The
 * thread itself looks for its next step anyway, without being woken. */
static bool wakes(const flight* f, const char* of, const char* ended) {
  const lane* l = lane_of(f, of);
  return strcmp(of, ended) != 0 || (l != NULL && l->queues > 1);
}

/* After a step: count down what waits for it. Others are woken if there is something for them. */
static void end_step(flight* f, int32_t step, int rc, const char* device) {
  bool wake = false;
  int32_t i;
  --f->busy;
  --f->left;
  /* What runs goes on to its end: nobody can take a device's step back. */
  if (rc != 0) f->is_stopped = true;
  for (i = f->first_later[step]; i < f->first_later[step + 1]; ++i) {
    const int32_t later = f->later[i];
    if (--f->waits[later] == 0) wake |= wakes(f, f->plan->steps[later].device, device);
  }
  if (f->busy == 0 && (f->left == 0 || f->is_stopped)) {
    land(f);
    wake = true;
  }
  if (wake) tvmrt__wake_all(&changed);
}

/* The one place where steps run: without the lock. A step of a cancelled run is ended as one that
 * failed, which stops the flight; it lands when the steps that run have ended. */
static void* work(void* argument) {
  const worker* w = argument;
  tvmrt__lock(&lock);
  for (;;) {
    int32_t step;
    flight* f = next_step(w->device, &step);
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

/* Detached, as nobody ends workers: `w` stays with the thread as long as the process lives. */
static int start_thread(worker* w) {
  const int rc = tvmrt__thread_start_detached(work, w);
  if (rc == 0) return 0;
  return tvmrt__fail("OSError: no thread for device '%.60s' (error %d).", w->device, rc);
}

/* Called with the lock held. Workers stay: they are as many as devices have queues. */
static int need_worker(const char* device, uint32_t queue) {
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

/* Also of one that was made half. A plan lives until its flight is over, so no worker reads any of
 * this by then. */
static void free_flight(flight* f) {
  free(f->lanes);
  free(f->lane_steps);
  free(f->waits);
  free(f->first_later);
  free(f->later);
  free(f);
}

/* One, for a device that is missing, too: the CPU computes in its place. */
static uint32_t count_queues(const char* name) {
  tvmrt_device* device = NULL;
  if (strcmp(name, "cpu") == 0) return 1;
  if (tvmrt_device_find(name, &device) != 0) tvmrt__forget_error();
  if (device == NULL || device->num_queues == 0) return 1;
  return device->num_queues < MOST_QUEUES ? device->num_queues : MOST_QUEUES;
}

/* Sort the steps into lanes, each in its order. */
static void fill_lanes(flight* f) {
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

/* Turn "waits for" around: count per step, sum up, fill from the ends. What waits for step s then
 * stands from first_later[s] to first_later[s + 1]. */
static int fill_later(flight* f) {
  const tvmrt_plan* plan = f->plan;
  const int32_t count = plan->num_steps;
  size_t total = 0;
  int32_t i;
  int32_t k;
  for (i = 0; i < count; ++i) {
    total += (size_t)plan->steps[i].num_after;
    for (k = 0; k < plan->steps[i].num_after; ++k) ++f->first_later[plan->steps[i].after[k]];
  }
  if (total > INT32_MAX) return tvmrt__fail_memory(total);
  f->later = tvmrt__calloc(total, sizeof(*f->later));
  if (f->later == NULL) return -1;
  for (i = 1; i <= count; ++i) f->first_later[i] += f->first_later[i - 1];
  for (i = 0; i < count; ++i) {
    for (k = 0; k < plan->steps[i].num_after; ++k) {
      f->later[--f->first_later[plan->steps[i].after[k]]] = i;
    }
  }
  return 0;
}

/* Once for a plan, before its runs: what does not change from run to run. What a device says of its
 * queues is asked here. */
static int async_pre_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  const size_t count = (size_t)plan->num_steps;
  flight* f = tvmrt__calloc(1, sizeof(*f));
  int rc = -1;
  (void)scheduler;
  if (f == NULL) return -1;
  f->plan = plan;
  f->lanes = tvmrt__calloc(count, sizeof(*f->lanes));
  f->lane_steps = tvmrt__calloc(count, sizeof(*f->lane_steps));
  f->waits = tvmrt__calloc(count, sizeof(*f->waits));
  f->first_later = tvmrt__calloc(count + 1, sizeof(*f->first_later));
  if (f->lanes != NULL && f->lane_steps != NULL && f->waits != NULL && f->first_later != NULL) {
    rc = fill_later(f);
  }
  if (rc == 0) {
    fill_lanes(f);
    plan->privacy = f;
  } else {
    free_flight(f);
  }
  return rc;
}

/* The runtime waits for a run before it ends the plan: the flight has landed. */
static void async_post_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  free_flight(plan->privacy);
}

/* Called with the lock held. Nothing is allocated here but threads that are missing: a run that was
 * prepared begins at once. */
static int take_off(flight* f) {
  flight** at = &flights;
  uint32_t queue;
  int32_t i;
  TVMRT_RETURN_IF_ERROR(set_up());
  for (i = 0; i < f->num_lanes; ++i) {
    for (queue = 0; queue < f->lanes[i].queues; ++queue) { /* fork may have left us without */
      TVMRT_RETURN_IF_ERROR(need_worker(f->lanes[i].device, queue));
    }
    f->lanes[i].next = 0;
  }
  /* This executor's run before has landed, so its numbers may be set anew. */
  for (i = 0; i < f->plan->num_steps; ++i) f->waits[i] = f->plan->steps[i].num_after;
  f->left = f->plan->num_steps;
  f->is_stopped = false;
  if (f->left == 0) return 0; /* no step would ever land it */
  f->is_under_way = true;
  f->next = NULL;
  /* Behind all others: next_step() takes the oldest first. */
  while (*at != NULL) at = &(*at)->next;
  *at = f;
  tvmrt__wake_all(&changed);
  return 0;
}

/* The run is under way when this returns; who called asks async_wait() for its end. */
static int async_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  int rc;
  (void)scheduler;
  tvmrt__lock(&lock);
  rc = take_off(plan->privacy);
  tvmrt__unlock(&lock);
  return rc;
}

/* A timeout below 0 waits for ever. A run that failed is over: its error is told by the runtime,
 * which has kept it. */
static int async_wait(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int64_t timeout_ms) {
  const flight* f = plan->privacy;
  /* Read before the lock: time spent waiting for it counts. */
  const double until = tvmrt__seconds() + 1e-3 * (double)timeout_ms;
  bool is_late = false;
  int rc;
  (void)scheduler;
  tvmrt__lock(&lock);
  while (f->is_under_way && !is_late) {
    if (timeout_ms < 0) {
      tvmrt__wait(&changed, &lock);
    } else {
      is_late = !tvmrt__wait_until(&changed, &lock, until);
    }
  }
  /* Stopped is told after landing alone: steps that run would still write to tensors. */
  rc = f->is_under_way ? TVMRT_DEVICE_BUSY : f->is_stopped ? -1 : 0;
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
