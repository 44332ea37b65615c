/* Creating the ports of a graph executor whose entries and storages exist. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_PORTS_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_PORTS_H_

#include "graph.h"

/* Create port i, zeroed before; tvmrt__port_free() accepts a partly created port. Parameters are
 * shared with the owner of `params`, which may be NULL. */
int tvmrt__graph_make_input(tvmrt_graph_executor* g, size_t i, const tvmrt_params* params);
/* After all inputs, and in order: an output in an earlier one's memory is copied. */
int tvmrt__graph_make_output(tvmrt_graph_executor* g, size_t i);

#endif
