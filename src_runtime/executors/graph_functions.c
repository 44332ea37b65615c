/* The graph executor's functions, as its module offers them.
 *
 * Methods (TVMRT_GRAPH_METHOD) take the executor for the time of the call and fail where another
 * thread has it or a run is under way; what never changes is answered without. Names and arguments
 * are those of TVM's executor. A port is named by number or by name; pointers to ports are good
 * while the executor is. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph_steps.h"

#define UNUSED_RESULT ((void)out, (void)out_code)

/* An unknown name is an error here; get_input and get_input_index ask for themselves, as TVM
 * answers those otherwise. */
static int find_input(tvmrt_graph_executor* g, const tvmrt_args* in, tvmrt_port** port) {
  TVMRT_RETURN_IF_ERROR(
      tvmrt__port_of_arg(g->inputs, g->graph.num_arg_nodes, "input", in, 0, port));
  if (*port != NULL) return 0;
  return tvmrt__port_unknown(g->inputs, g->graph.num_arg_nodes, "input", in, 0);
}

/* Whether an output is called "<name>:<i>". Every output's name was made with a colon, see
 * name_output(). */
static bool has_stem(const char* output, const char* name) {
  const char* last = strrchr(output, ':');
  return strlen(name) == (size_t)(last - output) && strncmp(output, name, strlen(name)) == 0;
}

/* Outputs go by "<name>:<i>", or by the name alone where one output has it. */
static int find_output_or_none(const tvmrt_graph_executor* g, const tvmrt_args* in,
                               tvmrt_port** port) {
  const char* name;
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__port_of_arg(g->outputs, g->graph.num_heads, "output", in, 0, port));
  if (*port != NULL) return 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  for (i = 0; i < g->graph.num_heads; ++i) {
    if (!has_stem(g->output_names[i], name)) continue;
    if (*port != NULL) {
      return tvmrt__fail_value(
          "%s: several outputs are called '%.60s'; ask for '%.60s', '%.60s' or a number.", in->who,
          name, (*port)->name, g->output_names[i]);
    }
    *port = &g->outputs[i];
  }
  return 0;
}

/* An unknown name is an error, which lists the names that there are. */
static int find_output(tvmrt_graph_executor* g, const tvmrt_args* in, tvmrt_port** port) {
  TVMRT_RETURN_IF_ERROR(find_output_or_none(g, in, port));
  return *port != NULL ? 0 : tvmrt__port_unknown(g->outputs, g->graph.num_heads, "output", in, 0);
}

/* Copies; the operators' arguments are moved, since the port may have been bound to another
 * tensor. */
TVMRT_GRAPH_METHOD(set_input, "set_input") {
  tvmrt_port* port;
  DLTensor* from;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_input(g, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, 1, &from));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_copy_in(port, "input", from));
  tvmrt__graph_update_input(g, (size_t)(port - g->inputs));
  return 0;
}

/* The tensor must outlive the runs that read it, unless it is an NDArray, which is retained. */
TVMRT_GRAPH_METHOD(set_input_zero_copy, "set_input_zero_copy") {
  tvmrt_port* port;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_input(g, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_bind(port, "input", in, 1));
  tvmrt__graph_update_input(g, (size_t)(port - g->inputs));
  return 0;
}

/* An output that shares memory with an input or with another output is copied there after the
 * run. */
TVMRT_GRAPH_METHOD(set_output_zero_copy, "set_output_zero_copy") {
  tvmrt_port* port;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(find_output(g, in, &port));
  TVMRT_RETURN_IF_ERROR(tvmrt__port_bind(port, "output", in, 1));
  tvmrt__graph_update_output(g, (size_t)(port - g->outputs));
  return 0;
}

/* (which) gives the tensor that the next run writes to; (which, tensor) copies the result into
 * the tensor. */
TVMRT_GRAPH_METHOD(get_output, "get_output") {
  tvmrt_port* port;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 2));
  TVMRT_RETURN_IF_ERROR(find_output(g, in, &port));
  return tvmrt__port_give(port, in, out, out_code);
}

/* (which [, tensor]), as get_output(). */
TVMRT_GRAPH_METHOD(get_input, "get_input") {
  tvmrt_port* port;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 2));
  TVMRT_RETURN_IF_ERROR(
      tvmrt__port_of_arg(g->inputs, g->graph.num_arg_nodes, "input", in, 0, &port));
  if (port == NULL) return 0; /* unknown: no value */
  /* users may write to what they get */
  TVMRT_RETURN_IF_ERROR(tvmrt__port_unshare(port));
  tvmrt__graph_update_input(g, (size_t)(port - g->inputs));
  return tvmrt__port_give(port, in, out, out_code);
}

/* What never changes may be asked for at any time. */
TVMRT_NATIVE(get_num_inputs) {
  const tvmrt_graph_executor* g = resource_handle;
  TVMRT_ARGS("get_num_inputs");
  return tvmrt__ret_int(out, out_code, (int64_t)g->graph.num_arg_nodes);
}

/* () -> JSON text of what runs choose, see dims.h; nothing where every extent is fixed. */
TVMRT_NATIVE(get_dims) {
  const tvmrt_graph_executor* g = resource_handle;
  TVMRT_ARGS("get_dims");
  return g->dims == NULL ? 0 : tvmrt__ret_str(out, out_code, g->dims->text);
}

TVMRT_NATIVE(get_num_outputs) {
  const tvmrt_graph_executor* g = resource_handle;
  TVMRT_ARGS("get_num_outputs");
  return tvmrt__ret_int(out, out_code, (int64_t)g->graph.num_heads);
}

/* -1 for a name that is none, as TVM has it. */
TVMRT_NATIVE(get_input_index) {
  const tvmrt_graph_executor* g = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_input_index");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(
      tvmrt__port_of_arg(g->inputs, g->graph.num_arg_nodes, "input", &in, 0, &port));
  return tvmrt__ret_int(out, out_code, port == NULL ? -1 : port - g->inputs);
}

/* As for inputs: -1 for a name that is none. */
TVMRT_NATIVE(get_output_index) {
  const tvmrt_graph_executor* g = resource_handle;
  tvmrt_port* port;
  TVMRT_ARGS("get_output_index");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(find_output_or_none(g, &in, &port));
  return tvmrt__ret_int(out, out_code, port == NULL ? -1 : port - g->outputs);
}

TVMRT_NATIVE(get_input_name) {
  const tvmrt_graph_executor* g = resource_handle;
  TVMRT_ARGS("get_input_name");
  return tvmrt__port_give_name(g->inputs, g->graph.num_arg_nodes, "input", &in, out, out_code);
}

TVMRT_NATIVE(get_output_name) {
  const tvmrt_graph_executor* g = resource_handle;
  TVMRT_ARGS("get_output_name");
  return tvmrt__port_give_name(g->outputs, g->graph.num_heads, "output", &in, out, out_code);
}

/* Parameters are left out, as a caller has nothing to set there. */
TVMRT_GRAPH_METHOD(get_input_info, "get_input_info") {
  (void)in;
  return tvmrt__port_info(g->inputs, g->graph.num_arg_nodes, g->is_param, out, out_code);
}

TVMRT_GRAPH_METHOD(get_output_info, "get_output_info") {
  (void)in;
  return tvmrt__port_info(g->outputs, g->graph.num_heads, NULL, out, out_code);
}

TVMRT_NATIVE(run) { /* the one that is called often: without a call in between */
  tvmrt_graph_executor* g = resource_handle;
  int rc = tvmrt__begin_call(&g->is_taken, "run");
  (void)args, (void)type_codes, (void)num_args, (void)out, (void)out_code;
  if (rc != 0) return rc;
  rc = g->schedule == NULL ? 0 : tvmrt__graph_check_idle(g, "run");
  if (rc == 0) rc = tvmrt__graph_run(g);
  tvmrt__end_call(&g->is_taken);
  return rc;
}

/* (): the next run begins as the first one did. */
TVMRT_GRAPH_METHOD(reset_state, "reset_state") {
  UNUSED_RESULT;
  (void)in;
  return tvmrt__graph_reset_state(g);
}

/* The number of inputs where there is none. */
static size_t input_named(const tvmrt_graph_executor* g, const char* name) {
  size_t i = 0;
  while (i < g->graph.num_arg_nodes && strcmp(g->inputs[i].name, name) != 0) ++i;
  return i;
}

/* What was set in this way is left out when a user asks what inputs there are. */
static int set_param(tvmrt_graph_executor* g, size_t input, tvmrt_tensor* t, bool share) {
  tvmrt_port* port = &g->inputs[input];
  TVMRT_RETURN_IF_ERROR(share ? tvmrt__port_share(port, "parameter", t)
                              : tvmrt__port_copy_in(port, "parameter", &t->dl));
  g->is_param[input] = true;
  tvmrt__graph_update_input(g, input);
  return 0;
}

/* (bytes of a params file): names that are no inputs are left out. */
TVMRT_GRAPH_METHOD(load_params, "load_params") {
  TVMByteArray bytes;
  tvmrt_params params;
  size_t i;
  int rc = 0;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 0, &bytes));
  TVMRT_RETURN_IF_ERROR(tvmrt__params_load(bytes.data, bytes.size, &params));
  for (i = 0; rc == 0 && i < params.count; ++i) {
    size_t input = input_named(g, params.names[i]);
    /* copied: the graph has storage for it, which sharing would leave unused */
    if (input < g->graph.num_arg_nodes) rc = set_param(g, input, params.tensors[i], false);
  }
  tvmrt__params_free(&params);
  return rc;
}

/* Names that one of both has not are passed over. The other's tensors are retained. */
static int share_named(tvmrt_graph_executor* g, const tvmrt_graph_executor* other,
                       const tvmrt_params* params) {
  size_t i;
  for (i = 0; i < params->count; ++i) {
    size_t mine = input_named(g, params->names[i]);
    size_t theirs = input_named(other, params->names[i]);
    if (mine < g->graph.num_arg_nodes && theirs < other->graph.num_arg_nodes) {
      TVMRT_RETURN_IF_ERROR(set_param(g, mine, other->inputs[theirs].bound, true));
    }
  }
  return 0;
}

/* (other graph executor, bytes of a params file): use the other's tensors for the names in it. */
TVMRT_GRAPH_METHOD(share_params, "share_params") {
  tvmrt_module* mod;
  TVMByteArray bytes;
  tvmrt_graph_executor* other;
  tvmrt_params params;
  int rc;
  UNUSED_RESULT;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(in, 0, &mod));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 1, &bytes));
  if (mod->type != g->base.type) {
    return tvmrt__fail_type(
        "share_params: argument 0 must be a graph executor, got a module "
        "of kind '%s'.",
        mod->type->key);
  }
  other = (void*)mod;
  if (other == g) return 0; /* which is taken by this call */
  TVMRT_RETURN_IF_ERROR(tvmrt__params_load(bytes.data, bytes.size, &params));
  /* Both are taken, as the other's ports could change meanwhile. Two threads that share crosswise
   * do not wait for each other: one of them fails. */
  rc = tvmrt__begin_call(&other->is_taken, in->who);
  if (rc == 0) {
    rc = share_named(g, other, &params);
    tvmrt__end_call(&other->is_taken);
  }
  tvmrt__params_free(&params);
  return rc;
}

/* By the method itself, which gets two arguments of the list at a time; its results are not set. */
static int set_inputs(tvmrt_graph_executor* g, const tvmrt_args* in, int first) {
  int i;
  for (i = first; i < in->count; i += 2) {
    tvmrt_args pair = {in->who, in->values + i, in->codes + i, 2};
    TVMRT_RETURN_IF_ERROR(set_input_of(g, &pair, NULL, NULL));
  }
  return 0;
}

/* (host device type, host device id, name, tensor, ...) -> Array of copies of all outputs. */
TVMRT_GRAPH_METHOD(run_from_inputs, "run_from_inputs") {
  tvmrt_array* array;
  DLDevice host;
  int64_t type;
  int64_t id;
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 0, &type));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 1, &id));
  if (in->count % 2 != 0) {
    return tvmrt__fail_type("run_from_inputs takes names and tensors in turn.");
  }
  TVMRT_RETURN_IF_ERROR(set_inputs(g, in, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__graph_run(g));
  host.device_type = (DLDeviceType)type;
  host.device_id = (int32_t)id;
  array = tvmrt__array_new(g->graph.num_heads);
  for (i = 0; array != NULL && i < g->graph.num_heads; ++i) {
    array->items[i] = (tvmrt_object*)tvmrt__tensor_copied(&g->outputs[i].bound->dl, host);
    if (array->items[i] == NULL) {
      tvmrt__release(&array->base);
      array = NULL;
    }
  }
  /* NULL where a copy has failed, which has set the text */
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)array);
}

#define METHODS(X)          \
  TVMRT_EXECUTOR_METHODS(X) \
  X("run_from_inputs", run_from_inputs) X("share_params", share_params)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

/* Three tables by subject: ports and runs, schedulers, looking inside. */
int tvmrt__graph_find(tvmrt_module* self, const char* name, tvmrt_found* out) {
  (void)self;
  TVMRT_RETURN_IF_ERROR(tvmrt__find_native(&own, name, out));
  if (out->fn == NULL) {
    TVMRT_RETURN_IF_ERROR(tvmrt__find_native(&tvmrt__graph_schedule_functions, name, out));
  }
  return out->fn != NULL ? 0 : tvmrt__find_native(&tvmrt__graph_debug_functions, name, out);
}

/* Devices as Device values, or as pairs of ints. */
int tvmrt__devices_of_args(const tvmrt_args* in, int first, DLDevice** out, size_t* out_count) {
  int i;
  /* Each device takes at least one argument, so there is room for all. */
  DLDevice* devices = tvmrt__calloc((size_t)(in->count - first), sizeof(*devices));
  int rc = devices == NULL ? -1 : 0;
  *out_count = 0;
  for (i = first; rc == 0 && i < in->count; ++i) {
    DLDevice* dev = &devices[(*out_count)++];
    int64_t type = 0;
    int64_t id = 0;
    if (in->codes[i] == kDLDevice) {
      *dev = in->values[i].v_device;
      continue;
    }
    if (i + 1 >= in->count) {
      rc = tvmrt__fail_type("%s: argument %d must be followed by a device id.", in->who, i);
      break;
    }
    rc = tvmrt__arg_int(in, i, &type);
    if (rc == 0) rc = tvmrt__arg_int(in, ++i, &id);
    dev->device_type = (DLDeviceType)type;
    dev->device_id = (int32_t)id;
  }
  if (rc == 0 && *out_count == 0) {
    rc = tvmrt__fail_type("%s: argument %d must be a device.", in->who, first);
  }
  *out = devices;
  if (rc != 0) {
    free(devices);
    *out = NULL;
  }
  return rc;
}

/* (json, module [, look-up of linked parameters], device type, device id, ...) */
static int create_of(const tvmrt_args* in, TVMValue* out, int* out_code) {
  TVMByteArray json;
  tvmrt_module* library;
  tvmrt_module* mod = NULL;
  DLDevice* devices;
  size_t num_devices;
  tvmrt_func* linked = NULL;
  int first = 2;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 3, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 0, &json));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(in, 1, &library));
  /* Borrowed: the caller holds the function for the time of this call, in which all constants are
   * found. */
  if (in->codes[2] == kTVMPackedFuncHandle || in->codes[2] == kTVMNullptr) {
    if (in->codes[2] == kTVMPackedFuncHandle) linked = in->values[2].v_handle;
    first = 3;
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__devices_of_args(in, first, &devices, &num_devices));
  rc = tvmrt__graph_executor_new(json.data, json.size, library, devices, num_devices, NULL, linked,
                                 &mod);
  free(devices);
  return rc != 0 ? rc : tvmrt__ret_object(out, out_code, &mod->base);
}

/* The debugger's name makes the same executor: every one can be looked into. */
TVMRT_NATIVE(create) {
  TVMRT_GLOBAL_ARGS;
  return create_of(&in, out, out_code);
}

#define FUNCTIONS(X)                     \
  X("tvm.graph_executor.create", create) \
  X("tvm.graph_executor_debug.create", create)
const tvmrt_builtins tvmrt__graph_builtins = TVMRT_BUILTINS(FUNCTIONS);
