/* The device "xnnpack": regions of a network by XNNPACK on the CPU.
 *
 * A region becomes a graph (plan.h) in pre_run, where XNNPACK packs its weights; run binds the
 * caller's memory and invokes it. One pool of threads serves the process. */
#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>

#include "graph.h"
#include "plan.h"

TVMRT_DEVICE_PLUGIN(xnnpack)

/* What the device keeps for the process. */
typedef struct {
  pthreadpool_t threads; /* NULL: the caller's alone */
} library;

/* How many threads the runtime's user allows; 1 if this runtime does not tell. By name, so that
 * the device builds against the public headers alone. Asked once: the pool keeps its number of
 * threads. */
static size_t allowed_threads(void) {
  TVMFunctionHandle function = NULL;
  TVMValue result;
  int code = kTVMNullptr, rc;
  if (TVMFuncGetGlobal("runtime.NumThreads", &function) != 0 || function == NULL) return 1;
  rc = TVMFuncCall(function, NULL, NULL, 0, &result, &code);
  (void)TVMFuncFree(function);
  return rc == 0 && code == kTVMArgInt && result.v_int64 > 0 ? (size_t)result.v_int64 : 1;
}

/* Without a pool for lack of memory it computes on the caller's thread. xnn_initialize() may be
 * called again by others in the process: XNNPACK does its work once. */
static int init(tvmrt_device* device) {
  const size_t threads = allowed_threads();
  library* lib = calloc(1, sizeof(*lib));
  if (lib == NULL) return graph_fail("out of memory");
  if (xnn_initialize(NULL) != xnn_status_success) {
    free(lib);
    return graph_fail("XNNPACK has no kernels for this processor");
  }
  if (threads > 1) lib->threads = pthreadpool_create(threads);
  device->privacy = lib;
  return 0;
}

/* After the last graph: the pool's threads work for them. */
static int release_device(tvmrt_device* device) {
  library* lib = device->privacy;
  if (lib == NULL) return 0;
  if (lib->threads != NULL) pthreadpool_destroy(lib->threads);
  (void)xnn_deinitialize();
  free(lib);
  device->privacy = NULL;
  return 0;
}

/* Called again for other shapes. The old plan stays where the new one cannot be made. */
static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  const library* lib = device->privacy;
  plan* fresh = NULL;
  (void)options;
  GRAPH_TRY(plan_create(region, lib->threads, &fresh));
  plan_free(region->device_graph);
  region->device_graph = fresh;
  return 0;
}

/* On the caller's thread and the pool's; it returns when all is done. */
static int run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  return plan_run(region->device_graph, region);
}

static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  plan_free(device_graph);
  return 0;
}

/* The operators that make a region worth it; others follow them by the compiler's half of the
 * device. */
static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"conv", "conv_transpose", "matmul", "max_pool", NULL};
  (void)device;
  out->ops = ops;
  out->layout = "channels_last";
  return 0;
}

static const tvmrt_device_interface slots = {.init = init,
                                             .pre_run = pre_run,
                                             .run = run,
                                             .release_graph = release_graph,
                                             .release_device = release_device};
static const tvmrt_device_allocator allocator = {.describe = describe};
static const tvmrt_device xnnpack_device = {.struct_bytes = sizeof(xnnpack_device),
                                            .name = "xnnpack",
                                            .interface = &slots,
                                            .allocator = &allocator,
                                            .abilities = TVMRT_DEVICE_KEEPS_WEIGHTS};

int register_xnnpack_device(void) { return tvmrt_device_register(&xnnpack_device); }
int unregister_xnnpack_device(void) { return tvmrt_device_unregister("xnnpack"); }
