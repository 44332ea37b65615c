/* Modules: tables of functions that import each other. One file per kind implements a type. */
#ifndef TVMRT_SRC_RUNTIME_MODULES_MODULE_H_
#define TVMRT_SRC_RUNTIME_MODULES_MODULE_H_

#include <stdbool.h>
#include <tvm/runtime/module_plugin.h>

#include "../base/stream.h"
#include "../core/function.h"
#include "../platform/files.h"
#include "../platform/loading.h"
#include "../platform/threads.h"

typedef struct tvmrt_module tvmrt_module;

/* Result of a name look-up in a module. All zero: no such function. */
typedef struct tvmrt_lookup_result {
  TVMCPackedFunc fn;    /* a function of this module; the runtime wraps and caches it */
  tvmrt_func_kind kind; /* of fn */
  void* resource;       /* of fn; if NULL, NATIVE functions receive the module */
  tvmrt_func* func;     /* alternative: any function, owned, not cached here */
  bool may_change;      /* nothing is cached, not even that there is none */
} tvmrt_lookup_result;

/* A kind of module. Slots marked optional may be NULL. */
typedef struct tvmrt_module_type {
  const char* key;
  int properties;
  /* Called without a lock; several threads may call it at once. */
  int (*find)(tvmrt_module* self, const char* name, tvmrt_lookup_result* out);
  int (*save)(tvmrt_module* self, tvmrt_buf* out);                       /* optional */
  int (*source)(tvmrt_module* self, const char* format, tvmrt_buf* out); /* optional */
  const char* (*format)(
      const tvmrt_module* self);       /* the suffix of a file of its source; optional */
  void (*destroy)(tvmrt_module* self); /* frees the kind's part, not self; optional */
} tvmrt_module_type;

/* Each kind's struct starts with this. */
struct tvmrt_module {
  tvmrt_object base;
  const tvmrt_module_type* type;
  tvmrt_module** imports; /* retained */
  size_t num_imports;
  tvmrt_module* library;      /* retained; library of an executor's functions; or NULL */
  tvmrt_module* next_to_free; /* while it waits in free_module() */
  tvmrt_mutex lock;           /* for the two tables */
  tvmrt_strmap functions; /* name -> tvmrt_func* with owner == this; NULL for "no such function" */
  tvmrt_strmap environment; /* name -> tvmrt_func*, retained: cache of TVMBackendGetFuncFromEnv */
};

/* Allocate a zeroed module of `bytes` >= sizeof(tvmrt_module); NULL with the error text set. */
TVMRT_SDK void* tvmrt__module_new(const tvmrt_module_type* type, size_t bytes);

static inline void tvmrt__module_release(void* mod) { tvmrt__release(mod); }

TVMRT_SDK int tvmrt__module_import(tvmrt_module* mod, tvmrt_module* dep);
void tvmrt__module_clear_imports(tvmrt_module* mod);

/* *out is owned; NULL if there is no such function. */
TVMRT_SDK int tvmrt__module_get(tvmrt_module* mod, const char* name, bool query_imports,
                                tvmrt_func** out);

/* Look up in a table of native functions, which ends with an empty name. */
TVMRT_SDK int tvmrt__find_native(const tvmrt_builtins* table, const char* name,
                                 tvmrt_lookup_result* out);

/* Call a function without arguments that returns a pointer; *out is NULL if it is missing. */
int tvmrt__module_call_pointer(tvmrt_module* mod, const char* name, void** out);

/* A loader by its global name, retained; NULL if there is none, also not in a plug-in named after
 * the kind of module. */
int tvmrt__find_loader(const char* loader, const char* kind, tvmrt_func** out);

/* Call a loader, which is released; *out is owned. `loader` is its name, for error texts. */
int tvmrt__call_loader(tvmrt_func* f, const char* loader, TVMValue* args, int* codes, int num_args,
                       tvmrt_module** out);

/* Constructors; *out is owned. */
int tvmrt__library_open(const char* path, tvmrt_module** out);
/* Check counts, ranks and pointers of a library's metadata; 0 if they are valid. */
struct TVMMetadata;
int tvmrt__metadata_check(const struct TVMMetadata* metadata);

/*
 * Kinds of modules that libraries carry. A kind is a global function named TVMRT_LOADER_PREFIX plus
 * its name, which receives a stream and returns the module. It may be part of this library, of a
 * plug-in or of a front end.
 */
#define TVMRT_LOADER_PREFIX "runtime.module.loadbinary_"
typedef int tvmrt_module_reader(tvmrt_reader* in, tvmrt_module** out);

/* Define a loader by a reader of this library, which returns 0, or -1 with the error text set. */
#define TVMRT_LOADER(fn, read)                                           \
  TVMRT_NATIVE(fn) {                                                     \
    const tvmrt_args in = {resource_handle, args, type_codes, num_args}; \
    return tvmrt__load_payload(&in, read, out, out_code);                \
  }
TVMRT_SDK int tvmrt__load_payload(const tvmrt_args* in, tvmrt_module_reader* read, TVMValue* out,
                                  int* out_code);

/* Read a module of a kind by its loader; the error text lists all kinds. *out is owned. */
int tvmrt__read_kind(tvmrt_reader* in, const char* kind, tvmrt_module** out);

typedef struct tvmrt_open_options {
  const char* path;
  tvmrt_loading loading;
  const char* failed; /* beginning of the error text */
  /* The file of an already loaded handle; false if it is unknown. */
  bool (*file_of)(const void* handle, tvmrt_file_id* out);
} tvmrt_open_options;

/* dlopen() the current file of a path, even if an older file of that path is loaded. */
TVMRT_SDK int tvmrt__map_library(const tvmrt_open_options* options, void** out_handle,
                                 tvmrt_file_id* out_id);

/*
 * Library modules: symbols are found by a function; context pointers are filled and embedded
 * modules restored. `symbol` returns the address or NULL, and the size of the symbol, 0 if unknown.
 */
typedef struct tvmrt_library_source {
  void* (*symbol)(void* ctx, const char* name, size_t* out_size);
  bool (*is_function)(void* ctx, void* symbol); /* distinguishes code from data */
  void (*close)(void* ctx);                     /* may be NULL */
  void* ctx;
  tvmrt_file_id file;
} tvmrt_library_source;

/* Takes ownership of `source`, also on failure. *out is the root of the restored tree. */
int tvmrt__library_load(const tvmrt_library_source* source, tvmrt_module** out);

/* Restore an embedded tree. `library` replaces "_lib". *out_root is owned. */
int tvmrt__mblob_restore(const uint8_t* blob, size_t symbol_size, tvmrt_module* library,
                         tvmrt_module** out_root);
#define TVMRT_MBLOB_LIBRARY "_lib" /* entries of an embedded tree: the library, the imports */
#define TVMRT_MBLOB_TREE "_import_tree"

#define TVMRT_LIBRARY_KEY "library" /* the kind of library modules */

#endif
