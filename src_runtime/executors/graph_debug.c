/* Inspecting a graph executor: single nodes, their outputs, their times.
 *
 * For debuggers and profilers: single operators are called on this thread, bypassing any scheduler.
 * All functions are methods with exclusive access to the executor. Afterwards the memory is in the
 * state of a run that ended there. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../platform/system.h"
#include "graph.h"
#include "graph_view.h"
#include "profile.h"

/* Argument 0, a node: its number, or its name. */
static int read_node(const tvmrt_graph_executor* g, const tvmrt_args* in, size_t* out) {
  const char* name;
  int64_t index;
  size_t i;
  if (in->codes[0] == kTVMArgInt) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 0, &index));
    if (index < 0 || (uint64_t)index >= g->graph.num_nodes) {
      return tvmrt__fail("IndexError: %s: the graph has %zu node%s, there is no node %" PRId64 ".",
                         in->callee, g->graph.num_nodes, g->graph.num_nodes == 1 ? "" : "s", index);
    }
    *out = (size_t)index;
    return 0;
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, 0, &name));
  for (i = 0; i < g->graph.num_nodes; ++i) {
    if (strcmp(g->graph.nodes[i].name, name) == 0) {
      *out = i;
      return 0;
    }
  }
  return tvmrt__fail_value("%s: the graph has no node '%.60s'.", in->callee, name);
}

/* Run one operator, bypassing any scheduler. An earlier error text is cleared: otherwise a failure
 * without a text would show it. */
static int run_op(tvmrt_graph_executor* g, size_t op) {
  tvmrt__forget_error();
  TVMRT_RETURN_IF_ERROR(tvmrt__executor_renew_outputs(&g->base));
  return tvmrt__graph_run_op(g, op);
}

/* Run the operators of the nodes up to and including `node`: memory is shared, so its inputs may
 * have been overwritten since the last run. */
static int run_until(tvmrt_graph_executor* g, size_t node) {
  size_t i;
  /* operators have the order of their nodes, so the first one after it ends the loop */
  for (i = 0; i < g->num_ops && g->ops[i].node <= node; ++i) {
    TVMRT_RETURN_IF_ERROR(run_op(g, i));
  }
  return 0;
}

/* (node) runs a single node. */
TVMRT_GRAPH_METHOD(execute_node, "execute_node") {
  size_t node;
  size_t i;
  (void)out, (void)out_code;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(read_node(g, in, &node));
  for (i = 0; i < g->num_ops; ++i) {
    if (g->ops[i].node == node) return run_op(g, i);
  }
  return 0; /* inputs and reshapes do nothing */
}

/* (node [, output]) -> NDArray, a copy, since the next operator may reuse the memory. */
TVMRT_GRAPH_METHOD(get_node_output, "get_node_output") {
  int64_t output = 0;
  size_t node;
  const DLTensor* entry;
  tvmrt_graph_view view;
  tvmrt_tensor* copy;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 2));
  TVMRT_RETURN_IF_ERROR(read_node(g, in, &node));
  if (in->count == 2) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 1, &output));
  if (output < 0 || (uint64_t)output >= g->graph.nodes[node].num_outputs) {
    const size_t count = g->graph.nodes[node].num_outputs;
    return tvmrt__fail("IndexError: node '%.60s' has %zu output%s, there is no output %" PRId64 ".",
                       g->graph.nodes[node].name, count, count == 1 ? "" : "s", output);
  }
  entry = &g->entries[g->graph.nodes[node].first_entry + (size_t)output];
  view.tensor = *entry;
  /* The attribute describes only the first output; others are returned as declared. */
  if (output == 0) TVMRT_RETURN_IF_ERROR(tvmrt__graph_view(&g->graph.nodes[node], entry, &view));
  copy = tvmrt__tensor_copied(&view.tensor, view.tensor.device);
  return tvmrt__ret_object(out, out_code, copy == NULL ? NULL : &copy->base);
}

/* (node, tensor) runs up to the node and copies its first output. The tensor has the type of the
 * node's output, or of the graph's entry, which may be raw bytes. */
TVMRT_GRAPH_METHOD(debug_get_output, "debug_get_output") {
  const DLTensor* entry;
  DLTensor* to;
  size_t node;
  tvmrt_graph_view view;
  (void)out, (void)out_code;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 2, 2));
  TVMRT_RETURN_IF_ERROR(read_node(g, in, &node));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, 1, &to));
  TVMRT_RETURN_IF_ERROR(run_until(g, node));
  if (g->graph.nodes[node].num_outputs == 0) return 0;
  entry = &g->entries[g->graph.nodes[node].first_entry];
  view.tensor = *entry;
  /* A tensor with the type of the entry takes its bytes unchanged. */
  if (!tvmrt__same_shape(to, entry) || !tvmrt__same_dtype(to->dtype, entry->dtype)) {
    TVMRT_RETURN_IF_ERROR(tvmrt__graph_view(&g->graph.nodes[node], entry, &view));
  }
  return TVMArrayCopyFromTo(&view.tensor, to, NULL);
}

typedef struct timing {
  int64_t number;     /* consecutive calls between two reads of the clock */
  int64_t repeat;     /* results per operator */
  double min_seconds; /* minimum total of all calls of a result */
} timing;

/* TVM's cooldown and limits may follow and are ignored. */
static int read_timing(const tvmrt_args* in, int first, timing* t) {
  int64_t min_ms = 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, first, &t->number));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, first + 1, &t->repeat));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, first + 2, &min_ms));
  t->min_seconds = (double)min_ms / 1000.0;
  if (t->number >= 1 && t->repeat >= 1) return 0;
  return tvmrt__fail_value("%s: number and repeat must be at least 1.", in->callee);
}

/* Mean seconds of one operator, `repeat` times. */
static int time_op(tvmrt_graph_executor* g, size_t op, const timing* t, tvmrt_buf* results) {
  int64_t r;
  for (r = 0; r < t->repeat; ++r) {
    double start = tvmrt__seconds();
    double elapsed;
    double mean;
    int64_t calls = 0;
    /* Fast operators are repeated up to the minimum time, to hide the clock's resolution. */
    do {
      int64_t i;
      for (i = 0; i < t->number; ++i) TVMRT_RETURN_IF_ERROR(run_op(g, op));
      calls += t->number;
      elapsed = tvmrt__seconds() - start;
    } while (elapsed < t->min_seconds);
    mean = elapsed / (double)calls;
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(results, &mean, sizeof(mean)));
  }
  return 0;
}

/* Nodes without an operator take no time, but have entries: readers rely on the count. */
static int add_zeros(const timing* t, tvmrt_buf* results) {
  double zero = 0;
  int64_t r;
  for (r = 0; r < t->repeat; ++r) {
    TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(results, &zero, sizeof(zero)));
  }
  return 0;
}

/* All times of a node: its operator's, or zeros. */
static int time_node(tvmrt_graph_executor* g, size_t node, const timing* t, tvmrt_buf* results) {
  size_t i;
  for (i = 0; i < g->num_ops; ++i) {
    if (g->ops[i].node == node) return time_op(g, i, t, results);
  }
  return add_zeros(t, results);
}

/* The number of nodes, then `repeat` seconds of each, in the order of the graph. */
static int time_nodes(tvmrt_graph_executor* g, const timing* t, tvmrt_buf* results) {
  int64_t count = (int64_t)g->graph.num_nodes;
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__graph_run(&g->base)); /* so that every node has valid inputs */
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_append(results, &count, sizeof(count)));
  for (i = 0; i < g->graph.num_nodes; ++i) TVMRT_RETURN_IF_ERROR(time_node(g, i, t, results));
  return 0;
}

/* (number, repeat, min_repeat_ms, ...) -> bytes: i64 nodes, then `repeat` doubles each. */
TVMRT_GRAPH_METHOD(run_individual, "run_individual") {
  tvmrt_buf results = {NULL, 0, 0};
  timing t;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 3, 6));
  TVMRT_RETURN_IF_ERROR(read_timing(in, 0, &t));
  return tvmrt__ret_buf(time_nodes(g, &t, &results), kTVMBytes, &results, out, out_code);
}

/* (node, number, repeat, min_repeat_ms, ...) -> bytes: `repeat` doubles. */
TVMRT_GRAPH_METHOD(run_individual_node, "run_individual_node") {
  tvmrt_buf results = {NULL, 0, 0};
  timing t;
  size_t node;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 4, 7));
  TVMRT_RETURN_IF_ERROR(read_node(g, in, &node));
  TVMRT_RETURN_IF_ERROR(read_timing(in, 1, &t));
  return tvmrt__ret_buf(time_node(g, node, &t, &results), kTVMBytes, &results, out, out_code);
}

/* Each time lasts from the previous operator's end to this one's, so that they add up to the
 * total. */
static int time_ops(tvmrt_graph_executor* g, tvmrt_op_time* times, double* total) {
  double start = tvmrt__seconds();
  double before = start;
  size_t i;
  for (i = 0; i < g->num_ops; ++i) {
    double now;
    TVMRT_RETURN_IF_ERROR(run_op(g, i));
    now = tvmrt__seconds();
    times[i].name = g->graph.nodes[g->ops[i].node].func_name;
    times[i].count = 1;
    times[i].seconds = now - before;
    before = now;
  }
  *total = before - start;
  return 0;
}

static int profile_ops(tvmrt_graph_executor* g, tvmrt_op_time* times, tvmrt_buf* text) {
  tvmrt_run_events events;
  double total;
  int rc;
  TVMRT_RETURN_IF_ERROR(
      tvmrt__graph_run(&g->base)); /* the first run loads code and touches memory */
  tvmrt__events_begin(&events);
  rc = time_ops(g, times, &total);
  tvmrt__events_end();
  if (rc == 0) rc = tvmrt__profile_json(times, g->num_ops, total, "Graph", &events, text);
  tvmrt__buf_free(&events.rows);
  return rc;
}

/* The caller frees the text, also on failure. */
int tvmrt__graph_profile(tvmrt_executor* e, tvmrt_buf* text) {
  tvmrt_graph_executor* g = (tvmrt_graph_executor*)e;
  tvmrt_op_time* times = tvmrt__calloc(g->num_ops, sizeof(*times));
  const int rc = times == NULL ? -1 : profile_ops(g, times, text);
  free(times);
  return rc;
}

#define FUNCTIONS(X)                      \
  X("execute_node", execute_node)         \
  X("get_node_output", get_node_output)   \
  X("debug_get_output", debug_get_output) \
  X("run_individual", run_individual)     \
  X("run_individual_node", run_individual_node)
const tvmrt_builtins tvmrt__graph_debug_functions = TVMRT_BUILTINS(FUNCTIONS);
