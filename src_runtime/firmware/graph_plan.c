/* Firmware runtime: what a graph JSON holds and where, before any memory is needed.
 *
 * The first of two passes. It finds the sections and counts what is in them by their brackets and
 * commas, so that memory can be measured and given at once; damaged texts give wrong counts, which
 * the second pass (graph_read.c) finds as it compares each list with its count. */
#include "graph.h"

static const char* const section_names[] = {"nodes",  "arg_nodes",  "heads", "node_row_ptr",
                                            "dltype", "storage_id", "shape", "device_index"};

/* NUM_SECTIONS for a key that tells the executor nothing. */
static uint32_t section_of(const char* key) {
  uint32_t i;
  for (i = 0; i < NUM_SECTIONS && !tvmrt__json_is(key, section_names[i]); ++i) {
  }
  return i;
}

/* The keys of `attrs` are all different from those of the graph, so both fill one table. */
static int find_sections(tvmrt_json* in, tvmrt_json_tally* sections) {
  tvmrt_json_tally other;
  uint32_t counts[2] = {0, 0};
  int level = 0;
  tvmrt__json_expect(in, '{');
  while (!in->damaged) {
    const char* key;
    uint32_t section;
    if (!tvmrt__json_more(in, '}', &counts[level])) {
      if (level == 0) break;
      level = 0;
      continue;
    }
    key = tvmrt__json_text(in);
    tvmrt__json_expect(in, ':');
    if (level == 0 && tvmrt__json_is(key, "attrs")) {
      tvmrt__json_expect(in, '{');
      level = 1;
      counts[1] = 0;
      continue;
    }
    section = section_of(key);
    tvmrt__json_skip(in, section == NUM_SECTIONS ? &other : &sections[section]);
  }
  return !in->damaged;
}

/* a - b, or more than any graph has. */
static uint32_t less(uint32_t a, uint32_t b) { return a < b ? MOST_ITEMS + 1u : a - b; }

/* A list without items has no commas either, and only looking tells it from one of one item. */
static int is_empty(const graph_plan* plan, int section) {
  tvmrt_json in;
  in.at = plan->sections[section].at + 1;
  in.end = plan->json.end;
  return tvmrt__json_peek(&in) == ']';
}

/* A list of n items has n - 1 commas; the lists of attrs lie in another one, behind their tag. */
static int count(graph_plan* plan) {
  const tvmrt_json_tally* s = plan->sections;
  plan->nodes = s[ROWS].commas;
  plan->inputs = is_empty(plan, ARG_NODES) ? 0 : s[ARG_NODES].commas + 1;
  plan->heads = less(s[HEADS].lists, 1);
  plan->entries = s[STORAGE_IDS].commas;
  plan->extents = s[SHAPES].commas;
  plan->edges = less(s[NODES].lists, plan->nodes + 1);
  return plan->nodes <= MOST_ITEMS && plan->inputs <= plan->nodes &&
         plan->inputs <= plan->entries && plan->heads <= MOST_ITEMS &&
         plan->entries <= MOST_ITEMS && plan->extents <= 4 * MOST_ITEMS &&
         plan->edges <= MOST_ITEMS;
}

tvm_crt_error_t tvmrt__graph_plan(const char* json, size_t json_bytes, graph_plan* plan) {
  tvmrt_json in;
  int i;
  tvmrt__json_open(&in, json, json_bytes);
  plan->json = in;
  for (i = 0; i < NUM_SECTIONS; ++i) plan->sections[i].at = NULL;
  if (in.damaged || !find_sections(&in, plan->sections)) return kTvmErrorGraphJsonDamaged;
  for (i = 0; i < DEVICES; ++i) {
    if (plan->sections[i].at == NULL) return kTvmErrorGraphJsonDamaged;
  }
  return count(plan) ? kTvmErrorNoError : kTvmErrorGraphInconsistent;
}

size_t tvmrt__graph_table_bytes(const graph_plan* plan) {
  return TVMRT_GRAPH_TABLE_BYTES(plan->nodes, plan->inputs, plan->heads, plan->entries,
                                 plan->extents, plan->edges);
}
