/*!
 * \file tvm/runtime/platform.h
 * \brief Functions that a board may supply to the firmware library.
 *
 * libtvm_backend.a has a default (weak symbol) for each except the cycle counter, which only
 * networks compiled with the profile option read. So a program links without defining any; its own
 * definition overrides the default. libtvm_runtime uses none of these.
 *
 * The firmware libraries never abort, print or log, and need no clock, random numbers, locks or
 * heap. Programs written for other firmware runtimes define such functions with the names of
 * crt/platform.h and crt/logging.h; this library does not call them.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_PLATFORM_H_
#define TVM_RUNTIME_PLATFORM_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief Provide the memory of the default workspace allocator.
 *
 * \param memory    [in] Borrowed for as long as generated code runs; NULL ends the loan.
 * \param num_bytes [in] Its size. A network's header states how much it needs.
 *
 * Threads: before any generated code runs; the firmware library has one thread.
 */
void tvmrt_workspace_init(void* memory, size_t num_bytes);

/*! \brief Peak number of bytes in use since tvmrt_workspace_init(). */
size_t tvmrt_workspace_peak_bytes(void);

/*!
 * \brief Allocate memory for a workspace.
 *
 * \param num_bytes [in] Size.
 * \param dev       [in] Device; the default supports kDLCPU only.
 * \param out_ptr   [out] Owned; released by TVMPlatformMemoryFree(). Not written on failure.
 * \return kTvmErrorNoError, or kTvmErrorPlatformNoMemory.
 *
 * Default: from the memory of tvmrt_workspace_init(), last in first out.
 */
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr);

/*! \brief Release memory of TVMPlatformMemoryAllocate(). \return kTvmErrorNoError or a code. */
tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev);

/*!
 * \brief A counter of processor cycles or of any other ticks; it may wrap around at 2^32.
 *
 * Networks compiled with the profile option read it before and after each operator. There is no
 * default: a program that links such a network defines it. Common counters: DWT->CYCCNT of
 * Cortex-M3 and larger, SysTick, mcycle of RISC-V.
 */
uint32_t tvmrt_platform_cycles(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_PLATFORM_H_ */
