/*!
 * \file tvm/runtime/region.h
 * \brief Regions: pieces of a network, as devices and schedulers get them. Part of
 *        tvm/runtime/device.h, which includes it.
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
 * \name Regions: what a device is given
 *
 * Everything that a region points to belongs to the runtime and is constant, unless a field says
 * otherwise; it lives as long as the region.
 * @{
 */

/*! \brief Which field of a tvmrt_attr holds its value. */
typedef enum {
  TVMRT_ATTR_INTS = 0,   /*!< `ints`, count of them; a single integer is a list of one. */
  TVMRT_ATTR_FLOATS = 1, /*!< `floats`, count of them; a single number is a list of one. */
  TVMRT_ATTR_TEXT = 2    /*!< `text`; count is its length in bytes. */
} tvmrt_attr_kind;

/*! \brief An attribute of a node; read it by tvmrt_node_int() and its sisters. */
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
  const int64_t* shape; /*!< ndim extents in elements, in the order of ONNX; the most of them. */
  uint64_t num_bytes;   /*!< Of all elements, compact. */
  int32_t is_constant;  /*!< 1: a weight. */
  /*! Constants: compact, row-major, aligned to 64 bytes; else NULL. Also NULL while a graph is only
   * split, where the compiler does not hand constants over. */
  const void* data;
} tvmrt_region_tensor;

/*! \brief One operator. Names and attributes are those of the compiler's operators. */
typedef struct tvmrt_region_node {
  const char* op;        /*!< "conv", "matmul", "max", ... */
  const char* name;      /*!< Names of the ONNX nodes that it stands for, for messages. */
  const int32_t* inputs; /*!< Numbers of tensors; -1 for an input that is left out. */
  int32_t num_inputs;
  const int32_t* outputs;
  int32_t num_outputs;
  const tvmrt_attr* attrs;
  int32_t num_attrs;
} tvmrt_region_node;

/*! \brief A piece of a network: nodes in an order in which they can run. */
typedef struct tvmrt_region {
  const char* symbol; /*!< Name of the packed function: "tvmgen_default_npu_main_0". */
  const char* name;   /*!< For people. */
  const tvmrt_region_tensor* tensors;
  int32_t num_tensors;
  const tvmrt_region_node* nodes;
  int32_t num_nodes;
  const int32_t* inputs; /*!< Numbers of the tensors that the function takes, in order. */
  int32_t num_inputs;
  const int32_t* outputs; /*!< Numbers of the tensors that it writes, in order. */
  int32_t num_outputs;
  /*!
   * Per tensor, the memory of the current call: inputs and outputs from the start of `run` or
   * `async_run` to its end, or to the end of the `async_wait` that finishes it; constants always;
   * NULL for all others. Inputs must not be written. Compact unless strides say otherwise.
   */
  DLTensor* const* data;
  void* device_graph;  /*!< The device's own: set by pre_run, given to release_graph. */
  int32_t failed_node; /*!< Set by a slot that fails at a node; -1 if it is no particular one. */
  void* runtime;       /*!< The runtime's own. */
  /*!
   * Calls that meet have a copy of the region each, with a device_graph of its own: the region that
   * was prepared when the library was loaded is the base of the others, and NULL here. It lives
   * longer, and is reshaped only when they are gone; so pre_run may take what runs do not write,
   * such as packed weights, from base->device_graph, while the base runs.
   */
  const struct tvmrt_region* base;
  size_t struct_bytes; /*!< Of this struct in the runtime: what lies after it is not there. */
  /*! The device's own, NULL before `allocate`: what this region, or copy of a region, has taken from
   * the device's pool. Set by `allocate`, given back by `release`. `pre_run` may change it, where other
   * shapes need more or less. Read it only if struct_bytes is at least TVMRT_REGION_RESERVATION_BYTES. */
  void* reservation;
} tvmrt_region;

/*! \brief The least struct_bytes of a tvmrt_region that has `reservation`. */
#define TVMRT_REGION_RESERVATION_BYTES (offsetof(tvmrt_region, reservation) + sizeof(void*))

/*! @} */
/*! \brief A device; see tvm/runtime/device.h. */
typedef struct tvmrt_device tvmrt_device;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_REGION_H_ */
