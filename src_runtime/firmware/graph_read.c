/* Firmware runtime: the tables of an executor, filled from its graph JSON.
 *
 * The parts are read in the order in which they build on each other, whatever their order in the
 * text. Every number is checked before it is used as an index. */

#include <tvm/runtime/crt/graph_dims.h>

#include "../../src_backend/bytes.h"
#include "../../src_backend/text.h"
#include "dtype.h"
#include "graph.h"

typedef struct reader {
  tvmrt_json in;
  const graph_plan* plan;
  TVMGraphExecutor* g;
  const TVMFuncRegistry* functions;
  uint16_t next_function; /* where the next look-up starts: tables often have the graph's order */
  const char* next_name;
  uint32_t next_input;
  int64_t* extents; /* unused ones */
  int64_t* extents_end;
  TVMValue* values; /* unused ones */
  TVMValue* values_end;
  graph_op* ops_end; /* end of the room */
  tvm_crt_error_t error;
} reader;

/* What a node says of itself. */
typedef struct node {
  const char* name;
  const char* function; /* NULL: none */
  int is_input;
  TVMValue* args;
  const char* num_inputs; /* texts of numbers; NULL: not said */
  const char* num_outputs;
} node;

typedef void (*read_item)(reader* r, uint32_t entry);

/* What goes wrong first is told: the text's damage has no error of its own yet. */
static void fail(reader* r, tvm_crt_error_t error) {
  if (!r->in.damaged) r->error = error;
  r->in.damaged = 1;
  r->in.end = r->in.at;
}

/* Once damaged, all reading functions do nothing: loops end, and one test at their end is
 * enough. */
static void require(reader* r, int condition) {
  if (!condition) fail(r, kTvmErrorGraphInconsistent);
}

/* The same text is walked once for each section; at has been found by the plan. */
static void open_section(reader* r, int section) {
  r->in.at = r->plan->sections[section].at;
  tvmrt__json_expect(&r->in, '[');
}

/* Rows rise from 0 to the number of entries: what a node has lies between two of them. */
static void read_rows(reader* r) {
  uint32_t count = 0;
  uint32_t last = 0;
  open_section(r, ROWS);
  while (tvmrt__json_more(&r->in, ']', &count)) {
    uint32_t row = tvmrt__json_number(&r->in);
    require(r, count <= r->plan->nodes + 1 && row >= last && row <= r->plan->entries &&
                   (count != 1 || row == 0));
    if (r->in.damaged) return;
    r->g->rows[count - 1] = (uint16_t)row;
    last = row;
  }
  require(r, count == r->plan->nodes + 1 && last == r->plan->entries);
}

/* A list of attrs: its tag, and an item for each entry. */
static void read_column(reader* r, int section, read_item item) {
  uint32_t count = 0;
  if (r->in.damaged) return;
  open_section(r, section);
  (void)tvmrt__json_text(&r->in);
  tvmrt__json_expect(&r->in, ',');
  tvmrt__json_expect(&r->in, '[');
  while (tvmrt__json_more(&r->in, ']', &count)) {
    require(r, count <= r->plan->entries);
    if (r->in.damaged) return;
    item(r, count - 1);
  }
  require(r, count == r->plan->entries);
}

static void read_storage_id(reader* r, uint32_t entry) {
  uint32_t id = tvmrt__json_number(&r->in);
  require(r, id < EXTERNAL);
  r->g->storage_ids[entry] = (uint16_t)id;
}

static void read_type(reader* r, uint32_t entry) {
  const char* text = tvmrt__json_text(&r->in);
  require(r, tvmrt__read_dtype(text, '"', &r->g->entries[entry].dtype));
}

static void read_device(reader* r, uint32_t entry) {
  (void)entry;
  require(r, tvmrt__json_number(&r->in) == kDLCPU);
}

static void read_shape(reader* r, uint32_t entry) {
  DLTensor* tensor = &r->g->entries[entry];
  uint32_t ndim = 0;
  int ok;
  tensor->shape = r->extents;
  tvmrt__json_expect(&r->in, '[');
  while (tvmrt__json_more(&r->in, ']', &ndim)) {
    require(r, r->extents < r->extents_end);
    if (r->in.damaged) return;
    *r->extents++ = (int64_t)tvmrt__json_number(&r->in);
  }
  tensor->ndim = (int32_t)ndim;
  tensor->device.device_type = kDLCPU;
  (void)tvmrt__graph_bytes(tensor, &ok);
  require(r, ok);
}

/* Of an entry that read_shape() has accepted. */
static size_t bytes_of(const TVMGraphExecutor* g, uint32_t entry) {
  int ok;
  return tvmrt__graph_bytes(&g->entries[entry], &ok);
}

static void read_arg_nodes(reader* r) {
  uint32_t count = 0;
  open_section(r, ARG_NODES);
  while (tvmrt__json_more(&r->in, ']', &count)) {
    uint32_t i = tvmrt__json_number(&r->in);
    require(r, i < r->plan->nodes && count <= r->plan->inputs);
    if (r->in.damaged) return;
    require(r, r->g->rows[i + 1] - r->g->rows[i] == 1);
    r->g->inputs[count - 1].entry = r->g->rows[i];
    /* whatever the graph lets write to an input gets memory of its own: this may be flash */
    r->g->storage_ids[r->g->rows[i]] = (uint16_t)(EXTERNAL | (count - 1));
  }
  require(r, count == r->plan->inputs);
}

/* [node, output] or [node, output, version], of a node below `limit`, as an entry. */
static uint32_t read_edge(reader* r, uint32_t limit) {
  uint32_t numbers[3] = {0, 0, 0};
  uint32_t count = 0;
  const uint16_t* rows = r->g->rows;
  tvmrt__json_expect(&r->in, '[');
  while (tvmrt__json_more(&r->in, ']', &count)) {
    require(r, count <= 3);
    if (r->in.damaged) return 0;
    numbers[count - 1] = tvmrt__json_number(&r->in);
  }
  require(r, count >= 2 && numbers[0] < limit);
  if (r->in.damaged) return 0;
  require(r, numbers[1] < (uint32_t)(rows[numbers[0] + 1] - rows[numbers[0]]));
  return rows[numbers[0]] + numbers[1];
}

/* There are as many values as the plan has counted edges and results. */
static void add_argument(reader* r, uint32_t entry) {
  require(r, r->values < r->values_end);
  if (!r->in.damaged) (r->values++)->v_handle = &r->g->entries[entry];
}

static void read_heads(reader* r) {
  uint32_t count = 0;
  open_section(r, HEADS);
  while (tvmrt__json_more(&r->in, ']', &count)) {
    uint32_t entry = read_edge(r, r->plan->nodes);
    require(r, count <= r->plan->heads);
    if (!r->in.damaged) r->g->heads[count - 1] = (uint16_t)entry;
  }
  r->g->num_heads = (uint16_t)count;
}

static void read_node_attrs(reader* r, node* n) {
  tvmrt_json_tally skipped;
  uint32_t count = 0;
  tvmrt__json_expect(&r->in, '{');
  while (tvmrt__json_more(&r->in, '}', &count)) {
    const char* key = tvmrt__json_text(&r->in);
    tvmrt__json_expect(&r->in, ':');
    if (tvmrt__json_is(key, "func_name")) {
      n->function = tvmrt__json_text(&r->in);
    } else if (tvmrt__json_is(key, "num_inputs")) {
      n->num_inputs = tvmrt__json_text(&r->in);
    } else if (tvmrt__json_is(key, "num_outputs")) {
      n->num_outputs = tvmrt__json_text(&r->in);
    } else if (tvmrt__json_is(key, "flatten_data")) {
      /* operators that want vectors of all their tensors: no compiler of this kind writes them */
      if (!tvmrt__json_is(tvmrt__json_text(&r->in), "0")) {
        fail(r, kTvmErrorFunctionCallNotImplemented);
      }
    } else {
      tvmrt__json_skip(&r->in, &skipped);
    }
  }
}

static void read_node(reader* r, uint32_t index, node* n) {
  tvmrt_json_tally skipped;
  uint32_t count = 0;
  tvmrt__json_expect(&r->in, '{');
  while (tvmrt__json_more(&r->in, '}', &count)) {
    const char* key = tvmrt__json_text(&r->in);
    tvmrt__json_expect(&r->in, ':');
    if (tvmrt__json_is(key, "op")) {
      n->is_input = tvmrt__json_is(tvmrt__json_text(&r->in), "null");
    } else if (tvmrt__json_is(key, "name")) {
      n->name = tvmrt__json_text(&r->in);
    } else if (tvmrt__json_is(key, "inputs")) {
      uint32_t edges = 0;
      tvmrt__json_expect(&r->in, '[');
      while (tvmrt__json_more(&r->in, ']', &edges)) add_argument(r, read_edge(r, index));
    } else if (tvmrt__json_is(key, "attrs") || tvmrt__json_is(key, "attr")) {
      read_node_attrs(r, n);
    } else {
      tvmrt__json_skip(&r->in, &skipped);
    }
  }
}

/* Nodes name most inputs in the order of arg_nodes. */
static void name_input(reader* r, uint32_t entry, const char* name) {
  TVMGraphExecutor* g = r->g;
  uint32_t i;
  for (i = 0; i < r->plan->inputs; ++i) {
    graph_input* input = &g->inputs[r->next_input];
    if (++r->next_input == r->plan->inputs) r->next_input = 0;
    if (input->entry != entry) continue;
    require(r, name != NULL && input->name == NULL);
    input->name = name;
    return;
  }
  require(r, 0);
}

/* Goes round the table once at most, from where the last look-up ended. */
static TVMCPackedFunc find_function(reader* r, const char* name) {
  uint16_t count = TVMFuncRegistry_GetNumFuncs(r->functions);
  uint16_t left;
  for (left = count; left != 0; --left) {
    const char* candidate = r->next_name;
    uint16_t i = r->next_function;
    size_t size = tvmrt__text_length(candidate);
    r->next_name += size + 1;
    if (++r->next_function == count) {
      r->next_function = 0;
      r->next_name = TVMFuncRegistry_Get0thFunctionName(r->functions);
    }
    if (tvmrt__json_same(name, candidate, size)) return r->functions->funcs[i];
  }
  return NULL;
}

/* A node that only gives its input another shape: both are one memory. */
static void check_nop(reader* r, const node* n, uint32_t first, uint32_t end) {
  TVMGraphExecutor* g = r->g;
  uint32_t from;
  require(r, r->values - n->args == 1 && end - first == 1);
  if (r->in.damaged) return;
  from = (uint32_t)((DLTensor*)n->args[0].v_handle - g->entries);
  require(r,
          g->storage_ids[from] == g->storage_ids[first] && bytes_of(g, from) == bytes_of(g, first));
  r->values = n->args;
}

/* Whether a node's statement, if there is one, is this number. */
static int agrees(const char* text, uint32_t number) {
  uint32_t value = 0;
  if (text == NULL) return 1;
  for (; *text >= '0' && *text <= '9' && value < MOST_ITEMS; ++text) {
    value = value * 10 + (uint32_t)(*text - '0');
  }
  return *text == '"' && value == number;
}

/* A node that is no input. first and end are its entries; its inputs lie in n->args already. */
static void add_op(reader* r, const node* n, uint32_t first, uint32_t end) {
  TVMGraphExecutor* g = r->g;
  graph_op* op = g->ops_end;
  require(r, op < r->ops_end && n->function != NULL &&
                 agrees(n->num_inputs, (uint32_t)(r->values - n->args)) &&
                 agrees(n->num_outputs, end - first));
  if (r->in.damaged) return;
  if (tvmrt__json_is(n->function, "__nop")) {
    check_nop(r, n, first, end);
    return;
  }
  op->function = find_function(r, n->function);
  if (op->function == NULL) fail(r, kTvmErrorFunctionNameNotFound);
  for (; first < end; ++first) add_argument(r, first);
  op->args = n->args;
  op->num_args = r->values - n->args;
  if (op->num_args > g->most_args) g->most_args = (uint16_t)op->num_args;
  ++g->ops_end;
}

static void read_nodes(reader* r) {
  uint32_t count = 0;
  open_section(r, NODES);
  while (tvmrt__json_more(&r->in, ']', &count)) {
    node n;
    const uint16_t* row = &r->g->rows[count - 1];
    require(r, count <= r->plan->nodes);
    if (r->in.damaged) return;
    memset(&n, 0, sizeof(n));
    n.args = r->values;
    read_node(r, count - 1, &n);
    if (r->in.damaged) return;
    if (n.is_input) {
      require(r, r->values == n.args);
      name_input(r, row[0], n.name);
    } else {
      add_op(r, &n, row[0], row[1]);
    }
  }
  require(r, count == r->plan->nodes);
}

/* Inputs that no node has named are no inputs. */
static void check_inputs(reader* r) {
  uint32_t i;
  for (i = 0; i < r->plan->inputs; ++i) require(r, r->g->inputs[i].name != NULL);
}

/* The table of a network whose runs choose extents begins with a function that tells so; what
 * operators are called does not begin like its name. */
static void open_sizes(reader* r) {
  TVMValue executor;
  executor.v_handle = r->g;
  if (*TVMFuncRegistry_Get0thFunctionName(r->functions) != TVMRT_GRAPH_OPEN[0]) return;
  r->error = (tvm_crt_error_t)r->functions->funcs[0](&executor, NULL, 1, NULL, NULL, NULL);
}

/* The order of alignments: 8 bytes, pointers, 2 bytes. Takes the memory that
 * TVMRT_GRAPH_TABLE_BYTES has measured; the struct comes first. */
static void lay_out(TVMGraphExecutor* g, const graph_plan* plan, reader* r) {
  uint32_t args = plan->edges + plan->entries - plan->inputs;
  uint32_t ops = plan->nodes - plan->inputs;
  g->entries = (DLTensor*)(void*)((uint8_t*)g + TVMRT_GRAPH_EXECUTOR_BYTES);
  r->extents = (int64_t*)(void*)(g->entries + plan->entries);
  r->extents_end = r->extents + plan->extents;
  g->values = (TVMValue*)(void*)r->extents_end;
  r->values = g->values;
  r->values_end = g->values + args;
  g->ops = (graph_op*)(void*)r->values_end;
  g->ops_end = g->ops;
  r->ops_end = g->ops + ops;
  g->inputs = (graph_input*)(void*)r->ops_end;
  g->rows = (uint16_t*)(void*)(g->inputs + plan->inputs);
  g->storage_ids = g->rows + plan->nodes + 1;
  g->heads = g->storage_ids + plan->entries;
  g->num_nodes = (uint16_t)plan->nodes;
  g->num_inputs = g->num_unset = (uint16_t)plan->inputs;
  g->num_entries = (uint16_t)plan->entries;
}

/* The tables may be used on success alone; nothing is to be freed otherwise. Names of inputs point
 * into the JSON, which must stay. */
tvm_crt_error_t tvmrt__graph_read(const graph_plan* plan, const TVMModule* module,
                                  TVMGraphExecutor* g) {
  reader r;
  if (module == NULL || module->registry == NULL || module->registry->names == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  memset(&r, 0, sizeof(r));
  memset(g, 0, tvmrt__graph_table_bytes(plan));
  r.plan = plan;
  r.g = g;
  r.functions = module->registry;
  r.next_name = TVMFuncRegistry_Get0thFunctionName(r.functions);
  r.in = plan->json;
  lay_out(g, plan, &r);
  read_rows(&r);
  read_column(&r, STORAGE_IDS, read_storage_id);
  read_column(&r, DTYPES, read_type);
  read_column(&r, SHAPES, read_shape);
  if (plan->sections[DEVICES].at != NULL) read_column(&r, DEVICES, read_device);
  if (!r.in.damaged) read_arg_nodes(&r);
  if (!r.in.damaged) read_nodes(&r);
  if (!r.in.damaged) read_heads(&r);
  if (!r.in.damaged) check_inputs(&r);
  if (!r.in.damaged) open_sizes(&r);
  if (r.in.damaged && r.error == kTvmErrorNoError) r.error = kTvmErrorGraphJsonDamaged;
  return r.error;
}
