/* Calls across the bridge: conversion of arguments, call, conversion of the result.
 *
 * The callee is the function of a wrapper. Calls with up to eight arguments allocate nothing
 * here. */
#include "calls.h"

#include "errors.h"
#include "streams.h"
#include "tensor.h"
#include "values.h"
#include "wrappers.h"

/* ---- tvm-ffi functions for classic callers ---- */

/* A result in both forms; the classic value may borrow from the tvm-ffi one. */
typedef struct {
  FfiAny any;
  TVMValue value;
  int code;
  Owned owned;
} Result;

/* Whether an array shares memory that was lent to the callee for the call. */
static int is_borrowed(const DLTensor* array, const TVMValue* values, const int* codes, int count) {
  for (int i = 0; i < count; i++) {
    const DLTensor* view = codes[i] == kTVMDLTensorHandle ? values[i].v_handle : NULL;
    if (view != NULL && bridge_lies_within(array, view)) return 1;
  }
  return 0;
}

/* A classic caller may keep the result. A view has no owner, and lent memory is valid only during
 * the call: both are copied. */
static int convert_result(Result* result, const TVMValue* values, const int* codes, int count) {
  if (bridge_value_to_classic(&result->any, &result->value, &result->code, &result->owned) != 0) {
    return -1;
  }
  if (result->code != kTVMDLTensorHandle &&
      !(result->code == kTVMNDArrayHandle &&
        is_borrowed(result->value.v_handle, values, codes, count))) {
    return 0;
  }
  return bridge_copy_view(&result->value, &result->code, &result->owned);
}

/* The return value takes its own reference, or copies the text. Backtraces end at this function's
 * name (source_lines.py). */
int bridge_call_from_classic(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                             void* wrapper) {
  FfiArgs converted;
  BridgeStream stream;
  Result result = {.any = {.type_index = kFfiNone}, .owned = {NULL, NULL}};
  int rc;
  if (bridge_args_to_ffi(args, codes, num_args, &converted) != 0) {
    return bridge_name_argument(converted.count);
  }
  rc = bridge_stream_to_ffi(&stream, converted.values, num_args);
  if (rc == 0) {
    rc = ffi.function_call(bridge_wrapped(wrapper), converted.values, num_args, &result.any);
    if (rc != 0) rc = bridge_catch();
    /* also after a failure: the stream belongs to the thread, not to this call */
    bridge_stream_restore(&stream);
  }
  if (rc == 0) rc = convert_result(&result, args, codes, num_args);
  if (rc == 0) rc = TVMCFuncSetReturn(ret, &result.value, &result.code, 1);
  bridge_free_ffi_args(&converted);
  /* in this order, since the classic value may point into the other one */
  owned_release(&result.owned);
  ffi_release_any(&result.any);
  return rc;
}

/* ---- classic functions for tvm-ffi callers ---- */

/* Errors are raised on the tvm-ffi side, where callers of safe calls expect them. */
int bridge_call_from_ffi(void* wrapper, const FfiAny* values, int32_t num_args, FfiAny* result) {
  ClassicArgs args;
  BridgeStream stream;
  TVMValue value;
  int code;
  int rc;
  if (bridge_args_to_classic(values, num_args, &args) != 0) {
    (void)bridge_name_argument(args.count);
    return bridge_raise();
  }
  rc = bridge_stream_to_classic(&stream, values, num_args);
  if (rc == 0) {
    rc = TVMFuncCall(bridge_wrapped(wrapper), args.values, args.codes, num_args, &value, &code);
    bridge_stream_restore(&stream);
  }
  if (rc == 0) rc = bridge_return_to_ffi(value, code, result);
  /* convert the error first: releasing may run any code */
  if (rc != 0) rc = bridge_raise();
  bridge_free_classic_args(&args);
  return rc;
}
