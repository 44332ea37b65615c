/*!
 * \file tvm/runtime/crt/graph_executor_module.h
 * \brief Registration of `tvm.graph_executor.create`, which is built into libtvm_runtime.
 */
#ifndef TVM_RUNTIME_CRT_GRAPH_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_GRAPH_EXECUTOR_MODULE_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief Register the function. No-op in libtvm_runtime; libtvm_firmware.a adds it to the globals.
 * \return kTvmErrorNoError; kTvmErrorFunctionRegistryFull before TVMInitializeRuntime() or without
 *         space, kTvmErrorFunctionAlreadyDefined on the second call.
 */
TVM_DLL tvm_crt_error_t TVMGraphExecutorModule_Register(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_GRAPH_EXECUTOR_MODULE_H_ */
