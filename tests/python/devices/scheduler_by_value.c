/* Scheduler "by_value": regions with a negative first input element run on the CPU. */
#include <tvm/runtime/device.h>

TVMRT_DEVICE_PLUGIN(scheduler)

static tvmrt_device* choose(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                            const tvmrt_region* region) {
  const float* x = tvmrt_region_data(region, region->inputs[0]);
  tvmrt_device* cpu = NULL;
  (void)scheduler, (void)plan, (void)step;
  if (x[0] < 0 && tvmrt_device_find("cpu", &cpu) != 0) return NULL;
  return cpu;
}

static int run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  for (int32_t i = 0; i < plan->num_steps; ++i) {
    if (plan->is_cancelled(plan) || plan->run_step(plan, i) != 0) return -1;
  }
  return 0;
}

int register_scheduler_device(void) {
  static const tvmrt_scheduler scheduler = {
      .struct_bytes = sizeof(scheduler), .name = "by_value", .run = run, .choose = choose};
  return tvmrt_scheduler_register(&scheduler);
}
int unregister_scheduler_device(void) { return 0; }
