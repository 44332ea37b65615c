/* Operands that a user's kernel takes as images. Tensors are buffers everywhere else: they are
 * copied on the device into an image before such a kernel, and out of one after it. */
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* Linear search, since a kernel has few parameters. */
bool opencl_is_image(const launch* l, cl_uint index) {
  int32_t i;
  for (i = 0; i < l->num_image_args; ++i) {
    if (l->image_args[i].index == index) return true;
  }
  return false;
}

/* 0 if images have no elements of this type. Whether the device supports the format is known when
 * an image is created. */
static cl_channel_type channel_type(DLDataType t) {
  static const cl_channel_type ints[] = {CL_SIGNED_INT8, CL_SIGNED_INT16, CL_SIGNED_INT32};
  static const cl_channel_type uints[] = {CL_UNSIGNED_INT8, CL_UNSIGNED_INT16, CL_UNSIGNED_INT32};
  const int size = t.bits == 8 ? 0 : t.bits == 16 ? 1 : t.bits == 32 ? 2 : -1;
  if (t.code == kDLFloat && t.bits == 32) return CL_FLOAT;
  if (t.code == kDLFloat && t.bits == 16) return CL_HALF_FLOAT;
  if (size < 0 || (t.code != kDLInt && t.code != kDLUInt)) return 0;
  return t.code == kDLInt ? ints[size] : uints[size];
}

/* Width, height and layers of a tensor. The last axis is the width; without layers, all rows form
 * the height. The device limits the size. */
static void set_extents(const tvmrt_region_tensor* t, bool has_layers, size_t* out) {
  int32_t i;
  out[0] = out[1] = out[2] = 1;
  for (i = 0; i < t->ndim; ++i) {
    const int32_t from_end = t->ndim - 1 - i;
    out[from_end == 0 ? 0 : from_end == 1 || !has_layers ? 1 : 2] *= (size_t)t->shape[i];
  }
}

/* One image per operand and plan, filled again in each run. Elements are in the red channel; OpenCL
 * defines the values of the others. */
static int create_image(opencl_plan* p, const char* op_name, bool has_layers, image_arg* out) {
  const tvmrt_region_tensor* t = &p->region->tensors[out->tensor];
  const cl_image_format format = {CL_R, channel_type(t->dtype)};
  cl_image_desc desc;
  cl_int status = CL_SUCCESS;
  set_extents(t, has_layers, out->extents);
  memset(&desc, 0, sizeof(desc));
  desc.image_type = has_layers ? CL_MEM_OBJECT_IMAGE2D_ARRAY : CL_MEM_OBJECT_IMAGE2D;
  desc.image_width = out->extents[0];
  desc.image_height = out->extents[1];
  /* must be 0 without layers */
  desc.image_array_size = has_layers ? out->extents[2] : 0;
  out->image = clCreateImage(p->context->context, CL_MEM_READ_WRITE, &format, &desc, NULL, &status);
  if (status == CL_SUCCESS) return 0;
  out->image = NULL;
  return device_fail(
      "%s: the device does not support an image of %zu x %zu x %zu elements of the type of tensor "
      "%s (%d); let "
      "the "
      "kernel take a __global pointer",
      op_name, out->extents[2], out->extents[1], out->extents[0], t->name, (int)status);
}

/* One word of "images" per parameter; any other word means a buffer. The image is counted
 * immediately, so that it is freed after a later failure. */
static int add_image_arg(opencl_plan* p, const char* op_name, const char* word, int32_t tensor,
                         bool is_input, cl_uint index, launch* l) {
  const bool has_layers = strncmp(word, "array", 5) == 0;
  image_arg* at = &l->image_args[l->num_image_args];
  if (!has_layers && strncmp(word, "2d", 2) != 0) return 0;
  at->tensor = tensor;
  at->is_input = is_input;
  at->index = index;
  if (create_image(p, op_name, has_layers, at) != 0) return -1;
  l->num_image_args++;
  return opencl_check(clSetKernelArg(l->kernel, index, sizeof(cl_mem), &at->image),
                      "setting an image");
}

/* Omitted operands have no parameter and no word. On failure the images are freed with the plan. */
int opencl_images_create(opencl_plan* p, const tvmrt_region_node* node, launch* l) {
  const char* at = tvmrt_node_text(node, "images", "");
  const char* op_name = tvmrt_node_text(node, "operator", node->op);
  const int32_t count = node->num_inputs + node->num_outputs;
  cl_uint index = 0;
  int32_t i;
  if (*at == '\0') return 0;
  l->image_args = calloc((size_t)count, sizeof(*l->image_args));
  if (l->image_args == NULL) return device_fail("out of memory");
  for (i = 0; i < count && *at != '\0'; ++i) {
    const bool is_input = i < node->num_inputs;
    const int32_t tensor = is_input ? node->inputs[i] : node->outputs[i - node->num_inputs];
    if (tensor < 0) continue;
    if (add_image_arg(p, op_name, at, tensor, is_input, index++, l) != 0) return -1;
    at += strcspn(at, " ");
    at += strspn(at, " ");
  }
  return 0;
}

/* Copy before or after the kernel. The queue is in order, so nothing must be waited for. */
int opencl_images_copy(opencl_plan* p, const launch* l, bool in) {
  const size_t origin[3] = {0, 0, 0};
  int32_t i;
  for (i = 0; i < l->num_image_args; ++i) {
    const image_arg* at = &l->image_args[i];
    const buffer* b = opencl_buffer(p, at->tensor);
    /* the tensor's memory in this run */
    const cl_mem memory = b->bound != NULL ? b->bound : b->memory;
    cl_int status;
    if (at->is_input != in) continue;
    status = in ? clEnqueueCopyBufferToImage(p->queue, memory, at->image, 0, origin, at->extents, 0,
                                             NULL, NULL)
                : clEnqueueCopyImageToBuffer(p->queue, at->image, memory, origin, at->extents, 0, 0,
                                             NULL, NULL);
    if (opencl_check(status, "copying between a tensor and an image") != 0) return -1;
  }
  return 0;
}

/* The driver keeps an image alive while a queued kernel uses it. */
void opencl_images_free(launch* l) {
  int32_t i;
  for (i = 0; i < l->num_image_args; ++i) clReleaseMemObject(l->image_args[i].image);
  free(l->image_args);
  l->image_args = NULL;
  l->num_image_args = 0;
}
