/* The inputs and outputs of an instance of the graph executor, and their memory.
 *
 * A port initially uses the graph's memory for it, so that nothing is copied until a user binds a
 * tensor. An output whose memory is shared with something else, so that it cannot be replaced, has
 * separate memory, which is filled after each run. */
#include "graph_ports.h"

/* A tensor over the memory of an entry. */
static tvmrt_tensor* entry_view(tvmrt_graph_executor* g, size_t entry) {
  const DLTensor* t = &g->entries[entry];
  tvmrt_tensor* storage = g->storage[g->graph.entries[entry].storage_id];
  return tvmrt__tensor_view(storage, t->shape, t->ndim, t->dtype, 0);
}

/* Storage that is a constant of the library. */
static bool is_linked(const tvmrt_graph_executor* g, size_t entry) {
  return g->storage[g->graph.entries[entry].storage_id]->release == NULL;
}

/* An input uses its storage, or a parameter that all executors of a factory share. */
int tvmrt__graph_make_input(tvmrt_graph_executor* g, size_t i, const tvmrt_params* params) {
  const tvmrt_graph_node* node = &g->graph.nodes[g->graph.arg_nodes[i]];
  tvmrt_port* port = &g->base.inputs.items[i];
  tvmrt_tensor* shared = tvmrt__params_find(params, node->name);
  port->name = node->name;
  if (shared != NULL) {
    const DLTensor* t = &g->entries[node->first_entry];
    if (!tvmrt__same_shape(t, &shared->dl) || !tvmrt__same_dtype(t->dtype, shared->dl.dtype)) {
      char a[TVMRT_TENSOR_TEXT_BYTES];
      char b[TVMRT_TENSOR_TEXT_BYTES];
      return tvmrt__fail_value("parameter '%.60s' is %s in the graph and %s in the params.",
                               node->name, tvmrt__tensor_text(t, a),
                               tvmrt__tensor_text(&shared->dl, b));
    }
    /* Executors of one factory share one copy of their weights. */
    tvmrt__retain(&shared->base);
    port->bound = shared;
    g->base.is_param[i] = true;
  } else {
    port->own = entry_view(g, node->first_entry);
    if (port->own == NULL) return -1;
    tvmrt__retain(&port->own->base);
    port->bound = port->own;
    /* A constant of the library is read only; other inputs are zeroed, so that runs without them
     * are reproducible. */
    if (!is_linked(g, node->first_entry)) tvmrt__port_clear(port);
  }
  tvmrt__graph_update(&g->base, &g->base.inputs, port);
  return 0;
}

/* Whether a circular list contains a node without function: its memory is then an input's. */
static bool is_input_memory(const tvmrt_graph_executor* g, size_t entry) {
  size_t i = entry;
  do {
    if (g->graph.nodes[tvmrt__graph_node_of(&g->graph, i)].func_name == NULL) return true;
    i = g->alias[i];
  } while (i != entry);
  return false;
}

/* Whether binding one of the two moves the other too. */
static bool share_memory(const tvmrt_graph_executor* g, size_t a, size_t b) {
  size_t i = a;
  do {
    if (i == b) return true;
    i = g->alias[i];
  } while (i != a);
  return false;
}

/* The number is part of the name, so that outputs of one node have different names. */
static int name_output(tvmrt_graph_executor* g, size_t i) {
  tvmrt_buf name = {NULL, 0, 0};
  size_t node = tvmrt__graph_node_of(&g->graph, g->graph.heads[i]);
  const char* stem =
      g->graph.num_head_names != 0 ? g->graph.head_names[i] : g->graph.nodes[node].name;
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_printf(&name, "%s:%zu", stem, i));
  g->output_names[i] = name.data;
  g->base.outputs.items[i].name = name.data;
  return 0;
}

/* Equal storage, shape and type: the compiler's encoding of one tensor that several nodes fill. */
static bool is_same_tensor(const tvmrt_graph_executor* g, size_t a, size_t b) {
  return g->graph.entries[a].storage_id == g->graph.entries[b].storage_id &&
         tvmrt__same_shape(&g->entries[a], &g->entries[b]) &&
         tvmrt__same_dtype(g->entries[a].dtype, g->entries[b].dtype);
}

/* Several operators may each write a part of an output, as in a concatenation: if it moves, it
 * moves for all of them. */
static void join_writers(tvmrt_graph_executor* g, size_t head) {
  size_t i;
  for (i = 0; i < g->graph.num_entries; ++i) {
    if (is_same_tensor(g, i, head) && !share_memory(g, i, head)) {
      const size_t next = g->alias[i]; /* join two circular lists */
      g->alias[i] = g->alias[head];
      g->alias[head] = next;
    }
  }
}

/* Called in the order of the outputs, each of which is compared with those before it. */
int tvmrt__graph_make_output(tvmrt_graph_executor* g, size_t i) {
  tvmrt_port* port = &g->base.outputs.items[i];
  size_t entry = g->graph.heads[i];
  size_t k;
  TVMRT_RETURN_IF_ERROR(name_output(g, i));
  join_writers(g, entry);
  /* Users may bind each output to their own memory. An entry has only one address, so if it is also
   * an input's or another output's, it is copied after the run. */
  g->copy_out[i] = is_input_memory(g, entry);
  for (k = 0; k < i; ++k) g->copy_out[i] |= share_memory(g, entry, g->graph.heads[k]);
  if (g->copy_out[i]) {
    const DLTensor* t = &g->entries[entry];
    port->own = tvmrt__tensor_alloc(t->shape, t->ndim, t->dtype, t->device);
  } else {
    port->own = entry_view(g, entry);
  }
  if (port->own == NULL) return -1;
  tvmrt__retain(&port->own->base);
  port->bound = port->own;
  return 0;
}
