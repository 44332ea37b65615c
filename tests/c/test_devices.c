/* Devices and regions: registration, the life of a region, failing slots, payloads. */
#include <tvm/runtime/module_plugin.h>

#include "probe_device.h"

static int probe_async_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return enter(ASYNC_RUN, region);
}
static int probe_async_wait(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  (void)device;
  if (try_wait && state.busy-- > 0) return TVMRT_DEVICE_BUSY;
  return enter(ASYNC_WAIT, region) != 0 ? -1 : add_up(region);
}

static const tvmrt_device_interface async_slots = {
    .pre_run = probe_pre_run,
    .post_run = probe_post_run,
    .async_run = probe_async_run,
    .async_wait = probe_async_wait,
    .release_graph = probe_release_graph,
};

static int enter_async_probe(void** unused) {
  tvmrt_device device = probe_device(&async_slots);
  (void)reset(unused);
  return tvmrt_device_register(&device);
}

/* The region of a module with an add. The caller frees the module. */
static tvmrt_region* load_sum(TVMModuleHandle* mod) {
  tvmrt_region* region;
  assert_ok(load_with(plain, "add", mod));
  assert_ok(tvmrt_region_find(*mod, "r0", &region));
  return region;
}

static void test_region_lifetime(void** unused) {
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

static void test_attributes_have_types(void** unused) {
  TVMModuleHandle mod;
  tvmrt_region* region;
  const tvmrt_region_node* n;
  int32_t count;
  (void)unused;
  region = load_sum(&mod);
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

/* y = x + x, for one or two elements: on loading the device prepares two. */
static tvmrt_region* load_open(TVMModuleHandle* mod) {
  tvmrt_region* region;
  assert_ok(load_regions(
      "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"probe\", \"regions\": [{"
      "\"symbol\": \"r0\", \"name\": \"open\", \"sizes\": [[1, 2]], \"tensors\": [{\"name\": "
      "\"x\", \"dtype\": \"float32\", \"shape\": [2], \"least\": [1], \"extents\": [\"d0\"]}, "
      "{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [2], \"least\": [1], \"extents\": "
      "[\"d0\"]}], \"nodes\": [{\"op\": \"add\", \"name\": \"sum\", \"inputs\": [0, 0], "
      "\"outputs\": [1], \"attrs\": {}}], \"inputs\": [0], \"outputs\": [1]}]}",
      mod));
  assert_ok(tvmrt_region_find(*mod, "r0", &region));
  return region;
}

static int run_open(TVMModuleHandle mod, int64_t extent) {
  const float values[3] = {1, 2, 3}; /* extent is 3 at most */
  const int64_t one = 1;
  DLTensor* x = make_tensor(1, &extent, values);
  DLTensor* y = make_tensor(1, &extent, NULL);
  DLTensor* sizes;
  call c = {0};
  int rc;
  assert_ok(TVMArrayAlloc(&one, 1, kDLInt, 64, 1, kDLCPU, 0, &sizes));
  *(int64_t*)sizes->data = extent;
  arg_handle(&c, kTVMNDArrayHandle, x);
  arg_handle(&c, kTVMNDArrayHandle, y);
  arg_handle(&c, kTVMNDArrayHandle, sizes);
  rc = call_module(&c, mod, "r0");
  if (rc == 0) assert_floats(y, (int)extent, (const float[]){2, 4});
  TVMArrayFree(x);
  TVMArrayFree(y);
  TVMArrayFree(sizes);
  return rc;
}

static void test_another_size_prepares_again(void** unused) {
  TVMModuleHandle mod;
  tvmrt_region* region = load_open(&mod);
  (void)unused;
  assert_ok(run_open(mod, 2));
  assert_int_equal(state.calls[POST_RUN], 0);
  assert_ok(run_open(mod, 1));
  assert_int_equal(state.calls[POST_RUN], 1);
  assert_int_equal(state.calls[PRE_RUN], 2);
  assert_int_equal(state.extent, 1);
  assert_int_equal(region->tensors[0].num_bytes, 4);
  assert_fails(run_open(mod, 3), "size 0 is 3, expected 1 to 2");
  assert_int_equal(state.calls[PRE_RUN], 2);
  state.fails = PRE_RUN;
  assert_fails(run_open(mod, 2), "pre_run of region 'r0' failed: the wires are cut");
  state.fails = -1;
  assert_fails(run_open(mod, 2), "pre_run of region 'r0' failed: the wires are cut");
  assert_ok(run_open(mod, 1));
  TVMModFree(mod);
  assert_int_equal(state.calls[GRAPH], 2); /* also after the failure */
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

static void test_failing_releases_are_ignored(void** unused) {
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

/* Until the run has ended the device owns its tensors and may write to them. */
static void test_unstoppable_run_is_awaited(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  assert_ok(load_with("\"device\": \"probe\", \"options\": {\"timeout_ms\": 5}", "add", &mod));
  state.busy = 1 << 20;
  state.fails = POST_RUN;
  assert_fails(run_region(mod, 2), "could not be stopped: device 'probe': post_run of region 'r0'");
  assert_int_equal(state.calls[ASYNC_WAIT], 1); /* which blocks, and ends the run */
  state.fails = -1;
  state.busy = 0;
  assert_ok(run_region(mod, 2));
  assert_int_equal(state.calls[PRE_RUN], 2);
  TVMModFree(mod);
}

static int enter_unstoppable_probe(void** unused) {
  tvmrt_device_interface slots = async_slots;
  tvmrt_device device = probe_device(&slots);
  slots.post_run = NULL;
  (void)reset(unused);
  return tvmrt_device_register(&device);
}

static void test_run_of_device_without_stop_is_awaited(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  assert_ok(load_with("\"device\": \"probe\", \"options\": {\"timeout_ms\": 5}", "add", &mod));
  state.busy = 1 << 20;
  assert_fails(run_region(mod, 2), "did not end in time.");
  assert_int_equal(state.calls[ASYNC_WAIT], 1);
  TVMModFree(mod);
}

static void test_failing_post_run_fails_the_size(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  (void)load_open(&mod);
  state.fails = POST_RUN;
  assert_fails(run_open(mod, 1), "post_run of region 'r0' failed: the wires are cut.");
  assert_int_equal(state.calls[PRE_RUN], 1);
  state.fails = -1;
  assert_ok(run_open(mod, 2));
  assert_int_equal(state.calls[POST_RUN], 1);
  assert_int_equal(state.calls[PRE_RUN], 2);
  TVMModFree(mod);
}

/* Tensors that the device takes from its pool and returns, by the shapes that the slots see. */
static void test_release_sees_the_shapes_and_the_reservation_of_allocate(void** unused) {
  TVMModuleHandle mod;
  tvmrt_region* region = load_open(&mod);
  (void)unused;
  assert_true(region->struct_bytes >= TVMRT_REGION_RESERVATION_BYTES);
  assert_int_equal(state.allocated, 8);
  assert_ok(run_open(mod, 1));
  assert_int_equal(region->tensors[0].num_bytes, 4);
  TVMModFree(mod);
  assert_int_equal(state.released, 8);
  assert_ptr_equal(state.reservation, &state);
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
  assert_fails(call_module(&c, mod, "r0"), "takes 1 input and 1 output, got 1 tensor.");
  arg_int(&c, 3);
  assert_fails(call_module(&c, mod, "r0"), "another rank");
  TVMArrayFree(t);
  TVMModFree(mod);
  assert_int_equal(state.calls[RUN], 0);
}

static void test_null_devices_are_refused(void** unused) {
  tvmrt_device device = probe_device(&sync_slots);
  tvmrt_device_interface slots = {0};
  (void)unused;
  assert_fails(tvmrt_device_register(NULL), "struct_bytes");
  device.struct_bytes = 8;
  assert_fails(tvmrt_device_register(&device), "struct_bytes is 8 instead of");
  device.struct_bytes = sizeof(device);
  device.name = "../probe";
  assert_fails(tvmrt_device_register(&device), "is not a device name");
  device.name = NULL;
  assert_fails(tvmrt_device_register(&device), "is not a device name");
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

static void test_many_devices_are_listed(void** unused) {
  enum { MANY = 80 };
  static char names[MANY][8];
  call list = {0}, size = {0};
  int32_t count;
  (void)unused;
  for (int i = 0; i < MANY; ++i) {
    tvmrt_device device = probe_device(&sync_slots);
    snprintf(names[i], sizeof(names[i]), "many%d", i);
    device.name = names[i];
    assert_ok(tvmrt_device_register(&device));
  }
  assert_ok(tvmrt_device_list(NULL, 0, &count));
  assert_ok(call_global(&list, "tvmrt.device.list"));
  arg_handle(&size, kTVMObjectHandle, list.ret.v_handle);
  assert_ok(call_global(&size, "runtime.ArraySize"));
  assert_int_equal(size.ret.v_int64, count);
  assert_ok(TVMObjectFree(list.ret.v_handle));
  for (int i = 0; i < MANY; ++i) assert_ok(tvmrt_device_unregister(names[i]));
}

static void test_error_of_missing_device_names_remedy(void** unused) {
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
               "compiled for version 3 of device 'probe', this runtime has version 2");
}

static void test_module_saves_its_input_unchanged(void** unused) {
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
      {"\"device\": \"probe\", ", "", "lacks 'device'"},
      {"\"offset\": 64", "\"offset\": 8", "multiple of 64"},
      {"\"offset\": 64", "\"offset\": 128", "exceeds"},
      {"\"bytes\": 8", "\"bytes\": 12", "12 bytes instead of 8"},
      {"\"shape\": [2]", "\"shape\": [-2]", "negative"},
      {"\"shape\": [2]", "\"shape\": [4611686018427387904, 8]", "memory"},
      {"\"shape\": [2]", "\"shape\": [2], \"least\": [3]", "a minimum extent above its maximum"},
      {"\"shape\": [2]", "\"shape\": [2], \"least\": [1, 1]", "has 2 minimum extents"},
      {"\"shape\": [2]", "\"shape\": [2], \"least\": [1]", "does not support dynamic extents"},
      {"\"inputs\": [0, 1]", "\"inputs\": [0, 3]", "reads tensor 3"},
      {"\"inputs\": [0, 1]", "\"inputs\": [0, 2]", "reads tensor 2"},
      {"\"inputs\": [0, 1]", "\"inputs\": [0, -2]", "out of range"},
      {"\"outputs\": [2]", "\"outputs\": [0]", "computed twice"},
      {"\"outputs\": [2]", "\"outputs\": [7]", "refers to tensor 7"},
      {"\"inputs\": [0], ", "\"inputs\": [1], ", "computed twice"},
      {"\"outputs\": [2]}]", "\"outputs\": [2, 2]}]", "reads tensor 2"},
      {"\"outputs\": [2]}]", "\"outputs\": [0]}]", "reads tensor 0"},
      {"\"symbol\": \"r0\",", "", "lacks 'symbol'"},
      {"\"op\": \"add\",", "", "lacks 'op'"},
      {"\"dtype\": \"float32\",", "", "lacks 'name', 'dtype'"},
      {"float32", "floaty", "floaty"},
      {"0.5", "0.5.5", "not a number"},
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

int main(void) {
#define WITH_ASYNC(test) cmocka_unit_test_setup_teardown(test, enter_async_probe, exit_probe)
  const struct CMUnitTest tests[] = {
      WITH_PROBE(test_region_lifetime),
      cmocka_unit_test_setup(test_unregistering_releases_the_device, reset),
      WITH_PROBE(test_attributes_have_types),
      WITH_PROBE(test_another_size_prepares_again),
      WITH_PROBE(test_options_come_from_library_or_user),
      WITH_PROBE(test_failing_slots_are_named),
      WITH_PROBE(test_failing_post_run_fails_the_size),
      WITH_PROBE(test_release_sees_the_shapes_and_the_reservation_of_allocate),
      WITH_ASYNC(test_unstoppable_run_is_awaited),
      cmocka_unit_test_setup_teardown(test_run_of_device_without_stop_is_awaited,
                                      enter_unstoppable_probe, exit_probe),
      WITH_PROBE(test_failing_releases_are_ignored),
      WITH_PROBE(test_fallback_loads_and_fails_when_called),
      WITH_ASYNC(test_asynchronous_slots_run_the_region),
      WITH_ASYNC(test_run_that_times_out_is_stopped),
      WITH_PROBE(test_wrong_arguments_are_refused),
      cmocka_unit_test_setup(test_null_devices_are_refused, reset),
      cmocka_unit_test_setup(test_many_devices_are_listed, reset),
      WITH_PROBE(test_names_are_unique),
      WITH_PROBE(test_list_has_all_registered),
      cmocka_unit_test(test_error_of_missing_device_names_remedy),
      WITH_PROBE(test_newer_library_is_refused),
      WITH_PROBE(test_module_saves_its_input_unchanged),
      WITH_PROBE(test_damaged_texts_are_refused),
      WITH_PROBE(test_changed_texts_do_not_crash),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
