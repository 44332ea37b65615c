/* Constructors of wrapper functions, registered as global functions of both sides for Python and C.
 *
 * Addresses are opaque pointers and are trusted. The result owns the wrapper. */
#include "register.h"

#include <string.h>

#include "convert.h"
#include "error.h"
#include "raise.h"

enum { MAX_MAKER_ARGS = 3 };

/* ---- for tvm-ffi callers ---- */

/* Get a pointer, or NULL for None; -1 for anything else. */
static int ffi_pointer(const FfiAny* args, int32_t num_args, int32_t index, void** out) {
  int given = index < num_args && args[index].type_index == kFfiOpaquePtr;
  *out = given ? args[index].u.v_ptr : NULL;
  return given || (index < num_args && args[index].type_index == kFfiNone) ? 0 : -1;
}

/* The result takes over the reference. */
static int give_function(FfiObject* made, FfiAny* result) {
  result->type_index = made->type_index;
  result->small_size = 0;
  result->u.v_obj = made;
  return 0;
}

/* The handle stays the caller's; the wrapper takes its own reference. */
static int from_packed_func(void* self, const FfiAny* args, int32_t num_args, FfiAny* result) {
  FfiObject* made;
  void* handle;
  (void)self;
  if (num_args != 1 || ffi_pointer(args, num_args, 0, &handle) != 0 || handle == NULL) {
    (void)bridge_fail("TypeError: tvmrt.from_packed_func takes the address of a function handle");
    return bridge_raise();
  }
  if (bridge_function_to_ffi(handle, &made) != 0) return bridge_raise();
  return give_function(made, result);
}

/* (address, resource or None, owner or None) -> Function. The owner keeps them alive. */
static int from_c_packed_func(void* self, const FfiAny* args, int32_t num_args, FfiAny* result) {
  FfiObject *made, *owner;
  void *address, *resource;
  TVMCPackedFunc function;
  (void)self;
  if (num_args != MAX_MAKER_ARGS || ffi_pointer(args, num_args, 0, &address) != 0 ||
      ffi_pointer(args, num_args, 1, &resource) != 0 || address == NULL) {
    (void)bridge_fail(
        "TypeError: tvmrt.from_c_packed_func expects a function address, a resource address or "
        "None, and an owner or None");
    return bridge_raise();
  }
  memcpy(&function, &address, sizeof(function)); /* ISO C has no such conversion */
  owner = args[2].type_index >= kFfiFirstObject ? args[2].u.v_obj : NULL;
  if (bridge_symbol_to_ffi(function, resource, owner, &made) != 0) return bridge_raise();
  return give_function(made, result);
}

/* Replaces a function of that name, since a library may be joined twice. */
static int register_ffi(const char* name, FfiSafeCall maker) {
  TVMByteArray bytes = {name, strlen(name)};
  void* function = NULL;
  int rc;
  if (ffi.function_create(NULL, maker, NULL, &function) != 0) return bridge_catch();
  rc = ffi.function_set_global(&bytes, function, 1);
  if (rc != 0) rc = bridge_catch();
  ffi_release(function);
  return rc;
}

/* ---- for classic callers ---- */

/* Get a pointer, or NULL for None; -1 for anything else. */
static int classic_pointer(const TVMValue* args, const int* codes, int num_args, int index,
                           void** out) {
  int given = index < num_args && codes[index] == kTVMOpaqueHandle;
  *out = given ? args[index].v_handle : NULL;
  return given || (index < num_args && codes[index] == kTVMNullptr) ? 0 : -1;
}

/* The result takes its own reference. */
static int return_function(TVMFunctionHandle made, TVMRetValueHandle ret) {
  TVMValue value = {.v_handle = made};
  int code = kTVMPackedFuncHandle;
  int rc = TVMCFuncSetReturn(ret, &value, &code, 1);
  (void)TVMFuncFree(made);
  return rc;
}

/* (address of a tvm-ffi Function) -> classic function that retains it. */
static int from_function(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                         void* resource) {
  TVMFunctionHandle made;
  void* function;
  (void)resource;
  if (num_args != 1 || classic_pointer(args, codes, num_args, 0, &function) != 0 ||
      function == NULL || ((FfiObject*)function)->type_index != kFfiFunction) {
    return bridge_fail(
        "TypeError: tvmrt.tvm_ffi.from_function takes the address of a tvm-ffi Function");
  }
  if (bridge_function_to_classic(function, &made) != 0) return -1;
  return return_function(made, ret);
}

/* Whether a value is a reference-counted object; anything else means no owner. */
static int is_object(int code) {
  return code == kTVMObjectHandle || code == kTVMModuleHandle || code == kTVMPackedFuncHandle;
}

/* (address, handle or None, owner or None) -> classic function. The owner keeps them alive. */
static int from_safe_call(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                          void* resource) {
  TVMFunctionHandle made;
  TVMObjectHandle owner;
  FfiSafeCall function;
  void *address, *self;
  (void)resource;
  if (num_args != MAX_MAKER_ARGS || classic_pointer(args, codes, num_args, 0, &address) != 0 ||
      classic_pointer(args, codes, num_args, 1, &self) != 0 || address == NULL) {
    return bridge_fail(
        "TypeError: tvmrt.tvm_ffi.from_safe_call expects a safe-call address, a handle address or "
        "None, and an owner or None");
  }
  memcpy(&function, &address, sizeof(function));
  owner = is_object(codes[2]) ? args[2].v_handle : NULL;
  if (bridge_symbol_to_classic(function, self, owner, &made) != 0) return -1;
  return return_function(made, ret);
}

/* The registry retains the function. */
int bridge_register_classic(const char* name, TVMRuntimeCPackedFunc maker) {
  TVMFunctionHandle function;
  int rc;
  if (TVMFuncCreateFromCFunc(maker, NULL, NULL, &function) != 0) return -1;
  rc = TVMFuncRegisterGlobal(name, function, 1);
  (void)TVMFuncFree(function);
  return rc;
}

/* Requires libtvm_ffi, which contains the registry. */
int bridge_register_ffi_makers(void) {
  if (register_ffi("tvmrt.from_packed_func", from_packed_func) != 0) return -1;
  return register_ffi("tvmrt.from_c_packed_func", from_c_packed_func);
}

/* Called once, when the runtime loads this library. */
int bridge_register_makers(void) {
  if (bridge_register_classic("tvmrt.tvm_ffi.from_function", from_function) != 0) return -1;
  return bridge_register_classic("tvmrt.tvm_ffi.from_safe_call", from_safe_call);
}
