/* Make every allocation of runs that plan their memory fail once: an error, no crash, no leak, and
 * the executor stays usable. */
#include "allocation_faults.h"

enum { MOST = 2000 };
static TVMModuleHandle planned_library;
static TVMModuleHandle planned;

/* An output of the last run; the caller frees it. */
static DLTensor* output_of(TVMModuleHandle executor, int number) {
  call get = {0};
  arg_int(&get, number);
  assert_ok(call_module(&get, executor, "get_output"));
  return get.ret.v_handle;
}

/* The first output of an earlier run, which no run may change, and its extent. */
static DLTensor* kept;
static int64_t kept_extent;

static void check_kept(void) {
  if (kept == NULL) return;
  assert_int_equal(kept->shape[0], kept_extent);
  for (int64_t i = 0; i < kept_extent; ++i) {
    assert_true(((float*)kept->data)[i] == (i < kept_extent / 2 ? 2 : -4));
  }
}

/* Keep the result of the last run instead. */
static int keep_output(int64_t n) {
  call take = {0};
  int rc;
  arg_int(&take, 0);
  rc = call_module(&take, planned, "take_output");
  if (rc != 0) return rc;
  if (kept != NULL) TVMArrayFree(kept);
  kept = take.ret.v_handle;
  kept_extent = n;
  return 0;
}

/* One half of the inputs is 1, the other -2. */
static void check_outputs(int64_t n) {
  DLTensor* outputs[3];
  for (int i = 0; i < 3; ++i) outputs[i] = output_of(planned, i);
  assert_int_equal(outputs[0]->shape[0], n);
  assert_int_equal(outputs[1]->shape[0], n / 2);
  assert_int_equal(outputs[2]->shape[0], n / 2);
  for (int64_t i = 0; i < n; ++i) {
    assert_true(((float*)outputs[0]->data)[i] == (i < n / 2 ? 2 : -4));
  }
  for (int64_t i = 0; i < n / 2; ++i) {
    assert_true(((float*)outputs[1]->data)[i] == 1);
    assert_int_equal(((int32_t*)outputs[2]->data)[i], i);
  }
  for (int i = 0; i < 3; ++i) TVMArrayFree(outputs[i]);
}

static int run_planned(int64_t n) {
  static float values[MOST];
  DLTensor x = {values, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &n, NULL, 0};
  call set = {0}, run = {0};
  int rc;
  for (int64_t i = 0; i < n; ++i) values[i] = i < n / 2 ? 1 : -2;
  arg_int(&set, 0);
  arg_handle(&set, kTVMDLTensorHandle, &x);
  rc = call_module(&set, planned, "set_input");
  if (rc == 0) rc = call_module(&run, planned, "run");
  if (rc == 0) {
    const long left = allowed;
    allowed = -1; /* only calls of the run fail */
    check_outputs(n);
    check_kept();
    allowed = left;
  }
  return rc;
}

/* Each second result is kept; runs of equal sizes then need other memory, too. */
static int run_and_keep(void) {
  static const int64_t sizes[] = {20, 20, 20, 300, 300, 10, 2000};
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    rc = run_planned(sizes[i]);
    if (rc == 0 && i % 2 == 0) rc = keep_output(sizes[i]);
  }
  return rc;
}

/* One executor for all runs; its memory grows and shrinks in each of the three phases. */
static int run_several_sizes(void) {
  static const int64_t sizes[] = {2, 200, MOST, 500, 20};
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    rc = run_planned(sizes[i]);
  }
  return rc;
}

/* A run that fails in any phase leaves the executor usable. */
static void check_that_small_runs_work(int rc) {
  (void)rc;
  assert_ok(run_planned(6));
}

static int create_planned(void) {
  call create = {0};
  int rc;
  arg_handle(&create, kTVMModuleHandle, planned_library);
  arg_cpu(&create);
  arg_str(&create, "default");
  rc = call_global(&create, "tvm.aot_executor.create");
  if (rc == 0) planned = create.ret.v_handle;
  return rc;
}

static int create_and_run(void) {
  int rc = create_planned();
  if (rc != 0) return rc;
  rc = run_planned(100);
  (void)TVMModFree(planned);
  return rc;
}

static void test_planned_runs_survive_each_failed_allocation(void** state) {
  (void)state;
  assert_ok(TVMModLoadFromFile(fixture("FIXTURE_FOUND"), "so", &planned_library));
  sweep("planned memory: an executor", create_and_run, NULL);
  assert_ok(create_planned());
  sweep("planned memory: runs", run_several_sizes, check_that_small_runs_work);
  sweep("planned memory: results that are kept", run_and_keep, check_that_small_runs_work);
  TVMArrayFree(kept);
  (void)TVMModFree(planned);
  (void)TVMModFree(planned_library);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_planned_runs_survive_each_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
