/* Steps that a scheduler runs: the operators of a graph executor with a chosen scheduler. */
#ifndef TVMRT_SRC_RUNTIME_SCHEDULES_SCHEDULE_H_
#define TVMRT_SRC_RUNTIME_SCHEDULES_SCHEDULE_H_

#include "../executors/graph.h"
#include "../executors/schedules.h"
#include "../platform/threads.h"

typedef struct tvmrt_schedule {
  tvmrt_schedule_head head;
  tvmrt_plan plan; /* its `runtime` is the schedule */
  tvmrt_graph_executor* graph;
  tvmrt_step* steps;
  int32_t* after;            /* storage of the steps' lists */
  tvmrt_scheduler scheduler; /* all NULL: none was chosen, or its pre_run failed */
  bool is_running;           /* from run_async to the end of wait */
  atomic_bool is_cancelled;  /* the executor is being freed */
  tvmrt_mutex lock;          /* guards everything below */
  char* failure;             /* text of the failed step that comes first */
  int32_t failed_step;
} tvmrt_schedule;

/* Make the steps of an executor, see graph_steps.c. The caller frees both arrays, also on failure. */
int tvmrt__graph_steps(const tvmrt_graph_executor* g, tvmrt_step** steps, int32_t** after);
/* Whether some operator states which others must end before it. */
bool tvmrt__graph_has_order(const tvmrt_graph_executor* g);

/* A schedule of the executor's operators. The caller owns *out, and sets the functions of its head. */
int tvmrt__schedule_new(tvmrt_graph_executor* graph, tvmrt_schedule** out);
/* Waits for an unfinished run. NULL does nothing. */
void tvmrt__schedule_free(tvmrt_schedule* schedule);

/* Replace the scheduler, which is copied. */
int tvmrt__schedule_choose(tvmrt_schedule* schedule, const tvmrt_scheduler* scheduler);
/* Fails if a run has not ended; `callee` names the called function. NULL has no run. */
int tvmrt__schedule_check_idle(const tvmrt_schedule* schedule, const char* callee);

/* Start a run; wait for it: *out_ended is false after timeout_ms milliseconds (negative: never). */
int tvmrt__schedule_start(tvmrt_schedule* schedule);
int tvmrt__schedule_wait(tvmrt_schedule* schedule, int64_t timeout_ms, bool* out_ended);

/* Look up a scheduler by name: "sync", "async", or a registered one; *out is a copy. */
int tvmrt__scheduler_find(const char* name, tvmrt_scheduler* out);
/* Copy the slots within the stated size of a scheduler; the other slots are NULL. */
void tvmrt__scheduler_copy(tvmrt_scheduler* to, const tvmrt_scheduler* from);
/* tvmrt_scheduler_register() */
int tvmrt__scheduler_add(const tvmrt_scheduler* scheduler);
extern const tvmrt_scheduler tvmrt__async_scheduler;

#endif
