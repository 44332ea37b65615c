/* The device "dnnl": layers by oneDNN on the CPU. One engine and one stream serve the process. */
#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>

#include "layer.h"

#ifdef _OPENMP
#include <omp.h>
#endif

TVMRT_DEVICE_PLUGIN(dnnl)

static int fail(const char* text) {
  TVMPackedFuncSetLastError(text);
  return -1;
}

static int release_device(tvmrt_device* device) {
  onednn* lib = device->privacy;
  if (lib->stream != NULL) dnnl_stream_destroy(lib->stream);
  if (lib->engine != NULL) dnnl_engine_destroy(lib->engine);
  if (lib->num_threads != NULL) TVMFuncFree(lib->num_threads);
  free(lib);
  device->privacy = NULL;
  return 0;
}

/* On failure everything is freed, since release_device is not called then. */
static int init(tvmrt_device* device) {
  onednn* lib = calloc(1, sizeof(*lib));
  if (lib == NULL) return fail("out of memory");
  device->privacy = lib;
  if (dnnl_engine_create(&lib->engine, dnnl_cpu, 0) != dnnl_success ||
      dnnl_stream_create(&lib->stream, lib->engine, dnnl_stream_default_flags) != dnnl_success ||
      TVMFuncGetGlobal("runtime.NumThreads", &lib->num_threads) != 0) {
    (void)release_device(device);
    return fail("oneDNN has no engine for this processor");
  }
  return 0;
}

/* Number of threads that the user allows; 0 if the runtime does not report it. */
static int allowed_threads(const onednn* lib) {
  TVMValue result;
  int code;
  return TVMFuncCall(lib->num_threads, NULL, NULL, 0, &result, &code) != 0 ? 0
                                                                           : (int)result.v_int64;
}

/* Set OpenMP's number of threads for the calling thread; return the old one. */
static int set_threads(int count) {
#ifdef _OPENMP
  const int before = omp_get_max_threads();
  if (count > 0 && count != before) omp_set_num_threads(count);
  return before;
#else
  return count;
#endif
}

/* If a new layer cannot be made, the old one stays. */
static int prepare(const onednn* lib, tvmrt_region* region, int threads) {
  layer* made = layer_new(region, lib, threads);
  if (made == NULL) return -1;
  layer_free(region->device_graph);
  region->device_graph = made;
  return 0;
}

/* oneDNN makes primitives for OpenMP's number of threads. */
static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  const int threads = allowed_threads(device->privacy), before = set_threads(threads);
  const int rc = prepare(device->privacy, region, threads);
  (void)options;
  (void)set_threads(before);
  return rc;
}

static int run(tvmrt_device* device, tvmrt_region* region) {
  const int threads = allowed_threads(device->privacy), before = set_threads(threads);
  int rc = layer_run(region->device_graph, threads);
  if (rc == LAYER_STALE) {
    rc = prepare(device->privacy, region, threads);
    if (rc == 0) rc = layer_run(region->device_graph, threads);
  }
  (void)set_threads(before);
  return rc;
}

static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  layer_free(device_graph);
  return 0;
}

static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"conv", "matmul", "add", "relu", "max", "min", NULL};
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
static const tvmrt_device dnnl_device = {.struct_bytes = sizeof(dnnl_device),
                                         .name = "dnnl",
                                         .interface = &slots,
                                         .allocator = &allocator,
                                         .version = 2,
                                         .abilities = TVMRT_DEVICE_KEEPS_WEIGHTS};

int register_dnnl_device(void) { return tvmrt_device_register(&dnnl_device); }
int unregister_dnnl_device(void) { return tvmrt_device_unregister("dnnl"); }
