/*! \file register.h
 *  \brief The makers of functions, as global functions of both sides. */
#ifndef TVMRT_PLUGINS_TVM_FFI_REGISTER_H_
#define TVMRT_PLUGINS_TVM_FFI_REGISTER_H_

#include <tvm/runtime/c_runtime_api.h>

/*!
 * \brief Enter the makers of functions for classic callers in the classic registry.
 *
 * tvmrt.tvm_ffi.from_function(Function) and tvmrt.tvm_ffi.from_safe_call(FfiSafeCall, self, owner).
 * Addresses are passed as raw pointers.
 */
int bridge_register_makers(void);
/*!
 * \brief Enter the makers of functions for the other side in its registry.
 *
 * tvmrt.from_packed_func(TVMFunctionHandle) and
 * tvmrt.from_c_packed_func(TVMCPackedFunc, resource, owner).
 */
int bridge_register_ffi_makers(void);
/*! \brief Enter a function in the classic registry. */
int bridge_register_classic(const char* name, TVMRuntimeCPackedFunc function);

#endif /* TVMRT_PLUGINS_TVM_FFI_REGISTER_H_ */
