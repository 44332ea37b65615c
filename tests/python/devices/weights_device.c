/* Device of matmuls of a row with constant weights, which it reads in place. With KEEPS it makes a
 * transposed copy in pre_run, as vendor libraries do, and declares so. */
#include <stdlib.h>
#include <tvm/runtime/device.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

TVMRT_DEVICE_PLUGIN(weights)

static int fail(const char* why) {
  TVMPackedFuncSetLastError(why);
  return -1;
}

static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"matmul", NULL};
  (void)device;
  out->ops = ops;
  return 0;
}

static int evaluation(tvmrt_device* device, const tvmrt_region* region) {
  const tvmrt_region_tensor* w = &region->tensors[region->nodes[0].inputs[1]];
  (void)device;
  return region->num_nodes == 1 && w->is_constant && w->ndim == 2 ? 0 : fail("no such product");
}

#ifdef KEEPS
static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  const int32_t weights = region->nodes[0].inputs[1];
  const int64_t* shape = region->tensors[weights].shape;
  const float* from = tvmrt_region_data(region, weights);
  float* to = region->base == NULL ? malloc((size_t)region->tensors[weights].num_bytes) : NULL;
  int64_t i, k;
  (void)device, (void)options;
  region->device_graph = to;
  if (region->base != NULL) return 0; /* the first one's are read */
  if (to == NULL) return fail("no memory");
  for (i = 0; i < shape[0]; ++i) {
    for (k = 0; k < shape[1]; ++k) to[k * shape[0] + i] = from[i * shape[1] + k];
  }
  return 0;
}

static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  free(device_graph);
  return 0;
}

static float weight(const tvmrt_region* region, int64_t i, int64_t k, const int64_t* shape) {
  const float* own = region->base == NULL ? region->device_graph : region->base->device_graph;
  return own[k * shape[0] + i];
}
#else
static float weight(const tvmrt_region* region, int64_t i, int64_t k, const int64_t* shape) {
  return ((const float*)tvmrt_region_data(region, region->nodes[0].inputs[1]))[i * shape[1] + k];
}
#endif

static int run(tvmrt_device* device, tvmrt_region* region) {
  const tvmrt_region_node* node = &region->nodes[0];
  const int64_t* shape = region->tensors[node->inputs[1]].shape;
  const float* x = tvmrt_region_data(region, node->inputs[0]);
  float* y = tvmrt_region_data(region, node->outputs[0]);
  int64_t i, k;
  (void)device;
  for (k = 0; k < shape[1]; ++k) y[k] = 0;
  for (i = 0; i < shape[0]; ++i) {
    for (k = 0; k < shape[1]; ++k) y[k] += x[i] * weight(region, i, k, shape);
  }
  return 0;
}

static const tvmrt_device_interface interface = {
#ifdef KEEPS
    .pre_run = pre_run,
    .release_graph = release_graph,
#endif
    .run = run};
static const tvmrt_device_allocator allocator = {.describe = describe, .evaluation = evaluation};
static const tvmrt_device device = {
    .struct_bytes = sizeof(device),
    .name = TEXT(NAME),
    .interface = &interface,
    .allocator = &allocator,
#ifdef KEEPS
    .abilities = TVMRT_DEVICE_KEEPS_WEIGHTS,
#endif
};
int register_weights_device(void) { return tvmrt_device_register(&device); }
int unregister_weights_device(void) { return tvmrt_device_unregister(TEXT(NAME)); }
