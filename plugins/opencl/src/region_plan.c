/* Assignment of buffers to intermediate tensors by their lifetimes: a buffer is free again after
 * the last node that reads its tensor. Nodes run in order, as the device's queue or stream
 * guarantees. Constants stay in the library, inputs and outputs in the caller's memory. */
#include "region_plan.h"

#include <stdint.h>
#include <stdlib.h>

#include "registration.h"

#define ALIGN_BYTES 256

/* State while a plan is made. */
typedef struct {
  tvmrt_region* region;
  region_plan* plan;
  int32_t* last; /* per tensor: the last node that reads it; INT32_MAX for outputs */
  int32_t* root; /* per tensor: the one whose memory it shares; -1 - output for an output's */
  int32_t* buffer_last; /* per buffer: the last node that reads its tensor */
} planner;

/* Operators that do not move elements. */
bool region_is_alias(const tvmrt_region_node* node) {
  return node->num_outputs == 1 &&
         (strcmp(node->op, "reshape") == 0 || strcmp(node->op, "identity") == 0);
}

/* Aligned for the drivers' requirements on offsets; never 0, also for empty tensors. */
size_t region_buffer_bytes(const tvmrt_region* region, int32_t tensor) {
  const size_t bytes = (size_t)region->tensors[tensor].num_bytes;
  return bytes == 0 ? ALIGN_BYTES : (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* The operand of an alias; -1 for other nodes. */
static int32_t aliased_operand(const tvmrt_region_node* node) {
  return region_is_alias(node) && node->num_inputs > 0 ? node->inputs[0] : -1;
}

/* A tensor is live until the last node that reads it under any of its names, including reshapes. */
static void find_last_readers(planner* p) {
  const tvmrt_region* r = p->region;
  int32_t i, k;
  for (i = 0; i < r->num_tensors; ++i) p->last[i] = -1;
  for (i = 0; i < r->num_nodes; ++i) {
    for (k = 0; k < r->nodes[i].num_inputs; ++k) {
      if (r->nodes[i].inputs[k] >= 0) p->last[r->nodes[i].inputs[k]] = i;
    }
  }
  /* outputs are read by the caller, after all nodes */
  for (i = 0; i < r->num_outputs; ++i) p->last[r->outputs[i]] = INT32_MAX;
  /* backwards, so that readers propagate through chains of reshapes */
  for (i = r->num_nodes - 1; i >= 0; --i) {
    const int32_t of = aliased_operand(&r->nodes[i]);
    if (of < 0) continue;
    if (p->last[r->nodes[i].outputs[0]] > p->last[of]) {
      p->last[of] = p->last[r->nodes[i].outputs[0]];
    }
  }
}

/* Each output is computed in the caller's memory, unless it is an alias of an input, a constant or
 * another output. The first output of a root gets it; others are copied at the end. */
static void claim_outputs(planner* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_tensors; ++i) p->root[i] = i;
  for (i = 0; i < r->num_nodes; ++i) {
    const int32_t of = aliased_operand(&r->nodes[i]);
    if (of >= 0) p->root[r->nodes[i].outputs[0]] = p->root[of];
  }
  for (i = 0; i < r->num_outputs; ++i) {
    const int32_t root = p->root[r->outputs[i]];
    if (root >= 0 && p->root[root] >= 0) p->root[root] = -1 - r->outputs[i];
  }
}

/* An alias gets its operand's place from locate_alias() instead. */
static void set_location(planner* p, int32_t tensor, int kind, int32_t number) {
  tensor_location* at = &p->plan->locations[tensor];
  at->kind = kind;
  at->number = number;
}

/* An input that also has a constant value is read from the caller. */
static void locate_constants_and_inputs(planner* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  for (i = 0; i < r->num_tensors; ++i) {
    if (r->tensors[i].data != NULL) set_location(p, i, LOCATION_CONSTANT, i);
  }
  for (i = 0; i < r->num_inputs; ++i)
    set_location(p, r->inputs[i], LOCATION_BOUNDARY, r->inputs[i]);
}

/* Use the smallest sufficient free buffer, else a new one, so that larger ones stay free for larger
 * results. There are never more buffers than tensors. */
static void locate_result(planner* p, int32_t tensor, int32_t node) {
  const size_t bytes = region_buffer_bytes(p->region, tensor);
  region_plan* plan = p->plan;
  int32_t best = -1, i;
  if (p->root[tensor] < 0) {
    set_location(p, tensor, LOCATION_BOUNDARY, -1 - p->root[tensor]);
    return;
  }
  for (i = 0; i < plan->num_buffers; ++i) {
    /* also one that is read by this node: a result must not overwrite its operand */
    if (p->buffer_last[i] >= node || plan->buffer_bytes[i] < bytes) continue;
    if (best < 0 || plan->buffer_bytes[i] < plan->buffer_bytes[best]) best = i;
  }
  if (best < 0) {
    best = plan->num_buffers++;
    plan->buffer_bytes[best] = bytes;
  }
  /* an unused result needs its buffer while its node runs */
  p->buffer_last[best] = p->last[tensor] > node ? p->last[tensor] : node;
  set_location(p, tensor, LOCATION_BUFFER, best);
}

/* Both names share one place, so a reshape costs nothing at run time. */
static int locate_alias(planner* p, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* tensors = p->region->tensors;
  const int32_t to = node->outputs[0];
  if (node->num_inputs != 1 || node->inputs[0] < 0) {
    return device_fail("a reshape has no operand");
  }
  if (tensors[node->inputs[0]].num_bytes != tensors[to].num_bytes) {
    return device_fail("reshape %s: operand and result differ in size", node->name);
  }
  p->plan->locations[to] = p->plan->locations[node->inputs[0]];
  return 0;
}

/* An operand without a place has not been computed by an earlier node. */
static int locate_node(planner* p, int32_t number) {
  const tvmrt_region_node* node = &p->region->nodes[number];
  int32_t k;
  p->region->failed_node = number;
  for (k = 0; k < node->num_inputs; ++k) {
    if (node->inputs[k] >= 0 && p->plan->locations[node->inputs[k]].kind == LOCATION_NONE) {
      return device_fail("an operand is read before it is computed");
    }
  }
  if (region_is_alias(node)) return locate_alias(p, node);
  for (k = 0; k < node->num_outputs; ++k) locate_result(p, node->outputs[k], number);
  return 0;
}

/* On failure failed_node is the invalid node, or -1. */
static int locate_all(planner* p) {
  const tvmrt_region* r = p->region;
  int32_t i;
  find_last_readers(p);
  claim_outputs(p);
  locate_constants_and_inputs(p);
  for (i = 0; i < r->num_nodes; ++i) {
    if (locate_node(p, i) != 0) return -1;
  }
  p->region->failed_node = -1;
  for (i = 0; i < r->num_outputs; ++i) {
    if (p->plan->locations[r->outputs[i]].kind == LOCATION_NONE) {
      return device_fail("an output is not computed");
    }
  }
  return 0;
}

/* Arrays have one element more than there are tensors, so they are never empty. */
int region_plan_make(tvmrt_region* region, region_plan* out) {
  const size_t tensors = (size_t)region->num_tensors + 1;
  planner p = {.region = region, .plan = out};
  int rc;
  memset(out, 0, sizeof(*out));
  out->locations = calloc(tensors, sizeof(*out->locations));
  out->buffer_bytes = calloc(tensors, sizeof(*out->buffer_bytes));
  p.last = calloc(tensors, sizeof(*p.last));
  p.root = calloc(tensors, sizeof(*p.root));
  p.buffer_last = calloc(tensors, sizeof(*p.buffer_last));
  if (out->locations == NULL || out->buffer_bytes == NULL || p.last == NULL || p.root == NULL ||
      p.buffer_last == NULL) {
    rc = device_fail("out of memory");
  } else {
    rc = locate_all(&p);
  }
  free(p.last);
  free(p.root);
  free(p.buffer_last);
  return rc;
}

/* A plan that was never made is zeroed, and free() accepts NULL. */
void region_plan_free(region_plan* plan) {
  free(plan->locations);
  free(plan->buffer_bytes);
  memset(plan, 0, sizeof(*plan));
}

/* Common numbering of inputs and outputs, for loops over both. */
int32_t region_boundary_tensor(const tvmrt_region* region, int32_t number) {
  return number < region->num_inputs ? region->inputs[number]
                                     : region->outputs[number - region->num_inputs];
}

/* Memory of the tensor that is bound for this run; valid until it ends. */
char* region_memory(const tvmrt_region* region, int32_t tensor) {
  const DLTensor* t = region->data[tensor];
  return (char*)t->data + t->byte_offset;
}

/* Compares addresses, since callers may bind partly overlapping tensors. */
bool region_is_shared(const tvmrt_region* region, int32_t output) {
  const uintptr_t begin = (uintptr_t)region_memory(region, output);
  const uintptr_t end = begin + (uintptr_t)region->tensors[output].num_bytes;
  const DLDeviceType type = region->data[output]->device.device_type;
  int32_t i;
  for (i = 0; i < region->num_inputs + region->num_outputs; ++i) {
    const int32_t other = region_boundary_tensor(region, i);
    const uintptr_t its = (uintptr_t)region_memory(region, other);
    if (other == output || region->data[other]->device.device_type != type) continue;
    if (begin < its + (uintptr_t)region->tensors[other].num_bytes && its < end) return true;
  }
  return false;
}
