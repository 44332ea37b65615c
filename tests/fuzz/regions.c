/* Regions of the device FUZZ_DEVICE: what is read is split, prepared and run, by a device that writes a
 * byte into each output, or by that of a plug-in. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setenv */
#endif
#include <tvm/runtime/device.h>

#include "fuzz.h"
#include "modules/module.h"

#ifdef FUZZ_DEVICE
#define FUZZ_IS_PLUGIN 1
#else
#define FUZZ_DEVICE any
#define FUZZ_IS_PLUGIN 0
#endif
#define FUZZ_JOIN3(a, b, c) a##b##c
#define FUZZ_REGISTER_OF(device) FUZZ_JOIN3(register_, device, _device)
#define FUZZ_TEXT2(name) #name
#define FUZZ_TEXT(name) FUZZ_TEXT2(name)

int FUZZ_REGISTER_OF(FUZZ_DEVICE)(void);

#if !FUZZ_IS_PLUGIN
static int any_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  for (int32_t i = 0; i < region->num_outputs; ++i) {
    unsigned char* y = tvmrt_region_data(region, region->outputs[i]);
    if (region->tensors[region->outputs[i]].num_bytes > 0) y[0] = 1;
  }
  return 0;
}

/* All that the compiler may name; attributes are read as a device reads them. */
static int any_describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"add", "avg_pool", "conv", "matmul", "max", "tanh", NULL};
  (void)device;
  out->ops = ops;
  return 0;
}

int register_any_device(void) {
  static const tvmrt_device_interface interface = {.run = any_run};
  static const tvmrt_device_allocator allocator = {.describe = any_describe};
  static const tvmrt_device device = {.struct_bytes = sizeof(device),
                                      .name = "any",
                                      .interface = &interface,
                                      .allocator = &allocator};
  return tvmrt_device_register(&device);
}
#endif

/* Tensors of the sizes that a region says, so that a run that leaves them is seen. */
static DLTensor* make_tensor(const tvmrt_region* region, int32_t tensor) {
  const tvmrt_region_tensor* t = &region->tensors[tensor];
  DLTensor* out = NULL;
  FUZZ_REQUIRE(TVMArrayAlloc(t->shape, t->ndim, t->dtype.code, t->dtype.bits, t->dtype.lanes,
                             kDLCPU, 0, &out) == 0);
  memset(out->data, 0, (size_t)t->num_bytes);
  return out;
}

/* Windows of many taps over small tensors are slow, not wrong. */
static int is_quick(const tvmrt_region* region) {
  static const char* const keys[] = {"kernel", "strides"};
  uint64_t bytes = 0;
  for (int32_t i = 0; i < region->num_tensors; ++i) {
    bytes += region->tensors[i].num_bytes;
    if (region->tensors[i].dtype.code == kDLOpaqueHandle) return 0; /* there is no such tensor */
  }
  for (int32_t i = 0; i < region->num_nodes; ++i) {
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); ++k) {
      int32_t count;
      const int64_t* values = tvmrt_node_ints(&region->nodes[i], keys[k], &count);
      while (count > 0) {
        if (values[--count] > 8) return 0;
      }
    }
  }
  return bytes < 4096 && region->num_nodes < 8 && region->num_inputs + region->num_outputs < 16;
}

static void run(tvmrt_module* mod, const tvmrt_region* region) {
  TVMFunctionHandle f = NULL;
  TVMValue args[16];
  TVMValue ret;
  int codes[16];
  int code;
  int count = 0;
  for (int32_t i = 0; i < region->num_inputs; ++i) {
    args[count++].v_handle = make_tensor(region, region->inputs[i]);
  }
  for (int32_t i = 0; i < region->num_outputs; ++i) {
    args[count++].v_handle = make_tensor(region, region->outputs[i]);
  }
  for (int i = 0; i < count; ++i) codes[i] = kTVMNDArrayHandle;
  FUZZ_REQUIRE(TVMModGetFunction(mod, region->symbol, 0, &f) == 0 && f != NULL);
  (void)fuzz_succeeded(TVMFuncCall(f, args, codes, count, &ret, &code));
  FUZZ_REQUIRE(TVMFuncFree(f) == 0);
  while (count > 0) FUZZ_REQUIRE(TVMArrayFree(args[--count].v_handle) == 0);
}

static void split(const tvmrt_region* region) {
  tvmrt_device* device;
  int32_t* groups = calloc((size_t)region->num_nodes + 1, sizeof(*groups));
  FUZZ_REQUIRE(groups != NULL);
  FUZZ_REQUIRE(tvmrt_device_find(FUZZ_TEXT(FUZZ_DEVICE), &device) == 0 && device != NULL);
  FUZZ_REQUIRE(tvmrt_split_graph_by_describe(device, region, groups) == 0);
  for (int32_t i = 0; i < region->num_nodes; ++i) {
    FUZZ_REQUIRE(groups[i] >= -1 && groups[i] < region->num_nodes);
  }
  free(groups);
}

/* The input is the text; constants are 256 bytes that rise. */
static int load(const uint8_t* data, size_t size, tvmrt_module** out) {
  tvmrt_buf payload = {NULL, 0, 0};
  uint8_t constants[256];
  tvmrt_reader in;
  int rc;
  for (size_t i = 0; i < sizeof(constants); ++i) constants[i] = (uint8_t)i;
  FUZZ_REQUIRE(tvmrt__write_data(&payload, data, size) == 0);
  FUZZ_REQUIRE(tvmrt__write_data(&payload, constants, sizeof(constants)) == 0);
  tvmrt__reader_init(&in, "the payload", payload.data, payload.size);
  rc = tvmrt__read_kind(&in, "device_region", out);
  tvmrt__buf_free(&payload);
  return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static int is_entered;
  tvmrt_module* mod = NULL;
  tvmrt_region* region;
  if (!is_entered) {
    FUZZ_REQUIRE(setenv("TVMRT_DEVICE_PATH", "", 1) == 0);
    FUZZ_REQUIRE(setenv("OMP_NUM_THREADS", "1", 1) == 0);
    FUZZ_REQUIRE(FUZZ_REGISTER_OF(FUZZ_DEVICE)() == 0);
    is_entered = 1;
  }
  if (!fuzz_succeeded(load(data, size, &mod))) return 0;
  if (tvmrt_region_find(mod, "r", &region) == 0) {
    split(region);
    if (is_quick(region)) run(mod, region);
  }
  tvmrt__module_release(mod);
  return 0;
}
