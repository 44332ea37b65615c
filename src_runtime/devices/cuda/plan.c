/* A region as kernels, products and places in the GPU's memory. Its nodes are kernels
 * ("custom_cuda", whose attributes hold source and sizes), products ("custom_cuda_product"), and
 * reshapes, which only give a place another name: the compiler's half makes them out of the
 * network's operators.
 *
 * A plan has its own stream, arena and steps, so that regions run side by side; weights are on the
 * GPU once for all plans of a region. All memory is taken while the plan is made, but what tensors
 * of the host pass through, which a run takes when it first needs it. */
#include "plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/kernel_node.h"

/* Of the tensor itself, without what rounding adds to its place. */
static size_t bytes_of(const cuda_plan* p, int32_t tensor) {
  return (size_t)p->region->tensors[tensor].num_bytes;
}

/* The constants behind each other, then the buffers, then what borders of the host pass through.
 * Offsets are multiples of 256, as region_place_bytes() rounds: every tensor begins where wide
 * loads want it. */
static void place_all(cuda_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_tensors; ++i) {
    if (r->tensors[i].data == NULL) continue;
    p->weight_offsets[i] = p->weights_bytes;
    p->weights_bytes += region_place_bytes(r, i);
  }
  for (i = 0; i < p->plan.num_buffers; ++i) {
    p->buffer_offsets[i] = p->arena_bytes;
    p->arena_bytes += p->plan.buffer_bytes[i];
  }
  for (i = 0; i < r->num_inputs + r->num_outputs; ++i) {
    const int32_t tensor = region_border(r, i);
    p->staged[tensor] = p->staging_bytes;
    p->staging_bytes += region_place_bytes(r, tensor);
  }
}

/* Kernels ------------------------------------------------------------------------------------- */

/* The kernel's tensors, then its scalars. `parameters` points into `values`, once and for all;
 * runs write addresses there. Nodes' -1 stands for an operand that is left out. What was made
 * before a failure is freed with the plan. */
static int set_parameters(const tvmrt_region_node* node, step* s) {
  const int32_t scalars = kernel_num_scalars(node);
  const size_t total = (size_t)kernel_num_tensors(node) + (size_t)scalars;
  kernel_scalar scalar;
  size_t i;
  int32_t k;
  s->tensors = calloc(total + 1, sizeof(*s->tensors));
  s->values = calloc(total + 1, sizeof(*s->values));
  s->parameters = calloc(total + 1, sizeof(*s->parameters));
  if (s->tensors == NULL || s->values == NULL || s->parameters == NULL) {
    return device_fail("out of memory");
  }
  for (k = 0; k < node->num_inputs; ++k) {
    if (node->inputs[k] >= 0) s->tensors[s->num_tensors++] = node->inputs[k];
  }
  for (k = 0; k < node->num_outputs; ++k) s->tensors[s->num_tensors++] = node->outputs[k];
  for (i = 0; i < total; ++i) s->parameters[i] = &s->values[i];
  for (k = 0; k < scalars; ++k) {
    if (kernel_read_scalar(node, k, &scalar) != 0) return -1;
    memcpy(&s->values[s->num_tensors + k], &scalar.value, scalar.bytes);
  }
  return 0;
}

/* 0 for what is no size: the kernel's node is then refused. Kernels of this device count in one
 * dimension. */
static int64_t only_size(const tvmrt_region_node* node, const char* key) {
  int32_t count = 0;
  const int64_t* sizes = tvmrt_node_ints(node, key, &count);
  return count == 1 && sizes[0] > 0 && sizes[0] <= INT32_MAX ? sizes[0] : 0;
}

/* The program is the context's and borrowed; kernels of it need no end of their own. */
static int create_kernel(cuda_plan* p, const tvmrt_region_node* node, step* s) {
  const char* source = tvmrt_node_text(node, "source", NULL);
  const char* function = tvmrt_node_text(node, "function", NULL);
  const program_text text = {tvmrt_node_text(node, "operator", node->op), source,
                             tvmrt_node_text(node, "build_options", "")};
  const int64_t items = only_size(node, "global_size"), group = only_size(node, "local_size");
  CUmodule program;
  if (source == NULL || function == NULL || items == 0 || group == 0) {
    return device_fail("source, function, global_size or local_size are missing");
  }
  if (items % group != 0)
    return device_fail("%s: global_size is no multiple of local_size", text.who);
  /* CUDA counts groups where OpenCL counts items */
  s->groups = (unsigned int)(items / group);
  s->group_size = (unsigned int)group;
  if (set_parameters(node, s) != 0) return -1;
  if (cuda_program(p->context, &text, &program) != 0) return -1;
  if (p->context->driver.cuModuleGetFunction(&s->kernel, program, function) == CUDA_SUCCESS)
    return 0;
  s->kernel = NULL;
  return device_fail("the CUDA source of %s has no kernel %s", text.who, function);
}

/* Counted before it is filled: what a step has is freed with the plan also where filling fails. */
static int enter_node(cuda_plan* p, int32_t number) {
  const tvmrt_region_node* node = &p->region->nodes[number];
  step* s = &p->steps[p->num_steps];
  p->region->failed_node = number;
  if (region_is_alias(node)) return 0;
  if (kernel_check_extents(p->region, node) != 0) return -1;
  s->node = number;
  p->num_steps++;
  if (strcmp(node->op, "custom_cuda") == 0) return create_kernel(p, node, s);
  if (strcmp(node->op, "custom_cuda_product") == 0) return cuda_product_create(p, node, s);
  return device_fail("operator %s was not made a kernel by the compiler", node->op);
}

/* The GPU's memory ---------------------------------------------------------------------------- */

/* A byte for nothing, as the driver refuses 0. */
static int allocate(cuda_plan* p, size_t bytes, CUdeviceptr* out) {
  const int status = p->context->driver.cuMemAlloc_v2(out, bytes == 0 ? 1 : bytes);
  if (status != CUDA_SUCCESS) *out = 0;
  return cuda_check(p->context, status, "cuMemAlloc");
}

/* The weights are copied once for all plans of a region: the driver keeps no pointer to the
 * library. Waited for, as the library's constants may leave memory behind pre_run. */
static int load_weights(cuda_plan* p, const cuda_plan* base) {
  const tvmrt_region* r = p->region;
  const cuda_driver* d = &p->context->driver;
  int32_t i;
  int rc = CUDA_SUCCESS;
  /* The base outlives the plans that came from it, see tvmrt_region. */
  if (base != NULL && base->weights_bytes == p->weights_bytes) {
    p->weights = base->weights;
    return 0;
  }
  if (allocate(p, p->weights_bytes, &p->weights) != 0) return -1;
  p->owns_weights = true;
  for (i = 0; i < r->num_tensors && rc == CUDA_SUCCESS; ++i) {
    if (r->tensors[i].data == NULL || bytes_of(p, i) == 0) continue;
    /* queued one after the other, and waited for once */
    rc = d->cuMemcpyHtoDAsync_v2(p->weights + p->weight_offsets[i], r->tensors[i].data,
                                 bytes_of(p, i), p->stream);
  }
  if (rc == CUDA_SUCCESS) rc = d->cuStreamSynchronize(p->stream);
  return cuda_check(p->context, rc, "copying weights");
}

/* The event tells the end of a run, and has no times: these would cost each run. */
static int create_queue(cuda_plan* p) {
  const cuda_driver* d = &p->context->driver;
  int rc = d->cuStreamCreate(&p->stream, CU_STREAM_NON_BLOCKING);
  if (rc != CUDA_SUCCESS) {
    p->stream = NULL;
    return cuda_check(p->context, rc, "cuStreamCreate");
  }
  rc = d->cuEventCreate(&p->done, CU_EVENT_DISABLE_TIMING);
  if (rc != CUDA_SUCCESS) p->done = NULL;
  return cuda_check(p->context, rc, "cuEventCreate");
}

/* The runtime is told by failed_node at which node it failed, and hands that to the user. */
static int build(cuda_plan* p, const cuda_plan* base) {
  const tvmrt_region* r = p->region;
  int32_t i;
  if (create_queue(p) != 0) return -1;
  if (region_plan_make(p->region, &p->plan) != 0) return -1;
  place_all(p);
  for (i = 0; i < r->num_nodes; ++i) {
    if (enter_node(p, i) != 0) return -1;
  }
  p->region->failed_node = -1;
  if (load_weights(p, base) != 0) return -1;
  return allocate(p, p->arena_bytes, &p->arena);
}

/* *out is NULL on failure, with nothing left behind. */
int cuda_plan_create(cuda_context* c, tvmrt_region* region, const cuda_plan* base,
                     cuda_plan** out) {
  cuda_plan* p = calloc(1, sizeof(*p));
  const size_t tensors = (size_t)region->num_tensors + 1, nodes = (size_t)region->num_nodes + 1;
  int rc = 0;
  *out = NULL;
  if (p == NULL) return device_fail("out of memory");
  p->context = c;
  p->region = region;
  p->weight_offsets = calloc(tensors, sizeof(*p->weight_offsets));
  p->buffer_offsets = calloc(tensors, sizeof(*p->buffer_offsets));
  p->staged = calloc(tensors, sizeof(*p->staged));
  p->bound = calloc(tensors, sizeof(*p->bound));
  p->steps = calloc(nodes, sizeof(*p->steps));
  if (p->weight_offsets == NULL || p->buffer_offsets == NULL || p->staged == NULL ||
      p->bound == NULL || p->steps == NULL) {
    rc = device_fail("out of memory");
  }
  if (rc == 0) rc = cuda_enter(c);
  if (rc == 0) {
    rc = build(p, base);
    cuda_leave(c);
  }
  if (rc == 0) {
    *out = p;
  } else {
    cuda_plan_free(p);
  }
  return rc;
}

/* Behind the stream's last work, and with the context entered. The order is that of use: nothing
 * may go that queued work still reads. */
static void free_objects(cuda_plan* p) {
  const cuda_driver* d = &p->context->driver;
  if (p->stream != NULL) (void)d->cuStreamSynchronize(p->stream);
  cuda_products_free(p);
  if (p->done != NULL) (void)d->cuEventDestroy_v2(p->done);
  if (p->stream != NULL) (void)d->cuStreamDestroy_v2(p->stream);
  if (p->owns_weights) (void)d->cuMemFree_v2(p->weights);
  if (p->arena != 0) (void)d->cuMemFree_v2(p->arena);
  if (p->staging != 0) (void)d->cuMemFree_v2(p->staging);
  if (p->pinned != NULL) (void)d->cuMemFreeHost(p->pinned);
}

/* NULL does nothing. Where the context cannot be entered, which the process's end may do, the
 * driver's objects stay. */
void cuda_plan_free(cuda_plan* p) {
  int32_t i;
  if (p == NULL) return;
  if (cuda_enter(p->context) == 0) {
    free_objects(p);
    cuda_leave(p->context);
  }
  for (i = 0; i < p->num_steps; ++i) {
    free(p->steps[i].tensors);
    free(p->steps[i].values);
    free(p->steps[i].parameters);
  }
  region_plan_free(&p->plan);
  free(p->weight_offsets);
  free(p->buffer_offsets);
  free(p->staged);
  free(p->bound);
  free(p->steps);
  free(p);
}
