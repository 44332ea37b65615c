/* An executor runs one call at a time; concurrent and recursive calls are errors. */
#include <pthread.h>
#include <stdatomic.h>

#include "executor_calls.h"

/* Results of a network's function that uses the executor running it, as another thread would. */
static int use_executor(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                        void* resource) {
  TVMModuleHandle ex = resource;
  static const char* const functions[] = {"run",  "get_output_info", "get_input_info", "profile",
                                          "wait", "run_async"};
  DLTensor* t = args[0].v_handle;
  (void)codes, (void)num_args, (void)ret;
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
    call c = {0};
    assert_fails(call_module(&c, ex, functions[i]),
                 "another call of this executor has not finished");
    assert_non_null(strstr(TVMGetLastError(), functions[i]));
  }
  assert_fails(set(ex, "set_input", "x", t, kTVMDLTensorHandle), "has not finished");
  assert_fails(set(ex, "set_input_zero_copy", "x", t, kTVMDLTensorHandle), "has not finished");
  assert_fails(set(ex, "set_output_zero_copy", "y:0", t, kTVMDLTensorHandle), "has not finished");
  assert_fails(set_at(ex, "get_output", 0, t, kTVMDLTensorHandle), "has not finished");
  assert_int_equal(call_int(ex, "get_num_outputs"), 2); /* that never changes */
  assert_int_equal(index_of(ex, "get_input_index", "x:1"), 1);
  return 0;
}

static void test_executor_serves_one_call_at_a_time(void** state) {
  TVMModuleHandle library = load("FIXTURE_PLAIN");
  TVMModuleHandle ex = make_duplicate_names(library, "");
  (void)state;
  register_callee(use_executor, ex);
  assert_ok(run(ex));
  set_scalar(ex, "x", 1); /* and it is free again */
  TVMModFree(ex);
  TVMModFree(library);
}

typedef struct concurrent_calls {
  TVMModuleHandle executor;
  pthread_barrier_t both;
  atomic_int done;
  atomic_int refused;
} concurrent_calls;

static void* run_often(void* argument) {
  concurrent_calls* r = argument;
  (void)pthread_barrier_wait(&r->both);
  for (int i = 0; i < 2000; ++i) {
    if (run(r->executor) == 0) {
      atomic_fetch_add(&r->done, 1);
    } else if (strstr(TVMGetLastError(), "use one executor per thread") != NULL) {
      atomic_fetch_add(&r->refused, 1);
    }
  }
  return NULL;
}

/* With two threads, each run is complete or refused. */
static void test_concurrent_runs_are_refused(void** state) {
  TVMModuleHandle factory = load(*state);
  concurrent_calls r = {.executor = make_executor(factory)};
  pthread_t other;
  assert_int_equal(pthread_barrier_init(&r.both, NULL, 2), 0);
  assert_int_equal(pthread_create(&other, NULL, run_often, &r), 0);
  (void)run_often(&r);
  assert_int_equal(pthread_join(other, NULL), 0);
  assert_int_equal(atomic_load(&r.done) + atomic_load(&r.refused), 4000);
  assert_true(atomic_load(&r.done) > 0);
  (void)pthread_barrier_destroy(&r.both);
  assert_ok(run(r.executor));
  TVMModFree(r.executor);
  TVMModFree(factory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_executor_serves_one_call_at_a_time),
      cmocka_unit_test_prestate(test_concurrent_runs_are_refused, (char[]){"FIXTURE_GRAPH"}),
      cmocka_unit_test_prestate(test_concurrent_runs_are_refused, (char[]){"FIXTURE_AOT"}),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
