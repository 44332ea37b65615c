/* What the factories of graph and of ahead-of-time executors have in common: all but what they make. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_FACTORY_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_FACTORY_H_

#include "../modules/module.h"
#include "../tensors/params.h"

typedef struct tvmrt_factory {
  tvmrt_module base;
  char* json;          /* a graph's, NUL at its end, as callers are given it; else NULL */
  char* name;          /* the network's, by which generated code and callers know it */
  tvmrt_params params; /* named tensors, retained, which executors share; none that code has */
} tvmrt_factory;

/* A kind of factory. */
typedef struct tvmrt_factory_kind {
  tvmrt_module_type type;    /* of TVMRT_FACTORY_TYPE() */
  bool has_json;             /* of a graph */
  TVMCPackedFunc create;     /* makes an executor; the network's own name finds it */
  const tvmrt_builtins* own; /* what other names find, beside what all kinds have */
} tvmrt_factory_kind;

#define TVMRT_FACTORY_TYPE(kind_name)                                                           \
  {                                                                                             \
    .key = kind_name, .properties = TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_RUNNABLE,          \
    .find = tvmrt__factory_find, .save = tvmrt__factory_save, .destroy = tvmrt__factory_destroy \
  }
int tvmrt__factory_find(tvmrt_module* self, const char* name, tvmrt_found* out);
int tvmrt__factory_save(tvmrt_module* self, tvmrt_buf* out);
void tvmrt__factory_destroy(tvmrt_module* self);

/* What a loader of the kind reads. */
int tvmrt__factory_read(const tvmrt_factory_kind* kind, tvmrt_reader* in, tvmrt_module** out);

/* The library with the operators, borrowed. Imports are made by who loads the file of modules, after the
 * factory itself was read. */
int tvmrt__factory_library(const tvmrt_factory* f, tvmrt_module** out);

/* Return a new factory with copies of the texts, which imports `library` and has the arguments from
 * `first` on as params: pairs of a name and an NDArray. */
int tvmrt__factory_return(const tvmrt_factory_kind* kind, const char* json, const char* name,
                          tvmrt_module* library, const tvmrt_args* in, int first, TVMValue* out,
                          int* out_code);

#endif
