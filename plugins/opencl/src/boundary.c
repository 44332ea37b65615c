/* Inputs and outputs of a run. A tensor on the device is used in place, as a sub-buffer of its
 * memory; a tensor on the host is copied to or from a buffer of the plan. */
#include "plan.h"

static moved_bytes moved;

/* Process-wide counters, which only grow. */
moved_bytes* opencl_moved(void) { return &moved; }

/* Allocate the boundary buffer for the first host tensor. Regions that only get device tensors
 * never need it. */
static int make_memory(opencl_plan* p, buffer* b) {
  cl_int status = CL_SUCCESS;
  if (b->memory != NULL) return 0;
  b->memory = clCreateBuffer(p->context->context, CL_MEM_READ_WRITE, b->bytes, NULL, &status);
  return opencl_check(status, "clCreateBuffer");
}

/* The boundary buffer stays for the next host tensor. The driver counts references, so a running
 * kernel keeps the sub-buffer. */
static void unbind(buffer* b) {
  if (b->bound != NULL) clReleaseMemObject(b->bound);
  b->bound = NULL;
  b->parent = NULL;
}

/* A boundary tensor's memory on the device; memory NULL: the tensor is on the host, or empty. */
typedef struct {
  cl_mem memory;
  size_t offset, bytes;
} part;

/* An address outside all blocks is an error: it would be read as something else. */
static int find_part(const opencl_plan* p, int32_t tensor, part* out) {
  const DLTensor* t = p->region->data[tensor];
  out->memory = NULL;
  out->offset = 0;
  out->bytes = (size_t)p->region->tensors[tensor].num_bytes;
  if (t->device.device_type != kDLOpenCL || out->bytes == 0) return 0;
  out->memory = opencl_memory_find(region_memory(p->region, tensor), &out->offset);
  if (out->memory != NULL) return 0;
  return device_fail("a tensor is marked as on the device but is not in its memory");
}

/* Bind the tensor as a sub-buffer. If its offset is not aligned for a sub-buffer, it is copied
 * instead. The sub-buffer keeps the memory alive until other tensors are bound or the region is
 * freed. */
static void bind_part(buffer* b, const part* of) {
  const cl_buffer_region region = {of->offset, of->bytes};
  cl_int status = CL_SUCCESS;
  unbind(b);
  b->bound = clCreateSubBuffer(of->memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  if (status != CL_SUCCESS) b->bound = NULL;
  if (b->bound != NULL) b->parent = of->memory;
  b->offset = of->offset;
}

/* `changed` is set if kernel arguments must be set again. An alias is handled by the tensor whose
 * buffer it shares. Outputs that share memory with other boundary tensors are computed in a
 * separate buffer and copied at the end. */
static int bind_boundary(opencl_plan* p, int32_t tensor, bool in, bool* changed) {
  buffer* b = opencl_buffer(p, tensor);
  bool shared;
  part of;
  if (b->boundary_tensor != tensor) return 0;
  if (find_part(p, tensor, &of) != 0) return -1;
  shared = !in && of.memory != NULL && region_is_shared(p->region, tensor);
  if (of.memory == NULL || shared) {
    *changed |= b->bound != NULL || b->memory == NULL;
    unbind(b);
  } else if (b->bound == NULL || b->parent != of.memory || b->offset != of.offset) {
    *changed = true; /* even if the new part has the address of the old one */
    bind_part(b, &of);
  }
  return b->bound != NULL ? 0 : make_memory(p, b);
}

/* Image parameters are only counted: image.c sets them, once. */
int opencl_set_buffers(opencl_plan* p, const int32_t* tensors, int32_t count, const launch* l,
                       cl_uint* index) {
  int32_t i;
  for (i = 0; i < count; ++i) {
    const buffer* b;
    const cl_mem* memory;
    if (tensors[i] < 0) continue;
    b = opencl_buffer(p, tensors[i]);
    memory = b->bound != NULL ? &b->bound : &b->memory;
    /* an unbound boundary tensor gets its argument at the first run */
    if (*memory != NULL && !opencl_is_image(l, *index) &&
        opencl_check(clSetKernelArg(l->kernel, *index, sizeof(cl_mem), memory),
                     "setting a parameter") != 0) {
      return -1;
    }
    ++*index;
  }
  return 0;
}

/* Called before each run; most runs bring the same tensors and change nothing. If any has changed,
 * the arguments of all kernels are set again, since their readers are not recorded. */
int opencl_boundary_bind(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  bool changed = false;
  int32_t i;
  for (i = 0; i < r->num_inputs + r->num_outputs; ++i) {
    if (bind_boundary(p, region_boundary_tensor(r, i), i < r->num_inputs, &changed) != 0) return -1;
  }
  for (i = 0; changed && i < p->num_launches; ++i) {
    const tvmrt_region_node* node = &r->nodes[p->launches[i].node];
    const launch* l = &p->launches[i];
    cl_uint index = 0;
    if (opencl_set_buffers(p, node->inputs, node->num_inputs, l, &index) != 0) return -1;
    if (opencl_set_buffers(p, node->outputs, node->num_outputs, l, &index) != 0) return -1;
  }
  return 0;
}

/* Frees all buffers of a plan, including constants and the arena. */
void opencl_boundary_free(opencl_plan* p) {
  int32_t i;
  for (i = 0; i < p->num_buffers; ++i) {
    unbind(&p->buffers[i]);
    if (p->buffers[i].memory != NULL) clReleaseMemObject(p->buffers[i].memory);
  }
}

/* The runtime ensures that the tensor is compact, since this device describes no layout. Host
 * inputs are read while the queue runs, so the caller's memory must stay until the run has been
 * waited for. */
int opencl_boundary_move(opencl_plan* p, int32_t tensor, bool in, cl_event* event) {
  const buffer* b = opencl_buffer(p, tensor);
  const cl_mem own = b->bound != NULL ? b->bound : b->memory;
  char* address = region_memory(p->region, tensor);
  cl_int status;
  part of;
  if (find_part(p, tensor, &of) != 0) return -1;
  if (of.bytes == 0 || (b->bound != NULL && b->boundary_tensor == tensor)) return 0;
  atomic_fetch_add(of.memory != NULL ? &moved.within : in ? &moved.to : &moved.from, of.bytes);
  if (of.memory == NULL) {
    status =
        in ? clEnqueueWriteBuffer(p->queue, own, CL_FALSE, 0, of.bytes, address, 0, NULL, NULL)
           : clEnqueueReadBuffer(p->queue, own, CL_FALSE, 0, of.bytes, address, 0, NULL, event);
    return opencl_check(status, in ? "writing an input" : "reading an output");
  }
  status =
      in ? clEnqueueCopyBuffer(p->queue, of.memory, own, of.offset, 0, of.bytes, 0, NULL, NULL)
         : clEnqueueCopyBuffer(p->queue, own, of.memory, 0, of.offset, of.bytes, 0, NULL, event);
  return opencl_check(status, "copying on the device");
}
