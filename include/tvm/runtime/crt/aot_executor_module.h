/*!
 * \file tvm/runtime/crt/aot_executor_module.h
 * \brief Registration of `tvm.aot_executor.create`, which is built into libtvm_runtime.
 */
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief Register the function. libtvm_runtime does nothing; libtvm_firmware.a adds it to the globals.
 * \return As TVMGraphExecutorModule_Register().
 */
TVM_DLL tvm_crt_error_t TVMAotExecutorModule_Register(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_ */
