/* A region as buffers and kernels. Its nodes are kernels (operator "custom_opencl" with source and
 * sizes as attributes) and reshapes, which only rename a buffer. The compiler makes them from the
 * network's operators.
 *
 * Buffers are driver objects, which are kernel arguments; each plan has an in-order queue.
 * Constants are shared by the plans of a region. A plan contains everything for a run except
 * buffers of host boundary tensors, which are made at the first run. */
#include "plan.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_node.h"

/* Buffers ------------------------------------------------------------------------------------- */

/* Buffer of a tensor: first the buffers of the arena, then one per tensor with its own buffer. */
buffer* opencl_buffer(const opencl_plan* p, int32_t tensor) {
  const tensor_location* at = &p->plan.locations[tensor];
  return &p->buffers[at->kind == LOCATION_BUFFER ? at->number : p->plan.num_buffers + at->number];
}

/* The constant's buffer in the region's first plan; NULL in that plan. Borrowed from it; it lives
 * as long as the region's copies. */
static cl_mem constant_of_first(const opencl_plan* p, int32_t tensor) {
  const opencl_plan* first = p->region->base == NULL ? NULL : p->region->base->device_graph;
  return first == NULL ? NULL : opencl_buffer(first, tensor)->memory;
}

/* Constants are on the device once for all contexts of a region. If the device works in the host's
 * memory, they are read in the library: COPY_HOST_PTR copies the constant now, USE_HOST_PTR keeps
 * reading the library, which stays loaded. */
static int enter_constant(opencl_plan* p, int32_t tensor) {
  const tvmrt_region_tensor* t = &p->region->tensors[tensor];
  const cl_mem_flags flags =
      p->context->is_unified && t->num_bytes != 0 ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR;
  const cl_mem shared = constant_of_first(p, tensor);
  cl_int status = CL_SUCCESS;
  buffer* b = opencl_buffer(p, tensor);
  b->bytes = t->num_bytes == 0 ? 1 : (size_t)t->num_bytes;
  /* reference-counted by the driver, so plans may be freed in any order */
  if (shared != NULL) {
    status = clRetainMemObject(shared);
    if (opencl_check(status, "clRetainMemObject") != 0) return -1;
    b->memory = shared;
  } else {
    b->memory = clCreateBuffer(p->context->context, CL_MEM_READ_ONLY | flags, b->bytes,
                               (void*)(uintptr_t)t->data, &status);
    if (opencl_check(status, "clCreateBuffer") != 0) return -1;
  }
  return 0;
}

/* Boundary buffers are allocated when a run has a host tensor. An empty tensor has one byte, since
 * buffers cannot be empty. */
static void enter_boundary(opencl_plan* p, int32_t tensor) {
  buffer* b = &p->buffers[p->plan.num_buffers + tensor];
  const size_t bytes = (size_t)p->region->tensors[tensor].num_bytes;
  b->bytes = bytes == 0 ? 1 : bytes;
  b->boundary_tensor = tensor;
}

/* Constants and boundary tensors have one buffer per tensor, after the arena's buffers. Aliases
 * share the buffer of their root. */
static int enter_buffers(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  cl_int status = CL_SUCCESS;
  int32_t i;
  for (i = 0; i < p->num_buffers; ++i) p->buffers[i].boundary_tensor = -1;
  for (i = 0; i < p->plan.num_buffers; ++i) {
    buffer* b = &p->buffers[i];
    b->bytes = p->plan.buffer_bytes[i];
    b->memory = clCreateBuffer(p->context->context, CL_MEM_READ_WRITE, b->bytes, NULL, &status);
    if (opencl_check(status, "clCreateBuffer") != 0) return -1;
  }
  for (i = 0; i < r->num_tensors; ++i) {
    const tensor_location* at = &p->plan.locations[i];
    if (at->kind == LOCATION_CONSTANT && at->number == i && enter_constant(p, i) != 0) return -1;
    if (at->kind == LOCATION_BOUNDARY && at->number == i) enter_boundary(p, i);
  }
  return 0;
}

/* Kernels ------------------------------------------------------------------------------------- */

/* Return the number of sizes; 0 if there are none or too many. Invalid sizes become 0, which
 * read_launch() rejects. `out` has MAX_SIZES elements. */
static size_t read_sizes(const tvmrt_region_node* node, const char* key, size_t* out) {
  int32_t count = 0, i;
  const int64_t* sizes = tvmrt_node_ints(node, key, &count);
  if (count > MAX_SIZES) return 0;
  for (i = 0; i < count; ++i) out[i] = sizes[i] < 1 ? 0 : (size_t)sizes[i];
  return (size_t)count;
}

/* A wrong size means that source and node disagree about the type, which the error names. */
static int set_scalar(cl_kernel kernel, cl_uint index, const kernel_scalar* s) {
  const cl_int status = clSetKernelArg(kernel, index, s->bytes, &s->value);
  if (status != CL_INVALID_ARG_SIZE) return opencl_check(status, "setting a scalar parameter");
  return device_fail("parameter %u of the kernel, from 0, is not %.*s (OpenCL error %d)",
                     (unsigned)index, (int)s->type_length, s->type, (int)status);
}

/* Set buffers first, then scalars, in the order of the generated kernel. The count is checked,
 * since drivers report a missing argument only when the kernel is queued. Unbound boundary tensors
 * are set at the first run. */
static int set_arguments(opencl_plan* p, const tvmrt_region_node* node, const launch* l) {
  cl_kernel kernel = l->kernel;
  const int32_t scalars = kernel_num_scalars(node);
  const cl_uint num_args = (cl_uint)kernel_num_tensors(node) + (cl_uint)scalars;
  kernel_scalar scalar;
  int32_t i;
  cl_uint index = 0, expected = 0;
  if (opencl_check(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(expected), &expected, NULL),
                   "clGetKernelInfo") != 0) {
    return -1;
  }
  if (expected != num_args) {
    return device_fail("the kernel takes %u parameters, the node has %u", (unsigned)expected,
                       (unsigned)num_args);
  }
  if (opencl_set_buffers(p, node->inputs, node->num_inputs, l, &index) != 0) return -1;
  if (opencl_set_buffers(p, node->outputs, node->num_outputs, l, &index) != 0) return -1;
  for (i = 0; i < scalars; ++i) {
    if (kernel_read_scalar(node, i, &scalar) != 0) return -1;
    if (set_scalar(kernel, index + (cl_uint)i, &scalar) != 0) return -1;
  }
  return 0;
}

/* Everything in the node is checked here, once: runs only set boundary arguments. The kernel object
 * belongs to the plan, since it holds the arguments. */
static int read_launch(opencl_plan* p, const tvmrt_region_node* node, launch* l) {
  const char* source = tvmrt_node_text(node, "source", NULL);
  const char* function = tvmrt_node_text(node, "function", NULL);
  const program_source text = {tvmrt_node_text(node, "operator", node->op), source,
                               tvmrt_node_text(node, "build_options", "")};
  cl_int status = CL_SUCCESS;
  cl_program program;
  size_t i, num_local = read_sizes(node, "local_size", l->local);
  l->dimensions = (cl_uint)read_sizes(node, "global_size", l->global);
  l->has_local = num_local > 0;
  if (source == NULL || function == NULL || l->dimensions == 0) {
    return device_fail("the node lacks source, function or global_size");
  }
  if (l->has_local && num_local != l->dimensions) {
    return device_fail("%s: local_size has %d sizes, global_size %d", text.op_name, (int)num_local,
                       (int)l->dimensions);
  }
  for (i = 0; i < l->dimensions; ++i) {
    if (l->global[i] == 0 || (l->has_local && l->local[i] == 0) ||
        (l->has_local && l->global[i] % l->local[i] != 0)) {
      return device_fail("%s: global_size is not a multiple of local_size", text.op_name);
    }
  }
  /* truncated; only for errors and profiles */
  (void)snprintf(l->name, sizeof(l->name), "%s", function);
  if (opencl_program(p->context, &text, &program) != 0) return -1;
  l->kernel = clCreateKernel(program, function, &status);
  if (status == CL_INVALID_KERNEL_NAME) {
    return device_fail("the OpenCL source of %s has no kernel %s", text.op_name, function);
  }
  if (opencl_check(status, "clCreateKernel") != 0) return -1;
  if (opencl_images_create(p, node, l) != 0) return -1;
  return set_arguments(p, node, l);
}

/* The launch is counted first, so that it is freed with the plan also after a failure. Reshapes are
 * not launches. */
static int enter_node(opencl_plan* p, int32_t number) {
  const tvmrt_region_node* node = &p->region->nodes[number];
  launch* l = &p->launches[p->num_launches];
  p->region->failed_node = number;
  if (region_is_alias(node)) return 0;
  if (strcmp(node->op, "custom_opencl") != 0) {
    return device_fail("the compiler generated no kernel for operator %s", node->op);
  }
  if (kernel_check_extents(p->region, node) != 0) return -1;
  l->node = number;
  p->num_launches++;
  return read_launch(p, node, l);
}

/* failed_node is the node for the error. On failure opencl_plan_free() frees everything. */
static int build(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  cl_command_queue_properties properties = p->profile ? CL_QUEUE_PROFILING_ENABLE : 0;
  cl_int status = CL_SUCCESS;
  int32_t i;
  p->queue = clCreateCommandQueue(p->context->context, p->context->device, properties, &status);
  if (opencl_check(status, "clCreateCommandQueue") != 0) return -1;
  if (region_plan_make(p->region, &p->plan) != 0) return -1;
  p->buffers =
      calloc((size_t)p->plan.num_buffers + (size_t)r->num_tensors + 1, sizeof(*p->buffers));
  if (p->buffers == NULL) return device_fail("out of memory");
  p->num_buffers = p->plan.num_buffers + r->num_tensors;
  if (enter_buffers(p) != 0) return -1;
  for (i = 0; i < r->num_nodes; ++i) {
    if (enter_node(p, i) != 0) return -1;
  }
  p->region->failed_node = -1;
  return 0;
}

/* On failure *out is NULL and everything is freed. Only complete plans enter the list of
 * profiles. */
int opencl_plan_create(opencl_context* c, tvmrt_region* region, bool profile, opencl_plan** out) {
  opencl_plan* p = calloc(1, sizeof(*p));
  *out = NULL;
  if (p == NULL) return device_fail("out of memory");
  p->context = c;
  p->region = region;
  p->profile = profile;
  p->launches = calloc((size_t)region->num_nodes + 1, sizeof(launch));
  if (p->launches == NULL) {
    opencl_plan_free(p);
    return device_fail("out of memory");
  }
  if (build(p) != 0) {
    opencl_plan_free(p);
    return -1;
  }
  opencl_profile_add(p);
  *out = p;
  return 0;
}

/* Also frees a partly built plan; NULL does nothing. Waits for a run in progress. */
void opencl_plan_free(opencl_plan* p) {
  int32_t i;
  if (p == NULL) return;
  opencl_profile_remove(p);
  if (p->queue != NULL) opencl_plan_stop(p);
  for (i = 0; i < p->num_launches; ++i) {
    opencl_images_free(&p->launches[i]);
    if (p->launches[i].kernel != NULL) clReleaseKernel(p->launches[i].kernel);
  }
  opencl_boundary_free(p);
  if (p->queue != NULL) clReleaseCommandQueue(p->queue);
  free(p->buffers);
  region_plan_free(&p->plan);
  free(p->launches);
  free(p);
}

/* Running ------------------------------------------------------------------------------------- */

/* Images are copied on the device, in the queue's order. An error here is the queue's; errors of
 * the kernel are reported when the run is waited for. */
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

/* Queue copies of inputs, kernels, copies of outputs. The queue is in order, so the last event is
 * the end of the run. Does not wait. */
static int enqueue(opencl_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  if (opencl_boundary_bind(p) != 0) return -1;
  for (i = 0; i < r->num_inputs; ++i) {
    if (opencl_boundary_move(p, r->inputs[i], true, NULL) != 0) return -1;
  }
  for (i = 0; i < p->num_launches; ++i) {
    if (launch_kernel(p, &p->launches[i]) != 0) return -1;
  }
  p->region->failed_node = -1;
  for (i = 0; i < r->num_outputs; ++i) {
    if (opencl_boundary_move(p, r->outputs[i], false, i == r->num_outputs - 1 ? &p->done : NULL) !=
        0) {
      return -1;
    }
  }
  if (p->done == NULL && /* the last output is already in place */
      opencl_check(clEnqueueMarkerWithWaitList(p->queue, 0, NULL, &p->done),
                   "clEnqueueMarkerWithWaitList") != 0) {
    return -1;
  }
  /* without a flush, a driver may delay commands until a wait */
  return opencl_check(clFlush(p->queue), "clFlush");
}

/* The run has ended, successfully or not; the caller's memory is no longer used. */
static void end_run(opencl_plan* p, bool succeeded) {
  opencl_profile_end_run(p, succeeded);
  if (p->done != NULL) clReleaseEvent(p->done);
  p->done = NULL;
}

/* On failure the caller's memory is no longer used. */
int opencl_plan_start(opencl_plan* p, tvmrt_region* region) {
  p->region = region;
  if (enqueue(p) == 0) return 0;
  opencl_plan_stop(p);
  return -1;
}

/* On return the run has ended, and the caller's memory is no longer used. Errors are ignored. */
void opencl_plan_stop(opencl_plan* p) {
  (void)clFinish(p->queue);
  end_run(p, false);
}

/* A kernel error is a negative status of the last event. BUSY leaves the run unchanged; any other
 * result ends it and releases all events. */
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
  end_run(p, rc == 0);
  return rc;
}
