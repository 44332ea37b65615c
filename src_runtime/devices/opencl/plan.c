/*
 * A region as buffers and kernels. Its nodes are kernels (operator "custom_opencl", whose attributes
 * hold source and sizes) and reshapes, which only give a buffer another name: the compiler's half makes
 * them out of the network's operators.
 */
#include "plan.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_alias(const tvmrt_region_node* node) {
  return node->num_outputs == 1 &&
         (strcmp(node->op, "reshape") == 0 || strcmp(node->op, "identity") == 0);
}

/* Buffers --------------------------------------------------------------------------------------- */

/* Borders get memory when a run brings a tensor of the host. */
static int32_t add_border(opencl_plan* p, size_t bytes, int32_t tensor) {
  buffer* b = &p->buffers[p->num_buffers];
  b->bytes = bytes == 0 ? 1 : bytes;
  b->last = INT32_MAX;
  b->border = tensor;
  return p->num_buffers++;
}

static int create_buffer(opencl_plan* p, size_t bytes, int32_t* out) {
  cl_int status = CL_SUCCESS;
  buffer* b = &p->buffers[p->num_buffers];
  b->bytes = bytes == 0 ? 1 : bytes;
  b->border = -1;
  b->memory = clCreateBuffer(p->context->context, CL_MEM_READ_WRITE, b->bytes, NULL, &status);
  if (opencl_check(status, "clCreateBuffer") != 0) return -1;
  *out = p->num_buffers++;
  return 0;
}

/* What the region's first plan has of this constant; NULL for that plan itself. */
static cl_mem constant_of_first(const opencl_plan* p, int32_t tensor) {
  const opencl_plan* first = p->region->base == NULL ? NULL : p->region->base->device_graph;
  return first == NULL ? NULL : first->buffers[first->place[tensor]].memory;
}

/* Constants are on the device once for all contexts of a region, and where it works in the host's memory
 * they are read in the library. */
static int enter_constant(opencl_plan* p, int32_t tensor) {
  const tvmrt_region_tensor* t = &p->region->tensors[tensor];
  const cl_mem_flags flags =
      p->context->is_unified && t->num_bytes != 0 ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR;
  const cl_mem shared = constant_of_first(p, tensor);
  cl_int status = CL_SUCCESS;
  buffer* b = &p->buffers[p->num_buffers];
  b->bytes = t->num_bytes == 0 ? 1 : (size_t)t->num_bytes;
  b->last = INT32_MAX; /* no result takes its place */
  b->border = -1;
  if (shared != NULL) {
    status = clRetainMemObject(shared);
    if (opencl_check(status, "clRetainMemObject") != 0) return -1;
    b->memory = shared;
  } else {
    b->memory = clCreateBuffer(p->context->context, CL_MEM_READ_ONLY | flags, b->bytes,
                               (void*)(uintptr_t)t->data, &status);
    if (opencl_check(status, "clCreateBuffer") != 0) return -1;
  }
  p->place[tensor] = p->num_buffers++;
  return 0;
}

static int enter_constants_and_borders(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_tensors; ++i) {
    if (r->tensors[i].data != NULL && enter_constant(p, i) != 0) return -1;
  }
  for (i = 0; i < r->num_inputs; ++i) {
    int32_t tensor = r->inputs[i];
    p->place[tensor] = add_border(p, (size_t)r->tensors[tensor].num_bytes, tensor);
  }
  return 0;
}

/* Each output is computed where its caller wants it, unless it is an input, a constant or another output
 * under a second name. */
static void claim_outputs(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_tensors; ++i) p->root[i] = i;
  for (i = 0; i < r->num_nodes; ++i) {
    const tvmrt_region_node* node = &r->nodes[i];
    if (!is_alias(node) || node->num_inputs < 1 || node->inputs[0] < 0) continue;
    p->root[node->outputs[0]] = p->root[node->inputs[0]];
  }
  for (i = 0; i < r->num_outputs; ++i) {
    const int32_t root = p->root[r->outputs[i]];
    if (root >= 0 && p->root[root] >= 0) p->root[root] = -1 - r->outputs[i];
  }
}

/* The last reader of each tensor, through the reshapes that share its buffer. */
static void find_last_readers(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i, k;
  for (i = 0; i < r->num_tensors; ++i) p->last[i] = -1;
  for (i = 0; i < r->num_nodes; ++i) {
    for (k = 0; k < r->nodes[i].num_inputs; ++k) {
      if (r->nodes[i].inputs[k] >= 0) p->last[r->nodes[i].inputs[k]] = i;
    }
  }
  for (i = 0; i < r->num_outputs; ++i) p->last[r->outputs[i]] = INT32_MAX;
  /* backwards, so that of a chain of reshapes the first learns of the readers of the last */
  for (i = r->num_nodes - 1; i >= 0; --i) {
    const tvmrt_region_node* node = &r->nodes[i];
    if (!is_alias(node) || node->num_inputs < 1 || node->inputs[0] < 0) continue;
    if (p->last[node->outputs[0]] > p->last[node->inputs[0]]) {
      p->last[node->inputs[0]] = p->last[node->outputs[0]];
    }
  }
}

/* A buffer whose tensor is read no more, the smallest that is large enough; else a new one. */
static int place_result(opencl_plan* p, int32_t tensor, int32_t node) {
  size_t bytes = (size_t)p->region->tensors[tensor].num_bytes;
  int32_t best = -1, i;
  if (p->root[tensor] < 0) {
    p->place[tensor] = add_border(p, bytes, -1 - p->root[tensor]);
    return 0;
  }
  for (i = 0; i < p->num_buffers; ++i) {
    const buffer* b = &p->buffers[i];
    if (b->last >= node || b->bytes < bytes) continue;
    if (best < 0 || b->bytes < p->buffers[best].bytes) best = i;
  }
  if (best < 0 && create_buffer(p, bytes, &best) != 0) return -1;
  p->buffers[best].last = p->last[tensor] > node ? p->last[tensor] : node;
  p->place[tensor] = best;
  return 0;
}

/* Kernels --------------------------------------------------------------------------------------- */

static size_t read_sizes(const tvmrt_region_node* node, const char* key, size_t* out) {
  int32_t count = 0, i;
  const int64_t* sizes = tvmrt_node_ints(node, key, &count);
  if (count > MAX_SIZES) return 0;
  for (i = 0; i < count; ++i) out[i] = sizes[i] < 1 ? 0 : (size_t)sizes[i];
  return (size_t)count;
}

/* Of the integer types; halves come as their bits. NaN is within nothing. */
static int check_scalar(const char* type, size_t length, double value) {
  double low = INT32_MIN, high = INT32_MAX;
  if (length == 5 && memcmp(type, "float", 5) == 0) return 0;
  if (length == 4 && memcmp(type, "half", 4) == 0) low = 0, high = UINT16_MAX;
  if (length == 4 && memcmp(type, "uint", 4) == 0) low = 0, high = UINT32_MAX;
  if (value >= low && value <= high) return 0;
  return opencl_fail("scalar %g of a kernel is none of type %.*s", value, (int)length, type);
}

static int set_scalar(cl_kernel kernel, cl_uint index, const char* type, size_t length,
                      double value) {
  cl_int status;
  if (check_scalar(type, length, value) != 0) return -1;
  if (length == 5 && memcmp(type, "float", 5) == 0) {
    cl_float x = (cl_float)value;
    status = clSetKernelArg(kernel, index, sizeof(x), &x);
  } else if (length == 4 && memcmp(type, "half", 4) == 0) {
    cl_ushort x = (cl_ushort)value;
    status = clSetKernelArg(kernel, index, sizeof(x), &x);
  } else if (length == 4 && memcmp(type, "uint", 4) == 0) {
    cl_uint x = (cl_uint)value;
    status = clSetKernelArg(kernel, index, sizeof(x), &x);
  } else {
    cl_int x = (cl_int)value;
    status = clSetKernelArg(kernel, index, sizeof(x), &x);
  }
  if (status != CL_INVALID_ARG_SIZE) return opencl_check(status, "setting a scalar parameter");
  return opencl_fail("parameter %u of the kernel, from 0, is no %.*s (OpenCL error %d)",
                     (unsigned)index, (int)length, type, (int)status);
}

static int set_scalars(const tvmrt_region_node* node, cl_kernel kernel, cl_uint index) {
  const char* at = tvmrt_node_text(node, "scalar_types", "");
  const tvmrt_attr* values = tvmrt_node_attr(node, "scalars");
  int32_t i = 0;
  while (*at != '\0') {
    size_t length = strcspn(at, " ");
    double value;
    if (values == NULL || i >= values->count || values->kind == TVMRT_ATTR_TEXT) {
      return opencl_fail("there are fewer scalars than scalar types");
    }
    value = values->kind == TVMRT_ATTR_INTS ? (double)values->ints[i] : values->floats[i];
    if (set_scalar(kernel, index++, at, length, value) != 0) return -1;
    ++i;
    at += length;
    at += strspn(at, " ");
  }
  return 0;
}

static int set_arguments(opencl_plan* p, const tvmrt_region_node* node, const launch* l) {
  cl_kernel kernel = l->kernel;
  cl_uint index = 0, expected = 0, scalars = 0;
  const char* at = tvmrt_node_text(node, "scalar_types", "");
  int32_t i;
  for (; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " ")) ++scalars;
  for (i = 0; i < node->num_inputs; ++i) scalars += node->inputs[i] >= 0;
  scalars += (cl_uint)node->num_outputs;
  if (opencl_check(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(expected), &expected, NULL),
                   "clGetKernelInfo") != 0) {
    return -1;
  }
  if (expected != scalars) {
    return opencl_fail("the kernel takes %u parameters, the node has %u", (unsigned)expected,
                       (unsigned)scalars);
  }
  if (opencl_set_buffers(p, node->inputs, node->num_inputs, l, &index) != 0) return -1;
  if (opencl_set_buffers(p, node->outputs, node->num_outputs, l, &index) != 0) return -1;
  return set_scalars(node, kernel, index);
}

static int read_launch(opencl_plan* p, const tvmrt_region_node* node, launch* l) {
  const char* source = tvmrt_node_text(node, "source", NULL);
  const char* function = tvmrt_node_text(node, "function", NULL);
  const char* who = tvmrt_node_text(node, "operator", node->op);
  cl_int status = CL_SUCCESS;
  cl_program program;
  size_t i, num_local = read_sizes(node, "local_size", l->local);
  l->dimensions = (cl_uint)read_sizes(node, "global_size", l->global);
  l->has_local = num_local > 0;
  if (source == NULL || function == NULL || l->dimensions == 0) {
    return opencl_fail("source, function or global_size are missing");
  }
  if (l->has_local && num_local != l->dimensions) {
    return opencl_fail("%s: local_size has %d sizes, global_size %d", who, (int)num_local,
                       (int)l->dimensions);
  }
  for (i = 0; i < l->dimensions; ++i) {
    if (l->global[i] == 0 || (l->has_local && l->local[i] == 0) ||
        (l->has_local && l->global[i] % l->local[i] != 0)) {
      return opencl_fail("%s: global_size is no multiple of local_size", who);
    }
  }
  (void)snprintf(l->name, sizeof(l->name), "%s", function);
  if (opencl_program(p->context, who, source, tvmrt_node_text(node, "build_options", ""),
                     &program) != 0) {
    return -1;
  }
  l->kernel = clCreateKernel(program, function, &status);
  if (status == CL_INVALID_KERNEL_NAME) {
    return opencl_fail("the OpenCL source of %s has no kernel %s", who, function);
  }
  if (opencl_check(status, "clCreateKernel") != 0) return -1;
  if (opencl_images_create(p, node, l) != 0) return -1;
  return set_arguments(p, node, l);
}

/* Kernels are made for the extents that the compiler knew: the k-th word of "types" has them. */
static int check_extents(const opencl_plan* p, const tvmrt_region_node* node, int32_t k) {
  const tvmrt_region_tensor* t = &p->region->tensors[node->outputs[k]];
  const char* at = tvmrt_node_text(node, "types", "");
  int32_t d;
  for (; k > 0; --k) {
    at += strcspn(at, " ");
    at += strspn(at, " ");
  }
  at += strcspn(at, ": ");
  for (d = 0; d < t->ndim; ++d) {
    char* end;
    if (*at != (d == 0 ? ':' : 'x')) break;
    if (strtoll(at + 1, &end, 10) != t->shape[d]) break;
    at = end;
  }
  if (d == t->ndim) return 0;
  return opencl_fail("kernel %s was made for other extents than tensor %s has; compile again",
                     tvmrt_node_text(node, "function", ""), t->name);
}

static int enter_node(opencl_plan* p, int32_t number) {
  const tvmrt_region_node* node = &p->region->nodes[number];
  launch* l = &p->launches[p->num_launches];
  int32_t k;
  p->region->failed_node = number;
  if (is_alias(node)) {
    if (node->num_inputs != 1 || node->inputs[0] < 0 || p->place[node->inputs[0]] < 0) {
      return opencl_fail("a reshape has no operand");
    }
    if (p->region->tensors[node->inputs[0]].num_bytes !=
        p->region->tensors[node->outputs[0]].num_bytes) {
      return opencl_fail("reshape %s has an operand of another size than its result", node->name);
    }
    p->place[node->outputs[0]] = p->place[node->inputs[0]];
    return 0;
  }
  if (strcmp(node->op, "custom_opencl") != 0) {
    return opencl_fail("operator %s was not made a kernel by the compiler", node->op);
  }
  for (k = 0; k < node->num_outputs; ++k) {
    if (check_extents(p, node, k) != 0) return -1;
    if (place_result(p, node->outputs[k], number) != 0) return -1;
  }
  l->node = number;
  p->num_launches++;
  return read_launch(p, node, l);
}

static int build(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  cl_command_queue_properties properties = p->profile ? CL_QUEUE_PROFILING_ENABLE : 0;
  cl_int status = CL_SUCCESS;
  int32_t i;
  p->queue = clCreateCommandQueue(p->context->context, p->context->device, properties, &status);
  if (opencl_check(status, "clCreateCommandQueue") != 0) return -1;
  for (i = 0; i < r->num_tensors; ++i) p->place[i] = -1;
  find_last_readers(p);
  claim_outputs(p);
  if (enter_constants_and_borders(p) != 0) return -1;
  for (i = 0; i < r->num_nodes; ++i) {
    if (enter_node(p, i) != 0) return -1;
  }
  p->region->failed_node = -1;
  for (i = 0; i < r->num_outputs; ++i) {
    if (p->place[r->outputs[i]] < 0) return opencl_fail("an output is not computed");
  }
  return 0;
}

int opencl_plan_create(opencl_context* c, tvmrt_region* region, bool profile, opencl_plan** out) {
  opencl_plan* p = calloc(1, sizeof(*p));
  size_t tensors = (size_t)region->num_tensors + 1, nodes = (size_t)region->num_nodes + 1;
  *out = NULL;
  if (p == NULL) return opencl_fail("out of memory");
  p->context = c;
  p->region = region;
  p->profile = profile;
  p->buffers = calloc(tensors, sizeof(buffer));
  p->place = calloc(tensors, sizeof(int32_t));
  p->last = calloc(tensors, sizeof(int32_t));
  p->root = calloc(tensors, sizeof(int32_t));
  p->launches = calloc(nodes, sizeof(launch));
  if (p->buffers == NULL || p->place == NULL || p->last == NULL || p->root == NULL ||
      p->launches == NULL) {
    opencl_plan_free(p);
    return opencl_fail("out of memory");
  }
  if (build(p) != 0) {
    opencl_plan_free(p);
    return -1;
  }
  opencl_profile_add(p);
  *out = p;
  return 0;
}

void opencl_plan_free(opencl_plan* p) {
  int32_t i;
  if (p == NULL) return;
  opencl_profile_remove(p);
  if (p->queue != NULL) opencl_plan_stop(p);
  for (i = 0; i < p->num_launches; ++i) {
    opencl_images_free(&p->launches[i]);
    if (p->launches[i].kernel != NULL) clReleaseKernel(p->launches[i].kernel);
  }
  opencl_borders_free(p);
  if (p->queue != NULL) clReleaseCommandQueue(p->queue);
  free(p->buffers);
  free(p->place);
  free(p->last);
  free(p->root);
  free(p->launches);
  free(p);
}

/* Running --------------------------------------------------------------------------------------- */

static int launch_kernel(opencl_plan* p, launch* l) {
  p->region->failed_node = l->node;
  if (opencl_images_copy(p, l, true) != 0) return -1;
  if (opencl_check(clEnqueueNDRangeKernel(p->queue, l->kernel, l->dimensions, NULL, l->global,
                                          l->has_local ? l->local : NULL, 0, NULL,
                                          p->profile ? &l->event : NULL),
                   l->name) != 0) {
    return -1;
  }
  return opencl_images_copy(p, l, false);
}

/* Copies in, kernels, copies out: the queue is in order, so the last event is the end of all. */
static int enqueue(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  if (opencl_borders_bind(p) != 0) return -1;
  for (i = 0; i < r->num_inputs; ++i) {
    if (opencl_borders_move(p, r->inputs[i], true, NULL) != 0) return -1;
  }
  for (i = 0; i < p->num_launches; ++i) {
    if (launch_kernel(p, &p->launches[i]) != 0) return -1;
  }
  p->region->failed_node = -1;
  for (i = 0; i < r->num_outputs; ++i) {
    if (opencl_borders_move(p, r->outputs[i], false, i == r->num_outputs - 1 ? &p->done : NULL) !=
        0) {
      return -1;
    }
  }
  if (p->done == NULL && /* the last output is there already */
      opencl_check(clEnqueueMarkerWithWaitList(p->queue, 0, NULL, &p->done),
                   "clEnqueueMarkerWithWaitList") != 0) {
    return -1;
  }
  return opencl_check(clFlush(p->queue), "clFlush");
}

/* The run has ended, well or not: nothing touches the caller's memory any more. */
static void forget_run(opencl_plan* p, bool well) {
  opencl_profile_end_run(p, well);
  if (p->done != NULL) clReleaseEvent(p->done);
  p->done = NULL;
}

int opencl_plan_start(opencl_plan* p, tvmrt_region* region) {
  p->region = region;
  if (enqueue(p) == 0) return 0;
  opencl_plan_stop(p);
  return -1;
}

void opencl_plan_stop(opencl_plan* p) {
  (void)clFinish(p->queue);
  forget_run(p, false);
}

int opencl_plan_wait(opencl_plan* p, int try_wait) {
  cl_int state = CL_COMPLETE;
  int rc;
  if (try_wait) {
    rc = opencl_check(
        clGetEventInfo(p->done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL),
        "clGetEventInfo");
    if (rc == 0 && state > CL_COMPLETE) return TVMRT_DEVICE_BUSY;
    if (rc == 0) rc = opencl_check(state == CL_COMPLETE ? CL_SUCCESS : state, "running a region");
  } else {
    rc = opencl_check(clWaitForEvents(1, &p->done), "running a region");
  }
  if (rc != 0) (void)clFinish(p->queue);
  forget_run(p, rc == 0);
  return rc;
}
