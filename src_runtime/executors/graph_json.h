/* A parsed and checked graph: every index in it is in range. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_JSON_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_JSON_H_

#include "../tensors/tensor.h"

typedef struct tvmrt_graph_node {
  char* name;
  char* func_name;    /* NULL for inputs and parameters */
  size_t first_input; /* index in graph.inputs */
  size_t num_inputs;
  size_t first_entry; /* outputs are the entries from here */
  size_t num_outputs;
  bool flatten_data;
  char* view;   /* attribute "view" (graph_view.h), NULL if there is none */
  char* device; /* attributes "device" and "after" (schedule.h); NULL */
  char* after;
} tvmrt_graph_node;

/* One output of one node. */
typedef struct tvmrt_graph_entry {
  DLDataType dtype;
  int32_t ndim;
  size_t first_dim; /* index in graph.dims */
  uint64_t bytes;
  size_t storage_id;
  int device_type; /* 0: the first device */
} tvmrt_graph_entry;

typedef struct tvmrt_graph {
  tvmrt_graph_node* nodes;
  size_t num_nodes;
  size_t* inputs; /* entry numbers */
  size_t num_inputs;
  size_t* arg_nodes; /* node numbers */
  size_t num_arg_nodes;
  size_t* heads; /* entry numbers */
  size_t num_heads;
  char* network;     /* prefix of the library's names of this network; NULL: unknown */
  char** head_names; /* the network's names of its outputs; NULL: none */
  size_t num_head_names;
  tvmrt_graph_entry* entries;
  size_t num_entries;
  int64_t* dims;
  size_t num_dims;
  size_t num_storages;
} tvmrt_graph;

int tvmrt__graph_parse(const char* json, size_t size, tvmrt_graph* out);
void tvmrt__graph_free(tvmrt_graph* graph);
/* Node of an entry. */
TVMRT_SDK size_t tvmrt__graph_node_of(const tvmrt_graph* graph, size_t entry);

#endif
