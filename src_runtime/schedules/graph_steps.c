/* Steps of a graph executor and their dependencies.
 *
 * Schedulers get the operators of a graph as steps, each with a device and the steps that must end
 * before it. The compiler states both in attributes of a node: "device", and "after", a list of
 * nodes ("[2, 5]"). A node without "after" waits for the step before it. A step depends only on
 * earlier ones, so there are no cycles. */
#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "schedule.h"

/* Temporary data for making the steps. */
typedef struct draft {
  const tvmrt_graph_executor* g;
  tvmrt_step* step; /* the current one */
  size_t node;      /* of the step */
  int32_t* step_of; /* per node; -1: none */
  tvmrt_buf after;  /* int32_t: the lists of all steps so far */
} draft;

static int add_dependency(draft* d, int32_t step) {
  ++d->step->num_after;
  return tvmrt__buf_append(&d->after, &step, sizeof(step));
}

/* One number of the list "after". */
static int read_dependency(tvmrt_parser* in, void* into) {
  draft* d = into;
  int64_t number;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(in, &number));
  if (number >= 0 && (uint64_t)number < d->node && d->step_of[number] >= 0) {
    return add_dependency(d, d->step_of[number]);
  }
  return tvmrt__fail_value("node '%.60s' depends on node %lld, which is not an operator before it.",
                           d->step->name, (long long)number);
}

/* `i`: the number of the step. */
static int fill_step(draft* d, size_t i) {
  const tvmrt_graph_node* n = &d->g->graph.nodes[d->node];
  tvmrt_parser in;
  d->step->name = n->name;
  d->step->device = n->device == NULL ? "cpu" : n->device;
  if (n->after == NULL) return i == 0 ? 0 : add_dependency(d, (int32_t)i - 1);
  tvmrt__parse_init(&in, "the attribute 'after' of a node", n->after, strlen(n->after));
  return tvmrt__parse_items(&in, read_dependency, d);
}

/* The lists lie in one array, each after that of the previous step: their addresses are known when
 * all have been read. */
static int fill_steps(draft* d, tvmrt_step* steps) {
  const int32_t* after;
  size_t i;
  for (i = 0; i < d->g->graph.num_nodes; ++i) d->step_of[i] = -1;
  for (i = 0; i < d->g->num_ops; ++i) {
    d->node = d->g->ops[i].node;
    d->step_of[d->node] = (int32_t)i;
    d->step = &steps[i];
    TVMRT_RETURN_IF_ERROR(fill_step(d, i));
  }
  after = (const void*)d->after.data;
  for (i = 0; i < d->g->num_ops && after != NULL; ++i) {
    steps[i].after = after;
    after += steps[i].num_after;
  }
  return 0;
}

int tvmrt__graph_steps(const tvmrt_graph_executor* g, tvmrt_step** steps, int32_t** after) {
  draft d = {.g = g};
  int rc = -1;
  if (g->num_ops > INT32_MAX) return tvmrt__fail_memory(g->num_ops);
  *steps = tvmrt__calloc(g->num_ops, sizeof(**steps));
  d.step_of = tvmrt__calloc(g->graph.num_nodes, sizeof(*d.step_of));
  if (*steps != NULL && d.step_of != NULL) rc = fill_steps(&d, *steps);
  free(d.step_of);
  *after = (int32_t*)(void*)d.after.data;
  return rc;
}

/* One node suffices: the compiler states dependencies for all nodes of a network or for none. */
bool tvmrt__graph_has_order(const tvmrt_graph_executor* g) {
  size_t i = 0;
  while (i < g->num_ops && g->graph.nodes[g->ops[i].node].after == NULL) ++i;
  return i < g->num_ops;
}
