/* The device "opencl": regions of a network on any OpenCL 1.2 device, through the ICD loader.
 *
 * Implements the slots of tvm/runtime/device.h. The runtime calls them for one region from one
 * thread at a time. The driver is thread-safe except for a kernel's arguments, which belong to one
 * plan. */
#include "opencl.h"

int register_opencl_device(void);
int unregister_opencl_device(void);

/* After a failure registered functions stay and fail when called; the next library tries again. */
static int init(tvmrt_device* device) {
  opencl_context* c = NULL;
  if (opencl_context_create(&c) != 0) return -1;
  if (opencl_memory_register(c) != 0) {
    opencl_memory_close();
    opencl_context_free(c);
    return -1;
  }
  device->privacy = c;
  return 0;
}

/* Memory first, since its buffers belong to the context. */
static int release_device(tvmrt_device* device) {
  opencl_memory_close();
  opencl_context_free(device->privacy);
  device->privacy = NULL;
  return 0;
}

static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  opencl_plan* fresh = NULL;
  (void)options;
  if (opencl_plan_create(device->privacy, region, &fresh) != 0) return -1;
  /* only now, so that a region keeps its old plan if a new one cannot be made */
  opencl_plan_free(region->device_graph);
  region->device_graph = fresh;
  return 0;
}

static int run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return opencl_plan_run(region->device_graph, region);
}

/* Does not need the device, since OpenCL objects retain their context. */
static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  opencl_plan_free(device_graph);
  return 0;
}

/* Kernels made by the compiler, and operators that only rename a buffer. */
static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"custom_opencl", "reshape", "identity", NULL};
  static const char* const dtypes[] = {"float32", "int8",  "uint8", "int16",   "uint16", "int32",
                                       "uint32",  "int64", "bool",  "float16", "uint64", NULL};
  (void)device;
  out->ops = ops;
  out->dtypes = dtypes;
  return 0;
}

static const tvmrt_device_interface slots = {.init = init,
                                             .pre_run = pre_run,
                                             .run = run,
                                             .release_graph = release_graph,
                                             .release_device = release_device};
static const tvmrt_device_allocator allocator = {.describe = describe};
static const tvmrt_device_memory memory = {
    .struct_bytes = sizeof(memory), .device = {kDLOpenCL, 0}, .align_bytes = 512};
static const tvmrt_device opencl_device = {.struct_bytes = sizeof(opencl_device),
                                           .name = "opencl",
                                           .interface = &slots,
                                           .allocator = &allocator,
                                           .version = 1,
                                           .abilities = TVMRT_DEVICE_KEEPS_WEIGHTS,
                                           .memory = &memory};

int register_opencl_device(void) { return tvmrt_device_register(&opencl_device); }
int unregister_opencl_device(void) { return tvmrt_device_unregister("opencl"); }

TVMRT_DEVICE_PLUGIN(opencl)
