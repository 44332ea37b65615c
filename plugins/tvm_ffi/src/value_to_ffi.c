/* Conversion of classic values to tvm-ffi ones. Data that the tvm-ffi side can read directly is
 * borrowed; everything else is made for the duration of the call. */
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "library.h"
#include "modules.h"
#include "sdk/base.h"
#include "sdk/values.h"
#include "tensor.h"
#include "values.h"
#include "wrappers.h"

/* ---- pointers, tensors and functions ---- */

static void release_object(void* object) { ffi_release(object); }

/* For results of calls; arguments are borrowed and need no release. */
static void release_value(TVMValue value, int code) {
  tvmrt__release(tvmrt__value_object(&value, code));
}

/* NULL is None on both sides. */
static int pointer_to_ffi(void* pointer, int32_t type_index, FfiAny* any) {
  any->type_index = pointer != NULL ? type_index : kFfiNone;
  any->u.v_ptr = pointer;
  return 0;
}

/* *owned releases the value's reference, if it has one, after the call. */
static int keep(const FfiAny* any, Owned* owned) {
  if (any->type_index >= kFfiFirstObject) *owned = (Owned){release_object, any->u.v_obj};
  return 0;
}

/* *owned releases the given reference after the call. */
static int show_object(FfiObject* object, FfiAny* any, Owned* owned) {
  any->type_index = object->type_index;
  any->u.v_obj = object;
  return keep(any, owned);
}

/* A bare DLTensor would be enough for C++, but Python's wrapper of it cannot be exported. */
static int view_to_ffi(const DLTensor* view, FfiAny* any, Owned* owned) {
  if (bridge_borrow_to_ffi(view, &any->u.v_obj, owned) != 0) return -1;
  any->type_index = any->u.v_obj->type_index;
  return 0;
}

/* A handle that is not NULL. */
static int handle_to_ffi(void* handle, int code, FfiAny* any, Owned* owned) {
  FfiObject* object = NULL;
  int rc;
  if (code == kTVMNDArrayHandle) {
    rc = bridge_tensor_to_ffi(handle, &object);
  } else if (code == kTVMPackedFuncHandle) {
    rc = bridge_function_to_ffi(handle, &object);
  } else {
    rc = bridge_module_to_ffi(handle, &object);
  }
  return rc != 0 ? -1 : show_object(object, any, owned);
}

/* ---- objects ---- */

/* Classic objects that represent a plain value, with the functions that read it. Identified by type
 * key, the only type information for C. Borrowed; NULL for other types. */
static const char* reader_of(const char* type_key) {
  if (strcmp(type_key, "runtime.String") == 0) return "runtime.GetFFIString";
  if (strcmp(type_key, "runtime.BoxBool") == 0) return "runtime.UnBoxBool";
  if (strncmp(type_key, "runtime.Box", 11) == 0) return "runtime.Unbox";
  return NULL;
}

/* Call a reader of an object, which keeps the runtime's object layouts private. *value is owned. */
static int call_reader(const char* name, TVMObjectHandle object, TVMValue* value, int* code) {
  TVMValue arg = {.v_handle = object};
  int arg_code = kTVMObjectHandle;
  *code = kTVMNullptr;
  value->v_int64 = 0;
  return tvmrt__global_call(name, &arg, &arg_code, 1, value, code);
}

/* A classic container: the functions that read it, and the constructor of its counterpart. */
typedef struct {
  const char *type_key, *counter, *getter, *maker;
} Container;

static const Container kContainers[] = {
    {"Array", "runtime.ArraySize", "runtime.ArrayGetItem", "ffi.Array"},
    {"runtime.ADT", "runtime.GetADTSize", "runtime.GetADTFields", "ffi.Array"},
    {"runtime.ShapeTuple", "runtime.GetShapeTupleSize", "runtime.GetShapeTupleElem", "ffi.Shape"},
};

static const Container* find_container(const char* type_key) {
  for (size_t i = 0; i < sizeof(kContainers) / sizeof(kContainers[0]); i++) {
    if (strcmp(kContainers[i].type_key, type_key) == 0) return &kContainers[i];
  }
  return NULL;
}

/* Fill a row with owned values. On failure it holds those before the failing one. */
static int read_elements(const Container* from, TVMObjectHandle object, FfiAny* row, int count) {
  for (int i = 0; i < count; i++) {
    TVMValue args[2] = {{.v_handle = object}, {.v_int64 = i}};
    int codes[2] = {kTVMObjectHandle, kTVMArgInt};
    TVMValue value = {.v_int64 = 0};
    int code = kTVMNullptr;
    if (tvmrt__global_call(from->getter, args, codes, 2, &value, &code) != 0 ||
        bridge_return_to_ffi(value, code, &row[i]) != 0) {
      return -1;
    }
  }
  return 0;
}

/* Elements are converted one by one; the constructor retains or copies them. */
static int elements_to_ffi(const Container* from, TVMObjectHandle object, FfiAny* out) {
  TVMValue size;
  FfiAny* row;
  int code, count, rc;
  if (call_reader(from->counter, object, &size, &code) != 0) return -1;
  count = (int)size.v_int64; /* runtime containers are made by calls, whose arguments are counted
                                in an int */
  row = tvmrt__calloc((size_t)count + 1, sizeof(*row));
  if (row == NULL) return -1;
  rc = read_elements(from, object, row, count);
  if (rc == 0) rc = bridge_call_ffi(from->maker, row, count, out);
  for (int i = 0; i < count; i++) ffi_release_any(&row[i]);
  free(row);
  return rc;
}

/* *out is owned. */
static int container_to_ffi(const Container* from, TVMObjectHandle object, FfiAny* out) {
  int rc;
  if (bridge_container_depth >= MAX_CONTAINER_DEPTH) {
    return tvmrt__fail_value("containers are nested more than %d deep", MAX_CONTAINER_DEPTH);
  }
  bridge_container_depth++;
  rc = elements_to_ffi(from, object, out);
  bridge_container_depth--;
  return rc;
}

/* *out is owned. Plain values first, then containers, identified by type key. */
static int object_to_ffi(TVMObjectHandle object, FfiAny* out) {
  unsigned type_index;
  char* type_key;
  const char* reader;
  const Container* container;
  TVMValue value;
  int code;
  int rc = 0;
  if (object == NULL) return pointer_to_ffi(NULL, kFfiNone, out);
  if (TVMObjectGetTypeIndex(object, &type_index) != 0) return -1;
  if (TVMObjectTypeIndex2Key(type_index, &type_key) != 0) return -1;
  reader = reader_of(type_key);
  container = find_container(type_key);
  if (reader == NULL && container == NULL) {
    rc = tvmrt__fail_type("an object of type %s has no equivalent in tvm-ffi", type_key);
  }
  free(type_key);
  if (container != NULL) return container_to_ffi(container, object, out);
  if (rc != 0 || call_reader(reader, object, &value, &code) != 0) return -1;
  return bridge_return_to_ffi(value, code, out);
}

/* ---- any value ---- */

/* Inverse of bridge_value_to_classic(). All bytes of the value are written; unused ones are
 * zero. */
int bridge_value_to_ffi(TVMValue value, int code, FfiAny* any, Owned* owned) {
  owned->release = NULL;
  *any = (FfiAny){.type_index = kFfiNone};
  switch (code) {
    case kTVMNullptr:
      return 0;
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
      return value.v_handle == NULL ? 0 : view_to_ffi(value.v_handle, any, owned);
    case kTVMNDArrayHandle:
    case kTVMPackedFuncHandle:
    case kTVMModuleHandle:
      return value.v_handle == NULL ? 0 : handle_to_ffi(value.v_handle, code, any, owned);
    case kTVMObjectHandle:
      return object_to_ffi(value.v_handle, any) != 0 ? -1 : keep(any, owned);
    default:
      return tvmrt__fail_type("a value with type code %d has no equivalent in tvm-ffi", code);
  }
}

/* ---- results ---- */

/* Copy text and bytes, which belong to the runtime until the next call. */
static int copy_text(TVMValue value, int code, FfiAny* result) {
  TVMByteArray bytes = {value.v_str, 0};
  int rc;
  *result = (FfiAny){.type_index = kFfiNone};
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
  if (code == kTVMDLTensorHandle) {
    return tvmrt__fail_type("a function returned a tensor view, which has no owner");
  }
  rc = bridge_value_to_ffi(value, code, &any, &owned);
  release_value(value, code);
  if (rc == 0) {
    *result = any; /* takes over the reference in `owned` */
  } else {
    owned_release(&owned);
  }
  return rc;
}

/* ---- arguments ---- */

/* Released in reverse order, since later arguments may hold earlier ones. */
void bridge_free_ffi_args(FfiArgs* args) {
  for (int i = args->count; i > 0; i--) owned_release(&args->owned[i - 1]);
  if (args->values != args->inline_values) free(args->values);
}

/* One block, the type of the largest alignment first. */
static int allocate_args(FfiArgs* args, int count) {
  args->values = args->inline_values;
  args->owned = args->inline_owned;
  args->count = 0;
  if (count <= INLINE_ARGS) return 0;
  args->values = tvmrt__calloc((size_t)count, sizeof(FfiAny) + sizeof(Owned));
  if (args->values == NULL) return -1;
  args->owned = (Owned*)(void*)(args->values + count);
  return 0;
}

int bridge_args_to_ffi(const TVMValue* values, const int* codes, int count, FfiArgs* out) {
  if (allocate_args(out, count) != 0) return -1;
  /* a callee that reads a missing argument finds None */
  out->inline_values[0] = (FfiAny){.type_index = kFfiNone};
  for (; out->count < count; out->count++) {
    const int i = out->count;
    if (bridge_value_to_ffi(values[i], codes[i], &out->values[i], &out->owned[i]) == 0) continue;
    bridge_free_ffi_args(out);
    return -1;
  }
  return 0;
}
