/* Steps that a scheduler runs: the operators of a graph executor with a chosen scheduler. */
#ifndef TVMRT_SRC_RUNTIME_SCHEDULES_SCHEDULE_H_
#define TVMRT_SRC_RUNTIME_SCHEDULES_SCHEDULE_H_

#include <stdbool.h>
#include <tvm/runtime/device.h>

#include "../base/error.h"
#include "../core/region_request.h"
#include "../executors/schedules.h"
#include "../platform/threads.h"

struct tvmrt_graph_executor;

/* The last run of a step. */
typedef struct tvmrt_step_time {
  double begin; /* seconds of the monotonic clock; 0: it did not run */
  double end;
  int32_t position; /* among the steps of its device in that run */
  char* fallback;   /* why the CPU ran it instead of the device; NULL: it did not */
  char* chosen;     /* the device that the scheduler chose for it; NULL: its own */
} tvmrt_step_time;

/* A step that was begun, one event per step. An ended one keeps its result. */
struct tvmrt_event {
  void* started; /* a region's unfinished run; NULL: it has ended */
  int (*end)(void* started, bool poll_only);
  int rc;
};

/* Runs one operator. */
typedef int (*tvmrt_run_op)(struct tvmrt_graph_executor* graph, size_t op);
/* The region that an operator calls; NULL if none. */
typedef tvmrt_region* (*tvmrt_region_of_op)(struct tvmrt_graph_executor* graph, size_t op);

typedef struct tvmrt_schedule {
  tvmrt_schedule_head head;
  tvmrt_plan plan; /* its `runtime` is the schedule */
  struct tvmrt_graph_executor* graph;
  tvmrt_run_op run_op;
  tvmrt_region_of_op region_of_op;
  tvmrt_step* steps;
  tvmrt_event* events; /* per step */
  int32_t* after;      /* storage of the steps' lists */
  int32_t* device;     /* per step: number of its device, in the order of first use */
  int32_t num_devices;
  tvmrt_scheduler scheduler;
  bool is_chosen;  /* scheduler is set, and its pre_run has succeeded */
  bool is_running; /* from run_async to the end of wait */
  bool has_lock;
  tvmrt_mutex lock; /* guards everything below */
  bool is_cancelled;
  char* failure; /* text of the failed step that comes first */
  int32_t failed_step;
  double started;
  tvmrt_step_time* times;
  int32_t* ended; /* per device: steps that began */
} tvmrt_schedule;

/* A schedule with steps to be filled in, each an operator of `graph`. The caller owns *out. */
int tvmrt__schedule_new(struct tvmrt_graph_executor* graph, tvmrt_run_op run_op,
                        tvmrt_region_of_op region_of_op, int32_t num_steps, tvmrt_schedule** out);
/* Waits for an unfinished run. NULL does nothing. */
void tvmrt__schedule_free(tvmrt_schedule* schedule);

/* Replace the scheduler. */
int tvmrt__schedule_choose(tvmrt_schedule* schedule, const tvmrt_scheduler* scheduler);
/* Fails if a run has not ended; `callee` names the called function. NULL has no run. */
int tvmrt__schedule_check_idle(const tvmrt_schedule* schedule, const char* callee);

/* Start a run and wait for its end. */
int tvmrt__schedule_run(tvmrt_schedule* schedule);
/* Start a run; wait for it: *out_ended is false after timeout_ms milliseconds (negative: never). */
int tvmrt__schedule_start(tvmrt_schedule* schedule);
int tvmrt__schedule_wait(tvmrt_schedule* schedule, int64_t timeout_ms, bool* out_ended);

/* Copies the slots within the stated size of a scheduler; the other slots are NULL. */
void tvmrt__scheduler_copy(tvmrt_scheduler* to, const tvmrt_scheduler* from);

/* Look up a scheduler; *out is a copy. */
int tvmrt__scheduler_find(const char* name, tvmrt_scheduler* out);
extern const tvmrt_scheduler tvmrt__async_scheduler;

#endif
