/* Operands of a node of the region. Regions come from files: what does not fit together is refused, since
 * XNNPACK would compute what it finds. */
#ifndef TVMRT_DEVICES_XNNPACK_NODE_H_
#define TVMRT_DEVICES_XNNPACK_NODE_H_

#include "graph.h"

static inline const tvmrt_region_tensor* node_tensor(const graph* g, int32_t number) {
  return &g->region->tensors[number];
}

/* Number of an operand; -1 if it is left out. */
static inline int32_t node_input(const tvmrt_region_node* node, int32_t i) {
  return i < node->num_inputs ? node->inputs[i] : -1;
}

/* Weights, the operand 1 of a node, which must be constant. */
int node_weights(const graph* g, const tvmrt_region_node* node, const tvmrt_region_tensor** out);

/* `count` constants, or no value where they are left out. */
int node_row(graph* g, int32_t tensor, size_t count, uint32_t* out_id);

/* 0 if tensors have the same extents. */
int node_same(const graph* g, int32_t a, int32_t b);

#endif /* TVMRT_DEVICES_XNNPACK_NODE_H_ */
