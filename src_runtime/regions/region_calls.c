/* Regions as packed functions, and the choices of schedulers.
 *
 * Three functions for each region: one that computes, and two that start and wait. A call takes a
 * context, which has the device's graph for one run, binds its tensors, runs, and returns the
 * context in every case.
 *
 * A scheduler's request reaches the region through the struct of the thread, and cannot be an
 * argument. A step calls a packed function of generated code with the network's arena; only that
 * function makes the region's tensors, whose values the scheduler may want to see. Its signature is
 * TVM's, and libraries of earlier versions stay valid, so it passes nothing else on. The request
 * cannot be stored in the region either: executors with different schedulers share it. */
#include "../base/json.h"
#include "../core/region_request.h"
#include "loaded_region.h"

typedef tvmrt_loaded_region loaded;
typedef tvmrt_region_context context;

/* A request is only for this call: a device may run other networks inside of it. */
static const tvmrt_region_request* take_request(void) {
  tvmrt_thread* thread = tvmrt__thread();
  const tvmrt_region_request* request = thread == NULL ? NULL : thread->request;
  if (request != NULL) thread->request = NULL;
  return request;
}

typedef struct event_sink {
  tvmrt_run_events* events;
  const loaded* self;
  const context* c;
} event_sink;

/* One object of the profile; times are then since the start of the network's run. */
static int add_event(void* sink, const char* name, double start, double end) {
  const event_sink* s = sink;
  tvmrt_buf* rows = &s->events->rows;
  const double began = s->c->began - s->events->start;
  if (name == NULL) return tvmrt__fail_value("an event has no name; give one.");
  if (!(end >= start && start > -1e9 && end < 1e9)) {
    return tvmrt__fail_value("event '%.60s' lasts from %g to %g seconds; give its start and end.",
                             name, start, end);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(rows, rows->size == 0 ? "{" : ", {"));
  TVMRT_RETURN_IF_ERROR(
      tvmrt__buf_printf(rows, "\"device\": \"%s\", \"region\": ", s->self->device->name));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(rows, s->c->region.symbol));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(rows, ", \"name\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__json_write_string(rows, name));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(rows, ", \"start\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_real(rows, 'f', 9, began + start));
  TVMRT_RETURN_IF_ERROR(tvmrt__buf_puts(rows, ", \"end\": "));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_real(rows, 'f', 9, began + end));
  return tvmrt__buf_puts(rows, "}");
}

/* Ask the device for the events of a run that has ended, if this thread profiles it. */
static int collect_events(const loaded* self, context* c) {
  const tvmrt_device_interface* slots = self->device->interface;
  const tvmrt_thread* thread = tvmrt__thread();
  event_sink sink = {thread == NULL ? NULL : thread->events, self, c};
  if (sink.events == NULL || slots->events == NULL) return 0;
  tvmrt__forget_error();
  if (slots->events(self->device, &c->region, add_event, &sink) == 0) return 0;
  return tvmrt__context_failed(self, c, "events");
}

static int finish(const loaded* self, context* c) {
  TVMRT_RETURN_IF_ERROR(tvmrt__context_finish(self, c));
  return collect_events(self, c);
}

/* Waits for the end in any case. */
static int run(const loaded* self, context* c) {
  TVMRT_RETURN_IF_ERROR(tvmrt__context_start(self, c, true));
  return finish(self, c);
}

/* The caller may free its tensors meanwhile. */
static int start_with_copies(const loaded* self, context* c) {
  TVMRT_RETURN_IF_ERROR(tvmrt__context_copy_tensors(c));
  return tvmrt__context_start(self, c, false);
}

/* 0 if the region's own device computes this call. -1 if the scheduler chooses the CPU, then
 * *is_cpu, or a device that cannot compute it. */
static int choose(const loaded* self, const context* c, const tvmrt_region_request* r,
                  bool* is_cpu) {
  const tvmrt_device* device = r->choose(r->context, &c->region);
  if (device == NULL || strcmp(device->name, self->device->name) == 0) return 0;
  if (!tvmrt__is_cpu(device)) {
    return tvmrt__fail_value(
        "a scheduler chose device '%.60s' for region '%.100s', which was compiled for '%s': choose "
        "that one, or 'cpu'.",
        device->name, self->initial.symbol, self->device->name);
  }
  if (!self->falls_back) {
    return tvmrt__fail_value(
        "region '%.100s' has no code for the CPU: compile the network with device_fallback.",
        self->initial.symbol);
  }
  *is_cpu = true;
  return -1;
}

/* A scheduler's request is taken in any case: otherwise the next region would take it. */
int tvmrt__loaded_region_call(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code, void* resource) {
  loaded* self = resource;
  const tvmrt_region_request* request = take_request();
  context* c = tvmrt__context_take(self, args, codes, num_args);
  bool is_cpu = false;
  int rc = c == NULL ? -1 : 0;
  (void)out;
  (void)out_code;
  if (rc == 0 && request != NULL) rc = choose(self, c, request, &is_cpu);
  if (rc == 0) rc = run(self, c);
  if (c != NULL) (void)tvmrt__context_return(self, c, rc);
  /* If the scheduler chose the CPU, the failure only makes generated code call it: not counted as a
   * fallback. */
  if (rc != 0 && self->falls_back && !is_cpu) tvmrt__record_fallback(self);
  return rc;
}

/* Returns a handle of the run, or nothing if it has ended already. */
int tvmrt__loaded_region_start(TVMValue* args, int* codes, int num_args, TVMValue* out,
                               int* out_code, void* resource) {
  loaded* self = resource;
  context* c = tvmrt__context_take(self, args, codes, num_args);
  int rc = c == NULL ? -1 : start_with_copies(self, c);
  out->v_handle = NULL;
  *out_code = kTVMNullptr;
  if (rc == 0 && c->is_started) {
    out->v_handle = c;
    *out_code = kTVMOpaqueHandle;
    return 0;
  }
  return c == NULL ? -1 : tvmrt__context_return(self, c, rc);
}

/* The handle must be from the start function, and used once: generated code ensures this. */
int tvmrt__loaded_region_wait(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code, void* resource) {
  loaded* self = resource;
  context* c = num_args == 1 && codes[0] == kTVMOpaqueHandle ? args[0].v_handle : NULL;
  (void)out;
  (void)out_code;
  if (c == NULL) {
    return tvmrt__fail_value("region '%.100s': no run was started; start one before waiting.",
                             self->first.region.symbol);
  }
  return tvmrt__context_return(self, c, finish(self, c));
}
