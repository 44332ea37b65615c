/* Creating an instance of the graph executor.
 *
 * Inputs are the JSON of a graph, a library with its functions, and the caller's devices. They give
 * storages (blocks of memory that several entries share one after the other), entries in them,
 * operators with their arguments, and ports. Indices inside of the graph were checked by
 * graph_json.c. The executor owns everything except the library's constants, and
 * tvmrt__graph_destroy() accepts a partly built one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../tensors/memory_device.h"
#include "graph_ports.h"
#include "schedules.h"

/* Accepts a partly built executor: tables that were not reached are NULL, and only complete
 * operators are counted. */
void tvmrt__graph_destroy(tvmrt_module* self) {
  tvmrt_graph_executor* g = (tvmrt_graph_executor*)self;
  size_t i;
  if (g->base.schedule != NULL) { /* before the data that its steps use */
    tvmrt__schedule_functions(g->base.schedule)->free(g->base.schedule);
  }
  for (i = 0; i < g->num_ops; ++i) {
    if (g->ops[i].function != NULL) tvmrt__release(&g->ops[i].function->base);
  }
  tvmrt__executor_free_ports(&g->base);
  tvmrt__free_strings(g->output_names, g->graph.num_heads);
  for (i = 0; g->storage != NULL && i < g->graph.num_storages; ++i) {
    tvmrt__tensor_release(g->storage[i]);
  }
  free(g->devices);
  free(g->storage);
  free(g->entries);
  free(g->alias);
  free(g->ops);
  free(g->values);
  free(g->codes);
  free(g->scratch);
  free(g->scratch_codes);
  free(g->flats);
  free(g->base.is_param);
  free(g->copy_out);
  tvmrt__graph_free(&g->graph);
}

/* calloc into a field; NULL if memory is exhausted. */
#define MAKE(field, count) ((field) = tvmrt__calloc((count), sizeof(*(field))))

/* Sizes come from the graph, counted and checked by graph_json.c. */
static int make_tables(tvmrt_graph_executor* g) {
  const tvmrt_graph* d = &g->graph;
  tvmrt_ports* inputs = &g->base.inputs;
  tvmrt_ports* outputs = &g->base.outputs;
  if (MAKE(g->storage, d->num_storages) == NULL || MAKE(g->entries, d->num_entries) == NULL ||
      MAKE(g->alias, d->num_entries) == NULL || MAKE(inputs->items, d->num_arg_nodes) == NULL ||
      MAKE(g->base.is_param, d->num_arg_nodes) == NULL ||
      MAKE(outputs->items, d->num_heads) == NULL || MAKE(g->output_names, d->num_heads) == NULL ||
      MAKE(g->copy_out, d->num_heads) == NULL) {
    return -1;
  }
  inputs->count = d->num_arg_nodes;
  outputs->count = d->num_heads;
  return 0;
}

/* If the library places tensors in the memory of a region's device, that is found by its type,
 * independent of the executor's devices. Type 0, of graphs that do not state one, is the first
 * device. */
static int device_of(const tvmrt_graph_executor* g, int device_type, bool is_placed,
                     DLDevice* out) {
  size_t i;
  *out = g->devices[0];
  if (device_type == 0) return 0;
  for (i = 0; i < g->num_devices; ++i) {
    if ((int)g->devices[i].device_type == device_type) {
      *out = g->devices[i];
      return 0;
    }
  }
  if (is_placed && tvmrt__memory_device(device_type) != NULL) {
    out->device_type = (DLDeviceType)device_type;
    out->device_id = 0;
    return 0;
  }
  return tvmrt__fail_value(
      "the network uses a device of type %d, which is not among the executor's %zu devices.",
      device_type, g->num_devices);
}

/* Set device, type and shape of every entry; memory is assigned later, when its users are known. */
static int fill_entries(tvmrt_graph_executor* g, bool is_placed) {
  size_t i;
  for (i = 0; i < g->graph.num_entries; ++i) {
    const tvmrt_graph_entry* e = &g->graph.entries[i];
    DLTensor* t = &g->entries[i];
    TVMRT_RETURN_IF_ERROR(device_of(g, e->device_type, is_placed, &t->device));
    t->ndim = e->ndim;
    t->dtype = e->dtype;
    t->shape = g->graph.dims + e->first_dim;
    /* initially alone: reshapes and outputs join several */
    g->alias[i] = i;
  }
  return 0;
}

/* Add a single entry to the circular list of another. A single entry is a list of itself. */
static void join(size_t* ring, size_t other, size_t single) {
  ring[single] = ring[other];
  ring[other] = single;
}

/* TVM's marker of a reshape: a node without computation, whose output is its input's memory. */
static bool is_nop(const tvmrt_graph_node* node) {
  return node->func_name != NULL && strcmp(node->func_name, "__nop") == 0;
}

/* TVM's marker of a copy between devices, which the executor performs itself: no library has a
 * function of that name. */
static bool is_copy(const tvmrt_graph_node* node) {
  return node->func_name != NULL && strcmp(node->func_name, "__copy") == 0;
}

/* The output of a reshape must move with its input when a tensor is bound. */
static int join_nops(tvmrt_graph_executor* g) {
  size_t i;
  size_t k;
  for (i = 0; i < g->graph.num_nodes; ++i) {
    const tvmrt_graph_node* n = &g->graph.nodes[i];
    if (!is_nop(n)) continue;
    for (k = 0; k < n->num_outputs && k < n->num_inputs; ++k) {
      size_t from = g->graph.inputs[n->first_input + k];
      size_t to = n->first_entry + k;
      if (g->graph.entries[from].bytes != g->graph.entries[to].bytes) {
        return tvmrt__fail_value("node '%.60s' reshapes %" PRIu64 " bytes to %" PRIu64 ".", n->name,
                                 g->graph.entries[from].bytes, g->graph.entries[to].bytes);
      }
      join(g->alias, from, to); /* still single: nodes only read earlier ones */
    }
  }
  return 0;
}

/* The address of a linked parameter for a storage; *out is NULL if there is none. Older compilers
 * linked weights into the code, with a function that returns them by storage number. */
static int linked_param(tvmrt_func* lookup, size_t storage_id, void** out) {
  TVMValue arg;
  TVMValue ret;
  int code = kTVMArgInt;
  int ret_code;
  *out = NULL;
  if (lookup == NULL) return 0;
  arg.v_int64 = (int64_t)storage_id;
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(lookup, &arg, &code, 1, &ret, &ret_code));
  if (ret_code == kTVMOpaqueHandle) *out = ret.v_handle;
  return 0;
}

static const DLDataType byte_type = {kDLUInt, 8, 1};

/* Linked constants are used in place in the library, so the tensor borrows `linked`. */
static int make_storage(tvmrt_graph_executor* g, tvmrt_func* lookup, size_t sid, uint64_t bytes,
                        DLDevice dev) {
  int64_t extent = (int64_t)bytes;
  void* linked;
  TVMRT_RETURN_IF_ERROR(linked_param(lookup, sid, &linked));
  if (linked != NULL) {
    DLTensor view = {linked, dev, 1, byte_type, &extent, NULL, 0};
    g->storage[sid] = tvmrt__tensor_borrow(&view);
  } else {
    g->storage[sid] = tvmrt__tensor_alloc_workspace(&extent, 1, byte_type, dev);
  }
  return g->storage[sid] == NULL ? -1 : 0;
}

/* Whether an entry is a parameter, which has its own memory; only those in arg_nodes are set. A
 * storage for it would be unused memory in each executor of a factory. */
static bool has_runtime_operand(const tvmrt_graph_executor* g, size_t entry,
                                const tvmrt_params* params) {
  size_t node = tvmrt__graph_node_of(&g->graph, entry);
  size_t i;
  if (g->graph.nodes[node].func_name != NULL) return false;
  if (tvmrt__params_find(params, g->graph.nodes[node].name) == NULL) return false;
  for (i = 0; i < g->graph.num_arg_nodes; ++i) {
    if (g->graph.arg_nodes[i] == node) return true;
  }
  return false;
}

/* Size of each storage, from the entries that need it. */
static int size_storages(tvmrt_graph_executor* g, const tvmrt_params* params, uint64_t* bytes,
                         DLDevice* devs) {
  size_t i;
  for (i = 0; i < g->graph.num_entries; ++i) {
    const tvmrt_graph_entry* e = &g->graph.entries[i];
    uint64_t expected = e->bytes == 0 ? 1 : e->bytes; /* 0 means that no entry needs the storage */
    DLDevice dev = g->entries[i].device;
    if (has_runtime_operand(g, i, params)) continue;
    /* By type only: a graph contains no device number. */
    if (bytes[e->storage_id] != 0 && devs[e->storage_id].device_type != dev.device_type) {
      return tvmrt__fail_value("storage %zu of the graph is used on two devices.", e->storage_id);
    }
    devs[e->storage_id] = dev;
    if (expected > bytes[e->storage_id]) bytes[e->storage_id] = expected;
  }
  return 0;
}

/* A size of 0 means an unneeded storage: all its entries are parameters, which have their own
 * memory. */
static int make_storages(tvmrt_graph_executor* g, const tvmrt_params* params, tvmrt_func* lookup) {
  uint64_t* bytes = tvmrt__calloc(g->graph.num_storages, sizeof(*bytes));
  DLDevice* devs = tvmrt__calloc(g->graph.num_storages, sizeof(*devs));
  size_t i;
  int rc = bytes == NULL || devs == NULL ? -1 : size_storages(g, params, bytes, devs);
  for (i = 0; rc == 0 && i < g->graph.num_storages; ++i) {
    if (bytes[i] != 0) rc = make_storage(g, lookup, i, bytes[i], devs[i]);
  }
  for (i = 0; rc == 0 && i < g->graph.num_entries; ++i) {
    const tvmrt_tensor* s = g->storage[g->graph.entries[i].storage_id];
    if (s != NULL) g->entries[i].data = s->dl.data;
  }
  free(bytes);
  free(devs);
  return rc;
}

/* Operators of old graphs take one-dimensional tensors: a separate view of the entry, updated with
 * it by set_entry_data(). One can be allocated for each argument. */
static void* flatten(tvmrt_graph_executor* g, size_t entry) {
  tvmrt_graph_flat* flat = &g->flats[g->num_flats++];
  const DLTensor* t = &g->entries[entry];
  int i;
  flat->entry = entry;
  flat->extent = 1;
  for (i = 0; i < t->ndim; ++i) flat->extent *= t->shape[i];
  flat->view = *t;
  flat->view.ndim = 1;
  flat->view.shape = &flat->extent;
  return &flat->view;
}

/* Retained for the executor. The library's imports are searched too: regions of devices are in
 * separate modules. */
static int find_function(tvmrt_graph_executor* g, const tvmrt_graph_node* node, tvmrt_func** out) {
  TVMRT_RETURN_IF_ERROR(tvmrt__module_get(g->base.module.library, node->func_name, true, out));
  if (*out != NULL) return 0;
  return tvmrt__fail(
      "Cannot find function '%.80s' in the library, which node '%.60s' of the graph "
      "calls.",
      node->func_name, node->name);
}

/* Arguments are addresses, taken once: entries no longer move when operators are created. */
static void add_arg(tvmrt_graph_executor* g, tvmrt_graph_op* op, size_t entry, bool flat) {
  op->args[op->num_args].v_handle = flat ? flatten(g, entry) : (void*)&g->entries[entry];
  op->codes[op->num_args] = kTVMDLTensorHandle;
  ++op->num_args;
}

/* Reports mismatches when the executor is created, not in its first run. */
static int check_copy(const tvmrt_graph_executor* g, const tvmrt_graph_node* n) {
  uint64_t from;
  uint64_t to;
  if (n->num_inputs != 1 || n->num_outputs != 1) {
    return tvmrt__fail_value("a __copy node needs one input, one output.");
  }
  from = g->graph.entries[g->graph.inputs[n->first_input]].bytes;
  to = g->graph.entries[n->first_entry].bytes;
  if (from == to) return 0;
  return tvmrt__fail_value("node '%.60s' copies %" PRIu64 " bytes to %" PRIu64 ".", n->name, from,
                           to);
}

/* Counted only when complete, as the destructor relies on the count; its function is found last. */
static int make_op(tvmrt_graph_executor* g, size_t node_index, size_t first_arg) {
  const tvmrt_graph_node* n = &g->graph.nodes[node_index];
  tvmrt_graph_op* op = &g->ops[g->num_ops];
  size_t i;
  op->args = g->values + first_arg;
  op->codes = g->codes + first_arg;
  op->node = node_index;
  for (i = 0; i < n->num_inputs; ++i) {
    add_arg(g, op, g->graph.inputs[n->first_input + i], n->flatten_data);
  }
  for (i = 0; i < n->num_outputs; ++i) add_arg(g, op, n->first_entry + i, n->flatten_data);
  if (is_copy(n)) {
    TVMRT_RETURN_IF_ERROR(check_copy(g, n));
  } else {
    TVMRT_RETURN_IF_ERROR(find_function(g, n, &op->function));
  }
  ++g->num_ops;
  return 0;
}

/* Arguments of all operators are in one table, with a fixed part for each. */
static int make_ops(tvmrt_graph_executor* g) {
  size_t total = g->graph.num_inputs + g->graph.num_entries; /* each entry is one node's result */
  size_t next = 0;
  size_t i;
  if (MAKE(g->ops, g->graph.num_nodes) == NULL || MAKE(g->values, total) == NULL ||
      MAKE(g->codes, total) == NULL || MAKE(g->scratch, total) == NULL ||
      MAKE(g->scratch_codes, total) == NULL || MAKE(g->flats, total) == NULL) {
    return -1;
  }
  for (i = 0; i < g->graph.num_nodes; ++i) {
    const tvmrt_graph_node* n = &g->graph.nodes[i];
    /* Inputs are only memory, and reshapes were handled when entries were joined. */
    if (n->func_name == NULL || is_nop(n)) continue;
    TVMRT_RETURN_IF_ERROR(make_op(g, i, next));
    next += n->num_inputs + n->num_outputs;
  }
  return 0;
}

/* Memory of inputs is skipped, as users have set it. A state is initial if its mark is 0. */
int tvmrt__graph_reset_state(tvmrt_executor* e) {
  const tvmrt_graph_executor* g = (const tvmrt_graph_executor*)e;
  size_t i;
  for (i = 0; e->has_state && i < g->graph.num_entries; ++i) {
    const tvmrt_tensor* s = g->storage[g->graph.entries[i].storage_id];
    uint64_t bytes;
    if (s == NULL || g->graph.nodes[tvmrt__graph_node_of(&g->graph, i)].func_name == NULL) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(&s->dl, &bytes));
    if (s->dl.device.device_type == kDLCPU) memset(s->dl.data, 0, (size_t)bytes);
  }
  return 0;
}

/* Whether a node names a device or its predecessors. */
static bool names_device_or_order(const tvmrt_graph_node* n) {
  return n->after != NULL || (n->device != NULL && strcmp(n->device, "cpu") != 0);
}

/* Other networks run in order and do not need the library of schedulers. */
static int choose_scheduler(tvmrt_graph_executor* g) {
  const tvmrt_schedule_functions* functions;
  size_t i = 0;
  while (i < g->num_ops && !names_device_or_order(&g->graph.nodes[g->ops[i].node])) ++i;
  if (i == g->num_ops) return 0;
  functions = tvmrt__schedules();
  return functions == NULL ? -1 : functions->choose_default(g);
}

/* `linked` is a caller-provided look-up of old libraries' constants; if it is NULL, the library's
 * own is used. The order matters: entries before their circular lists; storages before the ports in
 * them; inputs before outputs, which are copied if they would take an input's memory. */
static int build(tvmrt_graph_executor* g, const tvmrt_params* params, tvmrt_func* linked) {
  tvmrt_func* lookup = linked;
  tvmrt_module* library = g->base.module.library;
  const char* network = g->graph.network;
  const tvmrt_placement* placement;
  size_t i;
  int rc;
  TVMRT_RETURN_IF_ERROR(make_tables(g));
  TVMRT_RETURN_IF_ERROR(tvmrt__read_placement(library, network, &placement));
  TVMRT_RETURN_IF_ERROR(fill_entries(g, placement != NULL));
  TVMRT_RETURN_IF_ERROR(join_nops(g));
  if (lookup == NULL) {
    TVMRT_RETURN_IF_ERROR(tvmrt__module_get(library, "_lookup_linked_param", true, &lookup));
  }
  rc = make_storages(g, params, lookup);
  if (lookup != NULL && lookup != linked) tvmrt__release(&lookup->base);
  if (rc == 0) rc = tvmrt__library_has_state(library, network, &g->base.has_state);
  if (rc == 0) rc = tvmrt__graph_reset_state(&g->base);
  /* Operators before inputs: an input with a shared parameter moves the flattened views of
   * operators. */
  if (rc == 0) rc = make_ops(g);
  for (i = 0; rc == 0 && i < g->graph.num_arg_nodes; ++i) {
    rc = tvmrt__graph_make_input(g, i, params);
  }
  if (rc == 0) rc = tvmrt__ports_make_names_unique(g->base.inputs.items, g->graph.num_arg_nodes);
  for (i = 0; rc == 0 && i < g->graph.num_heads; ++i) rc = tvmrt__graph_make_output(g, i);
  if (rc == 0) rc = tvmrt__executor_read_dims(&g->base, network);
  if (rc == 0) rc = tvmrt__executor_set_placement(&g->base, placement);
  if (rc == 0) rc = tvmrt__executor_prepare(&g->base, network);
  return rc != 0 ? rc : choose_scheduler(g);
}

/* The caller's array is only borrowed for the call. */
static int copy_devices(tvmrt_graph_executor* g, const DLDevice* devices, size_t count) {
  if (MAKE(g->devices, count) == NULL) return -1;
  memcpy(g->devices, devices, count * sizeof(*devices));
  g->num_devices = count;
  return 0;
}

/* All arguments are borrowed: the JSON is read, the library retained, tensors of `params` are
 * shared. */
int tvmrt__graph_executor_new(const char* json, size_t json_size, tvmrt_module* library,
                              const DLDevice* devices, size_t num_devices,
                              const tvmrt_params* params, tvmrt_func* linked, tvmrt_module** out) {
  tvmrt_graph_executor* g = tvmrt__executor_new(&tvmrt__graph_kind, sizeof(*g), library);
  int rc = g == NULL ? -1 : copy_devices(g, devices, num_devices);
  if (rc == 0) rc = tvmrt__graph_parse(json, json_size, &g->graph);
  if (rc == 0) rc = build(g, params, linked);
  *out = rc == 0 ? &g->base.module : NULL;
  if (rc != 0) tvmrt__module_release(g);
  return rc;
}
