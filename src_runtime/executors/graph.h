/* The graph executor: an instance of a network that calls one function per node. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_H_

#include "executor.h"
#include "graph_json.h"

/* An executable node with its arguments prepared: running it is one call. */
typedef struct tvmrt_graph_op {
  tvmrt_func* function; /* retained; NULL for a copy between devices */
  TVMValue* args;       /* each the address of a DLTensor of the executor */
  int* codes;
  int num_args;
  size_t node;
} tvmrt_graph_op;

/* A 1-dimensional view of an entry, for nodes with flatten_data. */
typedef struct tvmrt_graph_flat {
  DLTensor view;
  int64_t extent;
  size_t entry;
} tvmrt_graph_flat;

typedef struct tvmrt_graph_executor {
  tvmrt_executor base;
  tvmrt_graph graph;
  DLDevice* devices;
  size_t num_devices;
  tvmrt_tensor** storage; /* per storage id, NULL if not needed */
  DLTensor* entries;      /* arguments of operators; shapes lie in graph.dims */
  size_t* alias;          /* circular list of entries that are one tensor under several shapes */
  tvmrt_graph_op* ops;
  size_t num_ops;
  TVMValue* values; /* arguments of all operators */
  int* codes;
  TVMValue* scratch; /* arguments for functions that may change theirs */
  int* scratch_codes;
  tvmrt_graph_flat* flats;
  size_t num_flats;
  char** output_names; /* "<name in the network, or of the node>:<i>" */
  bool* copy_out;      /* outputs whose memory cannot be replaced: they are copied after a run */
} tvmrt_graph_executor;

/* An executor of `json` with the functions of `library`. `params` may be NULL; its tensors are
 * shared, not copied. `linked` maps a storage id to the address of a constant in the library, or to
 * nothing; NULL: the library's own _lookup_linked_param, if it has one. *out is owned. */
int tvmrt__graph_executor_new(const char* json, size_t json_size, tvmrt_module* library,
                              const DLDevice* devices, size_t num_devices,
                              const tvmrt_params* params, tvmrt_func* linked, tvmrt_module** out);

/* Run all operators, or one; op counts operators, not nodes. */
int tvmrt__graph_run(tvmrt_executor* e);
TVMRT_SDK int tvmrt__graph_run_op(tvmrt_graph_executor* g, size_t op);
/* Begin a run: outputs that callers keep get other memory, and operators see its capacity. */
TVMRT_SDK int tvmrt__graph_begin_run(tvmrt_graph_executor* g);
/* End a run: copy the outputs that have memory of their own, and set the extents of all. */
TVMRT_SDK int tvmrt__graph_copy_outputs(tvmrt_graph_executor* g);
/* Let the next run start from the initial state. */
int tvmrt__graph_reset_state(tvmrt_executor* e);

/* Signature of a method of the executor's module. */
#define TVMRT_GRAPH_METHOD(fn, name) TVMRT_EXECUTOR_METHOD(tvmrt_graph_executor* g, fn, name)

/* Functions of the kind. */
extern const tvmrt_executor_kind tvmrt__graph_kind;
void tvmrt__graph_destroy(tvmrt_module* self);
void tvmrt__graph_update(tvmrt_executor* e, const tvmrt_ports* side, const tvmrt_port* port);
int tvmrt__graph_profile(tvmrt_executor* e, tvmrt_buf* text);
/* Debugging functions. */
extern const tvmrt_builtins tvmrt__graph_debug_functions;

/* Devices from (device type, device id) pairs or Device values, from argument `first` on; owned. */
int tvmrt__devices_of_args(const tvmrt_args* in, int first, DLDevice** out, size_t* out_count);

#endif
