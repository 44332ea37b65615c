/* Profiling report objects, and the functions that create them. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "sdk/base.h"
#include "sdk/modules.h"
#include "sdk/system.h"

/* ---- objects ---- */

static const struct {
  tvmrt_type type;
  const char* member;
} metrics[] = {
    {TVMRT_TYPE_DURATION, "microseconds"},
    {TVMRT_TYPE_PERCENT, "percent"},
    {TVMRT_TYPE_RATIO, "ratio"},
    {TVMRT_TYPE_COUNT, "count"},
};
enum { NUM_METRICS = sizeof(metrics) / sizeof(metrics[0]) };

/* Borrowed and static. */
const char* tvmrt__metric_member(const tvmrt_object* value) {
  size_t i;
  for (i = 0; i < NUM_METRICS; ++i) {
    if (value->type_index == (uint32_t)metrics[i].type) return metrics[i].member;
  }
  return NULL;
}

/* A count is stored as the nearest integer. */
tvmrt_box* tvmrt__metric_new(tvmrt_type type, double value) {
  tvmrt_box* box = tvmrt__box_new(type);
  if (box == NULL) return NULL;
  if (type == TVMRT_TYPE_COUNT) {
    box->as.integer = tvmrt__float_to_int(value);
  } else {
    box->as.real = value;
  }
  return box;
}

/* Maps and lists may be shared with the report's creator. */
static void free_report(tvmrt_object* obj) {
  tvmrt_report* r = (tvmrt_report*)(void*)obj;
  tvmrt__release(&r->calls->base);
  tvmrt__release(&r->device_metrics->base);
  tvmrt__release(&r->configuration->base);
  free(r);
}

/* Takes over the three arguments, also on failure. */
static tvmrt_object* new_report(tvmrt_array* calls, tvmrt_map* devices, tvmrt_map* configuration) {
  tvmrt_report* r = tvmrt__alloc(sizeof(*r));
  if (r == NULL) {
    tvmrt__release(&calls->base);
    tvmrt__release(&devices->base);
    tvmrt__release(&configuration->base);
    return NULL;
  }
  tvmrt__object_init(&r->base, TVMRT_TYPE_REPORT, free_report);
  r->calls = calls;
  r->device_metrics = devices;
  r->configuration = configuration;
  return &r->base;
}

/* ---- from JSON ---- */

/* Parser state; the list of calls grows in a buffer of map pointers. */
typedef struct reading {
  tvmrt_buf calls;
  tvmrt_map* device_metrics;
  tvmrt_map* configuration;
} reading;

/* Read a metric's single member; `into` is a tvmrt_object**. */
static int read_member(tvmrt_parser* in, void* into, const char* key) {
  tvmrt_object** out = into;
  double number = 0;
  size_t i;
  /* If a member is repeated, the last one wins and the earlier one is freed. */
  tvmrt__release(*out);
  *out = NULL;
  if (strcmp(key, "string") == 0) {
    tvmrt_buf text = {NULL, 0, 0};
    const int rc = tvmrt__parse_string(in, &text);
    if (rc == 0) *out = (tvmrt_object*)tvmrt__string_new(text.data, text.size);
    tvmrt__buf_free(&text);
    return *out == NULL ? -1 : 0;
  }
  for (i = 0; i < NUM_METRICS && strcmp(key, metrics[i].member) != 0; ++i) continue;
  if (i == NUM_METRICS) return tvmrt__parse_fail(in, "unknown kind of metric '%.40s'", key);
  TVMRT_RETURN_IF_ERROR(tvmrt__parse_real(in, &number));
  *out = (tvmrt_object*)tvmrt__metric_new(metrics[i].type, number);
  return *out == NULL ? -1 : 0;
}

/* map_set_text() takes over the value, also on failure. */
static int read_metric(tvmrt_parser* in, void* map, const char* key) {
  tvmrt_object* value = NULL;
  if (tvmrt__parse_members(in, read_member, &value) != 0) {
    tvmrt__release(value);
    return -1;
  }
  if (value == NULL) return tvmrt__parse_fail(in, "a metric is empty");
  return tvmrt__map_set_text(map, key, value);
}

/* Read the metrics of a whole device; replaces an earlier entry of that name. */
static int read_device(tvmrt_parser* in, void* devices, const char* key) {
  tvmrt_map* map = tvmrt__map_new();
  if (map != NULL && tvmrt__parse_members(in, read_metric, map) != 0) {
    tvmrt__release(&map->base);
    return -1;
  }
  return map == NULL ? -1 : tvmrt__map_set_text(devices, key, &map->base);
}

/* A call that cannot be parsed is released here; the list contains only complete ones. */
static int read_call(tvmrt_parser* in, void* calls) {
  tvmrt_map* map = tvmrt__map_new();
  int rc = map == NULL ? -1 : tvmrt__parse_members(in, read_metric, map);
  if (rc == 0) rc = tvmrt__buf_append(calls, &map, sizeof(map));
  if (rc != 0 && map != NULL) tvmrt__release(&map->base);
  return rc;
}

/* Unknown members are skipped. */
static int read_part(tvmrt_parser* in, void* into, const char* key) {
  reading* r = into;
  if (strcmp(key, "calls") == 0) return tvmrt__parse_items(in, read_call, &r->calls);
  if (strcmp(key, "device_metrics") == 0) {
    return tvmrt__parse_members(in, read_device, r->device_metrics);
  }
  if (strcmp(key, "configuration") == 0) {
    return tvmrt__parse_members(in, read_metric, r->configuration);
  }
  return tvmrt__parse_skip(in);
}

/* *out is owned; on failure it is NULL and everything parsed is released. */
int tvmrt__report_from_json(const char* text, size_t size, tvmrt_object** out) {
  /* The maps are checked below, after everything that must be freed is initialised. */
  reading r = {{NULL, 0, 0}, tvmrt__map_new(), tvmrt__map_new()};
  tvmrt_parser in;
  tvmrt_array* calls = NULL;
  int rc = r.device_metrics == NULL || r.configuration == NULL ? -1 : 0;
  size_t count;
  *out = NULL;
  tvmrt__parse_init(&in, "the report", text, size);
  if (rc == 0) rc = tvmrt__parse_members(&in, read_part, &r);
  count = r.calls.size / sizeof(tvmrt_map*);
  if (rc == 0) calls = tvmrt__array_new(count);
  if (calls != NULL) {
    /* The buffer's references move to the array. */
    if (count != 0) memcpy(calls->items, r.calls.data, r.calls.size);
    *out = new_report(calls, r.device_metrics, r.configuration);
  } else {
    size_t i;
    for (i = 0; i < count; ++i) tvmrt__release(((tvmrt_object**)(void*)r.calls.data)[i]);
    tvmrt__release((tvmrt_object*)r.device_metrics);
    tvmrt__release((tvmrt_object*)r.configuration);
  }
  tvmrt__buf_free(&r.calls);
  return *out == NULL ? -1 : 0;
}

/* ---- functions ---- */

/* (text) -> report. */
TVMRT_PLUGIN_NATIVE(profiling_from_json) {
  TVMByteArray text;
  tvmrt_object* report = NULL;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_bytes(&in, 0, &text));
  TVMRT_RETURN_IF_ERROR(tvmrt__report_from_json(text.data, text.size, &report));
  return tvmrt__ret_object(out, out_code, report);
}

/* (calls, device metrics[, configuration, since 0.9]). Only the list is checked here; the entries
 * are checked when the report is printed. */
TVMRT_PLUGIN_NATIVE(profiling_make_report) {
  tvmrt_array* calls;
  tvmrt_map* devices;
  tvmrt_map* configuration = NULL;
  size_t i;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 2, 3));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_ARRAY, &calls));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 1, TVMRT_TYPE_MAP, &devices));
  if (num_args == 3) {
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 2, TVMRT_TYPE_MAP, &configuration));
    tvmrt__retain(&configuration->base);
  } else {
    configuration = tvmrt__map_new();
    if (configuration == NULL) return -1;
  }
  for (i = 0; i < calls->size; ++i) {
    if (calls->items[i] != NULL && calls->items[i]->type_index == TVMRT_TYPE_MAP) continue;
    /* only the map is owned by this function so far */
    tvmrt__release(&configuration->base);
    return tvmrt__fail_type("%s: call %zu is not a map from names to metrics.", in.callee, i);
  }
  tvmrt__retain(&calls->base);
  tvmrt__retain(&devices->base);
  return tvmrt__ret_object(out, out_code, new_report(calls, devices, configuration));
}

/* A metric is a boxed number with its own type, so frontends unbox it like any number. */
static int make_metric(const tvmrt_args* in, tvmrt_type type, TVMValue* out, int* out_code) {
  /* accept any number type, since frontends box different ones */
  double value;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_number(in, 0, &value));
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)tvmrt__metric_new(type, value));
}

#define METRIC(fn, type)                          \
  TVMRT_PLUGIN_NATIVE(fn) {                       \
    TVMRT_GLOBAL_ARGS;                            \
    return make_metric(&in, type, out, out_code); \
  }
METRIC(profiling_make_duration, TVMRT_TYPE_DURATION)
METRIC(profiling_make_percent, TVMRT_TYPE_PERCENT)
METRIC(profiling_make_ratio, TVMRT_TYPE_RATIO)
METRIC(profiling_make_count, TVMRT_TYPE_COUNT)

/* Destructor for objects that own nothing. */
static void free_plain(tvmrt_object* obj) { free(obj); }

/* (Device) -> key for a map of metrics, printed as its name and number. */
TVMRT_PLUGIN_NATIVE(profiling_make_device) {
  tvmrt_device_wrapper* wrapper;
  DLDevice device;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_device(&in, 0, &device));
  wrapper = tvmrt__alloc(sizeof(*wrapper));
  if (wrapper == NULL) return -1;
  tvmrt__object_init(&wrapper->base, TVMRT_TYPE_DEVICE_WRAPPER, free_plain);
  wrapper->device = device;
  return tvmrt__ret_object(out, out_code, &wrapper->base);
}

/* (report) -> JSON text, which FromJSON reads. */
TVMRT_PLUGIN_NATIVE(profiling_as_json) {
  tvmrt_buf text = {NULL, 0, 0};
  tvmrt_report* report;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_REPORT, &report));
  return tvmrt__ret_buf(tvmrt__report_json(report, &text), kTVMStr, &text, out, out_code);
}

/* (report) -> CSV text with one line per call. */
TVMRT_PLUGIN_NATIVE(profiling_as_csv) {
  tvmrt_buf text = {NULL, 0, 0};
  tvmrt_report* report;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 1));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_REPORT, &report));
  return tvmrt__ret_buf(tvmrt__report_csv(report, &text), kTVMStr, &text, out, out_code);
}

/* (report, whether to sort, whether to aggregate, whether to add sums) */
TVMRT_PLUGIN_NATIVE(profiling_as_table) {
  tvmrt_buf text = {NULL, 0, 0};
  tvmrt_report* report;
  int64_t flags[3] = {1, 1, 1};
  int i;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 1, 4));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 0, TVMRT_TYPE_REPORT, &report));
  for (i = 1; i < num_args; ++i) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, i, &flags[i - 1]));
  return tvmrt__ret_buf(
      tvmrt__report_table(report, flags[0] != 0, flags[1] != 0, flags[2] != 0, &text), kTVMStr,
      &text, out, out_code);
}

/* Context of a profiled function; freed with it. */
typedef struct profiled {
  tvmrt_func* function; /* owned */
  int64_t warmup;
} profiled;

/* Finaliser of a profiled function. */
static void free_profiled(void* resource) {
  profiled* p = resource;
  tvmrt__release(&p->function->base);
  free(p);
}

/* Run the function with its own arguments and return a map of metrics. Its results are released.
 * Only the last run is measured; the earlier ones are warm-up. */
static int run_profiled(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                        void* resource_handle) {
  const profiled* p = resource_handle;
  tvmrt_map* map;
  tvmrt_box* duration;
  double start = 0;
  double seconds = 0;
  int64_t i;
  for (i = 0; i <= p->warmup; ++i) {
    TVMValue result;
    int code;
    start = tvmrt__seconds();
    TVMRT_RETURN_IF_ERROR(
        /* the interface takes functions as non-const */
        TVMFuncCall((void*)(uintptr_t)p->function, args, type_codes, num_args, &result, &code));
    seconds = tvmrt__seconds() - start;
    tvmrt__release(tvmrt__value_object(&result, code));
  }
  map = tvmrt__map_new();
  if (map == NULL) return -1;
  duration = tvmrt__metric_new(TVMRT_TYPE_DURATION, seconds * 1e6);
  if (tvmrt__map_set_text(map, "Duration (us)", (tvmrt_object*)duration) != 0) {
    tvmrt__release(&map->base);
    return -1;
  }
  return tvmrt__ret_object(out, out_code, &map->base);
}

/* (module, function, device type, device id, number of warm-up runs, collectors) */
TVMRT_PLUGIN_NATIVE(profiling_profile_function) {
  tvmrt_module* module;
  tvmrt_array* collectors;
  tvmrt_func* made;
  const char* name;
  profiled p = {NULL, 0};
  profiled* closure;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(&in, 6, 6));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &module));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 1, &name));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(&in, 4, &p.warmup));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(&in, 5, TVMRT_TYPE_ARRAY, &collectors));
  if (collectors->size != 0) {
    return tvmrt__fail_value("%s: C++ metric collectors are not supported; pass an empty list.",
                             in.callee);
  }
  if (p.warmup < 0)
    return tvmrt__fail_value("%s: the number of warm-up runs is negative.", in.callee);
  TVMRT_RETURN_IF_ERROR(tvmrt__module_get(module, name, true, &p.function));
  if (p.function == NULL) {
    /* Python's error kind, which clients catch. */
    return tvmrt__fail("AttributeError: the module has no function '%.100s'.", name);
  }
  /* Move the function from the local struct into the new function's context, or release it. */
  closure = tvmrt__alloc(sizeof(*closure));
  made = closure == NULL ? NULL : tvmrt__func_new(run_profiled, closure, free_profiled);
  if (made == NULL) {
    tvmrt__release(&p.function->base);
    free(closure);
    return -1;
  }
  *closure = p;
  return tvmrt__ret_object(out, out_code, &made->base);
}
