/* The device "opencl": regions of a network on any OpenCL 1.2 device, through the ICD loader.
 *
 * Implements the slots of tvm/runtime/device.h. The runtime calls them for one region from one
 * thread at a time. The driver is thread-safe except for a kernel's arguments, which belong to one
 * plan. */
#include "opencl.h"

#include <stdlib.h>
#include <string.h>

int register_opencl_device(void);
int unregister_opencl_device(void);

/* (): one line per kernel, see opencl.h. */
static int return_profile(TVMValue* args, int* type_codes, int num_args, TVMRetValueHandle ret,
                          void* resource) {
  TVMValue value;
  int code = kTVMStr, rc;
  char* text = opencl_profile_text();
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource;
  if (text == NULL) return device_fail("out of memory");
  value.v_str = text;
  rc = TVMCFuncSetReturn(ret, &value, &code, 1);
  free(text);
  return rc;
}

/* Register the functions that report statistics of runs. */
static int register_functions(void) {
  if (register_moved_bytes("device.opencl.moved", opencl_moved()) != 0) return -1;
  return register_function("device.opencl.profile", return_profile, NULL);
}

/* If the device works in the host's memory, weights are read from the library without a copy. After
 * a failure registered functions stay and fail when called; the next library tries again. */
static int init(tvmrt_device* device) {
  opencl_context* c = NULL;
  int rc = opencl_context_create(&c);
  if (rc == 0) rc = register_functions();
  if (rc == 0) rc = opencl_memory_register(c);
  if (rc != 0) {
    opencl_memory_close();
    opencl_context_free(c);
    return -1;
  }
  device->privacy = c;
  if (c->is_unified) device->abilities &= ~(uint64_t)TVMRT_DEVICE_KEEPS_WEIGHTS;
  return 0;
}

/* Memory first, since its buffers belong to the context. */
static int release_device(tvmrt_device* device) {
  opencl_memory_close();
  opencl_context_free(device->privacy);
  device->privacy = NULL;
  return 0;
}

/* {"profile": 1} measures each kernel, see "device.opencl.profile". */
static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  const char* profile = tvmrt_option(options, "profile");
  const bool wanted = profile != NULL && (*profile == '1' || *profile == 't'); /* 1 or true */
  opencl_plan* fresh = NULL;
  if (opencl_plan_create(device->privacy, region, wanted, &fresh) != 0) return -1;
  /* only now, so that a region keeps its old plan if a new one cannot be made */
  opencl_plan_free(region->device_graph);
  region->device_graph = fresh;
  return 0;
}

/* Queues the run and returns; kernel errors are reported by async_wait(). */
static int async_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return opencl_plan_start(region->device_graph, region);
}

/* Ends the run also if it reports a failure. */
static int async_wait(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  (void)device;
  return opencl_plan_wait(region->device_graph, try_wait);
}

/* Also waits for an abandoned run, which may still be writing. */
static int post_run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  if (region->device_graph != NULL) opencl_plan_stop(region->device_graph);
  return 0;
}

/* Does not need the device, since the plan has its context. */
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
                                             .post_run = post_run,
                                             .async_run = async_run,
                                             .async_wait = async_wait,
                                             .release_graph = release_graph,
                                             .release_device = release_device};
static const tvmrt_device_allocator allocator = {.describe = describe};
/* Alignment of tensors, as required for sub-buffer offsets. */
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
