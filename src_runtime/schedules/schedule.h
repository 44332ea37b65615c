/* Steps that a scheduler runs: the operators of a graph executor, when somebody chose one for it. */
#ifndef TVMRT_SRC_RUNTIME_SCHEDULES_SCHEDULE_H_
#define TVMRT_SRC_RUNTIME_SCHEDULES_SCHEDULE_H_

#include <stdbool.h>
#include <tvm/runtime/device.h>

#include "../base/error.h"
#include "../core/region_request.h"
#include "../executors/schedules.h"
#include "../platform/threads.h"

struct tvmrt_graph_executor;

/* When a step ran last. */
typedef struct tvmrt_step_time {
  double begin; /* seconds of the monotonic clock; 0: it did not run */
  double end;
  int32_t position; /* among the steps of its device in that run */
  char* fallback;   /* why the CPU did it in place of the device; NULL: it did not */
  char* chosen;     /* the device that the scheduler chose for it; NULL: its own */
} tvmrt_step_time;

/* A step that has begun, one for each step. What has ended keeps how. */
struct tvmrt_event {
  void* started; /* a region's run that goes on; NULL: it has ended */
  int (*end)(void* started, bool only_look);
  int rc;
};

/* Runs one operator. */
typedef int (*tvmrt_run_op)(struct tvmrt_graph_executor* graph, size_t op);
/* The region that an operator calls; NULL: none. */
typedef tvmrt_region* (*tvmrt_region_of_op)(struct tvmrt_graph_executor* graph, size_t op);

typedef struct tvmrt_schedule {
  tvmrt_schedule_head head;
  tvmrt_plan plan; /* its `runtime` is the schedule */
  struct tvmrt_graph_executor* graph;
  tvmrt_run_op run_op;
  tvmrt_region_of_op region_of_op;
  tvmrt_step* steps;
  tvmrt_event* events; /* per step */
  int32_t* after;      /* what the steps' lists point into */
  int32_t* device;     /* per step: number of its device, in the order of first use */
  int32_t num_devices;
  tvmrt_scheduler scheduler;
  bool is_chosen;  /* scheduler is set, and its pre_run has succeeded */
  bool is_running; /* from run_async to the end of wait */
  bool has_lock;
  tvmrt_mutex lock; /* of all that follows */
  bool is_cancelled;
  char* failure; /* text of the failed step that comes first */
  int32_t failed_step;
  double started;
  tvmrt_step_time* times;
  int32_t* ended; /* per device: steps that began */
} tvmrt_schedule;

/* A schedule of steps that the caller fills in, each an operator of `graph`; *out is owned. */
int tvmrt__schedule_new(struct tvmrt_graph_executor* graph, tvmrt_run_op run_op,
                        tvmrt_region_of_op region_of_op, int32_t num_steps, tvmrt_schedule** out);
/* Waits for a run that is under way. NULL does nothing. */
void tvmrt__schedule_free(tvmrt_schedule* schedule);

/* Leave the scheduler for another. */
int tvmrt__schedule_choose(tvmrt_schedule* schedule, const tvmrt_scheduler* scheduler);
/* Fails if a run is under way; `who` names the function that was called. NULL has none. */
int tvmrt__schedule_check_idle(const tvmrt_schedule* schedule, const char* who);

/* Start a run and wait for its end. */
int tvmrt__schedule_run(tvmrt_schedule* schedule);
/* Start a run; wait for it: *out_ended is false after timeout_ms milliseconds (negative: never). */
int tvmrt__schedule_start(tvmrt_schedule* schedule);
int tvmrt__schedule_wait(tvmrt_schedule* schedule, int64_t timeout_ms, bool* out_ended);

/* As much of a scheduler as it says that it has; the other slots are NULL. */
void tvmrt__scheduler_copy(tvmrt_scheduler* to, const tvmrt_scheduler* from);

/* The schedulers; *out is a copy. */
int tvmrt__scheduler_find(const char* name, tvmrt_scheduler* out);
extern const tvmrt_scheduler tvmrt__async_scheduler;

#endif
