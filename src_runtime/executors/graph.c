/* The graph executor: running an instance.
 *
 * A graph has entries, one for each output of a node. Entries that share memory because a node only
 * reshapes form a circular list (`alias`), so that binding a tensor moves all of them. A run calls
 * the operators in the order of the nodes, or as the scheduler of regions decides. The caller of
 * all functions here has taken the executor, which runs once at a time. */
#include "graph.h"

#include <string.h>

#include "schedules.h"

/* Arguments are addresses of entries, which are stable: binding a tensor changes the entries' data
 * pointers. */
static void set_entry_data(tvmrt_graph_executor* g, size_t entry, const DLTensor* bound) {
  void* data = tvmrt__tensor_data(bound);
  size_t i = entry;
  size_t k;
  do {
    g->entries[i].data = data;
    g->entries[i].device = bound->device;
    /* Flattened views are separate from entries, so each view of this entry is updated with it. */
    for (k = 0; k < g->num_flats; ++k) {
      if (g->flats[k].entry != i) continue;
      g->flats[k].view.data = data;
      g->flats[k].view.device = bound->device;
    }
    i = g->alias[i];
  } while (i != entry);
}

/* With dynamic dimensions, main functions read the extents from their inputs' shapes; ports without
 * dynamic dimensions keep their shapes. */
static void set_entry_shape(tvmrt_graph_executor* g, size_t entry, const tvmrt_port* port,
                            const int64_t* shape) {
  size_t i = entry;
  if (port->desc == NULL) return;
  do {
    memcpy(g->entries[i].shape, shape, (size_t)port->desc->rank * sizeof(*shape));
    i = g->alias[i];
  } while (i != entry);
}

/* Operators use addresses of entries, not of ports. An output that is copied after the run does not
 * change the graph's own memory. */
void tvmrt__graph_update(tvmrt_executor* e, const tvmrt_ports* side, const tvmrt_port* port) {
  tvmrt_graph_executor* g = (tvmrt_graph_executor*)e;
  const size_t i = (size_t)(port - side->items);
  if (side == &e->inputs) {
    const size_t entry = g->graph.nodes[g->graph.arg_nodes[i]].first_entry;
    set_entry_data(g, entry, &port->bound->dl);
    set_entry_shape(g, entry, port, port->bound->dl.shape);
  } else if (!g->copy_out[i]) {
    set_entry_data(g, g->graph.heads[i], &port->bound->dl);
  }
}

/* Functions of front ends may change their arguments, which the next run needs unchanged. Each
 * operator has its own part of the scratch memory, since several may run at once. */
static int call_frontend(tvmrt_graph_executor* g, const tvmrt_graph_op* op) {
  TVMValue* args = g->scratch + (op->args - g->values);
  int* codes = g->scratch_codes + (op->codes - g->codes);
  memcpy(args, op->args, (size_t)op->num_args * sizeof(*args));
  memcpy(codes, op->codes, (size_t)op->num_args * sizeof(*codes));
  return tvmrt__func_call(op->function, args, codes, op->num_args);
}

/* A node without a function copies one tensor to another, possibly between devices. */
static int call_op(tvmrt_graph_executor* g, const tvmrt_graph_op* op) {
  const tvmrt_func* f = op->function;
  TVMValue ret;
  int code = kTVMNullptr;
  if (f == NULL) return tvmrt__tensor_copy(op->args[0].v_handle, op->args[1].v_handle, NULL);
  if (f->kind == TVMRT_FUNC_LIBRARY) { /* generated: returns no value to check */
    return f->fn(op->args, op->codes, op->num_args, &ret, &code, f->resource);
  }
  return call_frontend(g, op);
}

/* Generated code and user functions may fail without a text: the node is then reported. */
int tvmrt__graph_run_op(tvmrt_graph_executor* g, size_t op_index) {
  const tvmrt_graph_op* op = &g->ops[op_index];
  const tvmrt_graph_node* node = &g->graph.nodes[op->node];
  int rc = call_op(g, op);
  if (rc != 0 && TVMGetLastError()[0] == '\0') {
    tvmrt__set_error("node '%.80s': function '%.80s' failed without an error text.", node->name,
                     node->func_name);
  }
  return rc;
}

/* After a run, ports have the extents of that run; operators must see the capacity of the memory,
 * or a shorter run would reduce it for the next. */
int tvmrt__graph_begin_run(tvmrt_graph_executor* g) {
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__executor_renew_outputs(&g->base));
  for (i = 0; g->base.dims != NULL && i < g->graph.num_heads; ++i) {
    const tvmrt_port* port = &g->base.outputs.items[i];
    set_entry_shape(g, g->graph.heads[i], port, port->capacity);
  }
  return 0;
}

/* Also updates the extents of the ports from the run. */
int tvmrt__graph_copy_outputs(tvmrt_graph_executor* g) {
  size_t i;
  for (i = 0; i < g->graph.num_heads; ++i) {
    tvmrt_port* port = &g->base.outputs.items[i];
    tvmrt__port_resize(port, g->entries[g->graph.heads[i]].shape);
    if (!g->copy_out[i]) continue;
    TVMRT_RETURN_IF_ERROR(
        tvmrt__tensor_copy(&g->entries[g->graph.heads[i]], &port->bound->dl, NULL));
  }
  return 0;
}

/* Run all operators in order, on this thread, with the executor's workspaces. */
static int run_in_order(tvmrt_graph_executor* g) {
  tvmrt_reserve* outer = tvmrt__reserve_begin(&g->base.reserve);
  size_t i;
  int rc = 0;
  tvmrt__forget_error(); /* of an earlier call */
  for (i = 0; rc == 0 && i < g->num_ops; ++i) rc = tvmrt__graph_run_op(g, i);
  tvmrt__reserve_end(outer);
  return rc;
}

/* The first failing operator ends the run; outputs are then undefined. The text of an earlier call
 * is dropped, so that an operator that returns no error text is reported by name. */
int tvmrt__graph_run(tvmrt_executor* e) {
  tvmrt_graph_executor* g = (tvmrt_graph_executor*)e;
  TVMRT_RETURN_IF_ERROR(tvmrt__graph_begin_run(g));
  TVMRT_RETURN_IF_ERROR(e->schedule == NULL
                            ? run_in_order(g)
                            : tvmrt__schedule_functions(e->schedule)->run(e->schedule));
  return tvmrt__graph_copy_outputs(g);
}
