/*!
 * \file tvm/runtime/c_packed_func.h
 * \brief The packed calling convention: one C signature for functions with any arguments.
 *
 * Every call across a library boundary (generated operators, front ends, accelerators, callbacks)
 * is a call of a TVMCPackedFunc. This page is the whole contract.
 *
 * Terms used in all headers of this folder:
 *  - *borrowed*: the receiver may use it until the stated moment and must not free it.
 *  - *transferred*: from the stated moment on the receiver owns it and must release it.
 *  - *retained*: the receiver takes its own reference; the giver keeps its reference.
 *  - *released by*: the one function that releases an owned object.
 *  - *thread-compatible*: different objects may be used from different threads at the same time,
 *    one object from one thread at a time; *thread-safe*: from any thread at any time.
 *
 * Status: every `int` function returns 0 on success. -1 means failure with a text in the error slot
 *         (TVMPackedFuncSetLastError()); -2 means failure with an exception of the front end.
 *         Firmware may return a tvm_crt_error_t: treat all non-zero values alike.
 *
 * Arguments of a packed function:
 *  - `args[i]` holds argument i; `type_codes[i]` (a TVMArgTypeCode) selects its valid member. The
 *    two arrays belong to the caller and are borrowed for the call. A callee may overwrite their
 *    elements (upstream code does for moved arguments), so a caller must not reuse them.
 *  - Everything an argument points to (strings, bytes, tensors, objects) is borrowed for the call.
 *    A callee that keeps an object retains it (TVMObjectRetain()), one that keeps text copies it.
 *  - A tensor has code kTVMDLTensorHandle or kTVMNDArrayHandle; both hold a DLTensor*. Code 4
 *    (kTVMNullptr) is a missing tensor. Generated code also accepts code 3 for a tensor.
 *  - bool has code 0 or (from 0.18 on) 15; readers accept both.
 *
 * Result of a packed function:
 *  - The caller presets `*out_ret_tcode = kTVMNullptr`; a callee without a result writes nothing.
 *  - Numbers are returned by value. Object, module, function and tensor handles (8, 9, 10, 13) are
 *    transferred to the caller, which releases them (TVMObjectFree(), TVMModFree(), TVMFuncFree(),
 *    TVMArrayFree()).
 *  - A library's TVMCPackedFunc must not return text or bytes (11, 12), because they would have no
 *    owner: TVM's runtime refuses them, this one passes the pointer on unchanged. Functions made
 *    with TVMFuncCreateFromCFunc() may: their text is copied into the calling thread's return slot
 *    and is borrowed until the thread's next TVMFuncCall().
 *
 * Threads: a packed function may be called from any thread unless it says otherwise. The error text
 *          belongs to the thread that failed.
 *
 * C99 and C++ clean. Uses no other header of the runtime.
 */
#ifndef TVM_RUNTIME_C_PACKED_FUNC_H_
#define TVM_RUNTIME_C_PACKED_FUNC_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/*! \brief Marks a function that a library exports. */
#ifndef TVM_DLL
#if defined(_WIN32)
#ifdef TVM_EXPORTS
#define TVM_DLL __declspec(dllexport)
#else
#define TVM_DLL __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define TVM_DLL __attribute__((visibility("default")))
#else
#define TVM_DLL
#endif
#endif

/*! \brief Version of the classic ABI of these headers. Informational: no code compares it. */
#ifndef TVM_VERSION
#define TVM_VERSION "0.18.0"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Type of extents and strides. */
typedef int64_t tvm_index_t;

/*!
 * \brief Device types beyond those of DLPack.
 * Source: numbering from TVM 0.11 on; earlier releases used 5, 6, 11 and 13 to 15 for them.
 */
typedef enum {
  kDLAOCL = 32,
  kDLSDAccel = 33,
  kOpenGL = 34,
  kDLMicroDev = 35,
  TVMDeviceExtType_End = 36
} TVMDeviceExtType;

/*!
 * \brief Type code: selects the valid member of a TVMValue. Stored as int.
 *
 * The values kDLInt (0), kDLUInt (1, never used for arguments) and kDLFloat (2) come first.
 */
typedef enum {
  kTVMArgInt = 0,              /*!< v_int64. Any integer; bool before 0.18. */
  kTVMArgFloat = 2,            /*!< v_float64. */
  kTVMOpaqueHandle = 3,        /*!< v_handle, a raw pointer without reference count. */
  kTVMNullptr = 4,             /*!< None; v_handle is NULL. */
  kTVMDataType = 5,            /*!< v_type. */
  kDLDevice = 6,               /*!< v_device. */
  kTVMDLTensorHandle = 7,      /*!< v_handle is a DLTensor*, a view. */
  kTVMObjectHandle = 8,        /*!< v_handle is a reference-counted object. */
  kTVMModuleHandle = 9,        /*!< v_handle is a TVMModuleHandle. */
  kTVMPackedFuncHandle = 10,   /*!< v_handle is a TVMFunctionHandle. */
  kTVMStr = 11,                /*!< v_str, NUL-terminated UTF-8. */
  kTVMBytes = 12,              /*!< v_handle is a TVMByteArray*. */
  kTVMNDArrayHandle = 13,      /*!< v_handle is a TVMArrayHandle, usable as DLTensor*. */
  kTVMObjectRValueRefArg = 14, /*!< v_handle is the address of an object handle to move from. */
  kTVMArgBool = 15,            /*!< v_int64 is 0 or 1. Since 0.18. */
  kTVMExtBegin = 16,           /*!< Start of extension codes (15 before 0.18). */
  kTVMNNVMFirst = 16,
  kTVMNNVMLast = 20,
  kTVMExtReserveEnd = 64,
  kTVMExtEnd = 128
} TVMArgTypeCode;

/*! \brief Any value that can be passed; 8 bytes. Read only the member of its type code. */
typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle; /*!< On 32-bit targets the upper half of the union is then undefined. */
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;

/*! \brief Bytes with a length. Borrowed unless a function says otherwise. */
typedef struct {
  const char* data;
  size_t size; /*!< In bytes. */
} TVMByteArray;

/*! \brief Handle of a packed function. Opaque: only stored and passed back. */
typedef void* TVMFunctionHandle;
/*! \brief Handle of a module. Opaque. */
typedef void* TVMModuleHandle;
/*! \brief Handle of any reference-counted object. Opaque. */
typedef void* TVMObjectHandle;
/*! \brief Result slot of a TVMRuntimeCPackedFunc; see TVMCFuncSetReturn(). Opaque. */
typedef void* TVMRetValueHandle;
/*! \brief Handle of a device's command stream; NULL is the default stream. Opaque. */
typedef void* TVMStreamHandle;
/*! \brief Handle of a reference-counted tensor. Its DLTensor may be read directly. */
typedef DLTensor* TVMArrayHandle;

/*!
 * \brief The packed function: signature of every generated operator and of every exported function.
 *
 * \param args            [in] num_args values; borrowed for the call.
 * \param type_codes      [in] num_args codes (TVMArgTypeCode); borrowed for the call.
 * \param num_args        [in] Number of arguments; if it is 0, both arrays may be NULL.
 * \param out_ret_value   [out] Result; written only together with out_ret_tcode.
 * \param out_ret_tcode   [in,out] Preset to kTVMNullptr by the caller; the result's code on return.
 * \param resource_handle [in] Context of the function; NULL for functions of a library.
 *
 * Ownership: arguments are borrowed; a returned handle is transferred to the caller.
 * Errors:    0, or -1 after TVMPackedFuncSetLastError().
 * Threads:   any, unless the function says otherwise.
 * Source:    TVMBackendPackedCFunc, c_backend_api.h, apache/tvm v0.8.0.
 */
typedef int (*TVMCPackedFunc)(TVMValue* args, int* type_codes, int num_args,
                              TVMValue* out_ret_value, int* out_ret_tcode, void* resource_handle);

/*! \brief Former name of TVMCPackedFunc; an alias of the type. */
typedef TVMCPackedFunc TVMBackendPackedCFunc;

/*!
 * \brief Store the error text for the caller of a packed function that is about to return -1.
 *
 * \param msg [in] NUL-terminated UTF-8; copied, and truncated if the platform's buffer is smaller.
 *                 NULL counts as an empty text.
 *
 * A leading "<Kind>:" such as "ValueError:" or "TypeError:" lets front ends raise that kind.
 * Threads: the text belongs to the calling thread; on firmware without threads there is one buffer.
 */
TVM_DLL void TVMPackedFuncSetLastError(const char* msg);

/*! \brief Former name of TVMPackedFuncSetLastError(); behaves alike. */
TVM_DLL void TVMAPISetLastError(const char* msg);

/*!
 * \brief Text of the calling thread's last error.
 * \return Never NULL; borrowed until the thread's next failing call.
 */
TVM_DLL const char* TVMGetLastError(void);

/*!
 * \brief Call a function by its handle.
 *
 * \param func       [in] From TVMFuncGetGlobal(), TVMModGetFunction() or a similar function.
 * \param arg_values [in] num_args values; borrowed.
 * \param type_codes [in] num_args codes; borrowed.
 * \param num_args   [in] 0 or more.
 * \param ret_val    [out] Always written; invalid after a failure.
 * \param ret_type_code [out] Always written; kTVMNullptr if nothing is returned.
 *
 * Ownership: a returned handle is transferred; returned text and bytes are borrowed until the
 *            thread's next TVMFuncCall().
 * Errors:    0, or the callee's code; text in TVMGetLastError().
 * Threads:   thread-safe. Takes no lock and allocates no memory itself.
 */
TVM_DLL int TVMFuncCall(TVMFunctionHandle func, TVMValue* arg_values, int* type_codes, int num_args,
                        TVMValue* ret_val, int* ret_type_code);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_C_PACKED_FUNC_H_ */
