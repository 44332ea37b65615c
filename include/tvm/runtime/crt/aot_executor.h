/*!
 * \file tvm/runtime/crt/aot_executor.h
 * \brief The ahead-of-time executor, as firmware programs call it.
 *
 * C99 and C++ clean. Implemented in libtvm_runtime, over the module `tvm.aot_executor.create`; and
 * for images in libtvm_firmware.a. There the executor with its tensors is one block of
 * TVMPlatformMemoryAllocate(), and errors are codes without texts: kTvmErrorFunctionNameNotFound
 * for a network that is not in the module's table, kTvmErrorPlatformNoMemory.
 */
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/metadata.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief A tensor of an executor. */
typedef struct TVMNDArray {
  DLTensor dl_tensor;
  uint32_t reference_count; /*!< 1: owned by the executor. */
} TVMNDArray;

/*! \brief An executor. Programs must not change its fields. Thread-compatible. */
typedef struct TVMAotExecutor {
  const TVMMetadata* metadata;
  TVMModuleHandle module_handle; /*!< Borrowed; retained by Create. */
  DLDevice device;
  TVMNDArray* args; /*!< Inputs, outputs, missing pools of the network; memory of the executor. */
  int64_t num_args;
} TVMAotExecutor;

/*!
 * \brief Create an executor.
 * \param module_handle [in] The library; retained.
 * \param device        [in] The CPU.
 * \param executor      [out] Owned; released by TVMAotExecutor_Release(). NULL on failure.
 * \param module_name   [in] Name of the network, for example "default".
 * \return kTvmErrorNoError, or kTvmErrorExecutorModuleBadContext with a text in TVMGetLastError().
 */
TVM_DLL tvm_crt_error_t TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                                              TVMAotExecutor** executor, const char* module_name);

/*! \brief Release an executor. NULL does nothing. */
TVM_DLL tvm_crt_error_t TVMAotExecutor_Release(TVMAotExecutor* executor, const DLDevice device);

/*! \brief Number of inputs. */
TVM_DLL int TVMAotExecutor_GetNumInputs(TVMAotExecutor* executor);

/*! \brief Number of outputs. */
TVM_DLL int TVMAotExecutor_GetNumOutputs(TVMAotExecutor* executor);

/*! \brief Index of an input; -1 if there is none with that name. */
TVM_DLL int TVMAotExecutor_GetInputIndex(TVMAotExecutor* executor, const char* name);

#if defined(__GNUC__) && !defined(__cplusplus) && !defined(__STRICT_ANSI__)
/*! \brief Address of a name: programs for TVM 0.12 pass char**, later ones const char**. */
typedef union {
  const char** constant;
  char** plain;
} tvmrt_name_out __attribute__((transparent_union));
#else
typedef const char** tvmrt_name_out;
#endif

/*!
 * \brief Name of an input.
 * \param name [out] A `const char**` or `char**`; the text is borrowed from the library and constant.
 * \return 0, or -1.
 */
TVM_DLL int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, tvmrt_name_out name);

/*! \brief Run the network. */
TVM_DLL tvm_crt_error_t TVMAotExecutor_Run(TVMAotExecutor* executor);

#ifdef __cplusplus
}

/*! \brief Overload for programs for TVM 0.12. */
static inline int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, char** name) {
  return TVMAotExecutor_GetInputName(executor, index, const_cast<const char**>(name));
}
#endif

#endif /* TVM_RUNTIME_CRT_AOT_EXECUTOR_H_ */
