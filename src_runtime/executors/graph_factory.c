/* The root module of a graph library: it contains the graph and creates executors.
 *
 * It has the graph's JSON, the network's name and its parameters, and imports the library.
 * Executors share the parameters' tensors, which they retain. */
#include <stdlib.h>
#include <string.h>

#include "factory.h"
#include "graph.h"

/* Operators are looked up in the factory's imports. */
static int make_executor(tvmrt_factory* f, const tvmrt_args* in, int first, TVMValue* out,
                         int* out_code) {
  DLDevice* devices;
  size_t num_devices;
  tvmrt_module *library, *mod = NULL;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, first + 1, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__factory_library(f, &library));
  TVMRT_RETURN_IF_ERROR(tvmrt__devices_of_args(in, first, &devices, &num_devices));
  rc = tvmrt__graph_executor_new(f->json, strlen(f->json), library, devices, num_devices,
                                 &f->params, NULL, &mod);
  free(devices);
  return rc != 0 ? rc : tvmrt__ret_object(out, out_code, &mod->base);
}

/* (Device, ...): found by the network's name. */
TVMRT_NATIVE(create) {
  TVMRT_ARGS("GraphExecutorFactory");
  return make_executor(resource_handle, &in, 0, out, out_code);
}

/* (name, Device, ...): called by TVM's debugger; every executor of this runtime supports
 * debugging. */
TVMRT_NATIVE(debug_create) {
  const tvmrt_factory* f = resource_handle;
  const char* name;
  TVMRT_ARGS("debug_create");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  if (strcmp(name, f->name) != 0) {
    return tvmrt__fail_value("the library has no network '%.60s'; it has: %.60s.", name, f->name);
  }
  return make_executor(resource_handle, &in, 1, out, out_code);
}

/* () -> the original text, byte for byte: front ends also read the graph from it. */
TVMRT_NATIVE(get_graph_json) {
  const tvmrt_factory* f = resource_handle;
  TVMRT_ARGS("get_graph_json");
  return tvmrt__ret_str(out, out_code, f->json);
}

/* A map of the tensors themselves: all executors see changes to them. */
TVMRT_NATIVE(get_graph_params) {
  const tvmrt_factory* f = resource_handle;
  TVMRT_ARGS("get_graph_params");
  return tvmrt__params_return(&f->params, out, out_code);
}

#define METHODS(X)                    \
  X("debug_create", debug_create)     \
  X("get_graph_json", get_graph_json) \
  X("get_graph_params", get_graph_params)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

static const tvmrt_factory_kind kind = {TVMRT_FACTORY_TYPE("GraphExecutorFactory"), true, create,
                                        &own};

/* Called by the loader below for a module of this kind in a module tree. */
static int read_factory(tvmrt_reader* in, tvmrt_module** out) {
  return tvmrt__factory_read(&kind, in, out);
}

TVMRT_LOADER(load, read_factory)

/* (graph, module, name, name0, NDArray0, ...) */
TVMRT_NATIVE(create_factory) {
  const char* json;
  const char* name;
  tvmrt_module* library;
  TVMRT_COUNTED_ARGS(3, -1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &json));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 1, &library));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 2, &name));
  return tvmrt__factory_return(&kind, json, name, library, &in, 3, out, out_code);
}

#define FUNCTIONS(X)                                     \
  X("tvm.graph_executor_factory.create", create_factory) \
  X(TVMRT_LOADER_PREFIX "GraphExecutorFactory", load)    \
  X(TVMRT_LOADER_PREFIX "GraphRuntimeFactory", load) /* the name before 0.7 */
const tvmrt_builtins tvmrt__graph_factory_builtins = TVMRT_BUILTINS(FUNCTIONS);
