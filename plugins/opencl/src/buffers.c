/* Buffers of a region's tensors: driver objects, which are kernel arguments. Each tensor has its own;
 * a reshape retains its operand's, so that each tensor releases one.
 *
 * The runtime has checked that each tensor has one source, which precedes its uses. */
#include <stdlib.h>

#include "plan.h"

/* Operators that do not move elements. */
bool opencl_is_alias(const tvmrt_region_node* node) {
  return node->num_outputs == 1 &&
         (strcmp(node->op, "reshape") == 0 || strcmp(node->op, "identity") == 0);
}

/* With a constant's values, unless `data` is NULL. An empty tensor has one byte, since buffers cannot
 * be empty. */
static int create(const opencl_context* c, const tvmrt_region_tensor* t, const void* data,
                  cl_mem* out) {
  const bool is_filled = data != NULL && t->num_bytes != 0;
  const cl_mem_flags flags =
      is_filled ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR : CL_MEM_READ_WRITE;
  cl_int status = CL_SUCCESS;
  *out = clCreateBuffer(c->context, flags, t->num_bytes == 0 ? 1 : (size_t)t->num_bytes,
                        is_filled ? (void*)(uintptr_t)data : NULL, &status);
  return opencl_check(status, "clCreateBuffer");
}

/* The driver counts references, so tensors may be released in any order. */
static int share(cl_mem memory, cl_mem* out) {
  if (opencl_check(clRetainMemObject(memory), "clRetainMemObject") != 0) return -1;
  *out = memory;
  return 0;
}

/* Both names share one buffer, so a reshape costs nothing at run time. */
static int add_alias(const tvmrt_region* r, const tvmrt_region_node* node, cl_mem* memory) {
  const int32_t to = node->outputs[0], of = node->num_inputs == 1 ? node->inputs[0] : -1;
  if (of < 0) return opencl_fail("%s %s has no operand", node->op, node->name);
  if (r->tensors[of].num_bytes != r->tensors[to].num_bytes) {
    return opencl_fail("%s %s: operand and result differ in size", node->op, node->name);
  }
  return share(memory[of], &memory[to]);
}

int opencl_buffers_create(const opencl_context* c, tvmrt_region* region, const cl_mem* first,
                          cl_mem* memory) {
  int32_t i, k;
  for (i = 0; i < region->num_inputs; ++i) {
    const int32_t t = region->inputs[i];
    if (create(c, &region->tensors[t], NULL, &memory[t]) != 0) return -1;
  }
  for (i = 0; i < region->num_tensors; ++i) {
    const tvmrt_region_tensor* t = &region->tensors[i];
    if (!t->is_constant) continue;
    if ((first == NULL ? create(c, t, t->data, &memory[i]) : share(first[i], &memory[i])) != 0) {
      return -1;
    }
  }
  for (i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* node = &region->nodes[i];
    const bool is_alias = opencl_is_alias(node);
    region->failed_node = i;
    if (is_alias && add_alias(region, node, memory) != 0) return -1;
    for (k = 0; !is_alias && k < node->num_outputs; ++k) {
      const int32_t t = node->outputs[k];
      if (create(c, &region->tensors[t], NULL, &memory[t]) != 0) return -1;
    }
  }
  return 0;
}

void opencl_buffers_free(cl_mem* memory, int32_t count) {
  int32_t i;
  for (i = 0; memory != NULL && i < count; ++i) {
    if (memory[i] != NULL) clReleaseMemObject(memory[i]);
  }
  free(memory);
}

/* The runtime ensures that the tensor is compact, since this device describes no layout. Host
 * tensors are accessed while the queue runs. A tensor on the device is copied there, so that it may
 * overlap others; an address outside all blocks is an error, since it would be read as something
 * else. */
int opencl_buffer_copy(cl_command_queue queue, const tvmrt_region* region, int32_t tensor,
                       cl_mem own, bool in) {
  const size_t bytes = (size_t)region->tensors[tensor].num_bytes;
  void* address = tvmrt_region_data(region, tensor);
  size_t offset = 0;
  cl_int status;
  cl_mem on_device;
  if (bytes == 0) return 0;
  if (region->data[tensor]->device.device_type != kDLOpenCL) {
    status = in ? clEnqueueWriteBuffer(queue, own, CL_FALSE, 0, bytes, address, 0, NULL, NULL)
                : clEnqueueReadBuffer(queue, own, CL_FALSE, 0, bytes, address, 0, NULL, NULL);
    return opencl_check(status, in ? "writing an input" : "reading an output");
  }
  on_device = opencl_memory_find(address, &offset);
  if (on_device == NULL) {
    return opencl_fail("a tensor is marked as on the device but is not in its memory");
  }
  status = in ? clEnqueueCopyBuffer(queue, on_device, own, offset, 0, bytes, 0, NULL, NULL)
              : clEnqueueCopyBuffer(queue, own, on_device, 0, offset, bytes, 0, NULL, NULL);
  return opencl_check(status, "copying on the device");
}
