/*
 * Places of a region's tensors on a device whose kernels work in its own memory. The region's nodes
 * are kernels, which the compiler made from the network's operators, and reshapes, which only
 * rename a place.
 */
#ifndef TVMRT_DEVICES_OPENCL_REGION_PLAN_H_
#define TVMRT_DEVICES_OPENCL_REGION_PLAN_H_

#include <stdbool.h>
#include <stddef.h>
#include <tvm/runtime/device.h>

typedef struct {
  enum {
    LOCATION_NONE,
    LOCATION_CONSTANT, /* `number` is the constant's */
    LOCATION_BUFFER,   /* `number` is the index of the plan's buffer */
    LOCATION_BOUNDARY  /* `number` is the input or output whose memory contains the tensor */
  } kind;
  int32_t number;
} tensor_location;

typedef struct {
  tensor_location* locations; /* per tensor */
  size_t* buffer_bytes;       /* non-zero multiples of 256; reused after a tensor's last reader */
  int32_t num_buffers;
} region_plan;

/* Whether the node only gives its operand another name and shape. */
bool region_is_alias(const tvmrt_region_node* node);

/* Bytes of a tensor in a buffer: a non-zero multiple of 256. */
size_t region_buffer_bytes(const tvmrt_region* region, int32_t tensor);

/*
 * Make a plan. -1 with the error text and the region's failed_node set if nodes read uncomputed
 * tensors or reshapes change sizes. region_plan_free() frees the plan, also a zeroed one.
 */
int region_plan_make(tvmrt_region* region, region_plan* out);
void region_plan_free(region_plan* plan);

/* Inputs, then outputs. */
int32_t region_boundary_tensor(const tvmrt_region* region, int32_t number);

/* Start of the caller's tensor; the runtime ensures that it is compact. */
char* region_memory(const tvmrt_region* region, int32_t tensor);

/* Whether the caller's memory for this output overlaps another boundary tensor on the device, which
 * kernels may still read; such an output is copied at the end. */
bool region_is_shared(const tvmrt_region* region, int32_t output);

#endif
