/* Device that computes relu at the extents of each run, row by row; macros build it as a device
 * from before dynamic shapes. */
#include <stddef.h>
#include <tvm/runtime/device.h>

TVMRT_DEVICE_PLUGIN(any_size)

static int64_t last_extent;

/* The number of elements of the last run. */
TVM_DLL int64_t elements_of_last_run(void);
int64_t elements_of_last_run(void) { return last_extent; }

static int run(tvmrt_device* self, tvmrt_region* region) {
  const int64_t* extents = tvmrt_region_extents(region, region->inputs[0]);
  const float* x = tvmrt_region_data(region, region->inputs[0]);
  float* y = tvmrt_region_data(region, region->outputs[0]);
  int64_t count = 1;
  (void)self;
  for (int32_t i = 0; i < region->tensors[region->inputs[0]].ndim; ++i) count *= extents[i];
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  last_extent = count;
  return 0;
}

static int describe(tvmrt_device* self, tvmrt_device_description* out) {
  static const char* const ops[] = {"relu", NULL};
  (void)self;
  out->ops = ops;
  return 0;
}

static const tvmrt_device_interface slots = {.run = run};
static const tvmrt_device_allocator questions = {.describe = describe};
static const tvmrt_device device = {
#ifdef BEFORE
    .struct_bytes = offsetof(tvmrt_device, abilities),
#else
    .struct_bytes = sizeof(tvmrt_device),
#endif
    .name = NAME,
    .interface = &slots,
    .allocator = &questions,
    .abilities = TVMRT_DEVICE_ANY_SIZE,
};

int register_any_size_device(void) { return tvmrt_device_register(&device); }
int unregister_any_size_device(void) { return tvmrt_device_unregister(NAME); }
