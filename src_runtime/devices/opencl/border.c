/*
 * The inputs and outputs of a run. A tensor that lies on the device is worked on where it is, as a part of
 * the buffer that stands for its memory; a tensor of the host is copied to and from a buffer of the plan's.
 */
#include <stdatomic.h>

#include "plan.h"

static _Atomic uint64_t moved[OPENCL_WAYS];

uint64_t opencl_moved(int way) { return atomic_load(&moved[way]); }

/* What kernels are given; its memory is made for the first tensor of the host. */
static int make_memory(opencl_plan* p, buffer* b) {
  cl_int status = CL_SUCCESS;
  if (b->memory != NULL) return 0;
  b->memory = clCreateBuffer(p->context->context, CL_MEM_READ_WRITE, b->bytes, NULL, &status);
  return opencl_check(status, "clCreateBuffer");
}

static void unbind(buffer* b) {
  if (b->bound != NULL) clReleaseMemObject(b->bound);
  b->bound = NULL;
  b->parent = NULL;
}

/* Where a border's tensor lies on the device; a NULL memory: it is on the host, or empty. */
typedef struct {
  cl_mem memory;
  size_t offset, bytes;
} part;

static int find_part(const opencl_plan* p, int32_t tensor, part* out) {
  const DLTensor* t = p->region->data[tensor];
  out->memory = NULL;
  out->offset = 0;
  out->bytes = (size_t)p->region->tensors[tensor].num_bytes;
  if (t->device.device_type != kDLOpenCL || out->bytes == 0) return 0;
  out->memory = opencl_memory_find((char*)t->data + t->byte_offset, &out->offset);
  if (out->memory != NULL) return 0;
  return opencl_fail("a tensor is said to be on the device and is not");
}

static bool overlap(const part* a, const part* b) {
  return a->memory != NULL && a->memory == b->memory && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

/* Whether a caller gave memory of another border for this output, which kernels still read: such an
 * output is copied at the end. */
static int is_shared(const opencl_plan* p, int32_t output, const part* of, bool* out) {
  const tvmrt_region* r = p->region;
  int32_t i;
  *out = false;
  for (i = 0; i < r->num_inputs + r->num_outputs && !*out; ++i) {
    const int32_t other = i < r->num_inputs ? r->inputs[i] : r->outputs[i - r->num_inputs];
    part its;
    if (other == output) continue;
    if (find_part(p, other, &its) != 0) return -1;
    *out = overlap(of, &its);
  }
  return 0;
}

/* As a buffer of its own; its place may be none at which one can begin: then it is copied. The part
 * keeps the memory from going before the region has other tensors, or is freed. */
static void bind_part(buffer* b, const part* of) {
  const cl_buffer_region region = {of->offset, of->bytes};
  cl_int status = CL_SUCCESS;
  unbind(b);
  b->bound = clCreateSubBuffer(of->memory, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  if (status != CL_SUCCESS) b->bound = NULL;
  if (b->bound != NULL) b->parent = of->memory;
  b->offset = of->offset;
}

static int bind_border(opencl_plan* p, int32_t tensor, bool in, bool* changed) {
  buffer* b = &p->buffers[p->place[tensor]];
  bool shared = false;
  part of;
  if (b->border != tensor) return 0;
  if (find_part(p, tensor, &of) != 0) return -1;
  if (!in && of.memory != NULL && is_shared(p, tensor, &of, &shared) != 0) return -1;
  if (of.memory == NULL || shared) {
    *changed |= b->bound != NULL || b->memory == NULL;
    unbind(b);
  } else if (b->bound == NULL || b->parent != of.memory || b->offset != of.offset) {
    *changed = true; /* even if the new part has the address of the old one */
    bind_part(b, &of);
  }
  return b->bound != NULL ? 0 : make_memory(p, b);
}

int opencl_set_buffers(opencl_plan* p, const int32_t* tensors, int32_t count, const launch* l,
                       cl_uint* index) {
  int32_t i;
  for (i = 0; i < count; ++i) {
    const int32_t place = tensors[i] < 0 ? -1 : p->place[tensors[i]];
    const buffer* b = place < 0 ? NULL : &p->buffers[place];
    const cl_mem* memory;
    if (tensors[i] < 0) continue;
    if (b == NULL) return opencl_fail("an operand is read before it is computed");
    memory = b->bound != NULL ? &b->bound : &b->memory;
    /* a border that no run has bound yet gets its parameter then */
    if (*memory != NULL && !opencl_is_image(l, *index) &&
        opencl_check(clSetKernelArg(l->kernel, *index, sizeof(cl_mem), memory),
                     "setting a parameter") != 0) {
      return -1;
    }
    ++*index;
  }
  return 0;
}

int opencl_borders_bind(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  bool changed = false;
  int32_t i;
  for (i = 0; i < r->num_inputs; ++i) {
    if (bind_border(p, r->inputs[i], true, &changed) != 0) return -1;
  }
  for (i = 0; i < r->num_outputs; ++i) {
    if (bind_border(p, r->outputs[i], false, &changed) != 0) return -1;
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

void opencl_borders_free(opencl_plan* p) {
  int32_t i;
  for (i = 0; i < p->num_buffers; ++i) {
    unbind(&p->buffers[i]);
    if (p->buffers[i].memory != NULL) clReleaseMemObject(p->buffers[i].memory);
  }
}

/* The runtime has made sure that the tensor is compact, since this device describes no layout of its
 * own. */
int opencl_borders_move(opencl_plan* p, int32_t tensor, bool in, cl_event* event) {
  const DLTensor* t = p->region->data[tensor];
  const buffer* b = &p->buffers[p->place[tensor]];
  const cl_mem own = b->bound != NULL ? b->bound : b->memory;
  char* address = (char*)t->data + t->byte_offset;
  cl_int status;
  part of;
  if (find_part(p, tensor, &of) != 0) return -1;
  if (of.bytes == 0 || (b->bound != NULL && b->border == tensor)) return 0;
  atomic_fetch_add(&moved[of.memory != NULL ? OPENCL_WITHIN
                          : in              ? OPENCL_TO_DEVICE
                                            : OPENCL_FROM_DEVICE],
                   of.bytes);
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
