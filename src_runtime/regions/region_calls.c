/* Regions as packed functions, and requests of schedulers.
 *
 * Three functions for each region: one that computes, and two that start and wait. A call takes a
 * context, which has the device's graph for one run, binds its tensors, runs, and returns the
 * context in every case. */
#include "../core/region_request.h"
#include "loaded_region.h"

typedef tvmrt_loaded_region loaded;
typedef tvmrt_region_context context;

/* A request is only for this call: a device may run other networks inside of it. */
static tvmrt_region_request* take_request(void) {
  tvmrt_thread* thread = tvmrt__thread();
  tvmrt_region_request* request = thread == NULL ? NULL : thread->request;
  if (request != NULL) thread->request = NULL;
  return request;
}

/* Waits for the end in any case. */
static int run(const loaded* self, context* c) {
  TVMRT_RETURN_IF_ERROR(tvmrt__context_start(self, c, true));
  return tvmrt__context_finish(self, c, false);
}

/* The caller may free its tensors meanwhile. */
static int start_with_copies(const loaded* self, context* c) {
  TVMRT_RETURN_IF_ERROR(tvmrt__context_copy_tensors(c));
  return tvmrt__context_start(self, c, false);
}

/* The context is returned at the run's end, and not used afterwards. */
static int end_started(void* started, bool poll_only) {
  context* c = started;
  loaded* self = c->region.runtime;
  const int rc = tvmrt__context_finish(self, c, poll_only);
  return rc == TVMRT_DEVICE_BUSY ? rc : tvmrt__context_return(self, c, rc);
}

/* Replace *c by a context on the chosen device; NULL on failure, or if the CPU is chosen: then
 * *is_cpu. */
static context* choose(loaded* self, context* c, tvmrt_region_request* r, const TVMValue* args,
                       const int* codes, int num_args, bool* is_cpu) {
  tvmrt_device* device = r->choose == NULL ? NULL : r->choose(r->choice_context, &c->region);
  loaded* other;
  if (device == NULL || device == self->device) return c;
  /* Returned before another is taken: two calls that hold one and want one could deadlock. */
  (void)tvmrt__context_return(self, c, 0);
  if (tvmrt__is_cpu(device)) {
    *is_cpu = tvmrt__region_on_cpu(self) == 0;
    return NULL;
  }
  other = tvmrt__region_on(self, device);
  return other == NULL ? NULL : tvmrt__context_take(other, args, codes, num_args);
}

/* Execute a call as a scheduler requests. A region with CPU fallback must wait for the result. */
static int run_requested(const loaded* self, context* c, tvmrt_region_request* r) {
  loaded* on = c->region.runtime;
  int rc;
  if (!r->is_deferred || self->falls_back) return tvmrt__context_return(on, c, run(on, c));
  rc = start_with_copies(on, c);
  if (rc != 0 || !c->is_started) return tvmrt__context_return(on, c, rc);
  r->started = c;
  r->end = end_started;
  return 0;
}

/* A scheduler's request is taken in any case: otherwise the next region would take it. */
int tvmrt__loaded_region_call(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code, void* resource) {
  loaded* self = resource;
  tvmrt_region_request* request = take_request();
  context* c = tvmrt__context_take(self, args, codes, num_args);
  bool is_cpu = false;
  int rc = -1;
  (void)out;
  (void)out_code;
  if (c != NULL && request != NULL) c = choose(self, c, request, args, codes, num_args, &is_cpu);
  if (c != NULL && request != NULL) {
    rc = run_requested(self, c, request);
  } else if (c != NULL) {
    rc = tvmrt__context_return(self, c, run(self, c));
  }
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
  const loaded* self = resource;
  context* c = num_args == 1 && codes[0] == kTVMOpaqueHandle ? args[0].v_handle : NULL;
  (void)out;
  (void)out_code;
  if (c == NULL) {
    return tvmrt__fail_value("region '%.100s': no run was started; start one before waiting.",
                             self->first.region.symbol);
  }
  return end_started(c, false);
}
