/*!
 * \file tvm/runtime/c_backend_api.h
 * \brief Functions of the runtime that generated code calls.
 *
 * Generated C includes this header, metadata.h and kernels/, never c_runtime_api.h. Each function
 * exists twice: in libtvm_runtime (hosts: threads, registry, thread-local state) and in
 * libtvm_backend.a (firmware: one thread, no malloc, no stdio); differences are noted.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_C_BACKEND_API_H_
#define TVM_RUNTIME_C_BACKEND_API_H_

#include <tvm/runtime/c_packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \brief Find a function that generated code calls by name.
 *
 * \param mod_node  [in] The value in the library's `__tvm_module_ctx`; NULL searches globals only.
 * \param func_name [in] NUL-terminated; borrowed for the call.
 * \param out       [out] The function; borrowed: never freed by the caller, valid while the module
 *                        lives, so callers may keep it in a static variable.
 *
 * Order:   imports of the module (each with its own imports), then the global registry; not the
 *          module itself. The result is cached per module.
 * Errors:  0, or -1 "Cannot find function <name> ...".
 * Threads: thread-safe.
 * Backend library: searches the functions of TVMSystemLibEntryPoint(), if the program has one.
 */
TVM_DLL int TVMBackendGetFuncFromEnv(void* mod_node, const char* func_name, TVMFunctionHandle* out);

/*!
 * \brief Register a symbol of a statically linked library; called from constructors, before main.
 *
 * \param name [in] NUL-terminated, copied. A later, different pointer for a name replaces it.
 * \param ptr  [in] Function or variable; lives as long as the process.
 *
 * Errors:  0, or -1 if memory is exhausted.
 * Threads: thread-safe.
 * Backend library: absent; its system library is TVMSystemLibEntryPoint() of crt/module.h.
 */
TVM_DLL int TVMBackendRegisterSystemLibSymbol(const char* name, void* ptr);

/*!
 * \brief Allocate temporary memory for one call.
 *
 * \param device_type     [in] DLDeviceType, normally kDLCPU.
 * \param device_id       [in] Index of the device.
 * \param nbytes          [in] Size in bytes; 0 is allowed.
 * \param dtype_code_hint [in] Ignored on CPU.
 * \param dtype_bits_hint [in] Ignored on CPU.
 * \return At least nbytes, uninitialised, aligned to 64 bytes or more (firmware: to
 *         TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES, 16 unless configured). NULL with an error text if
 *         memory is exhausted; generated code then returns -1.
 *
 * Ownership: released by TVMBackendFreeWorkspace() on the same thread. Last in, first out is
 *            fastest, and required by the backend library.
 * Threads:   each thread has its own pool; blocks are reused between calls and returned to the
 *            system when the thread ends.
 */
TVM_DLL void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes,
                                       int dtype_code_hint, int dtype_bits_hint);

/*!
 * \brief Release memory of TVMBackendAllocWorkspace().
 * \param ptr [in] From the same thread and device; NULL does nothing.
 * Errors: 0, or -1 if ptr is not a live block of this thread.
 */
TVM_DLL int TVMBackendFreeWorkspace(int device_type, int device_id, void* ptr);

/*!
 * \brief Register a function of the Python interpreter (called by the Python layer).
 *
 * \param name [in] PyErr_CheckSignals, Py_IncRef, Py_DecRef, PyGILState_Ensure, PyGILState_Release.
 * \param ptr  [in] The function; lives as long as the process.
 *
 * Errors: 0, or -1 for an unknown name.
 * Backend library: absent.
 */
TVM_DLL int TVMBackendRegisterEnvCAPI(const char* name, void* ptr);

/*! \brief Group of a parallel launch, as passed to each of its tasks. */
typedef struct {
  void* sync_handle; /*!< For TVMBackendParallelBarrier() only. */
  int32_t num_task;  /*!< Number of tasks that actually run; at least 1. Split the work by it. */
} TVMParallelGroupEnv;

/*!
 * \brief One task of a parallel launch.
 * \param task_id [in] 0 to penv->num_task - 1.
 * \param penv    [in] The group; borrowed for the call.
 * \param cdata   [in] The launcher's closure; borrowed for the call, shared by all tasks.
 * \return 0, or -1 with an error text.
 */
typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv* penv, void* cdata);

/*!
 * \brief Run a function on several threads and wait for all of them.
 *
 * \param flambda  [in] Called once per task.
 * \param cdata    [in] Passed to every task; may live on the caller's stack.
 * \param num_task [in] Requested number of tasks; 0: the number of workers. The number
 *                      that runs is penv->num_task. It is smaller if there are fewer workers. It is
 *                      1, on the calling thread, if there is one worker, if the caller is a task,
 *                      or if another thread uses the workers. Kernels request one task per two
 *                      microseconds of work; small launches do not wake sleeping workers.
 *
 * Task 0 runs on the calling thread. All tasks run at the same time if they use the barrier.
 * Errors:  0, or -1 with the texts of the failed tasks, one line each: "Task <i> error: <text>".
 * Threads: thread-safe.
 * Backend library: runs one task on the caller.
 */
TVM_DLL int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void* cdata, int num_task);

/*!
 * \brief Wait inside a task until every task of the group has reached this barrier.
 * \param task_id [in] This task's id.
 * \param penv    [in] This task's group.
 * \return 0. Every task must pass the same barriers.
 */
TVM_DLL int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* penv);

/*!
 * \brief Run an initialiser on the first call only.
 *
 * \param handle [in,out] A static variable, NULL at first; becomes non-NULL.
 * \param f      [in] The initialiser.
 * \param cdata  [in] Passed to f.
 * \param nbytes [in] Size of the data at cdata; informational.
 * \return 0 if the initialiser had run before, else the result of f.
 * Threads: not synchronised.
 */
TVM_DLL int TVMBackendRunOnce(void** handle, int (*f)(void*), void* cdata, int nbytes);

/*!
 * \name Time per operator of ahead-of-time compiled code
 *
 * A library that is compiled with the profile option exports one tvmrt_profile_slot per network,
 * under the symbol `<mod_name>_profile_slot` (for example `tvmgen_default_profile_slot`). Its main
 * function brackets operator i with TVMRT_PROFILE_BEGIN and TVMRT_PROFILE_END:
 *
 *     static const char* const op_names[] = {"conv1", "dense"};
 *     TVM_DLL tvmrt_profile_slot tvmgen_default_profile_slot = {op_names, 2, NULL, NULL, NULL};
 *     ...
 *     TVMRT_PROFILE_BEGIN(&tvmgen_default_profile_slot, 0);
 *     if (tvmgen_default_conv1(...) != 0) return -1;
 *     TVMRT_PROFILE_END(&tvmgen_default_profile_slot, 0);
 *
 * The AOT executor's `profile` function fills `begin`, `end` and `context`, runs the network, and
 * clears them. Outside of profiling each macro costs one load and one branch. The hooks are called
 * on the thread that runs main; the receiver ignores calls from other threads.
 * @{
 */

/*! \brief Profiling hooks of one network. */
typedef struct tvmrt_profile_slot {
  const char* const* op_names; /*!< num_ops names, the name of operator i at index i; static. */
  int32_t num_ops;
  void (*begin)(void* context, int32_t op_index); /*!< NULL when not profiling. */
  void (*end)(void* context, int32_t op_index);   /*!< NULL when not profiling. */
  void* context;
} tvmrt_profile_slot;

/*! \brief Report that operator `op_index` starts. */
#define TVMRT_PROFILE_BEGIN(slot, op_index)                                \
  do {                                                                     \
    if ((slot)->begin != NULL) (slot)->begin((slot)->context, (op_index)); \
  } while (0)

/*! \brief Report that operator `op_index` has ended. */
#define TVMRT_PROFILE_END(slot, op_index)                              \
  do {                                                                 \
    if ((slot)->end != NULL) (slot)->end((slot)->context, (op_index)); \
  } while (0)

/*! @} */

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_C_BACKEND_API_H_ */
