/* Attributes of kernel nodes: source text, sizes, scalars. */
#ifndef TVMRT_DEVICES_OPENCL_KERNEL_NODE_H_
#define TVMRT_DEVICES_OPENCL_KERNEL_NODE_H_

#include <stddef.h>
#include <tvm/runtime/device.h>

/* A scalar parameter in the kernel's type. */
typedef struct {
  const char* type; /* a word within the node's text, not NUL-terminated */
  size_t type_length;
  union {
    float f32;
    int32_t i32;
    uint32_t u32;
    uint16_t half; /* its bits */
  } value;
  size_t bytes; /* of the value */
} kernel_scalar;

/* Number of operands and results, without omitted ones. */
int32_t kernel_num_tensors(const tvmrt_region_node* node);
int32_t kernel_num_scalars(const tvmrt_region_node* node);

/* -1 with the error text set if the scalar is missing or does not fit its type. */
int kernel_read_scalar(const tvmrt_region_node* node, int32_t index, kernel_scalar* out);

/* Check the results' extents against the compiled ones; -1 with the error text set. */
int kernel_check_extents(const tvmrt_region* region, const tvmrt_region_node* node);

#endif
