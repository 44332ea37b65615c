/*!
 * \file tvm/runtime/crt/graph_dims.h
 * \brief Graphs whose runs choose extents: what their generated operators call.
 *
 * Implemented in libtvm_firmware.a, in a file that only such networks link. Programs need none of it:
 * they pass inputs with the extents of the run to TVMGraphExecutor_SetInput() and find those of the
 * results in tvmrt_graph_output(). How a network says which extents are open is told in
 * tvm/runtime/dims.h.
 *
 * `int32_t` results are codes of crt/error_codes.h. Where an extent does not fit, a sentence with the
 * dimension, what was found and what is allowed is left for TVMGetLastError(), if the image calls it.
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

/*! \brief The name of the first function in the table of such a network: it takes an executor and
 *         passes it on to tvmrt_graph_open(). Neither type codes nor a result are passed. */
#define TVMRT_GRAPH_OPEN "+dims"

/*!
 * \brief Let the runs of an executor choose the extents that a network leaves open.
 *
 * \param executor [in] As its graph was read: all shapes are the largest.
 * \param dims     [in] Inputs and outputs in the order of the graph; borrowed until release.
 * \return kTvmErrorNoError; kTvmErrorGraphInconsistent where shapes are not those of the graph.
 */
int32_t tvmrt_graph_open(TVMGraphExecutor* executor, const tvmrt_dims* dims);

/*!
 * \brief Read the sizes of a run from all inputs.
 *
 * \param dims  [in] Of the network.
 * \param args  [in] A DLTensor for each input.
 * \param sizes [out] One for each dimension; unspecified on failure.
 * \return kTvmErrorNoError; kTvmErrorGraphTensorMismatch for another number of axes;
 *         kTvmErrorNetworkDimensionOutOfRange for an extent beyond its bounds, and where two inputs
 *         have two sizes of one dimension.
 */
int32_t tvmrt_graph_read_dims(const tvmrt_dims* dims, const TVMValue* args, int32_t* sizes);

/*!
 * \brief Compare an extent of an input with what it is by the dimensions of others.
 * \return kTvmErrorNoError or kTvmErrorNetworkDimensionOutOfRange.
 */
int32_t tvmrt_graph_check_extent(TVMValue arg, const char* input, int32_t axis, int64_t extent);

/*!
 * \brief Compute the size of a dimension from an extent `step * size + first` of an input.
 *
 * \param size [out] Unspecified on failure.
 * \return kTvmErrorNoError; kTvmErrorNetworkDimensionOutOfRange where the extent is not of this form.
 */
int32_t tvmrt_graph_check_steps(TVMValue arg, const char* input, int32_t axis, int32_t step,
                                int32_t first, int32_t* size);

/*!
 * \brief Give an output the extent of this run.
 * \return kTvmErrorNoError; kTvmErrorNetworkDimensionOutOfRange, and nothing is written, where the
 *         tensor has no room for it.
 */
int32_t tvmrt_graph_set_extent(TVMValue arg, const char* output, int32_t axis, int64_t extent);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_GRAPH_DIMS_H_ */
