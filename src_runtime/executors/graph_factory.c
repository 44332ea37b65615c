/* The module that a graph library has at its root: it holds the graph and makes executors.
 *
 * It has the graph's JSON, the network's name and its parameters, and imports the library. Nothing
 * changes a factory once it is made, so that several threads may make executors of one; these share
 * the parameters' tensors, which they retain. */
#include <stdlib.h>
#include <string.h>

#include "factory.h"
#include "graph.h"

typedef struct graph_factory {
  tvmrt_module base;
  char* json;          /* NUL at its end, as callers are given it */
  char* name;          /* the network's, by which callers ask for an executor */
  tvmrt_params params; /* named tensors, retained; executors share them */
} graph_factory;

static void factory_destroy(tvmrt_module* self) {
  graph_factory* f = (graph_factory*)self;
  free(f->json);
  free(f->name);
  tvmrt__params_free(&f->params);
}

/* Operators are searched in what the factory imports. */
static int make_executor(graph_factory* f, const tvmrt_args* in, int first, TVMValue* out,
                         int* out_code) {
  DLDevice* devices;
  size_t num_devices;
  tvmrt_module* mod = NULL;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, first + 1, -1));
  /* Imports are made by who loads the file of modules, after the factory itself was read. */
  if (f->base.num_imports == 0) {
    return tvmrt__fail_value("the factory of network '%s' imports no library.", f->name);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__devices_of_args(in, first, &devices, &num_devices));
  rc = tvmrt__graph_executor_new(f->json, strlen(f->json), f->base.imports[0], devices, num_devices,
                                 &f->params, NULL, &mod);
  free(devices);
  return rc != 0 ? rc : tvmrt__ret_object(out, out_code, &mod->base);
}

TVMRT_NATIVE(create) {
  TVMRT_ARGS("GraphExecutorFactory");
  return make_executor(resource_handle, &in, 0, out, out_code);
}

/* (name, Device, ...) TVM's debugger asks by it; every executor of this runtime can be looked
 * into. */
TVMRT_NATIVE(debug_create) {
  const graph_factory* f = resource_handle;
  const char* name;
  TVMRT_ARGS("debug_create");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  if (strcmp(name, f->name) != 0) {
    return tvmrt__fail_value("the library has no network '%.60s'; it has: %.60s.", name, f->name);
  }
  return make_executor(resource_handle, &in, 1, out, out_code);
}

TVMRT_NATIVE(get_graph_json) {
  const graph_factory* f = resource_handle;
  TVMRT_ARGS("get_graph_json");
  return tvmrt__ret_str(out, out_code, f->json);
}

/* A map of the tensors themselves: what a caller writes there all executors see. */
TVMRT_NATIVE(get_graph_params) {
  const graph_factory* f = resource_handle;
  TVMRT_ARGS("get_graph_params");
  return tvmrt__params_return(&f->params, out, out_code);
}

/* Its type has a table of functions, of which one makes a factory. */
static graph_factory* new_factory(const char* json, const char* name);

TVMRT_NATIVE(remove_params) {
  const graph_factory* f = resource_handle;
  graph_factory* bare = new_factory(f->json, f->name);
  TVMRT_ARGS("remove_params");
  return tvmrt__factory_return_bare((tvmrt_module*)bare, &f->base, out, out_code);
}

#define METHODS(X)                        \
  X("debug_create", debug_create)         \
  X("get_graph_json", get_graph_json)     \
  X("get_graph_params", get_graph_params) \
  X("remove_params", remove_params)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

/* The network's own name is the function that makes executors. */
static int factory_find(tvmrt_module* self, const char* name, tvmrt_found* out) {
  if (strcmp(name, ((graph_factory*)self)->name) == 0) {
    out->fn = create;
    out->kind = TVMRT_FUNC_NATIVE;
    return 0;
  }
  return tvmrt__find_native(&own, name, out);
}

/* As TVM writes it: graph, params, name. What is imported the file of modules saves by itself. */
static int factory_save(tvmrt_module* self, tvmrt_buf* out) {
  const graph_factory* f = (const graph_factory*)self;
  TVMRT_RETURN_IF_ERROR(tvmrt__write_string(out, f->json));
  TVMRT_RETURN_IF_ERROR(tvmrt__params_write(out, true, &f->params));
  return tvmrt__write_string(out, f->name);
}

static const tvmrt_module_type factory_type = {
    .key = "GraphExecutorFactory",
    .properties = TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_RUNNABLE,
    .find = factory_find,
    .save = factory_save,
    .destroy = factory_destroy,
};

static graph_factory* new_factory(const char* json, const char* name) {
  graph_factory* f = tvmrt__module_new(&factory_type, sizeof(*f));
  if (f == NULL) return NULL;
  f->json = tvmrt__strdup(json);
  f->name = tvmrt__strdup(name);
  if (f->json != NULL && f->name != NULL) return f;
  tvmrt__module_release(f);
  return NULL;
}

/* The JSON is parsed when an executor is made: a factory that is only looked at or saved reads
 * nothing. */
static int read_factory(tvmrt_reader* in, tvmrt_module** out) {
  graph_factory* f = tvmrt__module_new(&factory_type, sizeof(*f));
  int rc = f == NULL ? -1 : tvmrt__read_string(in, &f->json);
  if (rc == 0) rc = tvmrt__params_read(in, true, &f->params);
  if (rc == 0) rc = tvmrt__read_string(in, &f->name);
  *out = rc == 0 ? &f->base : NULL;
  if (rc != 0) tvmrt__module_release((tvmrt_object*)f);
  return rc;
}

TVMRT_LOADER(load, read_factory)

/* (graph, module, name, name0, NDArray0, ...) */
TVMRT_NATIVE(create_factory) {
  const char* json;
  const char* name;
  tvmrt_module* library;
  graph_factory* f;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 3, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &json));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 1, &library));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 2, &name));
  f = new_factory(json, name);
  if (f == NULL) return -1;
  rc = tvmrt__module_import(&f->base, library);
  if (rc == 0) rc = tvmrt__factory_add_params(&f->params, &in, 3);
  if (rc == 0) return tvmrt__ret_object(out, out_code, &f->base.base);
  tvmrt__module_release(f);
  return rc;
}

#define FUNCTIONS(X)                                     \
  X("tvm.graph_executor_factory.create", create_factory) \
  X(TVMRT_LOADER_PREFIX "GraphExecutorFactory", load)    \
  X(TVMRT_LOADER_PREFIX "GraphRuntimeFactory", load) /* the name before 0.7 */
const tvmrt_builtins tvmrt__graph_factory_builtins = TVMRT_BUILTINS(FUNCTIONS);
