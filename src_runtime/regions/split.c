/* The default split of a graph: supported nodes are grouped into regions that can run as a whole.
 *
 * For a -> b -> c with supported a and c, no group contains both: it would have to run before b and
 * after it. For a -> b and a -> c with all supported, all are one group. The device may still
 * refuse a group as a whole; the caller checks that. */
#include <stdlib.h>

#include "../tensors/tensor.h"
#include "registry.h"

/* Nodes are joined to groups; a group is represented by one of its nodes. Groups stay convex: no
 * other node or group may have to run both after one part of a group and before another. */
typedef struct split {
  const tvmrt_region* graph;
  int32_t* producer; /* per tensor: the node that computes it, -1 */
  int32_t* group;    /* per node: the representative of its group, itself if it is alone */
  int32_t* next;     /* per node: circular list of its group's nodes */
  int32_t* stack;    /* of groups to visit; finally the groups' numbers */
  uint8_t* visited;  /* per representative */
  uint8_t* wanted;   /* per node: its operator and types are described */
} split;

/* NULL is an empty list. */
static bool is_listed(const char* const* list, const char* text) {
  for (; list != NULL && *list != NULL; ++list) {
    if (strcmp(*list, text) == 0) return true;
  }
  return false;
}

/* Only float32 if the device lists no types. */
static bool has_type(const tvmrt_device_description* desc, const tvmrt_region_tensor* t) {
  static const char* const by_default[] = {"float32", NULL};
  char text[TVMRT_DTYPE_TEXT_BYTES];
  tvmrt__dtype_to_text(t->dtype, text);
  return is_listed(desc->dtypes == NULL ? by_default : desc->dtypes, text);
}

/* By names of operators and types; the device may still refuse the group as a whole. */
static bool can_run(const tvmrt_device_description* desc, const tvmrt_region* graph,
                    const tvmrt_region_node* node) {
  int32_t i;
  if (!is_listed(desc->ops, node->op)) return false;
  for (i = 0; i < node->num_inputs; ++i) {
    if (node->inputs[i] >= 0 && !has_type(desc, &graph->tensors[node->inputs[i]])) return false;
  }
  for (i = 0; i < node->num_outputs; ++i) {
    if (!has_type(desc, &graph->tensors[node->outputs[i]])) return false;
  }
  return true;
}

/* The stack has one element per group, and each is pushed once. */
static void push(split* s, int32_t* depth, int32_t group) {
  if (s->visited[group]) return;
  s->visited[group] = 1;
  s->stack[(*depth)++] = group;
}

/* Push the groups that a group reads from. */
static void push_sources(split* s, int32_t* depth, int32_t group, int32_t except) {
  int32_t node = group;
  do {
    const tvmrt_region_node* n = &s->graph->nodes[node];
    int32_t i;
    for (i = 0; i < n->num_inputs; ++i) {
      int32_t from = n->inputs[i] < 0 ? -1 : s->producer[n->inputs[i]];
      if (from < 0 || s->group[from] == group || s->group[from] == except) continue;
      push(s, depth, s->group[from]);
    }
    node = s->next[node];
  } while (node != group);
}

/* Whether `late` depends, through a third group, on `early`. The joined group would have to run
 * both before the third and after it. Each check visits all groups in between, which is quadratic
 * in the worst case; graphs have hundreds of nodes. */
static bool has_indirect_path(split* s, int32_t early, int32_t late) {
  int32_t depth = 0;
  memset(s->visited, 0, (size_t)s->graph->num_nodes);
  push_sources(s, &depth, late, early);
  while (depth > 0) {
    int32_t group = s->stack[--depth];
    if (group == early) return true;
    push_sources(s, &depth, group, -1);
  }
  return false;
}

/* Join two circular lists; all nodes of the second get the first one's representative. A circular
 * list needs no array of ends, and its traversal costs the size of the group. */
static void join(split* s, int32_t into, int32_t group) {
  int32_t node = group;
  int32_t next = s->next[into];
  do {
    s->group[node] = into;
    node = s->next[node];
  } while (node != group);
  s->next[into] = s->next[group];
  s->next[group] = next;
}

/* Checked in both directions, since either group may have nodes after the other. */
static void join_sources(split* s, int32_t node) {
  const tvmrt_region_node* n = &s->graph->nodes[node];
  int32_t i;
  for (i = 0; i < n->num_inputs; ++i) {
    int32_t from = n->inputs[i] < 0 ? -1 : s->producer[n->inputs[i]];
    int32_t mine = s->group[node]; /* changes with each join */
    int32_t theirs;
    /* nodes for the CPU are in no group */
    if (from < 0 || !s->wanted[from]) continue;
    theirs = s->group[from];
    if (theirs == mine || has_indirect_path(s, theirs, mine) || has_indirect_path(s, mine, theirs))
      continue;
    join(s, theirs, mine);
  }
}

/* On failure the caller frees it. */
static int make_split(split* s, const tvmrt_region* graph) {
  const size_t nodes = (size_t)graph->num_nodes;
  int32_t i;
  int32_t k;
  s->graph = graph;
  s->producer = tvmrt__calloc((size_t)graph->num_tensors, sizeof(*s->producer));
  s->group = tvmrt__calloc(nodes, sizeof(*s->group));
  s->next = tvmrt__calloc(nodes, sizeof(*s->next));
  s->stack = tvmrt__calloc(nodes, sizeof(*s->stack));
  s->visited = tvmrt__calloc(nodes, 1);
  s->wanted = tvmrt__calloc(nodes, 1);
  if (s->producer == NULL || s->group == NULL || s->next == NULL || s->stack == NULL ||
      s->visited == NULL || s->wanted == NULL) {
    return -1;
  }
  for (i = 0; i < graph->num_tensors; ++i) s->producer[i] = -1;
  for (i = 0; i < graph->num_nodes; ++i) {
    s->group[i] = i;
    s->next[i] = i;
    for (k = 0; k < graph->nodes[i].num_outputs; ++k) s->producer[graph->nodes[i].outputs[k]] = i;
  }
  return 0;
}

/* Numbers from 0 up, in the order of the groups' first nodes. */
static void number_groups(split* s, int32_t* out_groups) {
  int32_t count = 0;
  int32_t i;
  /* the walk is over: the stack now contains the groups' numbers */
  for (i = 0; i < s->graph->num_nodes; ++i) s->stack[i] = -1;
  for (i = 0; i < s->graph->num_nodes; ++i) {
    int32_t* number = &s->stack[s->group[i]];
    if (s->wanted[i] && *number < 0) *number = count++;
    out_groups[i] = s->wanted[i] ? *number : -1;
  }
}

/* `out_groups` has an element per node: its group's number, or -1 for the CPU. */
int tvmrt__split_graph_by_describe(tvmrt_device* device, const tvmrt_region* graph,
                                   int32_t* out_groups) {
  split s = {0};
  tvmrt_device_description desc;
  int32_t i;
  int rc = tvmrt__device_describe(device, &desc);
  if (rc == 0) rc = make_split(&s, graph);
  /* In the graph's order, so that producers have their groups before consumers join them. */
  for (i = 0; rc == 0 && i < graph->num_nodes; ++i) {
    s.wanted[i] = can_run(&desc, graph, &graph->nodes[i]);
    if (s.wanted[i]) join_sources(&s, i);
  }
  if (rc == 0) number_groups(&s, out_groups);
  free(s.producer);
  free(s.group);
  free(s.next);
  free(s.stack);
  free(s.visited);
  free(s.wanted);
  return rc;
}
