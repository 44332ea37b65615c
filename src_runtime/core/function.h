/* Packed functions as objects, checking of their arguments, and setting of their results. */
#ifndef TVMRT_SRC_RUNTIME_CORE_FUNCTION_H_
#define TVMRT_SRC_RUNTIME_CORE_FUNCTION_H_

#include <stdbool.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "../base/strmap.h"
#include "object.h"

struct tvmrt_module;

typedef enum {
  TVMRT_FUNC_LIBRARY, /* symbol of a library: no resource */
  TVMRT_FUNC_NATIVE, /* of this runtime, a firmware table or tvmrt_func_create(): gets `resource` */
  TVMRT_FUNC_FRONT   /* function of a front end: returns by TVMCFuncSetReturn */
} tvmrt_func_kind;

typedef struct tvmrt_func {
  tvmrt_object base;
  tvmrt_func_kind kind;
  bool is_short;               /* neither waits nor computes: see tvmrt_func_is_short() */
  bool is_strided;             /* see tvmrt_func_set_strided() */
  TVMCPackedFunc fn;           /* LIBRARY, NATIVE */
  TVMRuntimeCPackedFunc front; /* FRONT */
  void* resource;
  TVMPackedCFuncFinalizer finalize; /* of resource, may be NULL */
  /* A function of a module's own table lives as long as the module: it has no references of its own
   * but holds one to the module while anybody holds it. NULL for other functions. */
  tvmrt_object* owner;
} tvmrt_func;

/* A function over a resource; released by tvmrt__release(&f->base). NULL if there is no memory; the
 * resource then stays the caller's. */
TVMRT_SDK tvmrt_func* tvmrt__func_new(TVMCPackedFunc fn, void* resource,
                                      TVMPackedCFuncFinalizer finalize);

/* What the function is, which nobody else may set. */
void tvmrt__func_set_kind(tvmrt_func* f, tvmrt_func_kind kind);

/* Whether a function of this runtime, by its name, is one that tvmrt_func_is_short() tells. */
bool tvmrt__is_short(const char* name);

/* A table of functions by name: the names one after the other, an empty one at the end. Two arrays
 * instead of one of pairs spare the loader of the library an address a name. */
typedef struct tvmrt_builtins {
  const char* names;
  const TVMCPackedFunc* functions;
} tvmrt_builtins;

/* At file scope: a table of `list`, a macro that applies its argument to (name, function) pairs. */
#define TVMRT_BUILTINS(list)                                                              \
  {                                                                                       \
    list(TVMRT_BUILTIN_NAME_), (const TVMCPackedFunc[]) { list(TVMRT_BUILTIN_FUNCTION_) } \
  }
#define TVMRT_BUILTIN_NAME_(name, fn) name "\0"
#define TVMRT_BUILTIN_FUNCTION_(name, fn) fn,

/* The name after this one. */
static inline const char* tvmrt__next_name(const char* name) { return name + strlen(name) + 1; }

/*
 * Arguments of native functions. `tvmrt_args` gathers what a packed function gets; each reader
 * returns 0, or -1 with an error that names function, position, what was expected and what came.
 */
typedef struct tvmrt_args {
  const char* who;
  TVMValue* values;
  int* codes;
  int count;
} tvmrt_args;

#define TVMRT_ARGS(name)                              \
  tvmrt_args in = {name, args, type_codes, num_args}; \
  (void)resource_handle;                              \
  (void)out;                                          \
  (void)out_code;                                     \
  (void)in

/* The same in a function of a global table: its resource is the name that it is registered under. */
#define TVMRT_GLOBAL_ARGS                                        \
  tvmrt_args in = {resource_handle, args, type_codes, num_args}; \
  (void)out;                                                     \
  (void)out_code;                                                \
  (void)in

/* The head of a native packed function. */
#define TVMRT_NATIVE(fn)                                                                     \
  static int fn(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code, \
                void* resource_handle)

TVMRT_SDK int tvmrt__arg_count(const tvmrt_args* in, int least,
                               int most); /* most < 0: any number */
TVMRT_SDK int tvmrt__arg_int(const tvmrt_args* in, int i, int64_t* out);
TVMRT_SDK int tvmrt__arg_number(const tvmrt_args* in, int i, double* out); /* also an int */
TVMRT_SDK int tvmrt__arg_str(const tvmrt_args* in, int i,
                             const char** out); /* also a String object */
TVMRT_SDK int tvmrt__arg_bytes(const tvmrt_args* in, int i, TVMByteArray* out); /* also text */
TVMRT_SDK int tvmrt__arg_device(const tvmrt_args* in, int i, DLDevice* out);
int tvmrt__arg_dtype(const tvmrt_args* in, int i, DLDataType* out); /* also text */
TVMRT_SDK int tvmrt__arg_tensor(const tvmrt_args* in, int i, DLTensor** out);
/* Whether there are as many extents as dimensions: arg_tensor() gives no others. */
static inline bool tvmrt__has_shape(const DLTensor* t) {
  return t->ndim == 0 || (t->ndim > 0 && t->shape != NULL);
}
TVMRT_SDK int tvmrt__arg_module(const tvmrt_args* in, int i, struct tvmrt_module** out);
TVMRT_SDK int tvmrt__arg_object(const tvmrt_args* in, int i, tvmrt_type type, void* out_object);
TVMRT_SDK int tvmrt__arg_is_null(const tvmrt_args* in, int i);

/* Results of native functions; text and bytes go to the thread's return slot. */
TVMRT_SDK int tvmrt__ret_int(TVMValue* out, int* out_code, int64_t value);
TVMRT_SDK int tvmrt__ret_str(TVMValue* out, int* out_code, const char* text);
int tvmrt__ret_bytes(TVMValue* out, int* out_code, const void* data, size_t size);
/* The same of what was gathered in a buffer, as kTVMStr or kTVMBytes, where rc is 0; else rc. The buffer
 * is freed in any case. */
TVMRT_SDK int tvmrt__ret_buf(int rc, int code, tvmrt_buf* buf, TVMValue* out, int* out_code);
/* Returns an object under the code of its type; takes the caller's reference over. NULL fails: the
 * maker of the object has set the text. */
TVMRT_SDK int tvmrt__ret_object(TVMValue* out, int* out_code, tvmrt_object* owned);

/* Object behind a value, borrowed; NULL if the code is not that of an object. */
TVMRT_SDK tvmrt_object* tvmrt__value_object(const TVMValue* value, int code);

/* Text for a type code, for messages. */
TVMRT_SDK const char* tvmrt__code_name(int code);

/* Calls a function whose result nobody wants: it is given back. */
TVMRT_SDK int tvmrt__func_call(tvmrt_func* f, TVMValue* values, int* codes, int count);

/* A global function, retained; *out NULL if there is none. */
TVMRT_SDK int tvmrt__global_get(const char* name, tvmrt_func** out);
/* Calls a global function: for what a room needs of one above it. No function fails. */
TVMRT_SDK int tvmrt__global_call(const char* name, TVMValue* values, int* codes, int count,
                                 TVMValue* out, int* out_code);
/* Calls one that a front end may have registered; no function is no failure. What it returns is given
 * back. */
TVMRT_SDK int tvmrt__global_notify(const char* name, TVMValue* values, int* codes, int count);
/* Calls f for each global name that starts with prefix, until it fails. */
int tvmrt__global_each(const char* prefix, int (*f)(void* ctx, const char* name), void* ctx);

/* Functions of plug-ins' tables, whose names are constants. A name that is taken keeps its function;
 * leaving takes out that of the table alone, and it is held if somebody else has a reference. */
int tvmrt__global_enter(const char* name, TVMCPackedFunc fn);
/* All functions of tables, NULL at the end, of a library that stays until the process ends. */
TVMRT_SDK int tvmrt__globals_enter(const tvmrt_builtins* const* tables);
void tvmrt__global_leave(const char* name, TVMCPackedFunc fn);
bool tvmrt__global_is_held(const char* name, TVMCPackedFunc fn);

#endif
