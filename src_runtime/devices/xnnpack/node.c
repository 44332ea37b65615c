/* Operands of a node.
 *
 * Networks come from outside: an operand is looked at here before it is given to XNNPACK, which
 * would check it late or with assertions. */
#include "node.h"

#include <string.h>

/* No row gives *out_id XNN_INVALID_VALUE_ID, which XNNPACK takes for an operand that is left out.
 * An error where it is no constant of `count` numbers. */
int node_row(graph* g, int32_t tensor, size_t count, uint32_t* out_id) {
  const tvmrt_region_tensor* row = tensor < 0 ? NULL : node_tensor(g, tensor);
  const int64_t stride = 1;
  *out_id = XNN_INVALID_VALUE_ID;
  if (row == NULL) return 0;
  if (!row->is_constant || (size_t)tvmrt_region_size(g->region, tensor) != count) {
    return graph_fail("%s is no row of %zu constants", row->name, count);
  }
  return graph_source_value(g, row, 1, &count, &stride, out_id);
}

/* By extents alone: types are XNNPACK's to refuse. */
int node_same(const graph* g, int32_t a, int32_t b) {
  const tvmrt_region_tensor *x = node_tensor(g, a), *y = node_tensor(g, b);
  const size_t bytes = (size_t)x->ndim * sizeof(*x->shape);
  if (x->ndim == y->ndim && (bytes == 0 || memcmp(x->shape, y->shape, bytes) == 0)) return 0;
  return graph_fail("%s and %s have different extents", x->name, y->name);
}

/* XNNPACK packs weights when the runtime is made. */
int node_weights(const graph* g, const tvmrt_region_node* node, const tvmrt_region_tensor** out) {
  const int32_t number = node_input(node, 1);
  if (number < 0 || !node_tensor(g, number)->is_constant) {
    return graph_fail("the weights are computed at run time");
  }
  *out = node_tensor(g, number);
  return 0;
}
