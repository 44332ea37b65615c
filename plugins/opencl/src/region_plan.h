/*
 * Where the tensors of a region lie on a device whose kernels work in its own memory. The region's nodes are
 * kernels, which the compiler's half made out of the network's operators, and reshapes, which only give a
 * place another name.
 */
#ifndef TVMRT_DEVICES_OPENCL_REGION_PLAN_H_
#define TVMRT_DEVICES_OPENCL_REGION_PLAN_H_

#include <stdbool.h>
#include <stddef.h>
#include <tvm/runtime/device.h>

typedef struct {
  enum {
    PLACE_NONE,
    PLACE_CONSTANT, /* `number` is the constant's */
    PLACE_BUFFER,   /* `number` counts the plan's buffers */
    PLACE_BORDER    /* `number` is the input or output in whose memory the tensor lies */
  } kind;
  int32_t number;
} region_place;

typedef struct {
  region_place* places; /* per tensor */
  size_t*
      buffer_bytes; /* multiples of 256, and not 0; tensors that are read no more lend theirs to later ones */
  int32_t num_buffers;
} region_plan;

/* Whether the node only gives its operand another name and shape. */
bool region_is_alias(const tvmrt_region_node* node);

/* Bytes of a tensor as a buffer or a part of one has them: a multiple of 256, and not 0. */
size_t region_place_bytes(const tvmrt_region* region, int32_t tensor);

/*
 * Refuses a region whose nodes read what is not computed yet, or whose reshapes change sizes: 0, or -1 with
 * the error text and the region's failed_node set. region_plan_free() frees the plan, also a zeroed one.
 */
int region_plan_make(tvmrt_region* region, region_plan* out);
void region_plan_free(region_plan* plan);

/* Inputs, then outputs. */
int32_t region_border(const tvmrt_region* region, int32_t number);

/* Where the caller's tensor begins; the runtime has made sure that it is compact. */
char* region_memory(const tvmrt_region* region, int32_t tensor);

/* Whether a caller gave memory of another border for this output, on the same device, which kernels still
 * read: such an output is copied at the end. */
bool region_is_shared(const tvmrt_region* region, int32_t output);

#endif
