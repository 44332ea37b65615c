/* Device "twin": computes like `unary` and adds 1000, so that results show which device ran.
 * Scheduler "by_value" chooses by the first element of a region's input: above 10 the device twin,
 * below 0 the CPU, otherwise the device that the network was compiled for. */
#include <math.h>
#include <stdlib.h>
#include <tvm/runtime/device.h>

TVMRT_DEVICE_PLUGIN(twin)

static float apply(const char* op, float x) {
  if (strcmp(op, "neg") == 0) return -x;
  if (strcmp(op, "abs") == 0) return fabsf(x);
  return x > 0 ? x : 0;
}

static int run(tvmrt_device* device, tvmrt_region* region) {
  const float* x = tvmrt_region_data(region, region->inputs[0]);
  float* y = tvmrt_region_data(region, region->outputs[0]);
  const int64_t count = tvmrt_region_size(region, region->inputs[0]);
  (void)device;
  for (int64_t i = 0; i < count; ++i) {
    y[i] = x[i];
    for (int32_t k = 0; k < region->num_nodes; ++k) y[i] = apply(region->nodes[k].op, y[i]);
    y[i] += 1000;
  }
  return 0;
}

static tvmrt_device* choose(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                            const tvmrt_region* region) {
  const float* x = tvmrt_region_data(region, region->inputs[0]);
  const char* name = x[0] > 10 ? "twin" : "cpu";
  tvmrt_device* device = NULL;
  (void)scheduler, (void)plan, (void)step;
  if (x[0] >= 0 && x[0] <= 10) return NULL;
  return tvmrt_device_find(name, &device) == 0 ? device : NULL;
}

static int run_all(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  for (int32_t i = 0; i < plan->num_steps; ++i) {
    if (plan->is_cancelled(plan) || plan->run_step(plan, i) != 0) return -1;
  }
  return 0;
}

static const tvmrt_device_interface interface = {.run = run};
static const tvmrt_device device = {
    .struct_bytes = sizeof(device), .name = "twin", .interface = &interface};
static const tvmrt_scheduler scheduler = {
    .struct_bytes = sizeof(scheduler), .name = "by_value", .run = run_all, .choose = choose};

int register_twin_device(void) {
  if (tvmrt_scheduler_register(&scheduler) != 0) return -1;
  return tvmrt_device_register(&device);
}
int unregister_twin_device(void) { return tvmrt_device_unregister("twin"); }
