/* The schedulers sync and async of graph executors, and those of users and devices. */
#include "slow_devices.h"

static void check_runs(TVMModuleHandle executor) {
  for (int i = 0; i < 5; ++i) {
    set_x(executor, (float)i);
    assert_ok(call_with_text(executor, "run", NULL));
    assert_float_equal(get_y(executor), (float)(2 * i + 4), 0);
  }
}

static TVMModuleHandle make_with_scheduler(const char* scheduler) {
  TVMModuleHandle executor = make_executor(with_after);
  assert_ok(call_with_text(executor, "set_scheduler", scheduler));
  return executor;
}

static void check_order(TVMModuleHandle executor, const char* expected) {
  char order[16];
  atomic_store(&max_running, 0);
  num_ran = 0;
  check_runs(executor);
  (void)snprintf(order, sizeof(order), "%s %s %s %s", ran[0], ran[1], ran[2], ran[3]);
  assert_string_equal(order, expected);
  assert_int_equal(atomic_load(&max_running), 1);
}

static void test_without_scheduler_steps_run_in_order(void** unused) {
  TVMModuleHandle executor = make_executor(without_after);
  (void)unused;
  check_order(executor, "l1 r1 l2 l3");
  assert_ok(call_with_text(executor, "set_scheduler", "async")); /* with no order in the graph */
  check_order(executor, "l1 r1 l2 l3");
  TVMModFree(executor);
  executor = make_with_scheduler("sync");
  check_order(executor, "l1 r1 l2 l3");
  TVMModFree(executor);
}

static void test_async_overlaps_devices_and_executors(void** unused) {
  TVMModuleHandle executors[4];
  int64_t ended;
  (void)unused;
  for (int i = 0; i < 4; ++i) executors[i] = make_executor(with_after); /* which asks for async */
  atomic_store(&max_running, 0);
  atomic_store(&min_concurrent, 2);
  check_runs(executors[0]);
  for (int repeat = 0; repeat < 10; ++repeat) {
    for (int i = 0; i < 4; ++i) {
      set_x(executors[i], (float)(i + repeat));
      assert_ok(call_with_text(executors[i], "run_async", NULL));
    }
    for (int i = 0; i < 4; ++i) {
      assert_ok(wait_ms(executors[i], -1, &ended));
      assert_float_equal(get_y(executors[i]), (float)(2 * (i + repeat) + 4), 0);
    }
  }
  assert_int_equal(atomic_load(&max_running), 2);
  for (int i = 0; i < 4; ++i) TVMModFree(executors[i]);
}

static void test_bad_dependencies_are_refused(void** unused) {
  static const char* const texts[] = {"[4]", "[9]", "[-1]", "[0]", "1", "[1"};
  TVMModuleHandle executor;
  (void)unused;
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
    const char* attrs[4] = {"", "", "", NULL};
    char text[64];
    (void)snprintf(text, sizeof(text), ", \"after\": \"%s\"", texts[i]);
    attrs[3] = text;
    assert_fails(make(attrs, &executor), i < 4 ? "is not an operator before it" : "damaged");
  }
}

static void test_wait_times_out_and_continues(void** unused) {
  static const char* const busy[] = {"run", "run_async", "profile"};
  TVMModuleHandle executor = make_executor(with_after);
  int64_t ended;
  (void)unused;
  set_x(executor, 3);
  atomic_store(&blocked, 1);
  assert_ok(call_with_text(executor, "run_async", NULL));
  assert_ok(wait_ms(executor, 1, &ended));
  assert_int_equal(ended, 0);
  for (int i = 0; i < 3; ++i) {
    assert_fails(call_with_text(executor, busy[i], NULL), "a run is in progress");
  }
  atomic_store(&blocked, 0);
  for (int i = 0; i < 2; ++i) { /* the second one has nothing to wait for */
    assert_ok(wait_ms(executor, -1, &ended));
    assert_int_equal(ended, 1);
    assert_float_equal(get_y(executor), 10, 0);
  }
  TVMModFree(executor);
}

static void test_freed_executor_ends_its_run(void** unused) {
  TVMModuleHandle executor = make_executor(with_after);
  (void)unused;
  num_ran = 0;
  atomic_store(&pause_us, 10000);
  assert_ok(call_with_text(executor, "run_async", NULL));
  TVMModFree(executor);
  assert_in_range(num_ran, 0, 2);
  assert_int_equal(atomic_load(&running), 0);
}

/* Runs the step "left1" after those of the other branch; counts its calls. */
static int counts[3];

static int late_pre_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  ++((int*)scheduler->privacy)[0];
  plan->privacy = counts;
  return 0;
}

static int late_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  static const int32_t order[] = {1, 2, 0, 3};
  (void)scheduler;
  ++((int*)plan->privacy)[1];
  assert_int_equal(plan->steps[3].num_after, 2);
  assert_int_equal(plan->steps[3].after[1], 2);
  for (int i = 0; i < 4; ++i) {
    if (plan->is_cancelled(plan) || plan->run_step(plan, order[i]) != 0) return -1;
  }
  return 0;
}

static void late_post_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  ++((int*)plan->privacy)[2];
}

/* Of the header's first version: `choose` is memory past the end of the struct. */
static tvmrt_scheduler late = {.struct_bytes = offsetof(tvmrt_scheduler, choose),
                               .name = "late",
                               .pre_run = late_pre_run,
                               .run = late_run,
                               .post_run = late_post_run,
                               .privacy = counts};

static void test_users_register_schedulers(void** unused) {
  TVMModuleHandle executor;
  int64_t ended;
  (void)unused;
  memset(&late.choose, 0xff, sizeof(late.choose));
  assert_ok(tvmrt_scheduler_register(&late));
  assert_fails(tvmrt_scheduler_register(&late), "there is a scheduler 'late' already");
  executor = make_with_scheduler("late");
  check_order(executor, "r1 l2 l1 l3");
  assert_ok(call_with_text(executor, "run_async", NULL)); /* no slot `wait`: it has ended */
  assert_ok(wait_ms(executor, 0, &ended));
  assert_int_equal(ended, 1);
  atomic_store(&failing, 'r');
  for (int i = 0; i < 2; ++i) {
    assert_fails(call_with_text(executor, "run", NULL),
                 "device 'right': run of region 'r1' failed: it fell asleep.");
    assert_ok(call_with_text(executor, "set_scheduler", "async"));
  }
  atomic_store(&failing, 0);
  check_runs(executor);
  TVMModFree(executor);
  assert_true(counts[0] == 1 && counts[1] == 7 && counts[2] == 1);
}

static void test_device_provides_its_scheduler(void** unused) {
  static const tvmrt_device own = {
      .struct_bytes = sizeof(own), .name = "own", .interface = &slots, .scheduler = &late};
  static const char* const attrs[4] = {", \"device\": \"own\"", "", "", ", \"after\": \"[1, 3]\""};
  TVMModuleHandle executor;
  (void)unused;
  assert_ok(tvmrt_device_register(&own));
  executor = make_executor(attrs);
  check_order(executor, "r1 l2 l1 l3");
  TVMModFree(executor);
  assert_ok(tvmrt_device_unregister("own"));
}

static int refuse_plan(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler, (void)plan;
  TVMPackedFuncSetLastError("no time.");
  return -1;
}

static void test_bad_schedulers_are_refused(void** unused) {
  tvmrt_scheduler bad = {.struct_bytes = 4, .name = "bad", .run = refuse_plan};
  TVMModuleHandle executor = make_executor(with_after);
  (void)unused;
  assert_fails(tvmrt_scheduler_register(&bad), "struct_bytes");
  bad.struct_bytes = sizeof(bad);
  assert_ok(tvmrt_scheduler_register(&bad));
  assert_ok(call_with_text(executor, "set_scheduler", "bad"));
  assert_fails(call_with_text(executor, "run", NULL), "scheduler 'bad': the run failed: no time.");
  bad.name = "worse";
  bad.pre_run = refuse_plan;
  assert_ok(tvmrt_scheduler_register(&bad));
  assert_fails(call_with_text(executor, "set_scheduler", "worse"), "pre_run failed: no time.");
  assert_fails(call_with_text(executor, "run", NULL), "no scheduler is set");
  assert_fails(call_with_text(executor, "set_scheduler", "good"), "there is no scheduler 'good'");
  TVMModFree(executor);
}

/* Negative values on the CPU, large ones on the device "right". */
static tvmrt_device* by_value(const tvmrt_scheduler* scheduler, tvmrt_plan* plan, int32_t step,
                              const tvmrt_region* region) {
  const DLTensor* x = region->data[region->inputs[0]];
  const float value = *(const float*)x->data;
  tvmrt_device* device = NULL;
  (void)scheduler, (void)plan, (void)step;
  assert_true(x->ndim == 1 && x->shape[0] == 1);
  if (value > 10) assert_ok(tvmrt_device_find("right", &device));
  if (value < 0) assert_ok(tvmrt_device_find("cpu", &device));
  return device;
}

static void test_refused_region_fails_its_step(void** unused) {
  tvmrt_scheduler chooser = late;
  TVMModuleHandle executor;
  (void)unused;
  chooser.struct_bytes = sizeof(chooser);
  chooser.name = "by_value";
  chooser.choose = by_value;
  assert_ok(tvmrt_scheduler_register(&chooser));
  executor = make_with_scheduler("by_value");
  check_runs(executor);
  set_x(executor, -2);
  assert_fails(call_with_text(executor, "run", NULL), "region 'r1' has no code for the CPU");
  set_x(executor, 20); /* r1 is of the chosen device */
  assert_fails(call_with_text(executor, "run", NULL),
               "chose device 'right' for region 'l2', which was compiled for 'left'");
  TVMModFree(executor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_without_scheduler_steps_run_in_order),
      TEST(test_async_overlaps_devices_and_executors),
      TEST(test_bad_dependencies_are_refused),
      TEST(test_wait_times_out_and_continues),
      TEST(test_freed_executor_ends_its_run),
      TEST(test_users_register_schedulers),
      TEST(test_device_provides_its_scheduler),
      TEST(test_bad_schedulers_are_refused),
      TEST(test_refused_region_fails_its_step),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
