/* Times of the operators inside a generated main function, see tvmrt_profile_slot.
 *
 * A library that was compiled with profiling calls two functions of its slot around each operator.
 * All executors of the library and all threads share one slot: it is used under a lock, and calls
 * from other threads are recognised by their thread id and ignored. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "../platform/system.h"
#include "../platform/threads.h"
#include "aot.h"
#include "profile.h"

/* Context of the library's slot during one run. */
typedef struct recorder {
  tvmrt_thread_id thread; /* others may run the same library meanwhile */
  tvmrt_op_time* ops;     /* one row per operator, in the order of their numbers */
  double* started;        /* start times of operators in progress */
  int32_t count;
} recorder;

/* A library has one slot: one profile at a time. */
static tvmrt_mutex slot_lock = TVMRT_MUTEX_INIT;

/* The number comes from the library and is checked like all its data. */
static bool is_recorded(const recorder* r, int32_t op) {
  return op >= 0 && op < r->count && tvmrt__is_thread(r->thread);
}

static void begin_op(void* context, int32_t op) {
  recorder* r = context;
  if (is_recorded(r, op)) r->started[op] = tvmrt__seconds();
}

static void end_op(void* context, int32_t op) {
  recorder* r = context;
  if (!is_recorded(r, op)) return;
  r->ops[op].seconds += tvmrt__seconds() - r->started[op];
  ++r->ops[op].count;
}

/* The slot is data, which a library module returns like any other symbol. */
static int find_slot(tvmrt_aot_executor* e, tvmrt_profile_slot** out) {
  tvmrt_buf symbol = {NULL, 0, 0};
  tvmrt_func* f = NULL;
  int rc = tvmrt__buf_printf(&symbol, "%s_profile_slot", e->metadata->mod_name);
  *out = NULL;
  if (rc == 0) rc = tvmrt__module_get(e->base.module.library, symbol.data, true, &f);
  /* A data symbol is returned as a function, like all symbols. Copied by bytes, since ISO C has no
   * such conversion. */
  if (rc == 0 && f != NULL && f->kind == TVMRT_FUNC_LIBRARY) memcpy(out, &f->fn, sizeof(*out));
  if (f != NULL) tvmrt__release(&f->base);
  tvmrt__buf_free(&symbol);
  return rc;
}

/* A run whose devices report events. */
static int run_with_events(tvmrt_aot_executor* e, tvmrt_run_events* events, double* total) {
  int rc;
  tvmrt__events_begin(events);
  rc = tvmrt__aot_run(&e->base);
  *total = tvmrt__seconds() - events->start;
  tvmrt__events_end();
  return rc;
}

/* The slot is cleared before the lock is released: `r` lies on the caller's stack. */
static int run_recorded(tvmrt_aot_executor* e, tvmrt_profile_slot* slot, recorder* r,
                        tvmrt_run_events* events, double* total) {
  int rc;
  tvmrt__lock(&slot_lock);
  slot->context = r;
  slot->begin = begin_op;
  slot->end = end_op;
  rc = run_with_events(e, events, total);
  slot->begin = NULL;
  slot->end = NULL;
  slot->context = NULL;
  tvmrt__unlock(&slot_lock);
  return rc;
}

/* The library owns the names: the slot lives as long as the code. */
static int profile_ops(tvmrt_aot_executor* e, tvmrt_profile_slot* slot, recorder* r,
                       tvmrt_buf* text) {
  tvmrt_run_events events;
  double total;
  int32_t i;
  int rc;
  for (i = 0; i < r->count; ++i) {
    r->ops[i].name = slot->op_names[i];
  }
  /* The text is made after the lock is released, so other threads' profiles need not wait. */
  rc = run_recorded(e, slot, r, &events, &total);
  if (rc == 0) rc = tvmrt__profile_json(r->ops, (size_t)r->count, total, "AOT", &events, text);
  tvmrt__buf_free(&events.rows);
  return rc;
}

/* Without a slot the whole network is one row. */
static int profile_total(tvmrt_aot_executor* e, tvmrt_buf* text) {
  tvmrt_op_time total_time = {NULL, 1, 0};
  tvmrt_run_events events;
  int rc = run_with_events(e, &events, &total_time.seconds);
  total_time.name = e->metadata->mod_name;
  if (rc == 0) rc = tvmrt__profile_json(&total_time, 1, total_time.seconds, "AOT", &events, text);
  tvmrt__buf_free(&events.rows);
  return rc;
}

/* The caller has taken the executor, and frees the text. The first run loads pages and is not
 * counted. */
int tvmrt__aot_profile(tvmrt_executor* base, tvmrt_buf* text) {
  tvmrt_aot_executor* e = (tvmrt_aot_executor*)base;
  tvmrt_profile_slot* slot;
  recorder r = {0};
  int rc;
  TVMRT_RETURN_IF_ERROR(find_slot(e, &slot));
  TVMRT_RETURN_IF_ERROR(tvmrt__aot_run(&e->base)); /* warm-up */
  if (slot == NULL || slot->num_ops <= 0 || slot->op_names == NULL) return profile_total(e, text);
  r.thread = tvmrt__thread_id();
  r.count = slot->num_ops;
  r.ops = tvmrt__calloc((size_t)r.count, sizeof(*r.ops));
  r.started = tvmrt__calloc((size_t)r.count, sizeof(*r.started));
  rc = r.ops == NULL || r.started == NULL ? -1 : profile_ops(e, slot, &r, text);
  free(r.ops);
  free(r.started);
  return rc;
}
