/* Firmware runtime: the tables of a graph executor, filled from its graph JSON.
 *
 * Two passes. The first finds the sections and counts their items by brackets and commas, so that
 * all memory can be measured and provided at once; damaged texts give wrong counts, which the
 * second pass detects as it compares each list with its count. The second pass reads the sections
 * in the order of their dependencies, whatever their order in the text, and checks every number
 * before it is used as an index. */

#include <tvm/runtime/crt/graph_dims.h>

#include "../../../src_backend/mem_functions.h"
#include "../../../src_backend/string_functions.h"
#include "../aot/dtype.h"
#include "graph.h"

typedef uint32_t graph_number;
typedef uint16_t graph_row;
typedef uint16_t graph_item;

typedef struct graph_reader {
  struct {
    tvmrt_json json;
  } in; /* nested as in the host's reader */
  const graph_plan* plan;
  tvmrt_json_tally* found; /* sections, by the first pass */
  TVMGraphExecutor* g;
  uint16_t* rows;
  const TVMFuncRegistry* functions;
  uint16_t next_function; /* where the next look-up starts, as tables often have the graph's
                           * order */
  const char* next_name;
  uint32_t next_input;
  int64_t* extents; /* unused ones */
  int64_t* extents_end;
  TVMValue* values; /* unused ones */
  TVMValue* values_end;
  TVMValue* args;    /* of the current node */
  graph_op* ops_end; /* end of the table */
  /* the first error; if none is set, the text is damaged or valid */
  tvm_crt_error_t error;
} graph_reader;

enum { NUM_NODE_TEXTS = 6 };
static const char* const node_texts[] = {"op",         "name",        "func_name",
                                         "num_inputs", "num_outputs", "flatten_data"};

#include "graph_walk.h"

typedef char sections_fit[(int)GRAPH_SECTIONS == (int)NUM_SECTIONS ? 1 : -1];

/* The first error is kept: a damaged text has no error code of its own yet. */
static void fail(graph_reader* r, tvm_crt_error_t error) {
  if (!r->in.json.damaged) r->error = error;
  r->in.json.damaged = TVMRT_JSON_VALUE;
  r->in.json.end = r->in.json.at;
}

/* ---- functions for graph_walk.h ---- */

/* After damage all reading functions do nothing: loops end, and one test after them is enough. The
 * fault is ignored: a board has one code for all faults. */
static void require(graph_reader* r, int condition, graph_fault fault) {
  (void)fault;
  if (!condition) fail(r, kTvmErrorGraphInconsistent);
}

/* A number of 31 bits, 0 if the text is damaged. */
static uint32_t read_number(graph_reader* r) { return tvmrt__json_number(&r->in.json); }

/* Noted and skipped. If a key occurs twice the last one counts, as in most readers. */
static void keep_section(graph_reader* r, uint32_t section, const char* key, int level) {
  (void)key;
  (void)level;
  tvmrt__json_skip(&r->in.json, &r->found[section]);
}

/* Keys that no executor of a board needs. */
static void read_other(graph_reader* r, const char* key, int level, const graph_node* n) {
  tvmrt_json_tally skipped;
  (void)key;
  (void)level;
  (void)n;
  tvmrt__json_skip(&r->in.json, &skipped);
}

/* The type of a list is known from its key. */
static void keep_tag(graph_reader* r, int section, const char* tag) {
  (void)r;
  (void)section;
  (void)tag;
}

/* Types are read before shapes, so that bytes can be counted: a tensor of 2^31 bytes or more is
 * rejected here. */
static void keep_shape(graph_reader* r, uint32_t entry, int64_t* first, uint32_t ndim) {
  DLTensor* tensor = &r->g->entries[entry];
  int ok;
  tensor->shape = first;
  tensor->ndim = (int32_t)ndim;
  tensor->device.device_type = kDLCPU;
  (void)tvmrt__graph_bytes(tensor, &ok);
  require(r, ok, SHAPES_MATCH);
}

/* Tensors that operators write to never share an input's memory, which may be flash. */
static void add_input(graph_reader* r, uint32_t index, uint32_t node) {
  const uint16_t* row = &r->rows[node];
  require(r, row[1] - row[0] == 1, INPUT_ENTRIES);
  r->g->inputs[index].entry = row[0];
  r->g->storage_ids[row[0]] = (uint16_t)(EXTERNAL | index);
}

/* There are as many values as the plan has counted edges and results. */
static void add_argument(graph_reader* r, uint16_t entry) {
  require(r, r->values < r->values_end, TOO_MANY_ITEMS);
  if (!r->in.json.damaged) (r->values++)->v_handle = &r->g->entries[entry];
}

/* ---- the first pass ---- */

/* a - b; if negative, more than any graph has. */
static uint32_t subtract_or_excess(uint32_t a, uint32_t b) {
  return a < b ? MAX_ITEMS + 1u : a - b;
}

/* A list without items has no commas either, so this distinguishes it from a list of one item. */
static int is_empty(const graph_plan* plan, int section) {
  tvmrt_json in;
  in.at = plan->sections[section].at + 1;
  in.end = plan->json.end;
  return tvmrt__json_peek(&in) == ']';
}

/* A list of n items has n - 1 commas; the lists of attrs are nested in another one, after their
 * tag. Indices have 15 bits, as the 16th bit of a storage id marks inputs. */
static int count(graph_plan* plan) {
  const tvmrt_json_tally* s = plan->sections;
  plan->nodes = s[ROWS].commas;
  plan->inputs = is_empty(plan, ARG_NODES) ? 0 : s[ARG_NODES].commas + 1;
  plan->heads = subtract_or_excess(s[HEADS].lists, 1);
  plan->entries = s[STORAGE_IDS].commas;
  plan->extents = s[SHAPES].commas;
  plan->edges = subtract_or_excess(s[NODES].lists, plan->nodes + 1);
  return plan->nodes <= MAX_ITEMS && plan->inputs <= plan->nodes && plan->inputs <= plan->entries &&
         plan->heads <= MAX_ITEMS && plan->entries <= MAX_ITEMS && plan->extents <= 4 * MAX_ITEMS &&
         plan->edges <= MAX_ITEMS;
}

/* Sections are given by their positions in the text, which is borrowed. All but the last are
 * required: graphs for one device need not name it. */
tvm_crt_error_t tvmrt__graph_plan(const char* json, size_t json_bytes, graph_plan* plan) {
  graph_reader r;
  int i;
  tvmrt__json_open(&r.in.json, json, json_bytes);
  r.found = plan->sections;
  plan->json = r.in.json;
  for (i = 0; i < NUM_SECTIONS; ++i) plan->sections[i].at = NULL;
  find_sections(&r);
  if (r.in.json.damaged) return kTvmErrorGraphJsonDamaged;
  for (i = 0; i < DEVICES; ++i) {
    if (plan->sections[i].at == NULL) return kTvmErrorGraphJsonDamaged;
  }
  return count(plan) ? kTvmErrorNoError : kTvmErrorGraphInconsistent;
}

size_t tvmrt__graph_table_bytes(const graph_plan* plan) {
  return TVMRT_GRAPH_TABLE_BYTES(plan->nodes, plan->inputs, plan->heads, plan->entries,
                                 plan->extents, plan->edges);
}

/* ---- the second pass ---- */

/* Any number without the EXTERNAL bit: it is compared with others, never used as an index. */
static void read_storage_id(graph_reader* r, uint32_t entry) {
  uint32_t id = tvmrt__json_number(&r->in.json);
  require(r, id < EXTERNAL, STORAGE_RANGE);
  r->g->storage_ids[entry] = (uint16_t)id;
}

static void read_type(graph_reader* r, uint32_t entry) {
  const char* text = tvmrt__json_text(&r->in.json);
  require(r, tvmrt__read_dtype(text, '"', &r->g->entries[entry].dtype), SHAPES_MATCH);
}

/* A board cannot run graphs for other devices. */
static void read_device(graph_reader* r, uint32_t entry) {
  (void)entry;
  require(r, tvmrt__json_number(&r->in.json) == kDLCPU, SHAPES_MATCH);
}

/* Of an entry that read_shape() has accepted. */
static size_t bytes_of(const TVMGraphExecutor* g, uint32_t entry) {
  int ok;
  return tvmrt__graph_bytes(&g->entries[entry], &ok);
}

/* Nodes name most inputs in the order of arg_nodes. */
static void name_input(graph_reader* r, uint32_t entry, const char* name) {
  TVMGraphExecutor* g = r->g;
  uint32_t i;
  for (i = 0; i < r->plan->inputs; ++i) {
    graph_input* input = &g->inputs[r->next_input];
    if (++r->next_input == r->plan->inputs) r->next_input = 0;
    if (input->entry != entry) continue;
    require(r, name != NULL && input->name == NULL, INPUTS_ARE_NULL);
    input->name = name;
    return;
  }
  require(r, 0, INPUTS_ARE_NULL);
}

/* Searches the table once, from the end of the last look-up. NULL if no entry has the name. Names
 * are stored consecutively, so the next one is found by the length of this one. */
static TVMCPackedFunc find_function(graph_reader* r, const char* name) {
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

/* A node that only reshapes its input: both share memory. It becomes no operator, so its argument
 * is removed again. */
static void check_nop(graph_reader* r, uint32_t first, uint32_t end) {
  TVMGraphExecutor* g = r->g;
  uint32_t from;
  require(r, r->values - r->args == 1 && end - first == 1, NOP_RESHAPES);
  if (r->in.json.damaged) return;
  from = (uint32_t)((DLTensor*)r->args[0].v_handle - g->entries);
  require(r,
          g->storage_ids[from] == g->storage_ids[first] && bytes_of(g, from) == bytes_of(g, first),
          NOP_RESHAPES);
  r->values = r->args;
}

/* Whether a number stated by a node, if any, equals this one. A missing number agrees. A number
 * with more digits ends the loop and does not match. */
static int equals_number(const char* text, uint32_t number) {
  uint32_t value = 0;
  if (text == NULL) return 1;
  for (; *text >= '0' && *text <= '9' && value < MAX_ITEMS; ++text) {
    value = value * 10 + (uint32_t)(*text - '0');
  }
  return *text == '"' && value == number;
}

/* A node that is not an input. first and end are its entries; its inputs are in r->args already.
 * Outputs are arguments as well, after the inputs: operators only get tensors. */
static void add_op(graph_reader* r, const graph_node* n, uint32_t first, uint32_t end) {
  TVMGraphExecutor* g = r->g;
  graph_op* op = g->ops_end;
  require(r,
          op < r->ops_end && n->texts[FUNC_NAME] != NULL &&
              equals_number(n->texts[STATED_INPUTS], (uint32_t)(r->values - r->args)) &&
              equals_number(n->texts[STATED_OUTPUTS], end - first),
          OUTPUTS_STATED);
  if (r->in.json.damaged) return;
  /* flattened tensors: no supported compiler writes that */
  if (n->texts[FLATTEN_DATA] != NULL && !tvmrt__json_is(n->texts[FLATTEN_DATA], "0")) {
    fail(r, kTvmErrorFunctionCallNotImplemented);
  }
  if (tvmrt__json_is(n->texts[FUNC_NAME], "__nop")) {
    check_nop(r, first, end);
    return;
  }
  op->function = find_function(r, n->texts[FUNC_NAME]);
  /* the following writes are bounded in any case */
  if (op->function == NULL) fail(r, kTvmErrorFunctionNameNotFound);
  for (; first < end; ++first) add_argument(r, (uint16_t)first);
  op->args = r->args;
  op->num_args = r->values - r->args;
  if (op->num_args > g->max_args) g->max_args = (uint16_t)op->num_args;
  ++g->ops_end;
}

static void add_node(graph_reader* r, const graph_node* n, uint32_t number) {
  const uint16_t* row = &r->rows[number];
  if (n->texts[OP] != NULL && tvmrt__json_is(n->texts[OP], "null")) {
    require(r, r->values == r->args, INPUT_READS);
    name_input(r, row[0], n->texts[NAME]);
  } else {
    add_op(r, n, row[0], row[1]);
  }
  r->args = r->values;
}

/* Inputs without a node that names them are invalid. */
static void check_inputs(graph_reader* r) {
  uint32_t i;
  for (i = 0; i < r->plan->inputs; ++i) require(r, r->g->inputs[i].name != NULL, INPUTS_ARE_NULL);
}

/* If runs of a network choose extents, its table begins with a function that sets this up; no
 * operator's name begins like its name. The result of that function is the error of this
 * reading. */
static void init_dynamic_sizes(graph_reader* r) {
  TVMValue executor;
  executor.v_handle = r->g;
  if (*TVMFuncRegistry_Get0thFunctionName(r->functions) != TVMRT_GRAPH_OPEN[0]) return;
  r->error = (tvm_crt_error_t)r->functions->funcs[0](&executor, NULL, 1, NULL, NULL, NULL);
}

/* In the order of alignments: 8 bytes, pointers, 2 bytes. Uses the memory measured by
 * TVMRT_GRAPH_TABLE_BYTES; the struct comes first. Counts are the plan's; each list is compared
 * with its count when it is read. */
static void lay_out(TVMGraphExecutor* g, const graph_plan* plan, graph_reader* r) {
  uint32_t args = plan->edges + plan->entries - plan->inputs;
  uint32_t ops = plan->nodes - plan->inputs;
  g->entries = (DLTensor*)(void*)((uint8_t*)g + TVMRT_GRAPH_EXECUTOR_BYTES);
  r->extents = (int64_t*)(void*)(g->entries + plan->entries);
  r->extents_end = r->extents + plan->extents;
  g->values = (TVMValue*)(void*)r->extents_end;
  r->args = r->values = g->values;
  r->values_end = g->values + args;
  g->ops = (graph_op*)(void*)r->values_end;
  g->ops_end = g->ops;
  r->ops_end = g->ops + ops;
  g->inputs = (graph_input*)(void*)r->ops_end;
  r->rows = g->rows = (uint16_t*)(void*)(g->inputs + plan->inputs);
  g->storage_ids = g->rows + plan->nodes + 1;
  g->heads = g->storage_ids + plan->entries;
  g->num_nodes = (uint16_t)plan->nodes;
  g->num_inputs = g->num_unset = (uint16_t)plan->inputs;
  g->num_entries = (uint16_t)plan->entries;
}

/* The tables are valid on success only; nothing must be freed on failure. Names of inputs point
 * into the JSON, which must stay valid. */
tvm_crt_error_t tvmrt__graph_read(const graph_plan* plan, const TVMModule* module,
                                  TVMGraphExecutor* g) {
  graph_reader r;
  if (module == NULL || module->registry == NULL || module->registry->names == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  memset(&r, 0, sizeof(r));
  /* all of it: data that is NULL means an input that is not set, or a tensor without memory */
  memset(g, 0, tvmrt__graph_table_bytes(plan));
  r.plan = plan;
  r.g = g;
  r.functions = module->registry;
  r.next_name = TVMFuncRegistry_Get0thFunctionName(r.functions);
  r.in.json = plan->json;
  lay_out(g, plan, &r);
  read_rows(&r);
  check_rows(&r);
  read_column(&r, STORAGE_IDS, read_storage_id);
  read_column(&r, DTYPES, read_type);
  read_column(&r, SHAPES, read_shape);
  if (plan->sections[DEVICES].at != NULL) read_column(&r, DEVICES, read_device);
  if (!r.in.json.damaged) read_arg_nodes(&r);
  if (!r.in.json.damaged) read_nodes(&r);
  if (!r.in.json.damaged) read_heads(&r);
  if (!r.in.json.damaged) check_inputs(&r);
  if (!r.in.json.damaged) init_dynamic_sizes(&r);
  if (r.in.json.damaged && r.error == kTvmErrorNoError) r.error = kTvmErrorGraphJsonDamaged;
  return r.error;
}
