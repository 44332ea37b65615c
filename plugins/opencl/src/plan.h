/* Parts of a plan: attributes of kernel nodes, images, and buffers of tensors. */
#ifndef TVMRT_PLUGINS_OPENCL_PLAN_H_
#define TVMRT_PLUGINS_OPENCL_PLAN_H_

#include "opencl.h"

/* Kernel nodes (kernel_node.c) ------------------------------------------------------------------- */

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

/* Skip a word and the following blanks. */
const char* kernel_next_word(const char* at);
/* Number of operands and results, without omitted ones. */
int32_t kernel_num_tensors(const tvmrt_region_node* node);
int32_t kernel_num_scalars(const tvmrt_region_node* node);
/* -1 with the error text set if the scalar is missing or does not fit its type. */
int kernel_read_scalar(const tvmrt_region_node* node, int32_t index, kernel_scalar* out);

/* Images (images.c) ------------------------------------------------------------------------------ */

/* An operand that its kernel takes as an image: filled before the kernel, or read back after it. */
typedef struct {
  cl_mem image;  /* NULL: the kernel takes the buffer itself */
  cl_mem buffer; /* of the tensor; borrowed */
  bool is_input;
  size_t extents[3];
} opencl_image;

/* Create the image of a tensor if `word` asks for one: "2d" or "array". */
int opencl_image_create(const opencl_context* c, const tvmrt_region_tensor* tensor,
                        const char* op_name, const char* word, opencl_image* out);
/* Queue the copies of a kernel's images: of inputs before it, of outputs after it. */
int opencl_images_copy(cl_command_queue queue, const opencl_image* images, int32_t count, bool in);

/* Buffers (buffers.c) ---------------------------------------------------------------------------- */

/* Whether the node only gives its operand another name and shape. */
bool opencl_is_alias(const tvmrt_region_node* node);

/*
 * Create the buffers of a region's tensors in `memory`, a zeroed array with one per tensor. `first` is
 * the array of the region's first plan, whose constants are shared; NULL: this is the first. On
 * failure the caller frees the array, too; the region's failed_node is set if a node is at fault.
 */
int opencl_buffers_create(const opencl_context* c, tvmrt_region* region, const cl_mem* first,
                          cl_mem* memory);
/* NULL does nothing. */
void opencl_buffers_free(cl_mem* memory, int32_t count);
/* Queue the copy of an input or output of this run from or to the caller's tensor. */
int opencl_buffer_copy(cl_command_queue queue, const tvmrt_region* region, int32_t tensor,
                       cl_mem own, bool in);

#endif
