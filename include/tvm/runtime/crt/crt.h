/*!
 * \file tvm/runtime/crt/crt.h
 * \brief Start of the runtime, as firmware programs call it.
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
 * \brief Make the runtime ready. It starts by itself; the call reports early if it could not.
 *
 * Firmware library: takes TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES from TVMPlatformMemoryAllocate() for
 * functions that TVMFuncRegisterGlobal() adds; programs that add none need not call it.
 * \return kTvmErrorNoError, or kTvmErrorPlatformNoMemory.
 */
TVM_DLL tvm_crt_error_t TVMInitializeRuntime(void);

/*!
 * \brief Give the table of added global functions its memory, instead of TVMInitializeRuntime().
 *        In libtvm_firmware.a alone.
 *
 * \param memory    [in] Borrowed from now on; functions added before are forgotten.
 * \param num_bytes [in] Room for num_bytes / TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES functions.
 * \return kTvmErrorNoError, or kTvmErrorBufferTooSmall.
 */
tvm_crt_error_t tvmrt_globals_init(void* memory, size_t num_bytes);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_CRT_H_ */
