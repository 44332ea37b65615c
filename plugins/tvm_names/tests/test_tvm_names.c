/* Functions called by libraries compiled with TVM: refused arguments. */
#include "support.h"

/* Every function with a tensor argument. */
static void test_tensors_without_a_shape_are_refused(void** state) {
  static const char* const kNames[] = {
      "tvm.contrib.cblas.matmul",
      "tvm.contrib.cblas.batch_matmul",
      "tvm.contrib.sort.argsort",
  };
  float data[64];
  (void)state;
  memset(data, 0, sizeof(data));
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    for (int ndim = -1; ndim < 5; ++ndim) {
      DLTensor tensor = {data, {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, NULL, NULL, 0};
      call c = {0};
      if (ndim == 0) continue;
      for (int k = 0; k < (i < 2 ? 3 : 2); ++k) {
        arg_handle(&c, kTVMDLTensorHandle, &tensor);
      }
      arg_int(&c, 0);
      arg_int(&c, 0);
      assert_fails(call_global(&c, kNames[i]), "whose shape is NULL");
    }
  }
}

static void test_tensors_with_gaps_are_refused(void** state) {
  float data[8] = {0};
  int64_t shape[] = {2, 2}, strides[] = {4, 1};
  DLTensor gaps = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
  call sort = {0};
  (void)state;
  arg_handle(&sort, kTVMDLTensorHandle, &gaps);
  arg_handle(&sort, kTVMDLTensorHandle, &gaps);
  arg_int(&sort, 0);
  arg_int(&sort, 1);
  assert_fails(call_global(&sort, "tvm.contrib.sort.sort"), "compact CPU tensors only");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensors_without_a_shape_are_refused),
      cmocka_unit_test(test_tensors_with_gaps_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
