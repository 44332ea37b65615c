#ifndef TVMRT_TESTS_C_PROBE_DEVICE_H_
#define TVMRT_TESTS_C_PROBE_DEVICE_H_

#include <tvm/runtime/device.h>

#include "support.h"

/* A device whose slots count their calls, fail on request, and add up their inputs. */
typedef struct probe {
  int calls[13];
  int fails; /* the slot that fails; -1: none */
  int at_node;
  int busy; /* results of async_wait before the run has ended */
  char options[80];
  int64_t extent;               /* of tensor 0 at the last pre_run */
  uint64_t allocated, released; /* bytes of tensor 0 in these slots */
  const void* reservation;      /* at release */
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
  assert_null(region->reservation);
  region->reservation = &state;
  state.allocated = region->tensors[0].num_bytes;
  return enter(ALLOCATE, region);
}
static int probe_release(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  state.released = region->tensors[0].num_bytes;
  state.reservation = region->reservation;
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

static int exit_probe(void** unused) {
  (void)unused;
  return tvmrt_device_unregister("probe");
}

/* y = x + w, where w is a constant; %s: the text before "regions", then the operator. */
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

/* A test with the device registered during the test. */
#define WITH_PROBE(test) cmocka_unit_test_setup_teardown(test, enter_probe, exit_probe)

#endif /* TVMRT_TESTS_C_PROBE_DEVICE_H_ */
