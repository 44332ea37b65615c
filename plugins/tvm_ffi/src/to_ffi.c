/* Classic functions for tvm-ffi callers: conversion of arguments, call, conversion of the result.
 *
 * The callee is a handle, linked so that it is unwrapped on its way back, or an address. Calls with
 * up to eight arguments allocate nothing here. */
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "error.h"
#include "raise.h"
#include "streams.h"
#include "wrapper_table.h"

enum { MAX_INLINE_ARGS = 8 }; /* more arguments need an allocation */

/* The called function: a handle or, if that is NULL, an address with its resource. */
typedef struct {
  TVMFunctionHandle handle;
  TVMCPackedFunc address;
  void* resource;
} Callee;

/* ---- arguments ---- */

typedef struct {
  TVMValue* values;
  int* codes;
  Owned* owned;
  TVMValue inline_values[MAX_INLINE_ARGS];
  int inline_codes[MAX_INLINE_ARGS];
  Owned inline_owned[MAX_INLINE_ARGS];
} Args;

/* One block, the type of the largest alignment first. */
static int allocate_args(Args* args, int count) {
  size_t bytes = (size_t)count * (sizeof(*args->owned) + sizeof(*args->values) + sizeof(int));
  args->owned = args->inline_owned;
  args->values = args->inline_values;
  args->codes = args->inline_codes;
  if (count <= MAX_INLINE_ARGS) return 0;
  args->owned = malloc(bytes);
  if (args->owned == NULL) return bridge_fail_memory(bytes);
  args->values = (TVMValue*)(void*)(args->owned + count);
  args->codes = (int*)(void*)(args->values + count);
  return 0;
}

/* The first `count` arguments were converted, or have nothing to release. */
static void free_args(Args* args, int count) {
  while (count > 0) owned_release(&args->owned[--count]);
  if (args->owned != args->inline_owned) free(args->owned);
}

/* On failure nothing is left to free, and the error names the argument. */
static int make_args(Args* args, const FfiAny* values, int count) {
  if (allocate_args(args, count) != 0) return -1;
  for (int i = 0; i < count; i++) {
    if (bridge_value_to_classic(&values[i], &args->values[i], &args->codes[i], &args->owned[i]) !=
        0) {
      free_args(args, i + 1);
      (void)bridge_name_argument(i);
      return -1;
    }
  }
  return 0;
}

/* ---- the call ---- */

/* A callee given by address need not set a result, which is then None. */
static int call_callee(const Callee* callee, Args* args, int count, TVMValue* value, int* code) {
  if (callee->handle != NULL) {
    return TVMFuncCall(callee->handle, args->values, args->codes, count, value, code);
  }
  value->v_int64 = 0;
  *code = kTVMNullptr;
  /* lint: there is a handle or an address */
  return callee->address(args->values, args->codes, count, value, code, callee->resource);
}

/* Copy text and bytes, which belong to the runtime until the next call. */
static int copy_text(TVMValue value, int code, FfiAny* result) {
  TVMByteArray bytes = {value.v_str, 0};
  int rc;
  if (value.v_handle == NULL) return 0;
  if (code == kTVMBytes) {
    rc = ffi.bytes_from_bytes(value.v_handle, result);
  } else {
    bytes.size = strlen(value.v_str);
    rc = ffi.string_from_bytes(&bytes, result);
  }
  return rc == 0 ? 0 : bridge_catch();
}

/* Takes ownership of the value's contents, also on failure. */
int bridge_return_to_ffi(TVMValue value, int code, FfiAny* result) {
  Owned owned = {NULL, NULL};
  FfiAny any;
  int rc;
  if (code == kTVMStr || code == kTVMBytes) return copy_text(value, code, result);
  if (code == kTVMDLTensorHandle || code == kTVMObjectRValueRefArg) {
    return bridge_fail("TypeError: a function returned type code %d, a value without an owner",
                       code);
  }
  rc = bridge_value_to_ffi(value, code, &any, &owned);
  bridge_release_value(value, code);
  if (rc == 0) {
    *result = any; /* takes over the reference in `owned` */
  } else {
    owned_release(&owned);
  }
  return rc;
}

/* Errors are raised on the tvm-ffi side, where callers of safe calls expect them. */
static int call_from_ffi(const Callee* callee, const FfiAny* values, int32_t count,
                         FfiAny* result) {
  Args args;
  BridgeStream stream;
  TVMValue value;
  int code;
  int rc;
  if (make_args(&args, values, count) != 0) return bridge_raise();
  rc = bridge_stream_to_classic(&stream, values, count);
  if (rc == 0) {
    rc = call_callee(callee, &args, count, &value, &code);
    bridge_stream_back_to_classic(&stream);
  }
  if (rc == 0) rc = bridge_return_to_ffi(value, code, result);
  /* convert the error first: releasing may run any code */
  if (rc != 0) rc = bridge_raise();
  free_args(&args, count);
  return rc;
}

/* ---- functions ---- */

/* Called by tvm-ffi libraries, which have classic functions as handles. */
int bridge_safe_call(void* self, const FfiAny* args, int32_t num_args, FfiAny* result) {
  Callee callee = {self, NULL, NULL};
  if (self != NULL) return call_from_ffi(&callee, args, num_args, result);
  (void)bridge_fail("the handle of a TVM function is NULL");
  return bridge_raise();
}

/* FfiSafeCall whose handle is the link. */
static int call_wrapped(void* self, const FfiAny* args, int32_t num_args, FfiAny* result) {
  Callee callee = {((BridgeWrapper*)self)->inner, NULL, NULL};
  return call_from_ffi(&callee, args, num_args, result);
}

/* Called when the last reference to the tvm-ffi function is released; on any thread. */
static void release_wrapped(void* self) { (void)TVMFuncFree(bridge_wrapper_remove(self)); }

/* Called under the link's lock. */
static void retain_object(void* object) { ffi_retain(object); }

/* A function that was wrapped before is unwrapped instead of wrapped twice. */
int bridge_function_to_ffi(TVMFunctionHandle function, FfiObject** out) {
  BridgeWrapper* wrapper;
  void* made = NULL;
  *out = bridge_wrapper_find(function, retain_object);
  if (*out != NULL) return 0; /* it is a wrapper of a tvm-ffi function */
  wrapper = bridge_wrapper_new(function);
  if (wrapper == NULL) return bridge_fail_memory(sizeof(*wrapper));
  if (TVMObjectRetain(function) != 0) {
    free(wrapper);
    return -1;
  }
  if (ffi.function_create(wrapper, call_wrapped, release_wrapped, &made) != 0) {
    (void)TVMFuncFree(function);
    free(wrapper);
    return bridge_catch();
  }
  bridge_wrapper_add(wrapper, made);
  *out = made;
  return 0;
}

/* A C function given by its address. */
typedef struct {
  TVMCPackedFunc address;
  void* resource;
  FfiObject* owner; /* keeps address and resource alive; may be NULL */
} Symbol;

/* FfiSafeCall whose handle is the symbol. */
static int call_symbol(void* self, const FfiAny* args, int32_t num_args, FfiAny* result) {
  const Symbol* symbol = self;
  Callee callee = {NULL, symbol->address, symbol->resource};
  return call_from_ffi(&callee, args, num_args, result);
}

/* Does not free the resource, which the owner keeps alive. */
static void release_symbol(void* self) {
  Symbol* symbol = self;
  if (symbol->owner != NULL) ffi_release(symbol->owner);
  free(symbol);
}

/* The owner is retained before the function is made, since the function may be called at once. */
int bridge_symbol_to_ffi(TVMCPackedFunc address, void* resource, FfiObject* owner,
                         FfiObject** out) {
  Symbol* symbol = malloc(sizeof(*symbol));
  void* made = NULL;
  *out = NULL;
  if (symbol == NULL) return bridge_fail_memory(sizeof(*symbol));
  *symbol = (Symbol){address, resource, owner};
  if (owner != NULL) ffi_retain(owner);
  if (ffi.function_create(symbol, call_symbol, release_symbol, &made) != 0) {
    release_symbol(symbol);
    return bridge_catch();
  }
  *out = made;
  /* lint: what was made owns the symbol */
  return 0;
}
