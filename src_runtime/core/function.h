/* Packed functions as objects, readers of their arguments, and setters of their results. */
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
  TVMRT_FUNC_FRONTEND /* function of a front end: returns by TVMCFuncSetReturn */
} tvmrt_func_kind;

typedef struct tvmrt_func {
  tvmrt_object base;
  tvmrt_func_kind kind;
  bool is_short;                     /* neither waits nor computes: see tvmrt_func_is_short() */
  bool is_strided;                   /* see tvmrt_func_set_strided() */
  TVMCPackedFunc fn;                 /* LIBRARY, NATIVE */
  TVMRuntimeCPackedFunc frontend_fn; /* FRONTEND */
  void* resource;
  TVMPackedCFuncFinalizer finalize; /* of resource, may be NULL */
  /* A function of a module's own table lives as long as the module: it has no reference count of
   * its own, but holds a reference to the module while referenced. Else NULL. */
  tvmrt_object* owner;
} tvmrt_func;

/* Create a function with a resource; released by tvmrt__release(&f->base). NULL if memory is
 * exhausted; the caller then still owns the resource. */
TVMRT_SDK tvmrt_func* tvmrt__func_new(TVMCPackedFunc fn, void* resource,
                                      TVMPackedCFuncFinalizer finalize);

/* Set the kind of a function that is not shared yet. */
void tvmrt__func_set_kind(tvmrt_func* f, tvmrt_func_kind kind);

/* Whether a function of this runtime, by its name, is short: see tvmrt_func_is_short(). */
bool tvmrt__is_short(const char* name);

/* A table of functions by name: the names one after the other, with an empty one at the end. Two
 * arrays instead of one of pairs save the dynamic loader one relocation per name. */
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
 * Arguments of native functions. `tvmrt_args` holds the arguments of a packed function; each reader
 * returns 0, or -1 with an error that names function, index, expected and actual type.
 */
typedef struct tvmrt_args {
  const char* callee;
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

/* Arguments in a function of a global table: its resource is its registered name. */
#define TVMRT_GLOBAL_ARGS                                        \
  tvmrt_args in = {resource_handle, args, type_codes, num_args}; \
  (void)out;                                                     \
  (void)out_code;                                                \
  (void)in

/* At least `min` and at most `max` of them; max < 0: any number. */
#define TVMRT_COUNTED_ARGS(min, max) \
  TVMRT_GLOBAL_ARGS;                 \
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, min, max))

/* Signature of a native packed function. */
#define TVMRT_NATIVE(fn)                                                                     \
  static int fn(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code, \
                void* resource_handle)

TVMRT_SDK int tvmrt__arg_count(const tvmrt_args* in, int min_args,
                               int max_args); /* max_args < 0: any number */
TVMRT_SDK int tvmrt__arg_int(const tvmrt_args* in, int i, int64_t* out);
TVMRT_SDK int tvmrt__arg_number(const tvmrt_args* in, int i, double* out); /* also an int */
TVMRT_SDK int tvmrt__arg_str(const tvmrt_args* in, int i,
                             const char** out); /* also a String object */
TVMRT_SDK int tvmrt__arg_bytes(const tvmrt_args* in, int i, TVMByteArray* out); /* also text */
int tvmrt__arg_device(const tvmrt_args* in, int i, DLDevice* out);
int tvmrt__arg_dtype(const tvmrt_args* in, int i, DLDataType* out); /* also text */
TVMRT_SDK int tvmrt__arg_tensor(const tvmrt_args* in, int i, DLTensor** out);
/* Whether there are as many extents as dimensions: arg_tensor() accepts no others. */
static inline bool tvmrt__has_shape(const DLTensor* t) {
  return t->ndim == 0 || (t->ndim > 0 && t->shape != NULL);
}
TVMRT_SDK int tvmrt__arg_module(const tvmrt_args* in, int i, struct tvmrt_module** out);
TVMRT_SDK int tvmrt__arg_object(const tvmrt_args* in, int i, tvmrt_type type, void* out_object);
TVMRT_SDK int tvmrt__arg_is_null(const tvmrt_args* in, int i);

/* Results of native functions; text and bytes go to the thread's return slot. */
TVMRT_SDK int tvmrt__ret_int(TVMValue* out, int* out_code, int64_t value);
TVMRT_SDK int tvmrt__ret_str(TVMValue* out, int* out_code, const char* text);
/* Return a buffer as kTVMStr or kTVMBytes if rc is 0; else return rc. Always frees the buffer. */
TVMRT_SDK int tvmrt__ret_buf(int rc, int code, tvmrt_buf* buf, TVMValue* out, int* out_code);
/* Return an object with the code of its type; takes ownership of the caller's reference. NULL
 * fails: the object's constructor has set the text. */
TVMRT_SDK int tvmrt__ret_object(TVMValue* out, int* out_code, tvmrt_object* owned);

/* Object of a value, borrowed; NULL if the code is not an object's. */
TVMRT_SDK tvmrt_object* tvmrt__value_object(const TVMValue* value, int code);

/* Name of a type code, for error texts. */
TVMRT_SDK const char* tvmrt__code_name(int code);

/* Call a function and release its result. */
TVMRT_SDK int tvmrt__func_call(tvmrt_func* f, TVMValue* values, int* codes, int count);

/* A global function, retained; *out is NULL if there is none. */
TVMRT_SDK int tvmrt__global_get(const char* name, tvmrt_func** out);
/* Call a global function, such as one of a higher layer. A missing function is an error. */
TVMRT_SDK int tvmrt__global_call(const char* name, TVMValue* values, int* codes, int count,
                                 TVMValue* out, int* out_code);
/* Call a function that a front end may have registered, and release its result; 0 if it is
 * missing. */
TVMRT_SDK int tvmrt__global_notify(const char* name, TVMValue* values, int* codes, int count);
/* Call f for each global name that starts with prefix, until it fails. */
int tvmrt__global_each(const char* prefix, int (*f)(void* ctx, const char* name), void* ctx);

/* Functions of plug-ins' tables, whose names are constants. A taken name keeps its function.
 * global_leave() removes only the table's function; global_is_held() checks for other references to
 * it. */
int tvmrt__global_enter(const char* name, TVMCPackedFunc fn);
/* Register all functions of tables, NULL at the end, of a library that is never unloaded. */
TVMRT_SDK int tvmrt__globals_enter(const tvmrt_builtins* const* tables);
void tvmrt__global_leave(const char* name, TVMCPackedFunc fn);
bool tvmrt__global_is_referenced(const char* name, TVMCPackedFunc fn);

#endif
