/* A region on its device: prepared, run, released. */
#include "loaded_region.h"

#include <stdlib.h>
#include <time.h>

#include "../base/clock.h"
#include "../base/json.h"
#include "../tensors/tensor.h"

typedef tvmrt_loaded_region loaded;

/* The failure of a region where there was no memory for the text of the real one. */
static char unknown_failure[] =
    "MemoryError: the region could not be prepared for its shapes, and there was no memory to keep "
    "the reason; reshape it again.";

static tvmrt_loaded_region* loaded_of(const tvmrt_region* region) { return region->runtime; }

static int failed(loaded* self, const char* slot) {
  return tvmrt__slot_failed(self->device, slot, &self->region);
}

/* Slots that take device and region alone; NULL ones do nothing. */
static int call_slot(loaded* self, const char* name, int (*slot)(tvmrt_device*, tvmrt_region*)) {
  if (slot == NULL) return 0;
  /* what an earlier call said of its failure is no answer to this one */
  tvmrt__forget_error();
  self->region.failed_node = -1;
  return slot(self->device, &self->region) == 0 ? 0 : failed(self, name);
}

/* The runtime itself knows one option: {"timeout_ms": 100}. */
static int read_option(tvmrt_parser* in, void* into, const char* key) {
  loaded* self = into;
  if (strcmp(key, "timeout_ms") != 0) return tvmrt__parse_skip(in);
  return tvmrt__parse_int(in, &self->timeout_ms);
}

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

static void release_graph(loaded* self) {
  int (*release)(tvmrt_device*, void*) = self->device->interface->release_graph;
  if (self->region.device_graph != NULL && release != NULL) {
    (void)release(self->device, self->region.device_graph);
  }
  self->region.device_graph = NULL;
}

static int pre_run(loaded* self) {
  const tvmrt_device_interface* slots = self->device->interface;
  int rc = 0;
  if (slots->pre_run != NULL) {
    tvmrt__forget_error();
    self->region.failed_node = -1;
    rc = slots->pre_run(self->device, &self->region, self->options);
    if (rc != 0) {
      rc = failed(self, "pre_run");
      release_graph(self); /* of which there may be a part */
    }
  }
  self->is_prepared = rc == 0;
  return rc;
}

static void post_run(loaded* self) {
  if (!self->is_prepared) return;
  self->is_prepared = false;
  if (self->device->interface->post_run != NULL) {
    (void)self->device->interface->post_run(self->device, &self->region);
  }
}

static int prepare(loaded* self) {
  const tvmrt_device_allocator* allocator = self->device->allocator;
  tvmrt_device_description can;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_describe(self->device, &can));
  if (tvmrt__region_is_open(&self->region) && !(self->device->abilities & TVMRT_DEVICE_ANY_SIZE)) {
    return tvmrt__fail_value(
        "device '%s' takes no extents that a run chooses, which region '%.100s' has: load the "
        "device that the library was compiled for, or compile it again.",
        self->device->name, self->region.symbol);
  }
  self->any_layout = can.layout != NULL && strcmp(can.layout, "dense") != 0;
  TVMRT_RETURN_IF_ERROR(tvmrt__device_evaluate(self->device, &self->region));
  if (allocator != NULL) TVMRT_RETURN_IF_ERROR(call_slot(self, "allocate", allocator->allocate));
  self->is_allocated = true;
  return pre_run(self);
}

/* Tensors of the constants; those of a call take their places in the same table. */
static int make_data(loaded* self, tvmrt_arena* arena) {
  const tvmrt_region* region = &self->region;
  DLTensor* constants = tvmrt__arena_alloc(arena, (size_t)region->num_tensors, sizeof(*constants));
  int32_t i;
  self->data = tvmrt__arena_alloc(arena, (size_t)region->num_tensors, sizeof(*self->data));
  if (constants == NULL || self->data == NULL) return -1;
  for (i = 0; i < region->num_tensors; ++i) {
    const tvmrt_region_tensor* t = &region->tensors[i];
    if (t->data == NULL) continue;
    constants[i].data = (void*)(uintptr_t)t->data;
    constants[i].device.device_type = kDLCPU;
    constants[i].ndim = t->ndim;
    constants[i].dtype = t->dtype;
    constants[i].shape = (int64_t*)(uintptr_t)t->shape;
    self->data[i] = &constants[i];
  }
  self->region.data = self->data;
  return 0;
}

int tvmrt__loaded_region_init(tvmrt_loaded_region* self, const tvmrt_region_draft* draft,
                              tvmrt_device* device, const char* options, tvmrt_arena* arena) {
  self->region = draft->region;
  self->region.runtime = self;
  self->device = device;
  if (pthread_mutex_init(&self->lock, NULL) != 0) return tvmrt__fail_memory(sizeof(self->lock));
  self->has_lock = true;
  TVMRT_RETURN_IF_ERROR(make_data(self, arena));
  if (device == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(choose_options(self, options));
  return prepare(self);
}

static void forget_failure(loaded* self) {
  if (self->failure != unknown_failure) free(self->failure);
  self->failure = NULL;
}

void tvmrt__loaded_region_free(tvmrt_loaded_region* self) {
  if (self->device != NULL) {
    const tvmrt_device_allocator* allocator = self->device->allocator;
    /* prepare() backwards: a run uses the graph, and the graph what was allocated */
    post_run(self);
    release_graph(self);
    if (self->is_allocated && allocator != NULL && allocator->release != NULL) {
      (void)allocator->release(self->device, &self->region);
    }
  }
  if (self->has_lock) (void)pthread_mutex_destroy(&self->lock);
  free(self->options);
  free(self->fallbacks.reason);
  forget_failure(self);
}

static int wrong_tensor(const tvmrt_region* region, int32_t tensor, const char* what) {
  return tvmrt__fail_value("region '%.100s': tensor '%.80s' %s.", region->symbol,
                           region->tensors[tensor].name, what);
}

static int bind_tensor(loaded* self, int32_t tensor, const TVMValue* value, int code) {
  const tvmrt_region_tensor* wanted = &self->region.tensors[tensor];
  DLTensor* t = value->v_handle;
  int32_t i;
  if ((code != kTVMDLTensorHandle && code != kTVMNDArrayHandle && code != kTVMOpaqueHandle) ||
      t == NULL) {
    return wrong_tensor(&self->region, tensor, "is not given as a tensor");
  }
  if (t->ndim != wanted->ndim || !tvmrt__same_dtype(t->dtype, wanted->dtype)) {
    return wrong_tensor(&self->region, tensor, "comes with another rank or type");
  }
  for (i = 0; i < t->ndim; ++i) {
    if (t->shape[i] > wanted->shape[i] || t->shape[i] < tvmrt__least_extents(wanted)[i]) {
      return wrong_tensor(&self->region, tensor, "comes with another shape");
    }
  }
  if (t->strides != NULL && !self->any_layout && !tvmrt__is_compact(t)) {
    return wrong_tensor(&self->region, tensor, "is not compact");
  }
  self->data[tensor] = t;
  return 0;
}

static int bind(loaded* self, const TVMValue* args, const int* codes, int num_args) {
  const tvmrt_region* region = &self->region;
  int32_t i;
  if (num_args != region->num_inputs + region->num_outputs) {
    return tvmrt__fail_value("region '%.100s' takes %d inputs and %d outputs, got %d tensors.",
                             region->symbol, (int)region->num_inputs, (int)region->num_outputs,
                             num_args);
  }
  for (i = 0; i < region->num_inputs; ++i) {
    TVMRT_RETURN_IF_ERROR(bind_tensor(self, region->inputs[i], &args[i], codes[i]));
  }
  args += region->num_inputs;
  codes += region->num_inputs;
  for (i = 0; i < region->num_outputs; ++i) {
    TVMRT_RETURN_IF_ERROR(bind_tensor(self, region->outputs[i], &args[i], codes[i]));
  }
  return 0;
}

/* The tensors are the caller's, who may free them after the call. */
static void unbind(loaded* self) {
  const tvmrt_region* region = &self->region;
  int32_t i;
  for (i = 0; i < region->num_inputs; ++i) self->data[region->inputs[i]] = NULL;
  for (i = 0; i < region->num_outputs; ++i) self->data[region->outputs[i]] = NULL;
}

static int wait_until(loaded* self, double deadline) {
  struct timespec pause = {0, 20000}; /* grows to a millisecond: long runs cost no processor */
  for (;;) {
    int rc = self->device->interface->async_wait(self->device, &self->region, 1);
    if (rc != TVMRT_DEVICE_BUSY) return rc == 0 ? 0 : failed(self, "async_wait");
    if (tvmrt__seconds() >= deadline) break;
    (void)nanosleep(&pause, NULL);
    if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
  }
  post_run(self); /* which stops the run, so that its tensors are the caller's again */
  TVMPackedFuncSetLastError("TimeoutError: the run did not end in time.");
  return failed(self, "async_wait");
}

static int run_async(loaded* self) {
  const tvmrt_device_interface* slots = self->device->interface;
  const double deadline = tvmrt__seconds() + 1e-3 * (double)self->timeout_ms;
  TVMRT_RETURN_IF_ERROR(call_slot(self, "async_run", slots->async_run));
  if (self->timeout_ms > 0) return wait_until(self, deadline);
  return slots->async_wait(self->device, &self->region, 0) == 0 ? 0 : failed(self, "async_wait");
}

static int run(loaded* self) {
  const tvmrt_device_interface* slots = self->device->interface;
  if (!self->is_prepared) TVMRT_RETURN_IF_ERROR(pre_run(self)); /* after a run that timed out */
  return slots->async_run != NULL ? run_async(self) : call_slot(self, "run", slots->run);
}

int tvmrt__loaded_region_call(TVMValue* args, int* codes, int num_args, TVMValue* out,
                              int* out_code, void* resource) {
  loaded* self = resource;
  int rc;
  (void)out;
  (void)out_code;
  (void)pthread_mutex_lock(&self->lock);
  if (self->failure != NULL) {
    TVMPackedFuncSetLastError(self->failure);
    rc = -1;
  } else {
    rc = bind(self, args, codes, num_args);
    if (rc == 0) rc = run(self);
    unbind(self);
  }
  (void)pthread_mutex_unlock(&self->lock);
  if (rc != 0 && self->falls_back) tvmrt__note_fallback(self);
  return rc;
}

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
      return wrong_tensor(region, tensor, "is a constant and cannot be reshaped");
    }
    TVMRT_RETURN_IF_ERROR(tvmrt__shape_bytes(shapes[i].shape, region->tensors[tensor].ndim,
                                             region->tensors[tensor].dtype, &bytes));
  }
  return 0;
}

/* The arrays are the runtime's own memory; they are constant for devices alone. */
static void set_shapes(const tvmrt_region* region, const tvmrt_region_shape* shapes,
                       int32_t num_shapes) {
  int32_t i;
  for (i = 0; i < num_shapes; ++i) {
    tvmrt_region_tensor* t = (tvmrt_region_tensor*)(uintptr_t)&region->tensors[shapes[i].tensor];
    memcpy((int64_t*)(uintptr_t)t->shape, shapes[i].shape, (size_t)t->ndim * sizeof(*t->shape));
    memcpy(tvmrt__least_extents(t), shapes[i].shape, (size_t)t->ndim * sizeof(*t->shape));
    (void)tvmrt__shape_bytes(t->shape, t->ndim, t->dtype, &t->num_bytes);
  }
}

/* Keep the error as the answer to every call. */
static void keep_failure(loaded* self, int rc) {
  forget_failure(self);
  if (rc == 0) return;
  self->failure = tvmrt__strdup(TVMGetLastError());
  if (self->failure == NULL) self->failure = unknown_failure;
}

int tvmrt_region_reshape(tvmrt_region* region, const tvmrt_region_shape* shapes,
                         int32_t num_shapes) {
  loaded* self = loaded_of(region);
  int rc;
  (void)pthread_mutex_lock(&self->lock);
  rc = check_shapes(region, shapes, num_shapes);
  if (rc == 0) rc = tvmrt__check_reshape(region, shapes, num_shapes);
  if (rc == 0 && self->device == NULL) {
    TVMPackedFuncSetLastError(self->failure);
    rc = -1;
  } else if (rc == 0) {
    post_run(self); /* what is under way has the old shapes */
    set_shapes(region, shapes, num_shapes);
    rc = tvmrt__device_evaluate(self->device, region);
    if (rc == 0) rc = pre_run(self);
    keep_failure(self, rc);
  }
  (void)pthread_mutex_unlock(&self->lock);
  return rc;
}
