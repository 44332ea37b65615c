/*!
 * \file tvm/runtime/platform.h
 * \brief The few functions that a board may supply to the firmware library.
 *
 * libtvm_backend.a carries a default for each (weak symbols) but the counter, which only networks read
 * that were compiled to, so a program links without writing any; a definition of the program's own
 * takes its place. Nothing here is used by libtvm_runtime.
 *
 * What the firmware libraries never ask for: to abort, whatever they are given; to print or log; a
 * clock, random numbers, locks, a heap. Programs that were written for other firmware runtimes define
 * such functions by the names of crt/platform.h and crt/logging.h; here nobody calls them.
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
 * \brief Lend memory from which workspaces are taken by the default allocator.
 *
 * \param memory    [in] Borrowed for as long as generated code runs; NULL takes the memory back.
 * \param num_bytes [in] Its size. A network's header states how much it needs.
 *
 * Threads: before any generated code runs; the firmware library has one thread.
 */
void tvmrt_workspace_init(void* memory, size_t num_bytes);

/*! \brief Most bytes that were in use at once since tvmrt_workspace_init(). */
size_t tvmrt_workspace_peak_bytes(void);

/*!
 * \brief Memory for a workspace.
 *
 * \param num_bytes [in] Size.
 * \param dev       [in] Device; the default serves kDLCPU only.
 * \param out_ptr   [out] Owned; released by TVMPlatformMemoryFree(). Not written on failure.
 * \return kTvmErrorNoError, or kTvmErrorPlatformNoMemory.
 *
 * Default: from the memory of tvmrt_workspace_init(), last in first out.
 */
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void** out_ptr);

/*! \brief Give memory of TVMPlatformMemoryAllocate() back. \return kTvmErrorNoError or a code. */
tvm_crt_error_t TVMPlatformMemoryFree(void* ptr, DLDevice dev);

/*!
 * \brief A counter of processor cycles or of any other ticks; it may wrap around at 2^32.
 *
 * Networks that are compiled with the option profile read it before and after each operator. There
 * is no default: a program that links such a network defines it. Counters that boards have:
 * DWT->CYCCNT of Cortex-M3 and larger, SysTick, mcycle of RISC-V.
 */
uint32_t tvmrt_platform_cycles(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_PLATFORM_H_ */
