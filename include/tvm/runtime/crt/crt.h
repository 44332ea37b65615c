/*!
 * \file tvm/runtime/crt/crt.h
 * \brief Start of the runtime, as firmware programs call it.
 *
 * C99 and C++ clean. Implemented in libtvm_runtime.
 */
#ifndef TVM_RUNTIME_CRT_CRT_H_
#define TVM_RUNTIME_CRT_CRT_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief Make the runtime ready. It starts by itself; the call reports early if it could not.
 * \return kTvmErrorNoError, or kTvmErrorPlatformNoMemory.
 */
TVM_DLL tvm_crt_error_t TVMInitializeRuntime(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_CRT_H_ */
