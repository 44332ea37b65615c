/* The graph executor: an instance of a network that calls one function per node. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_H_

#include "../tensors/params.h"
#include "graph_json.h"
#include "port.h"

/* One node that does something, with its arguments ready: running it is one call. */
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
  tvmrt_module base;
  tvmrt_graph graph;
  DLDevice* devices;
  size_t num_devices;
  tvmrt_tensor** storage; /* per storage id, NULL if not needed */
  DLTensor* entries;      /* what operators see; shapes lie in graph.dims */
  size_t* alias;          /* ring of entries that are one tensor under several shapes */
  tvmrt_graph_op* ops;
  size_t num_ops;
  TVMValue* values; /* arguments of all operators */
  int* codes;
  TVMValue* scratch; /* arguments for functions that may change theirs */
  int* scratch_codes;
  tvmrt_graph_flat* flats;
  size_t num_flats;
  tvmrt_port* inputs;              /* per arg_node */
  bool* is_param;                  /* inputs that were set as parameters */
  tvmrt_port* outputs;             /* per head */
  const tvmrt_dims* dims;          /* the library's, NULL where every extent is fixed */
  char** output_names;             /* "<the network's name, or the node's>:<i>" */
  struct tvmrt_schedule* schedule; /* NULL: operators run in their order, on the caller's thread */
  bool has_state; /* some of the operators' memory is what a run leaves for the next one */
  bool* copy_out; /* outputs whose memory cannot be replaced: they are copied after a run */
  atomic_bool is_taken;
} tvmrt_graph_executor;

/* An executor of `json` over the functions of `library`. `params` may be NULL; its tensors are
 * shared, not copied. `linked` answers where the library keeps a storage (storage id -> address or
 * nothing); NULL: the library's own _lookup_linked_param, if it has one. *out is owned. */
int tvmrt__graph_executor_new(const char* json, size_t json_size, tvmrt_module* library,
                              const DLDevice* devices, size_t num_devices,
                              const tvmrt_params* params, tvmrt_func* linked, tvmrt_module** out);

/* Run all operators, or one; op counts operators, not nodes. */
int tvmrt__graph_run(tvmrt_graph_executor* g);
int tvmrt__graph_run_op(tvmrt_graph_executor* g, size_t op);
/* The beginning of a run: operators see how much the outputs have room for. */
void tvmrt__graph_show_room(tvmrt_graph_executor* g);
/* The end of a run: fill the outputs that have memory of their own, give all their extents. */
int tvmrt__graph_copy_outputs(tvmrt_graph_executor* g);
/* Have the next run begin as the first one did. */
int tvmrt__graph_reset_state(tvmrt_graph_executor* g);
/* Fails if a run is under way; `who` names the function that was called. */
int tvmrt__graph_check_idle(const tvmrt_graph_executor* g, const char* who);

/* A function of the executor's module, called alone and while no run is under way. */
typedef int (*tvmrt_graph_method)(tvmrt_graph_executor* g, const tvmrt_args* in, TVMValue* out,
                                  int* out_code);
int tvmrt__graph_call(tvmrt_graph_method method, tvmrt_graph_executor* g, const tvmrt_args* in,
                      TVMValue* out, int* out_code);

/* The head of such a function. */
#define TVMRT_GRAPH_METHOD(fn, name)                                                               \
  static int fn##_of(tvmrt_graph_executor* g, const tvmrt_args* in, TVMValue* out, int* out_code); \
  TVMRT_NATIVE(fn) {                                                                               \
    TVMRT_ARGS(name);                                                                              \
    return tvmrt__graph_call(fn##_of, resource_handle, &in, out, out_code);                        \
  }                                                                                                \
  static int fn##_of(tvmrt_graph_executor* g, const tvmrt_args* in, TVMValue* out, int* out_code)

/* Point operators at a port's tensor after it was bound. */
void tvmrt__graph_update_input(tvmrt_graph_executor* g, size_t input);
void tvmrt__graph_update_output(tvmrt_graph_executor* g, size_t output);

/* Functions of the executor's module. */
int tvmrt__graph_find(tvmrt_module* self, const char* name, tvmrt_found* out);
/* Functions for looking inside. */
extern const tvmrt_builtins tvmrt__graph_debug_functions;

/* Devices from (device type, device id) pairs or Device values, from argument `first` on; owned. */
int tvmrt__devices_of_args(const tvmrt_args* in, int first, DLDevice** out, size_t* out_count);

#endif
