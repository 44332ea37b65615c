/* The module that an ahead-of-time compiled library has at its root: it makes executors.
 *
 * It imports the library, and has the network's name and such parameters as are not in the
 * library's code. Nothing changes a factory once it is made, so that several threads may make
 * executors of one; these share its parameters, each holding the tensors it uses. */
#include <stdlib.h>
#include <string.h>

#include "aot.h"
#include "factory.h"

typedef struct aot_factory {
  tvmrt_module base;
  char* name;          /* by which generated code and callers know the network */
  tvmrt_params params; /* that the library's code does not have */
} aot_factory;

static void factory_destroy(tvmrt_module* self) {
  aot_factory* f = (aot_factory*)self;
  free(f->name);
  tvmrt__params_free(&f->params);
}

/* (Device, ...): the network runs on the first. */
TVMRT_NATIVE(create) {
  aot_factory* f = resource_handle;
  tvmrt_module* mod = NULL;
  DLDevice dev;
  TVMRT_ARGS("AotExecutorFactory");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_device(&in, 0, &dev));
  /* Imports are made by who loads the file of modules, after the factory itself was read. */
  if (f->base.num_imports == 0) {
    return tvmrt__fail_value("the factory of network '%s' imports no library.", f->name);
  }
  TVMRT_RETURN_IF_ERROR(
      tvmrt__aot_executor_new(f->base.imports[0], f->name, dev, &f->params, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

TVMRT_NATIVE(list_module_names) {
  const aot_factory* f = resource_handle;
  const char* names[1] = {f->name};
  TVMRT_ARGS("list_module_names");
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)tvmrt__array_of_texts(names, 1));
}

/* Its type has a table of functions, of which one makes a factory. */
static aot_factory* new_factory(const char* name);

/* For a library that is sent without its weights: what it imports stays shared with this
 * factory. */
TVMRT_NATIVE(remove_params) {
  const aot_factory* f = resource_handle;
  aot_factory* bare = new_factory(f->name);
  TVMRT_ARGS("remove_params");
  return tvmrt__factory_return_bare((tvmrt_module*)bare, &f->base, out, out_code);
}

#define METHODS(X)                          \
  X("list_module_names", list_module_names) \
  X("remove_params", remove_params)
static const tvmrt_builtins own = TVMRT_BUILTINS(METHODS);

/* The network's own name is the function that makes executors; other names are the factory's. The
 * name comes first, so that a network may be called as one of the functions is. */
static int factory_find(tvmrt_module* self, const char* name, tvmrt_found* out) {
  if (strcmp(name, ((aot_factory*)self)->name) == 0) {
    out->fn = create;
    out->kind = TVMRT_FUNC_NATIVE;
    return 0;
  }
  return tvmrt__find_native(&own, name, out);
}

/* As TVM writes it: params, then the name. What is imported the file of modules saves by itself. */
static int factory_save(tvmrt_module* self, tvmrt_buf* out) {
  const aot_factory* f = (const aot_factory*)self;
  TVMRT_RETURN_IF_ERROR(tvmrt__params_write(out, true, &f->params));
  return tvmrt__write_string(out, f->name);
}

static const tvmrt_module_type factory_type = {
    .key = "AotExecutorFactory",
    .properties = TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_RUNNABLE,
    .find = factory_find,
    .save = factory_save,
    .destroy = factory_destroy,
};

static aot_factory* new_factory(const char* name) {
  aot_factory* f = tvmrt__module_new(&factory_type, sizeof(*f));
  if (f == NULL) return NULL;
  f->name = tvmrt__strdup(name);
  if (f->name != NULL) return f;
  tvmrt__module_release(f);
  return NULL;
}

/* Half read is released like whole: the texts are NULL until they are there. */
static int read_factory(tvmrt_reader* in, tvmrt_module** out) {
  aot_factory* f = tvmrt__module_new(&factory_type, sizeof(*f));
  int rc = f == NULL ? -1 : tvmrt__params_read(in, true, &f->params);
  if (rc == 0) rc = tvmrt__read_string(in, &f->name);
  *out = rc == 0 ? &f->base : NULL;
  if (rc != 0) tvmrt__module_release((tvmrt_object*)f);
  return rc;
}

TVMRT_LOADER(load, read_factory)

/* (module, name, name0, NDArray0, ...) */
TVMRT_NATIVE(create_factory) {
  tvmrt_module* library;
  const char* name;
  aot_factory* f;
  int rc;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &library));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &name));
  f = new_factory(name);
  if (f == NULL) return -1;
  rc = tvmrt__module_import(&f->base, library);
  if (rc == 0) rc = tvmrt__factory_add_params(&f->params, &in, 2);
  if (rc == 0) return tvmrt__ret_object(out, out_code, &f->base.base);
  tvmrt__module_release(f);
  return rc;
}

#define FUNCTIONS(X)                                   \
  X("tvm.aot_executor_factory.create", create_factory) \
  X(TVMRT_LOADER_PREFIX "AotExecutorFactory", load)
const tvmrt_builtins tvmrt__aot_factory_builtins = TVMRT_BUILTINS(FUNCTIONS);
