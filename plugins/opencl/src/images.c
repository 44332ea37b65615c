/* Operands that a user's kernel takes as images. Tensors are buffers everywhere else: they are
 * copied on the device into an image before such a kernel, and out of one after it. */
#include "plan.h"

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

/* Any other word means a buffer. One image per operand and plan, filled again in each run. Elements
 * are in the red channel; OpenCL defines the values of the others. */
int opencl_image_create(const opencl_context* c, const tvmrt_region_tensor* tensor,
                        const char* op_name, const char* word, opencl_image* out) {
  const cl_image_format format = {CL_R, channel_type(tensor->dtype)};
  const bool has_layers = strncmp(word, "array", 5) == 0;
  cl_image_desc desc;
  cl_int status = CL_SUCCESS;
  if (!has_layers && strncmp(word, "2d", 2) != 0) return 0;
  set_extents(tensor, has_layers, out->extents);
  memset(&desc, 0, sizeof(desc));
  desc.image_type = has_layers ? CL_MEM_OBJECT_IMAGE2D_ARRAY : CL_MEM_OBJECT_IMAGE2D;
  desc.image_width = out->extents[0];
  desc.image_height = out->extents[1];
  /* must be 0 without layers */
  desc.image_array_size = has_layers ? out->extents[2] : 0;
  out->image = clCreateImage(c->context, CL_MEM_READ_WRITE, &format, &desc, NULL, &status);
  if (status == CL_SUCCESS) return 0;
  out->image = NULL;
  return opencl_fail(
      "%s: the device does not support an image of %zu x %zu x %zu elements of the type of tensor "
      "%s (%d); let the kernel take a __global pointer",
      op_name, out->extents[2], out->extents[1], out->extents[0], tensor->name, (int)status);
}

/* The queue is in order, so nothing must be waited for. */
int opencl_images_copy(cl_command_queue queue, const opencl_image* images, int32_t count, bool in) {
  const size_t origin[3] = {0, 0, 0};
  int32_t i;
  for (i = 0; i < count; ++i) {
    const opencl_image* at = &images[i];
    cl_int status;
    if (at->image == NULL || at->is_input != in) continue;
    status = in ? clEnqueueCopyBufferToImage(queue, at->buffer, at->image, 0, origin, at->extents,
                                             0, NULL, NULL)
                : clEnqueueCopyImageToBuffer(queue, at->image, at->buffer, origin, at->extents, 0,
                                             0, NULL, NULL);
    if (opencl_check(status, "copying between a tensor and an image") != 0) return -1;
  }
  return 0;
}
