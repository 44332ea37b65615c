/* The graph executor's functions for schedulers, and the list of schedulers.
 *
 * The list of schedulers is global, guarded by its own lock, which is not held while a scheduler is
 * called. Executors copy schedulers that they find. "sync" and "async" always exist. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "../platform/threads.h"
#include "graph_steps.h"

/* Runs all steps on the calling thread; the first failure ends the run. */
static int run_in_order(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  int32_t i;
  (void)scheduler;
  for (i = 0; i < plan->num_steps; ++i) {
    if (plan->is_cancelled(plan)) return -1;
    TVMRT_RETURN_IF_ERROR(plan->run_step(plan, i));
  }
  return 0;
}

/* No pre_run and no wait: the run has finished when run() returns. */
static const tvmrt_scheduler sync_scheduler = {
    .struct_bytes = sizeof(sync_scheduler),
    .name = "sync",
    .run = run_in_order,
};

/* Schedulers that users added; never removed, since executors have copies of them. */
typedef struct registered {
  tvmrt_scheduler scheduler;
  struct registered* next;
} registered;

static tvmrt_mutex lock = TVMRT_MUTEX_INIT;
static registered* first;

/* Called with the lock held. The result stays valid: schedulers are never removed. */
static const tvmrt_scheduler* find_locked(const char* name) {
  const registered* a = first;
  if (strcmp(name, sync_scheduler.name) == 0) return &sync_scheduler;
  if (strcmp(name, tvmrt__async_scheduler.name) == 0) return &tvmrt__async_scheduler;
  while (a != NULL && strcmp(a->scheduler.name, name) != 0) a = a->next;
  return a == NULL ? NULL : &a->scheduler;
}

/* A copy, so that callers need no lock afterwards. */
int tvmrt__scheduler_find(const char* name, tvmrt_scheduler* out) {
  const tvmrt_scheduler* found;
  tvmrt__lock(&lock);
  found = find_locked(name);
  if (found != NULL) *out = *found;
  tvmrt__unlock(&lock);
  if (found != NULL) return 0;
  return tvmrt__fail_value(
      "there is no scheduler '%.60s'; use 'sync', 'async' or one that tvmrt_scheduler_register() "
      "has added.",
      name);
}

/* The size of the first version of tvmrt_scheduler. */
#define FIRST_BYTES (offsetof(tvmrt_scheduler, privacy) + sizeof(void*))

/* Plug-ins may be older or newer than this library: slots that they lack are NULL, slots that this
 * library does not know are ignored. */
void tvmrt__scheduler_copy(tvmrt_scheduler* to, const tvmrt_scheduler* from) {
  const size_t stated_bytes = from->struct_bytes;
  memset(to, 0, sizeof(*to));
  memcpy(to, from, stated_bytes < sizeof(*to) ? stated_bytes : sizeof(*to));
  to->struct_bytes = sizeof(*to);
}

/* Called with the lock held. The name is borrowed and must stay valid, see device.h. */
static int add_scheduler(const tvmrt_scheduler* scheduler) {
  registered* a;
  if (find_locked(scheduler->name) != NULL) {
    return tvmrt__fail_value("there is a scheduler '%.60s' already; names must be unique.",
                             scheduler->name);
  }
  a = tvmrt__calloc(1, sizeof(*a));
  if (a == NULL) return -1;
  tvmrt__scheduler_copy(&a->scheduler, scheduler);
  a->next = first;
  first = a;
  return 0;
}

/* The struct is copied; its name and `privacy` are borrowed forever: it is never removed. */
static int register_scheduler(const tvmrt_scheduler* scheduler) {
  int rc;
  if (scheduler == NULL || scheduler->struct_bytes < FIRST_BYTES || scheduler->name == NULL ||
      scheduler->name[0] == '\0' || scheduler->run == NULL) {
    return tvmrt__fail_value(
        "tvmrt_scheduler_register: a scheduler needs struct_bytes of %zu or more, a name and the "
        "slot 'run'.",
        FIRST_BYTES);
  }
  tvmrt__lock(&lock);
  rc = add_scheduler(scheduler);
  tvmrt__unlock(&lock);
  return rc;
}

/* (name) */
TVMRT_GRAPH_METHOD(set_scheduler, "set_scheduler") {
  const char* name;
  (void)out, (void)out_code;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  return tvmrt__graph_set_scheduler(g, name);
}

/* Start a run and return: inputs must not change until wait() reports its end. */
TVMRT_GRAPH_METHOD(run_async, "run_async") {
  (void)in, (void)out, (void)out_code;
  /* A run that is started without a chosen scheduler should overlap. */
  if (g->base.schedule == NULL) TVMRT_RETURN_IF_ERROR(tvmrt__graph_set_scheduler(g, "async"));
  TVMRT_RETURN_IF_ERROR(tvmrt__graph_begin_run(g));
  return tvmrt__schedule_start(g->base.schedule);
}

/* Outputs are filled only if the run succeeded. (Those of a failed run are undefined.) */
static int wait_for_run(tvmrt_graph_executor* g, int64_t timeout_ms, bool* ended) {
  *ended = true;
  if (g->base.schedule == NULL || !g->base.schedule->is_running) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__schedule_wait(g->base.schedule, timeout_ms, ended));
  return *ended ? tvmrt__graph_copy_outputs(g) : 0;
}

/* ([milliseconds]) -> 1 if the run has ended, 0 if it has not. Not a method: methods fail during a
 * run, which is when this function is called. */
TVMRT_NATIVE(wait_started) {
  tvmrt_graph_executor* g = resource_handle;
  int64_t timeout_ms = -1;
  bool ended;
  int rc;
  TVMRT_ARGS("wait");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 0, 1));
  if (num_args == 1) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 0, &timeout_ms));
  TVMRT_RETURN_IF_ERROR(tvmrt__begin_call(&g->base, in.callee));
  rc = wait_for_run(g, timeout_ms, &ended);
  tvmrt__end_call(&g->base);
  return rc != 0 ? rc : tvmrt__ret_int(out, out_code, ended);
}

/* No further step begins; wait() then fails with CancelledError. Thread-safe. Does not lock the
 * executor, since a run may use it: `schedule` never changes once it is made, and the lock guards
 * the flag. */
TVMRT_NATIVE(cancel) {
  tvmrt_graph_executor* g = resource_handle;
  tvmrt_schedule* s = g->base.schedule;
  TVMRT_ARGS("cancel");
  if (s == NULL) return 0;
  tvmrt__lock(&s->lock);
  s->is_cancelled = true;
  tvmrt__unlock(&s->lock);
  return 0;
}

/* A step that did not run has no times, and the position -1. */
static int write_step(const tvmrt_schedule* s, int32_t i, bool with_times, tvmrt_buf* text) {
  const tvmrt_step* step = &s->steps[i];
  const tvmrt_step_time* time = &s->times[i];
  int32_t k;
  TVMRT_RETURN_IF_ERROR(
      tvmrt__buf_printf(text, "%s{\"step\": %d, \"name\": ", i == 0 ? "" : ", ", (int)i));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(text, step->name));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(text, ", \"device\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(text, step->device));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(text, ", \"position\": %d, \"after\": [",
                                          time->begin > 0 ? (int)time->position : -1));
  for (k = 0; k < step->num_after; ++k) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(text, "%s%d", k == 0 ? "" : ", ", (int)step->after[k]));
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(text, "]"));
  if (with_times && time->begin > 0) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(
        text, ", \"begin_us\": %" PRId64 ", \"end_us\": %" PRId64,
        (int64_t)((time->begin - s->started) * 1e6), (int64_t)((time->end - s->started) * 1e6)));
  }
  if (time->chosen != NULL) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(text, ", \"chosen\": "));
    TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(text, time->chosen));
  }
  if (time->fallback != NULL) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(text, ", \"fallback\": "));
    TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(text, time->fallback));
  }
  return tvmrt__buf_puts(text, "}");
}

/* ([with times]) -> JSON: scheduler and steps of the last run. Each step has its device and its
 * position among that device's steps, -1 if it did not run; "chosen" is another device that the
 * scheduler chose for it; "fallback" says why its device did not run it, so that the CPU does.
 * Without times the same network always gives the same text. */
TVMRT_GRAPH_METHOD(get_trace, "get_trace") {
  const tvmrt_schedule* s = g->base.schedule;
  tvmrt_buf text = {NULL, 0, 0};
  int64_t with_times = 0;
  int32_t i;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 0, 1));
  if (in->count == 1) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 0, &with_times));
  /* Without a scheduler operators run in order, and no times are recorded. */
  if (s == NULL)
    return tvmrt__fail_value("get_trace: no scheduler is set; call set_scheduler first.");
  rc = tvmrt__buf_puts(&text, "{\"scheduler\": ");
  if (rc == 0) rc = tvmrt__json_write_string(&text, s->scheduler.name);
  if (rc == 0) rc = tvmrt__buf_puts(&text, ", \"steps\": [");
  for (i = 0; rc == 0 && i < s->plan.num_steps; ++i) rc = write_step(s, i, with_times != 0, &text);
  if (rc == 0) rc = tvmrt__buf_puts(&text, "]}");
  return tvmrt__ret_buf(rc, kTVMStr, &text, out, out_code);
}

#define METHOD(name, fn) fn,
static const TVMCPackedFunc methods[] = {TVMRT_SCHEDULE_METHODS(METHOD)};

const tvmrt_schedule_functions tvmrt__own_schedule_functions = {
    .scheduler_register = register_scheduler,
    .choose_default = tvmrt__graph_choose_default,
    .check_idle = tvmrt__schedule_check_idle,
    .run = tvmrt__schedule_run,
    .free = tvmrt__schedule_free,
    .methods = methods,
};
