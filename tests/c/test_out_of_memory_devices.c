/* Make every allocation of the device DEVICE fail, from registering it to unloading its regions.
   Its sources are part of this program, in addition to the runtime: always an error, no crash,
   no leak, and the next attempt computes the same result. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setenv */
#endif
#include <tvm/runtime/device.h>

#include "allocation_faults.h"

#define JOIN3_(a, b, c) a##b##c
#define FUNCTION_OF_(verb, device) JOIN3_(verb, device, _device)
#define TEXT2_(name) #name
#define TEXT_(name) TEXT2_(name)
#define NAME TEXT_(DEVICE)

int FUNCTION_OF_(register_, DEVICE)(void);
int FUNCTION_OF_(unregister_, DEVICE)(void);

/* ---- regions "r"; "o", of sizes up to [4, 5]; "m" and "n", with constants ---- */

#define T(shape) "{\"name\": \"t\", \"dtype\": \"float32\", \"shape\": " shape "}"
#define OPEN_T                                                                                    \
  "{\"name\": \"t\", \"dtype\": \"float32\", \"shape\": [4, 5], \"least\": [2, 3], \"extents\": " \
  "[\"d0\", \"d1\"]}"
#define W(shape, offset, bytes)                                                          \
  "{\"name\": \"w\", \"dtype\": \"float32\", \"shape\": " shape ", \"offset\": " #offset \
  ", \"bytes\": " #bytes "}"
#define NODE(op, inputs, output, attrs)                                                     \
  "{\"op\": \"" op "\", \"name\": \"" op "\", \"inputs\": " inputs ", \"outputs\": " output \
  ", \"attrs\": {" attrs "}}"
#define REGION(symbol, tensors, nodes, inputs, outputs)                         \
  "{\"symbol\": \"" symbol "\", \"tensors\": [" tensors "], \"nodes\": [" nodes \
  "], \"inputs\": " inputs ", \"outputs\": " outputs "}"

#define WINDOW \
  "\"strides\": [1, 1], \"dilations\": [1, 1], \"pads_before\": [0, 0], \"pads_after\": [0, 0]"

#define OPEN_REGION(symbol, nodes)                                                              \
  "{\"symbol\": \"" symbol "\", \"sizes\": [[2, 4], [3, 5]], \"tensors\": [" OPEN_T ", " OPEN_T \
  "], \"nodes\": [" nodes "], \"inputs\": [0], \"outputs\": [1]}"

/* Settings of the device: REGIONS; PRECISION that it computes in, or NULL for the network's. */
#include DEVICE_REGIONS

static const char* const reduced = PRECISION;

static const char* text_of_regions(const char* options) {
  static char text[4096];
  (void)snprintf(text, sizeof(text),
                 "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"" NAME
                 "\", "
                 "\"options\": %s, \"regions\": [%s]}",
                 options, REGIONS);
  return text;
}

static TVMByteArray constants(void) {
  static const float values[18] = {1, 0.5f, -1, 2, [16] = 0.25f, -0.5f};
  TVMByteArray bytes = {(const char*)values, sizeof(values)};
  return bytes;
}

static int load_regions(const char* options, TVMModuleHandle* out) {
  TVMByteArray bytes = constants();
  call c = {0};
  int rc;
  arg_str(&c, text_of_regions(options));
  arg_handle(&c, kTVMBytes, &bytes);
  rc = call_global(&c, "tvmrt.device.load_regions");
  *out = rc == 0 ? c.ret.v_handle : NULL;
  return rc;
}

/* ---- running ---- */

static int add_tensor(call* c, const int64_t* shape, int ndim) {
  DLTensor* made;
  int64_t size = 1;
  int rc = TVMArrayAlloc(shape, ndim, kDLFloat, 32, 1, kDLCPU, 0, &made);
  if (rc != 0) return rc;
  for (int i = 0; i < ndim; ++i) size *= shape[i];
  for (int64_t i = 0; i < size; ++i) ((float*)made->data)[i] = (float)i;
  arg_handle(c, kTVMNDArrayHandle, made);
  return 0;
}

static int add_sizes(call* c, const int64_t* sizes) {
  const int64_t count = 2;
  DLTensor* made;
  int rc = TVMArrayAlloc(&count, 1, kDLInt, 64, 1, kDLCPU, 0, &made);
  if (rc != 0) return rc;
  memcpy(made->data, sizes, 2 * sizeof(*sizes));
  arg_handle(c, kTVMNDArrayHandle, made);
  return 0;
}

/* The output without failing allocations. */
typedef struct result {
  float values[32];
  int64_t size;
} result;

static void compare(const DLTensor* t, result* expected) {
  int64_t size = 1;
  for (int i = 0; i < t->ndim; ++i) size *= t->shape[i];
  if (expected->size == 0) {
    memcpy(expected->values, t->data, (size_t)size * sizeof(float));
    expected->size = size;
  }
  assert_int_equal(size, expected->size);
  assert_memory_equal(t->data, expected->values, (size_t)size * sizeof(float));
}

static int run_region(TVMModuleHandle mod, const char* symbol, result* expected) {
  tvmrt_region* region;
  call c = {0};
  int rc = tvmrt_region_find(mod, symbol, &region);
  for (int32_t i = 0; rc == 0 && i <= region->num_inputs; ++i) {
    const int32_t tensor = i < region->num_inputs ? region->inputs[i] : region->outputs[0];
    rc = add_tensor(&c, region->tensors[tensor].shape, region->tensors[tensor].ndim);
  }
  if (rc == 0) rc = call_module(&c, mod, symbol);
  if (rc == 0) compare(c.args[c.count - 1].v_handle, expected);
  while (c.count > 0) (void)TVMArrayFree(c.args[--c.count].v_handle);
  return rc;
}

/* The region "o" at these sizes. */
static int run_open(TVMModuleHandle mod, const int64_t* extents, result* expected) {
  call c = {0};
  int rc = add_tensor(&c, extents, 2);
  if (rc == 0) rc = add_tensor(&c, extents, 2);
  if (rc == 0) rc = add_sizes(&c, extents);
  if (rc == 0) rc = call_module(&c, mod, "o");
  if (rc == 0) compare(c.args[1].v_handle, expected);
  while (c.count > 0) (void)TVMArrayFree(c.args[--c.count].v_handle);
  return rc;
}

static int save(TVMModuleHandle mod) {
  call c = {0};
  arg_handle(&c, kTVMModuleHandle, mod);
  return call_global(&c, "tvmrt.ModulePayload");
}

static const int64_t wide[] = {4, 5}, narrow[] = {2, 3};
static result at_wide, at_narrow;

/* Prepared, run, prepared for another size, run, saved. */
static int use_regions(void) {
  static result before, products[2];
  TVMModuleHandle mod = NULL;
  int rc = FUNCTION_OF_(register_, DEVICE)();
  if (rc != 0) return rc;
  rc = load_regions("{}", &mod);
  if (rc == 0) rc = run_region(mod, "r", &before);
  if (rc == 0) rc = run_region(mod, "m", &products[0]);
  if (rc == 0 && strstr(REGIONS, "\"n\"") != NULL) {
    rc = run_region(mod, "n", &products[1]);
  }
  if (rc == 0) rc = run_open(mod, wide, &at_wide);
  if (rc == 0) rc = run_open(mod, narrow, &at_narrow);
  if (rc == 0) rc = save(mod);
  (void)TVMModFree(mod);
  assert_int_equal(FUNCTION_OF_(unregister_, DEVICE)(), 0);
  return rc;
}

/* With memory available again: a region that failed to prepare for a size fails at each call, until
   one has another size. */
static void check_failed_sizes(TVMModuleHandle mod) {
  TVMAPISetLastError("");
  if (run_open(mod, narrow, &at_narrow) != 0) {
    assert_fails(run_open(mod, narrow, &at_narrow), "emory");
  }
  assert_ok(run_open(mod, wide, &at_wide));
  assert_ok(run_open(mod, narrow, &at_narrow));
}

static int use_failed_sizes(void) {
  TVMModuleHandle mod = NULL;
  int rc = FUNCTION_OF_(register_, DEVICE)();
  if (rc != 0) return rc;
  rc = load_regions("{}", &mod);
  if (rc == 0) {
    char text[1024];
    rc = run_open(mod, narrow, &at_narrow);
    (void)snprintf(text, sizeof(text), "%s", TVMGetLastError());
    allowed = -1;
    if (rc != 0) check_failed_sizes(mod);
    TVMAPISetLastError(text);
  }
  (void)TVMModFree(mod);
  assert_int_equal(FUNCTION_OF_(unregister_, DEVICE)(), 0);
  return rc;
}

/* ---- as a step of a network, started and waited for ---- */

static const char graph[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, {\"op\": \"tvm_op\", "
    "\"name\": "
    "\"r\", \"inputs\": [[0, 0, 0]], \"attrs\": {\"func_name\": \"r\", \"num_inputs\": \"1\", "
    "\"num_outputs\": \"1\", \"flatten_data\": \"0\", \"device\": \"" NAME
    "\", \"after\": \"[]\"}}], "
    "\"arg_nodes\": [0], \"heads\": [[1, 0, 0]], \"attrs\": {\"dltype\": [\"list_str\", "
    "[\"float32\", "
    "\"float32\"]], \"storage_id\": [\"list_int\", [0, 1]], \"shape\": [\"list_shape\", [[2, 3], "
    "[2, 3]]]}, \"node_row_ptr\": [0, 1, 2]}";

static DLTensor* input;

static int run_async(TVMModuleHandle executor, result* expected) {
  call set = {0}, run = {0}, wait = {0}, get = {0};
  int rc;
  arg_int(&set, 0);
  arg_handle(&set, kTVMNDArrayHandle, input);
  rc = call_module(&set, executor, "set_input");
  if (rc == 0) rc = call_module(&run, executor, "run_async");
  if (rc == 0) rc = call_module(&wait, executor, "wait");
  arg_int(&get, 0);
  if (rc == 0) rc = call_module(&get, executor, "get_output");
  if (rc == 0) compare(get.ret.v_handle, expected);
  if (rc == 0) (void)TVMArrayFree(get.ret.v_handle);
  return rc;
}

static int use_network(void) {
  static result expected;
  TVMModuleHandle mod = NULL;
  call create = {0};
  int rc = FUNCTION_OF_(register_, DEVICE)();
  if (rc != 0) return rc;
  rc = load_regions("{\"timeout_ms\": 60000, \"profile\": 1}", &mod);
  arg_str(&create, graph);
  arg_handle(&create, kTVMModuleHandle, mod);
  arg_cpu(&create);
  if (rc == 0) rc = call_global(&create, "tvm.graph_executor.create");
  (void)TVMModFree(mod);
  if (rc == 0) {
    rc = run_async(create.ret.v_handle, &expected);
    (void)TVMModFree(create.ret.v_handle);
  }
  assert_int_equal(FUNCTION_OF_(unregister_, DEVICE)(), 0);
  return rc;
}

/* ---- compiler queries ---- */

static int query(const char* function, const char* precision) {
  TVMByteArray bytes = constants();
  call c = {0};
  char name[64];
  if (strcmp(function, "describe") != 0) arg_str(&c, text_of_regions("{}"));
  if (strcmp(function, "judge") == 0 || precision != NULL) arg_handle(&c, kTVMBytes, &bytes);
  if (precision != NULL) arg_str(&c, precision);
  (void)snprintf(name, sizeof(name), "device." NAME ".%s", function);
  return call_global(&c, name);
}

static int use_queries(void) {
  int rc = FUNCTION_OF_(register_, DEVICE)();
  if (rc != 0) return rc;
  rc = query("describe", NULL);
  if (rc == 0) rc = query("judge", NULL);
  if (rc == 0) rc = query("split_graph", NULL);
  if (rc == 0 && reduced != NULL) {
    rc = query("optimize_graph", reduced);
  }
  assert_int_equal(FUNCTION_OF_(unregister_, DEVICE)(), 0);
  return rc;
}

static void test_device_survives_each_failed_allocation(void** state) {
  static const int64_t shape[] = {2, 3};
  static const float values[] = {0, 1, 2, 3, 4, 5};
  (void)state;
  input = make_tensor(2, shape, values);
  sweep(NAME ": regions", use_regions, NULL);
  sweep(NAME ": failed sizes", use_failed_sizes, NULL);
  sweep(NAME ": network", use_network, NULL);
  sweep(NAME ": questions", use_queries, NULL);
  TVMArrayFree(input);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_device_survives_each_failed_allocation),
  };
  (void)setenv("TVMRT_DEVICE_PATH", "", 1);
  (void)setenv("OMP_NUM_THREADS", "1", 1);
  if (FUNCTION_OF_(register_, DEVICE)() != 0) {
    (void)printf("%s\n", TVMGetLastError());
    return 77; /* skipped: the machine lacks the device's driver */
  }
  if (FUNCTION_OF_(unregister_, DEVICE)() != 0) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
