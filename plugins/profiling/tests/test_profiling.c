/* Reports as objects: values are read back unchanged. */
#include <inttypes.h>

#include "support.h"

/* Values outside the integer range: the nearest, and 0 for NaN. */
static void test_large_counts(void** state) {
  static const struct {
    const char* json;
    int64_t count;
  } kCases[] = {
      {"3.9e180", INT64_MAX},
      {"-3.9e180", INT64_MIN},
      {"9223372036854775808", INT64_MAX},
      {"-9223372036854775809", INT64_MIN},
      {"12.9", 12},
      {"-0.5", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    char text[200];
    char wanted[64];
    call c = {0}, again = {0};
    (void)snprintf(text, sizeof(text), "{\"calls\": [{\"n\": {\"count\": %s}}]}", kCases[i].json);
    (void)snprintf(wanted, sizeof(wanted), "%" PRId64, kCases[i].count);
    arg_str(&c, text);
    assert_ok(call_global(&c, "runtime.profiling.FromJSON"));
    arg_handle(&again, c.ret_code, c.ret.v_handle);
    assert_ok(call_global(&again, "runtime.profiling.AsJSON"));
    assert_non_null(strstr(again.ret.v_str, wanted));
    (void)TVMObjectFree(c.ret.v_handle);
  }
}

static void test_executor_profile_is_a_report(void** state) {
  static const int64_t shape[] = {2, 3};
  DLTensor* input = make_tensor(2, shape, NULL);
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  call create = {0}, set = {0}, profile = {0}, text = {0};
  (void)state;
  memset(input->data, 0, 6 * sizeof(float));
  arg_str(&create, "default");
  arg_cpu(&create);
  assert_ok(call_module(&create, factory, "debug_create"));
  arg_int(&set, 0);
  arg_handle(&set, kTVMNDArrayHandle, input);
  assert_ok(call_module(&set, create.ret.v_handle, "set_input"));
  assert_ok(call_module(&profile, create.ret.v_handle, "profile"));
  arg_handle(&text, profile.ret_code, profile.ret.v_handle);
  assert_ok(call_global(&text, "runtime.profiling.AsCSV"));
  assert_non_null(strstr(text.ret.v_str, "Duration (us)"));
  (void)TVMObjectFree(profile.ret.v_handle);
  (void)TVMModFree(create.ret.v_handle);
  (void)TVMModFree(factory);
  (void)TVMArrayFree(input);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_large_counts),
      cmocka_unit_test(test_executor_profile_is_a_report),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
