/* Steps that a scheduler runs.
 *
 * A schedule belongs to one executor; schedulers see its plan. Steps may run on any thread, several
 * at a time: their failures are guarded by the lock, while `scheduler` and `is_running` belong to
 * the thread that uses the executor. Error texts are stored here, since those of a thread end with
 * it. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

#include "../core/region_request.h"

/* Keeps the failure that is first in the order of steps, not in time. */
static void keep_failure(tvmrt_schedule* s, int32_t step) {
  const char* text = TVMGetLastError();
  tvmrt__lock(&s->lock);
  if (s->failure == NULL || s->failed_step > step) {
    free(s->failure);
    s->failure = tvmrt__strdup(text);
    s->failed_step = step;
  }
  tvmrt__unlock(&s->lock);
}

/* The context of a request. */
typedef struct running_step {
  tvmrt_schedule* schedule;
  int32_t step;
} running_step;

/* Called by the region while its step runs, on the step's thread. */
static tvmrt_device* choose_device(void* context, const tvmrt_region* region) {
  const running_step* of = context;
  tvmrt_schedule* s = of->schedule;
  return s->scheduler.choose(&s->scheduler, &s->plan, of->step, region);
}

/* From begin to end on this thread. Schedulers get -1 for any failure. */
static int run_step(tvmrt_plan* plan, int32_t step) {
  tvmrt_schedule* s = plan->runtime;
  tvmrt_thread* thread = tvmrt__thread();
  running_step context = {s, step};
  const tvmrt_region_request request = {choose_device, &context};
  int rc;
  tvmrt__forget_error(); /* of an earlier step on this thread */
  if (thread != NULL && s->scheduler.choose != NULL) thread->request = &request;
  rc = tvmrt__graph_run_op(s->graph, (size_t)step);
  if (thread != NULL) thread->request = NULL; /* steps of the CPU do not take it */
  if (rc == 0) return 0;
  keep_failure(s, step);
  return -1;
}

/* An int, since plug-ins in any version of C call the plan's functions. */
static int is_cancelled(tvmrt_plan* plan) {
  tvmrt_schedule* s = plan->runtime;
  return atomic_load(&s->is_cancelled);
}

/* `graph` is borrowed: it owns the schedule. */
int tvmrt__schedule_new(tvmrt_graph_executor* graph, tvmrt_schedule** out) {
  tvmrt_schedule* s = tvmrt__calloc(1, sizeof(*s));
  int rc;
  *out = NULL;
  if (s == NULL) return -1;
  rc = tvmrt__graph_steps(graph, &s->steps, &s->after);
  if (rc == 0 && tvmrt__mutex_init(&s->lock) != 0) rc = tvmrt__fail_memory(sizeof(s->lock));
  if (rc != 0) {
    free(s->steps);
    free(s->after);
    free(s);
    return rc;
  }
  s->graph = graph;
  s->plan.steps = s->steps;
  s->plan.num_steps = (int32_t)graph->num_ops;
  s->plan.run_step = run_step;
  s->plan.is_cancelled = is_cancelled;
  s->plan.runtime = s;
  s->plan.struct_bytes = sizeof(s->plan);
  *out = s;
  return 0;
}

/* Ends the current run and ignores its result: its tensors are freed with the executor. */
static void leave_scheduler(tvmrt_schedule* s) {
  if (s->scheduler.run == NULL) return;
  if (s->is_running) {
    atomic_store(&s->is_cancelled, true); /* so that it ends with the steps that are running */
    /* the thread's error must not be replaced by that of the run */
    if (s->scheduler.wait != NULL) (void)s->scheduler.wait(&s->scheduler, &s->plan, -1);
    s->is_running = false;
  }
  if (s->scheduler.post_run != NULL) s->scheduler.post_run(&s->scheduler, &s->plan);
  memset(&s->scheduler, 0, sizeof(s->scheduler));
  s->plan.privacy = NULL;
}

void tvmrt__schedule_free(tvmrt_schedule* s) {
  if (s == NULL) return;
  /* A run would still read memory that is freed below. */
  leave_scheduler(s);
  tvmrt__mutex_free(&s->lock);
  free(s->steps);
  free(s->after);
  free(s->failure);
  free(s);
}

/* If pre_run fails there is no scheduler: the next run reports that. */
int tvmrt__schedule_choose(tvmrt_schedule* s, const tvmrt_scheduler* scheduler) {
  leave_scheduler(s);
  /* An older error text would be reported as the scheduler's reason. */
  TVMPackedFuncSetLastError("");
  if (scheduler->pre_run != NULL && scheduler->pre_run(scheduler, &s->plan) != 0) {
    return tvmrt__fail("scheduler '%.60s': pre_run failed: %s", scheduler->name, TVMGetLastError());
  }
  s->scheduler = *scheduler;
  return 0;
}

/* Error texts are per thread, and steps fail on any thread: copies the text to the waiting one. The
 * text of a failed run is that of a step, or the scheduler's own. */
static int fail_run(tvmrt_schedule* s) {
  tvmrt__lock(&s->lock);
  if (s->failure != NULL) {
    TVMPackedFuncSetLastError(s->failure);
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

/* A scheduler without `wait` has finished when its run returns; with any scheduler, a run counts as
 * running until a thread waits for it. */
int tvmrt__schedule_start(tvmrt_schedule* s) {
  TVMRT_RETURN_IF_ERROR(tvmrt__schedule_check_idle(s, "run"));
  if (s->scheduler.run == NULL)
    return tvmrt__fail_value("no scheduler is set; call set_scheduler first.");
  free(s->failure);
  s->failure = NULL;
  /* A scheduler that fails without a text must not get an older one. */
  TVMPackedFuncSetLastError("");
  if (s->scheduler.run(&s->scheduler, &s->plan) != 0) return fail_run(s);
  s->is_running = true;
  return 0;
}

/* Without a run the result is success: waiting twice is harmless. */
int tvmrt__schedule_wait(tvmrt_schedule* s, int64_t timeout_ms, bool* out_ended) {
  int rc = 0;
  *out_ended = true;
  if (!s->is_running) return 0;
  TVMPackedFuncSetLastError("");
  if (s->scheduler.wait != NULL) rc = s->scheduler.wait(&s->scheduler, &s->plan, timeout_ms);
  *out_ended = rc != TVMRT_DEVICE_BUSY;
  s->is_running = !*out_ended;
  return rc == 0 || !*out_ended ? 0 : fail_run(s);
}
