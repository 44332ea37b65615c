/* Functions called by libraries compiled with TVM: their results, and refused arguments. */
#include "support.h"

static void fill_and_check(int code, int bits, double maximum) {
  const int64_t shape = 64;
  DLTensor* t = NULL;
  call c = {0};
  int distinct = 0;
  assert_ok(TVMArrayAlloc(&shape, 1, code, bits, 1, kDLCPU, 0, &t));
  arg_handle(&c, kTVMNDArrayHandle, t);
  assert_ok(call_global(&c, "tvm.contrib.random.random_fill"));
  for (int i = 0; i < 64; ++i) {
    double value = code != kDLFloat ? ((const signed char*)t->data)[i]
                   : bits == 32     ? (double)((const float*)t->data)[i]
                                    : ((const double*)t->data)[i];
    assert_true(value >= 0 && value <= maximum);
    distinct += value > 0;
  }
  assert_in_range(distinct, 10, 64);
  (void)TVMArrayFree(t);
}

static void test_random_numbers_are_in_range(void** state) {
  (void)state;
  fill_and_check(kDLFloat, 32, 10);
  fill_and_check(kDLFloat, 64, 10);
  fill_and_check(kDLInt, 8, 1);
}

/* Every function with a tensor argument. */
static void test_tensors_without_a_shape_are_refused(void** state) {
  static const char* const kNames[] = {
      "tvm.contrib.cblas.matmul",
      "tvm.contrib.cblas.batch_matmul",
      "tvm.contrib.sort.argsort",
      "tvm.contrib.random.uniform",
  };
  float data[64];
  (void)state;
  memset(data, 0, sizeof(data));
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    for (int ndim = -1; ndim < 5; ++ndim) {
      DLTensor tensor = {data, {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, NULL, NULL, 0};
      call c = {0};
      if (ndim == 0) continue;
      if (i == 3) arg_int(&c, 0);
      if (i == 3) arg_int(&c, 1);
      for (int k = 0; k < (i < 2 ? 3 : i == 2 ? 2 : 1); ++k) {
        arg_handle(&c, kTVMDLTensorHandle, &tensor);
      }
      arg_int(&c, 0);
      arg_int(&c, 0);
      if (i == 3) c.count = 3;
      assert_fails(call_global(&c, kNames[i]), "whose shape is NULL");
    }
  }
}

static void test_tensors_with_gaps_are_refused(void** state) {
  float data[8] = {0};
  int64_t shape[] = {2, 2}, strides[] = {4, 1};
  DLTensor gaps = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
  call fill = {0}, number = {0};
  (void)state;
  arg_handle(&fill, kTVMDLTensorHandle, &gaps);
  assert_fails(call_global(&fill, "tvm.contrib.random.random_fill"), "compact CPU tensors only");
  arg_int(&number, 3);
  assert_fails(call_global(&number, "tvm.contrib.random.random_fill"), "argument 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_numbers_are_in_range),
      cmocka_unit_test(test_tensors_without_a_shape_are_refused),
      cmocka_unit_test(test_tensors_with_gaps_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
