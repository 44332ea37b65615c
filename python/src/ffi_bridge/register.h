/*! \file register.h
 *  \brief The makers of functions, as global functions of both sides. */
#ifndef TVMRT_PYTHON_SRC_FFI_BRIDGE_REGISTER_H_
#define TVMRT_PYTHON_SRC_FFI_BRIDGE_REGISTER_H_

/*!
 * \brief Enter the makers of functions in both global registries.
 *
 * In the other side's: tvmrt.from_packed_func(TVMFunctionHandle) and
 * tvmrt.from_c_packed_func(TVMCPackedFunc, resource, owner). In the classic one:
 * tvmrt.tvm_ffi.from_function(Function) and tvmrt.tvm_ffi.from_safe_call(FfiSafeCall, self, owner).
 * Addresses are passed as raw pointers.
 */
int bridge_register_makers(void);

#endif /* TVMRT_PYTHON_SRC_FFI_BRIDGE_REGISTER_H_ */
