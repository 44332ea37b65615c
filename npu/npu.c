/* npu: a device that computes `relu` in float32. tvm/runtime/device.h describes every slot. */
#include <stdlib.h>
#include <tvm/runtime/device.h>

TVMRT_DEVICE_PLUGIN(npu)
#define FAIL(why) (TVMPackedFuncSetLastError(why), -1)

/* What the compiler may give to the device. */
static int describe(tvmrt_device* device, tvmrt_device_description* out) {
  static const char* const ops[] = {"relu", NULL};
  (void)device;
  out->ops = ops;
  return 0;
}

/* Where in the region's memory a tensor lies: behind those before it. */
static size_t place(const tvmrt_region* region, int32_t tensor) {
  size_t bytes = 0;
  for (int32_t i = 0; i < tensor; ++i) bytes += (region->tensors[i].num_bytes + 63) / 64 * 64;
  return bytes;
}

static int pre_run(tvmrt_device* device, tvmrt_region* region, const char* options) {
  (void)device, (void)options;
  free(region->device_graph); /* of other shapes */
  region->device_graph = malloc(place(region, region->num_tensors) + 1);
  return region->device_graph != NULL ? 0 : FAIL("out of memory");
}

static float* data(const tvmrt_region* region, int32_t tensor) {
  float* border = tvmrt_region_data(region, tensor); /* an input, an output or a constant */
  return border != NULL ? border : (float*)((char*)region->device_graph + place(region, tensor));
}

static int run(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  for (int32_t n = 0; n < region->num_nodes; ++n) {
    const tvmrt_region_node* node = &region->nodes[n];
    if (strcmp(node->op, "relu") != 0) return FAIL("relu is all that the device knows");
    const float* x = data(region, node->inputs[0]);
    float* y = data(region, node->outputs[0]);
    const int64_t size = tvmrt_region_size(region, node->outputs[0]);
    for (int64_t i = 0; i < size; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  }
  return 0;
}

static int release_graph(tvmrt_device* device, void* device_graph) {
  (void)device;
  free(device_graph);
  return 0;
}

static const tvmrt_device_interface interface = {
    .pre_run = pre_run, .run = run, .release_graph = release_graph};
static const tvmrt_device_allocator allocator = {.describe = describe};
static const tvmrt_device device = {.struct_bytes = sizeof(device), .name = "npu",
                                    .interface = &interface, .allocator = &allocator};
int register_npu_device(void) { return tvmrt_device_register(&device); }
int unregister_npu_device(void) { return tvmrt_device_unregister("npu"); }
