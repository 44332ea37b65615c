/*!
 * \file tvm/runtime/crt/graph_executor.h
 * \brief The graph executor, as firmware programs call it.
 *
 * C99 and C++ clean. Implemented in libtvm_runtime, over the module `tvm.graph_executor.create`:
 * `int` functions return 0, or -1 with a text in TVMGetLastError(). Implemented for images in
 * libtvm_firmware.a, with the differences of crt/graph_arena.h: it returns codes, and uses JSON,
 * params and inputs in place.
 */
#ifndef TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_
#define TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_

#include <tvm/runtime/c_packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief An executor. Opaque; thread-compatible. */
typedef struct TVMGraphExecutor TVMGraphExecutor;

/*!
 * \brief Create an executor.
 * \param sym_json      [in] Graph JSON; borrowed for the call.
 * \param module_handle [in] Module of the operators; retained.
 * \param devices       [in] One device.
 * \param executor      [out] Owned; released by TVMGraphExecutor_Release().
 */
TVM_DLL int TVMGraphExecutor_Create(const char* sym_json, TVMModuleHandle module_handle,
                                    const DLDevice* devices, TVMGraphExecutor** executor);

/*! \brief Index of an input; -1 if there is none with that name. */
TVM_DLL int TVMGraphExecutor_GetInputIndex(TVMGraphExecutor* executor, const char* name);

/*! \brief Number of inputs, including parameters; -1 on failure. */
TVM_DLL int TVMGraphExecutor_GetNumInputs(TVMGraphExecutor* executor);

/*!
 * \brief Set an input.
 * \param data_in [in] Used in place if it is aligned to 64 bytes and compact: it must then live
 *                     until the last run. Copied otherwise.
 */
TVM_DLL int TVMGraphExecutor_SetInput(TVMGraphExecutor* executor, const char* name,
                                      DLTensor* data_in);

/*! \brief Number of outputs; -1 on failure. */
TVM_DLL int TVMGraphExecutor_GetNumOutputs(TVMGraphExecutor* executor);

/*! \brief Copy an output into a tensor of equal size. */
TVM_DLL int TVMGraphExecutor_GetOutput(TVMGraphExecutor* executor, int32_t index, DLTensor* out);

/*! \brief Set the inputs named in a params file. */
TVM_DLL int TVMGraphExecutor_LoadParams(TVMGraphExecutor* executor, const char* param_blob,
                                        uint32_t param_size);

/*! \brief Run the network. */
TVM_DLL int TVMGraphExecutor_Run(TVMGraphExecutor* executor);

/*! \brief Release an executor and set the pointer to NULL. */
TVM_DLL int TVMGraphExecutor_Release(TVMGraphExecutor** executor);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_ */
