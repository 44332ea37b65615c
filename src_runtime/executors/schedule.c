/* Steps of a graph executor, what each must wait for, and running them by a scheduler. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/json.h"

/* What is needed while the steps are made. */
typedef struct draft {
  const tvmrt_graph_executor* g;
  tvmrt_buf after;       /* int32_t */
  size_t* ends;          /* per step, in `after` */
  int32_t* op_of;        /* per node; -1: none */
  int32_t* last_writer;  /* per storage; -1: none */
  int32_t* first_reader; /* per storage: a link since that writer; -1: none */
  int32_t* readers;      /* links: a step and the next link */
  int32_t num_readers;
} draft;

static const tvmrt_graph_node* node_of(const tvmrt_graph_executor* g, size_t op) {
  return &g->graph.nodes[g->ops[op].node];
}

/* Add `step` to what the step at hand waits for. */
static int wait_for(draft* d, size_t begin, int32_t step) {
  const int32_t* after = (const void*)d->after.data;
  size_t i;
  if (step < 0) return 0;
  for (i = begin; i < d->after.size / sizeof(*after); ++i) {
    if (after[i] == step) return 0;
  }
  return tvmrt__buf_append(&d->after, &step, sizeof(step));
}

static int read_after(draft* d, size_t op, size_t begin) {
  const tvmrt_graph_node* node = node_of(d->g, op);
  tvmrt_parser in;
  tvmrt_parser_list list;
  bool more;
  tvmrt__parse_init(&in, "the attribute 'after' of a node", node->after, strlen(node->after));
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_array(&in, &list));
  for (;;) {
    int64_t number;
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_next(&in, &list, &more));
    if (!more) return 0;
    TVMRT_RETURN_IF_ERROR(tvmrt__parse_int(&in, &number));
    if (number < 0 || (uint64_t)number >= d->g->ops[op].node) {
      return tvmrt__fail_value("node '%.60s' runs after node %lld, which does not come before.",
                               node->name, (long long)number);
    }
    TVMRT_RETURN_IF_ERROR(wait_for(d, begin, d->op_of[number]));
  }
}

/* Readers wait for the writer of a storage; writers also for its readers. */
static int follow_storage(draft* d, size_t begin, size_t entry, int32_t op, bool writes) {
  const size_t sid = d->g->graph.entries[entry].storage_id;
  int32_t link;
  TVMRT_RETURN_IF_ERROR(wait_for(d, begin, d->last_writer[sid] == op ? -1 : d->last_writer[sid]));
  if (!writes) {
    link = d->num_readers++;
    d->readers[2 * link] = op;
    d->readers[2 * link + 1] = d->first_reader[sid];
    d->first_reader[sid] = link;
    return 0;
  }
  for (link = d->first_reader[sid]; link >= 0; link = d->readers[2 * link + 1]) {
    if (d->readers[2 * link] == op) continue;
    TVMRT_RETURN_IF_ERROR(wait_for(d, begin, d->readers[2 * link]));
  }
  d->first_reader[sid] = -1;
  d->last_writer[sid] = op;
  return 0;
}

static int follow_storages(draft* d, size_t op, size_t begin) {
  const tvmrt_graph_node* n = node_of(d->g, op);
  size_t i;
  for (i = 0; i < n->num_inputs; ++i) {
    const size_t entry = d->g->graph.inputs[n->first_input + i];
    TVMRT_RETURN_IF_ERROR(follow_storage(d, begin, entry, (int32_t)op, false));
  }
  for (i = 0; i < n->num_outputs; ++i) {
    TVMRT_RETURN_IF_ERROR(follow_storage(d, begin, n->first_entry + i, (int32_t)op, true));
  }
  return 0;
}

static bool says_after(const tvmrt_graph_executor* g) {
  size_t i = 0;
  while (i < g->num_ops && node_of(g, i)->after == NULL) ++i;
  return i < g->num_ops;
}

static int fill_after(draft* d) {
  const bool is_said = says_after(d->g);
  size_t i;
  for (i = 0; i < d->g->num_ops; ++i) {
    const size_t begin = d->after.size / sizeof(int32_t);
    if (!is_said) {
      TVMRT_RETURN_IF_ERROR(follow_storages(d, i, begin));
    } else if (node_of(d->g, i)->after != NULL) {
      TVMRT_RETURN_IF_ERROR(read_after(d, i, begin));
    } else { /* nobody knows: it takes its turn */
      TVMRT_RETURN_IF_ERROR(wait_for(d, begin, (int32_t)i - 1));
    }
    d->ends[i] = d->after.size / sizeof(int32_t);
  }
  return 0;
}

/* A reshape stands for the operator whose result it shows. */
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

static int make_draft(draft* d) {
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
  return fill_after(d);
}

/* The number of a step's device: that of the first step on it, or a new one. */
static int32_t number_device(tvmrt_schedule* s, int32_t step) {
  int32_t i;
  for (i = 0; i < step; ++i) {
    if (strcmp(s->steps[i].device, s->steps[step].device) == 0) return s->device[i];
  }
  return s->num_devices++;
}

static int make_steps(tvmrt_schedule* s, draft* d) {
  const size_t count = d->g->num_ops;
  size_t i;
  s->steps = tvmrt__calloc(count, sizeof(*s->steps));
  s->device = tvmrt__calloc(count, sizeof(*s->device));
  s->times = tvmrt__calloc(count, sizeof(*s->times));
  s->ended = tvmrt__calloc(count, sizeof(*s->ended));
  if (s->steps == NULL || s->device == NULL || s->times == NULL || s->ended == NULL) return -1;
  s->after = (int32_t*)(void*)d->after.data; /* taken over */
  memset(&d->after, 0, sizeof(d->after));
  for (i = 0; i < count; ++i) {
    const tvmrt_graph_node* n = node_of(d->g, i);
    /* lint: ends has as many numbers as there are steps */
    const size_t begin = i == 0 ? 0 : d->ends[i - 1];
    s->steps[i].name = n->name;
    s->steps[i].device = n->device == NULL ? "cpu" : n->device;
    s->steps[i].after = s->after == NULL ? NULL : s->after + begin;
    /* lint: ends has as many numbers as there are steps */
    s->steps[i].num_after = (int32_t)(d->ends[i] - begin);
    s->device[i] = number_device(s, (int32_t)i);
  }
  return 0;
}

/* The first failure in the order of the steps is told, whichever thread was first. */
static void keep_failure(tvmrt_schedule* s, int32_t step) {
  const char* text = TVMGetLastError();
  if (s->failure != NULL && s->failed_step <= step) return;
  free(s->failure);
  s->failure = tvmrt__strdup(text);
  s->failed_step = step;
}

static int run_step(tvmrt_plan* plan, int32_t step) {
  tvmrt_graph_executor* g = plan->runtime;
  tvmrt_schedule* s = g->schedule;
  const double begin = tvmrt__seconds();
  int rc;
  (void)pthread_mutex_lock(&s->lock);
  s->times[step].begin = begin;
  s->times[step].position = s->ended[s->device[step]]++;
  (void)pthread_mutex_unlock(&s->lock);
  tvmrt__forget_error(); /* of an earlier step on this thread */
  rc = tvmrt__graph_run_op(g, (size_t)step);
  (void)pthread_mutex_lock(&s->lock);
  s->times[step].end = tvmrt__seconds();
  if (rc != 0) keep_failure(s, step);
  (void)pthread_mutex_unlock(&s->lock);
  return rc == 0 ? 0 : -1;
}

static int is_cancelled(tvmrt_plan* plan) {
  tvmrt_schedule* s = ((tvmrt_graph_executor*)plan->runtime)->schedule;
  int result;
  (void)pthread_mutex_lock(&s->lock);
  result = s->is_cancelled;
  (void)pthread_mutex_unlock(&s->lock);
  return result;
}

/* Steps and dependencies of an executor. Nodes say them by their attributes "device" and "after"
 * ("[2, 5]": numbers of nodes); without any "after" they follow from storages: who reads what
 * another wrote, who overwrites what another reads. */
static int schedule_new(tvmrt_graph_executor* g, tvmrt_schedule** out) {
  draft d = {0};
  tvmrt_schedule* s = tvmrt__calloc(1, sizeof(*s));
  int rc;
  *out = NULL;
  if (s == NULL) return -1;
  d.g = g;
  rc = g->num_ops > INT32_MAX ? tvmrt__fail_memory(g->num_ops) : make_draft(&d);
  if (rc == 0) rc = make_steps(s, &d);
  if (rc == 0 && pthread_mutex_init(&s->lock, NULL) != 0) rc = tvmrt__fail_memory(sizeof(s->lock));
  s->has_lock = rc == 0;
  s->plan.steps = s->steps;
  s->plan.num_steps = (int32_t)g->num_ops;
  s->plan.run_step = run_step;
  s->plan.is_cancelled = is_cancelled;
  s->plan.runtime = g;
  tvmrt__buf_free(&d.after);
  free(d.ends);
  free(d.op_of);
  free(d.last_writer);
  free(d.first_reader);
  free(d.readers);
  if (rc == 0) {
    *out = s;
  } else {
    tvmrt__schedule_free(s);
  }
  return rc;
}

static void set_cancelled(tvmrt_schedule* s, bool value) {
  (void)pthread_mutex_lock(&s->lock);
  s->is_cancelled = value;
  (void)pthread_mutex_unlock(&s->lock);
}

static void leave_scheduler(tvmrt_schedule* s) {
  if (!s->is_chosen) return;
  if (s->is_running) {
    set_cancelled(s, true);
    /* the thread's error stays that of whoever gives the executor up */
    if (s->scheduler.wait != NULL) (void)s->scheduler.wait(&s->scheduler, &s->plan, -1);
    s->is_running = false;
  }
  if (s->scheduler.post_run != NULL) s->scheduler.post_run(&s->scheduler, &s->plan);
  s->is_chosen = false;
  s->plan.privacy = NULL;
}

void tvmrt__schedule_free(tvmrt_schedule* s) {
  if (s == NULL) return;
  leave_scheduler(s);
  if (s->has_lock) (void)pthread_mutex_destroy(&s->lock);
  free(s->steps);
  free(s->after);
  free(s->device);
  free(s->times);
  free(s->ended);
  free(s->failure);
  free(s);
}

static int choose(tvmrt_schedule* s, const tvmrt_scheduler* scheduler) {
  leave_scheduler(s);
  s->scheduler = *scheduler;
  if (s->scheduler.pre_run != NULL) {
    TVMPackedFuncSetLastError("");
    if (s->scheduler.pre_run(&s->scheduler, &s->plan) != 0) {
      return tvmrt__fail("scheduler '%.60s': pre_run failed: %s", scheduler->name,
                         TVMGetLastError());
    }
  }
  s->is_chosen = true;
  return 0;
}

static int set_scheduler(tvmrt_graph_executor* g, const tvmrt_scheduler* scheduler) {
  if (g->schedule == NULL) TVMRT_RETURN_IF_ERROR(schedule_new(g, &g->schedule));
  return choose(g->schedule, scheduler);
}

int tvmrt__graph_set_scheduler(tvmrt_graph_executor* g, const char* name) {
  tvmrt_scheduler scheduler;
  TVMRT_RETURN_IF_ERROR(tvmrt__scheduler_find(name, &scheduler));
  return set_scheduler(g, &scheduler);
}

/* Whether an earlier operator runs on the same device; the CPU has no scheduler of its own. */
static bool is_known_device(const tvmrt_graph_executor* g, size_t op) {
  const char* name = node_of(g, op)->device;
  size_t i;
  if (name == NULL || strcmp(name, "cpu") == 0) return true;
  for (i = 0; i < op; ++i) {
    if (node_of(g, i)->device != NULL && strcmp(node_of(g, i)->device, name) == 0) return true;
  }
  return false;
}

int tvmrt__graph_default_scheduler(tvmrt_graph_executor* g) {
  size_t i;
  for (i = 0; i < g->num_ops; ++i) {
    tvmrt_device* device;
    if (is_known_device(g, i)) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt_device_find(node_of(g, i)->device, &device));
    if (device != NULL && device->scheduler != NULL) return set_scheduler(g, device->scheduler);
  }
  return says_after(g) ? tvmrt__graph_set_scheduler(g, "async") : 0;
}

static void begin_run(tvmrt_schedule* s) {
  (void)pthread_mutex_lock(&s->lock);
  s->is_cancelled = false;
  s->started = tvmrt__seconds();
  free(s->failure);
  s->failure = NULL;
  memset(s->ended, 0, (size_t)s->plan.num_steps * sizeof(*s->ended));
  memset(s->times, 0, (size_t)s->plan.num_steps * sizeof(*s->times));
  (void)pthread_mutex_unlock(&s->lock);
}

/* The text of a run that failed: that of a step, that it was cancelled, or the scheduler's own. */
static int fail_run(tvmrt_schedule* s) {
  (void)pthread_mutex_lock(&s->lock);
  if (s->failure != NULL) {
    TVMPackedFuncSetLastError(s->failure);
  } else if (s->is_cancelled) {
    TVMPackedFuncSetLastError("CancelledError: the run was cancelled.");
  } else {
    tvmrt__set_error("scheduler '%.60s': the run failed: %s", s->scheduler.name, TVMGetLastError());
  }
  (void)pthread_mutex_unlock(&s->lock);
  return -1;
}

int tvmrt__schedule_start(tvmrt_schedule* s) {
  TVMRT_RETURN_IF_ERROR(tvmrt__graph_check_idle(s->plan.runtime, "run"));
  if (!s->is_chosen) return tvmrt__fail_value("choose a scheduler by set_scheduler.");
  begin_run(s);
  TVMPackedFuncSetLastError("");
  if (s->scheduler.run(&s->scheduler, &s->plan) != 0) return fail_run(s);
  s->is_running = true;
  return 0;
}

int tvmrt__schedule_wait(tvmrt_schedule* s, int64_t timeout_ms, bool* out_ended) {
  int rc = 0;
  *out_ended = true;
  if (!s->is_running) return 0;
  TVMPackedFuncSetLastError("");
  if (s->scheduler.wait != NULL) rc = s->scheduler.wait(&s->scheduler, &s->plan, timeout_ms);
  if (rc == TVMRT_DEVICE_BUSY) {
    *out_ended = false;
    return 0;
  }
  s->is_running = false;
  return rc == 0 ? 0 : fail_run(s);
}
