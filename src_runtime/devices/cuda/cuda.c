/* The device "cuda": regions of a network on NVIDIA's GPUs, by libraries that are loaded at run
 * time.
 *
 * The slots of tvm/runtime/device.h. The runtime calls them for one region from one thread at a
 * time; regions are independent of each other. Slots that call the driver enter the context and
 * leave it. */
#include "cuda.h"

int register_cuda_device(void);
int unregister_cuda_device(void);

/* Global functions that were registered before a failure stay, and fail when they are called.
 * Called once, when a library first needs the device. A failure leaves nothing but those functions,
 * and the next library tries again. */
static int init(tvmrt_device* device) {
  cuda_context* c = NULL;
  int rc = cuda_context_create(&c);
  if (rc == 0) rc = told_register_moved("device.cuda.moved", cuda_moved());
  if (rc == 0) rc = cuda_memory_register(c);
  if (rc != 0) {
    cuda_memory_close();
    cuda_context_free(c);
    return -1;
  }
  device->privacy = c;
  return 0;
}

/* Memory before the context that it was asked of. */
static int release_device(tvmrt_device* device) {
  cuda_memory_close();
  cuda_context_free(device->privacy);
  device->privacy = NULL;
  return 0;
}

/* The new plan is whole before the old one goes: a region that cannot be prepared anew keeps
 * running as it did. */
static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  const cuda_plan* base = region->base == NULL ? NULL : region->base->device_graph;
  cuda_plan* fresh = NULL;
  (void)options;
  if (cuda_plan_create(device->privacy, region, base, &fresh) != 0) return -1;
  cuda_plan_free(region->device_graph);
  region->device_graph = fresh;
  return 0;
}

/* Only queues: the kernels run when this returns, and errors of theirs are told by async_wait().
 * The context is the thread's only in between: other libraries may have theirs. */
static int async_run(tvmrt_device* device, tvmrt_region* region) {
  int rc = cuda_enter(device->privacy);
  if (rc != 0) return -1;
  rc = cuda_plan_start(region->device_graph, region);
  cuda_leave(device->privacy);
  return rc;
}

/* Ends the run also where it says that it failed; BUSY leaves it as it is. */
static int async_wait(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  int rc = cuda_enter(device->privacy);
  if (rc != 0) return -1;
  rc = cuda_plan_wait(region->device_graph, try_wait);
  cuda_leave(device->privacy);
  return rc;
}

/* Waits for a run that was given up; nothing where there is none. */
static int post_run(tvmrt_device* device, tvmrt_region* region) {
  if (region->device_graph == NULL) return 0;
  if (cuda_enter(device->privacy) != 0) return -1;
  cuda_plan_stop(region->device_graph);
  cuda_leave(device->privacy);
  return 0;
}

/* It enters and leaves the context itself, as it is called where a plan could not be made, too. */
static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  cuda_plan_free(device_graph);
  return 0;
}

/* The names are those that the compiler's half gives its kernels: networks' own operators never
 * come here. */
static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"custom_cuda", "custom_cuda_product", "reshape", "identity",
                                    NULL};
  static const char* const dtypes[] = {"float32", "int8",  "uint8", "int16",  "uint16", "int32",
                                       "uint32",  "int64", "bool",  "uint64", NULL};
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
static const tvmrt_device_memory memory = {
    .struct_bytes = sizeof(memory), .device = {kDLCUDA, 0}, .align_bytes = 256};
static const tvmrt_device cuda_device = {.struct_bytes = sizeof(cuda_device),
                                         .name = "cuda",
                                         .interface = &slots,
                                         .allocator = &allocator,
                                         .version = 1,
                                         .abilities = TVMRT_DEVICE_KEEPS_WEIGHTS,
                                         .num_queues = 8, /* each region has a stream */
                                         .memory = &memory};

int register_cuda_device(void) { return tvmrt_device_register(&cuda_device); }
int unregister_cuda_device(void) { return tvmrt_device_unregister("cuda"); }

TVMRT_DEVICE_PLUGIN(cuda)
