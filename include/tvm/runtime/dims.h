/*!
 * \file tvm/runtime/dims.h
 * \brief Dynamic dimensions of a network, with their bounds.
 *
 * Tensors carry the shapes: the extents of the inputs are the sizes of a run, and a network sets
 * the extents of its outputs to the computed sizes. A caller allocates as many elements for an
 * output as its extents state; these must be as large as the result or larger. All other memory is
 * planned for the maximum sizes, which metadata and graphs contain, or for the sizes of each run, see
 * run_plan.h.
 *
 * A library with dynamic dimensions exports the packed function `get_dims`, which takes no argument
 * and returns the address of a tvmrt_dims (type code kTVMOpaqueHandle) that lives as long as the
 * library. Fields are only added at the end; `struct_bytes` determines the fields that exist.
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

/*! \brief A dimension: its name in the network, and its bounds. */
typedef struct tvmrt_dim {
  const char* name;
  int32_t min;
  int32_t max;
} tvmrt_dim;

/*! \brief The bounds of the extents of an input or output. */
typedef struct tvmrt_dims_tensor {
  const char* name;
  int32_t rank;
  const int32_t* dim; /*!< Index of the dimension per axis, or -1. */
  const int64_t* min; /*!< Per axis; at most `max`, equal if the extent is fixed. */
  const int64_t* max;
} tvmrt_dims_tensor;

/*! \brief The dynamic dimensions of a network. */
typedef struct tvmrt_dims {
  size_t struct_bytes;
  const tvmrt_dim* dims;
  int32_t num_dims;
  const tvmrt_dims_tensor* inputs; /*!< In the order of the network. */
  int32_t num_inputs;
  const tvmrt_dims_tensor* outputs;
  int32_t num_outputs;
  /*!< JSON: {"dims": {name: [min, max]}, "inputs": {name: [extent]}, "outputs": {...}}; an
   * extent is a number, or the text of an expression of dimensions. */
  const char* text;
} tvmrt_dims;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_DIMS_H_ */
