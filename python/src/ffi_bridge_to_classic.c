/* Functions of the other side for classic callers: their arguments, the call, their result. */
#include <stdlib.h>

#include "ffi_bridge.h"

enum { MAX_INLINE_ARGS = 8 }; /* more arguments than this cost an allocation */

/* What is called: a Function or, if that is NULL, an address with its handle. */
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

static void free_args(Args* args, int count) {
  while (count > 0) owned_release(&args->owned[--count]);
  if (args->values != args->inline_values) free(args->values);
}

static int make_args(Args* args, const TVMValue* values, const int* codes, int count) {
  if (allocate_args(args, count) != 0) return -1;
  for (int i = 0; i < count; i++) {
    if (bridge_value_to_ffi(values[i], codes[i], &args->values[i], &args->owned[i]) != 0) {
      free_args(args, i + 1);
      return bridge_name_argument(i);
    }
  }
  return 0;
}

/* ---- the call ---- */

/* *result is owned; None on failure. */
static int call_from_classic(const Callee* callee, const TVMValue* values, const int* codes,
                             int count, FfiAny* result) {
  Args args;
  int rc;
  *result = (FfiAny){.type_index = kFfiNone};
  if (make_args(&args, values, codes, count) != 0) return -1;
  if (callee->function != NULL) {
    rc = ffi.function_call(callee->function, args.values, count, result);
  } else {
    rc = callee->address(callee->self, args.values, count, result);
  }
  if (rc != 0) rc = bridge_catch();
  free_args(&args, count);
  return rc;
}

static void release_array(void* array) { (void)TVMArrayFree(array); }

/* As bridge_value_to_classic(), but a tensor that would be a view is copied: views have no owner. */
static int result_to_classic(const FfiAny* result, TVMValue* value, int* code, Owned* owned) {
  TVMArrayHandle array;
  int rc = bridge_value_to_classic(result, value, code, owned);
  if (rc != 0 || *code != kTVMDLTensorHandle) return rc;
  rc = bridge_copy_to_classic(value->v_handle, &array);
  owned_release(owned);
  owned->release = NULL;
  if (rc != 0) return rc;
  *owned = (Owned){release_array, array};
  value->v_handle = array;
  *code = kTVMNDArrayHandle;
  return 0;
}

static int call_and_return(const Callee* callee, TVMValue* values, int* codes, int count,
                           TVMRetValueHandle ret) {
  Owned owned = {NULL, NULL};
  FfiAny result;
  TVMValue value;
  int code;
  int rc;
  if (call_from_classic(callee, values, codes, count, &result) != 0) return -1;
  rc = result_to_classic(&result, &value, &code, &owned);
  if (rc == 0 && code != kTVMNullptr) rc = TVMCFuncSetReturn(ret, &value, &code, 1);
  owned_release(&owned);
  bridge_release_any(&result);
  return rc;
}

/* ---- functions ---- */

/* TVMRuntimeCPackedFunc */
static int call_linked(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                       void* link) {
  Callee callee = {((BridgeLink*)link)->inner, NULL, NULL};
  return call_and_return(&callee, args, type_codes, num_args, ret);
}

static void release_linked(void* link) { (void)ffi.object_dec_ref(bridge_link_remove(link)); }

static void retain_function(void* function) { (void)TVMObjectRetain(function); }

int bridge_function_to_classic(FfiObject* function, TVMFunctionHandle* out) {
  BridgeLink* link;
  *out = bridge_link_find(function, retain_function);
  if (*out != NULL) return 0; /* it only shows a classic function */
  link = bridge_link_new(function);
  if (link == NULL) return bridge_fail_memory(sizeof(*link));
  if (TVMFuncCreateFromCFunc(call_linked, link, release_linked, out) != 0) {
    free(link);
    return -1;
  }
  (void)ffi.object_inc_ref(function);
  bridge_link_add(link, *out);
  return 0;
}

/* A C function by its address. */
typedef struct {
  FfiSafeCall address;
  void* self;
  TVMObjectHandle owner; /* keeps both alive; may be NULL */
} Symbol;

/* TVMRuntimeCPackedFunc */
static int call_symbol(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                       void* resource) {
  const Symbol* symbol = resource;
  Callee callee = {NULL, symbol->address, symbol->self};
  return call_and_return(&callee, args, type_codes, num_args, ret);
}

static void release_symbol(void* resource) {
  Symbol* symbol = resource;
  (void)TVMObjectFree(symbol->owner);
  free(symbol);
}

int bridge_symbol_to_classic(FfiSafeCall address, void* self, TVMObjectHandle owner,
                             TVMFunctionHandle* out) {
  Symbol* symbol = malloc(sizeof(*symbol));
  *out = NULL;
  if (symbol == NULL) return bridge_fail_memory(sizeof(*symbol));
  *symbol = (Symbol){address, self, NULL};
  if ((owner != NULL && TVMObjectRetain(owner) != 0) ||
      TVMFuncCreateFromCFunc(call_symbol, symbol, release_symbol, out) != 0) {
    free(symbol);
    return -1;
  }
  symbol->owner = owner;
  return 0;
}

/* ---- a function without a handle ---- */

/* A library's function cannot return text; it returns a String. */
static int text_to_string(TVMValue text, TVMValue* out, int* out_code) {
  TVMFunctionHandle maker = NULL;
  int code = kTVMStr;
  int rc;
  if (TVMFuncGetGlobal("runtime.String", &maker) != 0) return -1;
  if (maker == NULL) return bridge_fail("there is no classic function runtime.String");
  rc = TVMFuncCall(maker, &text, &code, 1, out, out_code);
  (void)TVMFuncFree(maker);
  return rc;
}

/* Hands a result over that `owned` holds a reference of. */
static int return_owned(TVMValue value, int code, Owned* owned, TVMValue* out, int* out_code) {
  int rc = 0;
  if (code == kTVMStr) {
    rc = text_to_string(value, out, out_code);
    owned_release(owned);
  } else if (code == kTVMBytes) {
    owned_release(owned);
    rc = bridge_fail("TypeError: a library's function cannot return bytes: nobody would own them");
  } else {
    *out = value;
    *out_code = code;
  }
  return rc;
}

int bridge_packed_call(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                       void* resource_handle) {
  Callee callee = {resource_handle, NULL, NULL};
  Owned owned = {NULL, NULL};
  FfiAny result;
  TVMValue value;
  int code;
  int rc;
  if (resource_handle == NULL) return bridge_fail("the handle of a tvm-ffi function is NULL");
  if (call_from_classic(&callee, args, type_codes, num_args, &result) != 0) return -1;
  rc = result_to_classic(&result, &value, &code, &owned);
  if (rc == 0) {
    rc = return_owned(value, code, &owned, out, out_code);
  } else {
    owned_release(&owned);
  }
  bridge_release_any(&result);
  return rc;
}
