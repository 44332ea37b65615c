/*!
 * \file ffi_bridge.h
 * \brief What the files of the extension module tvmrt.contrib._tvm_ffi_bridge share.
 *
 * The bridge joins two function ABIs: the classic packed function (c_packed_func.h) and the one of
 * the library libtvm_ffi. A function of either side becomes one of the other; a call converts its
 * arguments, calls, and converts the result or the error. No Python takes part in a call, so C may
 * use the functions on any thread; only opening the library is Python's.
 *
 * Nothing of libtvm_ffi is needed to build: the few structures of its C ABI that are read here are
 * declared below, and its functions are looked up in the loaded library by bridge_open().
 *
 * Errors: functions return 0, or -1 with a text in the classic error slot (TVMGetLastError()). Only
 * where a call comes from the other side, bridge_raise() hands that text over.
 * Threads: everything but bridge_open() may be used from any thread.
 * Source: tvm/ffi/c_api.h of apache-tvm-ffi 0.1.
 */
#ifndef TVMRT_PYTHON_SRC_FFI_BRIDGE_H_
#define TVMRT_PYTHON_SRC_FFI_BRIDGE_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

/* ---- the ABI of libtvm_ffi ---- */

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

/* ---- ffi_bridge_open.c ---- */

/*!
 * \brief Find the functions of libtvm_ffi and check its version.
 *
 * \param path [in] File of the library.
 * \param version [out] Its version.
 *
 * Errors:  -1: no such library, a function is missing, a version that is not known here. The bridge
 *          then stays as it was.
 * Threads: one at a time, before anything else of this header is used.
 */
int bridge_open(const char* path, FfiVersion* version);

/* ---- ffi_bridge_error.c ---- */

/*! \brief Set the error text; returns -1. */
int bridge_fail(const char* format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 1, 2)))
#endif
    ;
/*! \brief Say that there is no memory for this many bytes; returns -1. */
int bridge_fail_memory(size_t bytes);
/*! \brief Say in the error text which argument it is about; returns -1. */
int bridge_name_argument(int index);
/*! \brief Raise the error text on the other side, with its kind; returns -1. */
int bridge_raise(void);
/*! \brief Take the error raised on the other side over as the error text; returns -1. */
int bridge_catch(void);

/*! \brief Something to give back: nothing if release is NULL. */
typedef struct {
  void (*release)(void* what);
  void* what;
} Owned;

static inline void owned_release(Owned* owned) {
  if (owned->release != NULL) owned->release(owned->what);
}

/* ---- ffi_bridge_tensor.c ---- */

/*! \brief An element type of the other side as the classic ABI numbers it; -1 if it has no such. */
int bridge_dtype_to_classic(DLDataType dtype, DLDataType* out);
/*! \brief The opposite; every classic type has a counterpart. */
DLDataType bridge_dtype_to_ffi(DLDataType dtype);
/*! \brief A Tensor that shares the memory of an NDArray; *out is owned. */
int bridge_tensor_to_ffi(TVMArrayHandle array, FfiObject** out);
/*!
 * \brief A Tensor that shows the memory of a DLTensor for the time of a call.
 *
 * *owned ends that time. A callee that has kept the Tensor then has one without elements.
 */
int bridge_lend_to_ffi(const DLTensor* tensor, FfiObject** out, Owned* owned);
/*! \brief Whether the elements of a tensor start in the memory of another one. */
int bridge_lies_within(const DLTensor* tensor, const DLTensor* whole);
/*!
 * \brief An NDArray that shares the memory of a Tensor; *out is owned.
 *
 * *out is NULL, with result 0, if its memory is less aligned than an NDArray's has to be.
 */
int bridge_tensor_to_classic(FfiObject* tensor, TVMArrayHandle* out);
/*! \brief A compact view of a DLTensor as the classic ABI describes it; free() it. */
int bridge_view_to_classic(const DLTensor* tensor, DLTensor** out);
/*! \brief An NDArray with a copy of the elements; *out is owned. */
int bridge_copy_to_classic(const DLTensor* view, TVMArrayHandle* out);

/* ---- ffi_bridge_value.c ---- */

/*!
 * \brief Show a value of the other side as a classic one.
 *
 * \param any   [in] Borrowed: must outlive what is made of it.
 * \param value, code [out] The value, borrowed from `any` and `owned`. A tensor is an NDArray, or a
 *              view if its memory is less aligned than an NDArray's.
 * \param owned [out] To be released after the last use of `value`; also set on failure.
 */
int bridge_value_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned);
/*! \brief Show a classic value to the other side; the same words. A moved object is taken over. */
int bridge_value_to_ffi(TVMValue value, int code, FfiAny* any, Owned* owned);
/*! \brief Give up the reference that a result holds. */
void bridge_release_any(FfiAny* any);
/*! \brief Give up the reference that a classic result holds. */
void bridge_release_value(TVMValue value, int code);

/* ---- ffi_bridge_link.c ---- */

/*!
 * \brief A function that shows another one of the other side.
 *
 * The functions made here are known by their address, so that one that goes back to where it came
 * from is the same again, instead of a function that shows one that shows one.
 */
typedef struct BridgeLink {
  void* outer; /* what was made, as the side that calls it knows it */
  void* inner; /* what it calls; one reference */
  struct BridgeLink* next;
} BridgeLink;

/*! \brief A link to `inner`, which the caller retains; NULL if there is no memory. free() it. */
BridgeLink* bridge_link_new(void* inner);
/*! \brief Make a link findable by what was made of it. */
void bridge_link_add(BridgeLink* link, void* outer);
/*! \brief Free a link; returns `inner`, whose reference is the caller's now. */
void* bridge_link_remove(BridgeLink* link);
/*! \brief What `outer`, which the caller keeps alive, shows: retained; NULL if nothing. */
void* bridge_link_find(const void* outer, void (*retain)(void* inner));

/* ---- ffi_bridge_to_ffi.c ---- */

/*! \brief A Function that calls a classic one and retains it; *out is owned. */
int bridge_function_to_ffi(TVMFunctionHandle function, FfiObject** out);
/*! \brief A Function that calls a C function; `owner` may be NULL, else it is retained. */
int bridge_symbol_to_ffi(TVMCPackedFunc address, void* resource, FfiObject* owner, FfiObject** out);
/*! \brief An FfiSafeCall whose `self` is a TVMFunctionHandle, borrowed. */
int bridge_safe_call(void* self, const FfiAny* args, int32_t num_args, FfiAny* result);

/* ---- ffi_bridge_to_classic.c ---- */

/*! \brief A classic function that calls a Function and retains it; *out is owned. */
int bridge_function_to_classic(FfiObject* function, TVMFunctionHandle* out);
/*! \brief A classic function that calls a safe call; `owner` may be NULL, else it is retained. */
int bridge_symbol_to_classic(FfiSafeCall address, void* self, TVMObjectHandle owner,
                             TVMFunctionHandle* out);
/*!
 * \brief A TVMCPackedFunc whose resource_handle is a Function of the other side, borrowed.
 *
 * Text is returned as a String object; bytes are an error, because nobody would own them.
 */
int bridge_packed_call(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                       void* resource_handle);

/* ---- ffi_bridge_register.c ---- */

/*!
 * \brief Enter the makers of functions in both global registries.
 *
 * In the other side's: tvmrt.from_packed_func(TVMFunctionHandle) and
 * tvmrt.from_c_packed_func(TVMCPackedFunc, resource, owner). In the classic one:
 * tvmrt.tvm_ffi.from_function(Function) and tvmrt.tvm_ffi.from_safe_call(FfiSafeCall, self, owner).
 * Addresses are passed as raw pointers.
 */
int bridge_register_makers(void);

#endif /* TVMRT_PYTHON_SRC_FFI_BRIDGE_H_ */
