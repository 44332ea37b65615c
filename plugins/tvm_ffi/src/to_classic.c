/* tvm-ffi functions for classic callers: conversion of arguments, call, conversion of the result.
 *
 * Counterpart of to_ffi.c. A classic caller may keep the result, so data borrowed from the call is
 * copied before it returns. */
#include <stdlib.h>

#include "convert.h"
#include "error.h"
#include "raise.h"
#include "streams.h"
#include "tensor.h"
#include "wrapper_table.h"

enum { MAX_INLINE_ARGS = 8 }; /* more arguments need an allocation */

/* The called function: a Function or, if that is NULL, an address with its handle. */
typedef struct {
  FfiObject* function;
  FfiSafeCall address;
  void* self;
} Callee;

/* ---- arguments ---- */

typedef struct {
  FfiAny* values;
  Owned* owned;
  FfiAny inline_values[MAX_INLINE_ARGS];
  Owned inline_owned[MAX_INLINE_ARGS];
} Args;

/* One block, the type of the largest alignment first. */
static int allocate_args(Args* args, int count) {
  size_t bytes = (size_t)count * (sizeof(*args->values) + sizeof(*args->owned));
  args->values = args->inline_values;
  args->owned = args->inline_owned;
  if (count <= MAX_INLINE_ARGS) return 0;
  args->values = malloc(bytes);
  if (args->values == NULL) return bridge_fail_memory(bytes);
  args->owned = (Owned*)(void*)(args->values + count);
  return 0;
}

/* Released in reverse order, since later arguments may hold earlier ones. */
static void free_args(Args* args, int count) {
  while (count > 0) owned_release(&args->owned[--count]);
  if (args->values != args->inline_values) free(args->values);
}

/* On failure nothing is left to free, and the error names the argument. */
static int make_args(Args* args, const TVMValue* values, const int* codes, int count) {
  if (allocate_args(args, count) != 0) return -1;
  /* a callee that reads a missing argument finds None */
  args->inline_values[0] = (FfiAny){.type_index = kFfiNone};
  for (int i = 0; i < count; i++) {
    if (bridge_value_to_ffi(values[i], codes[i], &args->values[i], &args->owned[i]) != 0) {
      free_args(args, i + 1);
      (void)bridge_name_argument(i);
      return -1;
    }
  }
  return 0;
}

/* ---- the result ---- */

/* A result in both forms; the classic value may borrow from the tvm-ffi one. */
typedef struct {
  FfiAny any;
  TVMValue value;
  int code;
  Owned owned;
} Result;

/* Adapter for Owned. */
static void release_array(void* array) { (void)TVMArrayFree(array); }

/* In this order, since the classic value may point into the other one. */
static void free_result(Result* result) {
  owned_release(&result->owned);
  bridge_release_any(&result->any);
}

/* Replace a view by an NDArray, owned by *owned. */
static int copy_array(TVMValue* value, int* code, Owned* owned) {
  TVMArrayHandle array;
  if (bridge_copy_to_classic(value->v_handle, &array) != 0) return -1;
  owned_release(owned);
  *owned = (Owned){release_array, array};
  value->v_handle = array;
  *code = kTVMNDArrayHandle;
  return 0;
}

/* Releases the view that is replaced. */
static int copy_result(Result* result) {
  return copy_array(&result->value, &result->code, &result->owned);
}

/* Convert a value that outlives the call, such as a container's element: *owned owns the result,
 * and nothing is borrowed from a view. */
int bridge_owned_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned) {
  if (bridge_value_to_classic(any, value, code, owned) != 0) return -1;
  return *code == kTVMDLTensorHandle ? copy_array(value, code, owned) : 0;
}

/* Whether an array shares memory that was lent to the callee for the call. */
static int is_borrowed(const DLTensor* array, const TVMValue* values, const int* codes, int count) {
  for (int i = 0; i < count; i++) {
    const DLTensor* view = codes[i] == kTVMDLTensorHandle ? values[i].v_handle : NULL;
    if (view != NULL && bridge_lies_within(array, view)) return 1;
  }
  return 0;
}

/* A view has no owner, and lent memory is valid only during the call: both are copied. */
static int convert_result(Result* result, const TVMValue* values, const int* codes, int count) {
  if (bridge_value_to_classic(&result->any, &result->value, &result->code, &result->owned) != 0) {
    return -1;
  }
  if (result->code == kTVMDLTensorHandle) return copy_result(result);
  if (result->code == kTVMNDArrayHandle &&
      is_borrowed(result->value.v_handle, values, codes, count)) {
    return copy_result(result);
  }
  return 0;
}

/* ---- the call ---- */

/* On failure nothing of *result must be released. */
static int call_from_classic(const Callee* callee, const TVMValue* values, const int* codes,
                             int count, Result* result) {
  Args args;
  BridgeStream stream;
  int rc;
  *result = (Result){.any = {.type_index = kFfiNone}, .owned = {NULL, NULL}};
  if (make_args(&args, values, codes, count) != 0) return -1;
  if (bridge_stream_to_ffi(&stream, args.values, count) != 0) {
    free_args(&args, count);
    return -1;
  }
  if (callee->function != NULL) {
    rc = ffi.function_call(callee->function, args.values, count, &result->any);
  } else {
    /* lint: there is a function or an address */
    rc = callee->address(callee->self, args.values, count, &result->any);
  }
  /* also after a failure: the stream belongs to the thread, not to this call */
  bridge_stream_back_to_ffi(&stream);
  if (rc != 0) {
    rc = bridge_catch();
  } else if (convert_result(result, values, codes, count) != 0) {
    free_result(result);
    rc = -1;
  }
  /* last: the result may share an argument's memory */
  free_args(&args, count);
  return rc;
}

/* TVMCFuncSetReturn() takes its own references or copies. */
static int call_and_return(const Callee* callee, TVMValue* values, int* codes, int count,
                           TVMRetValueHandle ret) {
  Result result;
  int rc = 0;
  if (call_from_classic(callee, values, codes, count, &result) != 0) return -1;
  if (result.code != kTVMNullptr) rc = TVMCFuncSetReturn(ret, &result.value, &result.code, 1);
  free_result(&result);
  return rc;
}

/* ---- functions ---- */

/* TVMRuntimeCPackedFunc */
static int call_wrapped(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                        void* wrapper) {
  Callee callee = {((BridgeWrapper*)wrapper)->inner, NULL, NULL};
  return call_and_return(&callee, args, type_codes, num_args, ret);
}

/* Called when the last reference to the classic function is released; on any thread. */
static void release_wrapped(void* wrapper) { ffi_release(bridge_wrapper_remove(wrapper)); }

static void retain_function(void* function) { (void)TVMObjectRetain(function); }

/* Marked as strided: tvm-ffi functions check strides themselves, so views are passed unchanged. */
int bridge_function_to_classic(FfiObject* function, TVMFunctionHandle* out) {
  BridgeWrapper* wrapper;
  *out = bridge_wrapper_find(function, retain_function);
  if (*out != NULL) return 0; /* it is a wrapper of a classic function */
  wrapper = bridge_wrapper_new(function);
  if (wrapper == NULL) return bridge_fail_memory(sizeof(*wrapper));
  if (TVMFuncCreateFromCFunc(call_wrapped, wrapper, release_wrapped, out) != 0) {
    free(wrapper);
    return -1;
  }
  ffi_retain(function);
  bridge_wrapper_add(wrapper, *out);
  return tvmrt_func_set_strided(*out);
}

/* A C function given by its address. */
typedef struct {
  FfiSafeCall address;
  void* self;
  TVMObjectHandle owner; /* keeps address and self alive; may be NULL */
} Symbol;

/* TVMRuntimeCPackedFunc */
static int call_symbol(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                       void* resource) {
  const Symbol* symbol = resource;
  Callee callee = {NULL, symbol->address, symbol->self};
  return call_and_return(&callee, args, type_codes, num_args, ret);
}

/* The owner frees the handle `self`. */
static void release_symbol(void* resource) {
  Symbol* symbol = resource;
  (void)TVMObjectFree(symbol->owner);
  free(symbol);
}

/* The owner is retained before the function can be called, and released with the function. */
int bridge_symbol_to_classic(FfiSafeCall address, void* self, TVMObjectHandle owner,
                             TVMFunctionHandle* out) {
  Symbol* symbol = malloc(sizeof(*symbol));
  *out = NULL;
  if (symbol == NULL) return bridge_fail_memory(sizeof(*symbol));
  *symbol = (Symbol){address, self, NULL};
  if (owner != NULL && TVMObjectRetain(owner) != 0) {
    free(symbol);
    return -1;
  }
  symbol->owner = owner;
  if (TVMFuncCreateFromCFunc(call_symbol, symbol, release_symbol, out) != 0) {
    release_symbol(symbol);
    return -1;
  }
  return tvmrt_func_set_strided(*out);
}

/* ---- a function without a handle ---- */

/* A library's function cannot return text, so it returns a String. */
static int text_to_string(TVMValue text, TVMValue* out, int* out_code) {
  int code = kTVMStr;
  return bridge_call_global("runtime.String", &text, &code, 1, out, out_code);
}

/* Transfers the ownership of the result's value. */
static int return_owned(Result* result, TVMValue* out, int* out_code) {
  int rc = 0;
  if (result->code == kTVMStr) {
    rc = text_to_string(result->value, out, out_code);
  } else if (result->code == kTVMBytes) {
    rc = bridge_fail(
        "TypeError: a library's function cannot return bytes: they would have no owner");
  } else {
    *out = result->value;
    *out_code = result->code;
    result->owned.release = NULL;
  }
  free_result(result);
  return rc;
}

/* Called by generated code, which has tvm-ffi functions as handles. Its calling convention has no
 * per-thread storage for a returned text. */
int bridge_packed_call(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                       void* resource_handle) {
  Callee callee = {resource_handle, NULL, NULL};
  Result result;
  if (resource_handle == NULL) return bridge_fail("the handle of a tvm-ffi function is NULL");
  if (call_from_classic(&callee, args, type_codes, num_args, &result) != 0) return -1;
  return return_owned(&result, out, out_code);
}
