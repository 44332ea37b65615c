/* A region on its device: prepared, run, released. */
#include "loaded_region.h"

#include <stdlib.h>

#include "../base/json.h"
#include "../platform/system.h"
#include "../tensors/tensor.h"

typedef tvmrt_loaded_region loaded;
typedef tvmrt_region_context context;

/* The failure of a region where there was no memory for the text of the real one. */
static char unknown_failure[] =
    "MemoryError: the region could not be prepared for its shapes, and there was no memory to keep "
    "the reason; reshape it again.";

/* The runtime itself knows one option: {"timeout_ms": 100}. */
static int read_option(tvmrt_parser* in, void* into, const char* key) {
  loaded* self = into;
  if (strcmp(key, "timeout_ms") != 0) return tvmrt__parse_skip(in);
  return tvmrt__parse_int(in, &self->timeout_ms);
}

/* Other options are the device's: it reads the same text by a parser of its own. */
static int read_options(loaded* self) {
  tvmrt_parser in;
  tvmrt__parse_init(&in, "the text of a device's options", self->options, strlen(self->options));
  self->timeout_ms = 0;
  return tvmrt__parse_members(&in, read_option, self);
}

/* What users set takes the place of what the library brings. */
static int choose_options(loaded* self, const char* of_library) {
  TVMRT_RETURN_IF_ERROR(tvmrt__device_options(self->device, &self->options));
  if (self->options == NULL) {
    self->options = tvmrt__strdup(of_library == NULL ? "{}" : of_library);
    if (self->options == NULL) return -1;
  }
  return read_options(self);
}

/* What a library's loading does for each region, in this order: shapes, abilities, the device's
 * own judgement, memory and graph. */
static int prepare(loaded* self) {
  const tvmrt_region* region = &self->first.region;
  tvmrt_device_description can;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_describe(self->device, &can));
  /* Before the device is asked: it judges shapes, and these are those of the most of each size. */
  if (self->sizes.count != 0) {
    TVMRT_RETURN_IF_ERROR(tvmrt__sizes_apply(&self->sizes, self->sizes.now, region));
  }
  if (tvmrt__region_is_open(region) && !(self->device->abilities & TVMRT_DEVICE_ANY_SIZE)) {
    return tvmrt__fail_value(
        "device '%s' takes no extents that a run chooses, which region '%.100s' has: load the "
        "device that the library was compiled for, or compile it again.",
        self->device->name, region->symbol);
  }
  self->any_layout = can.layout != NULL && strcmp(can.layout, "dense") != 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_evaluate(self->device, region));
  return tvmrt__context_allocate(self, &self->first);
}

/* Tensors of the constants; those of a call take their places in the same table. */
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
  /* What contexts of later calls begin as: with the tensors, without a graph, since each has its
   * own. `base` leads slots from there to the first, whose packed weights they may share. */
  self->unused = self->first.region;
  self->unused.device_graph = NULL;
  self->unused.failed_node = -1;
  self->unused.base = &self->first.region;
  return 0;
}

/* On failure the caller frees it all the same: flags and NULLs say how far it came. */
int tvmrt__loaded_region_init(tvmrt_loaded_region* self, const tvmrt_region_draft* draft,
                              tvmrt_device* device, const char* options, tvmrt_arena* arena) {
  self->first.region = draft->region;
  self->first.region.runtime = self;
  self->device = device;
  /* What the two flags say is how far this came, which freeing goes by. */
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

/* The static text is nobody's to free. */
static void forget_failure(loaded* self) {
  if (self->failure != unknown_failure) free(self->failure);
  self->failure = NULL;
}

static void free_context(const loaded* self, context* c) {
  tvmrt__context_release(self, c);
  free(c->held);
  free(c->data);
  free(c);
}

/* Contexts beside the first, all of them idle. */
static void free_others(loaded* self) {
  while (self->first.next != NULL) {
    context* c = self->first.next;
    self->first.next = c->next;
    free_context(self, c);
  }
  self->is_full = false;
}

/* When its module goes, so no call is under way. Others before the first, in whose memory they
 * may have a share. */
void tvmrt__loaded_region_free(tvmrt_loaded_region* self) {
  tvmrt__others_free(self);
  if (self->device != NULL) {
    free_others(self); /* which may hold weights of the first */
    tvmrt__context_release(self, &self->first);
  }
  free(self->first.held);
  if (self->has_condition) tvmrt__cond_free(&self->returned);
  if (self->has_lock) tvmrt__mutex_free(&self->lock);
  free(self->options);
  free(self->shapes);
  free(self->fallbacks.reason);
  forget_failure(self);
}

/* End a run that is over its time, so that its tensors are the caller's again. Where post_run does not
 * stop it, or the device has none, the end of the run is waited for: until then the device writes to
 * them. Always -1. */
static int stop_late_run(const loaded* self, context* c) {
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

/* One look at a run that was started. */
static int look(const loaded* self, context* c) {
  const int rc = self->device->interface->async_wait(self->device, &c->region, 1);
  if (rc != TVMRT_DEVICE_BUSY) return rc == 0 ? 0 : tvmrt__context_failed(self, c, "async_wait");
  if (self->timeout_ms == 0 || tvmrt__seconds() < c->deadline) return TVMRT_DEVICE_BUSY;
  return stop_late_run(self, c);
}

/* With a limit of time, which async_wait() does not know: so it is asked again and again. */
static int wait_until(const loaded* self, context* c) {
  double pause = 20e-6; /* grows to a millisecond: long runs cost no processor */
  int rc;
  while ((rc = look(self, c)) == TVMRT_DEVICE_BUSY) {
    tvmrt__sleep(pause);
    if (pause < 1e-3) pause *= 2;
  }
  return rc;
}

/* Start a run, or do it all: where the device knows no other way, or knows that way too and the caller
 * waits at once, without a limit of time. */
int tvmrt__context_start(const loaded* self, context* c, bool waits) {
  const tvmrt_device_interface* slots = self->device->interface;
  const bool blocks = slots->run != NULL && waits && self->timeout_ms <= 0;
  if (!c->is_prepared)
    TVMRT_RETURN_IF_ERROR(tvmrt__context_pre_run(self, c)); /* after a run that timed out */
  if (slots->async_run == NULL || blocks) return tvmrt__context_call(self, c, "run", slots->run);
  c->deadline = tvmrt__seconds() + 1e-3 * (double)self->timeout_ms;
  TVMRT_RETURN_IF_ERROR(tvmrt__context_call(self, c, "async_run", slots->async_run));
  c->is_started = true;
  return 0;
}

/* TVMRT_DEVICE_BUSY only where it only looks. */
int tvmrt__context_finish(const loaded* self, context* c, bool only_look) {
  int rc;
  if (!c->is_started) return 0;
  if (only_look) {
    rc = look(self, c);
  } else if (self->timeout_ms > 0) {
    rc = wait_until(self, c);
  } else {
    rc = self->device->interface->async_wait(self->device, &c->region, 0);
    if (rc != 0) rc = tvmrt__context_failed(self, c, "async_wait");
  }
  c->is_started = rc == TVMRT_DEVICE_BUSY;
  return rc;
}

/* One more context, whose table begins as the first one's does between calls: constants alone. That
 * one may run meanwhile, so nothing is read that a run writes. */
static context* make_context(loaded* self) {
  const size_t count = (size_t)self->unused.num_tensors;
  /* calloc alone, without an error: where there is no memory the call waits for a context. */
  context* c = calloc(1, sizeof(*c));
  int32_t i;
  if (c == NULL) return NULL;
  c->region = self->unused;
  c->data = calloc(count, sizeof(*c->data));
  for (i = 0; c->data != NULL && i < c->region.num_tensors; ++i) {
    if (c->region.tensors[i].is_constant) c->data[i] = self->first.data[i];
  }
  c->region.data = c->data;
  if (c->data != NULL && tvmrt__context_allocate(self, c) == 0) return c;
  free_context(self, c);
  return NULL;
}

/* With the lock. */
static context* idle_context(loaded* self) {
  context* c = &self->first;
  while (c != NULL && c->is_taken) c = c->next;
  return c;
}

/* Where all are taken, one more is made, unless the device has not had room for one: then calls wait
 * for each other. Called with the lock, which is let go meanwhile. */
static context* take_context(loaded* self) {
  context* c;
  ++self->calls;
  while ((c = idle_context(self)) == NULL) {
    /* One is made at a time, as one of those that are taken may come back before. */
    if (self->is_full || self->is_making) {
      tvmrt__wait(&self->returned, &self->lock);
      continue;
    }
    self->is_making = true;
    /* Without the lock: preparing may take long, and runs give their contexts back meanwhile. */
    tvmrt__unlock(&self->lock);
    c = make_context(self);
    tvmrt__lock(&self->lock);
    self->is_making = false;
    self->is_full = c == NULL;
    if (c == NULL) {
      tvmrt__forget_error(); /* the call will run, when another has ended */
    } else {
      /* Behind the first, which is part of the region and therefore the head for good. */
      c->next = self->first.next;
      self->first.next = c;
    }
    tvmrt__wake_all(&self->returned);
  }
  c->is_taken = true;
  return c;
}

/* Who waits looks whether it is a context, or a reshape, that it can go on with. */
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

/* Keep the error as the answer to every call. */
static void keep_failure(loaded* self, int rc) {
  forget_failure(self);
  if (rc == 0) return;
  self->failure = tvmrt__strdup(TVMGetLastError());
  if (self->failure == NULL) self->failure = unknown_failure;
}

/* From here to end_reshape() no call begins, and none is under way. With the lock. Reshapes wait
 * for each other first, then for the calls that were there before them. */
static void begin_reshape(loaded* self) {
  while (self->is_reshaping) tvmrt__wait(&self->returned, &self->lock);
  self->is_reshaping = true;
  while (self->calls != 0) tvmrt__wait(&self->returned, &self->lock);
}

/* With the lock; calls that waited look again. */
static void end_reshape(loaded* self) {
  self->is_reshaping = false;
  tvmrt__wake_all(&self->returned);
}

/* Other contexts are made again when they are needed, at the new shapes. On failure all of them stay,
 * to be prepared when they are used. */
static int forget_shapes(loaded* self) {
  char* reason = NULL;
  context* c;
  int rc = 0;
  for (c = &self->first; c != NULL; c = c->next) {
    if (tvmrt__context_post_run(self, c) == 0) continue;
    if (rc == 0) reason = tvmrt__strdup(TVMGetLastError());
    rc = -1;
  }
  if (rc == 0) free_others(self);
  if (reason != NULL) TVMPackedFuncSetLastError(reason);
  free(reason);
  return rc;
}

/* `rc` is what became of the new shapes. */
static int prepare_shapes(loaded* self, int rc) {
  tvmrt_region* region = &self->first.region;
  region->failed_node = -1;
  if (rc == 0) rc = tvmrt__device_evaluate(self->device, region);
  if (rc == 0) rc = tvmrt__context_pre_run(self, &self->first);
  keep_failure(self, rc);
  return rc;
}

/* With the lock, under which they change. */
static bool has_sizes(const loaded* self, const int64_t* sizes) {
  const size_t bytes = (size_t)self->sizes.count * sizeof(*sizes);
  return bytes == 0 || memcmp(self->sizes.now, sizes, bytes) == 0;
}

/* Prepare the region for the sizes of a call, which calls of other sizes wait for. What fails is the
 * answer to this call and to all of these sizes. */
static void change_sizes(loaded* self, const int64_t* sizes) {
  /* A loop, since another call may have set its own sizes while this one waited. */
  while (!has_sizes(self, sizes)) {
    begin_reshape(self);
    if (!has_sizes(self, sizes)) {
      int rc = forget_shapes(self);
      memcpy(self->sizes.now, sizes, (size_t)self->sizes.count * sizeof(*sizes));
      if (rc == 0) rc = tvmrt__sizes_apply(&self->sizes, sizes, &self->first.region);
      (void)prepare_shapes(self, rc);
    }
    end_reshape(self);
  }
}

/* A context for a call of these sizes; NULL with the error if the region cannot run. */
static context* begin_call(loaded* self, const int64_t* sizes) {
  context* c = NULL;
  tvmrt__lock(&self->lock);
  while (self->is_reshaping) tvmrt__wait(&self->returned, &self->lock);
  /* A region that no device has taken fails with its reason, whatever the sizes. */
  if (self->first.is_allocated && sizes != NULL) change_sizes(self, sizes);
  if (!has_failed(self)) c = take_context(self);
  tvmrt__unlock(&self->lock);
  return c;
}

/* A call's arguments are checked before it takes a context, as far as they say how many and
 * which sizes. */
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

/* Tensor numbers, and sizes that can be counted: all else is for tvmrt__infer_shapes() to say. */
static int check_shapes(const tvmrt_region* region, const tvmrt_region_shape* shapes,
                        int32_t num_shapes) {
  int32_t i;
  uint64_t bytes;
  for (i = 0; i < num_shapes; ++i) {
    int32_t tensor = shapes[i].tensor;
    if (tensor < 0 || tensor >= region->num_tensors) {
      return tvmrt__fail_value("region '%.100s' has no tensor %d to reshape; it has %d.",
                               region->symbol, (int)tensor, (int)region->num_tensors);
    }
    if (region->tensors[tensor].is_constant) {
      return tvmrt__wrong_tensor(region, tensor, "is a constant and cannot be reshaped");
    }
    TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(shapes[i].shape, region->tensors[tensor].ndim,
                                             region->tensors[tensor].dtype, &bytes));
  }
  return 0;
}

/* What fails here is the answer to every call until the next reshape. */
static int reshape(loaded* self, const tvmrt_region_shape* shapes, int32_t num_shapes) {
  int rc = forget_shapes(self);
  if (rc == 0) rc = tvmrt__infer_shapes(&self->first.region, shapes, num_shapes, true);
  return prepare_shapes(self, rc);
}

/* With the lock from the check to the end: nobody sees shapes half set. Shapes are inferred twice,
 * first without setting any, so that what cannot be leaves the region as it is. */
int tvmrt__region_reshape(tvmrt_region* region, const tvmrt_region_shape* shapes,
                          int32_t num_shapes) {
  loaded* self = region->runtime;
  int rc;
  if (self->sizes.count != 0) {
    return tvmrt__fail_value(
        "region '%.100s' cannot be reshaped: its runs choose their sizes; call the network with "
        "inputs of the shapes that you want.",
        region->symbol);
  }
  tvmrt__lock(&self->lock);
  begin_reshape(self);
  rc = check_shapes(region, shapes, num_shapes);
  if (rc == 0) rc = tvmrt__infer_shapes(region, shapes, num_shapes, false);
  /* Without a device there is nothing to prepare: the answer is why there is none. */
  if (rc == 0 && self->device == NULL) {
    rc = has_failed(self) ? -1 : 0;
  } else if (rc == 0) {
    rc = tvmrt__keep_shapes(self);
    if (rc == 0) rc = reshape(self, shapes, num_shapes);
    if (rc == 0) tvmrt__others_reshape(self, shapes, num_shapes);
  }
  end_reshape(self);
  tvmrt__unlock(&self->lock);
  return rc;
}
