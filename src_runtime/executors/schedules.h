/* Functions of the library of schedulers, schedules/, which is loaded on demand. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_SCHEDULES_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_SCHEDULES_H_

#include <stdbool.h>
#include <tvm/runtime/device.h>

#include "../core/function.h"
#include "../modules/module.h"

struct tvmrt_graph_executor;
struct tvmrt_schedule;

/* Methods of graph executors, in this order. */
#define TVMRT_SCHEDULE_METHODS(X)   \
  X("set_scheduler", set_scheduler) \
  X("run_async", run_async)         \
  X("wait", wait_started)

/* Static. */
typedef struct tvmrt_schedule_functions {
  /* tvmrt_scheduler_register() */
  int (*scheduler_register)(const tvmrt_scheduler* scheduler);
  /* Set the default scheduler of a new executor: "async" for graphs with "after", the scheduler of
   * a device that has one, else none. */
  int (*choose_default)(struct tvmrt_graph_executor* g);
  /* Fail if a run is in progress; `callee` names the called function. */
  int (*check_idle)(const struct tvmrt_schedule* schedule, const char* callee);
  /* Start a run and wait for its end. */
  int (*run)(struct tvmrt_schedule* schedule);
  /* Waits for a run in progress. */
  void (*free)(struct tvmrt_schedule* schedule);
  const TVMCPackedFunc* methods;
} tvmrt_schedule_functions;

/* First member of each schedule. */
typedef struct tvmrt_schedule_head {
  const tvmrt_schedule_functions* functions;
} tvmrt_schedule_head;

static inline const tvmrt_schedule_functions* tvmrt__schedule_functions(
    const struct tvmrt_schedule* schedule) {
  return ((const tvmrt_schedule_head*)(const void*)schedule)->functions;
}

/* Called by the library of schedulers when it is loaded. */
TVMRT_SDK void tvmrt__schedules_provide(const tvmrt_schedule_functions* functions);

/* Load the library if necessary; NULL, with the error text set, if it is missing. */
const tvmrt_schedule_functions* tvmrt__schedules(void);

/* A scheduler method of graph executors. */
int tvmrt__schedules_find_method(const char* name, tvmrt_lookup_result* out);

#endif
