/* Devices whose slots are global packed functions, registered by a front end:
 *
 *   device.<name>.run(symbol, input..., output...)                       required
 *   device.<name>.pre_run(symbol, JSON of the region, constants, options)
 *   device.<name>.post_run(symbol)
 *   device.<name>.start(symbol, input..., output...)
 *   device.<name>.num_queues()
 *
 * If pre_run returns a function, that runs the region instead of device.<name>.run, since two
 * libraries may have regions with one symbol. Of two functions in an Array the second replaces
 * start.
 *
 * start begins a run, whose tensors are valid until its end, and returns a function: called with 1
 * it returns whether the run is still in progress, with 0 it waits for its end. It may return
 * nothing if the run has ended. A device with start is asynchronous; a region whose pre_run
 * returned one function has no start, and runs synchronously. num_queues is the maximum number of
 * runs in progress.
 *
 * Tensors are views, valid during the call. The JSON is an element of "regions" (region_set.h),
 * with the current shapes of the region: at other shapes post_run and pre_run are called again. */
#include <stdlib.h>

#include "../core/container.h"
#include "loaded_region.h"

/* device_graph: the functions of one region. */
typedef struct scripted_graph {
  tvmrt_func* run;
  tvmrt_func* start; /* NULL: use run */
  tvmrt_func* wait;  /* of the run in progress; NULL if there is none */
  TVMValue* args;
  int* codes;
} scripted_graph;

/* Retained; *out is NULL if there is none. */
static int find_slot(const tvmrt_device* device, const char* slot, tvmrt_func** out) {
  tvmrt_buf name = {NULL, 0, 0};
  int rc = tvmrt__buf_printf(&name, "device.%s.%s", device->name, slot);
  *out = NULL;
  if (rc == 0) rc = tvmrt__global_get(name.data, out);
  tvmrt__buf_free(&name);
  return rc;
}

/* Two contexts may share a function that pre_run returned, since it is reference-counted. */
static void release_function(tvmrt_func** f) {
  if (*f != NULL) tvmrt__release(&(*f)->base);
  *f = NULL;
}

/* A region's graph ends with its context; the module owns the region's text and constants. */
static int scripted_release_graph(tvmrt_device* device, void* device_graph) {
  scripted_graph* g = device_graph;
  (void)device;
  release_function(&g->run);
  release_function(&g->start);
  release_function(&g->wait);
  free(g->args);
  free(g->codes);
  free(g);
  return 0;
}

/* One per context, so that concurrent runs have separate arguments. */
static int make_graph(tvmrt_region* region) {
  const size_t count = (size_t)region->num_inputs + (size_t)region->num_outputs + 1;
  scripted_graph* g = tvmrt__calloc(1, sizeof(*g));
  if (g == NULL) return -1;
  region->device_graph = g;
  g->args = tvmrt__calloc(count, sizeof(*g->args));
  g->codes = tvmrt__calloc(count, sizeof(*g->codes));
  return g->args != NULL && g->codes != NULL ? 0 : -1;
}

/* The functions of a device whose pre_run returns none. */
static int find_functions(const tvmrt_device* device, scripted_graph* g) {
  release_function(&g->run);
  release_function(&g->start);
  TVMRT_RETURN_IF_ERROR(find_slot(device, "start", &g->start));
  TVMRT_RETURN_IF_ERROR(find_slot(device, "run", &g->run));
  return g->run != NULL ? 0 : tvmrt__fail_value("device.%s.run was removed.", device->name);
}

/* Take over pre_run's result: a function, or an Array of two. Anything else is dropped. */
static void keep_functions(scripted_graph* g, TVMValue ret, int code) {
  tvmrt_object* found = tvmrt__value_object(&ret, code);
  tvmrt_object* own[2] = {NULL, NULL};
  size_t i, count = 0;
  if (found != NULL && found->type_index == TVMRT_TYPE_FUNCTION) {
    own[count++] = found;
  } else if (found != NULL && found->type_index == TVMRT_TYPE_ARRAY) {
    const tvmrt_array* pair = (const tvmrt_array*)found;
    for (i = 0; i < pair->size && i < 2 && pair->items[i] != NULL; ++i)
      own[count++] = pair->items[i];
  }
  for (i = 0; i < count; ++i) {
    if (own[i]->type_index != TVMRT_TYPE_FUNCTION) count = 0;
  }
  if (count > 0) {
    /* replaces the device's own from find_functions() */
    release_function(&g->run);
    release_function(&g->start);
    for (i = 0; i < count; ++i) tvmrt__retain(own[i]);
    g->run = (tvmrt_func*)own[0];
    g->start = (tvmrt_func*)own[1];
  }
  tvmrt__release(found);
}

/* `constants` and the text are only valid during the call. */
static int pass_region(tvmrt_func* f, tvmrt_region* region, const char* options) {
  const tvmrt_loaded_region* loaded = region->runtime;
  TVMByteArray constants = {loaded->constants->data, loaded->constants->size};
  tvmrt_buf json = {NULL, 0, 0};
  TVMValue args[4];
  int codes[4] = {kTVMStr, kTVMStr, kTVMBytes, kTVMStr};
  TVMValue ret;
  int code;
  int rc = tvmrt__write_region(loaded->text, loaded->text_size, &loaded->sizes, region, &json);
  args[0].v_str = region->symbol;
  args[1].v_str = json.data;
  args[2].v_handle = &constants;
  args[3].v_str = options;
  if (rc == 0) rc = TVMFuncCall(f, args, codes, 4, &ret, &code);
  if (rc == 0) keep_functions(region->device_graph, ret, code);
  tvmrt__buf_free(&json);
  return rc;
}

/* Called again for other shapes: the graph is kept, its functions may change. */
static int scripted_pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  tvmrt_func* f;
  int rc = 0;
  if (region->device_graph == NULL) TVMRT_RETURN_IF_ERROR(make_graph(region));
  TVMRT_RETURN_IF_ERROR(find_functions(device, region->device_graph));
  TVMRT_RETURN_IF_ERROR(find_slot(device, "pre_run", &f));
  if (f == NULL) return 0;
  rc = pass_region(f, region, options);
  tvmrt__release(&f->base);
  return rc;
}

/* Set the arguments of a call; returns their number. */
static int set_args(const scripted_graph* g, const tvmrt_region* region) {
  int count = 1;
  int32_t i;
  g->args[0].v_str = region->symbol;
  g->codes[0] = kTVMStr;
  for (i = 0; i < region->num_inputs; ++i, ++count) {
    g->args[count].v_handle = region->data[region->inputs[i]];
    g->codes[count] = kTVMDLTensorHandle;
  }
  for (i = 0; i < region->num_outputs; ++i, ++count) {
    g->args[count].v_handle = region->data[region->outputs[i]];
    g->codes[count] = kTVMDLTensorHandle;
  }
  return count;
}

/* Blocks: for devices without start, and for callers that wait at once. */
static int scripted_run(tvmrt_device* device, tvmrt_region* region) {
  const scripted_graph* g = region->device_graph;
  (void)device;
  return tvmrt__func_call(g->run, g->args, g->codes, set_args(g, region));
}

/* Without a function for waiting, the run has ended. */
static int scripted_async_run(tvmrt_device* device, tvmrt_region* region) {
  scripted_graph* g = region->device_graph;
  TVMValue ret;
  int code;
  if (g->start == NULL) return scripted_run(device, region);
  TVMRT_RETURN_IF_ERROR(TVMFuncCall(g->start, g->args, g->codes, set_args(g, region), &ret, &code));
  if (code == kTVMPackedFuncHandle) {
    g->wait = ret.v_handle; /* takes the reference that the call returned */
  } else {
    tvmrt__release(tvmrt__value_object(&ret, code));
  }
  return 0;
}

/* If waiting fails, the run has ended too: the function is released, and the next run starts
 * again. */
static int scripted_async_wait(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  scripted_graph* g = region->device_graph;
  TVMValue arg, ret;
  int code = kTVMArgInt, ret_code, rc;
  bool is_busy;
  (void)device;
  if (g->wait == NULL) return 0;
  arg.v_int64 = try_wait;
  rc = TVMFuncCall(g->wait, &arg, &code, 1, &ret, &ret_code);
  is_busy = rc == 0 && try_wait != 0 && ret_code == kTVMArgInt && ret.v_int64 != 0;
  if (rc == 0) tvmrt__release(tvmrt__value_object(&ret, ret_code));
  if (is_busy) return TVMRT_DEVICE_BUSY;
  release_function(&g->wait);
  return rc;
}

/* A timed-out run is also waited for: afterwards its tensors belong to the caller again. */
static int scripted_post_run(tvmrt_device* device, tvmrt_region* region) {
  tvmrt_func* f;
  TVMValue arg;
  int code = kTVMStr;
  int rc;
  if (scripted_async_wait(device, region, 0) != 0) tvmrt__forget_error();
  TVMRT_RETURN_IF_ERROR(find_slot(device, "post_run", &f));
  if (f == NULL) return 0;
  arg.v_str = region->symbol;
  rc = tvmrt__func_call(f, &arg, &code, 1);
  tvmrt__release(&f->base);
  return rc;
}

/* Maximum number of runs in progress, from the device's function; 0 if it has none. */
static int query_queues(const tvmrt_device* device, uint32_t* out) {
  TVMValue ret;
  int code;
  tvmrt_func* f;
  int rc;
  *out = 0;
  TVMRT_RETURN_IF_ERROR(find_slot(device, "num_queues", &f));
  if (f == NULL) return 0;
  rc = TVMFuncCall(f, NULL, NULL, 0, &ret, &code);
  tvmrt__release(&f->base);
  if (rc != 0) return -1;
  if (code != kTVMArgInt || ret.v_int64 < 1 || ret.v_int64 > INT32_MAX) {
    tvmrt__release(tvmrt__value_object(&ret, code));
    return tvmrt__fail_value("device.%s.num_queues did not return an integer of at least 1.",
                             device->name);
  }
  *out = (uint32_t)ret.v_int64;
  return 0;
}

/* Whether the front end registered a function. */
static int has_slot(const tvmrt_device* device, const char* slot, bool* out) {
  tvmrt_func* f;
  TVMRT_RETURN_IF_ERROR(find_slot(device, slot, &f));
  *out = f != NULL;
  release_function(&f);
  return 0;
}

/* `name` is borrowed by the device and owned by the registry. *out_found: whether there is one. */
int tvmrt__scripted_device(const char* name, tvmrt_device* out, bool* out_found) {
  static const tvmrt_device_interface blocking = {
      .pre_run = scripted_pre_run,
      .run = scripted_run,
      .post_run = scripted_post_run,
      .release_graph = scripted_release_graph,
  };
  static const tvmrt_device_interface deferred = {
      .pre_run = scripted_pre_run,
      .run = scripted_run,
      .post_run = scripted_post_run,
      .async_run = scripted_async_run,
      .async_wait = scripted_async_wait,
      .release_graph = scripted_release_graph,
  };
  bool has_start;
  *out_found = false;
  memset(out, 0, sizeof(*out));
  out->struct_bytes = sizeof(*out);
  out->name = name;
  out->version = UINT32_MAX;   /* one front end wrote both halves: it supports all versions */
  out->abilities = UINT64_MAX; /* and all abilities */
  TVMRT_RETURN_IF_ERROR(has_slot(out, "run", out_found));
  if (!*out_found) return 0;
  TVMRT_RETURN_IF_ERROR(has_slot(out, "start", &has_start));
  out->interface = has_start ? &deferred : &blocking;
  return query_queues(out, &out->num_queues);
}
