#ifndef TVMRT_TESTS_C_SLOW_DEVICES_H_
#define TVMRT_TESTS_C_SLOW_DEVICES_H_

#include <stdatomic.h>
#include <time.h>
#include <tvm/runtime/device.h>

#include "support.h"

/* Two devices that add 1 to the sum of their inputs and take some time. */
static atomic_int running;
static atomic_int max_running;
static const char* ran[64]; /* regions in the order in which they began */
static atomic_int num_ran;
static atomic_int pause_us = 2000;
static atomic_int failing;        /* the device whose runs fail: 'l', 'r', or 0 */
static atomic_int min_concurrent; /* runs continue once this many are in progress */
static atomic_int blocked;        /* not 0: runs do not end */

static void sleep_us(int microseconds) {
  const struct timespec t = {microseconds / 1000000, microseconds % 1000000 * 1000L};
  (void)nanosleep(&t, NULL);
}

/* On a busy machine, too, runs overlap, and a blocked one is still in progress; after a minute
   the test reports that runs never overlapped. */
static void wait_for_others(void) {
  for (int i = 0; i < 60000; ++i) {
    if (atomic_load(&blocked) == 0 && atomic_load(&max_running) >= atomic_load(&min_concurrent))
      return;
    sleep_us(1000);
  }
}

static int slow_run(tvmrt_device* device, tvmrt_region* region) {
  float* y = tvmrt_region_data(region, region->outputs[0]);
  const int now = atomic_fetch_add(&running, 1) + 1;
  int highest = atomic_load(&max_running);
  float sum = 1;
  ran[atomic_fetch_add(&num_ran, 1) % 64] = region->symbol;
  while (now > highest && !atomic_compare_exchange_weak(&max_running, &highest, now)) {
  }
  sleep_us(atomic_load(&pause_us));
  wait_for_others();
  for (int32_t i = 0; i < region->num_inputs; ++i) {
    sum += *(const float*)tvmrt_region_data(region, region->inputs[i]);
  }
  *y = sum;
  atomic_fetch_sub(&running, 1);
  if (device->name[0] != atomic_load(&failing)) return 0;
  TVMPackedFuncSetLastError("it fell asleep.");
  return -1;
}

static const tvmrt_device_interface slots = {.run = slow_run};

#define TENSOR "{\"name\": \"t\", \"dtype\": \"float32\", \"shape\": [1]}"
#define ONE_INPUT(symbol)                                          \
  "{\"symbol\": \"" symbol "\", \"tensors\": [" TENSOR ", " TENSOR \
  "], \"nodes\": ["                                                \
  "{\"op\": \"inc\", \"inputs\": [0], \"outputs\": [1]}], \"inputs\": [0], \"outputs\": [1]}"
#define TWO_INPUTS(symbol)                                                     \
  "{\"symbol\": \"" symbol "\", \"tensors\": [" TENSOR ", " TENSOR ", " TENSOR \
  "], "                                                                        \
  "\"nodes\": [{\"op\": \"inc\", \"inputs\": [0, 1], \"outputs\": [2]}], "     \
  "\"inputs\": [0, 1], \"outputs\": [2]}"

static TVMModuleHandle load_regions(const char* device, const char* regions) {
  char text[2048];
  call c = {0};
  TVMByteArray none = {"", 0};
  (void)snprintf(text, sizeof(text),
                 "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"%s\", "
                 "\"regions\": [%s]}",
                 device, regions);
  arg_str(&c, text);
  arg_handle(&c, kTVMBytes, &none);
  assert_ok(call_global(&c, "tvmrt.device.load_regions"));
  return c.ret.v_handle;
}

/* x -> left1 ----------> join -> y        left1, left2, join on "left", right1 on "right"
 *  \-> right1 -> left2 -/                                                              */
static const char* const with_after[4] = {
    ", \"device\": \"left\", \"after\": \"[]\"", ", \"device\": \"right\", \"after\": \"[]\"",
    ", \"device\": \"left\", \"after\": \"[2]\"", ", \"device\": \"left\", \"after\": \"[1, 3]\""};
static const char* const without_after[4] = {", \"device\": \"left\"", ", \"device\": \"right\"",
                                             ", \"device\": \"left\"", ", \"device\": \"left\""};

static void write_graph(char* text, size_t size, const char* const* attrs) {
  (void)snprintf(
      text, size,
      "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
      "{\"op\": \"tvm_op\", \"name\": \"left1\", \"inputs\": [[0, 0, 0]], \"attrs\": "
      "{\"func_name\":"
      " \"l1\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\"%s}},"
      "{\"op\": \"tvm_op\", \"name\": \"right1\", \"inputs\": [[0, 0, 0]], \"attrs\": "
      "{\"func_name\":"
      " \"r1\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\"%s}},"
      "{\"op\": \"tvm_op\", \"name\": \"left2\", \"inputs\": [[2, 0, 0]], \"attrs\": "
      "{\"func_name\":"
      " \"l2\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\"%s}},"
      "{\"op\": \"tvm_op\", \"name\": \"join\", \"inputs\": [[1, 0, 0], [3, 0, 0]], \"attrs\": "
      "{\"func_name\": \"l3\", \"num_inputs\": \"2\", \"num_outputs\": \"1\", \"flatten_data\": "
      "\"0\"%s}}],"
      "\"arg_nodes\": [0], \"heads\": [[4, 0, 0]], \"attrs\": {\"dltype\": [\"list_str\", "
      "[\"float32\", \"float32\", \"float32\", \"float32\", \"float32\"]], \"storage_id\": "
      "[\"list_int\", [0, 1, 2, 3, 4]], \"shape\": [\"list_shape\", [[1], [1], [1], [1], [1]]]}, "
      "\"node_row_ptr\": [0, 1, 2, 3, 4, 5]}",
      attrs[0], attrs[1], attrs[2], attrs[3]);
}

static TVMModuleHandle library;

static int make(const char* const* attrs, TVMModuleHandle* out) {
  char text[4096];
  call c = {0};
  int rc;
  write_graph(text, sizeof(text), attrs);
  arg_str(&c, text);
  arg_handle(&c, kTVMModuleHandle, library);
  arg_int(&c, kDLCPU);
  arg_int(&c, 0);
  rc = call_global(&c, "tvm.graph_executor.create");
  *out = rc == 0 ? c.ret.v_handle : NULL;
  return rc;
}

static TVMModuleHandle make_executor(const char* const* attrs) {
  TVMModuleHandle executor;
  assert_ok(make(attrs, &executor));
  return executor;
}

static int call_with_text(TVMModuleHandle executor, const char* function, const char* argument) {
  call c = {0};
  if (argument != NULL) arg_str(&c, argument);
  return call_module(&c, executor, function);
}

static int wait_ms(TVMModuleHandle executor, int64_t ms, int64_t* ended) {
  call c = {0};
  int rc;
  arg_int(&c, ms);
  rc = call_module(&c, executor, "wait");
  *ended = rc == 0 ? c.ret.v_int64 : -1;
  return rc;
}

static void set_x(TVMModuleHandle executor, float value) {
  const int64_t shape = 1;
  DLTensor* x = make_tensor(1, &shape, &value);
  call c = {0};
  arg_int(&c, 0);
  arg_handle(&c, kTVMNDArrayHandle, x);
  assert_ok(call_module(&c, executor, "set_input"));
  TVMArrayFree(x);
}

static float get_y(TVMModuleHandle executor) {
  call c = {0};
  float y;
  arg_int(&c, 0);
  assert_ok(call_module(&c, executor, "get_output"));
  y = *(const float*)((const DLTensor*)c.ret.v_handle)->data;
  TVMArrayFree(c.ret.v_handle);
  return y;
}

static int set_up(void** unused) {
  static const tvmrt_device left = {
      .struct_bytes = sizeof(left), .name = "left", .interface = &slots};
  static const tvmrt_device right = {
      .struct_bytes = sizeof(right), .name = "right", .interface = &slots};
  TVMModuleHandle rights;
  (void)unused;
  assert_ok(tvmrt_device_register(&left));
  assert_ok(tvmrt_device_register(&right));
  library = load_regions("left", ONE_INPUT("l1") ", " ONE_INPUT("l2") ", " TWO_INPUTS("l3"));
  rights = load_regions("right", ONE_INPUT("r1"));
  assert_ok(TVMModImport(library, rights));
  TVMModFree(rights);
  return 0;
}

static int tear_down(void** unused) {
  (void)unused;
  TVMModFree(library);
  return tvmrt_device_unregister("left") != 0 || tvmrt_device_unregister("right") != 0;
}

static int set_pause(void** unused) {
  (void)unused;
  atomic_store(&pause_us, 2000);
  atomic_store(&min_concurrent, 0);
  atomic_store(&blocked, 0);
  return 0;
}

/* A test with the initial delays of the devices. */
#define TEST(test) cmocka_unit_test_setup(test, set_pause)

#endif /* TVMRT_TESTS_C_SLOW_DEVICES_H_ */
