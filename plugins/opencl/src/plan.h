/* What a plan consists of: for plan.c, which makes and runs it, and profile.c, which tells its times. */
#ifndef TVMRT_DEVICES_OPENCL_PLAN_H_
#define TVMRT_DEVICES_OPENCL_PLAN_H_

#include <stdint.h>

#include "opencl.h"
#include "region_plan.h"

#define MAX_SIZES 3

typedef struct {
  cl_mem memory; /* NULL: not made yet */
  size_t bytes;
  int32_t border; /* the input or output whose place it is alone; -1: none */
  cl_mem
      bound; /* what kernels work on in its place: the border's tensor, where it is on the device */
  cl_mem parent; /* and where that lies: the memory's buffer, and the place in it */
  size_t offset;
} buffer;

/* An operand that its kernel takes as an image: filled before it runs, or read back behind it. */
typedef struct {
  cl_mem image;
  cl_uint index; /* of the kernel's parameter */
  int32_t tensor;
  bool is_input;
  size_t extents[3];
} picture;

typedef struct {
  cl_kernel kernel;
  picture* pictures;
  int32_t num_pictures;
  int32_t node;
  cl_uint dimensions;
  size_t global[MAX_SIZES], local[MAX_SIZES];
  bool has_local;
  cl_event event; /* of the run under way, if it is measured */
  uint64_t calls, nanoseconds;
  char name[96];
} launch;

struct opencl_plan {
  opencl_context* context;
  tvmrt_region* region;
  cl_command_queue queue;
  region_plan plan;
  buffer* buffers; /* the plan's, then one per tensor, which constants and borders have */
  int32_t num_buffers;
  launch* launches;
  int32_t num_launches;
  bool profile;
  cl_event done;            /* of the run under way: its last copy */
  struct opencl_plan* next; /* of those that are profiled */
};

/* Where a tensor lies. */
buffer* opencl_buffer(const opencl_plan* p, int32_t tensor);

/* Borders of a run: what lies on the device is worked on where it is, all else has a buffer of the plan.
 * Kernels are given what has changed since the run before. */
int opencl_borders_bind(opencl_plan* p);
void opencl_borders_free(opencl_plan* p);
/* Between the host and the region's buffers, and on the device where a tensor could not be worked on in its place. */
int opencl_borders_move(opencl_plan* p, int32_t tensor, bool in, cl_event* event);
/* The buffers of a node, from parameter *index on, which is counted on. */
int opencl_set_buffers(opencl_plan* p, const int32_t* tensors, int32_t count, const launch* l,
                       cl_uint* index);

/* Images (image.c): those that a node's kernel takes in place of buffers; what has to be copied into
 * them before it runs, and out of them behind it. */
int opencl_images_create(opencl_plan* p, const tvmrt_region_node* node, launch* l);
int opencl_images_copy(opencl_plan* p, const launch* l, bool in);
bool opencl_is_image(const launch* l, cl_uint index);
void opencl_images_free(launch* l);

/* A plan joins those that are told of, if it is measured, and leaves them. */
void opencl_profile_add(opencl_plan* p);
void opencl_profile_remove(const opencl_plan* p);
/* A run has ended: count the times of its kernels if all went well, and forget its events. */
void opencl_profile_end_run(opencl_plan* p, bool well);

#endif
