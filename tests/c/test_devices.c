/* Devices and regions: registration, the life of a region, failing slots, payloads, splits. */
#include <tvm/runtime/device.h>
#include <tvm/runtime/module_plugin.h>

#include "support.h"

/* A device whose slots count their calls, fail where they are told to, and add up their inputs. */
typedef struct probe {
  int calls[13];
  int fails; /* the slot that fails; -1: none */
  int at_node;
  int busy; /* answers of async_wait before the run has ended */
  char options[80];
  int64_t extent; /* of tensor 0 at the last pre_run */
} probe;

enum {
  INIT,
  PRE_RUN,
  RUN,
  POST_RUN,
  ASYNC_RUN,
  ASYNC_WAIT,
  GRAPH,
  DEVICE,
  ALLOCATE,
  RELEASE,
  DESCRIBE,
  SPLIT,
  OPTIMIZE
};

static probe state;

static int enter(int slot, tvmrt_region* region) {
  ++state.calls[slot];
  if (state.fails != slot) return 0;
  if (region != NULL) region->failed_node = state.at_node;
  TVMPackedFuncSetLastError("the wires are cut.");
  return -1;
}

static int add_up(tvmrt_region* region) {
  float* y = tvmrt_region_data(region, region->outputs[0]);
  const int64_t size = tvmrt_region_size(region, region->outputs[0]);
  for (int64_t i = 0; i < size; ++i) {
    y[i] = 0;
    for (int32_t k = 0; k < region->nodes[0].num_inputs; ++k) {
      y[i] += ((const float*)tvmrt_region_data(region, region->nodes[0].inputs[k]))[i];
    }
  }
  return 0;
}

static int probe_init(tvmrt_device* device) {
  assert_ptr_equal(device->privacy, &state);
  return enter(INIT, NULL);
}
static int probe_pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  (void)device;
  (void)snprintf(state.options, sizeof(state.options), "%s", options);
  state.extent = region->tensors[0].shape[0];
  if (region->device_graph == NULL) region->device_graph = malloc(8);
  return enter(PRE_RUN, region);
}
static int probe_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return enter(RUN, region) != 0 ? -1 : add_up(region);
}
static int probe_post_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return enter(POST_RUN, region);
}
static int probe_async_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return enter(ASYNC_RUN, region);
}
static int probe_async_wait(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  (void)device;
  if (try_wait && state.busy-- > 0) return TVMRT_DEVICE_BUSY;
  return enter(ASYNC_WAIT, region) != 0 ? -1 : add_up(region);
}
static int probe_release_graph(tvmrt_device* device, void* graph) {
  (void)device;
  free(graph);
  return enter(GRAPH, NULL);
}
static int probe_release_device(tvmrt_device* device) {
  (void)device;
  return enter(DEVICE, NULL);
}
static int probe_describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"add", "neg", NULL};
  (void)device;
  out->ops = ops;
  return enter(DESCRIBE, NULL);
}
static int probe_evaluation(tvmrt_device* device, const tvmrt_region* region) {
  (void)device;
  if (strcmp(region->nodes[0].op, "neg") != 0) return 0;
  TVMPackedFuncSetLastError("it cannot count backwards.");
  return -1;
}
static int probe_allocate(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return enter(ALLOCATE, region);
}
static int probe_release(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return enter(RELEASE, region);
}

static int probe_split_graph(tvmrt_device* device, const tvmrt_region* graph, int32_t* out_groups) {
  if (enter(SPLIT, NULL) != 0) return -1;
  return tvmrt_split_graph_by_describe(device, graph, out_groups);
}
static int probe_optimize_graph(tvmrt_device* device, const tvmrt_region* region,
                                const char* precision, int32_t* out_reduced) {
  (void)device;
  (void)region;
  out_reduced[0] = strcmp(precision, "int8") == 0;
  return enter(OPTIMIZE, NULL);
}

static const tvmrt_device_interface sync_slots = {
    .init = probe_init,
    .pre_run = probe_pre_run,
    .run = probe_run,
    .post_run = probe_post_run,
    .release_graph = probe_release_graph,
    .release_device = probe_release_device,
};
static const tvmrt_device_interface async_slots = {
    .pre_run = probe_pre_run,
    .post_run = probe_post_run,
    .async_run = probe_async_run,
    .async_wait = probe_async_wait,
    .release_graph = probe_release_graph,
};
static const tvmrt_device_allocator allocator = {
    .describe = probe_describe,
    .evaluation = probe_evaluation,
    .allocate = probe_allocate,
    .release = probe_release,
};

static const tvmrt_device_optimizer optimizer = {
    .split_graph = probe_split_graph,
    .optimize_graph = probe_optimize_graph,
};

static tvmrt_device probe_device(const tvmrt_device_interface* slots) {
  tvmrt_device device = {.struct_bytes = sizeof(device),
                         .name = "probe",
                         .interface = slots,
                         .allocator = &allocator,
                         .optimizer = &optimizer,
                         .privacy = &state,
                         .version = 2};
  return device;
}

static int reset(void** unused) {
  (void)unused;
  memset(&state, 0, sizeof(state));
  state.fails = -1;
  state.at_node = -1;
  return 0;
}

static int enter_probe(void** unused) {
  tvmrt_device device = probe_device(&sync_slots);
  (void)reset(unused);
  return tvmrt_device_register(&device);
}

static int enter_async_probe(void** unused) {
  tvmrt_device device = probe_device(&async_slots);
  (void)reset(unused);
  return tvmrt_device_register(&device);
}

static int leave_probe(void** unused) {
  (void)unused;
  return tvmrt_device_unregister("probe");
}

/* y = x + w, where w is a constant; %s: what stands before "regions", then the operator. */
#define REGION_TEXT                                                                           \
  "{\"format\": \"tvmrt-regions\", \"version\": 1, %s, \"regions\": [{\"symbol\": \"r0\","    \
  " \"name\": \"sum\", \"tensors\": [{\"name\": \"x\", \"dtype\": \"float32\", \"shape\":"    \
  " [2]}, {\"name\": \"w\", \"dtype\": \"float32\", \"shape\": [2], \"offset\": 64,"          \
  " \"bytes\": 8}, {\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [2]}], \"nodes\":"    \
  " [{\"op\": \"%s\", \"name\": \"sum1\", \"inputs\": [0, 1], \"outputs\": [2], \"attrs\":"   \
  " {\"axis\": -1, \"pads\": [1, 2], \"alpha\": 0.5, \"scales\": [1, 2.5], \"mode\": \"up\"," \
  " \"none\": [], \"limit\": Infinity}}], \"inputs\": [0], \"outputs\": [2]}]}"

static const char plain[] = "\"device\": \"probe\", \"device_version\": 2";

static int load_regions(const char* text, TVMModuleHandle* out) {
  char constants[72] = {0};
  const float w[2] = {10, 20};
  TVMByteArray bytes = {constants, sizeof(constants)};
  call c = {0};
  int rc;
  memcpy(constants + 64, w, sizeof(w));
  arg_str(&c, text);
  arg_handle(&c, kTVMBytes, &bytes);
  rc = call_global(&c, "tvmrt.device.load_regions");
  *out = rc == 0 ? c.ret.v_handle : NULL;
  return rc;
}

static int load_with(const char* head, const char* op, TVMModuleHandle* out) {
  char text[1024];
  (void)snprintf(text, sizeof(text), REGION_TEXT, head, op);
  return load_regions(text, out);
}

static int run_region(TVMModuleHandle mod, int64_t extent) {
  const float values[3] = {1, 2, 3};
  DLTensor* x = make_tensor(1, &extent, values);
  DLTensor* y = make_tensor(1, &extent, NULL);
  call c = {0};
  int rc;
  arg_handle(&c, kTVMNDArrayHandle, x);
  arg_handle(&c, kTVMNDArrayHandle, y);
  rc = call_module(&c, mod, "r0");
  if (rc == 0 && extent == 2) assert_floats(y, 2, (const float[]){11, 22});
  TVMArrayFree(x);
  TVMArrayFree(y);
  return rc;
}

static void test_region_lives_from_load_to_free(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  assert_int_equal(state.calls[INIT], 1);
  assert_ok(load_with(plain, "add", &mod));
  assert_int_equal(state.calls[ALLOCATE], 1);
  assert_int_equal(state.calls[PRE_RUN], 1);
  assert_string_equal(state.options, "{}");
  assert_ok(run_region(mod, 2));
  assert_ok(run_region(mod, 2));
  assert_int_equal(state.calls[RUN], 2);
  assert_int_equal(state.calls[POST_RUN], 0);
  assert_fails(tvmrt_device_unregister("probe"), "used by 1 loaded libraries");
  TVMModFree(mod);
  assert_int_equal(state.calls[POST_RUN], 1);
  assert_int_equal(state.calls[GRAPH], 1);
  assert_int_equal(state.calls[RELEASE], 1);
}

static void test_unregistering_releases_the_device(void** unused) {
  tvmrt_device device = probe_device(&sync_slots);
  tvmrt_device* found;
  (void)unused;
  assert_ok(tvmrt_device_register(&device));
  assert_ok(tvmrt_device_find("probe", &found));
  assert_ptr_equal(found->privacy, &state);
  assert_ok(tvmrt_device_unregister("probe"));
  assert_int_equal(state.calls[DEVICE], 1);
  assert_ok(tvmrt_device_find("probe", &found));
  assert_null(found);
  assert_fails(tvmrt_device_unregister("probe"), "no device 'probe'");
}

static void test_attributes_have_their_kinds(void** unused) {
  TVMModuleHandle mod;
  tvmrt_region* region;
  const tvmrt_region_node* n;
  int32_t count;
  (void)unused;
  assert_ok(load_with(plain, "add", &mod));
  assert_ok(tvmrt_region_find(mod, "r0", &region));
  n = &region->nodes[0];
  assert_string_equal(n->name, "sum1");
  assert_int_equal(tvmrt_node_int(n, "axis", 0), -1);
  assert_int_equal(tvmrt_node_int(n, "absent", 7), 7);
  assert_int_equal(tvmrt_node_ints(n, "pads", &count)[1], 2);
  assert_int_equal(count, 2);
  assert_true(tvmrt_node_float(n, "alpha", 0) == 0.5);
  assert_true(tvmrt_node_float(n, "axis", 0) == -1.0);
  assert_true(tvmrt_node_floats(n, "scales", &count)[0] == 1.0);
  assert_true(tvmrt_node_float(n, "limit", 0) > 1e300);
  assert_string_equal(tvmrt_node_text(n, "mode", ""), "up");
  assert_null(tvmrt_node_ints(n, "none", &count));
  assert_int_equal(count, 0);
  assert_true(((uintptr_t)region->tensors[1].data & 63) == 0);
  assert_fails(tvmrt_region_find(mod, "r9", &region), "has no region 'r9'");
  TVMModFree(mod);
}

static void test_reshape_prepares_again(void** unused) {
  TVMModuleHandle mod;
  tvmrt_region* region;
  const int64_t one = 1;
  const int64_t two = 2;
  const int64_t three = 3;
  const int64_t bad = -3;
  tvmrt_region_shape shapes[2] = {{0, &three}, {2, &three}};
  (void)unused;
  assert_ok(load_with(plain, "add", &mod));
  assert_ok(tvmrt_region_find(mod, "r0", &region));
  assert_fails(tvmrt_region_reshape(region, shapes, 2),
               "node 'sum1' (add) would get do not belong");
  assert_int_equal(state.calls[POST_RUN], 0);
  shapes[0].shape = &one; /* which broadcasts */
  shapes[1].shape = &two;
  assert_ok(tvmrt_region_reshape(region, shapes, 2));
  assert_int_equal(state.calls[POST_RUN], 1);
  assert_int_equal(state.calls[PRE_RUN], 2);
  assert_int_equal(state.extent, 1);
  assert_int_equal(region->tensors[0].num_bytes, 4);
  assert_fails(run_region(mod, 2), "another shape");
  shapes[0].tensor = 1;
  assert_fails(tvmrt_region_reshape(region, shapes, 1), "constant");
  shapes[0].tensor = 9;
  assert_fails(tvmrt_region_reshape(region, shapes, 1), "no tensor 9");
  shapes[0].tensor = 0;
  shapes[0].shape = &bad;
  assert_fails(tvmrt_region_reshape(region, shapes, 1), "negative");
  assert_int_equal(state.calls[PRE_RUN], 2);
  state.fails = PRE_RUN;
  shapes[0].shape = &two;
  assert_fails(tvmrt_region_reshape(region, shapes, 1), "the wires are cut");
  assert_fails(run_region(mod, 2), "pre_run of region 'r0' failed: the wires are cut");
  TVMModFree(mod);
  assert_int_equal(state.calls[GRAPH], 1);
}

static void test_options_come_from_library_or_user(void** unused) {
  static const char with_options[] = "\"device\": \"probe\", \"options\": {\"cores\": 2}";
  TVMModuleHandle mod;
  call c = {0};
  (void)unused;
  assert_ok(load_with(with_options, "add", &mod));
  assert_string_equal(state.options, "{\"cores\": 2}");
  TVMModFree(mod);
  arg_str(&c, "probe");
  arg_str(&c, "{\"cores\": 4}");
  assert_ok(call_global(&c, "tvmrt.device.set_options"));
  assert_ok(load_with(with_options, "add", &mod));
  assert_string_equal(state.options, "{\"cores\": 4}");
  TVMModFree(mod);
}

static void test_failing_slots_are_named(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  state.fails = ALLOCATE;
  assert_fails(load_with(plain, "add", &mod),
               "device 'probe': allocate of region 'r0' failed: the wires are cut.");
  state.fails = PRE_RUN;
  state.at_node = 0;
  assert_fails(load_with(plain, "add", &mod), "pre_run of region 'r0' failed at node 'sum1' (add)");
  assert_int_equal(state.calls[GRAPH], 1);
  assert_int_equal(state.calls[RELEASE], 1);
  state.fails = -1;
  assert_fails(load_with(plain, "neg", &mod), "evaluation of region 'r0' failed: it cannot count");
  assert_ok(load_with(plain, "add", &mod));
  state.fails = RUN;
  assert_fails(run_region(mod, 2), "run of region 'r0' failed at node 'sum1' (add): the wires");
  state.fails = -1;
  assert_ok(run_region(mod, 2));
  TVMModFree(mod);
}

static void test_failing_releases_are_survived(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  for (int slot = POST_RUN; slot <= RELEASE; ++slot) {
    assert_ok(load_with(plain, "add", &mod));
    state.fails = slot == ALLOCATE ? GRAPH : slot;
    TVMModFree(mod);
    state.fails = -1;
  }
  assert_int_equal(state.calls[GRAPH], RELEASE - POST_RUN + 1);
}

static void test_fallback_loads_and_fails_when_called(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  state.fails = PRE_RUN;
  assert_ok(load_with("\"device\": \"probe\", \"fallback\": 1", "add", &mod));
  assert_fails(run_region(mod, 2), "pre_run of region 'r0' failed: the wires are cut.");
  TVMModFree(mod);
  assert_ok(load_with("\"device\": \"absent\", \"fallback\": 1", "add", &mod));
  assert_fails(run_region(mod, 2), "needs device 'absent'");
  TVMModFree(mod);
}

static void test_asynchronous_slots_run_the_region(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  assert_ok(load_with(plain, "add", &mod));
  assert_ok(run_region(mod, 2));
  assert_int_equal(state.calls[ASYNC_RUN], 1);
  state.fails = ASYNC_RUN;
  assert_fails(run_region(mod, 2), "async_run of region 'r0' failed");
  state.fails = ASYNC_WAIT;
  assert_fails(run_region(mod, 2), "async_wait of region 'r0' failed");
  TVMModFree(mod);
}

static void test_run_that_times_out_is_stopped(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  assert_ok(load_with("\"device\": \"probe\", \"options\": {\"timeout_ms\": 60000}", "add", &mod));
  state.busy = 3;
  assert_ok(run_region(mod, 2));
  TVMModFree(mod);
  (void)reset(NULL);
  assert_ok(load_with("\"device\": \"probe\", \"options\": {\"timeout_ms\": 5}", "add", &mod));
  state.busy = 1 << 20;
  assert_fails(run_region(mod, 2), "did not end in time");
  assert_int_equal(state.calls[POST_RUN], 1);
  state.busy = 0;
  assert_ok(run_region(mod, 2));
  assert_int_equal(state.calls[PRE_RUN], 2);
  TVMModFree(mod);
}

static void test_wrong_arguments_are_refused(void** unused) {
  TVMModuleHandle mod;
  const int64_t shape[2] = {2, 1};
  DLTensor* t = make_tensor(2, shape, NULL);
  call c = {0};
  (void)unused;
  assert_ok(load_with(plain, "add", &mod));
  assert_fails(run_region(mod, 3), "tensor 'x' comes with another shape");
  arg_handle(&c, kTVMNDArrayHandle, t);
  assert_fails(call_module(&c, mod, "r0"), "takes 1 inputs and 1 outputs, got 1 tensors");
  arg_int(&c, 3);
  assert_fails(call_module(&c, mod, "r0"), "another rank");
  TVMArrayFree(t);
  TVMModFree(mod);
  assert_int_equal(state.calls[RUN], 0);
}

static void test_incomplete_devices_are_refused(void** unused) {
  tvmrt_device device = probe_device(&sync_slots);
  tvmrt_device_interface slots = {0};
  (void)unused;
  assert_fails(tvmrt_device_register(NULL), "struct_bytes");
  device.struct_bytes = 8;
  assert_fails(tvmrt_device_register(&device), "struct_bytes is 8 instead of");
  device.struct_bytes = sizeof(device);
  device.name = "../probe";
  assert_fails(tvmrt_device_register(&device), "no name for a device");
  device.name = NULL;
  assert_fails(tvmrt_device_register(&device), "no name for a device");
  device.name = "probe";
  device.interface = NULL;
  assert_fails(tvmrt_device_register(&device), "lacks the slot 'run'");
  device.interface = &slots;
  assert_fails(tvmrt_device_register(&device), "lacks the slot 'run'");
  slots.async_run = probe_async_run;
  assert_fails(tvmrt_device_register(&device), "lacks the slot 'async_wait'");
  device.interface = &sync_slots;
  state.fails = INIT;
  assert_fails(tvmrt_device_register(&device), "device 'probe': init failed: the wires are cut.");
  assert_int_equal(state.calls[DEVICE], 0);
}

static void test_names_are_unique(void** unused) {
  tvmrt_device device = probe_device(&sync_slots);
  (void)unused;
  assert_fails(tvmrt_device_register(&device), "there is a device 'probe' already");
  assert_int_equal(state.calls[INIT], 1);
}

static void test_list_has_all_registered(void** unused) {
  const char* names[16];
  int32_t count;
  int found = 0;
  (void)unused;
  assert_ok(tvmrt_device_list(names, 16, &count));
  assert_in_range(count, 1, 16);
  for (int32_t i = 0; i < count; ++i) found += strcmp(names[i], "probe") == 0;
  assert_int_equal(found, 1);
}

static void test_missing_device_says_how_to_get_it(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  assert_fails(load_with("\"device\": \"absent\"", "add", &mod),
               "needs device 'absent' for region 'r0'");
  assert_fails(load_with("\"device\": \"absent\"", "add", &mod), "libtvmrt_device_absent.so");
}

static void test_newer_library_is_refused(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  assert_fails(load_with("\"device\": \"probe\", \"device_version\": 3", "add", &mod),
               "compiled for version 3 of device 'probe', which is here in version 2");
}

static void test_module_saves_what_it_read(void** unused) {
  TVMModuleHandle mod;
  call c = {0};
  (void)unused;
  assert_ok(load_with(plain, "add", &mod));
  arg_handle(&c, kTVMModuleHandle, mod);
  arg_str(&c, "");
  assert_ok(call_global(&c, "runtime.ModuleGetSource"));
  assert_non_null(strstr(c.ret.v_str, "tvmrt-regions"));
  TVMModFree(mod);
}

typedef struct damage {
  const char* from;
  const char* to;
  const char* error;
} damage;

/* The text with its first occurrence of `from` replaced. */
static void replace(char* text, const damage* d) {
  char* at = strstr(text, d->from);
  char rest[2048];
  assert_non_null(at);
  (void)snprintf(rest, sizeof(rest), "%s%s", d->to, at + strlen(d->from));
  strcpy(at, rest);
}

static void test_damaged_texts_are_refused(void** unused) {
  static const damage cases[] = {
      {"tvmrt-regions", "other", "format is 'other'"},
      {"\"version\": 1", "\"version\": 2", "version 2 of the format"},
      {"\"device\": \"probe\", ", "", "names no device"},
      {"\"offset\": 64", "\"offset\": 8", "multiple of 64"},
      {"\"offset\": 64", "\"offset\": 128", "lies outside"},
      {"\"bytes\": 8", "\"bytes\": 12", "12 bytes instead of 8"},
      {"\"shape\": [2]", "\"shape\": [-2]", "negative"},
      {"\"shape\": [2]", "\"shape\": [4611686018427387904, 8]", "memory"},
      {"\"inputs\": [0, 1]", "\"inputs\": [0, 3]", "reads tensor 3"},
      {"\"inputs\": [0, 1]", "\"inputs\": [0, 2]", "reads tensor 2"},
      {"\"inputs\": [0, 1]", "\"inputs\": [0, -2]", "out of range"},
      {"\"outputs\": [2]", "\"outputs\": [0]", "computed twice"},
      {"\"outputs\": [2]", "\"outputs\": [7]", "names tensor 7"},
      {"\"inputs\": [0], ", "\"inputs\": [1], ", "computed twice"},
      {"\"outputs\": [2]}]", "\"outputs\": [2, 2]}]", "reads tensor 2"},
      {"\"outputs\": [2]}]", "\"outputs\": [0]}]", "reads tensor 0"},
      {"\"symbol\": \"r0\",", "", "lacks 'symbol'"},
      {"\"op\": \"add\",", "", "lacks 'op'"},
      {"\"dtype\": \"float32\",", "", "lacks 'name', 'dtype'"},
      {"float32", "floaty", "floaty"},
      {"0.5", "0.5.5", "no number"},
      {"]}]}", "]}]} x", "something follows"},
  };
  (void)unused;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    TVMModuleHandle mod;
    char text[2048];
    (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "add");
    replace(text, &cases[i]);
    assert_fails(load_regions(text, &mod), cases[i].error);
  }
}

static void test_changed_texts_do_not_crash(void** unused) {
  static const char replacements[] = {'9', '-', '"', ']', '}', '[', ',', '\\', ' ', '\x80'};
  char text[1024];
  char copy[1024];
  (void)unused;
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "add");
  for (size_t at = 0; text[at] != '\0'; ++at) {
    for (size_t k = 0; k < sizeof(replacements); ++k) {
      TVMModuleHandle mod;
      strcpy(copy, text);
      copy[at] = replacements[k];
      if (load_regions(copy, &mod) == 0) TVMModFree(mod);
    }
    strcpy(copy, text);
    copy[at] = '\0';
    assert_fails(load_regions(copy, &(TVMModuleHandle){NULL}), "damaged");
  }
}

static void ask(const char* function, const char* text, const char* expected) {
  call c = {0};
  if (text != NULL) arg_str(&c, text);
  assert_ok(call_global(&c, function));
  assert_int_equal(c.ret_code, kTVMStr);
  assert_string_equal(c.ret.v_str, expected);
}

static void test_compiler_asks_by_packed_functions(void** unused) {
  char text[1024];
  (void)unused;
  ask("device.probe.describe", NULL,
      "{\"name\": \"probe\", \"version\": 2, \"layout\": \"dense\", \"async\": 0, \"ops\": "
      "[\"add\", "
      "\"neg\"], \"dtypes\": [\"float32\"], \"precisions\": []}");
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "add");
  ask("device.probe.evaluation", text, "");
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "neg");
  ask("device.probe.evaluation", text, "it cannot count backwards.");
}

/* A graph by its nodes: operator and two inputs each, node i computes tensor i + 1 of tensor 0. */
static void split(const char* const* ops, const int (*inputs)[2], int count, const char* expected) {
  char text[4096];
  size_t at = 0;
#define PUT(...) at += (size_t)snprintf(text + at, sizeof(text) - at, __VA_ARGS__)
  PUT("{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"probe\", \"regions\": [{");
  PUT("\"symbol\": \"g\", \"inputs\": [0], \"outputs\": [%d], \"tensors\": [", count);
  for (int i = 0; i <= count; ++i) {
    PUT("%s{\"name\": \"t\", \"dtype\": \"float32\", \"shape\": [1]}", i == 0 ? "" : ", ");
  }
  PUT("], \"nodes\": [");
  for (int i = 0; i < count; ++i) {
    PUT("%s{\"op\": \"%s\", \"inputs\": [%d, %d], \"outputs\": [%d]}", i == 0 ? "" : ", ", ops[i],
        inputs[i][0], inputs[i][1], i + 1);
  }
  PUT("]}]}");
#undef PUT
  ask("device.probe.split_graph", text, expected);
}

static int ask_precision(const char* precision, const char** out) {
  char text[1024];
  call c = {0};
  int rc;
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "add");
  arg_str(&c, text);
  arg_handle(&c, kTVMNullptr, NULL); /* no constants */
  arg_str(&c, precision);
  rc = call_global(&c, "device.probe.optimize_graph");
  *out = rc == 0 ? c.ret.v_str : NULL;
  return rc;
}

static void test_precision_is_chosen_per_node(void** unused) {
  const char* answer;
  (void)unused;
  assert_ok(ask_precision("int8", &answer));
  assert_string_equal(answer, "[1]");
  assert_ok(ask_precision("float16", &answer));
  assert_string_equal(answer, "[0]");
  state.fails = OPTIMIZE;
  assert_fails(ask_precision("int8", &answer), "optimize_graph of region 'r0' failed: the wires");
}

static void test_failing_questions_are_named(void** unused) {
  TVMModuleHandle mod;
  char text[1024];
  call split_call = {0};
  call describe_call = {0};
  (void)unused;
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "add");
  arg_str(&split_call, text);
  state.fails = SPLIT;
  assert_fails(call_global(&split_call, "device.probe.split_graph"),
               "split_graph of region 'r0' failed: the wires are cut.");
  state.fails = DESCRIBE;
  assert_fails(call_global(&describe_call, "device.probe.describe"),
               "device 'probe': describe failed: the wires are cut.");
  assert_fails(load_with(plain, "add", &mod), "device 'probe': describe failed");
}

static void test_default_split_makes_convex_groups(void** unused) {
  (void)unused;
  split((const char*[]){"add", "add", "mul", "add"},
        (const int[][2]){{0, 0}, {1, 1}, {2, 2}, {3, 3}}, 4, "[0, 0, -1, 1]");
  /* The last node reads the group directly and by way of the CPU. */
  split((const char*[]){"add", "mul", "add"}, (const int[][2]){{0, 0}, {1, 1}, {1, 2}}, 3,
        "[0, -1, 1]");
  /* Two branches meet in one group. */
  split((const char*[]){"add", "add", "add"}, (const int[][2]){{0, 0}, {0, 0}, {1, 2}}, 3,
        "[0, 0, 0]");
  /* Each branch crosses the CPU: joining all four would make the group wait for itself. */
  split((const char*[]){"add", "mul", "add", "mul", "add", "add"},
        (const int[][2]){{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 1}, {5, 3}}, 6,
        "[0, -1, 1, -1, 2, 2]");
}

static int scripted_calls;

static int scripted_run(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                        void* resource) {
  const DLTensor* x = args[1].v_handle;
  const DLTensor* y = args[2].v_handle;
  (void)ret;
  (void)resource;
  assert_int_equal(num_args, 3);
  assert_int_equal(codes[1], kTVMDLTensorHandle);
  assert_string_equal(args[0].v_str, "r0");
  for (int i = 0; i < 2; ++i) {
    ((float*)y->data)[i] = ((const float*)x->data)[i] + 10.0f * (float)(i + 1);
  }
  ++scripted_calls;
  return 0;
}

static int scripted_pre_run(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                            void* resource) {
  const TVMByteArray* constants = args[2].v_handle;
  (void)ret;
  (void)resource;
  assert_int_equal(num_args, 4);
  assert_int_equal(codes[2], kTVMBytes);
  assert_int_equal(constants->size, 72);
  assert_memory_equal(args[1].v_str, "{\"symbol\": \"r0\"", 15);
  return 0;
}

static void test_packed_functions_are_a_device(void** unused) {
  TVMModuleHandle mod;
  TVMFunctionHandle f;
  (void)unused;
  assert_ok(TVMFuncCreateFromCFunc(scripted_run, NULL, NULL, &f));
  assert_ok(TVMFuncRegisterGlobal("device.scripted.run", f, 0));
  assert_ok(TVMFuncFree(f));
  assert_ok(TVMFuncCreateFromCFunc(scripted_pre_run, NULL, NULL, &f));
  assert_ok(TVMFuncRegisterGlobal("device.scripted.pre_run", f, 0));
  assert_ok(TVMFuncFree(f));
  assert_ok(load_with("\"device\": \"scripted\"", "add", &mod));
  assert_ok(run_region(mod, 2));
  assert_int_equal(scripted_calls, 1);
  TVMModFree(mod);
  assert_ok(TVMFuncRemoveGlobal("device.scripted.run"));
  assert_fails(load_with("\"device\": \"scripted\"", "add", &mod),
               "device.scripted.run was removed");
  assert_ok(tvmrt_device_unregister("scripted"));
  assert_ok(TVMFuncRemoveGlobal("device.scripted.pre_run"));
}

int main(void) {
#define WITH_PROBE(test) cmocka_unit_test_setup_teardown(test, enter_probe, leave_probe)
#define WITH_ASYNC(test) cmocka_unit_test_setup_teardown(test, enter_async_probe, leave_probe)
  const struct CMUnitTest tests[] = {
      WITH_PROBE(test_region_lives_from_load_to_free),
      cmocka_unit_test_setup(test_unregistering_releases_the_device, reset),
      WITH_PROBE(test_attributes_have_their_kinds),
      WITH_PROBE(test_reshape_prepares_again),
      WITH_PROBE(test_options_come_from_library_or_user),
      WITH_PROBE(test_failing_slots_are_named),
      WITH_PROBE(test_failing_releases_are_survived),
      WITH_PROBE(test_fallback_loads_and_fails_when_called),
      WITH_ASYNC(test_asynchronous_slots_run_the_region),
      WITH_ASYNC(test_run_that_times_out_is_stopped),
      WITH_PROBE(test_wrong_arguments_are_refused),
      cmocka_unit_test_setup(test_incomplete_devices_are_refused, reset),
      WITH_PROBE(test_names_are_unique),
      WITH_PROBE(test_list_has_all_registered),
      cmocka_unit_test(test_missing_device_says_how_to_get_it),
      WITH_PROBE(test_newer_library_is_refused),
      WITH_PROBE(test_module_saves_what_it_read),
      WITH_PROBE(test_damaged_texts_are_refused),
      WITH_PROBE(test_changed_texts_do_not_crash),
      WITH_PROBE(test_compiler_asks_by_packed_functions),
      WITH_PROBE(test_precision_is_chosen_per_node),
      WITH_PROBE(test_failing_questions_are_named),
      WITH_PROBE(test_default_split_makes_convex_groups),
      cmocka_unit_test(test_packed_functions_are_a_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
