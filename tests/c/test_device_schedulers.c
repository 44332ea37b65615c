/* The schedulers sync and async of graph executors: order, overlap, failures, time-outs, cancelling. */
#include <pthread.h>

#include "slow_devices.h"

static const char trace[] =
    "{\"scheduler\": \"%s\", \"steps\": ["
    "{\"step\": 0, \"name\": \"left1\", \"device\": \"left\", \"position\": 0, \"after\": []}, "
    "{\"step\": 1, \"name\": \"right1\", \"device\": \"right\", \"position\": 0, \"after\": []}, "
    "{\"step\": 2, \"name\": \"left2\", \"device\": \"left\", \"position\": 1, \"after\": [1]}, "
    "{\"step\": 3, \"name\": \"join\", \"device\": \"left\", \"position\": 2, \"after\": [0, 2]}]}";

static void check_runs(TVMModuleHandle executor, const char* scheduler) {
  char expected[1024];
  (void)snprintf(expected, sizeof(expected), trace, scheduler);
  for (int i = 0; i < 5; ++i) {
    set_x(executor, (float)i);
    assert_ok(call_with_text(executor, "run", NULL));
    assert_float_equal(get_y(executor), (float)(2 * i + 4), 0);
    assert_trace(executor, expected);
  }
}

static void test_without_scheduler_steps_run_in_order(void** unused) {
  TVMModuleHandle executor = make_executor(without_after);
  (void)unused;
  set_x(executor, 1);
  atomic_store(&max_running, 0);
  assert_ok(call_with_text(executor, "run", NULL));
  assert_float_equal(get_y(executor), 6, 0);
  assert_int_equal(atomic_load(&max_running), 1);
  assert_fails(call_with_text(executor, "get_trace", NULL), "no scheduler is set");
  TVMModFree(executor);
}

static void test_sync_runs_in_order(void** unused) {
  TVMModuleHandle executor = make_executor(with_after);
  (void)unused;
  assert_ok(call_with_text(executor, "set_scheduler", "sync"));
  atomic_store(&max_running, 0);
  check_runs(executor, "sync");
  assert_int_equal(atomic_load(&max_running), 1);
  TVMModFree(executor);
}

static void test_async_overlaps_devices_and_traces_alike(void** unused) {
  TVMModuleHandle executor = make_executor(with_after);
  (void)unused;
  atomic_store(&max_running, 0);
  atomic_store(&min_concurrent, 2);
  check_runs(executor, "async"); /* requested by graphs with "after" */
  assert_int_equal(atomic_load(&max_running), 2);
  TVMModFree(executor);
}

static void test_dependencies_follow_from_storages(void** unused) {
  TVMModuleHandle executor = make_executor(without_after);
  (void)unused;
  assert_ok(call_with_text(executor, "set_scheduler", "async"));
  check_runs(executor, "async");
  TVMModFree(executor);
}

static void test_bad_dependencies_are_refused(void** unused) {
  static const char* const texts[] = {"[4]", "[9]", "[-1]", "1", "[1"};
  TVMModuleHandle executor;
  (void)unused;
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); ++i) {
    const char* attrs[4] = {"", "", "", NULL};
    char text[64];
    (void)snprintf(text, sizeof(text), ", \"after\": \"%s\"", texts[i]);
    attrs[3] = text;
    assert_fails(make(attrs, &executor), i < 3 ? "does not precede" : "damaged");
  }
}

static void test_wait_times_out_and_continues(void** unused) {
  TVMModuleHandle executor = make_executor(with_after);
  int64_t ended;
  (void)unused;
  set_x(executor, 3);
  atomic_store(&blocked, 1);
  assert_ok(call_with_text(executor, "run_async", NULL));
  assert_ok(wait_ms(executor, 1, &ended));
  assert_int_equal(ended, 0);
  assert_fails(call_with_text(executor, "run", NULL), "a run is in progress");
  assert_fails(call_with_text(executor, "run_async", NULL), "a run is in progress");
  assert_fails(call_with_text(executor, "profile", NULL), "a run is in progress");
  assert_fails(call_with_text(executor, "execute_node", "join"), "a run is in progress");
  atomic_store(&blocked, 0);
  assert_ok(wait_ms(executor, -1, &ended));
  assert_int_equal(ended, 1);
  assert_float_equal(get_y(executor), 10, 0);
  assert_ok(wait_ms(executor, 0, &ended)); /* nothing is in progress */
  assert_int_equal(ended, 1);
  TVMModFree(executor);
}

static void test_cancelled_run_ends_early(void** unused) {
  TVMModuleHandle executor = make_executor(with_after);
  int64_t ended;
  (void)unused;
  atomic_store(&blocked, 1);
  atomic_store(&runs, 0);
  assert_ok(call_with_text(executor, "run_async", NULL));
  assert_ok(call_with_text(executor, "cancel", NULL));
  atomic_store(&blocked, 0);
  assert_fails(wait_ms(executor, -1, &ended), "CancelledError");
  assert_in_range(atomic_load(&runs), 0, 2);
  assert_int_equal(atomic_load(&running), 0);
  atomic_store(&pause_us, 100);
  check_runs(executor, "async");
  TVMModFree(executor);
}

static void test_failing_step_stops_the_run(void** unused) {
  TVMModuleHandle executor = make_executor(with_after);
  (void)unused;
  atomic_store(&failing, 'r');
  for (int i = 0; i < 2; ++i) {
    assert_fails(call_with_text(executor, "run", NULL),
                 "device 'right': run of region 'r1' failed: it fell asleep.");
  }
  atomic_store(&failing, 0);
  check_runs(executor, "async");
  TVMModFree(executor);
}

static void test_freeing_an_executor_waits_for_its_run(void** unused) {
  TVMModuleHandle executor = make_executor(with_after);
  (void)unused;
  atomic_store(&pause_us, 10000);
  assert_ok(call_with_text(executor, "run_async", NULL));
  sleep_us(3000);
  TVMModFree(executor);
  assert_int_equal(atomic_load(&running), 0);
}

static void test_executors_are_in_flight_together(void** unused) {
  TVMModuleHandle executors[4];
  int64_t ended;
  (void)unused;
  for (int i = 0; i < 4; ++i) executors[i] = make_executor(with_after);
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
  for (int i = 0; i < 4; ++i) TVMModFree(executors[i]);
}

static void* run_often(void* executor) {
  for (int i = 0; i < 20; ++i) {
    if (call_with_text(executor, "run", NULL) != 0) return executor;
  }
  return NULL;
}

static void test_executors_of_several_threads(void** unused) {
  pthread_t threads[3];
  TVMModuleHandle executors[3];
  void* failed;
  (void)unused;
  for (int i = 0; i < 3; ++i) {
    executors[i] = make_executor(with_after);
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, executors[i]), 0);
  }
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
    TVMModFree(executors[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_without_scheduler_steps_run_in_order),
      TEST(test_sync_runs_in_order),
      TEST(test_async_overlaps_devices_and_traces_alike),
      TEST(test_dependencies_follow_from_storages),
      TEST(test_bad_dependencies_are_refused),
      TEST(test_wait_times_out_and_continues),
      TEST(test_cancelled_run_ends_early),
      TEST(test_failing_step_stops_the_run),
      TEST(test_freeing_an_executor_waits_for_its_run),
      TEST(test_executors_are_in_flight_together),
      TEST(test_executors_of_several_threads),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
