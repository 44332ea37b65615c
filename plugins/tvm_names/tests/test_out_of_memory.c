/* Every allocation of a function fails once: an error each time, no crash, no leak. The plug-in is
 * linked into the program, since allocations of libraries do not fail. */
#include <tvm/runtime/plugin.h>

#include "allocation_faults.h"

extern const tvmrt_plugin tvmrt_plugin_table_tvm_names;

static DLTensor* values;

static int sort_values(void) {
  call order = {0};
  int rc = tvmrt_plugin_enter(&tvmrt_plugin_table_tvm_names);
  arg_handle(&order, kTVMNDArrayHandle, values);
  arg_handle(&order, kTVMNDArrayHandle, values);
  arg_int(&order, 0);
  arg_int(&order, 1);
  return rc == 0 ? call_global(&order, "tvm.contrib.sort.argsort") : rc;
}

static void test_sorting_survives_each_failed_allocation(void** state) {
  const int64_t shape = 4;
  (void)state;
  static const float numbers[] = {3, 1, 4, 2};
  values = make_tensor(1, &shape, numbers);
  sweep("sort", sort_values, NULL);
  (void)TVMArrayFree(values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sorting_survives_each_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
