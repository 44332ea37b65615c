/* Schedulers of graph executors: order, overlap, failures, time-outs, cancelling, own schedulers. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <tvm/runtime/device.h>

#include "support.h"

/* Two devices that add 1 to the sum of their inputs and take a while for it. */
static atomic_int running;
static atomic_int most_running;
static atomic_int runs;
static atomic_int pause_us = 2000;
static atomic_int failing; /* the device whose runs fail: 'l', 'r', or 0 */

static void rest(int microseconds) {
  const struct timespec t = {microseconds / 1000000, microseconds % 1000000 * 1000L};
  (void)nanosleep(&t, NULL);
}

static int sleeper_run(tvmrt_device* device, tvmrt_region* region) {
  float* y = tvmrt_region_data(region, region->outputs[0]);
  const int now = atomic_fetch_add(&running, 1) + 1;
  int most = atomic_load(&most_running);
  float sum = 1;
  while (now > most && !atomic_compare_exchange_weak(&most_running, &most, now)) {
  }
  rest(atomic_load(&pause_us));
  for (int32_t i = 0; i < region->num_inputs; ++i) {
    sum += *(const float*)tvmrt_region_data(region, region->inputs[i]);
  }
  *y = sum;
  atomic_fetch_sub(&running, 1);
  atomic_fetch_add(&runs, 1);
  if (device->name[0] != atomic_load(&failing)) return 0;
  TVMPackedFuncSetLastError("it fell asleep.");
  return -1;
}

static const tvmrt_device_interface slots = {.run = sleeper_run};

#define TENSOR "{\"name\": \"t\", \"dtype\": \"float32\", \"shape\": [1]}"
#define ONE_INPUT(symbol)                                          \
  "{\"symbol\": \"" symbol "\", \"tensors\": [" TENSOR ", " TENSOR \
  "], \"nodes\": ["                                                \
  "{\"op\": \"inc\", \"inputs\": [0], \"outputs\": [1]}], \"inputs\": [0], \"outputs\": [1]}"
#define TWO_INPUTS(symbol)                                                     \
  "{\"symbol\": \"" symbol "\", \"tensors\": [" TENSOR ", " TENSOR ", " TENSOR \
  "], "                                                                        \
  "\"nodes\": [{\"op\": \"inc\", \"inputs\": [0, 1], \"outputs\": [2]}], "     \
  "\"inputs\": [0, 1], \"outputs\": [2]}"

static TVMModuleHandle load_regions(const char* device, const char* regions) {
  char text[2048];
  call c = {0};
  TVMByteArray none = {"", 0};
  (void)snprintf(text, sizeof(text),
                 "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"%s\", "
                 "\"regions\": [%s]}",
                 device, regions);
  arg_str(&c, text);
  arg_handle(&c, kTVMBytes, &none);
  assert_ok(call_global(&c, "tvmrt.device.load_regions"));
  return c.ret.v_handle;
}

/* x -> left1 ----------> join -> y        left1, left2, join on "left", right1 on "right"
 *  \-> right1 -> left2 -/                                                              */
static const char* const with_after[4] = {
    ", \"device\": \"left\", \"after\": \"[]\"", ", \"device\": \"right\", \"after\": \"[]\"",
    ", \"device\": \"left\", \"after\": \"[2]\"", ", \"device\": \"left\", \"after\": \"[1, 3]\""};
static const char* const without_after[4] = {", \"device\": \"left\"", ", \"device\": \"right\"",
                                             ", \"device\": \"left\"", ", \"device\": \"left\""};

static void write_graph(char* text, size_t size, const char* const* attrs) {
  (void)snprintf(
      text, size,
      "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
      "{\"op\": \"tvm_op\", \"name\": \"left1\", \"inputs\": [[0, 0, 0]], \"attrs\": "
      "{\"func_name\":"
      " \"l1\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\"%s}},"
      "{\"op\": \"tvm_op\", \"name\": \"right1\", \"inputs\": [[0, 0, 0]], \"attrs\": "
      "{\"func_name\":"
      " \"r1\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\"%s}},"
      "{\"op\": \"tvm_op\", \"name\": \"left2\", \"inputs\": [[2, 0, 0]], \"attrs\": "
      "{\"func_name\":"
      " \"l2\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\"%s}},"
      "{\"op\": \"tvm_op\", \"name\": \"join\", \"inputs\": [[1, 0, 0], [3, 0, 0]], \"attrs\": "
      "{\"func_name\": \"l3\", \"num_inputs\": \"2\", \"num_outputs\": \"1\", \"flatten_data\": "
      "\"0\"%s}}],"
      "\"arg_nodes\": [0], \"heads\": [[4, 0, 0]], \"attrs\": {\"dltype\": [\"list_str\", "
      "[\"float32\", \"float32\", \"float32\", \"float32\", \"float32\"]], \"storage_id\": "
      "[\"list_int\", [0, 1, 2, 3, 4]], \"shape\": [\"list_shape\", [[1], [1], [1], [1], [1]]]}, "
      "\"node_row_ptr\": [0, 1, 2, 3, 4, 5]}",
      attrs[0], attrs[1], attrs[2], attrs[3]);
}

static TVMModuleHandle library;

static int make(const char* const* attrs, TVMModuleHandle* out) {
  char text[4096];
  call c = {0};
  int rc;
  write_graph(text, sizeof(text), attrs);
  arg_str(&c, text);
  arg_handle(&c, kTVMModuleHandle, library);
  arg_int(&c, kDLCPU);
  arg_int(&c, 0);
  rc = call_global(&c, "tvm.graph_executor.create");
  *out = rc == 0 ? c.ret.v_handle : NULL;
  return rc;
}

static TVMModuleHandle made(const char* const* attrs) {
  TVMModuleHandle executor;
  assert_ok(make(attrs, &executor));
  return executor;
}

static int say(TVMModuleHandle executor, const char* function, const char* argument) {
  call c = {0};
  if (argument != NULL) arg_str(&c, argument);
  return call_module(&c, executor, function);
}

static int wait_ms(TVMModuleHandle executor, int64_t ms, int64_t* ended) {
  call c = {0};
  int rc;
  arg_int(&c, ms);
  rc = call_module(&c, executor, "wait");
  *ended = rc == 0 ? c.ret.v_int64 : -1;
  return rc;
}

static void set_x(TVMModuleHandle executor, float value) {
  const int64_t shape = 1;
  DLTensor* x = make_tensor(1, &shape, &value);
  call c = {0};
  arg_int(&c, 0);
  arg_handle(&c, kTVMNDArrayHandle, x);
  assert_ok(call_module(&c, executor, "set_input"));
  TVMArrayFree(x);
}

static float get_y(TVMModuleHandle executor) {
  call c = {0};
  float y;
  arg_int(&c, 0);
  assert_ok(call_module(&c, executor, "get_output"));
  y = *(const float*)((const DLTensor*)c.ret.v_handle)->data;
  TVMArrayFree(c.ret.v_handle);
  return y;
}

static void assert_trace(TVMModuleHandle executor, const char* expected) {
  call c = {0};
  assert_ok(call_module(&c, executor, "get_trace"));
  assert_string_equal(c.ret.v_str, expected);
}

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
    assert_ok(say(executor, "run", NULL));
    assert_float_equal(get_y(executor), (float)(2 * i + 4), 0);
    assert_trace(executor, expected);
  }
}

static void test_without_scheduler_steps_run_in_order(void** unused) {
  TVMModuleHandle executor = made(without_after);
  (void)unused;
  set_x(executor, 1);
  atomic_store(&most_running, 0);
  assert_ok(say(executor, "run", NULL));
  assert_float_equal(get_y(executor), 6, 0);
  assert_int_equal(atomic_load(&most_running), 1);
  assert_fails(say(executor, "get_trace", NULL), "choose a scheduler");
  TVMModFree(executor);
}

static void test_sync_runs_in_order(void** unused) {
  TVMModuleHandle executor = made(with_after);
  (void)unused;
  assert_ok(say(executor, "set_scheduler", "sync"));
  atomic_store(&most_running, 0);
  check_runs(executor, "sync");
  assert_int_equal(atomic_load(&most_running), 1);
  TVMModFree(executor);
}

static void test_async_overlaps_devices_and_traces_alike(void** unused) {
  TVMModuleHandle executor = made(with_after);
  (void)unused;
  atomic_store(&most_running, 0);
  check_runs(executor, "async"); /* which graphs with "after" ask for */
  assert_int_equal(atomic_load(&most_running), 2);
  TVMModFree(executor);
}

static void test_dependencies_follow_from_storages(void** unused) {
  TVMModuleHandle executor = made(without_after);
  (void)unused;
  assert_ok(say(executor, "set_scheduler", "async"));
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
    assert_fails(make(attrs, &executor), i < 3 ? "does not come before" : "damaged");
  }
}

static void test_wait_times_out_and_goes_on(void** unused) {
  TVMModuleHandle executor = made(with_after);
  int64_t ended;
  (void)unused;
  set_x(executor, 3);
  atomic_store(&pause_us, 30000);
  assert_ok(say(executor, "run_async", NULL));
  assert_ok(wait_ms(executor, 1, &ended));
  assert_int_equal(ended, 0);
  assert_fails(say(executor, "run", NULL), "a run is under way");
  assert_fails(say(executor, "run_async", NULL), "a run is under way");
  assert_fails(say(executor, "profile", NULL), "a run is under way");
  assert_fails(say(executor, "execute_node", "join"), "a run is under way");
  assert_ok(wait_ms(executor, -1, &ended));
  assert_int_equal(ended, 1);
  assert_float_equal(get_y(executor), 10, 0);
  assert_ok(wait_ms(executor, 0, &ended)); /* nothing is under way */
  assert_int_equal(ended, 1);
  TVMModFree(executor);
}

static void test_cancelled_run_ends_early(void** unused) {
  TVMModuleHandle executor = made(with_after);
  int64_t ended;
  (void)unused;
  atomic_store(&pause_us, 20000);
  atomic_store(&runs, 0);
  assert_ok(say(executor, "run_async", NULL));
  assert_ok(say(executor, "cancel", NULL));
  assert_fails(wait_ms(executor, -1, &ended), "CancelledError");
  assert_in_range(atomic_load(&runs), 0, 2);
  assert_int_equal(atomic_load(&running), 0);
  atomic_store(&pause_us, 100);
  check_runs(executor, "async");
  TVMModFree(executor);
}

static void test_failing_step_stops_the_run(void** unused) {
  TVMModuleHandle executor = made(with_after);
  (void)unused;
  atomic_store(&failing, 'r');
  for (int i = 0; i < 2; ++i) {
    assert_fails(say(executor, "run", NULL),
                 "device 'right': run of region 'r1' failed: it fell asleep.");
  }
  atomic_store(&failing, 0);
  check_runs(executor, "async");
  TVMModFree(executor);
}

static void test_executor_that_is_freed_waits_for_its_run(void** unused) {
  TVMModuleHandle executor = made(with_after);
  (void)unused;
  atomic_store(&pause_us, 10000);
  assert_ok(say(executor, "run_async", NULL));
  rest(3000);
  TVMModFree(executor);
  assert_int_equal(atomic_load(&running), 0);
}

static void test_executors_are_in_flight_together(void** unused) {
  TVMModuleHandle executors[4];
  int64_t ended;
  (void)unused;
  for (int i = 0; i < 4; ++i) executors[i] = made(with_after);
  for (int repeat = 0; repeat < 10; ++repeat) {
    for (int i = 0; i < 4; ++i) {
      set_x(executors[i], (float)(i + repeat));
      assert_ok(say(executors[i], "run_async", NULL));
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
    if (say(executor, "run", NULL) != 0) return executor;
  }
  return NULL;
}

static void test_executors_of_several_threads(void** unused) {
  pthread_t threads[3];
  TVMModuleHandle executors[3];
  void* failed;
  (void)unused;
  for (int i = 0; i < 3; ++i) {
    executors[i] = made(with_after);
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, executors[i]), 0);
  }
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
    TVMModFree(executors[i]);
  }
}

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

static void test_users_bring_schedulers(void** unused) {
  TVMModuleHandle executor = made(with_after);
  int64_t ended;
  (void)unused;
  assert_ok(tvmrt_scheduler_register(&backwards));
  assert_fails(tvmrt_scheduler_register(&backwards), "there is a scheduler 'backwards' already");
  assert_ok(say(executor, "set_scheduler", "backwards"));
  set_x(executor, 5);
  assert_ok(say(executor, "run", NULL));
  assert_float_equal(get_y(executor), 14, 0);
  assert_trace(
      executor,
      "{\"scheduler\": \"backwards\", \"steps\": ["
      "{\"step\": 0, \"name\": \"left1\", \"device\": \"left\", \"position\": 1, \"after\": "
      "[]}, {\"step\": 1, \"name\": \"right1\", \"device\": \"right\", \"position\": 0, "
      "\"after\": []}, {\"step\": 2, \"name\": \"left2\", \"device\": \"left\", "
      "\"position\": 0, \"after\": [1]}, {\"step\": 3, \"name\": \"join\", \"device\": "
      "\"left\", \"position\": 2, \"after\": [0, 2]}]}");
  assert_ok(say(executor, "run_async", NULL)); /* it has no wait: done when this returns */
  assert_ok(wait_ms(executor, 0, &ended));
  assert_int_equal(ended, 1);
  atomic_store(&failing, 'l');
  assert_fails(say(executor, "run", NULL), "it fell asleep");
  atomic_store(&failing, 0);
  assert_ok(say(executor, "set_scheduler", "async"));
  TVMModFree(executor);
  assert_int_equal(backwards_calls[0], 1);
  assert_int_equal(backwards_calls[1], 3);
  assert_int_equal(backwards_calls[2], 1);
}

static void test_incomplete_schedulers_are_refused(void** unused) {
  tvmrt_scheduler incomplete = backwards;
  TVMModuleHandle executor = made(with_after);
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
  assert_fails(say(executor, "set_scheduler", "later"), "there is no scheduler 'later'");
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
  TVMModuleHandle executor = made(with_after);
  (void)unused;
  assert_ok(tvmrt_scheduler_register(&busy));
  assert_ok(tvmrt_scheduler_register(&late));
  assert_fails(say(executor, "set_scheduler", "busy"),
               "scheduler 'busy': pre_run failed: no time.");
  assert_fails(say(executor, "run", NULL), "choose a scheduler");
  assert_ok(say(executor, "set_scheduler", "late"));
  assert_fails(say(executor, "run", NULL), "scheduler 'late': the run failed: no time.");
  TVMModFree(executor);
}

static void test_device_brings_its_scheduler(void** unused) {
  static const tvmrt_device own = {
      .struct_bytes = sizeof(own), .name = "own", .interface = &slots, .scheduler = &backwards};
  static const char* const attrs[4] = {", \"device\": \"own\"", "", "", ""};
  TVMModuleHandle executor;
  (void)unused;
  assert_ok(tvmrt_device_register(&own));
  executor = made(attrs);
  memset(backwards_calls, 0, sizeof(backwards_calls));
  assert_ok(say(executor, "run", NULL));
  assert_int_equal(backwards_calls[1], 1);
  TVMModFree(executor);
  assert_ok(tvmrt_device_unregister("own"));
}

static int set_up(void** unused) {
  static const tvmrt_device left = {
      .struct_bytes = sizeof(left), .name = "left", .interface = &slots};
  static const tvmrt_device right = {
      .struct_bytes = sizeof(right), .name = "right", .interface = &slots};
  TVMModuleHandle rights;
  (void)unused;
  assert_ok(tvmrt_device_register(&left));
  assert_ok(tvmrt_device_register(&right));
  library = load_regions("left", ONE_INPUT("l1") ", " ONE_INPUT("l2") ", " TWO_INPUTS("l3"));
  rights = load_regions("right", ONE_INPUT("r1"));
  assert_ok(TVMModImport(library, rights));
  TVMModFree(rights);
  return 0;
}

static int tear_down(void** unused) {
  (void)unused;
  TVMModFree(library);
  return tvmrt_device_unregister("left") != 0 || tvmrt_device_unregister("right") != 0;
}

static int set_pause(void** unused) {
  (void)unused;
  atomic_store(&pause_us, 2000);
  return 0;
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup(test, set_pause)
  const struct CMUnitTest tests[] = {
      TEST(test_without_scheduler_steps_run_in_order),
      TEST(test_sync_runs_in_order),
      TEST(test_async_overlaps_devices_and_traces_alike),
      TEST(test_dependencies_follow_from_storages),
      TEST(test_bad_dependencies_are_refused),
      TEST(test_wait_times_out_and_goes_on),
      TEST(test_cancelled_run_ends_early),
      TEST(test_failing_step_stops_the_run),
      TEST(test_executor_that_is_freed_waits_for_its_run),
      TEST(test_executors_are_in_flight_together),
      TEST(test_executors_of_several_threads),
      TEST(test_users_bring_schedulers),
      TEST(test_incomplete_schedulers_are_refused),
      TEST(test_failing_scheduler_is_named),
      TEST(test_device_brings_its_scheduler),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
