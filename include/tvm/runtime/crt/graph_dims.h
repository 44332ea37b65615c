/*!
 * \file tvm/runtime/crt/graph_dims.h
 * \brief Support functions for generated operators of graphs with dynamic dimensions.
 *
 * Implemented in libtvm_firmware.a, in a file that only such networks link. Programs do not call
 * these functions: they pass inputs with the extents of the run to TVMGraphExecutor_SetInput() and
 * read those of the results from tvmrt_graph_output(). tvm/runtime/dims.h describes how a network
 * declares its dynamic dimensions.
 *
 * `int32_t` results are codes of crt/error_codes.h. If an extent is invalid, an error text with the
 * dimension, the extent and its bounds is stored for TVMGetLastError(), if the image calls it.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_CRT_GRAPH_DIMS_H_
#define TVM_RUNTIME_CRT_GRAPH_DIMS_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/dims.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Name of the first function in the table of such a network: it passes an executor to
 * tvmrt_graph_open(). Type codes and the result are unused. */
#define TVMRT_GRAPH_OPEN "+dims"

/*!
 * \brief Enable dynamic dimensions of an executor.
 *
 * \param executor [in] As created from its graph: all shapes are the maximum ones.
 * \param dims     [in] Inputs and outputs in the order of the graph; borrowed until release.
 * \return kTvmErrorNoError; kTvmErrorGraphInconsistent if shapes differ from the graph's.
 */
int32_t tvmrt_graph_open(TVMGraphExecutor* executor, const tvmrt_dims* dims);

/*!
 * \brief Read the sizes of a run from all inputs.
 *
 * \param dims  [in] Dimensions of the network.
 * \param args  [in] A DLTensor for each input.
 * \param sizes [out] One for each dimension; unspecified on failure.
 * \return kTvmErrorNoError; kTvmErrorGraphTensorMismatch for a wrong number of axes;
 *         kTvmErrorNetworkDimensionOutOfRange for an extent out of bounds, or if two inputs have
 *         different sizes of one dimension.
 */
int32_t tvmrt_graph_read_dims(const tvmrt_dims* dims, const TVMValue* args, int32_t* sizes);

/*!
 * \brief Compare an extent of an input with the extent that follows from other dimensions.
 * \return kTvmErrorNoError or kTvmErrorNetworkDimensionOutOfRange.
 */
int32_t tvmrt_graph_check_extent(TVMValue arg, const char* input, int32_t axis, int64_t extent);

/*!
 * \brief Compute the size of a dimension from an extent `step * size + first` of an input.
 *
 * \param size [out] Unspecified on failure.
 * \return kTvmErrorNoError; kTvmErrorNetworkDimensionOutOfRange for other extents.
 */
int32_t tvmrt_graph_check_steps(TVMValue arg, const char* input, int32_t axis, int32_t step,
                                int32_t first, int32_t* size);

/*!
 * \brief Set an output's extent for this run.
 * \return kTvmErrorNoError; kTvmErrorNetworkDimensionOutOfRange, with nothing written, if the
 *         tensor is too small for it.
 */
int32_t tvmrt_graph_set_extent(TVMValue arg, const char* output, int32_t axis, int64_t extent);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_GRAPH_DIMS_H_ */
