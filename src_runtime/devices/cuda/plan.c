/*
 * A region as kernels, products and places in the GPU's memory. Its nodes are kernels ("custom_cuda",
 * whose attributes hold source and sizes), products ("custom_cuda_product"), and reshapes, which only give a
 * place another name: the compiler's half makes them out of the network's operators.
 */
#include "plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_BYTES 256

static size_t aligned(size_t bytes) {
  return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static size_t bytes_of(const cuda_plan* p, int32_t tensor) {
  return (size_t)p->region->tensors[tensor].num_bytes;
}

static bool is_alias(const tvmrt_region_node* node) {
  return node->num_outputs == 1 &&
         (strcmp(node->op, "reshape") == 0 || strcmp(node->op, "identity") == 0);
}

/* The tensor that an alias names again; -1: the node is none. */
static int32_t aliased(const tvmrt_region_node* node) {
  return is_alias(node) && node->num_inputs > 0 ? node->inputs[0] : -1;
}

/* Places ---------------------------------------------------------------------------------------- */

static void place_weights(cuda_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_tensors; ++i) {
    if (r->tensors[i].data == NULL) continue;
    p->places[i].kind = WEIGHT;
    p->places[i].offset = p->weights_bytes;
    p->weights_bytes += aligned(bytes_of(p, i));
  }
}

static void stage(cuda_plan* p, int32_t tensor) {
  p->staged[tensor] = p->staging_bytes;
  p->staging_bytes += aligned(bytes_of(p, tensor));
}

/* Each output is computed where its caller wants it, unless it is an input, a weight or another output
 * under a second name. */
static void place_borders(cuda_plan* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_inputs; ++i) {
    stage(p, r->inputs[i]);
    p->places[r->inputs[i]].kind = BORDER;
    p->places[r->inputs[i]].border = r->inputs[i];
  }
  for (i = 0; i < r->num_tensors; ++i) p->root[i] = i;
  for (i = 0; i < r->num_nodes; ++i) {
    const int32_t of = aliased(&r->nodes[i]);
    if (of >= 0) p->root[r->nodes[i].outputs[0]] = p->root[of];
  }
  for (i = 0; i < r->num_outputs; ++i) {
    const int32_t root = p->root[r->outputs[i]];
    stage(p, r->outputs[i]);
    if (root >= 0 && p->root[root] >= 0) p->root[root] = -1 - r->outputs[i];
  }
}

/* The last reader of each tensor, through the reshapes that share its place. */
static void find_last_readers(cuda_plan* p) {
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
    const int32_t of = aliased(&r->nodes[i]);
    if (of < 0) continue;
    if (p->last[r->nodes[i].outputs[0]] > p->last[of])
      p->last[of] = p->last[r->nodes[i].outputs[0]];
  }
}

/* A part of the arena, and the node that reads last what lies there. */
typedef struct {
  size_t offset, bytes;
  int32_t last;
} slot;

/* The smallest slot that is free and large enough; else a new one at the arena's end. */
static void place_result(cuda_plan* p, int32_t tensor, int32_t node, slot* slots, int32_t* count) {
  const size_t bytes = aligned(bytes_of(p, tensor));
  place* at = &p->places[tensor];
  slot* best = NULL;
  int32_t i;
  if (p->root[tensor] < 0) {
    at->kind = BORDER;
    at->border = -1 - p->root[tensor];
    return;
  }
  for (i = 0; i < *count; ++i) {
    if (slots[i].last >= node || slots[i].bytes < bytes) continue;
    if (best == NULL || slots[i].bytes < best->bytes) best = &slots[i];
  }
  if (best == NULL) {
    best = &slots[(*count)++];
    best->offset = p->arena_bytes;
    best->bytes = bytes;
    p->arena_bytes += bytes;
  }
  best->last = p->last[tensor] > node ? p->last[tensor] : node;
  at->kind = ARENA;
  at->offset = best->offset;
}

static int place_results(cuda_plan* p) {
  const tvmrt_region* r = p->region;
  slot* slots = calloc((size_t)r->num_tensors + 1, sizeof(*slots));
  int32_t count = 0, i, k;
  if (slots == NULL) return cuda_fail("out of memory");
  for (i = 0; i < r->num_nodes; ++i) {
    const int32_t of = aliased(&r->nodes[i]);
    for (k = 0; k < r->nodes[i].num_outputs && of < 0; ++k) {
      place_result(p, r->nodes[i].outputs[k], i, slots, &count);
    }
    if (of >= 0) p->places[r->nodes[i].outputs[0]] = p->places[of];
  }
  free(slots);
  return 0;
}

/* Kernels --------------------------------------------------------------------------------------- */

static int set_scalar(const tvmrt_region_node* node, const char* type, size_t length, double given,
                      value* out) {
  if (length == 5 && memcmp(type, "float", 5) == 0) {
    out->float_value = (float)given;
  } else if (length == 3 && memcmp(type, "int", 3) == 0 && given >= INT32_MIN &&
             given <= INT32_MAX) {
    out->int_value = (int32_t)given;
  } else if (length == 4 && memcmp(type, "uint", 4) == 0 && given >= 0 && given <= UINT32_MAX) {
    out->uint_value = (uint32_t)given;
  } else {
    return cuda_fail("scalar %g of kernel %s is none of type %.*s", given,
                     tvmrt_node_text(node, "function", ""), (int)length, type);
  }
  return 0;
}

static int set_scalars(const tvmrt_region_node* node, value* out) {
  const char* at = tvmrt_node_text(node, "scalar_types", "");
  const tvmrt_attr* given = tvmrt_node_attr(node, "scalars");
  int32_t i;
  for (i = 0; *at != '\0'; ++i) {
    const size_t length = strcspn(at, " ");
    if (given == NULL || i >= given->count || given->kind == TVMRT_ATTR_TEXT) {
      return cuda_fail("there are fewer scalars than scalar types");
    }
    if (set_scalar(node, at, length,
                   given->kind == TVMRT_ATTR_INTS ? (double)given->ints[i] : given->floats[i],
                   &out[i]) != 0) {
      return -1;
    }
    at += length;
    at += strspn(at, " ");
  }
  return 0;
}

/* The kernel's tensors, then its scalars. */
static int set_parameters(const tvmrt_region_node* node, step* s) {
  const char* at = tvmrt_node_text(node, "scalar_types", "");
  size_t total, i;
  int32_t k;
  for (total = 0; *at != '\0'; at += strcspn(at, " "), at += strspn(at, " ")) ++total;
  total += (size_t)node->num_inputs + (size_t)node->num_outputs;
  s->tensors = calloc(total + 1, sizeof(*s->tensors));
  s->values = calloc(total + 1, sizeof(*s->values));
  s->parameters = calloc(total + 1, sizeof(*s->parameters));
  if (s->tensors == NULL || s->values == NULL || s->parameters == NULL) {
    return cuda_fail("out of memory");
  }
  for (k = 0; k < node->num_inputs; ++k) {
    if (node->inputs[k] >= 0) s->tensors[s->num_tensors++] = node->inputs[k];
  }
  for (k = 0; k < node->num_outputs; ++k) s->tensors[s->num_tensors++] = node->outputs[k];
  for (i = 0; i < total; ++i) s->parameters[i] = &s->values[i];
  return set_scalars(node, &s->values[s->num_tensors]);
}

static int64_t only_size(const tvmrt_region_node* node, const char* key) {
  int32_t count = 0;
  const int64_t* sizes = tvmrt_node_ints(node, key, &count);
  return count == 1 && sizes[0] > 0 && sizes[0] <= INT32_MAX ? sizes[0] : 0;
}

static int create_kernel(cuda_plan* p, const tvmrt_region_node* node, step* s) {
  const char* source = tvmrt_node_text(node, "source", NULL);
  const char* function = tvmrt_node_text(node, "function", NULL);
  const char* who = tvmrt_node_text(node, "operator", node->op);
  const int64_t items = only_size(node, "global_size"), group = only_size(node, "local_size");
  CUmodule program;
  if (source == NULL || function == NULL || items == 0 || group == 0) {
    return cuda_fail("source, function, global_size or local_size are missing");
  }
  if (items % group != 0) return cuda_fail("%s: global_size is no multiple of local_size", who);
  s->groups = (unsigned int)(items / group);
  s->group_size = (unsigned int)group;
  if (set_parameters(node, s) != 0) return -1;
  if (cuda_program(p->context, who, source, tvmrt_node_text(node, "build_options", ""), &program) !=
      0) {
    return -1;
  }
  if (p->context->driver.cuModuleGetFunction(&s->kernel, program, function) == CUDA_SUCCESS)
    return 0;
  s->kernel = NULL;
  return cuda_fail("the CUDA source of %s has no kernel %s", who, function);
}

/* Kernels are made for the extents that the compiler knew: the k-th word of "types" has them. */
static int check_extents(const cuda_plan* p, const tvmrt_region_node* node, int32_t k) {
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
  return cuda_fail("kernel %s was made for other extents than tensor %s has; compile again",
                   tvmrt_node_text(node, "function", node->op), t->name);
}

static int check_alias(const cuda_plan* p, const tvmrt_region_node* node) {
  if (node->num_inputs != 1 || node->inputs[0] < 0) return cuda_fail("a reshape has no operand");
  if (bytes_of(p, node->inputs[0]) == bytes_of(p, node->outputs[0])) return 0;
  return cuda_fail("reshape %s has an operand of another size than its result", node->name);
}

static int enter_node(cuda_plan* p, int32_t number) {
  const tvmrt_region_node* node = &p->region->nodes[number];
  step* s = &p->steps[p->num_steps];
  int32_t k;
  p->region->failed_node = number;
  for (k = 0; k < node->num_inputs; ++k) {
    if (node->inputs[k] >= 0 && p->places[node->inputs[k]].kind == NOWHERE) {
      return cuda_fail("an operand is read before it is computed");
    }
  }
  if (is_alias(node)) return check_alias(p, node);
  for (k = 0; k < node->num_outputs; ++k) {
    if (check_extents(p, node, k) != 0) return -1;
  }
  s->node = number;
  p->num_steps++;
  if (strcmp(node->op, "custom_cuda") == 0) return create_kernel(p, node, s);
  if (strcmp(node->op, "custom_cuda_product") == 0) return cuda_product_create(p, node, s);
  return cuda_fail("operator %s was not made a kernel by the compiler", node->op);
}

/* The GPU's memory ------------------------------------------------------------------------------ */

static int allocate(cuda_plan* p, size_t bytes, CUdeviceptr* out) {
  const int status = p->context->driver.cuMemAlloc_v2(out, bytes == 0 ? 1 : bytes);
  if (status != CUDA_SUCCESS) *out = 0;
  return cuda_check(p->context, status, "cuMemAlloc");
}

/* The weights are copied once for all plans of a region: the driver keeps no pointer to the library. */
static int load_weights(cuda_plan* p, const cuda_plan* base) {
  const tvmrt_region* r = p->region;
  const cuda_driver* d = &p->context->driver;
  int32_t i;
  int rc = CUDA_SUCCESS;
  if (base != NULL && base->weights_bytes == p->weights_bytes) {
    p->weights = base->weights;
    return 0;
  }
  if (allocate(p, p->weights_bytes, &p->weights) != 0) return -1;
  p->owns_weights = true;
  for (i = 0; i < r->num_tensors && rc == CUDA_SUCCESS; ++i) {
    if (r->tensors[i].data == NULL || bytes_of(p, i) == 0) continue;
    rc = d->cuMemcpyHtoDAsync_v2(p->weights + p->places[i].offset, r->tensors[i].data,
                                 bytes_of(p, i), p->stream);
  }
  if (rc == CUDA_SUCCESS) rc = d->cuStreamSynchronize(p->stream);
  return cuda_check(p->context, rc, "copying weights");
}

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

static int build(cuda_plan* p, const cuda_plan* base) {
  const tvmrt_region* r = p->region;
  int32_t i;
  if (create_queue(p) != 0) return -1;
  place_weights(p);
  find_last_readers(p);
  place_borders(p);
  if (place_results(p) != 0) return -1;
  for (i = 0; i < r->num_nodes; ++i) {
    if (enter_node(p, i) != 0) return -1;
  }
  p->region->failed_node = -1;
  for (i = 0; i < r->num_outputs; ++i) {
    if (p->places[r->outputs[i]].kind == NOWHERE) return cuda_fail("an output is not computed");
  }
  if (load_weights(p, base) != 0) return -1;
  return allocate(p, p->arena_bytes, &p->arena);
}

int cuda_plan_create(cuda_context* c, tvmrt_region* region, const cuda_plan* base,
                     cuda_plan** out) {
  cuda_plan* p = calloc(1, sizeof(*p));
  const size_t tensors = (size_t)region->num_tensors + 1, nodes = (size_t)region->num_nodes + 1;
  int rc = 0;
  *out = NULL;
  if (p == NULL) return cuda_fail("out of memory");
  p->context = c;
  p->region = region;
  p->places = calloc(tensors, sizeof(*p->places));
  p->last = calloc(tensors, sizeof(*p->last));
  p->root = calloc(tensors, sizeof(*p->root));
  p->staged = calloc(tensors, sizeof(*p->staged));
  p->bound = calloc(tensors, sizeof(*p->bound));
  p->steps = calloc(nodes, sizeof(*p->steps));
  if (p->places == NULL || p->last == NULL || p->root == NULL || p->staged == NULL ||
      p->bound == NULL || p->steps == NULL) {
    rc = cuda_fail("out of memory");
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
  free(p->places);
  free(p->last);
  free(p->root);
  free(p->staged);
  free(p->bound);
  free(p->steps);
  free(p);
}
