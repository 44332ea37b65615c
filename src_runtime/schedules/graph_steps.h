/* The operators of a graph executor as steps of a schedule. */
#ifndef TVMRT_SRC_RUNTIME_SCHEDULES_GRAPH_STEPS_H_
#define TVMRT_SRC_RUNTIME_SCHEDULES_GRAPH_STEPS_H_

#include "../executors/graph.h"
#include "../executors/schedules.h"
#include "schedule.h"

/* Choose by name: "sync", "async", or a registered one. */
int tvmrt__graph_set_scheduler(tvmrt_graph_executor* g, const char* name);
/* Choose the default of the network and its devices. */
int tvmrt__graph_choose_default(tvmrt_graph_executor* g);

/* The functions that executors call. */
extern const tvmrt_schedule_functions tvmrt__own_schedule_functions;

#endif
