/* The life of a region's graph: built of its nodes, bound to the tensors of a call, invoked.
 *
 * Made by pre_run and freed by release_graph; runs of one region are one after the other, as the
 * runtime has it, so a plan has no lock. A failure names the node through region->failed_node. */
#include "plan.h"

#include <stdlib.h>

#include "border.h"
#include "ops.h"
#include "quantized.h"

struct plan {
  graph g;
  xnn_runtime_t runtime;
  border* borders;
  struct xnn_external_value* externals; /* what setup is given: an element for each border */
  int32_t num_borders;
  bool moved; /* an address is another than XNNPACK was told */
};

/* A tensor is at the border once, as XNNPACK's values are an input or an output. The number of
 * the border is also XNNPACK's name for its memory. */
static int add_border(plan* p, int32_t tensor, bool is_output) {
  graph* g = &p->g;
  const tvmrt_region_tensor* t = &g->region->tensors[tensor];
  const uint32_t place = (uint32_t)p->num_borders;
  if (g->ids[tensor] != XNN_INVALID_VALUE_ID || t->is_constant) {
    return graph_fail("%s is at the border twice, or a constant", t->name);
  }
  GRAPH_TRY(
      graph_define(g, tensor, place,
                   is_output ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : XNN_VALUE_FLAG_EXTERNAL_INPUT));
  p->borders[place] = (border){.tensor = tensor, .is_output = is_output};
  p->externals[place].id = g->ids[tensor];
  ++p->num_borders;
  return 0;
}

/* Whether the nodes are XNNPACK's and have their operands, which all that follows relies on.
 * Operands beyond those of the table may be missing, and are looked at by who defines the node. */
static int check_node(const tvmrt_region_node* node) {
  const ops_operator* row = ops_find(node->op);
  int32_t i;
  if (row == NULL) return graph_fail("XNNPACK has no %s", node->op);
  if (node->num_outputs != 1 || node->outputs[0] < 0) return graph_fail("there is no result");
  for (i = 0; i < row->operands; ++i) {
    if (node_input(node, i) < 0) return graph_fail("operand %d is missing", (int)i);
  }
  return 0;
}

/* All nodes are checked before scales are looked for, as that reads their operands. -1: no node
 * is to blame. Borders before nodes, since a value is defined with its place or without one, and
 * once. */
static int define_nodes(plan* p, tvmrt_region* region) {
  graph* g = &p->g;
  int32_t i;
  for (i = 0; i < region->num_nodes; ++i) {
    region->failed_node = i;
    GRAPH_TRY(check_node(&region->nodes[i]));
  }
  region->failed_node = -1;
  GRAPH_TRY(quantized_assign(g));
  for (i = 0; i < region->num_inputs; ++i) GRAPH_TRY(add_border(p, region->inputs[i], false));
  for (i = 0; i < region->num_outputs; ++i) GRAPH_TRY(add_border(p, region->outputs[i], true));
  for (i = 0; i < region->num_nodes; ++i) {
    region->failed_node = i;
    GRAPH_TRY(ops_find(region->nodes[i].op)->define(g, &region->nodes[i]));
  }
  region->failed_node = -1;
  return 0;
}

/* On failure the plan is left for plan_free(), which takes one that is half made. Packing reads
 * all weights and takes the longest; it is done once a region and shape. */
static int build(plan* p, tvmrt_region* region, pthreadpool_t threads) {
  const size_t borders = (size_t)region->num_inputs + (size_t)region->num_outputs;
  p->borders = calloc(borders + 1, sizeof(*p->borders));
  p->externals = calloc(borders + 1, sizeof(*p->externals));
  if (p->borders == NULL || p->externals == NULL) return graph_fail("out of memory");
  GRAPH_TRY(graph_init(&p->g, region));
  GRAPH_TRY(define_nodes(p, region));
  GRAPH_TRY(
      graph_check(xnn_create_runtime_v2(p->g.subgraph, threads, 0, &p->runtime), "this region"));
  /* the weights are packed: what they were read from may go */
  graph_packed(&p->g);
  return 0;
}

/* *out_plan is set on success alone. Packs the weights, which may take as long as many runs. */
int plan_create(tvmrt_region* region, pthreadpool_t threads, plan** out_plan) {
  plan* p = calloc(1, sizeof(*p));
  if (p == NULL) return graph_fail("out of memory");
  if (build(p, region, threads) != 0) {
    plan_free(p);
    return -1;
  }
  *out_plan = p;
  return 0;
}

/* XNNPACK keeps the addresses, so it is told of them only where one has changed. A node that
 * fails in XNNPACK is not told apart: the run fails as a whole. */
int plan_run(plan* p, const tvmrt_region* region) {
  int32_t i;
  for (i = 0; i < p->num_borders; ++i) {
    border* b = &p->borders[i];
    GRAPH_TRY(border_bind(&region->tensors[b->tensor], region->data[b->tensor], b));
    if (p->externals[i].data != b->bound) p->moved = true;
    p->externals[i].data = b->bound;
  }
  if (p->moved) {
    GRAPH_TRY(graph_check(xnn_setup_runtime(p->runtime, (size_t)p->num_borders, p->externals),
                          "the call's tensors"));
    p->moved = false;
  }
  GRAPH_TRY(graph_check(xnn_invoke_runtime(p->runtime), "to run"));
  for (i = 0; i < p->num_borders; ++i) {
    const border* b = &p->borders[i];
    /* what was computed beside the caller's memory goes there now */
    if (b->is_output) border_give(&region->tensors[b->tensor], region->data[b->tensor], b);
  }
  return 0;
}

/* NULL does nothing; also one that is made half. The runtime before the constants that it reads. */
void plan_free(plan* p) {
  int32_t i;
  if (p == NULL) return;
  if (p->runtime != NULL) (void)xnn_delete_runtime(p->runtime);
  for (i = 0; i < p->num_borders; ++i) free(p->borders[i].staged);
  graph_free(&p->g);
  free(p->borders);
  free(p->externals);
  free(p);
}
