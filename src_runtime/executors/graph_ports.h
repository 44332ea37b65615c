/* Making the ports of a graph executor whose entries and storages are there. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_PORTS_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_PORTS_H_

#include "graph.h"

/* Port i, zero before; what is made of it before a failure tvmrt__port_free() takes. Parameters are
 * shared with whoever holds `params`, which may be NULL. */
int tvmrt__graph_make_input(tvmrt_graph_executor* g, size_t i, const tvmrt_params* params);
/* After all inputs, and in order: an output that lies where an earlier one does is copied. */
int tvmrt__graph_make_output(tvmrt_graph_executor* g, size_t i);

#endif
