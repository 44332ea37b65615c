/* Library modules: the functions of a shared library or of a statically linked one. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/kernels/cpu_dispatch.h>

#include "../platform/threads.h"
#include "ffi_library.h"
#include "manifest.h"

/* One node of a library's module tree; its source is closed with it. */
typedef struct library_module {
  tvmrt_module base;
  tvmrt_library_source source;
  struct library_module* next; /* in `live` */
} library_module;

/* The system maps a file once however often it is opened, including the variables in which
 * generated code keeps its context and looked-up functions. So all modules of one mapping with a
 * context share one node, which lives until the last reference to it is released. */
static const char context_name[] = "__tvm_module_ctx";
static tvmrt_mutex live_lock = TVMRT_MUTEX_INIT;
static library_module* live;

/* The node of a mapping, retained; NULL if there is none. Called with the lock held. */
static library_module* find_live(const void* mapping) {
  library_module* lib;
  for (lib = live; lib != NULL; lib = lib->next) {
    if (lib->source.ctx == mapping && tvmrt__try_retain(&lib->base.base)) break;
  }
  return lib;
}

/* Called when the count is already 0: find_live() skips such a node. */
static void remove_live(const library_module* lib) {
  library_module** at;
  tvmrt__lock(&live_lock);
  for (at = &live; *at != NULL; at = &(*at)->next) {
    if (*at != lib) continue;
    *at = lib->next;
    break;
  }
  tvmrt__unlock(&live_lock);
}

/* The file that a loaded library came from; false if no module has this handle. Also for libraries
 * whose node is being destroyed: the handle is still open, and so is the file. */
static bool file_of(const void* handle, tvmrt_file_id* out) {
  const library_module* lib;
  tvmrt__lock(&live_lock);
  for (lib = live; lib != NULL && lib->source.ctx != handle; lib = lib->next) {
  }
  if (lib != NULL) *out = lib->source.file;
  tvmrt__unlock(&live_lock);
  return lib != NULL;
}

/* ISO C has no conversion between object and function pointers; dlsym requires it. */
static TVMCPackedFunc as_function(void* symbol) {
  TVMCPackedFunc fn;
  memcpy(&fn, &symbol, sizeof(fn));
  return fn;
}

/* The source abstracts the library: a file of the system's loader, or a table of a static
 * program. */
static void* symbol_of(const library_module* lib, const char* name, size_t* out_size) {
  size_t ignored;
  return lib->source.symbol(lib->source.ctx, name, out_size == NULL ? &ignored : out_size);
}

/* LLVM stores the entry's name as `__tvm_main__`, the C code generator a function. */
static void* find_main(const library_module* lib) {
  size_t size = 0;
  void* symbol = symbol_of(lib, "__tvm_main__", &size);
  const char* name = symbol;
  if (symbol == NULL || lib->source.is_function(lib->source.ctx, symbol)) return symbol;
  if (size != 0 && memchr(name, '\0', size) == NULL) return NULL;
  return symbol_of(lib, name, NULL);
}

/* A function of tvm-ffi precedes a symbol with the plain name, which may be the C function that it
 * wraps, or belong to another library. For an entry the classic function comes first. */
static int library_find(tvmrt_module* self, const char* name, tvmrt_lookup_result* out) {
  const library_module* lib = (const library_module*)self;
  const bool is_entry = strcmp(name, "__tvm_main__") == 0;
  void* symbol = is_entry ? find_main(lib) : NULL;
  if (symbol == NULL) {
    TVMRT_RETURN_IF_ERROR(tvmrt__ffi_find(&lib->source, self, name, &out->func));
    if (out->func != NULL) return 0;
    symbol = symbol_of(lib, name, NULL);
  }
  if (symbol == NULL) return 0;
  out->fn = as_function(symbol);
  out->kind = TVMRT_FUNC_LIBRARY;
  return 0;
}

/* In this order: once the source is closed, the address may be reused by another library. */
static void library_destroy(tvmrt_module* self) {
  library_module* lib = (library_module*)self;
  remove_live(lib);
  if (lib->source.close != NULL) lib->source.close(lib->source.ctx);
}

static const tvmrt_module_type library_type = {
    .key = TVMRT_LIBRARY_KEY,
    .properties = TVMRT_MODULE_RUNNABLE,
    .find = library_find,
    .destroy = library_destroy,
};

/* Generated code that was not linked with the runtime calls it through these variables. */
static const struct {
  const char* name;
  void (*function)(void);
} kSlots[] = {
    {"__TVMFuncCall", (void (*)(void))TVMFuncCall},
    {"__TVMAPISetLastError", (void (*)(void))TVMAPISetLastError},
    {"__TVMBackendGetFuncFromEnv", (void (*)(void))TVMBackendGetFuncFromEnv},
    {"__TVMBackendAllocWorkspace", (void (*)(void))TVMBackendAllocWorkspace},
    {"__TVMBackendFreeWorkspace", (void (*)(void))TVMBackendFreeWorkspace},
    {"__TVMBackendParallelLaunch", (void (*)(void))TVMBackendParallelLaunch},
    {"__TVMBackendParallelBarrier", (void (*)(void))TVMBackendParallelBarrier},
};
enum { kNumSlots = sizeof(kSlots) / sizeof(kSlots[0]) };

/* Variables of a library; NULL if it lacks one. */
typedef struct code_variables {
  void** context;
  void* slots[kNumSlots];
} code_variables;

/* Not under the lock: a symbol look-up may wait for the system's loader, and that for a constructor
 * which loads a module. */
static code_variables find_variables(const tvmrt_library_source* source) {
  code_variables found;
  size_t ignored;
  found.context = source->symbol(source->ctx, context_name, &ignored);
  for (size_t i = 0; i < kNumSlots; ++i) {
    found.slots[i] = source->symbol(source->ctx, kSlots[i].name, &ignored);
  }
  return found;
}

/* Called with the lock held: two threads may load one mapping concurrently. */
static void fill_variables(const code_variables* variables, library_module* lib) {
  if (variables->context != NULL) *variables->context = lib;
  for (size_t i = 0; i < kNumSlots; ++i) {
    void* slot = variables->slots[i];
    /* If a mapping is loaded again, its code may be running. */
    if (slot != NULL && memcmp(slot, &kSlots[i].function, sizeof(kSlots[i].function)) != 0) {
      memcpy(slot, &kSlots[i].function, sizeof(kSlots[i].function));
    }
  }
}

/* A library with an embedded module tree is one node of it; *out is the root. Without a tree it is
 * the root itself. *out is owned; the caller keeps its reference to `lib`. */
static int restore(library_module* lib, tvmrt_module** out) {
  size_t size = 0;
  const uint8_t* blob = symbol_of(lib, "__tvm_dev_mblob", &size);
  if (blob != NULL) return tvmrt__mblob_restore(blob, size, &lib->base, out);
  tvmrt__retain(&lib->base.base);
  *out = &lib->base;
  return 0;
}

/* A node for the source, added to the table, with its variables filled. Called with the lock
 * held. */
static library_module* add_live(const tvmrt_library_source* source,
                                const code_variables* variables) {
  library_module* lib = tvmrt__module_new(&library_type, sizeof(*lib));
  if (lib == NULL) return NULL;
  lib->source = *source;
  lib->next = live;
  live = lib;
  fill_variables(variables, lib);
  return lib;
}

/* Multi-versioned code without a variant for this processor returns an error text. */
static const char* query_refusal(const tvmrt_library_source* source) {
  size_t ignored;
  void* symbol = source->symbol(source->ctx, "__tvmrt_refusal", &ignored);
  const char* (*refusal)(void);
  if (symbol == NULL || !source->is_function(source->ctx, symbol)) return NULL;
  memcpy(&refusal, &symbol, sizeof(refusal));
  return refusal();
}

/* Code for a single ISA level exports its name. */
static bool has_required_features(const tvmrt_library_source* source, char* text,
                                  size_t text_size) {
  size_t size = 0;
  const char* required = source->symbol(source->ctx, "__tvmrt_needs", &size);
  tvmrt_processor processor;
  if (required == NULL || size < 2 || memchr(required, '\0', size) == NULL) return true;
  tvmrt_detect_processor(&processor);
  return tvmrt_choose_level(&processor, &required, 1, NULL, text, text_size) == 0;
}

/* Called before any other code of the library, which may use unsupported instructions. */
static int check_processor(const tvmrt_library_source* source) {
  char why[512];
  const char* refusal = query_refusal(source);
  if (refusal == NULL && !has_required_features(source, why, sizeof(why))) refusal = why;
  if (refusal != NULL) TVMAPISetLastError(refusal);
  return refusal != NULL ? -1 : 0;
}

/* Takes ownership of the source: it is closed on failure, and if another node already has the
 * mapping. */
int tvmrt__library_load(const tvmrt_library_source* source, tvmrt_module** out) {
  const code_variables variables = find_variables(source);
  library_module* shared;
  library_module* lib;
  int rc = -1;
  *out = NULL;
  if (check_processor(source) != 0) {
    if (source->close != NULL) source->close(source->ctx);
    return -1;
  }
  tvmrt__lock(&live_lock);
  shared = variables.context != NULL ? find_live(source->ctx) : NULL;
  lib = shared != NULL ? shared : add_live(source, &variables);
  tvmrt__unlock(&live_lock);
  /* one reference to the mapping is sufficient */
  if ((shared != NULL || lib == NULL) && source->close != NULL) source->close(source->ctx);
  if (lib != NULL) rc = restore(lib, out);
  tvmrt__module_release(lib); /* the tree may have retained it */
  return rc;
}

/* Determined by the symbol alone, for any library. */
static bool is_function(void* ctx, void* symbol) {
  (void)ctx;
  return tvmrt__symbol_is_function(symbol);
}

/* The size from the file's symbol table; 0 if unknown. */
static void* find_symbol(void* ctx, const char* name, size_t* out_size) {
  void* address = tvmrt__library_symbol(ctx, name);
  *out_size = address == NULL ? 0 : tvmrt__symbol_bytes(address);
  return address;
}

/* Check the manifest of generated code; other libraries have none. */
static int check_manifest(const char* path, const tvmrt_library_source* source) {
  size_t size = 0;
  const char* text = source->symbol(source->ctx, "__tvmrt_manifest", &size);
  return text == NULL || size == 0 ? 0 : tvmrt__manifest_check(path, text, size);
}

/* The manifest is checked before code of the library runs. */
int tvmrt__library_open(const char* path, tvmrt_module** out) {
  tvmrt_library_source source = {find_symbol, is_function, tvmrt__library_unload, NULL, {0}};
  const tvmrt_open_options options = {path, tvmrt__ffi_binding(path),
                                      "Failed to load dynamic shared library", file_of};
  *out = NULL;
  if (tvmrt__map_library(&options, &source.ctx, &source.file) != 0) return tvmrt__ffi_explain(path);
  if (check_manifest(path, &source) != 0) {
    source.close(source.ctx);
    return -1;
  }
  return tvmrt__library_load(&source, out);
}
