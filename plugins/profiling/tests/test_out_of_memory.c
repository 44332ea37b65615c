/* Every allocation of a report fails once: an error each time, no crash, no leak. The plug-in is linked
 * into the program, since allocations of libraries do not fail. */
#include <tvm/runtime/plugin.h>

#include "allocation_faults.h"

extern const tvmrt_plugin tvmrt_plugin_table_profiling;

static const char json[] =
    "{\"calls\": [{\"Name\": {\"string\": \"add\"}, \"Count\": {\"count\": 2}, \"Duration (us)\": "
    "{\"microseconds\": 1.5}, \"Percent\": {\"percent\": 50.0}}], \"device_metrics\": {\"cpu0\": "
    "{\"Duration (us)\": {\"microseconds\": 3.0}}}, \"configuration\": {\"Executor\": {\"string\": "
    "\"Graph\"}}}";

static int use_report(void) {
  static const char* const writers[] = {"runtime.profiling.AsJSON", "runtime.profiling.AsCSV"};
  call read = {0};
  int rc = tvmrt_plugin_enter(&tvmrt_plugin_table_profiling);
  arg_str(&read, json);
  if (rc == 0) rc = call_global(&read, "runtime.profiling.FromJSON");
  if (rc != 0) return rc;
  for (int i = 0; i < 2 && rc == 0; ++i) {
    call text = {0};
    arg_handle(&text, read.ret_code, read.ret.v_handle);
    rc = call_global(&text, writers[i]);
  }
  for (int i = 0; i < 1 && rc == 0; ++i) {
    call table = {0};
    arg_handle(&table, read.ret_code, read.ret.v_handle);
    for (int k = 0; k < 3; ++k) arg_int(&table, 1);
    rc = call_global(&table, "runtime.profiling.AsTable");
  }
  (void)TVMObjectFree(read.ret.v_handle);
  return rc;
}

static void test_reports_survive_each_failed_allocation(void** state) {
  (void)state;
  sweep("report", use_report, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reports_survive_each_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
