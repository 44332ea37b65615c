/* Schedulers that see tensors, devices and events: they decide while a network runs. */
#include "slow_devices.h"

/* A device whose runs continue when async_run has returned: y = sum of its inputs + 100. */
static atomic_int under_way;
static atomic_int max_running_at_once;
static atomic_bool is_stuck; /* no run ends */

static int started_run(tvmrt_device* device, tvmrt_region* region) {
  const int now = atomic_fetch_add(&under_way, 1) + 1;
  (void)device;
  (void)region;
  if (now > atomic_load(&max_running_at_once)) atomic_store(&max_running_at_once, now);
  return 0;
}

static int waited_run(tvmrt_device* device, tvmrt_region* region, int try_wait) {
  float sum = 100;
  (void)device;
  if (try_wait && atomic_load(&is_stuck)) return TVMRT_DEVICE_BUSY;
  for (int32_t i = 0; i < region->num_inputs; ++i) {
    sum += *(const float*)tvmrt_region_data(region, region->inputs[i]);
  }
  *(float*)tvmrt_region_data(region, region->outputs[0]) = sum;
  atomic_fetch_sub(&under_way, 1);
  return 0;
}

static int accepts_small(tvmrt_device* device, const tvmrt_region* region) {
  (void)device;
  if (region->num_inputs == 1) return 0;
  TVMPackedFuncSetLastError("two inputs are too many.");
  return -1;
}

static const tvmrt_device_interface async_slots = {.async_run = started_run,
                                                   .async_wait = waited_run};
static const tvmrt_device_allocator small = {.evaluation = accepts_small};
static const tvmrt_device queue = {
    .struct_bytes = sizeof(queue), .name = "queue", .interface = &async_slots, .allocator = &small};

static tvmrt_device* found(const char* name) {
  tvmrt_device* device;
  assert_ok(tvmrt_device_find(name, &device));
  assert_non_null(device);
  return device;
}

/* Tensors with large values go to the queue. */
static tvmrt_device* by_value(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                              const tvmrt_region* region) {
  const DLTensor* x = region->data[region->inputs[0]];
  (void)scheduler;
  assert_int_equal(x->ndim, 1);
  assert_int_equal(x->shape[0], 1);
  assert_int_equal(x->device.device_type, kDLCPU);
  if (plan->steps[step].num_after > 1) return NULL; /* the join, which the queue refuses */
  return *(const float*)tvmrt_region_data(region, region->inputs[0]) > 10 ? found("queue") : NULL;
}

static int same_order(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  for (int32_t i = 0; i < plan->num_steps; ++i) {
    if (plan->run_step(plan, i) != 0) return -1;
  }
  return 0;
}

static TVMModuleHandle make_with_scheduler(const char* scheduler) {
  TVMModuleHandle executor = make_executor(with_after);
  assert_ok(call_with_text(executor, "set_scheduler", scheduler));
  return executor;
}

static void test_device_is_chosen_by_the_tensors_of_a_call(void** unused) {
  static const tvmrt_scheduler judge = {
      .struct_bytes = sizeof(judge), .name = "by_value", .run = same_order, .choose = by_value};
  TVMModuleHandle executor;
  (void)unused;
  assert_ok(tvmrt_scheduler_register(&judge));
  executor = make_with_scheduler("by_value");
  set_x(executor, 1); /* left1: 2, right1: 2, left2: 3, join: 6 */
  assert_ok(call_with_text(executor, "run", NULL));
  assert_float_equal(get_y(executor), 6, 0);
  set_x(executor, 20); /* all but the join on the queue: 120, 120, 220, join: 341 */
  assert_ok(call_with_text(executor, "run", NULL));
  assert_float_equal(get_y(executor), 341, 0);
  assert_trace(executor,
               "{\"scheduler\": \"by_value\", \"steps\": ["
               "{\"step\": 0, \"name\": \"left1\", \"device\": \"left\", \"position\": 0, "
               "\"after\": [], \"chosen\": \"queue\"}, "
               "{\"step\": 1, \"name\": \"right1\", \"device\": \"right\", \"position\": 0, "
               "\"after\": [], \"chosen\": \"queue\"}, "
               "{\"step\": 2, \"name\": \"left2\", \"device\": \"left\", \"position\": 1, "
               "\"after\": [1], \"chosen\": \"queue\"}, "
               "{\"step\": 3, \"name\": \"join\", \"device\": \"left\", \"position\": 2, "
               "\"after\": [0, 2]}]}");
  set_x(executor, 2);
  assert_ok(call_with_text(executor, "run", NULL));
  assert_float_equal(get_y(executor), 8, 0);
  assert_fails(tvmrt_device_unregister("queue"), "is used by");
  TVMModFree(executor);
}

static tvmrt_device* wants_cpu(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                               const tvmrt_region* region) {
  (void)scheduler;
  (void)plan;
  (void)step;
  (void)region;
  return found("cpu");
}

static tvmrt_device* wants_queue(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                                 const tvmrt_region* region) {
  (void)scheduler;
  (void)plan;
  (void)step;
  (void)region;
  return found("queue");
}

static void test_refused_region_fails_its_step(void** unused) {
  static const tvmrt_scheduler to_cpu = {
      .struct_bytes = sizeof(to_cpu), .name = "to_cpu", .run = same_order, .choose = wants_cpu};
  static const tvmrt_scheduler to_queue = {.struct_bytes = sizeof(to_queue),
                                           .name = "to_queue",
                                           .run = same_order,
                                           .choose = wants_queue};
  TVMModuleHandle executor;
  (void)unused;
  assert_ok(tvmrt_scheduler_register(&to_cpu));
  assert_ok(tvmrt_scheduler_register(&to_queue));
  executor = make_with_scheduler("to_cpu");
  assert_fails(call_with_text(executor, "run", NULL), "region 'l1' has no code for the CPU");
  assert_ok(call_with_text(executor, "set_scheduler", "to_queue"));
  assert_fails(call_with_text(executor, "run", NULL),
               "device 'queue': evaluation of region 'l3' failed: two inputs are too many.");
  TVMModFree(executor);
}

/* Starts left1 and right1 before it waits for either; records what it sees of the plan. */
static int events_mode; /* 1: does not finish one that it started; 2: polls until a limit */

static int with_events(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  tvmrt_event* events[2];
  (void)scheduler;
  assert_true(plan->struct_bytes >= sizeof(*plan));
  for (int32_t i = 0; i < 2; ++i) {
    if (plan->begin_step(plan, i, &events[i]) != 0) return -1;
  }
  if (events_mode == 1) return 0;
  while (events_mode == 2 && plan->end_step(plan, events[0], 1) == TVMRT_DEVICE_BUSY) {
    atomic_store(&is_stuck, false);
  }
  for (int32_t i = 0; i < 2; ++i) {
    if (plan->end_step(plan, events[i], 0) != 0) return -1;
    assert_int_equal(plan->end_step(plan, events[i], 1), 0); /* and stays so */
  }
  return plan->run_step(plan, 2) != 0 || plan->run_step(plan, 3) != 0 ? -1 : 0;
}

static int offers(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  tvmrt_region* region = plan->region(plan, 0);
  (void)scheduler;
  assert_string_equal(region->symbol, "l1");
  assert_string_equal(region->nodes[0].op, "inc");
  assert_int_equal(region->tensors[region->inputs[0]].shape[0], 1);
  assert_ok(tvmrt_region_offer(region, found("queue")));
  assert_ok(tvmrt_region_offer(region, found("queue")));
  assert_ok(tvmrt_region_offer(region, found("left")));
  assert_fails(tvmrt_region_offer(region, NULL), "there is no device");
  assert_fails(tvmrt_region_offer(NULL, found("left")), "there is no region");
  assert_fails(tvmrt_region_offer(plan->region(plan, 3), found("queue")),
               "two inputs are too many.");
  return 0;
}

static tvmrt_device* queue_for_two(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                                   const tvmrt_region* region) {
  (void)scheduler;
  (void)plan;
  (void)region;
  return step < 2 ? found("queue") : NULL;
}

static void test_events_report_end_of_steps(void** unused) {
  static const tvmrt_scheduler events = {.struct_bytes = sizeof(events),
                                         .name = "events",
                                         .pre_run = offers,
                                         .run = with_events,
                                         .choose = queue_for_two};
  TVMModuleHandle executor;
  int64_t ended;
  (void)unused;
  assert_ok(tvmrt_scheduler_register(&events));
  executor = make_with_scheduler("events");
  set_x(executor, 1); /* left1 and right1: 101, left2: 102, join: 204 */
  for (events_mode = 0; events_mode < 3; events_mode += 2) {
    atomic_store(&max_running_at_once, 0);
    atomic_store(&is_stuck, events_mode == 2);
    assert_ok(call_with_text(executor, "run", NULL));
    assert_float_equal(get_y(executor), 204, 0);
    assert_int_equal(atomic_load(&max_running_at_once), 2); /* of one thread */
  }
  events_mode = 1;
  assert_fails(call_with_text(executor, "run", NULL), "it did not wait for step 'right1'");
  assert_int_equal(atomic_load(&under_way), 0);
  events_mode = 0;
  assert_ok(
      call_with_text(executor, "run_async", NULL)); /* it has no wait: done when this returns */
  assert_ok(wait_ms(executor, 0, &ended));
  assert_int_equal(ended, 1);
  TVMModFree(executor);
}

/* A scheduler built before `choose` existed: memory past the end of its struct is not read. */
static void test_scheduler_of_the_first_version_is_taken(void** unused) {
  tvmrt_scheduler first = {.name = "first_version", .run = same_order};
  TVMModuleHandle executor;
  (void)unused;
  first.struct_bytes = offsetof(tvmrt_scheduler, choose);
  memset(&first.choose, 0xff, sizeof(first.choose));
  assert_ok(tvmrt_scheduler_register(&first));
  executor = make_with_scheduler("first_version");
  set_x(executor, 1);
  assert_ok(call_with_text(executor, "run", NULL));
  assert_float_equal(get_y(executor), 6, 0);
  TVMModFree(executor);
}

static void test_the_cpu_is_a_device(void** unused) {
  (void)unused;
  assert_string_equal(found("cpu")->name, "cpu");
  assert_fails(tvmrt_device_register(&(tvmrt_device){
                   .struct_bytes = sizeof(tvmrt_device), .name = "cpu", .interface = &async_slots}),
               "there is a device 'cpu' already");
}

static int set_up_all(void** state) { return set_up(state) != 0 || tvmrt_device_register(&queue); }

static int tear_down_all(void** state) {
  return tear_down(state) != 0 || tvmrt_device_unregister("queue") != 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_device_is_chosen_by_the_tensors_of_a_call),
      TEST(test_refused_region_fails_its_step),
      TEST(test_events_report_end_of_steps),
      TEST(test_scheduler_of_the_first_version_is_taken),
      TEST(test_the_cpu_is_a_device),
  };
  return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
