/* Structure of a plan, for plan.c and profile.c. */
#ifndef TVMRT_DEVICES_OPENCL_PLAN_H_
#define TVMRT_DEVICES_OPENCL_PLAN_H_

#include <stdint.h>

#include "opencl.h"
#include "region_plan.h"

#define MAX_SIZES 3

typedef struct {
  cl_mem memory; /* NULL: not allocated yet */
  size_t bytes;
  int32_t boundary_tensor; /* the boundary tensor that owns this buffer; -1: none */
  cl_mem bound;  /* sub-buffer of the boundary tensor on the device, used in place of `memory` */
  cl_mem parent; /* the buffer that contains it, and the offset in that */
  size_t offset;
} buffer;

/* An operand that its kernel takes as an image: filled before the kernel, or read back after it. */
typedef struct {
  cl_mem image;
  cl_uint index; /* of the kernel's parameter */
  int32_t tensor;
  bool is_input;
  size_t extents[3];
} image_arg;

typedef struct {
  cl_kernel kernel;
  image_arg* image_args;
  int32_t num_image_args;
  int32_t node;
  cl_uint dimensions;
  size_t global[MAX_SIZES], local[MAX_SIZES];
  bool has_local;
  cl_event event; /* of the current run, if it is measured */
  uint64_t calls, nanoseconds;
  char name[96];
} launch;

struct opencl_plan {
  opencl_context* context;
  tvmrt_region* region;
  cl_command_queue queue;
  region_plan plan;
  buffer* buffers; /* the plan's, then one per tensor, used by constants and boundary tensors */
  int32_t num_buffers;
  launch* launches;
  int32_t num_launches;
  bool profile;
  cl_event done;            /* of the current run: its last copy */
  struct opencl_plan* next; /* in the list of profiled plans */
};

/* Buffer of a tensor. */
buffer* opencl_buffer(const opencl_plan* p, int32_t tensor);

/* Boundary tensors of a run: those on the device are used in place, others have a buffer of the
 * plan. Only changed kernel arguments are set again. */
int opencl_boundary_bind(opencl_plan* p);
void opencl_boundary_free(opencl_plan* p);
/* Copy to or from the host, or on the device if a tensor cannot be used in place. */
int opencl_boundary_move(opencl_plan* p, int32_t tensor, bool in, cl_event* event);
/* Set the buffers of a node, from parameter *index on, which is advanced. */
int opencl_set_buffers(opencl_plan* p, const int32_t* tensors, int32_t count, const launch* l,
                       cl_uint* index);

/* Images (image.c): operands that a node's kernel takes as images instead of buffers. They are
 * copied into the image before the kernel, and out of it after the kernel. */
int opencl_images_create(opencl_plan* p, const tvmrt_region_node* node, launch* l);
int opencl_images_copy(opencl_plan* p, const launch* l, bool in);
bool opencl_is_image(const launch* l, cl_uint index);
void opencl_images_free(launch* l);

/* Add a measured plan to the list of profiles, and remove it. */
void opencl_profile_add(opencl_plan* p);
void opencl_profile_remove(const opencl_plan* p);
/* At the end of a run: add the times of its kernels if it succeeded, and release its events. */
void opencl_profile_end_run(opencl_plan* p, bool succeeded);

#endif
