/* The library of schedulers, libtvmrt_schedules: the graph executor's functions. */
#include <string.h>
#include <tvm/runtime/plugin.h>

#include "schedule.h"

static const tvmrt_schedule_functions own_functions;

/* Steps are made when a scheduler is first needed: most executors need none. */
static int set_scheduler_copy(tvmrt_graph_executor* g, const tvmrt_scheduler* scheduler) {
  if (g->base.schedule == NULL) {
    TVMRT_RETURN_IF_ERROR(tvmrt__schedule_new(g, &g->base.schedule));
    g->base.schedule->head.functions = &own_functions;
  }
  return tvmrt__schedule_choose(g->base.schedule, scheduler);
}

static int set_scheduler_named(tvmrt_graph_executor* g, const char* name) {
  tvmrt_scheduler scheduler;
  TVMRT_RETURN_IF_ERROR(tvmrt__scheduler_find(name, &scheduler));
  return set_scheduler_copy(g, &scheduler);
}

/* The device of an operator if no earlier one has it, so that each is looked up once; else NULL. The
 * CPU has no scheduler of its own. */
static const char* new_device(const tvmrt_graph_executor* g, size_t op) {
  const char* name = g->graph.nodes[g->ops[op].node].device;
  size_t i;
  if (name == NULL || strcmp(name, "cpu") == 0) return NULL;
  for (i = 0; i < op; ++i) {
    const char* earlier = g->graph.nodes[g->ops[i].node].device;
    if (earlier != NULL && strcmp(earlier, name) == 0) return NULL;
  }
  return name;
}

/* The first device in the order of nodes that provides a scheduler decides; otherwise graphs with
 * stated dependencies overlap, and others run in order without a scheduler. */
static int choose_default(tvmrt_graph_executor* g) {
  size_t i;
  for (i = 0; i < g->num_ops; ++i) {
    const char* name = new_device(g, i);
    tvmrt_device* device = NULL;
    tvmrt_scheduler scheduler;
    /* if it cannot start, loading its library has failed, or the CPU's code is available */
    if (name != NULL && tvmrt_device_find(name, &device) != 0) tvmrt__forget_error();
    if (device == NULL || device->scheduler == NULL) continue;
    tvmrt__scheduler_copy(&scheduler, device->scheduler);
    return set_scheduler_copy(g, &scheduler);
  }
  return tvmrt__graph_has_order(g) ? set_scheduler_named(g, "async") : 0;
}

/* (name) */
TVMRT_GRAPH_METHOD(set_scheduler, "set_scheduler") {
  const char* name;
  (void)out, (void)out_code;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  return set_scheduler_named(g, name);
}

/* Start a run and return: inputs must not change until wait() reports its end. */
TVMRT_GRAPH_METHOD(run_async, "run_async") {
  (void)in, (void)out, (void)out_code;
  /* A run that is started without a chosen scheduler should overlap. */
  if (g->base.schedule == NULL) TVMRT_RETURN_IF_ERROR(set_scheduler_named(g, "async"));
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

/* A run without a time limit. */
static int run(tvmrt_schedule* s) {
  bool ended;
  TVMRT_RETURN_IF_ERROR(tvmrt__schedule_start(s));
  return tvmrt__schedule_wait(s, -1, &ended);
}

#define METHOD(name, fn) fn,
static const TVMCPackedFunc methods[] = {TVMRT_SCHEDULE_METHODS(METHOD)};

static const tvmrt_schedule_functions own_functions = {
    .scheduler_register = tvmrt__scheduler_add,
    .choose_default = choose_default,
    .check_idle = tvmrt__schedule_check_idle,
    .run = run,
    .free = tvmrt__schedule_free,
    .methods = methods,
};

static int enter(void) {
  tvmrt__schedules_provide(&own_functions);
  return 0;
}

/* It stays loaded until the process ends: executors and threads have addresses of its functions. */
TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "schedules", NULL, enter, NULL,
                      TVMRT_SDK_VERSION};
