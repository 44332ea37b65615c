/*!
 * \file abi.h
 * \brief The part of tvm-ffi's ABI that the bridge uses.
 *
 * The bridge connects two function ABIs: classic packed functions (c_packed_func.h) and tvm-ffi's.
 * A function of either side is wrapped for the other; a call converts the arguments, and then the
 * result or the error. Python is not involved, so C may use the functions on any thread.
 *
 * The bridge is a separate library, libtvmrt_tvm_ffi.so, which libtvm_runtime loads with the first
 * function of tvm-ffi. It calls libtvm_ffi, which the process has loaded or the loader finds
 * (library.h), through the function table below. It is not linked with it, and needs none of its
 * headers: the structures of the C ABI are declared here.
 *
 * Errors: functions of the bridge return 0, or -1 with a text in the classic error slot
 * (TVMGetLastError()). For calls from the tvm-ffi side, bridge_raise() passes that text on.
 * Threads: all functions may be called from any thread.
 * Source: tvm/ffi/c_api.h of apache-tvm-ffi 0.1.
 */
#ifndef TVMRT_PLUGINS_TVM_FFI_ABI_H_
#define TVMRT_PLUGINS_TVM_FFI_ABI_H_

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

/*! \brief Types of an FfiAny; indices from kFfiFirstObject on are reference-counted objects. */
typedef enum {
  kFfiNone = 0,
  kFfiInt = 1,
  kFfiBool = 2,
  kFfiFloat = 3,
  kFfiOpaquePtr = 4,
  kFfiDataType = 5,
  kFfiDevice = 6,
  kFfiDLTensorPtr = 7,  /* DLTensor*, borrowed; its strides are never NULL */
  kFfiRawStr = 8,       /* const char*, borrowed */
  kFfiByteArrayPtr = 9, /* TVMByteArray*, borrowed */
  kFfiSmallStr = 11,    /* at most 7 bytes in the value itself, and a NUL */
  kFfiSmallBytes = 12,
  kFfiFirstObject = 64,
  kFfiStr = 65,
  kFfiBytes = 66,
  kFfiError = 67,
  kFfiFunction = 68,
  kFfiShape = 69,
  kFfiTensor = 70,
  kFfiArray = 71,
  kFfiModule = 73,
  kFfiList = 75,
} FfiTypeIndex;

/*! \brief Header of every reference-counted object; the object's content follows it. */
typedef struct {
  _Atomic uint64_t ref_counts; /* low half: strong; high half: weak, strong ones share one */
  int32_t type_index;
  uint32_t padding;
  union {
    void (*deleter)(void* self, int flags);
    int64_t align;
  } u;
} FfiObject;

/*! \brief A value: borrowed as an argument, owned as a result. */
typedef struct {
  int32_t type_index;
  uint32_t small_size; /* bytes of a small text; otherwise 0 */
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
    const char* v_str;
    FfiObject* v_obj;
    DLDataType v_dtype;
    DLDevice v_device;
    char v_bytes[8];
  } u;
} FfiAny;

/*! \brief Content of an error after the header; tvm-ffi's byte arrays equal TVMByteArray. */
typedef struct {
  TVMByteArray kind;
  TVMByteArray message;
  TVMByteArray backtrace; /* "  File ..., line ..., in ...\n", the innermost call first */
} FfiError;

/*! \brief Start of a type description. */
typedef struct {
  int32_t type_index;
  int32_t type_depth;
  TVMByteArray type_key;
} FfiTypeInfoHead;

/*!
 * \brief A tvm-ffi function.
 *
 * Arguments are borrowed for the call. `result` is preset to None and owned by the caller
 * afterwards. Returns 0, or another value with the error stored for FfiApi.error_move_from_raised.
 */
typedef int (*FfiSafeCall)(void* self, const FfiAny* args, int32_t num_args, FfiAny* result);

/*! \brief The functions of libtvm_ffi that the bridge calls. Those that return int return 0 on success. */
typedef struct {
  void (*get_version)(uint32_t out[3]);
  int (*function_create)(void* self, FfiSafeCall call, void (*deleter)(void* self), void** out);
  int (*function_call)(void* function, FfiAny* args, int32_t num_args, FfiAny* result);
  int (*function_get_global)(const TVMByteArray* name, void** out);
  void (*error_move_from_raised)(void** out);
  void (*error_set_raised)(void* error);
  void (*error_set_raised_from_text)(const char* kind, const char* message);
  int (*tensor_from_dlpack)(DLManagedTensor* from, int32_t alignment, int32_t contiguous,
                            void** out);
  int (*tensor_to_dlpack)(void* tensor, DLManagedTensor** out);
  int (*string_from_bytes)(const TVMByteArray* bytes, FfiAny* out);
  int (*bytes_from_bytes)(const TVMByteArray* bytes, FfiAny* out);
  const FfiTypeInfoHead* (*get_type_info)(int32_t type_index);
  int (*env_set_stream)(int32_t type, int32_t id, void* stream, void** old);
  void* (*env_get_stream)(int32_t type, int32_t id);
} FfiApi;

/*! \brief Functions of libtvm_ffi; NULL until bridge_require() or bridge_open() has found it. */
extern const FfiApi* _Atomic bridge_api;
#define ffi (*atomic_load_explicit(&bridge_api, memory_order_acquire))

/*! \brief Content of an object after the header. */
static inline void* ffi_body(const FfiObject* object) { return (char*)object + sizeof(*object); }

#define FFI_ONE_WEAK_REF (UINT64_C(1) << 32)

/*! \brief Take a reference without calling the library. */
static inline void ffi_retain(void* object) {
  FfiObject* head = object;
  (void)atomic_fetch_add_explicit(&head->ref_counts, 1, memory_order_relaxed);
}

/*! \brief Release a reference; the last one calls the object's deleter. */
static inline void ffi_release(void* object) {
  enum { CONTENT = 1, BLOCK = 2 };
  FfiObject* head = object;
  uint64_t before = atomic_fetch_sub_explicit(&head->ref_counts, 1, memory_order_release);
  if ((uint32_t)before != 1) return;
  atomic_thread_fence(memory_order_acquire);
  if (head->u.deleter == NULL) return;
  if (before == (FFI_ONE_WEAK_REF | 1)) {
    head->u.deleter(head, CONTENT | BLOCK);
    return;
  }
  head->u.deleter(head, CONTENT);
  before = atomic_fetch_sub_explicit(&head->ref_counts, FFI_ONE_WEAK_REF, memory_order_release);
  if (before >> 32 != 1) return;
  atomic_thread_fence(memory_order_acquire);
  head->u.deleter(head, BLOCK);
}

/*! \brief Release the reference of an owned value; values below the first object index own none. */
static inline void ffi_release_any(const FfiAny* any) {
  if (any->type_index >= kFfiFirstObject) ffi_release(any->u.v_obj);
}

/*! \brief A temporary resource of a conversion, to release after the call; nothing if `release` is
 * NULL. */
typedef struct {
  void (*release)(void* what);
  void* what;
} Owned;

static inline void owned_release(Owned* owned) {
  if (owned->release != NULL) owned->release(owned->what);
}

#endif /* TVMRT_PLUGINS_TVM_FFI_ABI_H_ */
