/* Graph JSON: the walk over its parts and the rules between them, for all readers of graphs.
 *
 * Firmware's graph_read.c and the host's executors/graph_json.c include this and define what
 * differs: where data is stored, and how a fault is reported. Both are bound at compile time, since
 * function pointers would cost firmware memory; in firmware all faults have one code, and the
 * distinction is compiled out. Before the include they define
 *
 *   graph_number    unsigned, type of numbers read from the text
 *   graph_row       unsigned, type of `rows`; graph_item, type of the graph's own tables
 *   graph_reader    with at least
 *     in.json       the text, a tvmrt_json
 *     plan          the `sections`, each with a position `at` in the text, and the counts `nodes`,
 *                   `inputs`, `heads`, `entries` of the first pass, which tables have room for
 *     g             the graph, with `heads` and `num_heads`
 *     rows          first entry of each node, and after the last one the number of entries
 *     extents, extents_end    room for the extents of shapes, int64_t
 *   node_texts, NUM_NODE_TEXTS    keys of a node with texts as values: op, name; then those of its
 *                   attrs: func_name, num_inputs, num_outputs, flatten_data, and more of its own
 *
 * Texts are addresses in the JSON, as in json.h. After damage all reading does nothing: loops end,
 * and one test after them is enough. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_WALK_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_WALK_H_

/* Keys of the graph JSON; those from DTYPES on belong to its `attrs`. */
enum { NODES, ARG_NODES, HEADS, ROWS, DTYPES, STORAGE_IDS, SHAPES, DEVICES, NUM_SECTIONS };

static const char* const section_names[] = {"nodes",  "arg_nodes",  "heads", "node_row_ptr",
                                            "dltype", "storage_id", "shape", "device_index"};

/* Rules of a valid graph. */
typedef enum graph_fault {
  ROWS_OF_NODES,   /* rows begin with 0, and are one more than nodes */
  ROWS_INCREASE,   /* and stay within the number of entries */
  ONE_PER_ENTRY,   /* a list of attrs has an item for each entry */
  TOO_MANY_ITEMS,  /* no list has more items than the first pass has counted */
  EDGE_NUMBERS,    /* an edge is two or three numbers */
  EDGE_EXISTS,     /* and names an existing entry */
  INPUTS_ARE_NULL, /* arg_nodes has inputs only */
  INPUT_ENTRIES,   /* which have one entry */
  INPUT_READS,     /* and no inputs themselves */
  OUTPUTS_STATED,  /* a node has as many as it states */
  STORAGE_RANGE,
  SHAPES_MATCH, /* shapes and types are supported by the executor */
  NOP_RESHAPES,
  NAMED_HEADS /* all of them have a name, or none */
} graph_fault;

/* Indices of node_texts. */
enum { OP, NAME, FUNC_NAME, STATED_INPUTS, STATED_OUTPUTS, FLATTEN_DATA };

/* Texts of a node; NULL if missing. */
typedef struct graph_node {
  const char* texts[NUM_NODE_TEXTS];
} graph_node;

/* Keys of an object, then of the `attrs` in it, which have level 1. */
typedef struct graph_keys {
  uint32_t counts[2];
  int level;
} graph_keys;

/* ---- functions that each reader defines ---- */

/* Reading ends if the condition is false. */
static void require(graph_reader* r, int condition, graph_fault fault);
static graph_number read_number(graph_reader* r);
/* In the first pass: note a section and skip it. */
static void keep_section(graph_reader* r, uint32_t section, const char* key, int level);
/* The value of a key that is not read here, of the graph or of a node. */
static void read_other(graph_reader* r, const char* key, int level, const graph_node* n);
static void keep_tag(graph_reader* r, int section, const char* tag); /* of a list of attrs */
static void keep_shape(graph_reader* r, uint32_t entry, int64_t* extents, uint32_t ndim);
static void add_input(graph_reader* r, uint32_t index, uint32_t node);
static void add_argument(graph_reader* r, graph_row entry);
/* The node was read completely, and its arguments were added. */
static void add_node(graph_reader* r, const graph_node* n, uint32_t number);

/* ---- the first pass ---- */

/* The next key, up to its value; NULL after the last one. `attr` is an old name of nodes' attrs. */
static const char* next_key(graph_reader* r, graph_keys* keys) {
  tvmrt_json* in = &r->in.json;
  for (;;) {
    const char* key;
    if (!tvmrt__json_more(in, '}', &keys->counts[keys->level])) {
      if (keys->level == 0 || in->damaged) return NULL;
      keys->level = 0;
      continue;
    }
    key = tvmrt__json_text(in);
    tvmrt__json_expect(in, ':');
    if (keys->level != 0 || !(tvmrt__json_is(key, "attrs") || tvmrt__json_is(key, "attr"))) {
      return key;
    }
    tvmrt__json_expect(in, '{');
    keys->level = 1;
    keys->counts[1] = 0;
  }
}

/* Index of a key; `count` if there is no such key. */
static uint32_t find_key(const char* key, const char* const* names, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count && (*key != *names[i] || !tvmrt__json_is(key, names[i])); ++i) {
  }
  return i;
}

/* Find the sections. Keys of `attrs` differ from those of the graph, so both share one table. */
static void find_sections(graph_reader* r) {
  graph_keys keys = {{0, 0}, 0};
  const char* key;
  tvmrt__json_expect(&r->in.json, '{');
  while ((key = next_key(r, &keys)) != NULL) {
    uint32_t section = find_key(key, section_names, NUM_SECTIONS);
    if (section == NUM_SECTIONS) {
      read_other(r, key, keys.level, NULL);
    } else {
      keep_section(r, section, key, keys.level);
    }
  }
}

/* ---- the second pass ---- */

/* The same text is read again for each section, in the order of their dependencies. */
static void open_section(graph_reader* r, int section) {
  r->in.json.at = r->plan->sections[section].at;
  tvmrt__json_expect(&r->in.json, '[');
}

/* Rows rise from 0 to the number of entries, which is the last one: a node's entries lie between
 * two rows. A falling row gives a difference beyond all, as numbers are unsigned. The last one is
 * compared before narrowing, which might hide that rows exceed the entries. */
static void read_rows(graph_reader* r) {
  uint32_t count = 0;
  graph_number last = 0;
  open_section(r, ROWS);
  while (tvmrt__json_more(&r->in.json, ']', &count)) {
    graph_number row = read_number(r);
    require(
        r,
        count <= r->plan->nodes + 1 && (count != 1 || row == 0) && row - last <= r->plan->entries,
        row - last <= r->plan->entries ? ROWS_OF_NODES : ROWS_INCREASE);
    if (r->in.json.damaged) return;
    r->rows[count - 1] = (graph_row)row;
    last = row;
  }
  require(r, count == r->plan->nodes + 1 && (graph_row)last == last, ROWS_OF_NODES);
}

/* After read_rows(). */
static void check_rows(graph_reader* r) {
  require(r, r->rows[r->plan->nodes] == r->plan->entries, ONE_PER_ENTRY);
}

/* A list of attrs: its tag, and an item for each entry. */
static void read_column(graph_reader* r, int section,
                        void (*read)(graph_reader* r, uint32_t entry)) {
  uint32_t count = 0;
  if (r->in.json.damaged) return;
  open_section(r, section);
  keep_tag(r, section, tvmrt__json_text(&r->in.json));
  tvmrt__json_expect(&r->in.json, ',');
  tvmrt__json_expect(&r->in.json, '[');
  while (tvmrt__json_more(&r->in.json, ']', &count)) {
    require(r, count <= r->plan->entries, ONE_PER_ENTRY);
    if (r->in.json.damaged) return;
    read(r, count - 1);
  }
  require(r, count == r->plan->entries, ONE_PER_ENTRY);
}

/* Extents of all shapes are stored consecutively. */
static void read_shape(graph_reader* r, uint32_t entry) {
  int64_t* first = r->extents;
  uint32_t ndim = 0;
  tvmrt__json_expect(&r->in.json, '[');
  while (tvmrt__json_more(&r->in.json, ']', &ndim)) {
    require(r, r->extents < r->extents_end, TOO_MANY_ITEMS);
    if (r->in.json.damaged) return;
    *r->extents++ = (int64_t)read_number(r);
  }
  keep_shape(r, entry, first, ndim);
}

static void read_arg_nodes(graph_reader* r) {
  uint32_t count = 0;
  open_section(r, ARG_NODES);
  while (tvmrt__json_more(&r->in.json, ']', &count)) {
    graph_number node = read_number(r);
    require(r, node < r->plan->nodes && count <= r->plan->inputs, INPUTS_ARE_NULL);
    if (r->in.json.damaged) return;
    add_input(r, count - 1, (uint32_t)node);
  }
  require(r, count == r->plan->inputs, INPUTS_ARE_NULL);
}

/* [node, output] or [node, output, version], as an entry. The node must be below `limit`: for a
 * node's inputs this is the node itself, so that nodes run in order, without cycles. */
static graph_row read_edge(graph_reader* r, uint32_t limit) {
  graph_number numbers[3] = {0, 0, 0};
  uint32_t count = 0;
  const graph_row* rows = r->rows;
  tvmrt__json_expect(&r->in.json, '[');
  while (tvmrt__json_more(&r->in.json, ']', &count)) {
    require(r, count <= 3, EDGE_NUMBERS);
    if (r->in.json.damaged) return 0;
    numbers[count - 1] = read_number(r);
  }
  require(r, count >= 2 && numbers[0] < limit, count < 2 ? EDGE_NUMBERS : EDGE_EXISTS);
  if (r->in.json.damaged) return 0;
  rows += numbers[0];
  require(r, numbers[1] < (graph_number)(rows[1] - rows[0]), EDGE_EXISTS);
  return (graph_row)(rows[0] + numbers[1]);
}

static void read_heads(graph_reader* r) {
  uint32_t count = 0;
  open_section(r, HEADS);
  while (tvmrt__json_more(&r->in.json, ']', &count)) {
    graph_row entry = read_edge(r, (uint32_t)r->plan->nodes);
    require(r, count <= r->plan->heads, TOO_MANY_ITEMS);
    if (!r->in.json.damaged) r->g->heads[count - 1] = (graph_item)entry;
  }
  r->g->num_heads = (graph_item)count;
}

/* Attributes of operators are texts, also if they are numbers. */
static void read_node(graph_reader* r, uint32_t number, graph_node* n) {
  tvmrt_json* in = &r->in.json;
  graph_keys keys = {{0, 0}, 0};
  const char* key;
  tvmrt__json_expect(in, '{');
  while ((key = next_key(r, &keys)) != NULL) {
    uint32_t text = find_key(key, node_texts, NUM_NODE_TEXTS);
    if (text < NUM_NODE_TEXTS && (text >= FUNC_NAME) == keys.level) {
      n->texts[text] = tvmrt__json_text(in);
    } else if (keys.level == 0 && tvmrt__json_is(key, "inputs")) {
      uint32_t edges = 0;
      tvmrt__json_expect(in, '[');
      while (tvmrt__json_more(in, ']', &edges)) add_argument(r, read_edge(r, number));
    } else {
      read_other(r, key, keys.level, n);
    }
  }
}

/* After read_rows(), as edges are converted to entries when they are read. */
static void read_nodes(graph_reader* r) {
  uint32_t count = 0;
  open_section(r, NODES);
  while (tvmrt__json_more(&r->in.json, ']', &count)) {
    graph_node n;
    require(r, count <= r->plan->nodes, ROWS_OF_NODES);
    if (r->in.json.damaged) return;
    memset(&n, 0, sizeof(n));
    read_node(r, count - 1, &n);
    if (!r->in.json.damaged) add_node(r, &n, count - 1);
  }
  require(r, count == r->plan->nodes, ROWS_OF_NODES);
}

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_GRAPH_WALK_H_ */
