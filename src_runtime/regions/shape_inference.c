/* Shape inference and shape checks for regions that are reshaped.
 *
 * Regions are compiled for fixed shapes; devices are prepared again when a user requests others.
 * The shape rules of some operators are implemented here; a region with other operators whose
 * tensors would change is refused. Nothing is changed before all nodes have been checked. */
#include <stdlib.h>
#include <string.h>

#include "../tensors/tensor.h"
#include "loaded_region.h"
#include "pointwise_operators.h"

/* One tensor with its new shape. */
typedef struct inferred_shape {
  const int64_t* shape;
  int32_t ndim; /* different from the current shape */
  bool changes;
  bool has_runtime_operand; /* by the user, so it is not inferred */
  int64_t* buffer;          /* buffer for an inferred shape */
} inferred_shape;

/* Larger extents and attributes are refused, so that sums do not overflow. */
enum { MAX_EXTENT = INT32_MAX };

static bool is_pointwise(const char* op) {
  const char* name = pointwise_operators;
  while (*name != '\0' && strcmp(name, op) != 0) name = tvmrt__next_name(name);
  return *name != '\0';
}

/* Empty lists are equal, and may be NULL. */
static bool equal_extents(const int64_t* a, const int64_t* b, int32_t count) {
  return count <= 0 || memcmp(a, b, (size_t)count * sizeof(*a)) == 0;
}

/* Extent of axis `axis` of y in a tensor of lower rank; 1 if it lacks the axis. */
static int64_t extent_of(const inferred_shape* t, int32_t axis, const inferred_shape* y) {
  const int32_t at = axis - (y->ndim - t->ndim);
  return at < 0 ? 1 : t->shape[at];
}

/* As in ONNX: from the last axis on, 1 or equal. */
static bool broadcasts_to(const inferred_shape* t, const inferred_shape* y) {
  int32_t i;
  if (t->ndim > y->ndim) return false;
  for (i = 0; i < y->ndim; ++i) {
    const int64_t n = extent_of(t, i, y);
    if (n != 1 && n != y->shape[i]) return false;
  }
  return true;
}

/* NULL for an omitted input. */
static const inferred_shape* input(const inferred_shape* all, const tvmrt_region_node* node,
                                   int32_t i) {
  return i < node->num_inputs && node->inputs[i] >= 0 ? &all[node->inputs[i]] : NULL;
}

/* Every operand broadcasts to the result, and each extent of the result occurs in an operand. */
static bool fits_pointwise(const inferred_shape* all, const tvmrt_region_node* node,
                           const inferred_shape* y) {
  int32_t axis;
  int32_t i;
  for (i = 0; i < node->num_inputs; ++i) {
    if (input(all, node, i) != NULL && !broadcasts_to(input(all, node, i), y)) return false;
  }
  for (axis = 0; axis < y->ndim; ++axis) {
    bool found = y->shape[axis] == 1;
    for (i = 0; i < node->num_inputs; ++i) {
      const inferred_shape* x = input(all, node, i);
      found |= x != NULL && extent_of(x, axis, y) == y->shape[axis];
    }
    if (!found) return false;
  }
  return true;
}

/* a [..., M, K], b [..., K, N], bias that broadcasts to the result; batches broadcast. */
static bool fits_matmul(const inferred_shape* all, const tvmrt_region_node* node,
                        const inferred_shape* y) {
  const inferred_shape* a = input(all, node, 0);
  const inferred_shape* b = input(all, node, 1);
  const inferred_shape* bias = input(all, node, 2);
  int32_t i;
  if (a == NULL || b == NULL || a->ndim < 2 || b->ndim < 2 || y->ndim < 2) return false;
  if (a->ndim > y->ndim || b->ndim > y->ndim) return false;
  if (a->shape[a->ndim - 1] != b->shape[b->ndim - 2] ||
      a->shape[a->ndim - 2] != y->shape[y->ndim - 2] ||
      b->shape[b->ndim - 1] != y->shape[y->ndim - 1]) {
    return false;
  }
  for (i = 0; i < y->ndim - 2; ++i) {
    const int64_t m = extent_of(a, i, y);
    const int64_t n = extent_of(b, i, y);
    if ((m != 1 && m != y->shape[i]) || (n != 1 && n != y->shape[i])) return false;
    if (m != y->shape[i] && n != y->shape[i]) return false;
  }
  return bias == NULL || broadcasts_to(bias, y);
}

/* A window attribute with one value per spatial axis; false if it is missing or invalid. */
static bool window_attr(const tvmrt_region_node* node, const char* key, int32_t rank,
                        int64_t minimum, const int64_t** out) {
  int32_t count;
  int32_t i;
  *out = tvmrt_node_ints(node, key, &count);
  if (count != rank) return false;
  for (i = 0; i < count; ++i) {
    if ((*out)[i] < minimum || (*out)[i] > MAX_EXTENT) return false;
  }
  return true;
}

/* One more than the number of strides that fit into the padded input; false if the attributes are
 * invalid or the window does not fit. All terms stay below 2^63, as each factor is at most
 * INT32_MAX. */
static bool window_extents(const tvmrt_region_node* node, const inferred_shape* x,
                           const int64_t* kernel, int64_t* out) {
  const int32_t rank = x->ndim - 2;
  const int64_t *strides, *dilations, *before, *after;
  int32_t i;
  if (!window_attr(node, "strides", rank, 1, &strides) ||
      !window_attr(node, "dilations", rank, 1, &dilations) ||
      !window_attr(node, "pads_before", rank, 0, &before) ||
      !window_attr(node, "pads_after", rank, 0, &after)) {
    return false;
  }
  for (i = 0; i < rank; ++i) {
    const int64_t n = x->shape[2 + i];
    int64_t left;
    if (n > MAX_EXTENT || kernel[i] < 1 || kernel[i] > MAX_EXTENT) return false;
    left = n + before[i] + after[i] - dilations[i] * (kernel[i] - 1) - 1;
    if (left < 0) return false;
    out[i] = left / strides[i] + 1;
  }
  return true;
}

/* x [N, C, ...], w [OC, C / groups, ...], bias [OC], y [N, OC, ...]. */
static bool fits_conv(const inferred_shape* all, const tvmrt_region_node* node,
                      const inferred_shape* y) {
  const inferred_shape* x = input(all, node, 0);
  const inferred_shape* w = input(all, node, 1);
  const inferred_shape* bias = input(all, node, 2);
  int64_t extents[TVMRT_MAX_NDIM];
  const int64_t groups = tvmrt_node_int(node, "groups", 1);
  /* both factors of the channels are bounded, so that their product does not overflow */
  if (x == NULL || w == NULL || x->ndim < 3 || w->ndim != x->ndim || y->ndim != x->ndim ||
      groups < 1 || w->shape[1] > MAX_EXTENT || groups > MAX_EXTENT) {
    return false;
  }
  if (x->shape[0] != y->shape[0] || x->shape[1] != w->shape[1] * groups ||
      y->shape[1] != w->shape[0] || w->shape[0] % groups != 0) {
    return false;
  }
  if (bias != NULL && (bias->ndim != 1 || bias->shape[0] != w->shape[0])) return false;
  return window_extents(node, x, w->shape + 2, extents) &&
         equal_extents(extents, y->shape + 2, y->ndim - 2);
}

/* Extent of an axis after broadcasting: the first that is not 1. fits_pointwise() checks that the
 * others agree. */
static int64_t broadcast_extent(const inferred_shape* all, const tvmrt_region_node* node,
                                int32_t axis, const inferred_shape* y) {
  int64_t extent = 1;
  int32_t i;
  for (i = 0; i < node->num_inputs; ++i) {
    const inferred_shape* x = input(all, node, i);
    if (x != NULL && extent == 1) extent = extent_of(x, axis, y);
  }
  return extent;
}

/* Ignores invalid operands: fits_matmul() refuses them. */
static void infer_matmul(const inferred_shape* all, const tvmrt_region_node* node,
                         const inferred_shape* y) {
  const inferred_shape* a = input(all, node, 0);
  const inferred_shape* b = input(all, node, 1);
  int32_t i;
  if (a == NULL || b == NULL || a->ndim < 2 || b->ndim < 2 || y->ndim < 2) return;
  for (i = 0; i < y->ndim - 2; ++i) {
    y->buffer[i] = extent_of(a, i, y) != 1 ? extent_of(a, i, y) : extent_of(b, i, y);
  }
  y->buffer[y->ndim - 2] = a->shape[a->ndim - 2];
  y->buffer[y->ndim - 1] = b->shape[b->ndim - 1];
}

/* Ignores invalid operands: fits_conv() refuses them. */
static void infer_conv(const inferred_shape* all, const tvmrt_region_node* node,
                       const inferred_shape* y) {
  const inferred_shape* x = input(all, node, 0);
  const inferred_shape* w = input(all, node, 1);
  if (x == NULL || w == NULL || x->ndim < 3 || w->ndim != x->ndim || y->ndim != x->ndim) return;
  if (!window_extents(node, x, w->shape + 2, y->buffer + 2)) return;
  y->buffer[0] = x->shape[0];
  y->buffer[1] = w->shape[0];
}

/* Infer the only possible shape of the result; fits() checks it. */
static void infer(inferred_shape* all, const tvmrt_region_node* node) {
  inferred_shape* y = &all[node->outputs[0]];
  int32_t axis;
  if (node->num_outputs != 1 || y->has_runtime_operand) return;
  /* without a rule the shape is kept, and refused by fits() if it is wrong */
  memcpy(y->buffer, y->shape, (size_t)y->ndim * sizeof(*y->buffer));
  if (is_pointwise(node->op)) {
    for (axis = 0; axis < y->ndim; ++axis) y->buffer[axis] = broadcast_extent(all, node, axis, y);
  } else if (strcmp(node->op, "matmul") == 0) {
    infer_matmul(all, node, y);
  } else if (strcmp(node->op, "conv") == 0) {
    infer_conv(all, node, y);
  }
  y->changes = !equal_extents(y->buffer, y->shape, y->ndim);
  y->shape = y->buffer;
}

/* Whether the shapes of one node are consistent; false for operators without a known rule. */
static bool fits(const inferred_shape* all, const tvmrt_region_node* node) {
  const inferred_shape* y;
  if (node->num_outputs != 1) return false;
  y = &all[node->outputs[0]];
  if (is_pointwise(node->op)) return fits_pointwise(all, node, y);
  if (strcmp(node->op, "matmul") == 0) return fits_matmul(all, node, y);
  return strcmp(node->op, "conv") == 0 && fits_conv(all, node, y);
}

/* A node whose tensors are all unchanged needs no rule. */
static bool is_touched(const inferred_shape* all, const tvmrt_region_node* node) {
  int32_t i;
  for (i = 0; i < node->num_inputs; ++i) {
    if (input(all, node, i) != NULL && input(all, node, i)->changes) return true;
  }
  for (i = 0; i < node->num_outputs; ++i) {
    if (all[node->outputs[i]].changes) return true;
  }
  return false;
}

/* Each tensor with its current or its given shape. */
static void fill(inferred_shape* all, int64_t* buffer, const tvmrt_region* region,
                 const tvmrt_region_shape* shapes, int32_t num_shapes) {
  int32_t i;
  for (i = 0; i < region->num_tensors; ++i) {
    all[i].shape = region->tensors[i].shape;
    all[i].ndim = region->tensors[i].ndim;
    all[i].buffer = buffer + (size_t)i * TVMRT_MAX_NDIM;
  }
  for (i = 0; i < num_shapes; ++i) {
    all[shapes[i].tensor].shape = shapes[i].shape;
    all[shapes[i].tensor].has_runtime_operand = true;
  }
  for (i = 0; i < region->num_tensors; ++i) {
    all[i].changes = !equal_extents(all[i].shape, region->tensors[i].shape, all[i].ndim);
  }
}

/* Always -1. */
static int refuse(const tvmrt_region* region, const tvmrt_region_node* node) {
  return tvmrt__fail_value(
      "region '%.100s' cannot be reshaped: the shapes of node '%.80s' (%.40s) are inconsistent or "
      "unknown; use matching input shapes, or compile the network for the new ones.",
      region->symbol, node->name, node->op);
}

/* In node order: results that were not given are inferred from the operands. */
static int infer_all(inferred_shape* all, const tvmrt_region* region) {
  uint64_t bytes;
  int32_t i;
  for (i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* node = &region->nodes[i];
    const inferred_shape* y = node->num_outputs == 0 ? NULL : &all[node->outputs[0]];
    if (y == NULL || !is_touched(all, node)) continue;
    infer(all, node);
    if (!fits(all, node)) return refuse(region, node);
    /* sizes that overflow are refused before anything is set */
    TVMRT_RETURN_IF_ERROR(
        tvmrt__shape_bytes(y->shape, y->ndim, region->tensors[node->outputs[0]].dtype, &bytes));
  }
  return 0;
}

/* Also unchanged given ones: dynamic dimensions become fixed by this. */
static void set_shapes(const inferred_shape* all, const tvmrt_region* region) {
  int32_t i;
  for (i = 0; i < region->num_tensors; ++i) {
    if (all[i].changes || all[i].has_runtime_operand)
      tvmrt__set_shape(&region->tensors[i], all[i].shape);
  }
}

/* Each tensor has a buffer for the maximum rank, so that inference does not allocate. */
int tvmrt__infer_shapes(const tvmrt_region* region, const tvmrt_region_shape* shapes,
                        int32_t num_shapes, bool set) {
  const size_t count = (size_t)region->num_tensors;
  inferred_shape* all = tvmrt__calloc(count, sizeof(*all));
  int64_t* buffer = tvmrt__calloc(count, TVMRT_MAX_NDIM * sizeof(*buffer));
  int rc = all == NULL || buffer == NULL ? -1 : 0;
  if (rc == 0) {
    fill(all, buffer, region, shapes, num_shapes);
    rc = infer_all(all, region);
  }
  if (rc == 0 && set) set_shapes(all, region);
  free(all);
  free(buffer);
  return rc;
}

/* Regions with dynamic sizes need no copy: they begin with the maximum of each. */
int tvmrt__save_shapes(tvmrt_loaded_region* self) {
  const tvmrt_region* region = &self->first.region;
  const size_t count = (size_t)region->num_tensors;
  int32_t i;
  if (self->shapes != NULL) return 0;
  self->shapes = tvmrt__calloc(count, TVMRT_MAX_NDIM * sizeof(*self->shapes));
  if (self->shapes == NULL) return -1;
  for (i = 0; i < region->num_tensors; ++i) {
    const tvmrt_region_tensor* t = &region->tensors[i];
    const size_t bytes = (size_t)t->ndim * sizeof(*t->shape);
    if (bytes != 0) memcpy(self->shapes + (size_t)i * TVMRT_MAX_NDIM, t->shape, bytes);
  }
  return 0;
}

/* If memory to evaluate the sizes is exhausted, `release` sees those of the last run. */
void tvmrt__restore_shapes(const tvmrt_loaded_region* self) {
  const tvmrt_region* region = &self->first.region;
  int32_t i;
  for (i = 0; i < self->sizes.count; ++i) self->sizes.current[i] = self->sizes.bounds[2 * i + 1];
  if (self->sizes.count != 0) (void)tvmrt__sizes_apply(&self->sizes, self->sizes.current, region);
  for (i = 0; self->shapes != NULL && i < region->num_tensors; ++i) {
    tvmrt__set_shape(&region->tensors[i], self->shapes + (size_t)i * TVMRT_MAX_NDIM);
  }
}
