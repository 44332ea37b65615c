/*!
 * \file tvm/runtime/dims.h
 * \brief Dimensions of a network that a run may choose, within bounds.
 *
 * Shapes travel in the tensors: the extents of the inputs are the sizes of a run, and a network
 * sets the extents of its outputs to what it computes. Whoever passes an output gives it as many
 * elements as its extents say, which are at least those of the results. All else is planned for the
 * largest sizes: metadata and graphs have those.
 *
 * A library whose network has such dimensions answers the packed function `get_dims`, which takes no
 * argument, by the address of a tvmrt_dims (type code kTVMOpaqueHandle) that lives as long as the
 * library. Fields are only added at the end; `struct_bytes` tells how many there are.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_DIMS_H_
#define TVM_RUNTIME_DIMS_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief A dimension by its name in the network, and the sizes that it may have. */
typedef struct tvmrt_dim {
  const char* name;
  int32_t least;
  int32_t most;
} tvmrt_dim;

/*! \brief The extents that an input or output may have. */
typedef struct tvmrt_dims_tensor {
  const char* name;
  int32_t rank;
  const int32_t* dim;   /*!< Per axis the dimension that it is, or -1. */
  const int64_t* least; /*!< Per axis; no larger than `most`, equal where the extent is fixed. */
  const int64_t* most;
} tvmrt_dims_tensor;

/*! \brief What a network says of its dimensions. */
typedef struct tvmrt_dims {
  size_t struct_bytes;
  const tvmrt_dim* dims;
  int32_t num_dims;
  const tvmrt_dims_tensor* inputs; /*!< In the order of the network. */
  int32_t num_inputs;
  const tvmrt_dims_tensor* outputs;
  int32_t num_outputs;
  /*!< JSON: {"dims": {name: [least, most]}, "inputs": {name: [extent]}, "outputs": {...}}; an
   * extent is a number, or the text of an expression of dimensions. */
  const char* text;
} tvmrt_dims;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_DIMS_H_ */
