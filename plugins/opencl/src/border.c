/* The inputs and outputs of a run. A tensor that lies on the device is worked on where it is,
 * as a part of the buffer that stands for its memory; a tensor of the host is copied to and from
 * a buffer of the plan's. */
#include "plan.h"

static moved_bytes moved;

/* Counted for the process; numbers only grow. */
moved_bytes* opencl_moved(void) { return &moved; }

/* What kernels are given; its memory is made for the first tensor of the host. Not before:
 * borders of regions that only see tensors of the device need none. */
static int make_memory(opencl_plan* p, buffer* b) {
  cl_int status = CL_SUCCESS;
  if (b->memory != NULL) return 0;
  b->memory = clCreateBuffer(p->context->context, CL_MEM_READ_WRITE, b->bytes, NULL, &status);
  return opencl_check(status, "clCreateBuffer");
}

/* The memory of the border itself stays, for the next tensor of the host. The driver counts: a
 * run that still uses the part keeps it. */
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

/* An address that no block has is an error: it would be read as something else. */
static int find_part(const opencl_plan* p, int32_t tensor, part* out) {
  const DLTensor* t = p->region->data[tensor];
  out->memory = NULL;
  out->offset = 0;
  out->bytes = (size_t)p->region->tensors[tensor].num_bytes;
  if (t->device.device_type != kDLOpenCL || out->bytes == 0) return 0;
  out->memory = opencl_memory_find(region_memory(p->region, tensor), &out->offset);
  if (out->memory != NULL) return 0;
  return device_fail("a tensor is said to be on the device and is not");
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

/* `changed` says that kernels must be told: they keep a parameter until it is set again. A border
 * that lies in another one's place is told by that one. Outputs that share memory with other
 * borders are computed aside, and copied at the end. */
static int bind_border(opencl_plan* p, int32_t tensor, bool in, bool* changed) {
  buffer* b = opencl_buffer(p, tensor);
  bool shared;
  part of;
  if (b->border != tensor) return 0;
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

/* Parameters of images are counted and left alone: image.c sets those, once. */
int opencl_set_buffers(opencl_plan* p, const int32_t* tensors, int32_t count, const launch* l,
                       cl_uint* index) {
  int32_t i;
  for (i = 0; i < count; ++i) {
    const buffer* b;
    const cl_mem* memory;
    if (tensors[i] < 0) continue;
    b = opencl_buffer(p, tensors[i]);
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

/* Before each run; most runs bring the same tensors and change nothing. All kernels are told
 * where one border has changed: which of them read it is not kept. */
int opencl_borders_bind(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  bool changed = false;
  int32_t i;
  for (i = 0; i < r->num_inputs + r->num_outputs; ++i) {
    if (bind_border(p, region_border(r, i), i < r->num_inputs, &changed) != 0) return -1;
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

/* All buffers of a plan, those of constants and of the arena, too. */
void opencl_borders_free(opencl_plan* p) {
  int32_t i;
  for (i = 0; i < p->num_buffers; ++i) {
    unbind(&p->buffers[i]);
    if (p->buffers[i].memory != NULL) clReleaseMemObject(p->buffers[i].memory);
  }
}

/* The runtime has made sure that the tensor is compact, since this device describes no layout of
 * its own. Inputs of the host are read while the queue runs: the caller's memory must stay until
 * the run is waited for, which the slots say. */
int opencl_borders_move(opencl_plan* p, int32_t tensor, bool in, cl_event* event) {
  const buffer* b = opencl_buffer(p, tensor);
  const cl_mem own = b->bound != NULL ? b->bound : b->memory;
  char* address = region_memory(p->region, tensor);
  cl_int status;
  part of;
  if (find_part(p, tensor, &of) != 0) return -1;
  if (of.bytes == 0 || (b->bound != NULL && b->border == tensor)) return 0;
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
