/*!
 * \file tvm/runtime/region.h
 * \brief Regions: parts of a network, as passed to devices and schedulers. Part of
 * tvm/runtime/device.h, which includes it.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_REGION_H_
#define TVM_RUNTIME_REGION_H_

#include <stddef.h>
#include <tvm/runtime/c_packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \name Regions: the input of a device
 *
 * Everything that a region points to belongs to the runtime and is constant, unless a field says
 * otherwise; it lives as long as the region.
 * @{
 */

/*! \brief Kind of a tvmrt_attr: selects the field that holds its value. */
typedef enum {
  TVMRT_ATTR_INTS = 0,   /*!< `ints`, count of them; a single integer is a list of one. */
  TVMRT_ATTR_FLOATS = 1, /*!< `floats`, count of them; a single number is a list of one. */
  TVMRT_ATTR_TEXT = 2    /*!< `text`; count is its length in bytes. */
} tvmrt_attr_kind;

/*! \brief An attribute of a node; read it by tvmrt_node_int() and similar functions. */
typedef struct tvmrt_attr {
  const char* key;
  tvmrt_attr_kind kind;
  int32_t count;
  const int64_t* ints;
  const double* floats;
  const char* text; /*!< NUL-terminated. */
} tvmrt_attr;

/*! \brief A tensor of a region: its type, and its values if they are constant. */
typedef struct tvmrt_region_tensor {
  const char* name;
  DLDataType dtype;
  int32_t ndim;         /*!< 0 for a scalar. */
  const int64_t* shape; /*!< ndim extents, in ONNX order; the maximum of dynamic ones. */
  uint64_t num_bytes;   /*!< Size of all elements, compact. */
  int32_t is_constant;  /*!< 1: a weight. */
  /*! Constants: compact, row-major, aligned to 64 bytes; else NULL. Also NULL in split_graph. */
  const void* data;
} tvmrt_region_tensor;

/*! \brief One operator. Names and attributes are those of the compiler's operators. */
typedef struct tvmrt_region_node {
  const char* op;        /*!< "conv", "matmul", "max", ... */
  const char* name;      /*!< Names of its source ONNX nodes, for messages. */
  const int32_t* inputs; /*!< Indices of tensors; -1 for an input that is left out. */
  int32_t num_inputs;
  const int32_t* outputs;
  int32_t num_outputs;
  const tvmrt_attr* attrs;
  int32_t num_attrs;
} tvmrt_region_node;

/*! \brief A part of a network: nodes in topological order. */
typedef struct tvmrt_region {
  const char* symbol; /*!< Name of the packed function: "tvmgen_default_npu_main_0". */
  const char* name;   /*!< Name for users. */
  const tvmrt_region_tensor* tensors;
  int32_t num_tensors;
  const tvmrt_region_node* nodes;
  int32_t num_nodes;
  const int32_t* inputs; /*!< Indices of the function's input tensors, in order. */
  int32_t num_inputs;
  const int32_t* outputs; /*!< Indices of the function's output tensors, in order. */
  int32_t num_outputs;
  /*!
   * Per tensor, the memory of the current call. Inputs and outputs: from the start of `run` or
   * `async_run` to its end, or to the end of the `async_wait` that finishes it. Constants: always.
   * NULL for all others. Inputs must not be written. Compact unless strides say otherwise.
   */
  DLTensor* const* data;
  void* device_graph;  /*!< The device's private data: set by pre_run, passed to release_graph. */
  int32_t failed_node; /*!< Set by a slot that fails at a node; -1 otherwise. */
  void* runtime;       /*!< The runtime's private data. */
  /*!
   * Concurrent calls each have a copy of the region, with its own device_graph. Their base is the
   * region that was prepared when the library was loaded; in the base itself this is NULL. The base
   * outlives its copies, and gets other shapes only after they are released. So pre_run may use data
   * that runs do not write, such as packed weights, from base->device_graph while the base runs.
   */
  const struct tvmrt_region* base;
  size_t struct_bytes; /*!< Size of this struct in the runtime: fields past it do not exist. */
  /*! The device's private data, NULL before `allocate`: what this region, or copy of a region, has
   * reserved in the device's pool. Set by `allocate`, released by `release`; `pre_run` may change
   * it for other shapes. Read it only if struct_bytes is at least
   * TVMRT_REGION_RESERVATION_BYTES. */
  void* reservation;
} tvmrt_region;

/*! \brief Minimum struct_bytes of a tvmrt_region that has `reservation`. */
#define TVMRT_REGION_RESERVATION_BYTES (offsetof(tvmrt_region, reservation) + sizeof(void*))

/*! @} */
/*! \brief A device; see tvm/runtime/device.h. */
typedef struct tvmrt_device tvmrt_device;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_REGION_H_ */
