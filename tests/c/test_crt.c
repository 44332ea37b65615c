/* The functions that firmware programs call on hosts: packed functions in a struct, executors. */
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/packed_func.h>

#include "support.h"

static const DLDevice cpu = {kDLCPU, 0};

static void test_packed_function_struct(void** state) {
  TVMValue value;
  uint32_t code = kTVMStr;
  TVMArgs args;
  TVMPackedFunc pf;
  (void)state;
  assert_int_equal(TVMInitializeRuntime(), kTvmErrorNoError);
  value.v_str = "a.b";
  args = TVMArgs_Create(&value, &code, 1);
  assert_ok(TVMPackedFunc_InitGlobalFunc(&pf, "runtime.SanitizeName", &args));
  assert_ok(pf.Call(&pf));
  assert_int_equal(pf.ret_value.values_count, 1);
  assert_string_equal(pf.ret_value.values[0].v_str, "a_b");
  assert_null(TVMArgs_AsModuleHandle(&pf.ret_value, 0));
  code = kTVMArgInt;
  args = TVMArgs_Create(&value, &code, 1);
  pf.SetArgs(&pf, &args);
  assert_fails(TVMPackedFunc_Call(&pf), "SanitizeName");
  assert_int_equal(pf.ret_value.values_count, 0);
  TVMFuncFree(pf.fexec);
  assert_fails(TVMPackedFunc_InitGlobalFunc(&pf, "no.such", &args), "no.such");
  assert_int_equal(String2DLDataType("int8").bits, 8);
  assert_int_equal(String2DLDataType("nonsense").bits, 0);
}

static void test_graph_executor_functions(void** state) {
  static const int64_t shape23[] = {2, 3};
  const float x_values[] = {1, 2, 3, 4, 5, 6};
  const float w_values[] = {1, 1, 1, 1, 1, 1};
  const float expected[] = {2, 3, 4, 5, 6, 7};
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle library = import_of(factory, 0);
  TVMGraphExecutor* ex;
  DLTensor* x = make_tensor(2, shape23, x_values);
  DLTensor* w = make_tensor(2, shape23, w_values);
  DLTensor* y = make_tensor(2, shape23, NULL);
  DLTensor view = *w;
  float misaligned[8];
  call json = {0};
  char* text;
  (void)state;
  assert_ok(call_module(&json, factory, "get_graph_json"));
  text = strdup(json.ret.v_str);
  assert_ok(TVMGraphExecutor_Create(text, library, &cpu, &ex));
  free(text);
  assert_int_equal(TVMGraphExecutor_GetNumInputs(ex), 2);
  assert_int_equal(TVMGraphExecutor_GetNumOutputs(ex), 2);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "w"), 1);
  assert_int_equal(TVMGraphExecutor_GetInputIndex(ex, "z"), -1);
  memcpy(misaligned + 1, w_values, sizeof(w_values));
  view.data = misaligned + 1;
  assert_ok(TVMGraphExecutor_SetInput(ex, "x", x));
  assert_ok(TVMGraphExecutor_SetInput(ex, "w", &view)); /* copied, wherever it lies */
  assert_ok(TVMGraphExecutor_Run(ex));
  assert_ok(TVMGraphExecutor_GetOutput(ex, 0, y));
  assert_floats(y, 6, expected);
  assert_fails(TVMGraphExecutor_LoadParams(ex, "nothing", 7), "params file is damaged");
  assert_ok(TVMGraphExecutor_Release(&ex));
  assert_null(ex);
  TVMArrayFree(x);
  TVMArrayFree(y);
  TVMArrayFree(w);
  TVMModFree(library);
  TVMModFree(factory);
}

static void test_aot_executor_functions(void** state) {
  const float expected[] = {2, 2, 2, 2};
  TVMModuleHandle library = load("FIXTURE_AOT");
  TVMAotExecutor* ex;
  const char* name;
  float* input;
  (void)state;
  assert_int_equal(TVMAotExecutor_Create(library, cpu, &ex, "default"), kTvmErrorNoError);
  assert_int_equal(TVMAotExecutor_GetNumInputs(ex), 1);
  assert_int_equal(TVMAotExecutor_GetNumOutputs(ex), 2);
  assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "x_in"), 0);
  assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "y"), -1);
  assert_ok(TVMAotExecutor_GetInputName(ex, 0, &name));
  assert_string_equal(name, "x_in");
  assert_fails(TVMAotExecutor_GetInputName(ex, 1, &name), "has 1 input, there is no input 1");
  input = ex->args[0].dl_tensor.data;
  for (int i = 0; i < 4; ++i) input[i] = 1;
  assert_int_equal(TVMAotExecutor_Run(ex), kTvmErrorNoError);
  assert_floats(&ex->args[1].dl_tensor, 4, expected);
  assert_int_equal(TVMAotExecutor_Release(ex, cpu), kTvmErrorNoError);
  assert_int_equal(TVMAotExecutor_Release(NULL, cpu), kTvmErrorNoError);
  TVMModFree(library);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_packed_function_struct),
      cmocka_unit_test(test_graph_executor_functions),
      cmocka_unit_test(test_aot_executor_functions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
