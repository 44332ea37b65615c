/* Custom schedulers of users and devices for graph executors. */
#include "slow_devices.h"

/* A scheduler that runs the last step that may begin: the reverse of the synchronous one. */
static int backwards_calls[3];

static int backwards_pre_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  ++backwards_calls[0];
  plan->privacy = calloc((size_t)plan->num_steps, 1);
  return plan->privacy == NULL ? -1 : 0;
}

static int may_begin(const tvmrt_plan* plan, const char* done, int32_t step) {
  for (int32_t i = 0; i < plan->steps[step].num_after; ++i) {
    if (!done[plan->steps[step].after[i]]) return 0;
  }
  return !done[step];
}

static int backwards_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  char* done = plan->privacy;
  assert_ptr_equal(scheduler->privacy, backwards_calls);
  ++backwards_calls[1];
  memset(done, 0, (size_t)plan->num_steps);
  for (int32_t left = plan->num_steps; left > 0; --left) {
    int32_t step = plan->num_steps - 1;
    while (!may_begin(plan, done, step)) --step;
    if (plan->is_cancelled(plan) || plan->run_step(plan, step) != 0) return -1;
    done[step] = 1;
  }
  return 0;
}

static void backwards_post_run(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  ++backwards_calls[2];
  free(plan->privacy);
}

static tvmrt_scheduler backwards = {
    .struct_bytes = sizeof(backwards),
    .name = "backwards",
    .pre_run = backwards_pre_run,
    .run = backwards_run,
    .post_run = backwards_post_run,
    .privacy = backwards_calls,
};

static void test_users_register_schedulers(void** unused) {
  TVMModuleHandle executor = make_executor(with_after);
  int64_t ended;
  (void)unused;
  assert_ok(tvmrt_scheduler_register(&backwards));
  assert_fails(tvmrt_scheduler_register(&backwards), "there is a scheduler 'backwards' already");
  assert_ok(call_with_text(executor, "set_scheduler", "backwards"));
  set_x(executor, 5);
  assert_ok(call_with_text(executor, "run", NULL));
  assert_float_equal(get_y(executor), 14, 0);
  assert_trace(
      executor,
      "{\"scheduler\": \"backwards\", \"steps\": ["
      "{\"step\": 0, \"name\": \"left1\", \"device\": \"left\", \"position\": 1, \"after\": "
      "[]}, {\"step\": 1, \"name\": \"right1\", \"device\": \"right\", \"position\": 0, "
      "\"after\": []}, {\"step\": 2, \"name\": \"left2\", \"device\": \"left\", "
      "\"position\": 0, \"after\": [1]}, {\"step\": 3, \"name\": \"join\", \"device\": "
      "\"left\", \"position\": 2, \"after\": [0, 2]}]}");
  assert_ok(call_with_text(executor, "run_async",
                           NULL)); /* without a wait function: done when this returns */
  assert_ok(wait_ms(executor, 0, &ended));
  assert_int_equal(ended, 1);
  atomic_store(&failing, 'l');
  assert_fails(call_with_text(executor, "run", NULL), "it fell asleep");
  atomic_store(&failing, 0);
  assert_ok(call_with_text(executor, "set_scheduler", "async"));
  TVMModFree(executor);
  assert_int_equal(backwards_calls[0], 1);
  assert_int_equal(backwards_calls[1], 3);
  assert_int_equal(backwards_calls[2], 1);
}

static void test_incomplete_schedulers_are_refused(void** unused) {
  tvmrt_scheduler incomplete = backwards;
  TVMModuleHandle executor = make_executor(with_after);
  (void)unused;
  incomplete.name = "incomplete";
  incomplete.run = NULL;
  assert_fails(tvmrt_scheduler_register(&incomplete), "the slot 'run'");
  incomplete.run = backwards_run;
  incomplete.struct_bytes = 4;
  assert_fails(tvmrt_scheduler_register(&incomplete), "struct_bytes");
  incomplete.struct_bytes = sizeof(incomplete);
  incomplete.name = "async";
  assert_fails(tvmrt_scheduler_register(&incomplete), "there is a scheduler 'async' already");
  assert_fails(tvmrt_scheduler_register(NULL), "the slot 'run'");
  assert_fails(call_with_text(executor, "set_scheduler", "later"), "there is no scheduler 'later'");
  TVMModFree(executor);
}

static int refuse_plan(const tvmrt_scheduler* scheduler, tvmrt_plan* plan) {
  (void)scheduler;
  (void)plan;
  TVMPackedFuncSetLastError("no time.");
  return -1;
}

static void test_failing_scheduler_is_named(void** unused) {
  static tvmrt_scheduler busy = {
      .struct_bytes = sizeof(busy), .name = "busy", .pre_run = refuse_plan, .run = refuse_plan};
  static tvmrt_scheduler late = {.struct_bytes = sizeof(late), .name = "late", .run = refuse_plan};
  TVMModuleHandle executor = make_executor(with_after);
  (void)unused;
  assert_ok(tvmrt_scheduler_register(&busy));
  assert_ok(tvmrt_scheduler_register(&late));
  assert_fails(call_with_text(executor, "set_scheduler", "busy"),
               "scheduler 'busy': pre_run failed: no time.");
  assert_fails(call_with_text(executor, "run", NULL), "no scheduler is set");
  assert_ok(call_with_text(executor, "set_scheduler", "late"));
  assert_fails(call_with_text(executor, "run", NULL), "scheduler 'late': the run failed: no time.");
  TVMModFree(executor);
}

static void test_device_provides_its_scheduler(void** unused) {
  static const tvmrt_device own = {
      .struct_bytes = sizeof(own), .name = "own", .interface = &slots, .scheduler = &backwards};
  static const char* const attrs[4] = {", \"device\": \"own\"", "", "", ""};
  TVMModuleHandle executor;
  (void)unused;
  assert_ok(tvmrt_device_register(&own));
  executor = make_executor(attrs);
  memset(backwards_calls, 0, sizeof(backwards_calls));
  assert_ok(call_with_text(executor, "run", NULL));
  assert_int_equal(backwards_calls[1], 1);
  TVMModFree(executor);
  assert_ok(tvmrt_device_unregister("own"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_users_register_schedulers),
      TEST(test_incomplete_schedulers_are_refused),
      TEST(test_failing_scheduler_is_named),
      TEST(test_device_provides_its_scheduler),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
