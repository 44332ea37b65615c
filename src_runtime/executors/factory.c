/* Common part of the factories: root modules of libraries, which create executors.
 *
 * They differ in the executors they create. A factory is immutable once created, so several threads
 * may create executors from one. */
#include "factory.h"

#include <stdlib.h>
#include <string.h>

/* A kind begins with its module type, and the factory's module points to that, which gives access
 * to the whole kind. */
static const tvmrt_factory_kind* kind_of(const tvmrt_module* self) {
  return (const tvmrt_factory_kind*)self->type;
}

/* In TVM's format: a graph, params, name. Imports are saved with the module tree. */
int tvmrt__factory_save(tvmrt_module* self, tvmrt_buf* out) {
  const tvmrt_factory* f = (const tvmrt_factory*)self;
  if (kind_of(self)->has_json) TVMRT_RETURN_IF_ERROR(tvmrt__write_string(out, f->json));
  TVMRT_RETURN_IF_ERROR(tvmrt__params_write(out, true, &f->params));
  return tvmrt__write_string(out, f->name);
}

void tvmrt__factory_destroy(tvmrt_module* self) {
  tvmrt_factory* f = (tvmrt_factory*)self;
  free(f->json);
  free(f->name);
  tvmrt__params_free(&f->params);
}

/* Copies both texts; imports nothing. NULL with the error text set. */
static tvmrt_factory* new_factory(const tvmrt_factory_kind* kind, const char* json,
                                  const char* name) {
  tvmrt_factory* f = tvmrt__module_new(&kind->type, sizeof(*f));
  if (f == NULL) return NULL;
  if (kind->has_json) f->json = tvmrt__strdup(json);
  f->name = tvmrt__strdup(name);
  if ((f->json != NULL || !kind->has_json) && f->name != NULL) return f;
  tvmrt__module_release(f);
  return NULL;
}

/* A partly read factory can be released: the texts are NULL until they are read. A graph is parsed
 * when an executor is created: inspecting or saving a factory does not parse it. */
int tvmrt__factory_read(const tvmrt_factory_kind* kind, tvmrt_reader* in, tvmrt_module** out) {
  tvmrt_factory* f = tvmrt__module_new(&kind->type, sizeof(*f));
  int rc = f == NULL ? -1 : 0;
  if (rc == 0 && kind->has_json) rc = tvmrt__read_string(in, &f->json);
  if (rc == 0) rc = tvmrt__params_read(in, true, &f->params);
  if (rc == 0) rc = tvmrt__read_string(in, &f->name);
  *out = rc == 0 ? &f->base : NULL;
  if (rc != 0) tvmrt__module_release(f);
  return rc;
}

int tvmrt__factory_library(const tvmrt_factory* f, tvmrt_module** out) {
  *out = f->base.num_imports > 0 ? f->base.imports[0] : NULL;
  /* A damaged or hand-made file may lack it. */
  if (*out != NULL) return 0;
  return tvmrt__fail_value("the factory of network '%s' has no imported library.", f->name);
}

/* Tensors are retained, names copied. A final name without a tensor is ignored. */
static int add_params(tvmrt_params* params, const tvmrt_args* in, int first) {
  int i;
  for (i = first; i + 1 < in->count; i += 2) {
    const char* name;
    tvmrt_tensor* t;
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, i, &name));
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(in, i + 1, TVMRT_TYPE_NDARRAY, &t));
    TVMRT_RETURN_IF_ERROR(tvmrt__params_add(params, name, t));
  }
  return 0;
}

/* Imports and params that were added before a failure are released with the factory. */
int tvmrt__factory_return(const tvmrt_factory_kind* kind, const char* json, const char* name,
                          tvmrt_module* library, const tvmrt_args* in, int first, TVMValue* out,
                          int* out_code) {
  tvmrt_factory* f = new_factory(kind, json, name);
  int rc = f == NULL ? -1 : tvmrt__module_import(&f->base, library);
  if (rc == 0) rc = add_params(&f->params, in, first);
  if (rc == 0) return tvmrt__ret_object(out, out_code, &f->base.base);
  tvmrt__module_release(f);
  return rc;
}

/* () -> a copy of this factory without params, for a library that is sent without its weights. Both
 * share the imports; on failure the new one releases those it has imported. */
TVMRT_NATIVE(remove_params) {
  const tvmrt_factory* f = resource_handle;
  tvmrt_factory* bare;
  size_t i;
  int rc = 0;
  TVMRT_ARGS("remove_params");
  bare = new_factory(kind_of(&f->base), f->json, f->name);
  if (bare == NULL) return -1;
  for (i = 0; rc == 0 && i < f->base.num_imports; ++i) {
    rc = tvmrt__module_import(&bare->base, f->base.imports[i]);
  }
  if (rc == 0) return tvmrt__ret_object(out, out_code, &bare->base.base);
  tvmrt__module_release(bare);
  return rc;
}

/* () -> Array with the name of the only network. */
TVMRT_NATIVE(list_module_names) {
  const tvmrt_factory* f = resource_handle;
  const char* names[1] = {f->name};
  TVMRT_ARGS("list_module_names");
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)tvmrt__array_of_texts(names, 1));
}

#define METHODS(X)                          \
  X("list_module_names", list_module_names) \
  X("remove_params", remove_params)
static const tvmrt_builtins common = TVMRT_BUILTINS(METHODS);

/* The name comes first, so that a network may have the name of one of the functions. */
int tvmrt__factory_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  if (strcmp(name, ((tvmrt_factory*)self)->name) == 0) {
    out->fn = kind_of(self)->create;
    out->kind = TVMRT_FUNC_NATIVE;
    return 0;
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__find_native(&common, name, out));
  if (out->fn != NULL || kind_of(self)->own == NULL) return 0;
  return tvmrt__find_native(kind_of(self)->own, name, out);
}
