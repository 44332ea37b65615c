/* The device "dnnl": regions of a network by oneDNN on the CPU.
 *
 * One engine and one stream serve the process. pre_run converts a region to a plan (plan.h): it
 * reorders weights and creates primitives. run binds the caller's memory and executes them. */
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>

#include "build.h"

#ifdef _OPENMP
#include <omp.h>
#endif

int register_dnnl_device(void);
int unregister_dnnl_device(void);

/* State of the device for the process. */
typedef struct {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  TVMFunctionHandle num_threads; /* of the runtime's thread pool; NULL if the runtime has none */
} library;

/* Returns -1. For errors without a plan, and so without a node. */
static int fail(const char* text) {
  TVMPackedFuncSetLastError(text);
  return -1;
}

/* Without this function in the runtime, oneDNN uses its own number of threads. On failure
 * everything is freed, since release_device is not called then. */
static int init(tvmrt_device* device) {
  library* lib = calloc(1, sizeof(*lib));
  if (lib == NULL) return fail("out of memory");
  if (dnnl_engine_create(&lib->engine, dnnl_cpu, 0) != dnnl_success) {
    free(lib);
    return fail("oneDNN has no engine for this processor");
  }
  if (dnnl_stream_create(&lib->stream, lib->engine, dnnl_stream_default_flags) != dnnl_success) {
    dnnl_engine_destroy(lib->engine);
    free(lib);
    return fail("oneDNN cannot create a stream");
  }
  if (TVMFuncGetGlobal("runtime.NumThreads", &lib->num_threads) != 0) lib->num_threads = NULL;
  device->privacy = lib;
  return 0;
}

/* Called after the last plan is freed, since primitives use the engine and the stream. */
static int release_device(tvmrt_device* device) {
  library* lib = device->privacy;
  if (lib == NULL) return 0;
  dnnl_stream_destroy(lib->stream);
  dnnl_engine_destroy(lib->engine);
  if (lib->num_threads != NULL) TVMFuncFree(lib->num_threads);
  free(lib);
  device->privacy = NULL;
  return 0;
}

/* Number of threads allowed by the user; 0 if the runtime does not report it. Queried before each
 * run, since the user may change it. */
static int allowed_threads(const library* lib) {
  TVMValue result;
  int code = kTVMNullptr;
  if (lib->num_threads == NULL) return 0;
  if (TVMFuncCall(lib->num_threads, NULL, NULL, 0, &result, &code) != 0) return 0;
  return code == kTVMArgInt && result.v_int64 > 0 ? (int)result.v_int64 : 0;
}

/* oneDNN uses OpenMP, whose number of threads is set per calling thread. Set it and return the old
 * value. */
static int set_threads(int count) {
#ifdef _OPENMP
  int before = omp_get_max_threads();
  if (count > 0 && count != before) omp_set_num_threads(count);
  return before;
#else
  return count;
#endif
}

/* If a new plan cannot be made, the old one stays. The number of threads is also set for the build,
 * since primitives are created for it. During the build both plans, with their packed weights, are
 * in memory. */
static int make_plan(tvmrt_device* device, tvmrt_region* region, bool from_call, int threads) {
  const library* lib = device->privacy;
  const plan_options options = {lib->engine, lib->stream, from_call, threads};
  plan* fresh = NULL;
  int before = set_threads(threads);
  int rc = plan_create(region, &options, build_nodes, &fresh);
  (void)set_threads(before);
  if (rc != 0) return -1;
  plan_free(region->device_graph);
  region->device_graph = fresh;
  return 0;
}

static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  (void)options;
  return make_plan(device, region, false, allowed_threads(device->privacy));
}

/* A plan for the strides of one call is rebuilt if the next call has other strides. The runtime
 * never runs two slots of one region at once, so the plan may be replaced here. */
static int run(tvmrt_device* device, tvmrt_region* region) {
  plan* p = region->device_graph;
  int threads = allowed_threads(device->privacy), before, rc;
  bool fits = plan_fits_call(p);
  /* the strides of tensors and the number of threads may have changed */
  if (!fits || threads != p->options.threads) {
    if (make_plan(device, region, !fits || p->options.from_call, threads) != 0) return -1;
    p = region->device_graph;
  }
  before = set_threads(threads); /* also applies to other libraries' loops on this thread */
  rc = plan_run(p);
  (void)set_threads(before);
  return rc;
}

/* May be called on any thread, so plans contain no thread-specific state. */
static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  plan_free(device_graph);
  return 0;
}

/* Whether oneDNN supports the extents is known when the plan is built. The compiler's half of the
 * device is stricter: pointwise nodes are only accepted after a convolution or matmul. */
static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"conv", "conv_transpose", "matmul", "qconv", "qmatmul",
                                    "add",  "relu",           "max",    "min",   NULL};
  static const char* const dtypes[] = {"float32", "int8", "uint8", "int32", NULL};
  (void)device;
  out->ops = ops;
  out->dtypes = dtypes;
  out->layout = "channels_last";
  return 0;
}

static const tvmrt_device_interface slots = {.init = init,
                                             .pre_run = pre_run,
                                             .run = run,
                                             .release_graph = release_graph,
                                             .release_device = release_device};
static const tvmrt_device_allocator allocator = {.describe = describe};
/* KEEPS_WEIGHTS: oneDNN reads packed copies, so the library's weights may be unmapped. */
static const tvmrt_device dnnl_device = {.struct_bytes = sizeof(dnnl_device),
                                         .name = "dnnl",
                                         .interface = &slots,
                                         .allocator = &allocator,
                                         .version = 1,
                                         .abilities = TVMRT_DEVICE_KEEPS_WEIGHTS};

int register_dnnl_device(void) { return tvmrt_device_register(&dnnl_device); }
int unregister_dnnl_device(void) { return tvmrt_device_unregister("dnnl"); }

TVMRT_DEVICE_PLUGIN(dnnl)
