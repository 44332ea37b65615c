/* Common part of the factories of graph and of ahead-of-time executors. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_FACTORY_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_FACTORY_H_

#include "../modules/module.h"
#include "../tensors/params.h"

typedef struct tvmrt_factory {
  tvmrt_module base;
  char* json;          /* of a graph, NUL-terminated, as callers receive it; else NULL */
  char* name;          /* of the network, for generated code and callers */
  tvmrt_params params; /* retained tensors shared by executors; without those in code */
} tvmrt_factory;

/* A kind of factory. */
typedef struct tvmrt_factory_kind {
  tvmrt_module_type type;    /* of TVMRT_FACTORY_TYPE() */
  bool has_json;             /* of a graph */
  TVMCPackedFunc create;     /* creates an executor; found by the network's name */
  const tvmrt_builtins* own; /* additional functions of this kind; NULL: none */
} tvmrt_factory_kind;

#define TVMRT_FACTORY_TYPE(kind_name)                                                           \
  {                                                                                             \
    .key = kind_name, .properties = TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_RUNNABLE,          \
    .find = tvmrt__factory_find, .save = tvmrt__factory_save, .destroy = tvmrt__factory_destroy \
  }
int tvmrt__factory_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out);
int tvmrt__factory_save(tvmrt_module* self, tvmrt_buf* out);
void tvmrt__factory_destroy(tvmrt_module* self);

/* Read the payload; called by the kind's loader. */
int tvmrt__factory_read(const tvmrt_factory_kind* kind, tvmrt_reader* in, tvmrt_module** out);

/* The library with the operators, borrowed. The loader of the module tree links imports after the
 * factory itself was read. */
int tvmrt__factory_library(const tvmrt_factory* f, tvmrt_module** out);

/* Return a new factory with copies of the texts, which imports `library` and has the arguments from
 * `first` on as params: pairs of a name and an NDArray. */
int tvmrt__factory_return(const tvmrt_factory_kind* kind, const char* json, const char* name,
                          tvmrt_module* library, const tvmrt_args* in, int first, TVMValue* out,
                          int* out_code);

#endif
