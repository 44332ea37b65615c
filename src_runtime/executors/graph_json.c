/* Reading and checking of graph JSON.
 *
 * Two passes: what stands in the text goes into a draft and into the graph's own arrays, then
 * everything that one list says of another is checked, so that executors index without looking.
 * Whatever fails leaves an empty graph, and the error text names the place in the text or the
 * rule that is broken. Sizes of all arrays follow from what was read; no count of the text is
 * trusted. */
#include "graph_json.h"

#include <stdlib.h>
#include <string.h>

#include "../base/json.h"

/* A list of numbers as it stands in the text. */
typedef struct numbers {
  int64_t* items;
  size_t count;
} numbers;

/* What is read before it is checked. Node entries are pairs: node, output. */
typedef struct draft {
  tvmrt_graph* graph;
  numbers input_pairs;
  numbers head_pairs;
  numbers arg_nodes;
  numbers row_ptr;
  numbers storage_ids;
  numbers device_types;
  DLDataType* dtypes;
  size_t num_dtypes;
  size_t* shape_ends; /* place in graph->dims after each shape */
  size_t num_shapes;
  unsigned seen; /* bits of the required keys */
  bool past_metadata;
  tvmrt_buf text;
  tvmrt_graph_node* node; /* the one that is read, and its op */
  char* op;
} draft;

static int read_number(tvmrt_parser* in, void* into) {
  numbers* list = into;
  void* items = list->items;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&items, list->count, sizeof(*list->items)));
  list->items = items;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(in, &list->items[list->count]));
  ++list->count;
  return 0;
}

/* A key that comes twice: the last list counts. */
static int read_numbers(tvmrt_parser* in, numbers* out) {
  out->count = 0;
  return tvmrt__parse_items(in, read_number, out);
}

/* [node, output] or [node, output, version] */
static int read_pair(tvmrt_parser* in, void* into) {
  numbers* out = into;
  const size_t before = out->count;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(in, read_number, out));
  if (out->count == before + 3) --out->count; /* a version, which means nothing here */
  if (out->count == before + 2) return 0;
  return tvmrt__parse_fail(in, "an entry needs 2 or 3 numbers");
}

static int read_text(tvmrt_parser* in, draft* d, char** out) {
  char* copy;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &d->text));
  copy = tvmrt__strdup(d->text.data);
  if (copy == NULL) return -1;
  free(*out); /* a key that comes twice: the last one counts */
  *out = copy;
  return 0;
}

/* A number in a string, as attributes of nodes are written. */
static int read_text_number(tvmrt_parser* in, draft* d, int64_t* out) {
  tvmrt_parser number;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &d->text));
  tvmrt__parse_init(&number, in->what, d->text.data, d->text.size);
  if (tvmrt__parse_int(&number, out) != 0 || number.json.at != number.json.end) {
    return tvmrt__parse_fail(in, "'%.40s' is no number", d->text.data);
  }
  return 0;
}

/* Attributes of tvmrt's own (view, device, after, region) stand beside TVM's; unknown ones are
 * others' and are skipped. */
static int read_node_attr(tvmrt_parser* in, void* into, const char* key) {
  draft* d = into;
  tvmrt_graph_node* node = d->node;
  int64_t value = 0;
  if (strcmp(key, "func_name") == 0) return read_text(in, d, &node->func_name);
  if (strcmp(key, "num_inputs") == 0) return read_text_number(in, d, &node->stated_inputs);
  if (strcmp(key, "num_outputs") == 0) return read_text_number(in, d, &node->stated_outputs);
  if (strcmp(key, "view") == 0) return read_text(in, d, &node->view);
  if (strcmp(key, "device") == 0) return read_text(in, d, &node->device);
  if (strcmp(key, "after") == 0) return read_text(in, d, &node->after);
  if (strcmp(key, "region") == 0) return read_text(in, d, &node->region);
  if (strcmp(key, "flatten_data") != 0) return tvmrt__parse_skip(in);
  TVMRT_RETURN_IF_ERROR(read_text_number(in, d, &value));
  node->flatten_data = value != 0;
  return 0;
}

/* Unknown keys of a node fail, as in TVM: they would change what it means. */
static int read_node_key(tvmrt_parser* in, void* into, const char* key) {
  draft* d = into;
  tvmrt_graph_node* node = d->node;
  if (strcmp(key, "op") == 0) return read_text(in, d, &d->op);
  if (strcmp(key, "name") == 0) return read_text(in, d, &node->name);
  if (strcmp(key, "attrs") == 0 || strcmp(key, "attr") == 0) { /* the old name */
    return tvmrt__parse_members(in, read_node_attr, d);
  }
  if (strcmp(key, "control_deps") == 0)
    return tvmrt__parse_skip(in); /* nodes run in order anyway */
  if (strcmp(key, "inputs") != 0) {
    return tvmrt__parse_fail(in, "a node has the unknown key '%.40s'", key);
  }
  node->first_input = d->input_pairs.count / 2;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(in, read_pair, &d->input_pairs));
  node->num_inputs = d->input_pairs.count / 2 - node->first_input;
  return 0;
}

/* Here, while the place in the text is known. What entries it has is only known with the row
 * pointers. */
static int check_node(const tvmrt_parser* in, tvmrt_graph_node* node, const char* op) {
  if (op == NULL || node->name == NULL) return tvmrt__parse_fail(in, "a node lacks 'op' or 'name'");
  if (strcmp(op, "null") == 0) {
    free(node->func_name);
    node->func_name = NULL;
    if (node->num_inputs == 0) return 0;
    return tvmrt__parse_fail(in, "input node '%.60s' has inputs itself", node->name);
  }
  if (strcmp(op, "tvm_op") != 0) {
    return tvmrt__parse_fail(in, "node '%.60s' has the unknown op '%.40s'", node->name, op);
  }
  if (node->func_name == NULL) {
    return tvmrt__parse_fail(in, "node '%.60s' lacks the attribute 'func_name'", node->name);
  }
  if (node->stated_inputs >= 0 && (uint64_t)node->stated_inputs != node->num_inputs) {
    return tvmrt__parse_fail(in, "node '%.60s' has %zu inputs and says it has %lld", node->name,
                             node->num_inputs, (long long)node->stated_inputs);
  }
  return 0;
}

/* The node is counted before it is read, so that what it owns is freed with the graph if reading
 * fails. */
static int read_node(tvmrt_parser* in, void* into) {
  draft* d = into;
  tvmrt_graph* g = d->graph;
  void* nodes = g->nodes;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&nodes, g->num_nodes, sizeof(*g->nodes)));
  g->nodes = nodes;
  d->node = &g->nodes[g->num_nodes++];
  memset(d->node, 0, sizeof(*d->node));
  d->node->stated_inputs = -1;
  d->node->stated_outputs = -1;
  d->op = NULL;
  rc = tvmrt__parse_members(in, read_node_key, d);
  if (rc == 0) rc = check_node(in, d->node, d->op);
  free(d->op);
  return rc;
}

static int read_dtype(tvmrt_parser* in, void* into) {
  draft* d = into;
  void* items = d->dtypes;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &d->text));
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&items, d->num_dtypes, sizeof(*d->dtypes)));
  d->dtypes = items;
  TVMRT_RETURN_IF_ERROR(tvmrt__dtype_from_text(d->text.data, &d->dtypes[d->num_dtypes]));
  ++d->num_dtypes;
  return 0;
}

static int read_extent(tvmrt_parser* in, void* into) {
  tvmrt_graph* g = into;
  void* dims = g->dims;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&dims, g->num_dims, sizeof(*g->dims)));
  g->dims = dims;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(in, &g->dims[g->num_dims]));
  ++g->num_dims;
  return 0;
}

/* Extents of all shapes lie in one array; each shape is known by its end there. */
static int read_shape(tvmrt_parser* in, void* into) {
  draft* d = into;
  void* ends = d->shape_ends;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(in, read_extent, d->graph));
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&ends, d->num_shapes, sizeof(*d->shape_ends)));
  d->shape_ends = ends;
  d->shape_ends[d->num_shapes++] = d->graph->num_dims;
  return 0;
}

/* ["list_int", [...]]: the tag, up to the value. */
static int read_tag(tvmrt_parser* in, draft* d, const char* key, const char* wanted) {
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_expect(in, '['));
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &d->text));
  if (wanted != NULL && strcmp(d->text.data, wanted) != 0) {
    return tvmrt__parse_fail(in, "attribute '%.40s' is a '%.40s' instead of a '%s'", key,
                             d->text.data, wanted);
  }
  return tvmrt__parse_expect(in, ',');
}

/* One bit for each key that must be there. */
enum {
  SEEN_NODES = 1,
  SEEN_ARGS = 2,
  SEEN_HEADS = 4,
  SEEN_ROWS = 8,
  SEEN_DTYPES = 16,
  SEEN_STORAGE = 32,
  SEEN_SHAPES = 64,
  SEEN_ALL = 127
};

static int read_attr(tvmrt_parser* in, void* into, const char* key) {
  draft* d = into;
  if (strcmp(key, "dltype") == 0) {
    d->seen |= SEEN_DTYPES;
    TVMRT_RETURN_IF_ERROR(read_tag(in, d, key, "list_str"));
    d->num_dtypes = 0;
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(in, read_dtype, d));
  } else if (strcmp(key, "storage_id") == 0) {
    d->seen |= SEEN_STORAGE;
    TVMRT_RETURN_IF_ERROR(read_tag(in, d, key, "list_int"));
    TVMRT_RETURN_IF_ERROR(read_numbers(in, &d->storage_ids));
  } else if (strcmp(key, "shape") == 0) {
    d->seen |= SEEN_SHAPES;
    TVMRT_RETURN_IF_ERROR(read_tag(in, d, key, "list_shape"));
    d->num_shapes = 0;
    d->graph->num_dims = 0;
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_items(in, read_shape, d));
  } else if (strcmp(key, "device_index") == 0) {
    TVMRT_RETURN_IF_ERROR(read_tag(in, d, key, "list_int"));
    TVMRT_RETURN_IF_ERROR(read_numbers(in, &d->device_types));
  } else {
    TVMRT_RETURN_IF_ERROR(read_tag(in, d, key, NULL)); /* storage_scope and what others add */
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_skip(in));
  }
  return tvmrt__parse_expect(in, ']');
}

/* The place is counted behind the reading: a name that failed is NULL and not counted. */
static int read_name(tvmrt_parser* in, void* into) {
  draft* d = into;
  tvmrt_graph* g = d->graph;
  void* names = g->head_names;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&names, g->num_head_names, sizeof(*g->head_names)));
  g->head_names = names;
  g->head_names[g->num_head_names] = NULL;
  TVMRT_RETURN_IF_ERROR(read_text(in, d, &g->head_names[g->num_head_names]));
  ++g->num_head_names;
  return 0;
}

/* A node has one name, its outputs may be several of the network's: these are told here, where other
 * readers look for nothing. */
static int read_metadata(tvmrt_parser* in, void* into, const char* key) {
  draft* d = into;
  if (strcmp(key, "output_names") != 0) return tvmrt__parse_skip(in);
  if (d->graph->num_head_names == 0) return tvmrt__parse_items(in, read_name, d);
  return tvmrt__parse_fail(in, "there are two lists of output_names");
}

static int read_top(tvmrt_parser* in, void* into, const char* key) {
  draft* d = into;
  if (strcmp(key, "nodes") == 0) {
    d->seen |= SEEN_NODES;
    if (d->graph->num_nodes != 0) return tvmrt__parse_fail(in, "there are two lists of nodes");
    return tvmrt__parse_items(in, read_node, d);
  }
  if (strcmp(key, "arg_nodes") == 0) {
    d->seen |= SEEN_ARGS;
    return read_numbers(in, &d->arg_nodes);
  }
  if (strcmp(key, "heads") == 0) {
    d->seen |= SEEN_HEADS;
    d->head_pairs.count = 0;
    return tvmrt__parse_items(in, read_pair, &d->head_pairs);
  }
  if (strcmp(key, "node_row_ptr") == 0) {
    d->seen |= SEEN_ROWS;
    return read_numbers(in, &d->row_ptr);
  }
  if (strcmp(key, "attrs") == 0) return tvmrt__parse_members(in, read_attr, d);
  if (strcmp(key, "metadata") != 0 && !d->past_metadata) {
    return tvmrt__parse_fail(in, "unknown key '%.40s'", key);
  }
  d->past_metadata = true; /* where other readers stop, so that anything may follow */
  if (strcmp(key, "metadata") == 0 && tvmrt__json_peek(&in->json) == '{') {
    return tvmrt__parse_members(in, read_metadata, d);
  }
  return tvmrt__parse_skip(in);
}

static int read_graph(tvmrt_parser* in, draft* d) {
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_members(in, read_top, d));
  if (d->seen == SEEN_ALL) return 0;
  return tvmrt__parse_fail(in,
                           "one of nodes, arg_nodes, heads, node_row_ptr, attrs.dltype, "
                           "attrs.storage_id, attrs.shape is missing");
}

/* Always -1. The text has no place any more to tell. */
static int bad_graph(const char* what) {
  return tvmrt__fail_value("the graph JSON does not fit together: %s.", what);
}

/* Entries of nodes, from the row pointers: first of all, since all that follows indexes with them. */
static int check_rows(draft* d) {
  tvmrt_graph* g = d->graph;
  size_t i;
  /* lint: count is at least 1 where items is looked at, and then there are items */
  if (d->row_ptr.count != g->num_nodes + 1 || d->row_ptr.items[0] != 0) {
    return bad_graph(
        "node_row_ptr must start with 0 and have one number more than there are nodes");
  }
  for (i = 0; i < g->num_nodes; ++i) {
    tvmrt_graph_node* node = &g->nodes[i];
    int64_t count = d->row_ptr.items[i + 1] - d->row_ptr.items[i];
    if (d->row_ptr.items[i + 1] < d->row_ptr.items[i] || count > (int64_t)d->num_dtypes) {
      return bad_graph("node_row_ptr must rise, within the number of entries");
    }
    node->first_entry = (size_t)d->row_ptr.items[i];
    node->num_outputs = (size_t)count;
    if (node->func_name == NULL && count != 1)
      return bad_graph("an input node must have one entry");
    if (node->func_name != NULL && node->stated_outputs >= 0 && node->stated_outputs != count) {
      return bad_graph("a node's num_outputs differs from node_row_ptr");
    }
  }
  g->num_entries = (size_t)d->row_ptr.items[g->num_nodes];
  if (d->num_dtypes != g->num_entries || d->num_shapes != g->num_entries ||
      d->storage_ids.count != g->num_entries ||
      (d->device_types.count != 0 && d->device_types.count != g->num_entries)) {
    return bad_graph("dltype, shape, storage_id and device_index need one item for each entry");
  }
  return 0;
}

/* Turn pairs (node, output) into entry numbers; nodes must lie below `limit`: for a node's inputs that is
 * itself, so that nodes can run in their order and nothing depends on itself. */
static int resolve(const tvmrt_graph* g, const int64_t* pairs, size_t count, size_t limit,
                   size_t* out) {
  size_t i;
  for (i = 0; i < count; ++i) {
    int64_t node = pairs[2 * i];
    int64_t output = pairs[2 * i + 1];
    if (node < 0 || (uint64_t)node >= limit || output < 0 ||
        (uint64_t)output >= g->nodes[node].num_outputs) {
      return bad_graph("an entry names a node or output that does not exist or comes later");
    }
    out[i] = g->nodes[node].first_entry + (size_t)output;
  }
  return 0;
}

/* Inputs, heads and arg_nodes as numbers of entries and nodes; behind check_rows(), which knows the
 * outputs. */
static int check_links(draft* d) {
  tvmrt_graph* g = d->graph;
  size_t i;
  g->num_inputs = d->input_pairs.count / 2;
  g->num_heads = d->head_pairs.count / 2;
  g->num_arg_nodes = d->arg_nodes.count;
  g->inputs = tvmrt__calloc(g->num_inputs, sizeof(*g->inputs));
  g->heads = tvmrt__calloc(g->num_heads, sizeof(*g->heads));
  g->arg_nodes = tvmrt__calloc(g->num_arg_nodes, sizeof(*g->arg_nodes));
  if (g->inputs == NULL || g->heads == NULL || g->arg_nodes == NULL) return -1;
  for (i = 0; i < g->num_nodes; ++i) {
    const tvmrt_graph_node* n = &g->nodes[i];
    if (n->num_inputs == 0) continue;
    TVMRT_RETURN_IF_ERROR(resolve(g, d->input_pairs.items + 2 * n->first_input, n->num_inputs, i,
                                  g->inputs + n->first_input));
  }
  for (i = 0; i < g->num_arg_nodes; ++i) {
    int64_t node = d->arg_nodes.items[i];
    if (node < 0 || (uint64_t)node >= g->num_nodes || g->nodes[node].func_name != NULL) {
      return bad_graph("arg_nodes must list nodes whose op is null");
    }
    g->arg_nodes[i] = (size_t)node;
  }
  if (g->num_head_names != 0 && g->num_head_names != g->num_heads) {
    return bad_graph("metadata.output_names must have one name for each of the heads");
  }
  return resolve(g, d->head_pairs.items, g->num_heads, g->num_nodes, g->heads);
}

/* Adds up the bytes, which fails where they do not fit into 64 bits or an extent is negative. */
static int check_entry(draft* d, size_t i) {
  tvmrt_graph* g = d->graph;
  tvmrt_graph_entry* e = &g->entries[i];
  unsigned bits = (unsigned)d->dtypes[i].bits * d->dtypes[i].lanes;
  int64_t sid = d->storage_ids.items[i];
  size_t ndim;
  e->first_dim = i == 0 ? 0 : d->shape_ends[i - 1];
  ndim = d->shape_ends[i] - e->first_dim;
  if (ndim > TVMRT_MAX_NDIM) return bad_graph("a shape has too many dimensions");
  e->ndim = (int32_t)ndim;
  e->dtype = d->dtypes[i];
  if (bits != 1 && bits != 2 && bits != 4 && (bits == 0 || bits % 8 != 0)) {
    return bad_graph("a data type has a size that is not a whole number of bytes");
  }
  /* executors have a table of storages: it stays as small as the graph */
  if (sid < 0 || (uint64_t)sid >= g->num_entries) {
    return bad_graph("a storage_id is negative or larger than the number of entries");
  }
  e->storage_id = (size_t)sid;
  if (e->storage_id >= g->num_storages) g->num_storages = e->storage_id + 1;
  if (d->device_types.count != 0) e->device_type = (int)d->device_types.items[i];
  return tvmrt__shape_bytes(g->dims + e->first_dim, e->ndim, e->dtype, &e->bytes);
}

static int check_entries(draft* d) {
  tvmrt_graph* g = d->graph;
  size_t i;
  g->entries = tvmrt__calloc(g->num_entries, sizeof(*g->entries));
  /* Scalars have no extents, but their shapes start somewhere too. */
  if (g->dims == NULL) g->dims = tvmrt__calloc(1, sizeof(*g->dims));
  if (g->entries == NULL || g->dims == NULL) return -1;
  for (i = 0; i < g->num_entries; ++i) TVMRT_RETURN_IF_ERROR(check_entry(d, i));
  return 0;
}

static void free_draft(draft* d) {
  free(d->input_pairs.items);
  free(d->head_pairs.items);
  free(d->arg_nodes.items);
  free(d->row_ptr.items);
  free(d->storage_ids.items);
  free(d->device_types.items);
  free(d->dtypes);
  free(d->shape_ends);
  tvmrt__buf_free(&d->text);
}

int tvmrt__graph_parse(const char* json, size_t size, tvmrt_graph* out) {
  tvmrt_parser in;
  draft d = {0};
  int rc;
  memset(out, 0, sizeof(*out));
  d.graph = out;
  tvmrt__parse_init(&in, "the graph JSON", json, size);
  rc = read_graph(&in, &d);
  if (rc == 0) rc = check_rows(&d);
  if (rc == 0) rc = check_links(&d);
  if (rc == 0) rc = check_entries(&d);
  free_draft(&d);
  if (rc != 0) tvmrt__graph_free(out);
  return rc;
}

void tvmrt__graph_free(tvmrt_graph* graph) {
  size_t i;
  for (i = 0; i < graph->num_nodes; ++i) {
    free(graph->nodes[i].name);
    free(graph->nodes[i].func_name);
    free(graph->nodes[i].view);
    free(graph->nodes[i].device);
    free(graph->nodes[i].after);
    free(graph->nodes[i].region);
  }
  free(graph->nodes);
  free(graph->inputs);
  free(graph->arg_nodes);
  free(graph->heads);
  tvmrt__free_strings(graph->head_names, graph->num_head_names);
  free(graph->entries);
  free(graph->dims);
  memset(graph, 0, sizeof(*graph));
}

/* Searched from the front, as executors ask while they are made; the entries of nodes rise. */
size_t tvmrt__graph_node_of(const tvmrt_graph* graph, size_t entry) {
  size_t i = 0;
  while (i + 1 < graph->num_nodes && graph->nodes[i + 1].first_entry <= entry) ++i;
  return i;
}
