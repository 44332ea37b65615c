/* Conversion of tvm-ffi values to classic ones. Data that the classic side can read directly is
 * borrowed; everything else is made for the duration of the call. */
#include <stdlib.h>
#include <string.h>

#include "modules.h"
#include "sdk/base.h"
#include "sdk/values.h"
#include "tensor.h"
#include "values.h"
#include "wrappers.h"

_Thread_local int bridge_container_depth;

/* ---- values and objects ---- */

static void release_array(void* array) { (void)TVMArrayFree(array); }
static void release_classic(void* object) { (void)TVMObjectFree(object); }

/* NULL is None on both sides. */
static int pointer_to_classic(void* pointer, int code, TVMValue* value, int* out_code) {
  value->v_handle = pointer;
  *out_code = pointer != NULL ? code : kTVMNullptr;
  return 0;
}

/* *owned releases the object after the call; a callee that keeps it retains it. */
static int object_made(void* object, int code, TVMValue* value, int* out_code, Owned* owned) {
  *owned = (Owned){code == kTVMNDArrayHandle ? release_array : release_classic, object};
  return pointer_to_classic(object, code, value, out_code);
}

/* Borrowed from the object or the value, which outlive the call. */
static int text_to_classic(const char* text, size_t size, TVMValue* value, int* code) {
  if (memchr(text, '\0', size) != NULL) {
    return tvmrt__fail_value("a string that contains NUL cannot be passed; pass bytes");
  }
  value->v_str = text; /* tvm-ffi texts have a terminating NUL that is not counted */
  *code = kTVMStr;
  return 0;
}

/* The bytes stay in the caller's value, which outlives the call; only the TVMByteArray is
 * allocated. */
static int small_bytes_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned) {
  TVMByteArray* bytes = tvmrt__alloc(sizeof(*bytes));
  if (bytes == NULL) return -1;
  *bytes = (TVMByteArray){any->u.v_bytes, any->small_size};
  *owned = (Owned){free, bytes};
  return pointer_to_classic(bytes, kTVMBytes, value, code);
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
  return object_made(array, kTVMNDArrayHandle, value, code, owned);
}

/* A view has no owner: what outlives the call is copied. */
int bridge_copy_view(TVMValue* value, int* code, Owned* owned) {
  TVMArrayHandle array;
  if (bridge_copy_to_classic(value->v_handle, &array) != 0) return -1;
  owned_release(owned);
  return object_made(array, kTVMNDArrayHandle, value, code, owned);
}

/* A type's name may have any length and no NUL. */
static int no_classic_counterpart(int32_t type_index) {
  const FfiTypeInfoHead* info =
      type_index >= kFfiFirstObject ? ffi.get_type_info(type_index) : NULL;
  if (info == NULL) {
    return tvmrt__fail_type("a tvm-ffi value with type index %d has no equivalent in TVM's C ABI",
                            (int)type_index);
  }
  return tvmrt__fail_type("a tvm-ffi object of type %.*s has no equivalent in TVM's C ABI",
                          info->type_key.size > 200 ? 200 : (int)info->type_key.size,
                          info->type_key.data);
}

/* ---- containers ---- */

/* Start of an Array and of a List. */
typedef struct {
  const FfiAny* data;
  int64_t size;
} FfiSeq;

typedef struct {
  const int64_t* data;
  size_t size;
} FfiShape;

/* Call a constructor of the classic side with converted elements. It copies or retains them, so they
 * are released in any case. */
static int make_container(const char* maker, const FfiAny* row, uint64_t count,
                          TVMObjectHandle* out) {
  ClassicArgs args;
  TVMValue made;
  int code = kTVMNullptr;
  int rc = 0;
  if (count > INT32_MAX) return tvmrt__fail_value("a container has more than 2^31 values");
  if (bridge_args_to_classic(row, (int)count, &args) != 0) return -1;
  for (int i = 0; rc == 0 && i < args.count; i++) {
    if (args.codes[i] != kTVMDLTensorHandle) continue;
    rc = bridge_copy_view(&args.values[i], &args.codes[i], &args.owned[i]);
  }
  if (rc == 0) rc = tvmrt__global_call(maker, args.values, args.codes, args.count, &made, &code);
  bridge_free_classic_args(&args);
  if (rc == 0) *out = made.v_handle;
  return rc;
}

static int shape_to_classic(const FfiShape* from, TVMObjectHandle* out) {
  FfiAny* row = tvmrt__calloc(from->size + 1, sizeof(*row));
  int rc;
  if (row == NULL) return -1;
  for (size_t i = 0; i < from->size; i++) {
    row[i].type_index = kFfiInt;
    row[i].u.v_int64 = from->data[i];
  }
  rc = make_container("runtime.ShapeTuple", row, from->size, out);
  free(row);
  return rc;
}

/* Elements are converted one by one; the result is independent of the source. */
static int container_to_classic(FfiObject* object, TVMValue* value, int* code, Owned* owned) {
  const void* body = ffi_body(object);
  TVMObjectHandle made = NULL;
  int rc;
  if (bridge_container_depth >= MAX_CONTAINER_DEPTH) {
    return tvmrt__fail_value("containers are nested more than %d deep", MAX_CONTAINER_DEPTH);
  }
  bridge_container_depth++;
  if (object->type_index == kFfiShape) {
    rc = shape_to_classic(body, &made);
  } else {
    const FfiSeq* elements = body;
    rc = make_container("runtime.Array", elements->data, (uint64_t)elements->size, &made);
  }
  bridge_container_depth--;
  return rc != 0 ? -1 : object_made(made, kTVMObjectHandle, value, code, owned);
}

/* ---- any value ---- */

static int object_to_classic(FfiObject* object, TVMValue* value, int* code, Owned* owned) {
  const TVMByteArray* bytes = ffi_body(object);
  void* made;
  switch (object->type_index) {
    case kFfiStr:
      return text_to_classic(bytes->data, bytes->size, value, code);
    case kFfiBytes:
      return pointer_to_classic((void*)bytes, kTVMBytes, value, code);
    case kFfiFunction:
      if (bridge_function_to_classic(object, &made) != 0) return -1;
      return object_made(made, kTVMPackedFuncHandle, value, code, owned);
    case kFfiTensor:
      return tensor_to_classic(object, value, code, owned);
    case kFfiModule:
      if (bridge_module_to_classic(object, &made) != 0) return -1;
      return object_made(made, kTVMModuleHandle, value, code, owned);
    case kFfiShape:
    case kFfiArray:
    case kFfiList:
      return container_to_classic(object, value, code, owned);
    default:
      return no_classic_counterpart(object->type_index);
  }
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
    default:
      return no_classic_counterpart(any->type_index);
  }
}

/* ---- arguments ---- */

/* Released in reverse order, since later arguments may hold earlier ones. */
void bridge_free_classic_args(ClassicArgs* args) {
  for (int i = args->count; i > 0; i--) owned_release(&args->owned[i - 1]);
  if (args->owned != args->inline_owned) free(args->owned);
}

/* One block, the type of the largest alignment first. */
static int allocate_args(ClassicArgs* args, int count) {
  args->owned = args->inline_owned;
  args->values = args->inline_values;
  args->codes = args->inline_codes;
  args->count = 0;
  if (count <= INLINE_ARGS) return 0;
  args->owned = tvmrt__calloc((size_t)count, sizeof(Owned) + sizeof(TVMValue) + sizeof(int));
  if (args->owned == NULL) return -1;
  args->values = (TVMValue*)(void*)(args->owned + count);
  args->codes = (int*)(void*)(args->values + count);
  return 0;
}

int bridge_args_to_classic(const FfiAny* values, int count, ClassicArgs* out) {
  if (allocate_args(out, count) != 0) return -1;
  for (; out->count < count; out->count++) {
    const int i = out->count;
    if (bridge_value_to_classic(&values[i], &out->values[i], &out->codes[i], &out->owned[i]) == 0)
      continue;
    bridge_free_classic_args(out);
    return -1;
  }
  return 0;
}
