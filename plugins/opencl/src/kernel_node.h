/* What devices read of a node that is a kernel: source text, extents, scalars. */
#ifndef TVMRT_DEVICES_OPENCL_KERNEL_NODE_H_
#define TVMRT_DEVICES_OPENCL_KERNEL_NODE_H_

#include <stddef.h>
#include <tvm/runtime/device.h>

/* A scalar parameter, as the kernel takes it. */
typedef struct {
  const char* type; /* a word of the node's text, which goes on behind it */
  size_t type_length;
  union {
    float f32;
    int32_t i32;
    uint32_t u32;
    uint16_t half; /* its bits */
  } value;
  size_t bytes; /* of the value */
} kernel_scalar;

/* Operands and results, those left out not counted. */
int32_t kernel_num_tensors(const tvmrt_region_node* node);
int32_t kernel_num_scalars(const tvmrt_region_node* node);

/* -1 with the error text set where it is missing or is none of its type. */
int kernel_read_scalar(const tvmrt_region_node* node, int32_t number, kernel_scalar* out);

/* Kernels are made for the extents that the compiler knew; -1 with the error text set if a result has others. */
int kernel_check_extents(const tvmrt_region* region, const tvmrt_region_node* node);

#endif
