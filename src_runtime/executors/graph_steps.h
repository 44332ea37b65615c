/* The operators of a graph executor as steps of a schedule. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_STEPS_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_STEPS_H_

#include "graph.h"
#include "schedule.h"

/* Choose by name: "sync", "async", or a registered one. */
int tvmrt__graph_set_scheduler(tvmrt_graph_executor* g, const char* name);
/* What the network and its devices ask for: "async" for graphs with "after", the scheduler of a
 * device that has one, else none. */
int tvmrt__graph_default_scheduler(tvmrt_graph_executor* g);

/* Functions of the executor's module. */
extern const tvmrt_builtins tvmrt__graph_schedule_functions;

#endif
