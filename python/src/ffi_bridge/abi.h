/*!
 * \file abi.h
 * \brief The ABI of the library libtvm_ffi, as far as the bridge reads it.
 *
 * The extension module tvmrt.contrib._tvm_ffi_bridge joins two function ABIs: the classic packed
 * function (c_packed_func.h) and the one of libtvm_ffi. A function of either side becomes one of the
 * other; a call converts its arguments, calls, and converts the result or the error. No Python takes
 * part in a call, so C may use the functions on any thread; only opening the library is Python's.
 *
 * Nothing of libtvm_ffi is needed to build: the few structures of its C ABI that are read here are
 * declared below, and its functions are looked up in the loaded library by bridge_open().
 *
 * Errors: functions of the bridge return 0, or -1 with a text in the classic error slot
 * (TVMGetLastError()). Only where a call comes from the other side, bridge_raise() hands that text over.
 * Threads: everything but bridge_open() may be used from any thread.
 * Source: tvm/ffi/c_api.h of apache-tvm-ffi 0.1.
 */
#ifndef TVMRT_PYTHON_SRC_FFI_BRIDGE_ABI_H_
#define TVMRT_PYTHON_SRC_FFI_BRIDGE_ABI_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

/*! \brief What an FfiAny holds; indices from kFfiFirstObject on are counted objects. */
typedef enum {
  kFfiNone = 0,
  kFfiInt = 1,
  kFfiBool = 2,
  kFfiFloat = 3,
  kFfiOpaquePtr = 4,
  kFfiDataType = 5,
  kFfiDevice = 6,
  kFfiDLTensorPtr = 7,      /* DLTensor*, borrowed; its strides are never NULL */
  kFfiRawStr = 8,           /* const char*, borrowed */
  kFfiByteArrayPtr = 9,     /* TVMByteArray*, borrowed */
  kFfiObjectRValueRef = 10, /* address of an object handle that may be moved from */
  kFfiSmallStr = 11,        /* at most 7 bytes in the value itself, and a NUL */
  kFfiSmallBytes = 12,
  kFfiFirstObject = 64,
  kFfiStr = 65,
  kFfiBytes = 66,
  kFfiFunction = 68,
  kFfiTensor = 70,
} FfiTypeIndex;

/*! \brief Head of every counted object; what an object holds follows it. */
typedef struct {
  uint64_t ref_counts;
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
  uint32_t small_size; /* bytes of a small text; 0 for everything else */
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

/*! \brief What follows the head of an error; bytes and text are a TVMByteArray there too. */
typedef struct {
  TVMByteArray kind;
  TVMByteArray message;
} FfiErrorHead;

/*! \brief Start of the description of a type. */
typedef struct {
  int32_t type_index;
  int32_t type_depth;
  TVMByteArray type_key;
} FfiTypeInfoHead;

typedef struct {
  uint32_t major, minor, patch;
} FfiVersion;

/*!
 * \brief A function of the other side.
 *
 * Arguments are borrowed for the call; `result` is preset to None and owned by the caller
 * afterwards. Returns 0, or another value with the error kept for FfiApi.error_move_from_raised.
 */
typedef int (*FfiSafeCall)(void* self, const FfiAny* args, int32_t num_args, FfiAny* result);

/*! \brief The functions of libtvm_ffi that are used. Those that return int return 0 on success. */
typedef struct {
  void (*get_version)(FfiVersion* out);
  int (*object_inc_ref)(void* object);
  int (*object_dec_ref)(void* object);
  int (*function_create)(void* self, FfiSafeCall call, void (*deleter)(void* self), void** out);
  int (*function_call)(void* function, FfiAny* args, int32_t num_args, FfiAny* result);
  int (*function_set_global)(const TVMByteArray* name, void* function, int allow_override);
  void (*error_move_from_raised)(void** out);
  void (*error_set_raised)(const char* kind, const char* message);
  int (*tensor_from_dlpack)(DLManagedTensor* from, int32_t alignment, int32_t contiguous,
                            void** out);
  int (*tensor_to_dlpack)(void* tensor, DLManagedTensor** out);
  int (*string_from_bytes)(const TVMByteArray* bytes, FfiAny* out);
  int (*bytes_from_bytes)(const TVMByteArray* bytes, FfiAny* out);
  const FfiTypeInfoHead* (*get_type_info)(int32_t type_index);
} FfiApi;

/*! \brief Filled by bridge_open(), constant afterwards. */
extern FfiApi ffi;

/*! \brief What follows the head of an object. */
static inline void* ffi_body(const FfiObject* object) { return (char*)object + sizeof(*object); }

#endif /* TVMRT_PYTHON_SRC_FFI_BRIDGE_ABI_H_ */
