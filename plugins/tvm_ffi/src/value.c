/* Conversion of single values. Data that the other side can read directly is borrowed; everything
 * else is made for the duration of the call. */
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "error.h"
#include "raise.h"
#include "tensor.h"

/* ---- releasing ---- */

static void release_function(void* function) { (void)TVMFuncFree(function); }
static void release_array(void* array) { (void)TVMArrayFree(array); }
static void release_object(void* object) { ffi_release(object); }

/* Values below the first object index own nothing. */
void bridge_release_any(FfiAny* any) {
  if (any->type_index >= kFfiFirstObject) release_object(any->u.v_obj);
}

/* For results of calls; arguments are borrowed and need no release. */
void bridge_release_value(TVMValue value, int code) {
  switch (code) {
    case kTVMNDArrayHandle:
      release_array(value.v_handle);
      break;
    case kTVMPackedFuncHandle:
    case kTVMModuleHandle:
    case kTVMObjectHandle:
      (void)TVMObjectFree(value.v_handle);
      break;
    default:
      break;
  }
}

/* ---- tvm-ffi to classic ---- */

/* NULL is None on both sides. */
static int pointer_to_classic(void* pointer, int code, TVMValue* value, int* out_code) {
  value->v_handle = pointer;
  *out_code = pointer != NULL ? code : kTVMNullptr;
  return 0;
}

/* Borrowed from the object or the value, which outlive the call. */
static int text_to_classic(const char* text, size_t size, TVMValue* value, int* code) {
  if (memchr(text, '\0', size) != NULL) {
    return bridge_fail("ValueError: a string that contains NUL cannot be passed; pass bytes");
  }
  value->v_str = text; /* tvm-ffi texts have a terminating NUL that is not counted */
  *code = kTVMStr;
  return 0;
}

/* The bytes stay in the caller's value, which outlives the call; only the TVMByteArray is
 * allocated. */
static int small_bytes_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned) {
  TVMByteArray* bytes = malloc(sizeof(*bytes));
  if (bytes == NULL) return bridge_fail_memory(sizeof(*bytes));
  bytes->data = any->u.v_bytes;
  bytes->size = any->small_size;
  *owned = (Owned){free, bytes};
  value->v_handle = bytes;
  *code = kTVMBytes;
  return 0;
}

/* The struct is made for the call without strides, which the classic side may not support; the
 * memory is the caller's. */
static int view_to_classic(const DLTensor* tensor, TVMValue* value, int* code, Owned* owned) {
  DLTensor* view;
  if (tensor == NULL) return pointer_to_classic(NULL, kTVMDLTensorHandle, value, code);
  if (bridge_view_to_classic(tensor, &view) != 0) return -1;
  *owned = (Owned){free, view};
  return pointer_to_classic(view, kTVMDLTensorHandle, value, code);
}

/* A tensor with insufficient alignment for an NDArray is passed as a view. */
static int tensor_to_classic(FfiObject* tensor, TVMValue* value, int* code, Owned* owned) {
  TVMArrayHandle array;
  if (bridge_tensor_to_classic(tensor, &array) != 0) return -1;
  if (array == NULL) return view_to_classic(ffi_body(tensor), value, code, owned);
  *owned = (Owned){release_array, array};
  return pointer_to_classic(array, kTVMNDArrayHandle, value, code);
}

/* *owned releases the wrapper after the call; a callee that keeps the function retains it. */
static int function_to_classic(FfiObject* object, TVMValue* value, int* code, Owned* owned) {
  TVMFunctionHandle function;
  if (bridge_function_to_classic(object, &function) != 0) return -1;
  *owned = (Owned){release_function, function};
  return pointer_to_classic(function, kTVMPackedFuncHandle, value, code);
}

/* Returns -1. A type's name may have any length and no NUL. */
static int no_classic_counterpart(int32_t type_index) {
  const FfiTypeInfoHead* info =
      type_index >= kFfiFirstObject ? ffi.get_type_info(type_index) : NULL;
  if (info == NULL) {
    return bridge_fail(
        "TypeError: a tvm-ffi value with type index %d has no equivalent in TVM's C ABI",
        (int)type_index);
  }
  return bridge_fail("TypeError: a tvm-ffi object of type %.*s has no equivalent in TVM's C ABI",
                     info->type_key.size > 200 ? 200 : (int)info->type_key.size,
                     info->type_key.data);
}

/* Adapter for Owned; containers and modules are plain objects. */
static void release_classic(void* object) { (void)TVMObjectFree(object); }

/* Converted element by element, since the two sides share no container type. */
static int container_to_classic(const FfiObject* object, TVMValue* value, int* code, Owned* owned) {
  if (bridge_container_to_classic(object, &value->v_handle) != 0) return -1;
  *owned = (Owned){release_classic, value->v_handle};
  *code = kTVMObjectHandle;
  return 0;
}

/* Made for the call; a callee that keeps it retains it. */
static int module_to_classic(FfiObject* object, TVMValue* value, int* code, Owned* owned) {
  if (bridge_module_to_classic(object, &value->v_handle) != 0) return -1;
  *owned = (Owned){release_classic, value->v_handle};
  *code = kTVMModuleHandle;
  return 0;
}

/* *owned is set if something was made. */
static int object_to_classic(FfiObject* object, TVMValue* value, int* code, Owned* owned) {
  const TVMByteArray* bytes = ffi_body(object);
  switch (object->type_index) {
    case kFfiStr:
      return text_to_classic(bytes->data, bytes->size, value, code);
    case kFfiBytes:
      return pointer_to_classic((void*)bytes, kTVMBytes, value, code);
    case kFfiFunction:
      return function_to_classic(object, value, code, owned);
    case kFfiTensor:
      return tensor_to_classic(object, value, code, owned);
    case kFfiModule:
      return module_to_classic(object, value, code, owned);
    default:
      if (bridge_is_container(object)) return container_to_classic(object, value, code, owned);
      return no_classic_counterpart(object->type_index);
  }
}

/* An argument that the callee may move from. It is only passed; the object stays the caller's. */
static int movable_to_classic(FfiObject* const* slot, TVMValue* value, int* code, Owned* owned) {
  if (slot == NULL || *slot == NULL) return pointer_to_classic(NULL, kTVMNullptr, value, code);
  return object_to_classic(*slot, value, code, owned);
}

/* *owned must be released after the call, also on failure, when it is empty. */
int bridge_value_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned) {
  owned->release = NULL;
  if (any->type_index >= kFfiFirstObject) {
    return object_to_classic(any->u.v_obj, value, code, owned);
  }
  switch (any->type_index) {
    case kFfiNone:
      return pointer_to_classic(NULL, kTVMNullptr, value, code);
    case kFfiInt:
      value->v_int64 = any->u.v_int64;
      *code = kTVMArgInt;
      return 0;
    case kFfiBool:
      value->v_int64 = any->u.v_int64 != 0;
      *code = kTVMArgBool;
      return 0;
    case kFfiFloat:
      value->v_float64 = any->u.v_float64;
      *code = kTVMArgFloat;
      return 0;
    case kFfiOpaquePtr:
      return pointer_to_classic(any->u.v_ptr, kTVMOpaqueHandle, value, code);
    case kFfiDataType:
      *code = kTVMDataType;
      return bridge_dtype_to_classic(any->u.v_dtype, &value->v_type);
    case kFfiDevice:
      value->v_device = any->u.v_device;
      *code = kDLDevice;
      return 0;
    case kFfiDLTensorPtr:
      return view_to_classic(any->u.v_ptr, value, code, owned);
    case kFfiRawStr:
      return pointer_to_classic(any->u.v_ptr, kTVMStr, value, code);
    case kFfiByteArrayPtr:
      return pointer_to_classic(any->u.v_ptr, kTVMBytes, value, code);
    case kFfiSmallStr:
      return text_to_classic(any->u.v_bytes, any->small_size, value, code);
    case kFfiSmallBytes:
      return small_bytes_to_classic(any, value, code, owned);
    case kFfiObjectRValueRef:
      return movable_to_classic(any->u.v_ptr, value, code, owned);
    default:
      return no_classic_counterpart(any->type_index);
  }
}

/* ---- classic to tvm-ffi ---- */

/* NULL is None on both sides. */
static int pointer_to_ffi(void* pointer, int32_t type_index, FfiAny* any) {
  any->type_index = pointer != NULL ? type_index : kFfiNone;
  any->u.v_ptr = pointer;
  return 0;
}

/* *owned releases the given reference after the call. */
static int show_object(FfiObject* object, FfiAny* any, Owned* owned) {
  *owned = (Owned){release_object, object};
  any->type_index = object->type_index;
  any->u.v_obj = object;
  return 0;
}

/* The Tensor retains the NDArray. */
static int array_to_ffi(TVMArrayHandle array, FfiAny* any, Owned* owned) {
  FfiObject* tensor;
  if (array == NULL) return pointer_to_ffi(NULL, kFfiNone, any);
  return bridge_tensor_to_ffi(array, &tensor) != 0 ? -1 : show_object(tensor, any, owned);
}

/* A bare DLTensor would be enough for C++, but Python's wrapper of it cannot be exported. */
static int view_to_ffi(const DLTensor* view, FfiAny* any, Owned* owned) {
  if (view == NULL) return pointer_to_ffi(NULL, kFfiNone, any);
  if (bridge_borrow_to_ffi(view, &any->u.v_obj, owned) != 0) return -1;
  any->type_index = any->u.v_obj->type_index;
  return 0;
}

/* A wrapped tvm-ffi function is unwrapped. */
static int function_to_ffi(TVMFunctionHandle function, FfiAny* any, Owned* owned) {
  FfiObject* object;
  if (function == NULL) return pointer_to_ffi(NULL, kFfiNone, any);
  return bridge_function_to_ffi(function, &object) != 0 ? -1 : show_object(object, any, owned);
}

/* Converted to a Function from names to functions, since tvm-ffi modules can be made only in
 * C++. */
static int module_to_ffi(TVMModuleHandle module, FfiAny* any, Owned* owned) {
  FfiObject* object;
  if (module == NULL) return pointer_to_ffi(NULL, kFfiNone, any);
  return bridge_module_to_ffi(module, &object) != 0 ? -1 : show_object(object, any, owned);
}

/* Classic objects that represent a plain value, with the functions that read it. Identified by type
 * key, the only type information for C. Borrowed; NULL for other types. */
static const char* reader_of(const char* type_key) {
  if (strcmp(type_key, "runtime.String") == 0) return "runtime.GetFFIString";
  if (strcmp(type_key, "runtime.BoxBool") == 0) return "runtime.UnBoxBool";
  if (strncmp(type_key, "runtime.Box", 11) == 0) return "runtime.Unbox";
  return NULL;
}

/* Looked up each time, since functions of the registry may be replaced. */
int bridge_call_global(const char* name, TVMValue* values, int* codes, size_t count,
                       TVMValue* value, int* code) {
  TVMFunctionHandle function = NULL;
  int rc;
  if (TVMFuncGetGlobal(name, &function) != 0) return -1;
  if (function == NULL) return bridge_fail("there is no global function %s", name);
  rc = TVMFuncCall(function, values, codes, (int)count, value, code);
  (void)TVMFuncFree(function);
  return rc;
}

/* Uses the runtime's functions, so that its object layouts stay private. */
static int call_reader(const char* name, TVMObjectHandle object, TVMValue* value, int* code) {
  TVMValue arg = {.v_handle = object};
  int arg_code = kTVMObjectHandle;
  return bridge_call_global(name, &arg, &arg_code, 1, value, code);
}

/* A text owned by the runtime until the next call is copied. */
static int plain_to_ffi(TVMValue value, int code, FfiAny* any, Owned* owned) {
  TVMByteArray bytes;
  if (code != kTVMStr) return bridge_value_to_ffi(value, code, any, owned);
  bytes = (TVMByteArray){value.v_str, strlen(value.v_str)};
  if (ffi.string_from_bytes(&bytes, any) != 0) return bridge_catch();
  if (any->type_index >= kFfiFirstObject) *owned = (Owned){release_object, any->u.v_obj};
  return 0;
}

/* Plain values first, then containers, identified by type key. */
static int object_to_ffi(TVMObjectHandle object, FfiAny* any, Owned* owned) {
  unsigned type_index;
  char* type_key;
  const char* reader;
  FfiObject* made = NULL;
  TVMValue value;
  int code;
  if (object == NULL) return pointer_to_ffi(NULL, kFfiNone, any);
  if (TVMObjectGetTypeIndex(object, &type_index) != 0) return -1;
  if (TVMObjectTypeIndex2Key(type_index, &type_key) != 0) return -1;
  reader = reader_of(type_key);
  if (reader == NULL && bridge_container_to_ffi(object, type_key, &made) != 0) {
    free(type_key);
    return -1;
  }
  if (reader == NULL && made == NULL) {
    (void)bridge_fail("TypeError: an object of type %s has no equivalent in tvm-ffi", type_key);
  }
  free(type_key);
  if (made != NULL) return show_object(made, any, owned);
  if (reader == NULL || call_reader(reader, object, &value, &code) != 0) return -1;
  /* lint: call_reader() sets both where it gives 0 */
  return plain_to_ffi(value, code, any, owned);
}

/* Moves the argument, converts it and releases the reference: the converted value has its own. */
static int movable_to_ffi(TVMValue value, FfiAny* any, Owned* owned) {
  int code = kTVMObjectRValueRefArg;
  int rc;
  if (TVMCbArgToReturn(&value, &code) != 0) return -1;
  rc = bridge_value_to_ffi(value, code, any, owned);
  bridge_release_value(value, code);
  return rc;
}

/* Inverse of bridge_value_to_classic(). All bytes of the value are written; unused ones are
 * zero. */
int bridge_value_to_ffi(TVMValue value, int code, FfiAny* any, Owned* owned) {
  owned->release = NULL;
  any->small_size = 0;
  any->u.v_int64 = 0;
  switch (code) {
    case kTVMNullptr:
      return pointer_to_ffi(NULL, kFfiNone, any);
    case kTVMArgInt:
      any->type_index = kFfiInt;
      any->u.v_int64 = value.v_int64;
      return 0;
    case kTVMArgBool:
      any->type_index = kFfiBool;
      any->u.v_int64 = value.v_int64 != 0;
      return 0;
    case kTVMArgFloat:
      any->type_index = kFfiFloat;
      any->u.v_float64 = value.v_float64;
      return 0;
    case kTVMOpaqueHandle:
      return pointer_to_ffi(value.v_handle, kFfiOpaquePtr, any);
    case kTVMDataType:
      any->type_index = kFfiDataType;
      any->u.v_dtype = bridge_dtype_to_ffi(value.v_type);
      return 0;
    case kDLDevice:
      any->type_index = kFfiDevice;
      any->u.v_device = value.v_device;
      return 0;
    case kTVMStr:
      return pointer_to_ffi((void*)value.v_str, kFfiRawStr, any);
    case kTVMBytes:
      return pointer_to_ffi(value.v_handle, kFfiByteArrayPtr, any);
    case kTVMDLTensorHandle:
      return view_to_ffi(value.v_handle, any, owned);
    case kTVMNDArrayHandle:
      return array_to_ffi(value.v_handle, any, owned);
    case kTVMPackedFuncHandle:
      return function_to_ffi(value.v_handle, any, owned);
    case kTVMObjectHandle:
      return object_to_ffi(value.v_handle, any, owned);
    case kTVMObjectRValueRefArg:
      return movable_to_ffi(value, any, owned);
    case kTVMModuleHandle:
      return module_to_ffi(value.v_handle, any, owned);
    default:
      return bridge_fail("TypeError: a value with the unknown type code %d was passed", code);
  }
}
