/* How a graph executor runs its operators when somebody chose a scheduler for it. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_SCHEDULE_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_SCHEDULE_H_

#include <pthread.h>
#include <tvm/runtime/device.h>

#include "graph.h"

/* When a step ran last. */
typedef struct tvmrt_step_time {
  double begin; /* seconds of the monotonic clock; 0: it did not run */
  double end;
  int32_t position; /* among the steps of its device in that run */
} tvmrt_step_time;

typedef struct tvmrt_schedule {
  tvmrt_plan plan; /* its `runtime` is the executor */
  tvmrt_step* steps;
  int32_t* after;  /* what the steps' lists point into */
  int32_t* device; /* per step: number of its device, in the order of first use */
  int32_t num_devices;
  tvmrt_scheduler scheduler;
  bool is_chosen;  /* scheduler is set, and its pre_run has succeeded */
  bool is_running; /* from run_async to the end of wait */
  bool has_lock;
  pthread_mutex_t lock; /* of all that follows */
  bool is_cancelled;
  char* failure; /* text of the failed step that comes first */
  int32_t failed_step;
  double started;
  tvmrt_step_time* times;
  int32_t* ended; /* per device: steps that began */
} tvmrt_schedule;

/* Waits for a run that is under way. NULL does nothing. */
void tvmrt__schedule_free(tvmrt_schedule* schedule);

/* Choose by name: "sync", "async", or a registered one. */
int tvmrt__graph_set_scheduler(tvmrt_graph_executor* g, const char* name);
/* What the network and its devices ask for: "async" for graphs with "after", the scheduler of a
 * device that has one, else none. */
int tvmrt__graph_default_scheduler(tvmrt_graph_executor* g);

/* Start a run; wait for it: *out_ended is false after timeout_ms milliseconds (negative: never). */
int tvmrt__schedule_start(tvmrt_schedule* schedule);
int tvmrt__schedule_wait(tvmrt_schedule* schedule, int64_t timeout_ms, bool* out_ended);

/* The schedulers; *out is a copy. */
int tvmrt__scheduler_find(const char* name, tvmrt_scheduler* out);
extern const tvmrt_scheduler tvmrt__async_scheduler;

/* Functions of the executor's module. */
extern const tvmrt_builtins tvmrt__graph_schedule_functions;

#endif
