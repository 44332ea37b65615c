/* Steps that a scheduler runs.
 *
 * A schedule belongs to one executor; schedulers see its plan. Steps may run on any thread, several
 * at a time: their records are guarded by the lock, while `is_chosen`, `is_running` and the events
 * belong to the thread that uses the executor, and to the scheduler between run and wait. Error
 * texts are stored here, since those of a thread end with it. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

#include "../platform/system.h"

/* Keeps the failure that is first in the order of steps, not in time. */
static void keep_failure(tvmrt_schedule* s, int32_t step) {
  const char* text = TVMGetLastError();
  if (s->failure != NULL && s->failed_step <= step) return;
  free(s->failure);
  s->failure = tvmrt__strdup(text);
  s->failed_step = step;
}

/* A count instead of a flag: an earlier fallback on this thread must not be attributed to this
 * step. */
static uint64_t count_fallbacks(void) {
  const tvmrt_thread* thread = tvmrt__thread();
  return thread == NULL ? 0 : thread->num_fallbacks;
}

/* A step runs on one thread, whose count of fallbacks shows whether this step had one. */
static void keep_fallback(tvmrt_step_time* time, uint64_t before) {
  const tvmrt_thread* thread = tvmrt__thread();
  if (thread == NULL || thread->num_fallbacks == before) return;
  free(time->fallback);
  /* lint: forget_times() frees it */
  time->fallback = tvmrt__strdup(thread->fallback.data == NULL ? "" : thread->fallback.data);
}

/* Times are kept until the next run begins, as traces are read after a run. */
static void forget_times(tvmrt_schedule* s) {
  int32_t i;
  if (s->times == NULL) return;
  for (i = 0; i < s->plan.num_steps; ++i) {
    free(s->times[i].fallback);
    free(s->times[i].chosen);
  }
  memset(s->times, 0, (size_t)s->plan.num_steps * sizeof(*s->times));
}

/* Schedulers use step numbers: only the executor knows the operators. */
static tvmrt_region* region_of_step(tvmrt_plan* plan, int32_t step) {
  tvmrt_schedule* s = plan->runtime;
  return s->region_of_op(s->graph, (size_t)step);
}

/* The argument of choose_device(). */
typedef struct choice_context {
  tvmrt_schedule* schedule;
  int32_t step;
} choice_context;

/* Called by the region while its step runs, on the step's thread. NULL selects the region's own
 * device. */
static tvmrt_device* choose_device(void* of, const tvmrt_region* region) {
  const choice_context* a = of;
  tvmrt_schedule* s = a->schedule;
  tvmrt_device* device = s->scheduler.choose(&s->scheduler, &s->plan, a->step, region);
  /* the step's own device is not recorded as chosen */
  if (device == NULL || strcmp(device->name, s->steps[a->step].device) == 0) return device;
  tvmrt__lock(&s->lock);
  free(s->times[a->step].chosen);
  /* lint: forget_times() frees it */
  s->times[a->step].chosen = tvmrt__strdup(device->name); /* without memory the trace lacks it */
  tvmrt__unlock(&s->lock);
  return device;
}

/* The request is passed in the thread's struct during the call: operators are functions of
 * generated code, which cannot pass it on. A region called by that function takes it. */
static int call_op(tvmrt_schedule* s, int32_t step, tvmrt_region_request* request) {
  tvmrt_thread* thread = tvmrt__thread();
  choice_context context = {s, step};
  int rc;
  if (s->scheduler.choose != NULL) request->choose = choose_device;
  /* lint: taken back below */
  request->choice_context = &context;
  if (thread != NULL) thread->request = request;
  rc = s->run_op(s->graph, (size_t)step);
  if (thread != NULL) thread->request = NULL; /* steps of the CPU do not take it */
  request->choose = NULL;
  request->choice_context = NULL;
  /* schedulers get -1 for any failure */
  return rc == 0 ? 0 : -1;
}

/* The failure is this thread's last error, so it is stored before any other call. */
static void note_end(tvmrt_schedule* s, int32_t step, int rc) {
  tvmrt__lock(&s->lock);
  s->times[step].end = tvmrt__seconds();
  if (rc != 0) keep_failure(s, step);
  tvmrt__unlock(&s->lock);
}

/* Run a step, or begin one: request->started is then set if it is still running. */
static int begin(tvmrt_schedule* s, int32_t step, tvmrt_region_request* request) {
  /* Before locking, so that time spent waiting for the lock counts. */
  const double at = tvmrt__seconds();
  const uint64_t fallbacks = count_fallbacks();
  int rc;
  tvmrt__lock(&s->lock);
  s->times[step].begin = at;
  /* The trace has the order in which steps of one device began, which is the same in every run. */
  s->times[step].position = s->ended[s->device[step]]++;
  tvmrt__unlock(&s->lock); /* steps of other devices run meanwhile */
  tvmrt__forget_error();   /* of an earlier step on this thread */
  rc = call_op(s, step, request);
  tvmrt__lock(&s->lock);
  keep_fallback(&s->times[step], fallbacks);
  tvmrt__unlock(&s->lock);
  if (request->started == NULL) note_end(s, step, rc);
  return rc;
}

/* From begin to end on this thread. */
static int run_step(tvmrt_plan* plan, int32_t step) {
  tvmrt_region_request request = {0};
  return begin(plan->runtime, step, &request);
}

/* The event belongs to the step and is valid until its next run. If the step has ended already,
 * the event is set. */
static int begin_step(tvmrt_plan* plan, int32_t step, tvmrt_event** out_event) {
  tvmrt_schedule* s = plan->runtime;
  tvmrt_event* event = &s->events[step];
  tvmrt_region_request request = {0};
  request.is_deferred = true;
  *out_event = NULL;
  TVMRT_RETURN_IF_ERROR(begin(s, step, &request));
  event->started = request.started;
  event->end = request.end;
  event->rc = 0;
  *out_event = event;
  return 0;
}

/* TVMRT_DEVICE_BUSY only if try_wait is set. Later calls for an ended event return the same
 * result. */
static int end_step(tvmrt_plan* plan, tvmrt_event* event, int try_wait) {
  tvmrt_schedule* s = plan->runtime;
  int rc;
  if (event->started == NULL) return event->rc;
  rc = event->end(event->started, try_wait != 0);
  if (rc == TVMRT_DEVICE_BUSY) return rc;
  event->started = NULL;
  event->rc = rc == 0 ? 0 : -1;
  /* The events are one array, so the index is the step. */
  note_end(s, (int32_t)(event - s->events), event->rc);
  return event->rc;
}

/* Ends steps that a scheduler began and did not end: their tensors are needed by the next run. */
static int end_started_steps(tvmrt_schedule* s) {
  const char* left = NULL;
  int32_t i;
  for (i = 0; i < s->plan.num_steps; ++i) {
    if (s->events[i].started == NULL) continue;
    left = s->steps[i].name;
    (void)end_step(&s->plan, &s->events[i], 0);
  }
  if (left == NULL) return 0;
  return tvmrt__fail("it did not wait for step '%.80s'; call end_step.", left);
}

/* An int, since plug-ins in any version of C call the plan's functions. */
static int is_cancelled(tvmrt_plan* plan) {
  tvmrt_schedule* s = plan->runtime;
  int result;
  tvmrt__lock(&s->lock);
  result = s->is_cancelled;
  tvmrt__unlock(&s->lock);
  return result;
}

/* Functions of the runtime for schedulers. They get the plan and find the schedule in it:
 * schedulers in plug-ins know only device.h. */
static void fill_plan(tvmrt_schedule* s, int32_t num_steps) {
  s->plan.steps = s->steps;
  s->plan.num_steps = num_steps;
  s->plan.run_step = run_step;
  s->plan.is_cancelled = is_cancelled;
  s->plan.runtime = s;
  s->plan.struct_bytes = sizeof(s->plan);
  s->plan.region = region_of_step;
  s->plan.begin_step = begin_step;
  s->plan.end_step = end_step;
}

/* `graph` is borrowed: it owns the schedule. A partially built schedule is freed like a complete
 * one, with missing tables NULL. */
int tvmrt__schedule_new(struct tvmrt_graph_executor* graph, tvmrt_run_op run_op,
                        tvmrt_region_of_op region_of_op, int32_t num_steps, tvmrt_schedule** out) {
  const size_t count = (size_t)num_steps;
  tvmrt_schedule* s = tvmrt__calloc(1, sizeof(*s));
  int rc = -1;
  *out = NULL;
  if (s == NULL) return -1;
  s->steps = tvmrt__calloc(count, sizeof(*s->steps));
  s->device = tvmrt__calloc(count, sizeof(*s->device));
  s->times = tvmrt__calloc(count, sizeof(*s->times));
  s->ended = tvmrt__calloc(count, sizeof(*s->ended));
  s->events = tvmrt__calloc(count, sizeof(*s->events));
  if (s->steps != NULL && s->device != NULL && s->times != NULL && s->ended != NULL &&
      s->events != NULL) {
    rc = tvmrt__mutex_init(&s->lock) == 0 ? 0 : tvmrt__fail_memory(sizeof(s->lock));
  }
  /* Fields that freeing reads are set before it can be called. */
  s->has_lock = rc == 0;
  s->graph = graph;
  s->run_op = run_op;
  s->region_of_op = region_of_op;
  fill_plan(s, num_steps);
  if (rc == 0) {
    *out = s;
  } else {
    tvmrt__schedule_free(s);
  }
  return rc;
}

/* With the lock, since cancel() may be called from any thread. */
static void set_cancelled(tvmrt_schedule* s, bool value) {
  tvmrt__lock(&s->lock);
  s->is_cancelled = value;
  tvmrt__unlock(&s->lock);
}

/* Ends the current run and ignores its result: its tensors are freed with the executor. */
static void leave_scheduler(tvmrt_schedule* s) {
  if (!s->is_chosen) return;
  if (s->is_running) {
    /* so that it ends with the steps that are running */
    set_cancelled(s, true);
    /* the thread's error must not be replaced by that of the run */
    if (s->scheduler.wait != NULL) (void)s->scheduler.wait(&s->scheduler, &s->plan, -1);
    (void)end_started_steps(s);
    s->is_running = false;
  }
  if (s->scheduler.post_run != NULL) s->scheduler.post_run(&s->scheduler, &s->plan);
  s->is_chosen = false;
  s->plan.privacy = NULL;
}

/* Also for a partially built schedule; the lock exists only if has_lock. */
void tvmrt__schedule_free(tvmrt_schedule* s) {
  if (s == NULL) return;
  /* A run would still read memory that is freed below. */
  leave_scheduler(s);
  if (s->has_lock) tvmrt__mutex_free(&s->lock);
  free(s->steps);
  free(s->after);
  free(s->device);
  forget_times(s);
  free(s->times);
  free(s->ended);
  free(s->events);
  free(s->failure);
  free(s);
}

/* If pre_run fails there is no scheduler: the next run reports that. */
int tvmrt__schedule_choose(tvmrt_schedule* s, const tvmrt_scheduler* scheduler) {
  leave_scheduler(s);
  tvmrt__scheduler_copy(&s->scheduler, scheduler); /* a device's own scheduler is not copied
                                                    * before */
  if (s->scheduler.pre_run != NULL) {
    /* An older error text would be reported as the scheduler's reason. */
    TVMPackedFuncSetLastError("");
    if (s->scheduler.pre_run(&s->scheduler, &s->plan) != 0) {
      return tvmrt__fail("scheduler '%.60s': pre_run failed: %s", scheduler->name,
                         TVMGetLastError());
    }
  }
  s->is_chosen = true;
  return 0;
}

/* Data of the last run is cleared here and not at its end, as traces are read in between. */
static void begin_run(tvmrt_schedule* s) {
  tvmrt__lock(&s->lock);
  s->is_cancelled = false;
  s->started = tvmrt__seconds();
  free(s->failure);
  s->failure = NULL;
  /* There are at most as many devices as steps. */
  memset(s->ended, 0, (size_t)s->plan.num_steps * sizeof(*s->ended));
  forget_times(s);
  tvmrt__unlock(&s->lock);
}

/* Error texts are per thread, and steps fail on any thread: copies the text to the waiting one. The
 * text of a failed run is that of a step, that of cancellation, or the scheduler's own. */
static int fail_run(tvmrt_schedule* s) {
  tvmrt__lock(&s->lock);
  if (s->failure != NULL) {
    TVMPackedFuncSetLastError(s->failure);
  } else if (s->is_cancelled) {
    TVMPackedFuncSetLastError("CancelledError: the run was cancelled.");
  } else {
    tvmrt__set_error("scheduler '%.60s': the run failed: %s", s->scheduler.name, TVMGetLastError());
  }
  tvmrt__unlock(&s->lock);
  return -1;
}

int tvmrt__schedule_check_idle(const tvmrt_schedule* s, const char* callee) {
  if (s == NULL || !s->is_running) return 0;
  return tvmrt__fail("RuntimeError: %s: a run is in progress; call wait() first.", callee);
}

/* The end of a run with result `rc`. The first failure is reported. */
static int end_run(tvmrt_schedule* s, int rc) {
  /* Ending the remaining steps runs code that may set errors, so the text is saved. */
  char* reason = rc == 0 ? NULL : tvmrt__strdup(TVMGetLastError());
  if (end_started_steps(s) != 0) rc = -1;
  if (reason != NULL) TVMPackedFuncSetLastError(reason);
  free(reason);
  return rc == 0 ? 0 : fail_run(s);
}

/* A scheduler without `wait` has finished when its run returns. */
int tvmrt__schedule_start(tvmrt_schedule* s) {
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__schedule_check_idle(s, "run"));
  if (!s->is_chosen) return tvmrt__fail_value("no scheduler is set; call set_scheduler first.");
  begin_run(s);
  /* A scheduler that fails without a text must not get an older one. */
  TVMPackedFuncSetLastError("");
  rc = s->scheduler.run(&s->scheduler, &s->plan);
  if (rc != 0 || s->scheduler.wait == NULL) rc = end_run(s, rc);
  /* Also if it has finished: with any scheduler, a run counts as running until a thread waits for
   * it. */
  s->is_running = rc == 0;
  return rc;
}

/* Without a run the result is success: waiting twice is harmless. */
int tvmrt__schedule_wait(tvmrt_schedule* s, int64_t timeout_ms, bool* out_ended) {
  int rc = 0;
  *out_ended = true;
  if (!s->is_running) return 0;
  TVMPackedFuncSetLastError("");
  if (s->scheduler.wait != NULL) rc = s->scheduler.wait(&s->scheduler, &s->plan, timeout_ms);
  if (rc == TVMRT_DEVICE_BUSY) {
    *out_ended = false;
    return 0;
  }
  s->is_running = false;
  return end_run(s, rc);
}

/* Without a time limit: -1. */
int tvmrt__schedule_run(tvmrt_schedule* s) {
  bool ended;
  TVMRT_RETURN_IF_ERROR(tvmrt__schedule_start(s));
  return tvmrt__schedule_wait(s, -1, &ended);
}
