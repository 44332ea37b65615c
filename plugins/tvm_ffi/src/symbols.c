/* libtvm_ffi's exported functions, for libraries that call them in a process without libtvm_ffi.
 *
 * The runtime makes them visible to such libraries, but only if there is no libtvm_ffi. If one is
 * loaded later, libraries still find these functions first. So each function with process-wide
 * state looks for the later library and forwards the call. */
#include <stdio.h>
#include <string.h>

#include "library.h"
#include "objects.h"
#include "raise.h"
#include "sdk/system.h"
#include "stubs.h"
#include "tensor.h"

/* `later`: this function in a libtvm_ffi that was loaded later; NULL if none was. */
#define FIND_LATER(name)                       \
  TVMRT_TYPEOF(&name) later = NULL;            \
  void* symbol_ = bridge_loaded_symbol(#name); \
  memcpy(&later, &symbol_, sizeof(symbol_))

/* Prototypes are tvm-ffi's. */
TVM_DLL void TVMFFIGetVersion(FfiVersion* out);
TVM_DLL int TVMFFIObjectIncRef(void* object);
TVM_DLL int TVMFFIObjectDecRef(void* object);
TVM_DLL int TVMFFIFunctionCreate(void* self, FfiSafeCall call, void (*deleter)(void*), void** out);
TVM_DLL int TVMFFIFunctionCall(void* function, FfiAny* args, int32_t num_args, FfiAny* result);
TVM_DLL int TVMFFIFunctionGetGlobal(const TVMByteArray* name, void** out);
TVM_DLL void TVMFFIErrorMoveFromRaised(void** out);
TVM_DLL void TVMFFIErrorSetRaised(void* error);
TVM_DLL void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
TVM_DLL void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t n);
TVM_DLL int TVMFFIErrorCreate(const TVMByteArray* kind, const TVMByteArray* message,
                              const TVMByteArray* backtrace, void** out);
TVM_DLL int TVMFFIErrorCreateWithCauseAndExtraContext(const TVMByteArray* kind,
                                                      const TVMByteArray* message,
                                                      const TVMByteArray* backtrace, void* cause,
                                                      void* extra, void** out);
TVM_DLL const TVMByteArray* TVMFFIBacktrace(const char* file, int line, const char* function,
                                            int cross_boundary);
TVM_DLL int TVMFFIStringFromByteArray(const TVMByteArray* bytes, FfiAny* out);
TVM_DLL int TVMFFIBytesFromByteArray(const TVMByteArray* bytes, FfiAny* out);
TVM_DLL int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t alignment, int32_t contiguous,
                                   void** out);
TVM_DLL int TVMFFITensorToDLPack(void* tensor, DLManagedTensor** out);
TVM_DLL const FfiTypeInfoHead* TVMFFIGetTypeInfo(int32_t type_index);
TVM_DLL const void* TVMFFIGetTypeAttrColumn(const TVMByteArray* name);
TVM_DLL int32_t TVMFFITypeGetOrAllocIndex(const TVMByteArray* key, int32_t static_index,
                                          int32_t depth, int32_t child_slots, int32_t overflow,
                                          int32_t parent);
TVM_DLL int TVMFFITypeRegisterField(int32_t type_index, const void* info);
TVM_DLL int TVMFFITypeRegisterMethod(int32_t type_index, const void* info);
TVM_DLL int TVMFFITypeRegisterMetadata(int32_t type_index, const void* metadata);
TVM_DLL int TVMFFITypeRegisterAttr(int32_t type_index, const TVMByteArray* name,
                                   const FfiAny* value);
TVM_DLL int TVMFFIHandleInitOnce(void** handle, int (*init)(void** result));
TVM_DLL int TVMFFIHandleDeinitOnce(void** handle, int (*deinit)(void* handle));
TVM_DLL int TVMFFIEnvSetStream(int32_t type, int32_t id, void* stream, void** old);
TVM_DLL void* TVMFFIEnvGetStream(int32_t type, int32_t id);
TVM_DLL int TVMFFIEnvCheckSignals(void);
TVM_DLL int TVMFFIEnvTensorAlloc(DLTensor* prototype, void** out);

/* The stubs' version, unless a libtvm_ffi was loaded later. */
void TVMFFIGetVersion(FfiVersion* out) {
  FIND_LATER(TVMFFIGetVersion);
  if (later != NULL) {
    later(out);
    return;
  }
  stub_api.get_version(out);
}

/* Needs no later library: the reference count is in the object, and both libraries count alike. */
int TVMFFIObjectIncRef(void* object) {
  ffi_retain(object);
  return 0;
}

int TVMFFIObjectDecRef(void* object) {
  ffi_release(object);
  return 0;
}

/* Objects made here have their own deleters, so a later library may hold them. */
int TVMFFIFunctionCreate(void* self, FfiSafeCall call, void (*deleter)(void*), void** out) {
  return ffi_make_function(self, call, deleter, out);
}

int TVMFFIFunctionCall(void* function, FfiAny* args, int32_t num_args, FfiAny* result) {
  return ffi_call_function(function, args, num_args, result);
}

/* The registry is in libtvm_ffi: without it there are no global functions. */
int TVMFFIFunctionGetGlobal(const TVMByteArray* name, void** out) {
  FIND_LATER(TVMFFIFunctionGetGlobal);
  if (later != NULL) return later(name, out);
  *out = NULL;
  return 0;
}

/* ---- errors ---- */

/* An error raised here comes first: it was stored before the other library was loaded. */
void TVMFFIErrorMoveFromRaised(void** out) {
  FIND_LATER(TVMFFIErrorMoveFromRaised);
  *out = ffi_take_error();
  if (*out == NULL && later != NULL) later(out);
}

/* The caller keeps its reference; the thread takes another. */
void TVMFFIErrorSetRaised(void* error) {
  FIND_LATER(TVMFFIErrorSetRaised);
  if (later != NULL) {
    later(error);
    return;
  }
  ffi_retain(error);
  ffi_keep_error(error);
}

/* Stored in the later library if there is one, since its readers look only there. */
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  FIND_LATER(TVMFFIErrorSetRaisedFromCStr);
  if (later != NULL) {
    later(kind, message);
    return;
  }
  ffi_raise_text(kind, message);
}

/* The text is truncated rather than losing the error. */
void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t n) {
  char text[1024];
  size_t size = 0;
  FIND_LATER(TVMFFIErrorSetRaisedFromCStrParts);
  if (later != NULL) {
    later(kind, parts, n);
    return;
  }
  for (int32_t i = 0; i < n && size < sizeof(text) - 1; i++) {
    const size_t capacity = sizeof(text) - 1 - size;
    const size_t length = parts[i] == NULL ? 0 : strnlen(parts[i], capacity);
    if (length != 0) memcpy(text + size, parts[i], length);
    size += length;
  }
  text[size] = '\0';
  ffi_raise_text(kind, text);
}

int TVMFFIErrorCreate(const TVMByteArray* kind, const TVMByteArray* message,
                      const TVMByteArray* backtrace, void** out) {
  return TVMFFIErrorCreateWithCauseAndExtraContext(kind, message, backtrace, NULL, NULL, out);
}

int TVMFFIErrorCreateWithCauseAndExtraContext(const TVMByteArray* kind, const TVMByteArray* message,
                                              const TVMByteArray* backtrace, void* cause,
                                              void* extra, void** out) {
  *out = ffi_make_error(kind, message, backtrace, cause, extra);
  return *out == NULL ? -1 : 0;
}

/* Only the caller's line. The text is valid until the thread's next call. */
const TVMByteArray* TVMFFIBacktrace(const char* file, int line, const char* function,
                                    int cross_boundary) {
  static _Thread_local char text[512];
  static _Thread_local TVMByteArray bytes;
  (void)cross_boundary;
  (void)snprintf(text, sizeof(text), "  File \"%s\", line %d, in %s\n",
                 file == NULL ? "<unknown>" : file, line, function == NULL ? "" : function);
  bytes = (TVMByteArray){text, strlen(text)};
  return &bytes;
}

/* ---- values ---- */

/* Made here even if a libtvm_ffi was loaded later, since objects have their own deleters. */
int TVMFFIStringFromByteArray(const TVMByteArray* bytes, FfiAny* out) {
  return ffi_make_string(bytes, out);
}

int TVMFFIBytesFromByteArray(const TVMByteArray* bytes, FfiAny* out) {
  return ffi_make_bytes(bytes, out);
}

/* Made by a later library if there is one, so its callers get its own tensors. */
int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t alignment, int32_t contiguous,
                           void** out) {
  FIND_LATER(TVMFFITensorFromDLPack);
  if (later != NULL) return later(from, alignment, contiguous, out);
  return ffi_make_tensor(from, alignment, contiguous, out);
}

/* Works for any maker's tensor, since all begin with a DLTensor. */
int TVMFFITensorToDLPack(void* tensor, DLManagedTensor** out) {
  return ffi_show_tensor(tensor, out);
}

/* Types of a later library are known only there. */
const FfiTypeInfoHead* TVMFFIGetTypeInfo(int32_t type_index) {
  FIND_LATER(TVMFFIGetTypeInfo);
  if (later != NULL) return later(type_index);
  return stub_api.get_type_info(type_index);
}

/* Return an empty column, since type attributes are not stored here; callers do not check for
 * NULL. */
const void* TVMFFIGetTypeAttrColumn(const TVMByteArray* name) {
  static const struct {
    const FfiAny* data;
    int32_t size, begin;
  } kNone = {NULL, 0, 0};
  FIND_LATER(TVMFFIGetTypeAttrColumn);
  if (later != NULL) return later(name);
  return &kNone;
}

/* Assign an unused index; a later library assigns its own. */
int32_t TVMFFITypeGetOrAllocIndex(const TVMByteArray* key, int32_t static_index, int32_t depth,
                                  int32_t child_slots, int32_t overflow, int32_t parent) {
  FIND_LATER(TVMFFITypeGetOrAllocIndex);
  if (later != NULL) return later(key, static_index, depth, child_slots, overflow, parent);
  return stub_type_index(key, static_index, parent);
}

/* Reflection data is for other languages' bindings. There are none here, so it is discarded. */

int TVMFFITypeRegisterField(int32_t type_index, const void* info) {
  FIND_LATER(TVMFFITypeRegisterField);
  return later != NULL ? later(type_index, info) : 0;
}

int TVMFFITypeRegisterMethod(int32_t type_index, const void* info) {
  FIND_LATER(TVMFFITypeRegisterMethod);
  return later != NULL ? later(type_index, info) : 0;
}

int TVMFFITypeRegisterMetadata(int32_t type_index, const void* metadata) {
  FIND_LATER(TVMFFITypeRegisterMetadata);
  return later != NULL ? later(type_index, metadata) : 0;
}

int TVMFFITypeRegisterAttr(int32_t type_index, const TVMByteArray* name, const FfiAny* value) {
  FIND_LATER(TVMFFITypeRegisterAttr);
  return later != NULL ? later(type_index, name, value) : 0;
}

/* ---- the process and its threads ---- */

/* One lock for all handles, since initialisations are rare. */
static tvmrt_mutex once = TVMRT_MUTEX_INIT;

/* The first check is without the lock, since it precedes every use of the handle. `init` runs under
 * the lock and must not call this function. */
int TVMFFIHandleInitOnce(void** handle, int (*init)(void** result)) {
  int rc = 0;
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE) != NULL) return 0;
  tvmrt__lock(&once);
  if (*handle == NULL) {
    void* made = NULL;
    rc = init(&made);
    if (rc == 0) __atomic_store_n(handle, made, __ATOMIC_RELEASE);
  }
  tvmrt__unlock(&once);
  return rc;
}

/* Only one of several callers gets the handle. */
int TVMFFIHandleDeinitOnce(void** handle, int (*deinit)(void* handle)) {
  void* old = __atomic_exchange_n(handle, NULL, __ATOMIC_ACQ_REL);
  return old == NULL ? 0 : deinit(old);
}

int TVMFFIEnvSetStream(int32_t type, int32_t id, void* stream, void** old) {
  FIND_LATER(TVMFFIEnvSetStream);
  if (later != NULL) return later(type, id, stream, old);
  return stub_api.env_set_stream(type, id, stream, old);
}

void* TVMFFIEnvGetStream(int32_t type, int32_t id) {
  FIND_LATER(TVMFFIEnvGetStream);
  if (later != NULL) return later(type, id);
  return stub_api.env_get_stream(type, id);
}

/* There is no interpreter to check here; an interpreter has loaded its own library. */
int TVMFFIEnvCheckSignals(void) {
  FIND_LATER(TVMFFIEnvCheckSignals);
  if (later != NULL) return later();
  return 0;
}

/* Allocate an NDArray and convert it with DLPack; the tensor owns the memory. */
int TVMFFIEnvTensorAlloc(DLTensor* prototype, void** out) {
  DLDataType dtype;
  TVMArrayHandle array;
  FfiObject* tensor;
  int rc;
  FIND_LATER(TVMFFIEnvTensorAlloc);
  if (later != NULL) return later(prototype, out);
  *out = NULL;
  if (bridge_dtype_to_classic(prototype->dtype, &dtype) != 0 ||
      TVMArrayAlloc(prototype->shape, prototype->ndim, dtype.code, dtype.bits, dtype.lanes,
                    prototype->device.device_type, prototype->device.device_id, &array) != 0) {
    return bridge_raise();
  }
  rc = bridge_tensor_to_ffi(array, &tensor);
  (void)TVMArrayFree(array);
  if (rc != 0) return bridge_raise();
  *out = tensor;
  return 0;
}
