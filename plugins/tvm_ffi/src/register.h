/*! \file register.h
 * \brief Constructors of wrapper functions, as global functions of both sides. */
#ifndef TVMRT_PLUGINS_TVM_FFI_REGISTER_H_
#define TVMRT_PLUGINS_TVM_FFI_REGISTER_H_

#include <tvm/runtime/c_runtime_api.h>

/*!
 * \brief Register the constructors for classic callers in the classic registry.
 *
 * tvmrt.tvm_ffi.from_function(Function) and tvmrt.tvm_ffi.from_safe_call(FfiSafeCall, self, owner).
 * Addresses are passed as raw pointers.
 */
int bridge_register_makers(void);
/*!
 * \brief Register the constructors for tvm-ffi callers in tvm-ffi's registry.
 *
 * tvmrt.from_packed_func(TVMFunctionHandle) and
 * tvmrt.from_c_packed_func(TVMCPackedFunc, resource, owner).
 */
int bridge_register_ffi_makers(void);
/*! \brief Register a function in the classic registry. */
int bridge_register_classic(const char* name, TVMRuntimeCPackedFunc function);

#endif /* TVMRT_PLUGINS_TVM_FFI_REGISTER_H_ */
