/*!
 * \file convert.h
 * \brief Conversion of values, containers, modules and functions, in both directions.
 *
 * The five files depend on each other: containers hold values, which may be any of these.
 */
#ifndef TVMRT_PLUGINS_TVM_FFI_CONVERT_H_
#define TVMRT_PLUGINS_TVM_FFI_CONVERT_H_

#include "abi.h"
#include "owned.h"

/* ---- value.c ---- */

/*!
 * \brief Convert a tvm-ffi value to a classic one for the duration of a call.
 *
 * \param any   [in] Borrowed: must outlive the result.
 * \param value, code [out] The value, borrowed from `any` and `owned`. A tensor is an NDArray, or a
 *              view if its memory is less aligned than an NDArray's.
 * \param owned [out] To be released after the last use of `value`; also set on failure.
 */
int bridge_value_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned);
/*! \brief Convert a classic value to a tvm-ffi one for a call. A moved object is taken over. */
int bridge_value_to_ffi(TVMValue value, int code, FfiAny* any, Owned* owned);
/*! \brief Convert a value that outlives the call: a view becomes an NDArray with a copy. */
int bridge_owned_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned);
/*! \brief Convert an owned classic value to an owned tvm-ffi one; consumed, also on failure. */
int bridge_return_to_ffi(TVMValue value, int code, FfiAny* result);
/*! \brief Call a classic global function; *value is owned. Fails if the function does not exist. */
int bridge_call_global(const char* name, TVMValue* values, int* codes, size_t count,
                       TVMValue* value, int* code);
/*! \brief Release the reference of a result. */
void bridge_release_any(FfiAny* any);
/*! \brief Release the reference of a classic result. */
void bridge_release_value(TVMValue value, int code);

/* ---- containers.c ---- */

/*! \brief Whether bridge_container_to_classic() accepts a tvm-ffi object. */
int bridge_is_container(const FfiObject* object);
/*! \brief Convert a container to a classic one; *out is owned. A List or Dict is copied. */
int bridge_container_to_classic(const FfiObject* object, TVMObjectHandle* out);
/*!
 * \brief Convert a classic container; *out is owned.
 *
 * \param type_key [in] Of the object. If it is not a container's, *out is NULL and the result 0.
 */
int bridge_container_to_ffi(TVMObjectHandle object, const char* type_key, FfiObject** out);

/* ---- modules.c ---- */

/*! \brief Make a classic Module that calls a tvm-ffi Module; *out is owned. */
int bridge_module_to_classic(FfiObject* module, TVMModuleHandle* out);
/*! \brief Make a Function that returns a classic module's functions by name; *out is owned. */
int bridge_module_to_ffi(TVMModuleHandle module, FfiObject** out);

/* ---- to_ffi.c ---- */

/*! \brief Make a Function that calls a classic function and retains it; *out is owned. */
int bridge_function_to_ffi(TVMFunctionHandle function, FfiObject** out);
/*! \brief Make a Function that calls a C function; `owner` is retained unless it is NULL. */
int bridge_symbol_to_ffi(TVMCPackedFunc address, void* resource, FfiObject* owner, FfiObject** out);
/*! \brief FfiSafeCall whose `self` is a TVMFunctionHandle, borrowed. */
int bridge_safe_call(void* self, const FfiAny* args, int32_t num_args, FfiAny* result);

/* ---- to_classic.c ---- */

/*! \brief Make a classic function that calls a Function and retains it; *out is owned. */
int bridge_function_to_classic(FfiObject* function, TVMFunctionHandle* out);
/*! \brief Make a classic function from a safe call; `owner` is retained unless it is NULL. */
int bridge_symbol_to_classic(FfiSafeCall address, void* self, TVMObjectHandle owner,
                             TVMFunctionHandle* out);
/*!
 * \brief TVMCPackedFunc whose resource_handle is a tvm-ffi Function, borrowed.
 *
 * Text is returned as a String object; bytes are an error, because they would have no owner.
 */
int bridge_packed_call(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                       void* resource_handle);

#endif /* TVMRT_PLUGINS_TVM_FFI_CONVERT_H_ */
