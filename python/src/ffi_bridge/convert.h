/*!
 * \file convert.h
 * \brief Values and functions, both ways.
 *
 * One subject in three files: a value may be a function, and a call of a function converts values.
 */
#ifndef TVMRT_PYTHON_SRC_FFI_BRIDGE_CONVERT_H_
#define TVMRT_PYTHON_SRC_FFI_BRIDGE_CONVERT_H_

#include "abi.h"
#include "owned.h"

/* ---- value.c ---- */

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

/* ---- to_ffi.c ---- */

/*! \brief A Function that calls a classic one and retains it; *out is owned. */
int bridge_function_to_ffi(TVMFunctionHandle function, FfiObject** out);
/*! \brief A Function that calls a C function; `owner` may be NULL, else it is retained. */
int bridge_symbol_to_ffi(TVMCPackedFunc address, void* resource, FfiObject* owner, FfiObject** out);
/*! \brief An FfiSafeCall whose `self` is a TVMFunctionHandle, borrowed. */
int bridge_safe_call(void* self, const FfiAny* args, int32_t num_args, FfiAny* result);

/* ---- to_classic.c ---- */

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

#endif /* TVMRT_PYTHON_SRC_FFI_BRIDGE_CONVERT_H_ */
