/* Functions and behaviour specific to the graph executor. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "schedules.h"

/* Whether an output is named "<name>:<i>". Every output's name contains a colon, see
 * name_output(). */
static bool has_stem(const char* output, const char* name) {
  const char* last = strrchr(output, ':');
  return strlen(name) == (size_t)(last - output) && strncmp(output, name, strlen(name)) == 0;
}

/* Outputs are named "<name>:<i>", or by the name alone if it is unique. */
static int find_output(tvmrt_executor* e, const tvmrt_ports* side, const char* callee,
                       const char* name, tvmrt_port** out) {
  const tvmrt_graph_executor* g = (const tvmrt_graph_executor*)e;
  size_t i;
  for (i = 0; side == &e->outputs && i < side->count; ++i) {
    if (!has_stem(g->output_names[i], name)) continue;
    if (*out != NULL) {
      return tvmrt__fail_value(
          "%s: several outputs are called '%.60s'; ask for '%.60s', '%.60s' or a number.", callee,
          name, (*out)->name, g->output_names[i]);
    }
    *out = &side->items[i];
  }
  return 0;
}

/* Inputs set in this way are omitted from the list of inputs for users. */
static int set_param(tvmrt_executor* e, tvmrt_port* port, tvmrt_tensor* t, bool share) {
  TVMRT_RETURN_IF_ERROR(share ? tvmrt__port_share(port, "parameter", t)
                              : tvmrt__port_copy_in(port, "parameter", &t->dl));
  e->is_param[port - e->inputs.items] = true;
  tvmrt__graph_update(e, &e->inputs, port);
  return 0;
}

/* Copied: the graph has storage for them, which sharing would leave unused. */
static int copy_params(tvmrt_executor* e, const tvmrt_params* params) {
  size_t i;
  for (i = 0; i < params->count; ++i) {
    tvmrt_port* port = tvmrt__port_named(&e->inputs, params->names[i]);
    if (port == NULL) continue;
    TVMRT_RETURN_IF_ERROR(set_param(e, port, params->tensors[i], false));
  }
  return 0;
}

/* Names that either executor lacks are skipped. The other's tensors are retained. */
static int share_named(tvmrt_executor* e, const tvmrt_executor* other, const tvmrt_params* params) {
  size_t i;
  for (i = 0; i < params->count; ++i) {
    tvmrt_port* own_port = tvmrt__port_named(&e->inputs, params->names[i]);
    const tvmrt_port* other_port = tvmrt__port_named(&other->inputs, params->names[i]);
    if (own_port == NULL || other_port == NULL) continue;
    TVMRT_RETURN_IF_ERROR(set_param(e, own_port, other_port->bound, true));
  }
  return 0;
}

/* (other graph executor, bytes of a params file): use the other's tensors for the names in it. */
TVMRT_GRAPH_METHOD(share_params, "share_params") {
  tvmrt_module* mod;
  TVMByteArray bytes;
  tvmrt_executor* other;
  tvmrt_params params;
  int rc;
  (void)out, (void)out_code;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(in, 0, &mod));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(in, 1, &bytes));
  if (mod->type != g->base.module.type) {
    return tvmrt__fail_type(
        "share_params: argument 0 must be a graph executor, got a module "
        "of kind '%s'.",
        mod->type->key);
  }
  other = (void*)mod;
  if (other == &g->base) return 0; /* which is taken by this call */
  TVMRT_RETURN_IF_ERROR(tvmrt__params_load(bytes.data, bytes.size, &params));
  /* Both are taken, as the other's ports could change meanwhile. Two threads that share in opposite
   * directions do not deadlock: one of them fails. */
  rc = tvmrt__begin_call(other, in->callee);
  if (rc == 0) {
    rc = share_named(&g->base, other, &params);
    tvmrt__end_call(other);
  }
  tvmrt__params_free(&params);
  return rc;
}

/* The arguments are pairs of name and tensor. */
static int set_inputs(tvmrt_executor* e, const tvmrt_args* in, int first) {
  int i;
  for (i = first; i < in->count; i += 2) {
    tvmrt_args pair = {in->callee, in->values + i, in->codes + i, 2};
    TVMRT_RETURN_IF_ERROR(tvmrt__executor_set_input(e, &pair));
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
    return tvmrt__fail_type("run_from_inputs expects alternating names and tensors.");
  }
  TVMRT_RETURN_IF_ERROR(set_inputs(&g->base, in, 2));
  TVMRT_RETURN_IF_ERROR(tvmrt__graph_run(&g->base));
  host.device_type = (DLDeviceType)type;
  host.device_id = (int32_t)id;
  array = tvmrt__array_new(g->graph.num_heads);
  for (i = 0; array != NULL && i < g->graph.num_heads; ++i) {
    array->items[i] =
        (tvmrt_object*)tvmrt__tensor_copied(&g->base.outputs.items[i].bound->dl, host);
    if (array->items[i] == NULL) {
      tvmrt__release(&array->base);
      array = NULL;
    }
  }
  /* NULL if a copy has failed, with the text set */
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)array);
}

#define METHODS(X) X("run_from_inputs", run_from_inputs) X("share_params", share_params)
static const tvmrt_builtins methods = TVMRT_BUILTINS(METHODS);

/* By subject: params, debugging. */
static const tvmrt_builtins* const own[] = {&methods, &tvmrt__graph_debug_functions, NULL};

const tvmrt_executor_kind tvmrt__graph_kind = {
    .type = TVMRT_EXECUTOR_TYPE("GraphExecutor", tvmrt__graph_destroy),
    .answers_unknown_inputs = true,
    .own = own,
    .find_method = tvmrt__schedules_find_method,
    .find = find_output,
    .update = tvmrt__graph_update,
    .run = tvmrt__graph_run,
    .reset_state = tvmrt__graph_reset_state,
    .set_params = copy_params,
    .profile = tvmrt__graph_profile,
};

/* Devices as Device values, or as pairs of ints. */
int tvmrt__devices_of_args(const tvmrt_args* in, int first, DLDevice** out, size_t* out_count) {
  int i;
  /* Each device takes at least one argument, so this is sufficient. */
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
      rc = tvmrt__fail_type("%s: argument %d must be followed by a device id.", in->callee, i);
      break;
    }
    rc = tvmrt__arg_int(in, i, &type);
    if (rc == 0) rc = tvmrt__arg_int(in, ++i, &id);
    dev->device_type = (DLDeviceType)type;
    dev->device_id = (int32_t)id;
  }
  if (rc == 0 && *out_count == 0) {
    rc = tvmrt__fail_type("%s: argument %d must be a device.", in->callee, first);
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
  /* Borrowed: the caller holds the function during this call, in which all constants are found. */
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

/* The debugger's name creates the same executor: all support debugging. */
TVMRT_NATIVE(create) {
  TVMRT_GLOBAL_ARGS;
  return create_of(&in, out, out_code);
}

#define FUNCTIONS(X)                     \
  X("tvm.graph_executor.create", create) \
  X("tvm.graph_executor_debug.create", create)
const tvmrt_builtins tvmrt__graph_builtins = TVMRT_BUILTINS(FUNCTIONS);
