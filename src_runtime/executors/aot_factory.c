/* The root module of an ahead-of-time compiled library: it creates executors.
 *
 * It imports the library, and has the network's name and the parameters that are not part of the
 * library's code; executors share these, each retaining the tensors it uses. */
#include "aot.h"
#include "factory.h"

/* (Device, ...): the network runs on the first. */
TVMRT_NATIVE(create) {
  tvmrt_factory* f = resource_handle;
  tvmrt_module *library, *mod = NULL;
  DLDevice dev;
  TVMRT_ARGS("AotExecutorFactory");
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, -1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_device(&in, 0, &dev));
  TVMRT_RETURN_IF_ERROR(tvmrt__factory_library(f, &library));
  TVMRT_RETURN_IF_ERROR(tvmrt__aot_executor_new(library, f->name, dev, &f->params, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

static const tvmrt_factory_kind kind = {TVMRT_FACTORY_TYPE("AotExecutorFactory"), false, create,
                                        NULL};

/* Called by the loader below for a module of this kind in a module tree. */
static int read_factory(tvmrt_reader* in, tvmrt_module** out) {
  return tvmrt__factory_read(&kind, in, out);
}

TVMRT_LOADER(load, read_factory)

/* (module, name, name0, NDArray0, ...) */
TVMRT_NATIVE(create_factory) {
  tvmrt_module* library;
  const char* name;
  TVMRT_COUNTED_ARGS(2, -1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &library));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &name));
  return tvmrt__factory_return(&kind, NULL, name, library, &in, 2, out, out_code);
}

#define FUNCTIONS(X)                                   \
  X("tvm.aot_executor_factory.create", create_factory) \
  X(TVMRT_LOADER_PREFIX "AotExecutorFactory", load)
const tvmrt_builtins tvmrt__aot_factory_builtins = TVMRT_BUILTINS(FUNCTIONS);
