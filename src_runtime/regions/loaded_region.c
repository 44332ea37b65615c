/* A region on its device: prepared, run, released. */
#include "loaded_region.h"

#include <stdlib.h>

#include "../base/json.h"
#include "../platform/system.h"
#include "../tensors/tensor.h"

typedef tvmrt_loaded_region loaded;
typedef tvmrt_region_context context;

/* Error text if memory for the actual text is exhausted. */
static char unknown_failure[] =
    "MemoryError: the region could not be prepared for its shapes, and there was no memory to keep "
    "the reason; reshape it again.";

/* The runtime itself reads one option: {"timeout_ms": 100}. */
static int read_option(tvmrt_parser* in, void* into, const char* key) {
  loaded* self = into;
  if (strcmp(key, "timeout_ms") != 0) return tvmrt__parse_skip(in);
  return tvmrt__parse_int(in, &self->timeout_ms);
}

/* Other options are the device's, which parses the text itself. */
static int read_options(loaded* self) {
  tvmrt_parser in;
  tvmrt__parse_init(&in, "the text of a device's options", self->options, strlen(self->options));
  self->timeout_ms = 0;
  return tvmrt__parse_members(&in, read_option, self);
}

/* Options of users override those of the library. */
static int choose_options(loaded* self, const char* of_library) {
  TVMRT_RETURN_IF_ERROR(tvmrt__device_options(self->device, &self->options));
  if (self->options == NULL) {
    self->options = tvmrt__strdup(of_library == NULL ? "{}" : of_library);
    if (self->options == NULL) return -1;
  }
  return read_options(self);
}

/* Prepare a region when its library is loaded, in this order: shapes, abilities, the device's
 * evaluation, memory and graph. */
static int prepare(loaded* self) {
  const tvmrt_region* region = &self->first.region;
  tvmrt_device_description can;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_describe(self->device, &can));
  /* Before the device is called, since it evaluates shapes; these are for the maximum of each
   * size. */
  if (self->sizes.count != 0) {
    TVMRT_RETURN_IF_ERROR(tvmrt__sizes_apply(&self->sizes, self->sizes.current, region));
  }
  if (tvmrt__region_is_dynamic(region) && !(self->device->abilities & TVMRT_DEVICE_ANY_SIZE)) {
    return tvmrt__fail_value(
        "device '%s' does not support dynamic extents, which region '%.100s' has: load the device "
        "that the library was compiled for, or compile it again.",
        self->device->name, region->symbol);
  }
  self->any_layout = can.layout != NULL && strcmp(can.layout, "dense") != 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_evaluate(self->device, region));
  return tvmrt__context_allocate(self, &self->first);
}

/* Tensors of the constants; those of a call use the same table. */
static int make_data(loaded* self, tvmrt_arena* arena) {
  const tvmrt_region* region = &self->first.region;
  DLTensor* constants = tvmrt__arena_alloc(arena, (size_t)region->num_tensors, sizeof(*constants));
  int32_t i;
  self->first.data =
      tvmrt__arena_alloc(arena, (size_t)region->num_tensors, sizeof(*self->first.data));
  if (constants == NULL || self->first.data == NULL) return -1;
  for (i = 0; i < region->num_tensors; ++i) {
    const tvmrt_region_tensor* t = &region->tensors[i];
    if (t->data == NULL) continue;
    constants[i].data = (void*)(uintptr_t)t->data;
    constants[i].device.device_type = kDLCPU;
    constants[i].ndim = t->ndim;
    constants[i].dtype = t->dtype;
    constants[i].shape = (int64_t*)(uintptr_t)t->shape;
    self->first.data[i] = &constants[i];
  }
  self->first.region.data = self->first.data;
  /* Initial state of contexts for later calls: with the tensors, without a graph, since each has
   * its own. By `base` slots find the first context, whose packed weights they may share. */
  self->initial = self->first.region;
  self->initial.device_graph = NULL;
  self->initial.failed_node = -1;
  self->initial.base = &self->first.region;
  return 0;
}

/* The caller also frees it on failure: flags and NULLs record the progress. */
int tvmrt__loaded_region_init(tvmrt_loaded_region* self, const tvmrt_region_draft* draft,
                              tvmrt_device* device, const char* options, tvmrt_arena* arena) {
  self->first.region = draft->region;
  self->first.region.runtime = self;
  self->device = device;
  /* The two flags record the progress for tvmrt__loaded_region_free(). */
  if (tvmrt__mutex_init(&self->lock) != 0) return tvmrt__fail_memory(sizeof(self->lock));
  self->has_lock = true;
  if (tvmrt__cond_init(&self->returned) != 0) return tvmrt__fail_memory(sizeof(self->returned));
  self->has_condition = true;
  TVMRT_RETURN_IF_ERROR(make_data(self, arena));
  TVMRT_RETURN_IF_ERROR(tvmrt__sizes_init(
      &self->sizes, draft, self->text + (draft->tensors_begin - draft->text_begin), arena));
  if (device == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(choose_options(self, options));
  return prepare(self);
}

/* The static text must not be freed. */
static void forget_failure(loaded* self) {
  if (self->failure != unknown_failure) free(self->failure);
  self->failure = NULL;
}

static void free_context(const loaded* self, context* c) {
  tvmrt__context_release(self, c);
  free(c->tensor_copies);
  free(c->data);
  free(c);
}

/* Free all contexts except the first; all are idle. */
static void free_other_contexts(loaded* self) {
  while (self->first.next != NULL) {
    context* c = self->first.next;
    self->first.next = c->next;
    free_context(self, c);
  }
  self->is_full = false;
}

/* Called when its module is freed, so no call is in progress. Other contexts come before the first,
 * whose memory they may share. */
void tvmrt__loaded_region_free(tvmrt_loaded_region* self) {
  if (self->device != NULL) {
    free_other_contexts(self); /* which may hold weights of the first */
    tvmrt__context_release(self, &self->first);
  }
  free(self->first.tensor_copies);
  if (self->has_condition) tvmrt__cond_free(&self->returned);
  if (self->has_lock) tvmrt__mutex_free(&self->lock);
  free(self->options);
  free(self->fallbacks.reason);
  forget_failure(self);
}

/* End a run that has timed out, so that the caller may reuse its tensors. If post_run fails, or the
 * device has none, wait for the end of the run: until then the device writes to the tensors. Always
 * -1. */
static int stop_timed_out_run(const loaded* self, context* c) {
  const tvmrt_device_interface* slots = self->device->interface;
  char* reason = NULL;
  if (tvmrt__context_post_run(self, c) != 0) reason = tvmrt__strdup(TVMGetLastError());
  if (reason != NULL || slots->post_run == NULL) {
    (void)slots->async_wait(self->device, &c->region, 0);
  }
  if (reason != NULL) {
    tvmrt__set_error("TimeoutError: the run did not end in time, and could not be stopped: %s",
                     reason);
  } else {
    TVMPackedFuncSetLastError("TimeoutError: the run did not end in time.");
  }
  free(reason);
  return tvmrt__context_failed(self, c, "async_wait");
}

/* Poll a started run. */
static int poll_run(const loaded* self, context* c) {
  const int rc = self->device->interface->async_wait(self->device, &c->region, 1);
  if (rc != TVMRT_DEVICE_BUSY) return rc == 0 ? 0 : tvmrt__context_failed(self, c, "async_wait");
  if (tvmrt__seconds() < c->deadline) return TVMRT_DEVICE_BUSY;
  return stop_timed_out_run(self, c);
}

/* With a timeout, which async_wait() does not support, so it is polled. */
static int wait_until(const loaded* self, context* c) {
  double pause = 20e-6; /* grows to a millisecond, so that long runs use no processor time */
  int rc;
  while ((rc = poll_run(self, c)) == TVMRT_DEVICE_BUSY) {
    tvmrt__sleep(pause);
    if (pause < 1e-3) pause *= 2;
  }
  return rc;
}

/* Start a run, or execute it completely: if the device supports only that, or supports both and the
 * caller waits at once, without a timeout. */
int tvmrt__context_start(const loaded* self, context* c, bool waits) {
  const tvmrt_device_interface* slots = self->device->interface;
  const bool blocks = slots->run != NULL && waits && self->timeout_ms <= 0;
  if (!c->is_prepared)
    TVMRT_RETURN_IF_ERROR(tvmrt__context_pre_run(self, c)); /* after a run that timed out */
  c->began = tvmrt__seconds();
  if (slots->async_run == NULL || blocks) return tvmrt__context_call(self, c, "run", slots->run);
  c->deadline = c->began + 1e-3 * (double)self->timeout_ms;
  TVMRT_RETURN_IF_ERROR(tvmrt__context_call(self, c, "async_run", slots->async_run));
  c->is_started = true;
  return 0;
}

int tvmrt__context_finish(const loaded* self, context* c) {
  int rc;
  if (!c->is_started) return 0;
  c->is_started = false;
  if (self->timeout_ms > 0) return wait_until(self, c);
  rc = self->device->interface->async_wait(self->device, &c->region, 0);
  return rc == 0 ? 0 : tvmrt__context_failed(self, c, "async_wait");
}

/* Create another context, whose table contains only constants, as the first one's does between
 * calls. The first may be running, so nothing is read that a run writes. */
static context* make_context(loaded* self) {
  const size_t count = (size_t)self->initial.num_tensors;
  /* calloc without an error text: if memory is exhausted, the call waits for a context. */
  context* c = calloc(1, sizeof(*c));
  int32_t i;
  if (c == NULL) return NULL;
  c->region = self->initial;
  c->data = calloc(count, sizeof(*c->data));
  for (i = 0; c->data != NULL && i < c->region.num_tensors; ++i) {
    if (c->region.tensors[i].is_constant) c->data[i] = self->first.data[i];
  }
  c->region.data = c->data;
  if (c->data != NULL && tvmrt__context_allocate(self, c) == 0) return c;
  free_context(self, c);
  return NULL;
}

/* Called with the lock held. */
static context* idle_context(loaded* self) {
  context* c = &self->first;
  while (c != NULL && c->is_taken) c = c->next;
  return c;
}

/* If all are taken, another one is created, unless the device had no memory for one: then calls
 * wait for each other. Called with the lock held, which is released meanwhile. */
static context* take_context(loaded* self) {
  context* c;
  ++self->calls;
  while ((c = idle_context(self)) == NULL) {
    /* One is created at a time, as a taken one may be returned earlier. */
    if (self->is_full || self->is_making) {
      tvmrt__wait(&self->returned, &self->lock);
      continue;
    }
    self->is_making = true;
    /* Without the lock: preparing may take long, and runs return their contexts meanwhile. */
    tvmrt__unlock(&self->lock);
    c = make_context(self);
    tvmrt__lock(&self->lock);
    self->is_making = false;
    self->is_full = c == NULL;
    if (c == NULL) {
      tvmrt__forget_error(); /* the call will run when another has ended */
    } else {
      /* After the first, which is part of the region and therefore always the head. */
      c->next = self->first.next;
      self->first.next = c;
    }
    tvmrt__wake_all(&self->returned);
  }
  c->is_taken = true;
  return c;
}

/* Waiting threads check whether they need a context or can reshape. */
static void return_context(loaded* self, context* c) {
  tvmrt__lock(&self->lock);
  c->is_taken = false;
  --self->calls;
  tvmrt__wake_all(&self->returned);
  tvmrt__unlock(&self->lock);
}

/* Whether the region cannot run, with the reason as the thread's error. */
static bool has_failed(loaded* self) {
  const bool result = self->failure != NULL;
  if (result) TVMPackedFuncSetLastError(self->failure);
  return result;
}

/* Keep the error as the result of every call. */
static void keep_failure(loaded* self, int rc) {
  forget_failure(self);
  if (rc == 0) return;
  self->failure = tvmrt__strdup(TVMGetLastError());
  if (self->failure == NULL) self->failure = unknown_failure;
}

/* Until end_reshape() no call begins, and none is in progress. Called with the lock held. Waits for
 * other reshapes first, then for calls that began earlier. */
static void begin_reshape(loaded* self) {
  while (self->is_reshaping) tvmrt__wait(&self->returned, &self->lock);
  self->is_reshaping = true;
  while (self->calls != 0) tvmrt__wait(&self->returned, &self->lock);
}

/* Called with the lock held; waiting calls check again. */
static void end_reshape(loaded* self) {
  self->is_reshaping = false;
  tvmrt__wake_all(&self->returned);
}

/* Other contexts are created again on demand, for the new shapes. On failure all are kept, and
 * prepared when they are used. */
static int forget_shapes(loaded* self) {
  char* reason = NULL;
  context* c;
  int rc = 0;
  for (c = &self->first; c != NULL; c = c->next) {
    if (tvmrt__context_post_run(self, c) == 0) continue;
    if (rc == 0) reason = tvmrt__strdup(TVMGetLastError());
    rc = -1;
  }
  if (rc == 0) free_other_contexts(self);
  if (reason != NULL) TVMPackedFuncSetLastError(reason);
  free(reason);
  return rc;
}

/* `rc` is the result of setting the new shapes. */
static int prepare_shapes(loaded* self, int rc) {
  tvmrt_region* region = &self->first.region;
  region->failed_node = -1;
  if (rc == 0) rc = tvmrt__device_evaluate(self->device, region);
  if (rc == 0) rc = tvmrt__context_pre_run(self, &self->first);
  keep_failure(self, rc);
  return rc;
}

/* Called with the lock held, under which they change. */
static bool has_sizes(const loaded* self, const int64_t* sizes) {
  const size_t bytes = (size_t)self->sizes.count * sizeof(*sizes);
  return bytes == 0 || memcmp(self->sizes.current, sizes, bytes) == 0;
}

/* Prepare the region for the sizes of a call; calls with other sizes wait. A failure is the result
 * of this call and of all calls with these sizes. */
static void change_sizes(loaded* self, const int64_t* sizes) {
  /* A loop, since another call may have set its own sizes while this one waited. */
  while (!has_sizes(self, sizes)) {
    begin_reshape(self);
    if (!has_sizes(self, sizes)) {
      int rc = forget_shapes(self);
      memcpy(self->sizes.current, sizes, (size_t)self->sizes.count * sizeof(*sizes));
      if (rc == 0) rc = tvmrt__sizes_apply(&self->sizes, sizes, &self->first.region);
      (void)prepare_shapes(self, rc);
    }
    end_reshape(self);
  }
}

/* A context for a call with these sizes; NULL with the error if the region cannot run. */
static context* begin_call(loaded* self, const int64_t* sizes) {
  context* c = NULL;
  tvmrt__lock(&self->lock);
  while (self->is_reshaping) tvmrt__wait(&self->returned, &self->lock);
  /* A region without a device fails with its reason, for any sizes. */
  if (self->first.is_allocated && sizes != NULL) change_sizes(self, sizes);
  if (!has_failed(self)) c = take_context(self);
  tvmrt__unlock(&self->lock);
  return c;
}

/* Number of arguments and sizes are checked before a context is taken. */
tvmrt_region_context* tvmrt__context_take(tvmrt_loaded_region* self, const TVMValue* args,
                                          const int* codes, int num_args) {
  const int64_t* sizes;
  context* c;
  if (tvmrt__call_sizes(self, args, codes, num_args, &sizes) != 0) return NULL;
  c = begin_call(self, sizes);
  if (c == NULL || tvmrt__context_bind(self, c, args, codes) == 0) return c;
  tvmrt__context_unbind(c);
  return_context(self, c);
  return NULL;
}

int tvmrt__context_return(loaded* self, context* c, int rc) {
  tvmrt__context_unbind(c);
  return_context(self, c);
  return rc;
}
