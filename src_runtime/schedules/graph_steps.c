/* Steps of a graph executor and their dependencies.
 *
 * Schedulers get the operators of a graph as steps, each with a device and the steps that must end
 * before it. Either the compiler states the dependencies (attribute "after"), or they are derived
 * here from the order of nodes and their shared storages; if they are unknown, the order is kept. A
 * step depends only on earlier ones, so there are no cycles. */
#include "graph_steps.h"

#include <stdlib.h>
#include <string.h>

#include "../base/json.h"

/* Temporary data for making the steps. */
typedef struct draft {
  const tvmrt_graph_executor* g;
  tvmrt_buf after;       /* int32_t */
  size_t* ends;          /* per step, in `after` */
  int32_t* op_of;        /* per node; -1: none */
  int32_t* last_writer;  /* per storage; -1: none */
  int32_t* first_reader; /* per storage: a link since the last write; -1: none */
  int32_t* readers;      /* links: a step and the next link */
  int32_t num_readers;
  size_t op;    /* the operator whose "after" is being read, */
  size_t begin; /* and where its list in `after` begins */
} draft;

/* Steps are operators, in order: nodes without a function are no steps. */
static const tvmrt_graph_node* node_of(const tvmrt_graph_executor* g, size_t op) {
  return &g->graph.nodes[g->ops[op].node];
}

/* Add `step` to the dependencies of the current step, without duplicates. Lists are short, so the
 * search is linear. */
static int add_dependency(draft* d, size_t begin, int32_t step) {
  const int32_t* after = (const void*)d->after.data;
  size_t i;
  if (step < 0) return 0;
  for (i = begin; i < d->after.size / sizeof(*after); ++i) {
    if (after[i] == step) return 0;
  }
  return tvmrt__buf_append(&d->after, &step, sizeof(step));
}

/* A node that is not an operator (-1) is available from the start. */
static int add_after(tvmrt_parser* in, void* into) {
  draft* d = into;
  int64_t number;
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(in, &number));
  if (number >= 0 && (uint64_t)number < d->g->ops[d->op].node) {
    return add_dependency(d, d->begin, d->op_of[number]);
  }
  return tvmrt__fail_value("node '%.60s' depends on node %lld, which does not precede it.",
                           node_of(d->g, d->op)->name, (long long)number);
}

/* The stated dependencies of a node: a list of node numbers as text. */
static int read_dependencies(draft* d, size_t op, size_t begin) {
  const char* text = node_of(d->g, op)->after;
  tvmrt_parser in;
  d->op = op;
  d->begin = begin;
  tvmrt__parse_init(&in, "the attribute 'after' of a node", text, strlen(text));
  return tvmrt__parse_items(&in, add_after, d);
}

/* Readers wait for the writer of a storage; writers also for its readers. The writers of a storage
 * run one after the other; readers since the last writer form a list of links, which is cleared by
 * each writer. */
static int add_storage_dependency(draft* d, size_t begin, size_t entry, int32_t op, bool writes) {
  const size_t sid = d->g->graph.entries[entry].storage_id;
  int32_t link;
  TVMRT_RETURN_IF_ERROR(
      add_dependency(d, begin, d->last_writer[sid] == op ? -1 : d->last_writer[sid]));
  if (!writes) {
    link = d->num_readers++;
    d->readers[2 * link] = op;
    d->readers[2 * link + 1] = d->first_reader[sid];
    d->first_reader[sid] = link;
    return 0;
  }
  for (link = d->first_reader[sid]; link >= 0; link = d->readers[2 * link + 1]) {
    if (d->readers[2 * link] == op) continue;
    TVMRT_RETURN_IF_ERROR(add_dependency(d, begin, d->readers[2 * link]));
  }
  d->first_reader[sid] = -1;
  d->last_writer[sid] = op;
  return 0;
}

/* Reads before writes, like the operator: its own result is not among its inputs. */
static int add_storage_dependencies(draft* d, size_t op, size_t begin) {
  const tvmrt_graph_node* n = node_of(d->g, op);
  size_t i;
  for (i = 0; i < n->num_inputs; ++i) {
    const size_t entry = d->g->graph.inputs[n->first_input + i];
    TVMRT_RETURN_IF_ERROR(add_storage_dependency(d, begin, entry, (int32_t)op, false));
  }
  for (i = 0; i < n->num_outputs; ++i) {
    TVMRT_RETURN_IF_ERROR(add_storage_dependency(d, begin, n->first_entry + i, (int32_t)op, true));
  }
  return 0;
}

/* One node suffices: the compiler states dependencies for all nodes or for none. */
static bool has_dependencies(const tvmrt_graph_executor* g) {
  size_t i = 0;
  while (i < g->num_ops && node_of(g, i)->after == NULL) ++i;
  return i < g->num_ops;
}

/* A step's dependencies end where those of the next begin, so that one list serves all. */
static int fill_dependencies(draft* d) {
  const bool has_stated = has_dependencies(d->g);
  size_t i;
  for (i = 0; i < d->g->num_ops; ++i) {
    const size_t begin = d->after.size / sizeof(int32_t);
    if (!has_stated) {
      TVMRT_RETURN_IF_ERROR(add_storage_dependencies(d, i, begin));
    } else if (node_of(d->g, i)->after != NULL) {
      TVMRT_RETURN_IF_ERROR(read_dependencies(d, i, begin));
    } else { /* unknown: it waits for the previous step */
      TVMRT_RETURN_IF_ERROR(add_dependency(d, begin, (int32_t)i - 1));
    }
    d->ends[i] = d->after.size / sizeof(int32_t);
  }
  return 0;
}

/* A reshape stands for the operator whose result it views. A reshaped input stands for no operator,
 * like the input itself. */
static void fill_op_of(draft* d) {
  const tvmrt_graph* graph = &d->g->graph;
  size_t i;
  for (i = 0; i < graph->num_nodes; ++i) {
    const tvmrt_graph_node* n = &graph->nodes[i];
    const bool is_view = n->func_name != NULL && n->num_inputs > 0;
    d->op_of[i] =
        is_view ? d->op_of[tvmrt__graph_node_of(graph, graph->inputs[n->first_input])] : -1;
  }
  for (i = 0; i < d->g->num_ops; ++i) d->op_of[d->g->ops[i].node] = (int32_t)i;
}

/* Each input of a node is one reader, with two numbers in `readers`; the caller frees all tables,
 * also on failure. */
static int lower_network(draft* d) {
  const tvmrt_graph* graph = &d->g->graph;
  size_t i;
  d->ends = tvmrt__calloc(d->g->num_ops, sizeof(*d->ends));
  d->op_of = tvmrt__calloc(graph->num_nodes, sizeof(*d->op_of));
  d->last_writer = tvmrt__calloc(graph->num_storages, sizeof(*d->last_writer));
  d->first_reader = tvmrt__calloc(graph->num_storages, sizeof(*d->first_reader));
  d->readers = tvmrt__calloc(graph->num_inputs, 2 * sizeof(*d->readers));
  if (d->ends == NULL || d->op_of == NULL || d->last_writer == NULL || d->first_reader == NULL ||
      d->readers == NULL) {
    return -1;
  }
  for (i = 0; i < graph->num_storages; ++i) d->last_writer[i] = d->first_reader[i] = -1;
  fill_op_of(d);
  return fill_dependencies(d);
}

/* The number of a step's device: that of the first step on it, or a new one. Devices are compared
 * by name: a missing device has a name, too. */
static int32_t device_index(tvmrt_schedule* s, int32_t step) {
  int32_t i;
  for (i = 0; i < step; ++i) {
    if (strcmp(s->steps[i].device, s->steps[step].device) == 0) return s->device[i];
  }
  return s->num_devices++;
}

static void name_steps(tvmrt_schedule* s, draft* d) {
  size_t i;
  s->after = (int32_t*)(void*)d->after.data; /* ownership moves */
  memset(&d->after, 0, sizeof(d->after));
  for (i = 0; i < d->g->num_ops; ++i) {
    const tvmrt_graph_node* n = node_of(d->g, i);
    /* lint: ends has as many numbers as there are steps */
    const size_t begin = i == 0 ? 0 : d->ends[i - 1];
    s->steps[i].name = n->name;
    s->steps[i].device = n->device == NULL ? "cpu" : n->device;
    s->steps[i].after = s->after == NULL ? NULL : s->after + begin;
    /* lint: ends has as many numbers as there are steps */
    s->steps[i].num_after = (int32_t)(d->ends[i] - begin);
    s->device[i] = device_index(s, (int32_t)i);
  }
}

/* Nodes name their region in the attribute "region"; without it the function's name is used. An
 * unknown region is not an error: most operators call generated code. */
static tvmrt_region* region_of_op(tvmrt_graph_executor* g, size_t op) {
  const tvmrt_graph_node* n = node_of(g, op);
  tvmrt_region* region = NULL;
  if (n->func_name == NULL || n->device == NULL || strcmp(n->device, "cpu") == 0) return NULL;
  if (tvmrt_region_find(g->base.module.library, n->region != NULL ? n->region : n->func_name,
                        &region) != 0) {
    tvmrt__forget_error();
  }
  return region;
}

/* Steps and dependencies of an executor. Nodes state them in the attributes "device" and "after"
 * ("[2, 5]": numbers of nodes); without any "after" they follow from the reads and writes of
 * storages. */
static int make_schedule(tvmrt_graph_executor* g) {
  draft d = {0};
  int rc;
  d.g = g;
  rc = g->num_ops > INT32_MAX ? tvmrt__fail_memory(g->num_ops) : lower_network(&d);
  if (rc == 0) {
    /* The schedule takes ownership of the list; all other tables are freed below. */
    rc = tvmrt__schedule_new(g, tvmrt__graph_run_op, region_of_op, (int32_t)g->num_ops,
                             &g->base.schedule);
  }
  if (rc == 0) {
    g->base.schedule->head.functions = &tvmrt__own_schedule_functions;
    name_steps(g->base.schedule, &d);
  }
  tvmrt__buf_free(&d.after);
  free(d.ends);
  free(d.op_of);
  free(d.last_writer);
  free(d.first_reader);
  free(d.readers);
  return rc;
}

/* Steps are made when a scheduler is first needed: most executors need none. */
static int set_scheduler(tvmrt_graph_executor* g, const tvmrt_scheduler* scheduler) {
  if (g->base.schedule == NULL) TVMRT_RETURN_IF_ERROR(make_schedule(g));
  return tvmrt__schedule_choose(g->base.schedule, scheduler);
}

int tvmrt__graph_set_scheduler(tvmrt_graph_executor* g, const char* name) {
  tvmrt_scheduler scheduler;
  TVMRT_RETURN_IF_ERROR(tvmrt__scheduler_find(name, &scheduler));
  return set_scheduler(g, &scheduler);
}

/* Whether an earlier operator runs on the same device, so that each device is looked up once; the
 * CPU has no scheduler of its own. */
static bool is_known_device(const tvmrt_graph_executor* g, size_t op) {
  const char* name = node_of(g, op)->device;
  size_t i;
  if (name == NULL || strcmp(name, "cpu") == 0) return true;
  for (i = 0; i < op; ++i) {
    if (node_of(g, i)->device != NULL && strcmp(node_of(g, i)->device, name) == 0) return true;
  }
  return false;
}

/* The first device in the order of nodes that provides a scheduler decides; otherwise graphs with
 * stated dependencies overlap, and others run in order without a scheduler. */
int tvmrt__graph_choose_default(tvmrt_graph_executor* g) {
  size_t i;
  for (i = 0; i < g->num_ops; ++i) {
    tvmrt_device* device = NULL;
    if (is_known_device(g, i)) continue;
    /* if it cannot start, loading its library has failed, or the CPU's code is available */
    if (tvmrt_device_find(node_of(g, i)->device, &device) != 0) tvmrt__forget_error();
    if (device != NULL && device->scheduler != NULL) return set_scheduler(g, device->scheduler);
  }
  return has_dependencies(g) ? tvmrt__graph_set_scheduler(g, "async") : 0;
}
