/*!
 * \file convert.h
 * \brief Values, containers, modules and functions, both ways.
 *
 * One subject in five files: a value may be any of these, and they hold or convert values.
 */
#ifndef TVMRT_PLUGINS_TVM_FFI_CONVERT_H_
#define TVMRT_PLUGINS_TVM_FFI_CONVERT_H_

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
/*! \brief The same, for what outlives the call: a view becomes an NDArray with a copy. */
int bridge_owned_to_classic(const FfiAny* any, TVMValue* value, int* code, Owned* owned);
/*! \brief An owned classic value as an owned one of the other side; it is given up, also on failure. */
int bridge_return_to_ffi(TVMValue value, int code, FfiAny* result);
/*! \brief Call a classic global function; *value is owned. Fails where there is none of the name. */
int bridge_call_global(const char* name, TVMValue* values, int* codes, size_t count,
                       TVMValue* value, int* code);
/*! \brief Give up the reference that a result holds. */
void bridge_release_any(FfiAny* any);
/*! \brief Give up the reference that a classic result holds. */
void bridge_release_value(TVMValue value, int code);

/* ---- containers.c ---- */

/*! \brief Whether an object of the other side is one that bridge_container_to_classic() takes. */
int bridge_is_container(const FfiObject* object);
/*! \brief The classic counterpart of a container; *out is owned. A List or Dict is copied. */
int bridge_container_to_classic(const FfiObject* object, TVMObjectHandle* out);
/*!
 * \brief The counterpart of a classic container; *out is owned.
 *
 * \param type_key [in] Of the object. *out is NULL, with result 0, if it is no container's.
 */
int bridge_container_to_ffi(TVMObjectHandle object, const char* type_key, FfiObject** out);

/* ---- modules.c ---- */

/*! \brief A classic Module whose functions are a Module's of the other side; *out is owned. */
int bridge_module_to_classic(FfiObject* module, TVMModuleHandle* out);
/*! \brief A Function that gives a classic module's functions by their names; *out is owned. */
int bridge_module_to_ffi(TVMModuleHandle module, FfiObject** out);

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

#endif /* TVMRT_PLUGINS_TVM_FFI_CONVERT_H_ */
