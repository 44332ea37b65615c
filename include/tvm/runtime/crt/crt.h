/*!
 * \file tvm/runtime/crt/crt.h
 * \brief Initialisation of the runtime, as firmware programs call it.
 *
 * C99 and C++ clean. Implemented in libtvm_runtime, and for images in libtvm_firmware.a.
 */
#ifndef TVM_RUNTIME_CRT_CRT_H_
#define TVM_RUNTIME_CRT_CRT_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief Initialise the runtime. It initialises itself on demand; the call reports errors early.
 *
 * Firmware library: takes TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES from TVMPlatformMemoryAllocate()
 * for functions that TVMFuncRegisterGlobal() adds; programs that add none need not call it.
 * \return kTvmErrorNoError, or kTvmErrorPlatformNoMemory.
 */
TVM_DLL tvm_crt_error_t TVMInitializeRuntime(void);

/*!
 * \brief Provide memory for the table of added global functions, instead of TVMInitializeRuntime().
 * Only in libtvm_firmware.a.
 *
 * \param memory    [in] Borrowed from now on; functions added before are removed.
 * \param num_bytes [in] Space for num_bytes / TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES functions.
 * \return kTvmErrorNoError, or kTvmErrorBufferTooSmall.
 */
tvm_crt_error_t tvmrt_globals_init(void* memory, size_t num_bytes);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_CRT_H_ */
