/*! \file wrappers.h
 * \brief Functions of one side that call a function of the other side.
 *
 * A wrapper of a wrapper is never made: converting one back gives the original function. */
#ifndef TVMRT_PLUGINS_TVM_FFI_WRAPPERS_H_
#define TVMRT_PLUGINS_TVM_FFI_WRAPPERS_H_

#include "abi.h"

/*! \brief Set the functions that wrappers consist of, once, before the first one is made. Both get
 * the wrapper, from which bridge_wrapped() reads the function to call. */
void bridge_set_calls(TVMRuntimeCPackedFunc from_classic, FfiSafeCall from_ffi);
/*! \brief The function of the other side, borrowed from the wrapper. */
void* bridge_wrapped(const void* wrapper);

/*! \brief Make a classic function that calls a Function and retains it; *out is owned. */
int bridge_function_to_classic(FfiObject* function, TVMFunctionHandle* out);
/*! \brief Make a Function that calls a classic function and retains it; *out is owned. */
int bridge_function_to_ffi(TVMFunctionHandle function, FfiObject** out);
/*! \brief Make a classic function from a library's safe call; *out is owned, and retains `owner`,
 * which keeps the library loaded. */
int bridge_symbol_to_classic(FfiSafeCall address, TVMObjectHandle owner, TVMFunctionHandle* out);

#endif /* TVMRT_PLUGINS_TVM_FFI_WRAPPERS_H_ */
