/* A region as buffers and kernels. Its nodes are kernels (operator "custom_opencl" with source and
 * sizes as attributes) and reshapes, which only rename a buffer. The compiler makes them from the
 * network's operators.
 *
 * Each plan has an in-order queue, its own buffers and its own kernel objects, which hold the
 * arguments: all are set once, when the plan is made. */
#include "plan.h"

#include <stdlib.h>

#define MAX_SIZES 3

typedef struct {
  cl_kernel kernel;
  opencl_image* images; /* one per tensor parameter */
  int32_t num_images;
  int32_t node;
  cl_uint dimensions;
  size_t global[MAX_SIZES], local[MAX_SIZES];
  bool has_local;
} launch;

struct opencl_plan {
  opencl_context* context;
  const tvmrt_region* region; /* while the plan is made */
  cl_command_queue queue;
  cl_mem* memory; /* per tensor */
  int32_t num_tensors;
  launch* launches;
  int32_t num_launches;
};

/* Kernels ------------------------------------------------------------------------------------- */

/* Return the number of sizes; 0 if there are none or too many. The driver rejects invalid sizes when
 * the kernel is queued. `out` has MAX_SIZES elements. */
static size_t read_sizes(const tvmrt_region_node* node, const char* key, size_t* out) {
  int32_t count = 0, i;
  const int64_t* sizes = tvmrt_node_ints(node, key, &count);
  if (count > MAX_SIZES) return 0;
  for (i = 0; i < count; ++i) out[i] = sizes[i] < 1 ? 0 : (size_t)sizes[i];
  return (size_t)count;
}

/* Set the buffers of operands and results, or their images. Omitted operands have no parameter and
 * no word in "images". */
static int set_tensors(const opencl_plan* p, const tvmrt_region_node* node, launch* l) {
  const char* word = tvmrt_node_text(node, "images", "");
  int32_t i;
  l->images = calloc((size_t)kernel_num_tensors(node) + 1, sizeof(*l->images));
  if (l->images == NULL) return opencl_fail("out of memory");
  for (i = 0; i < node->num_inputs + node->num_outputs; ++i) {
    const bool is_input = i < node->num_inputs;
    const int32_t tensor = is_input ? node->inputs[i] : node->outputs[i - node->num_inputs];
    opencl_image* at = &l->images[l->num_images];
    if (tensor < 0) continue;
    at->buffer = p->memory[tensor];
    at->is_input = is_input;
    if (opencl_image_create(p->context, &p->region->tensors[tensor],
                            tvmrt_node_text(node, "operator", node->op), word, at) != 0) {
      return -1;
    }
    l->num_images++;
    if (opencl_check(clSetKernelArg(l->kernel, (cl_uint)l->num_images - 1, sizeof(cl_mem),
                                    at->image != NULL ? &at->image : &at->buffer),
                     "setting a parameter") != 0) {
      return -1;
    }
    word = kernel_next_word(word);
  }
  return 0;
}

/* A wrong size means that source and node disagree about the type, which the error names. */
static int set_scalar(cl_kernel kernel, cl_uint index, const kernel_scalar* s) {
  const cl_int status = clSetKernelArg(kernel, index, s->bytes, &s->value);
  if (status != CL_INVALID_ARG_SIZE) return opencl_check(status, "setting a scalar parameter");
  return opencl_fail("parameter %u of the kernel, from 0, is not %.*s (OpenCL error %d)",
                     (unsigned)index, (int)s->type_length, s->type, (int)status);
}

/* Set tensors first, then scalars, in the order of the generated kernel. The count is checked,
 * since drivers report a missing argument only when the kernel is queued. */
static int set_arguments(const opencl_plan* p, const tvmrt_region_node* node, launch* l) {
  const int32_t tensors = kernel_num_tensors(node), scalars = kernel_num_scalars(node);
  cl_uint expected = 0;
  kernel_scalar scalar;
  int32_t i;
  if (opencl_check(
          clGetKernelInfo(l->kernel, CL_KERNEL_NUM_ARGS, sizeof(expected), &expected, NULL),
          "clGetKernelInfo") != 0) {
    return -1;
  }
  if (expected != (cl_uint)(tensors + scalars)) {
    return opencl_fail("the kernel takes %u parameters, the node has %d", (unsigned)expected,
                       (int)(tensors + scalars));
  }
  if (set_tensors(p, node, l) != 0) return -1;
  for (i = 0; i < scalars; ++i) {
    if (kernel_read_scalar(node, i, &scalar) != 0) return -1;
    if (set_scalar(l->kernel, (cl_uint)(tensors + i), &scalar) != 0) return -1;
  }
  return 0;
}

/* What the driver does not check is checked here, once. On failure the launch is freed with the plan. */
static int make_launch(const opencl_plan* p, const tvmrt_region_node* node, launch* l) {
  const char* function = tvmrt_node_text(node, "function", NULL);
  const program_source text = {tvmrt_node_text(node, "operator", node->op),
                               tvmrt_node_text(node, "source", NULL),
                               tvmrt_node_text(node, "build_options", "")};
  const size_t num_local = read_sizes(node, "local_size", l->local);
  cl_int status = CL_SUCCESS;
  cl_program program;
  l->dimensions = (cl_uint)read_sizes(node, "global_size", l->global);
  l->has_local = num_local > 0;
  if (strcmp(node->op, "custom_opencl") != 0) {
    return opencl_fail("the compiler generated no kernel for operator %s", node->op);
  }
  if (text.source == NULL || function == NULL || l->dimensions == 0) {
    return opencl_fail("%s: the node lacks source, function or global_size", text.op_name);
  }
  if (l->has_local && num_local != l->dimensions) {
    return opencl_fail("%s: local_size has %d sizes, global_size %d", text.op_name, (int)num_local,
                       (int)l->dimensions);
  }
  if (opencl_program(p->context, &text, &program) != 0) return -1;
  l->kernel = clCreateKernel(program, function, &status);
  if (status == CL_INVALID_KERNEL_NAME) {
    return opencl_fail("the OpenCL source of %s has no kernel %s", text.op_name, function);
  }
  if (opencl_check(status, "clCreateKernel") != 0) return -1;
  return set_arguments(p, node, l);
}

/* Plans --------------------------------------------------------------------------------------- */

/* failed_node is the node for the error. On failure opencl_plan_free() frees everything. */
static int build(opencl_plan* p, tvmrt_region* r) {
  const opencl_context* c = p->context;
  const opencl_plan* first = r->base == NULL ? NULL : r->base->device_graph;
  cl_int status = CL_SUCCESS;
  int32_t i;
  p->memory = calloc((size_t)r->num_tensors + 1, sizeof(cl_mem));
  p->launches = calloc((size_t)r->num_nodes + 1, sizeof(launch));
  if (p->memory == NULL || p->launches == NULL) return opencl_fail("out of memory");
  p->queue = clCreateCommandQueue(c->context, c->device, 0, &status);
  if (opencl_check(status, "clCreateCommandQueue") != 0) return -1;
  if (opencl_buffers_create(c, r, first == NULL ? NULL : first->memory, p->memory) != 0) return -1;
  for (i = 0; i < r->num_nodes; ++i) {
    launch* l = &p->launches[p->num_launches];
    r->failed_node = i;
    if (opencl_is_alias(&r->nodes[i])) continue;
    l->node = i;
    p->num_launches++;
    if (make_launch(p, &r->nodes[i], l) != 0) return -1;
  }
  r->failed_node = -1;
  return 0;
}

/* On failure *out is NULL and everything is freed. */
int opencl_plan_create(opencl_context* c, tvmrt_region* region, opencl_plan** out) {
  opencl_plan* p = calloc(1, sizeof(*p));
  *out = NULL;
  if (p == NULL) return opencl_fail("out of memory");
  p->context = c;
  p->region = region;
  p->num_tensors = region->num_tensors;
  if (build(p, region) != 0) {
    opencl_plan_free(p);
    return -1;
  }
  *out = p;
  return 0;
}

/* Also frees a partly built plan; NULL does nothing. No run is in progress. */
void opencl_plan_free(opencl_plan* p) {
  int32_t i, k;
  if (p == NULL) return;
  for (i = 0; i < p->num_launches; ++i) {
    const launch* l = &p->launches[i];
    for (k = 0; k < l->num_images; ++k) {
      if (l->images[k].image != NULL) clReleaseMemObject(l->images[k].image);
    }
    free(l->images);
    if (l->kernel != NULL) clReleaseKernel(l->kernel);
  }
  opencl_buffers_free(p->memory, p->num_tensors);
  if (p->queue != NULL) clReleaseCommandQueue(p->queue);
  free(p->launches);
  free(p);
}

/* Queue copies of inputs, kernels with the copies of their images, and copies of outputs. */
static int enqueue(const opencl_plan* p, tvmrt_region* r) {
  int32_t i;
  for (i = 0; i < r->num_inputs; ++i) {
    const int32_t t = r->inputs[i];
    if (opencl_buffer_copy(p->queue, r, t, p->memory[t], true) != 0) return -1;
  }
  for (i = 0; i < p->num_launches; ++i) {
    const launch* l = &p->launches[i];
    r->failed_node = l->node;
    if (opencl_images_copy(p->queue, l->images, l->num_images, true) != 0 ||
        opencl_check(clEnqueueNDRangeKernel(p->queue, l->kernel, l->dimensions, NULL, l->global,
                                            l->has_local ? l->local : NULL, 0, NULL, NULL),
                     "running a kernel") != 0 ||
        opencl_images_copy(p->queue, l->images, l->num_images, false) != 0) {
      return -1;
    }
  }
  r->failed_node = -1;
  for (i = 0; i < r->num_outputs; ++i) {
    const int32_t t = r->outputs[i];
    if (opencl_buffer_copy(p->queue, r, t, p->memory[t], false) != 0) return -1;
  }
  return 0;
}

/* The queue is in order, so the marker is the end of the run. A kernel error is a negative status
 * of its event. */
int opencl_plan_run(const opencl_plan* p, tvmrt_region* region) {
  cl_event done = NULL;
  int rc = enqueue(p, region);
  if (rc == 0) {
    rc = opencl_check(clEnqueueMarkerWithWaitList(p->queue, 0, NULL, &done),
                      "clEnqueueMarkerWithWaitList");
  }
  if (rc == 0) rc = opencl_check(clWaitForEvents(1, &done), "running a region");
  if (rc != 0) (void)clFinish(p->queue);
  if (done != NULL) clReleaseEvent(done);
  return rc;
}
