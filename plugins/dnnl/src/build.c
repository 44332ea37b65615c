/* Grouping of nodes, and building the groups in order.
 *
 * Two passes: first, nodes are grouped by their data flow, independently of oneDNN; then the groups
 * are built in order. If oneDNN does not support a group, or only with a slow implementation, posts
 * are removed from its end until it does. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

/* Look-up ------------------------------------------------------------------------------------- */

/* Borrowed; indices were checked when the region was read. */
const tvmrt_region_tensor* build_tensor(const plan* p, int32_t tensor) {
  return &p->region->tensors[tensor];
}

/* Optional inputs may be missing at the end or be omitted in between. */
int32_t build_input(const tvmrt_region_node* node, int which) {
  return which < node->num_inputs ? node->inputs[which] : -1;
}

/* With the region's extents, since oneDNN may have computed on flattened ones. */
int build_set(plan* p, int32_t tensor, const view* v) {
  const tvmrt_region_tensor* t = build_tensor(p, tensor);
  return layout_reshape(p, v, t->ndim, t->shape, &p->views[tensor]);
}

/* Groups -------------------------------------------------------------------------------------- */

/* The group that begins with a node. */
typedef struct {
  post_op post_ops[BUILD_MAX_POST_OPS];
  int num_post_ops;
  int32_t end; /* its last node; -1: the node belongs to another group */
} group;

typedef struct {
  plan* p;
  const tvmrt_region* r;
  int32_t* readers; /* per tensor: number of reading nodes and region outputs */
  int32_t* reader;  /* per tensor: the last node that reads it */
  int32_t* owner;   /* per node: the first node of its group */
  group* groups;    /* per node */
} sorting;

/* An output counts as a reader, so that nothing is fused across it. */
static void count_readers(sorting* s) {
  const tvmrt_region* r = s->r;
  int32_t i, k;
  for (i = 0; i < r->num_nodes; ++i) {
    for (k = 0; k < r->nodes[i].num_inputs; ++k) {
      int32_t t = r->nodes[i].inputs[k];
      if (t < 0) continue;
      s->readers[t]++;
      s->reader[t] = i;
    }
  }
  for (i = 0; i < r->num_outputs; ++i) s->readers[r->outputs[i]]++;
}

/* Add following nodes to the group while the intermediate value has no other reader, since it is
 * not stored then. If two layers are added, the add belongs to the first one. */
static void extend(sorting* s, int32_t number) {
  group* g = &s->groups[number];
  int32_t flow = s->r->nodes[number].outputs[0];
  while (s->readers[flow] == 1) {
    const int32_t next = s->reader[flow];
    if (next < 0 || s->owner[next] >= 0) return;
    if (!post_op_read(s->p, next, flow, g->post_ops, &g->num_post_ops)) return;
    s->owner[next] = number;
    g->end = next;
    flow = s->r->nodes[next].outputs[0];
  }
}

/* In the region's order. A pointwise node outside all groups forms its own group. */
static int sort_nodes(sorting* s) {
  int32_t i;
  count_readers(s);
  for (i = 0; i < s->r->num_nodes; ++i) {
    const tvmrt_region_node* node = &s->r->nodes[i];
    s->p->node = i;
    if (node->num_outputs != 1 || build_input(node, 0) < 0) {
      return plan_fail(s->p, "the node has the wrong number of inputs or outputs");
    }
    if (s->owner[i] < 0) {
      s->owner[i] = s->groups[i].end = i;
      if (weighted_op_takes_post_ops(weighted_op_find(node->op))) extend(s, i);
    }
  }
  return 0;
}

/* Building ------------------------------------------------------------------------------------ */

/* The operand with the result's extents is the main one: oneDNN broadcasts the other one. */
static int build_pointwise(plan* p, int32_t number) {
  const tvmrt_region_node* node = &p->region->nodes[number];
  post_op single;
  int i, count = 0;
  for (i = 0; i < node->num_inputs; ++i) {
    if (node->inputs[i] < 0 || !post_op_read(p, number, node->inputs[i], &single, &count)) continue;
    return post_op_build_separate(p, node->inputs[i], &single, 1);
  }
  return plan_fail(p, "oneDNN does not support operator %s with these operands", node->op);
}

/* Build a layer with as many posts as oneDNN supports well, and the remaining posts as separate
 * primitives. Each attempt starts again; conversions of a failed attempt stay in the plan. */
static int build_group(plan* p, int32_t number, const group* g) {
  const tvmrt_region_node* node = &p->region->nodes[number];
  const weighted_op* kind = weighted_op_find(node->op);
  int32_t flow = node->outputs[0];
  int count = g->num_post_ops, rc;
  p->node = number;
  if (kind == NULL) return build_pointwise(p, number);
  do {
    rc = weighted_op_build(p, kind, node, g->post_ops, count);
  } while (rc == PLAN_UNSUITABLE && count-- > 0);
  if (rc != 0) return -1;
  if (count > 0) flow = g->post_ops[count - 1].result;
  return post_op_build_separate(p, flow, &g->post_ops[count], g->num_post_ops - count);
}

/* A group is built at its last node, when all its operands exist. */
static int build_groups(const sorting* s) {
  int32_t i;
  for (i = 0; i < s->r->num_nodes; ++i) {
    const int32_t first = s->owner[i];
    if (s->groups[first].end == i && build_group(s->p, first, &s->groups[first]) != 0) return -1;
  }
  return 0;
}

/* One allocation for all index lists. */
int build_nodes(plan* p) {
  const size_t tensors = (size_t)p->region->num_tensors, nodes = (size_t)p->region->num_nodes;
  int32_t* numbers = calloc(2 * tensors + nodes + 1, sizeof(int32_t));
  group* groups = calloc(nodes + 1, sizeof(group));
  sorting s = {.p = p, .r = p->region, .groups = groups};
  int rc;
  if (numbers == NULL || groups == NULL) {
    rc = plan_fail(p, "out of memory");
  } else {
    s.readers = numbers;
    s.reader = s.readers + tensors;
    s.owner = s.reader + tensors;
    memset(s.reader, -1, (tensors + nodes) * sizeof(int32_t));
    rc = sort_nodes(&s);
    if (rc == 0) rc = build_groups(&s);
  }
  free(numbers);
  free(groups);
  return rc == 0 ? 0 : -1;
}
