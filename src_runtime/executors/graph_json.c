/* Parsing and checking of graph JSON, of any size.
 *
 * Firmware's graph_walk.h implements the traversal and the rules for graphs. This file adds the
 * host's tables, whose sizes a first pass determines, and the error texts. Damage is reported with
 * its position in the text, inconsistency with a rule. All indices are checked, so that executors
 * can index without checks; on failure the graph is empty. */
#include "graph_json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../base/json.h"

typedef uint64_t graph_number; /* a negative number becomes larger than all valid ones */
typedef uint64_t
    graph_row; /* 64 bits even if sizes have 32: rows may be wrong until check_rows() */
typedef size_t graph_item;

/* Result of the first pass: the beginning of each part, and the sizes of the tables. */
typedef struct graph_plan {
  tvmrt_parse_counts sections[8];
  size_t nodes, inputs, heads, entries;
} graph_plan;

typedef struct graph_reader {
  tvmrt_parser in;
  graph_plan* plan;
  tvmrt_graph* g;
  graph_row* rows;
  int64_t* extents; /* unused ones */
  int64_t* extents_end;
  size_t first_input; /* of the current node */
  tvmrt_buf text;
  bool has_error_text; /* the error is already reported; else damage has no error text yet */
  bool past_metadata;
} graph_reader;

/* The last ones are tvmrt's own. */
enum { VIEW = 6, DEVICE, AFTER, NUM_NODE_TEXTS };
static const char* const node_texts[] = {"op",         "name",        "func_name",
                                         "num_inputs", "num_outputs", "flatten_data",
                                         "view",       "device",      "after"};

#include "../firmware/graph/graph_walk.h"

_Static_assert((int)NUM_SECTIONS == 8, "as many as a plan has room for");

/* Only the first error is reported. */
static void stop(graph_reader* r, int rc) {
  if (rc == 0) return;
  r->has_error_text = true;
  r->in.json.damaged = TVMRT_JSON_VALUE;
  r->in.json.end = r->in.json.at;
}

static bool is_stopped(const graph_reader* r) { return r->in.json.damaged != 0; }

/* Always -1. These errors have no position in the text. */
static int bad_graph(const char* what) {
  return tvmrt__fail_value("the graph JSON is inconsistent: %s.", what);
}

static const char* const rules[] = {
    [ROWS_OF_NODES] =
        "node_row_ptr must start with 0 and have one number more than there are nodes",
    [ROWS_INCREASE] = "node_row_ptr must rise, within the number of entries",
    [ONE_PER_ENTRY] = "dltype, shape, storage_id and device_index need one item for each entry",
    [TOO_MANY_ITEMS] = "a list has items of another kind",
    [EDGE_EXISTS] = "an entry names a node or output that does not exist or comes later",
    [INPUTS_ARE_NULL] = "arg_nodes must list nodes whose op is null",
    [INPUT_ENTRIES] = "an input node must have one entry",
    [OUTPUTS_STATED] = "a node's num_outputs differs from node_row_ptr",
    [STORAGE_RANGE] = "a storage_id is negative or larger than the number of entries",
    [SHAPES_MATCH] = "a shape has too many dimensions",
    [NAMED_HEADS] = "metadata.output_names must have one name for each of the heads",
};

/* Check a rule for graphs: called by the traversal; the error text is the host's. */
static void require(graph_reader* r, int condition, graph_fault fault) {
  if (condition || is_stopped(r)) return;
  stop(r, fault == EDGE_NUMBERS ? tvmrt__parse_fail(&r->in, "an entry needs 2 or 3 numbers")
                                : bad_graph(rules[fault]));
}

/* ---- the text ---- */

/* After damage all numbers are 0: the traversal continues to its end without checking each one. */
static graph_number read_number(graph_reader* r) {
  int64_t number = 0;
  if (!is_stopped(r)) stop(r, tvmrt__parse_int(&r->in, &number));
  return (graph_number)number;
}

static void skip(graph_reader* r) {
  if (!is_stopped(r)) stop(r, tvmrt__parse_skip(&r->in));
}

/* A text of the traversal, unescaped, borrowed until the next one; "" after damage. */
static const char* unescape(graph_reader* r, const char* text) {
  const char* at = r->in.json.at;
  if (is_stopped(r)) return "";
  r->in.json.at = text - 1;
  stop(r, tvmrt__parse_string(&r->in, &r->text));
  if (is_stopped(r)) return "";
  r->in.json.at = at;
  return r->text.data;
}

/* Owned; NULL for NULL. */
static char* copy_text(graph_reader* r, const char* text) {
  char* copy = NULL;
  if (text != NULL) {
    copy = tvmrt__strdup(unescape(r, text));
    if (copy == NULL) stop(r, -1);
  }
  return copy;
}

/* ---- the first pass: positions of the parts, and the executor's members of metadata ---- */

/* A node has one name, but may compute several of the network's outputs. Their names are listed
 * here, in a member that other readers ignore. */
static int read_name(tvmrt_parser* in, void* into) {
  graph_reader* r = into;
  tvmrt_graph* g = r->g;
  void* names = g->head_names;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&names, g->num_head_names, sizeof(*g->head_names)));
  g->head_names = names;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &r->text));
  g->head_names[g->num_head_names] = tvmrt__strdup(r->text.data);
  return g->head_names[g->num_head_names++] == NULL ? -1 : 0;
}

/* A second one is ignored like unknown members: the first is kept. */
static int read_network(tvmrt_parser* in, graph_reader* r) {
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_string(in, &r->text));
  if (r->g->network == NULL) r->g->network = tvmrt__strdup(r->text.data);
  return r->g->network == NULL ? -1 : 0;
}

/* The executor only uses the names of the network and its outputs from the metadata; other members
 * are skipped. */
static int read_metadata(tvmrt_parser* in, void* into, const char* key) {
  graph_reader* r = into;
  if (strcmp(key, "network") == 0) return read_network(in, r);
  if (strcmp(key, "output_names") != 0) return tvmrt__parse_skip(in);
  if (r->g->num_head_names == 0) return tvmrt__parse_items(in, read_name, r);
  return tvmrt__parse_fail(in, "output_names is given twice");
}

/* Other readers stop at the metadata, so anything may follow. */
static void read_other_part(graph_reader* r, const char* key) {
  const bool is_metadata = tvmrt__json_is(key, "metadata") != 0;
  if (is_metadata && tvmrt__json_peek(&r->in.json) == '{') {
    stop(r, tvmrt__parse_members(&r->in, read_metadata, r));
  } else if (is_metadata || r->past_metadata) {
    skip(r);
  } else {
    key = unescape(r, key);
    if (!is_stopped(r)) stop(r, tvmrt__parse_fail(&r->in, "unknown key '%.40s'", key));
  }
  r->past_metadata |= is_metadata;
}

/* The traversal visits each part once; it is measured here and read later, in the order that the
 * checks require. */
static void keep_section(graph_reader* r, uint32_t section, const char* key, int level) {
  tvmrt_parse_counts* counts = &r->plan->sections[section];
  if (is_stopped(r)) return;
  if ((level == 1) != (section >= DTYPES)) {
    read_other(r, key, level, NULL);
  } else if (section == NODES && counts->values[1] != 0) {
    stop(r, tvmrt__parse_fail(&r->in, "nodes is given twice"));
  } else {
    stop(r, tvmrt__parse_count(&r->in, counts));
  }
}

/* Items of lists are values[1], those after the type tag of a list of attrs values[2]. */
static int read_view(graph_reader* r) {
  graph_plan* p = r->plan;
  int i;
  find_sections(r);
  if (is_stopped(r)) return -1;
  for (i = 0; i < DEVICES; ++i) {
    if (p->sections[i].at != NULL) continue;
    stop(r, tvmrt__parse_fail(&r->in,
                              "one of nodes, arg_nodes, heads, node_row_ptr, attrs.dltype, "
                              "attrs.storage_id, attrs.shape is missing"));
    return -1;
  }
  p->nodes = p->sections[NODES].values[1];
  p->inputs = p->sections[ARG_NODES].values[1];
  p->heads = p->sections[HEADS].values[1];
  p->entries = p->sections[DTYPES].values[2];
  return 0;
}

/* The tables have exactly the counted sizes, and everything stored in them is checked against
 * these. Each edge is a list. */
static int make_tables(graph_reader* r) {
  const graph_plan* p = r->plan;
  const size_t extents = p->sections[SHAPES].values[3];
  tvmrt_graph* g = r->g;
  g->nodes = tvmrt__calloc(p->nodes, sizeof(*g->nodes));
  g->inputs = tvmrt__calloc(p->sections[NODES].lists, sizeof(*g->inputs));
  g->arg_nodes = tvmrt__calloc(p->inputs, sizeof(*g->arg_nodes));
  g->heads = tvmrt__calloc(p->heads, sizeof(*g->heads));
  g->entries = tvmrt__calloc(p->entries, sizeof(*g->entries));
  g->dims = tvmrt__calloc(extents + 1, sizeof(*g->dims)); /* those of scalars need a position too */
  r->rows = tvmrt__calloc(p->nodes + 1, sizeof(*r->rows));
  if (g->nodes == NULL || g->inputs == NULL || g->arg_nodes == NULL || g->heads == NULL ||
      g->entries == NULL || g->dims == NULL || r->rows == NULL) {
    stop(r, -1);
    return -1;
  }
  g->num_arg_nodes = p->inputs;
  g->num_entries = p->entries;
  r->extents = g->dims;
  r->extents_end = g->dims + extents;
  return 0;
}

/* ---- nodes ---- */

/* Nodes run in their order, control_deps is ignored. Other keys of a node are errors, as in TVM:
 * they would change its meaning. Other attributes are storage_scope, and additions of others. */
static void read_other(graph_reader* r, const char* key, int level, const graph_node* n) {
  if (is_stopped(r)) return;
  if (level == 1 || (n != NULL && tvmrt__json_is(key, "control_deps"))) {
    skip(r);
  } else if (n == NULL) {
    read_other_part(r, key);
  } else {
    key = unescape(r, key);
    if (!is_stopped(r))
      stop(r, tvmrt__parse_fail(&r->in, "a node has the unknown key '%.40s'", key));
  }
}

/* The table has one element per list among the nodes. */
static void add_argument(graph_reader* r, graph_row entry) {
  if (!is_stopped(r)) r->g->inputs[r->g->num_inputs++] = (size_t)entry;
}

/* A number in a text; `missing` if the text is NULL. */
static int64_t parse_int_text(graph_reader* r, const char* text, int64_t missing) {
  tvmrt_parser number;
  int64_t value = missing;
  if (text == NULL || is_stopped(r)) return missing;
  text = unescape(r, text);
  tvmrt__parse_init(&number, r->in.what, text, strlen(text));
  if (!is_stopped(r) &&
      (tvmrt__parse_int(&number, &value) != 0 || number.json.at != number.json.end)) {
    stop(r, tvmrt__parse_fail(&r->in, "'%.40s' is not a number", text));
  }
  return value;
}

/* Compared in the source text, without a copy. */
static bool text_equals(const graph_node* n, int text, const char* expected) {
  return n->texts[text] != NULL && tvmrt__json_is(n->texts[text], expected);
}

/* Checked here, while the position in the text is known. */
static int check_node(graph_reader* r, const graph_node* n, const tvmrt_graph_node* node) {
  const tvmrt_parser* in = &r->in;
  const int64_t stated = parse_int_text(r, n->texts[STATED_INPUTS], -1);
  if (is_stopped(r)) return -1;
  if (n->texts[OP] == NULL || node->name == NULL) {
    return tvmrt__parse_fail(in, "a node lacks 'op' or 'name'");
  }
  if (text_equals(n, OP, "null")) {
    if (node->num_inputs == 0) return 0;
    return tvmrt__parse_fail(in, "input node '%.60s' has inputs itself", node->name);
  }
  if (!text_equals(n, OP, "tvm_op")) {
    return tvmrt__parse_fail(in, "node '%.60s' has the unknown op '%.40s'", node->name,
                             unescape(r, n->texts[OP]));
  }
  if (node->func_name == NULL) {
    return tvmrt__parse_fail(in, "node '%.60s' lacks the attribute 'func_name'", node->name);
  }
  if (stated >= 0 && (uint64_t)stated != node->num_inputs) {
    return tvmrt__parse_fail(in, "node '%.60s' has %zu input%s and says it has %lld", node->name,
                             node->num_inputs, node->num_inputs == 1 ? "" : "s", (long long)stated);
  }
  return 0;
}

/* Counted first, so that its members are freed with the graph. */
static void add_node(graph_reader* r, const graph_node* n, uint32_t number) {
  const graph_row* row = &r->rows[number];
  tvmrt_graph_node* node = &r->g->nodes[r->g->num_nodes++];
  const bool is_input = text_equals(n, OP, "null");
  const int64_t stated = parse_int_text(r, n->texts[STATED_OUTPUTS], -1);
  node->name = copy_text(r, n->texts[NAME]);
  if (!is_input) node->func_name = copy_text(r, n->texts[FUNC_NAME]);
  node->view = copy_text(r, n->texts[VIEW]);
  node->device = copy_text(r, n->texts[DEVICE]);
  node->after = copy_text(r, n->texts[AFTER]);
  node->flatten_data = parse_int_text(r, n->texts[FLATTEN_DATA], 0) != 0;
  node->first_input = r->first_input;
  node->num_inputs = r->g->num_inputs - r->first_input;
  node->first_entry = (size_t)row[0];
  node->num_outputs = (size_t)(row[1] - row[0]);
  r->first_input = r->g->num_inputs;
  if (!is_stopped(r)) stop(r, check_node(r, n, node));
  require(r, !is_input || node->num_outputs == 1, INPUT_ENTRIES);
  require(r, is_input || stated < 0 || (uint64_t)stated == node->num_outputs, OUTPUTS_STATED);
}

/* Inputs must be memory only: a node that computes would overwrite user data. */
static void add_input(graph_reader* r, uint32_t index, uint32_t node) {
  require(r, r->g->nodes[node].func_name == NULL, INPUTS_ARE_NULL);
  r->g->arg_nodes[index] = node;
}

/* ---- entries ---- */

/* The type tag of a list of attrs: a list of another kind would be misread. */
static void keep_tag(graph_reader* r, int section, const char* tag) {
  const char* expected = section == DTYPES   ? "list_str"
                         : section == SHAPES ? "list_shape"
                                             : "list_int";
  if (is_stopped(r) || tvmrt__json_is(tag, expected)) return;
  tag = unescape(r, tag);
  stop(r, tvmrt__parse_fail(&r->in, "attribute '%s' is a '%.40s' instead of a '%s'",
                            section_names[section], tag, expected));
}

/* Types of 1, 2 and 4 bits are supported; any other size must be whole bytes. */
static void read_type(graph_reader* r, uint32_t entry) {
  DLDataType* type = &r->g->entries[entry].dtype;
  const char* text = unescape(r, tvmrt__json_text(&r->in.json));
  unsigned bits;
  if (is_stopped(r)) return;
  stop(r, tvmrt__dtype_from_text(text, type));
  bits = (unsigned)type->bits * type->lanes;
  if (is_stopped(r) || bits == 1 || bits == 2 || bits == 4 || (bits != 0 && bits % 8 == 0)) return;
  stop(r, bad_graph("a data type has a size that is not a whole number of bytes"));
}

/* Bounds the executors' table of storages by the size of the graph. */
static void read_storage_id(graph_reader* r, uint32_t entry) {
  const graph_number id = read_number(r);
  tvmrt_graph* g = r->g;
  require(r, id < g->num_entries, STORAGE_RANGE);
  if (is_stopped(r)) return;
  g->entries[entry].storage_id = (size_t)id;
  if (id >= g->num_storages) g->num_storages = (size_t)id + 1;
}

/* Unknown device types, as numbers above INT_MAX, are refused when the executor is created. */
static void read_device(graph_reader* r, uint32_t entry) {
  const graph_number type = read_number(r);
  r->g->entries[entry].device_type = type <= INT_MAX ? (int)type : -1;
}

/* After the types. Computes the size in bytes, which fails on overflow of 64 bits or for a negative
 * extent. */
static void keep_shape(graph_reader* r, uint32_t entry, int64_t* extents, uint32_t ndim) {
  tvmrt_graph_entry* e = &r->g->entries[entry];
  require(r, ndim <= TVMRT_MAX_NDIM, SHAPES_MATCH);
  if (is_stopped(r)) return;
  e->ndim = (int32_t)ndim;
  e->first_dim = (size_t)(extents - r->g->dims);
  r->g->num_dims = e->first_dim + ndim;
  stop(r, tvmrt__shape_bytes(extents, e->ndim, e->dtype, &e->bytes));
}

/* A list of attrs with its closing bracket. */
static void read_list(graph_reader* r, int section, void (*read)(graph_reader* r, uint32_t entry)) {
  read_column(r, section, read);
  tvmrt__json_expect(&r->in.json, ']');
}

/* Types before shapes: the size of an entry depends on both. */
static void read_entries(graph_reader* r) {
  const tvmrt_parse_counts* devices = &r->plan->sections[DEVICES];
  read_list(r, DTYPES, read_type);
  read_list(r, SHAPES, read_shape);
  read_list(r, STORAGE_IDS, read_storage_id);
  if (devices->at == NULL || (devices->lists == 2 && devices->values[2] == 0)) return;
  read_list(r, DEVICES, read_device);
}

/* ---- the whole graph ---- */

/* In this order: nodes need the rows, and all other indices are checked against nodes and
 * entries. */
static int read_graph(graph_reader* r) {
  TVMRT_RETURN_IF_ERROR(read_view(r));
  TVMRT_RETURN_IF_ERROR(make_tables(r));
  /* first: the rows convert edges to entry numbers */
  read_rows(r);
  if (!is_stopped(r)) read_nodes(r);
  if (!is_stopped(r)) read_entries(r);
  if (!is_stopped(r)) check_rows(r);
  if (!is_stopped(r)) read_arg_nodes(r);
  if (!is_stopped(r)) read_heads(r);
  require(r, r->g->num_head_names == 0 || r->g->num_head_names == r->g->num_heads, NAMED_HEADS);
  return is_stopped(r) ? -1 : 0;
}

/* *out is empty on failure, and may be freed in any case. The text is not kept. */
int tvmrt__graph_parse(const char* json, size_t size, tvmrt_graph* out) {
  graph_plan plan = {0};
  graph_reader r = {.plan = &plan, .g = out};
  int rc;
  memset(out, 0, sizeof(*out));
  tvmrt__parse_init(&r.in, "the graph JSON", json, size);
  rc = read_graph(&r);
  /* damage that the traversal detected has no error text yet */
  if (rc != 0 && !r.has_error_text) (void)tvmrt__parse_check(&r.in);
  free(r.rows);
  tvmrt__buf_free(&r.text);
  if (rc != 0) tvmrt__graph_free(out);
  return rc;
}

/* Accepts a partly read graph: nodes are counted one by one as they are filled. */
void tvmrt__graph_free(tvmrt_graph* graph) {
  size_t i;
  for (i = 0; i < graph->num_nodes; ++i) {
    free(graph->nodes[i].name);
    free(graph->nodes[i].func_name);
    free(graph->nodes[i].view);
    free(graph->nodes[i].device);
    free(graph->nodes[i].after);
  }
  free(graph->nodes);
  free(graph->inputs);
  free(graph->arg_nodes);
  free(graph->heads);
  free(graph->network);
  tvmrt__free_strings(graph->head_names, graph->num_head_names);
  free(graph->entries);
  free(graph->dims);
  memset(graph, 0, sizeof(*graph));
}

/* Linear search, used only while executors are created; first_entry is increasing. */
size_t tvmrt__graph_node_of(const tvmrt_graph* graph, size_t entry) {
  size_t i = 0;
  while (i + 1 < graph->num_nodes && graph->nodes[i + 1].first_entry <= entry) ++i;
  return i;
}
