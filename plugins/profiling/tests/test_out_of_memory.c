/* Every allocation of a report fails once: an error each time, no crash, no leak. The plug-in is linked
 * into the program, since allocations of libraries do not fail. */
#include <tvm/runtime/plugin.h>

#include "allocation_faults.h"

extern const tvmrt_plugin tvmrt_plugin_table_profiling;

static int use_report(void) {
  static const char* const writers[] = {"runtime.profiling.AsJSON", "runtime.profiling.AsTable"};
  call read = {0};
  int rc = tvmrt_plugin_enter(&tvmrt_plugin_table_profiling);
  arg_str(&read, "{\"calls\": [{\"Name\": {\"string\": \"add\"}, \"Count\": {\"count\": 2}}]}");
  if (rc == 0) rc = call_global(&read, "runtime.profiling.FromJSON");
  if (rc != 0) return rc;
  for (int i = 0; i < 2 && rc == 0; ++i) {
    call text = {0};
    arg_handle(&text, read.ret_code, read.ret.v_handle);
    rc = call_global(&text, writers[i]);
  }
  (void)TVMObjectFree(read.ret.v_handle);
  return rc;
}

static void test_reports_survive_each_failed_allocation(void** state) {
  (void)state;
  sweep("report", use_report, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reports_survive_each_failed_allocation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
