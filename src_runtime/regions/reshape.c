/* Whether shapes that a region shall get belong together. */
#include <stdlib.h>
#include <string.h>

#include "../tensors/tensor.h"
#include "loaded_region.h"

/* One tensor with the shape that it would get. */
typedef struct sized {
  const int64_t* shape;
  int32_t ndim;
  bool changes;
} sized;

/* Extents and attributes above this are refused, so that sums of them do not overflow. */
enum { MAX_EXTENT = INT32_MAX };

/* Operators whose operands broadcast to the result, or that keep the shape of the only one. */
static const char pointwise[] =
    "add\0sub\0mul\0div\0floor_mod\0trunc_mod\0pow\0pow_whole\0min\0max\0equal\0less\0less_equal\0"
    "greater\0greater_equal\0logical_and\0logical_or\0logical_xor\0logical_not\0bit_and\0bit_or\0"
    "bit_xor\0bit_not\0shift_left\0shift_right\0where\0is_nan\0is_inf\0identity\0neg\0abs\0sign\0"
    "sqrt\0reciprocal\0exp\0log\0sin\0cos\0tan\0asin\0acos\0atan\0sinh\0cosh\0tanh\0asinh\0acosh\0"
    "atanh\0erf\0floor\0ceil\0round\0sigmoid\0softplus\0prelu\0relu\0cast\0bit_cast\0softmax\0";

static bool is_pointwise(const char* op) {
  const char* name = pointwise;
  while (*name != '\0' && strcmp(name, op) != 0) name = tvmrt__next_name(name);
  return *name != '\0';
}

static bool equal_extents(const int64_t* a, const int64_t* b, int32_t count) {
  return count <= 0 || memcmp(a, b, (size_t)count * sizeof(*a)) == 0;
}

/* Extent of axis `axis` of y, as a tensor of fewer dimensions has it; 1 where it has none. */
static int64_t extent_of(const sized* t, int32_t axis, const sized* y) {
  const int32_t at = axis - (y->ndim - t->ndim);
  return at < 0 ? 1 : t->shape[at];
}

static bool broadcasts_to(const sized* t, const sized* y) {
  int32_t i;
  if (t->ndim > y->ndim) return false;
  for (i = 0; i < y->ndim; ++i) {
    const int64_t n = extent_of(t, i, y);
    if (n != 1 && n != y->shape[i]) return false;
  }
  return true;
}

static const sized* input(const sized* all, const tvmrt_region_node* node, int32_t i) {
  return i < node->num_inputs && node->inputs[i] >= 0 ? &all[node->inputs[i]] : NULL;
}

/* Every operand broadcasts to the result, and the result has no extent that no operand has. */
static bool fits_pointwise(const sized* all, const tvmrt_region_node* node, const sized* y) {
  int32_t axis;
  int32_t i;
  for (i = 0; i < node->num_inputs; ++i) {
    if (input(all, node, i) != NULL && !broadcasts_to(input(all, node, i), y)) return false;
  }
  for (axis = 0; axis < y->ndim; ++axis) {
    bool found = y->shape[axis] == 1;
    for (i = 0; i < node->num_inputs; ++i) {
      const sized* x = input(all, node, i);
      found |= x != NULL && extent_of(x, axis, y) == y->shape[axis];
    }
    if (!found) return false;
  }
  return true;
}

/* a [..., M, K], b [..., K, N], bias that broadcasts to the result; batches broadcast. */
static bool fits_matmul(const sized* all, const tvmrt_region_node* node, const sized* y) {
  const sized* a = input(all, node, 0);
  const sized* b = input(all, node, 1);
  const sized* bias = input(all, node, 2);
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

/* One attribute of a window for each spatial axis; false if that is not what the node has. */
static bool window_attr(const tvmrt_region_node* node, const char* key, int32_t rank, int64_t least,
                        const int64_t** out) {
  int32_t count;
  int32_t i;
  *out = tvmrt_node_ints(node, key, &count);
  if (count != rank) return false;
  for (i = 0; i < count; ++i) {
    if ((*out)[i] < least || (*out)[i] > MAX_EXTENT) return false;
  }
  return true;
}

static bool fits_windows(const tvmrt_region_node* node, const sized* x, const int64_t* kernel,
                         const sized* y) {
  const int32_t rank = x->ndim - 2;
  const int64_t* strides;
  const int64_t* dilations;
  const int64_t* before;
  const int64_t* after;
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
    if (left < 0 || y->shape[2 + i] != left / strides[i] + 1) return false;
  }
  return true;
}

/* x [N, C, ...], w [OC, C / groups, ...], bias [OC], y [N, OC, ...]. */
static bool fits_conv(const sized* all, const tvmrt_region_node* node, const sized* y) {
  const sized* x = input(all, node, 0);
  const sized* w = input(all, node, 1);
  const sized* bias = input(all, node, 2);
  const int64_t groups = tvmrt_node_int(node, "groups", 1);
  if (x == NULL || w == NULL || x->ndim < 3 || w->ndim != x->ndim || y->ndim != x->ndim ||
      groups < 1 || w->shape[1] > MAX_EXTENT || groups > MAX_EXTENT) {
    return false;
  }
  if (x->shape[0] != y->shape[0] || x->shape[1] != w->shape[1] * groups ||
      y->shape[1] != w->shape[0] || w->shape[0] % groups != 0) {
    return false;
  }
  if (bias != NULL && (bias->ndim != 1 || bias->shape[0] != w->shape[0])) return false;
  return fits_windows(node, x, w->shape + 2, y);
}

static bool fits(const sized* all, const tvmrt_region_node* node) {
  const sized* y;
  if (node->num_outputs != 1) return false;
  y = &all[node->outputs[0]];
  if (is_pointwise(node->op)) return fits_pointwise(all, node, y);
  if (strcmp(node->op, "matmul") == 0) return fits_matmul(all, node, y);
  return strcmp(node->op, "conv") == 0 && fits_conv(all, node, y);
}

static bool is_touched(const sized* all, const tvmrt_region_node* node) {
  int32_t i;
  for (i = 0; i < node->num_inputs; ++i) {
    if (input(all, node, i) != NULL && input(all, node, i)->changes) return true;
  }
  for (i = 0; i < node->num_outputs; ++i) {
    if (all[node->outputs[i]].changes) return true;
  }
  return false;
}

static void fill(sized* all, const tvmrt_region* region, const tvmrt_region_shape* shapes,
                 int32_t num_shapes) {
  int32_t i;
  for (i = 0; i < region->num_tensors; ++i) {
    all[i].shape = region->tensors[i].shape;
    all[i].ndim = region->tensors[i].ndim;
  }
  for (i = 0; i < num_shapes; ++i) all[shapes[i].tensor].shape = shapes[i].shape;
  for (i = 0; i < region->num_tensors; ++i) {
    all[i].changes = !equal_extents(all[i].shape, region->tensors[i].shape, all[i].ndim);
  }
}

static int refuse(const tvmrt_region* region, const tvmrt_region_node* node) {
  return tvmrt__fail_value(
      "region '%.100s' cannot be reshaped: the shapes that node '%.80s' (%.40s) would get do not "
      "belong together, or it is not known whether they do; give the shapes of all tensors that "
      "change, or compile the network for the new ones.",
      region->symbol, node->name, node->op);
}

int tvmrt__check_reshape(const tvmrt_region* region, const tvmrt_region_shape* shapes,
                         int32_t num_shapes) {
  sized* all = tvmrt__calloc((size_t)region->num_tensors, sizeof(*all));
  int32_t i;
  int rc = 0;
  if (all == NULL) return -1;
  fill(all, region, shapes, num_shapes);
  for (i = 0; rc == 0 && i < region->num_nodes; ++i) {
    const tvmrt_region_node* node = &region->nodes[i];
    if (is_touched(all, node) && !fits(all, node)) rc = refuse(region, node);
  }
  free(all);
  return rc;
}
