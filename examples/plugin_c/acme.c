#include <tvm/runtime/device.h>
#include <tvm/runtime/plugin.h>

/* acme.twice(number): a global function. `name` is "acme.twice". */
static int twice(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                 void* name) {
  (void)name;
  if (num_args != 1 || type_codes[0] != kTVMArgInt) {
    TVMAPISetLastError("TypeError: acme.twice takes one int");
    return -1;
  }
  out->v_int64 = 2 * args[0].v_int64;
  *out_code = kTVMArgInt;
  return 0;
}

/* The device: it is asked to run regions of the operators that it describes. */
static int run(tvmrt_device* device, tvmrt_region* region) {
  const float* x = tvmrt_region_data(region, region->inputs[0]);
  float* y = tvmrt_region_data(region, region->outputs[0]);
  const tvmrt_region_tensor* tensor = &region->tensors[region->outputs[0]];
  int64_t count = 1;
  (void)device;
  for (int32_t i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  return 0;
}

static const tvmrt_device_interface slots = {.run = run};
static const tvmrt_device device = {
    .struct_bytes = sizeof(device), .name = "acme", .interface = &slots};

static int enter(void) { return tvmrt_device_register(&device); }
static int leave(void) { return tvmrt_device_unregister("acme"); }

static const tvmrt_plugin_function functions[] = {{"acme.twice", twice}, {NULL, NULL}};

TVMRT_PLUGIN_TABLE = {
    sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "acme", functions, enter, leave, NULL};
