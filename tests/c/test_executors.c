/* Graph and AOT executors over fixture libraries. */
#include "executor_calls.h"

static const int64_t shape23[] = {2, 3};
static const int64_t shape6[] = {6};
static const int64_t shape4[] = {4};
static const float x_values[] = {1, 2, 3, 4, 5, 6};
static const float sum_values[] = {11, 22, 33, 44, 55, 66};
static const float twice_values[] = {22, 44, 66, 88, 110, 132};

static DLTensor* output(TVMModuleHandle ex, int64_t index) {
  call c = {0};
  arg_int(&c, index);
  assert_ok(call_module(&c, ex, "get_output"));
  assert_int_equal(c.ret_code, kTVMNDArrayHandle);
  return c.ret.v_handle;
}

static void check_output(TVMModuleHandle ex, int64_t index, size_t count, const float* expected) {
  DLTensor* t = output(ex, index);
  assert_floats(t, count, expected);
  assert_ok(TVMArrayFree(t));
}

static void test_graph_runs_with_params_of_factory(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle ex = make_executor(factory);
  DLTensor* x = make_tensor(2, shape23, x_values);
  assert_ok(TVMModFree(factory)); /* the executor keeps what it needs */
  assert_ok(set(ex, "set_input", "x", x, kTVMNDArrayHandle));
  assert_ok(run(ex));
  check_output(ex, 0, 6, sum_values);
  check_output(ex, 1, 6, twice_values);
  assert_int_equal(call_int(ex, "get_num_inputs"), 2);
  assert_int_equal(call_int(ex, "get_num_outputs"), 2);
  TVMArrayFree(x);
  assert_ok(TVMModFree(ex));
}

static void test_graph_binds_input_and_output(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle ex = make_executor(factory);
  DLTensor* x = make_tensor(2, shape23, x_values);
  DLTensor* y = make_tensor(1, shape6, NULL);
  float other[] = {0, 0, 0, 0, 0, 0};
  assert_ok(set(ex, "set_input_zero_copy", "x", x, kTVMNDArrayHandle));
  assert_ok(set(ex, "set_output_zero_copy", "reshape_nop:1", y, kTVMNDArrayHandle));
  assert_ok(run(ex));
  assert_floats(y, 6, twice_values);
  memcpy(x->data, other, sizeof(other)); /* the network reads x itself */
  assert_ok(run(ex));
  assert_float_equal(((float*)y->data)[5], 120, 0);
  /* Copying switches back to the network's own memory. */
  DLTensor* again = make_tensor(2, shape23, x_values);
  assert_ok(set(ex, "set_input", "x", again, kTVMNDArrayHandle));
  TVMArrayFree(again);
  assert_ok(run(ex));
  assert_floats(y, 6, twice_values);
  assert_float_equal(((float*)x->data)[0], 0, 0);
  TVMArrayFree(x);
  TVMArrayFree(y);
  TVMModFree(ex);
  TVMModFree(factory);
}

static void test_graph_binds_views_without_owning(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle ex = make_executor(factory);
  DLTensor* x = make_tensor(2, shape23, x_values);
  DLTensor view = *x;
  for (int i = 0; i < 3; ++i) {
    assert_ok(set_at(ex, "set_input_zero_copy", 0, &view, kTVMDLTensorHandle));
    assert_ok(run(ex));
  }
  check_output(ex, 1, 6, twice_values);
  view.data = (char*)view.data + 4;
  assert_fails(set_at(ex, "set_input_zero_copy", 0, &view, kTVMDLTensorHandle), "aligned");
  TVMModFree(ex);
  TVMModFree(factory);
  TVMArrayFree(x);
}

static void test_graph_refuses_wrong_inputs(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle ex = make_executor(factory);
  DLTensor* flat = make_tensor(1, shape6, x_values);
  DLTensor* ints = NULL;
  call c = {0};
  assert_ok(TVMArrayAlloc(shape23, 2, kDLInt, 32, 1, kDLCPU, 0, &ints));
  assert_fails(set(ex, "set_input", "x", flat, kTVMNDArrayHandle),
               "input 'x' is float32 (2, 3), got float32 (6)");
  assert_fails(set(ex, "set_input", "x", ints, kTVMNDArrayHandle), "got int32 (2, 3)");
  assert_fails(set(ex, "set_input", "z", flat, kTVMNDArrayHandle), "no input 'z'; it has: x, w");
  assert_fails(set_at(ex, "set_input", 7, flat, kTVMNDArrayHandle), "there is no input 7");
  assert_fails(set_at(ex, "get_output", 2, flat, kTVMNDArrayHandle), "there is no output 2");
  assert_fails(call_module(&c, ex, "set_input"), "takes 2 arguments, got 0");
  arg_int(&c, 0);
  arg_int(&c, 1);
  assert_fails(call_module(&c, ex, "set_input"), "argument 1 must be a tensor, got an int");
  TVMArrayFree(flat);
  TVMArrayFree(ints);
  TVMModFree(ex);
  TVMModFree(factory);
}

static void test_graph_copies_strided_input(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle ex = make_executor(factory);
  const int64_t shape32[] = {3, 2};
  const float transposed[] = {1, 4, 2, 5, 3, 6};
  int64_t strides[] = {1, 2};
  DLTensor* base = make_tensor(2, shape32, transposed);
  DLTensor view = *base;
  view.shape = (int64_t*)(uintptr_t)shape23;
  view.strides = strides;
  assert_ok(set(ex, "set_input", "x", &view, kTVMDLTensorHandle));
  assert_ok(run(ex));
  check_output(ex, 0, 6, sum_values);
  assert_fails(set(ex, "set_input_zero_copy", "x", &view, kTVMDLTensorHandle), "strides");
  TVMArrayFree(base);
  TVMModFree(ex);
  TVMModFree(factory);
}

static void test_executors_of_a_factory_do_not_disturb_each_other(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle a = make_executor(factory);
  TVMModuleHandle b = make_executor(factory);
  DLTensor* x = make_tensor(2, shape23, x_values);
  float zeros[6] = {0};
  DLTensor* w = make_tensor(2, shape23, zeros);
  assert_ok(set(a, "set_input", "w", w, kTVMNDArrayHandle)); /* the factory's tensor is shared */
  assert_ok(set(a, "set_input", "x", x, kTVMNDArrayHandle));
  assert_ok(set(b, "set_input", "x", x, kTVMNDArrayHandle));
  assert_ok(run(a));
  assert_ok(run(b));
  check_output(a, 0, 6, x_values);
  check_output(b, 0, 6, sum_values);
  TVMArrayFree(x);
  TVMArrayFree(w);
  TVMModFree(a);
  TVMModFree(b);
  TVMModFree(factory);
}

/* Release 0.8: constants of the library take the place of a storage. */
static void test_linked_parameters_are_used_in_place(void** state) {
  static const char json[] =
      "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
      " {\"op\": \"null\", \"name\": \"w\", \"inputs\": []},"
      " {\"op\": \"tvm_op\", \"name\": \"sum\", \"inputs\": [[0, 0], [1, 0]], \"attrs\":"
      " {\"func_name\": \"fixture_add\", \"num_inputs\": \"2\", \"num_outputs\": \"1\","
      " \"flatten_data\": \"0\"}}], \"arg_nodes\": [0, 1], \"heads\": [[2, 0, 0]], \"attrs\":"
      " {\"dltype\": [\"list_str\", [\"float32\", \"float32\", \"float32\"]], \"storage_id\":"
      " [\"list_int\", [0, 1, 2]], \"shape\": [\"list_shape\", [[2], [2], [2]]]},"
      " \"node_row_ptr\": [0, 1, 2, 3]}";
  const float expected[] = {100, 200};
  TVMModuleHandle library = load("FIXTURE_LLVM");
  call c = {0};
  (void)state;
  arg_str(&c, json);
  arg_handle(&c, kTVMModuleHandle, library);
  arg_int(&c, kDLCPU);
  arg_int(&c, 0);
  assert_ok(call_global(&c, "tvm.graph_executor.create"));
  assert_ok(run(c.ret.v_handle));
  check_output(c.ret.v_handle, 0, 2, expected);
  TVMModFree(c.ret.v_handle);
  TVMModFree(library);
}

static void test_parameter_given_out_is_not_the_factorys(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle a = make_executor(factory);
  TVMModuleHandle b = make_executor(factory);
  const float w_values[] = {10, 20, 30, 40, 50, 60};
  float zeros[6] = {0};
  call c = {0};
  arg_str(&c, "w");
  assert_ok(call_module(&c, a, "get_input"));
  memset(((DLTensor*)c.ret.v_handle)->data, 0, 24);
  assert_ok(TVMArrayFree(c.ret.v_handle));
  assert_ok(run(a));
  assert_ok(run(b));
  check_output(a, 0, 6, zeros);
  check_output(b, 0, 6, w_values); /* x is zero until it is set */
  TVMModFree(a);
  TVMModFree(b);
  TVMModFree(factory);
}

static void test_graph_profile_names_operators(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_GRAPH");
  TVMModuleHandle ex = make_executor(factory);
  call c = {0};
  assert_ok(call_module(&c, ex, "profile_rpc"));
  assert_int_equal(c.ret_code, kTVMStr);
  assert_non_null(strstr(c.ret.v_str, "fixture_add"));
  assert_non_null(strstr(c.ret.v_str, "fixture_double"));
  TVMModFree(ex);
  TVMModFree(factory);
}

static void test_aot_runs(void** state) {
  const float plus_one[] = {2, 3, 4, 5};
  const float doubled[] = {2, 4, 6, 8};
  TVMModuleHandle factory = load(*state);
  TVMModuleHandle ex = make_executor(factory);
  DLTensor* x = make_tensor(1, shape4, x_values);
  DLTensor* y = make_tensor(1, shape4, NULL);
  assert_ok(set(ex, "set_input", "x.in", x, kTVMNDArrayHandle)); /* sanitised to x_in */
  assert_ok(run(ex));
  check_output(ex, 0, 4, plus_one);
  check_output(ex, 1, 4, doubled);
  assert_ok(set(ex, "set_output_zero_copy", "output1", y, kTVMNDArrayHandle));
  assert_ok(set(ex, "set_input_zero_copy", "x_in", x, kTVMNDArrayHandle));
  assert_ok(run(ex));
  assert_floats(y, 4, doubled);
  check_output(ex, 1, 4, doubled);
  TVMArrayFree(x);
  TVMArrayFree(y);
  TVMModFree(ex);
  TVMModFree(factory);
}

static void test_aot_profile_uses_slot(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_AOT");
  TVMModuleHandle ex = make_executor(factory);
  call c = {0};
  assert_ok(call_module(&c, ex, "profile_rpc"));
  assert_non_null(strstr(c.ret.v_str, "\"add_one\"}, \"Count\": {\"count\": 1}"));
  assert_non_null(strstr(c.ret.v_str, "\"double\"}, \"Count\": {\"count\": 1}"));
  TVMModFree(ex);
  TVMModFree(factory);
}

static void test_aot_outputs_have_source_names(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_AOT");
  TVMModuleHandle ex = make_executor(factory);
  const float doubled[] = {2, 4, 6, 8};
  DLTensor* x = make_tensor(1, shape4, x_values);
  DLTensor* y = make_tensor(1, shape4, NULL);
  assert_ok(set(ex, "set_input", "x_in", x, kTVMNDArrayHandle));
  assert_ok(set(ex, "set_output_zero_copy", "twice:0", y, kTVMNDArrayHandle));
  assert_ok(run(ex));
  assert_floats(y, 4, doubled);
  assert_fails(set(ex, "set_output_zero_copy", "thrice", y, kTVMNDArrayHandle),
               "no output 'thrice'; it has: sum:0, twice:0");
  TVMArrayFree(x);
  TVMArrayFree(y);
  TVMModFree(ex);
  TVMModFree(factory);
}

static void test_aot_refuses_unknown_input(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_AOT");
  TVMModuleHandle ex = make_executor(factory);
  DLTensor* x = make_tensor(1, shape4, x_values);
  assert_fails(set(ex, "set_input", "y", x, kTVMNDArrayHandle), "no input 'y'; it has: x.in");
  TVMArrayFree(x);
  TVMModFree(ex);
  TVMModFree(factory);
}

/* Two inputs: their sum, their difference. */
static int sum_and_difference(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                              void* resource) {
  float* data[4];
  (void)codes, (void)ret, (void)resource;
  if (num_args != 4) return -1;
  for (int i = 0; i < 4; ++i) data[i] = ((DLTensor*)args[i].v_handle)->data;
  *data[2] = *data[0] + *data[1];
  *data[3] = *data[0] - *data[1];
  return 0;
}

static const char* name_of(TVMModuleHandle ex, const char* function, int64_t index) {
  call c = {0};
  arg_int(&c, index);
  assert_ok(call_module(&c, ex, function));
  return c.ret.v_str;
}

static void check_named_output(TVMModuleHandle ex, const char* name, float expected) {
  call c = {0};
  arg_str(&c, name);
  assert_ok(call_module(&c, ex, "get_output"));
  assert_float_equal(*(float*)((DLTensor*)c.ret.v_handle)->data, expected, 0);
  assert_ok(TVMArrayFree(c.ret.v_handle));
}

static void test_duplicate_names_of_old_graphs_are_distinguished(void** state) {
  TVMModuleHandle library = load("FIXTURE_PLAIN");
  TVMModuleHandle ex = make_duplicate_names(library, "");
  call c = {0};
  (void)state;
  register_callee(sum_and_difference, NULL);
  assert_string_equal(name_of(ex, "get_input_name", 0), "x");
  assert_string_equal(name_of(ex, "get_input_name", 1), "x:1");
  assert_string_equal(name_of(ex, "get_output_name", 0), "y:0");
  assert_string_equal(name_of(ex, "get_output_name", 1), "y:1");
  set_scalar(ex, "x", 5);
  set_scalar(ex, "x:1", 3);
  assert_ok(run(ex));
  check_named_output(ex, "y:0", 8);
  check_named_output(ex, "y:1", 2);
  arg_str(&c, "y");
  assert_fails(call_module(&c, ex, "get_output"), "several outputs are called 'y'; ask for 'y:0'");
  TVMModFree(ex);
  TVMModFree(library);
}

static void test_outputs_of_one_node_have_names(void** state) {
  TVMModuleHandle library = load("FIXTURE_PLAIN");
  TVMModuleHandle ex = make_duplicate_names(
      library, ", \"metadata\": {\"other\": [1], \"output_names\": [\"sum\", \"a:b\"]}");
  (void)state;
  register_callee(sum_and_difference, NULL);
  assert_string_equal(name_of(ex, "get_output_name", 0), "sum:0");
  assert_string_equal(name_of(ex, "get_output_name", 1), "a:b:1");
  assert_int_equal(index_of(ex, "get_output_index", "a:b"), 1);
  assert_int_equal(index_of(ex, "get_output_index", "a:b:1"), 1);
  assert_int_equal(index_of(ex, "get_output_index", "sum"), 0);
  assert_int_equal(index_of(ex, "get_output_index", "a"), -1);
  assert_int_equal(index_of(ex, "get_output_index", "y"), -1);
  set_scalar(ex, "x", 5);
  assert_ok(run(ex));
  check_named_output(ex, "sum", 5);
  check_named_output(ex, "a:b", 5);
  TVMModFree(ex);
  assert_null(make_duplicate_names(library, ", \"metadata\": {\"output_names\": [\"sum\"]}"));
  assert_non_null(strstr(TVMGetLastError(), "one name for each of the heads"));
  assert_null(make_duplicate_names(library, ", \"metadata\": {\"output_names\": [\"sum\", 2]}"));
  ex = make_duplicate_names(library, ", \"metadata\": [\"of others\"]");
  assert_non_null(ex);
  TVMModFree(ex);
  TVMModFree(library);
}

static void test_time_evaluator_times_run(void** state) {
  (void)state;
  TVMModuleHandle factory = load("FIXTURE_AOT");
  TVMModuleHandle ex = make_executor(factory);
  call c = {0};
  call timed = {0};
  const TVMByteArray* bytes;
  arg_handle(&c, kTVMModuleHandle, ex);
  arg_str(&c, "run");
  arg_int(&c, kDLCPU);
  for (int64_t v = 0; v < 1; ++v) arg_int(&c, 0);
  arg_int(&c, 5); /* number */
  arg_int(&c, 3); /* repeat */
  arg_int(&c, 0); /* min_repeat_ms */
  arg_int(&c, 100);
  arg_int(&c, 0);
  arg_int(&c, 1);
  arg_int(&c, 0);
  arg_str(&c, "");
  assert_ok(call_global(&c, "runtime.RPCTimeEvaluator"));
  assert_int_equal(c.ret_code, kTVMPackedFuncHandle);
  assert_ok(call_handle(&timed, c.ret.v_handle));
  assert_int_equal(timed.ret_code, kTVMBytes);
  bytes = timed.ret.v_handle;
  assert_int_equal(bytes->size, 3 * sizeof(double));
  assert_true(((const double*)(const void*)bytes->data)[0] > 0);
  TVMFuncFree(c.ret.v_handle);
  TVMModFree(ex);
  TVMModFree(factory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_graph_runs_with_params_of_factory),
      cmocka_unit_test(test_graph_binds_input_and_output),
      cmocka_unit_test(test_graph_binds_views_without_owning),
      cmocka_unit_test(test_graph_refuses_wrong_inputs),
      cmocka_unit_test(test_graph_copies_strided_input),
      cmocka_unit_test(test_executors_of_a_factory_do_not_disturb_each_other),
      cmocka_unit_test(test_linked_parameters_are_used_in_place),
      cmocka_unit_test(test_parameter_given_out_is_not_the_factorys),
      cmocka_unit_test(test_graph_profile_names_operators),
      cmocka_unit_test_prestate(test_aot_runs, (char[]){"FIXTURE_AOT"}),
      cmocka_unit_test_prestate(test_aot_runs, (char[]){"FIXTURE_AOT_POOLS"}),
      cmocka_unit_test(test_aot_profile_uses_slot),
      cmocka_unit_test(test_aot_outputs_have_source_names),
      cmocka_unit_test(test_aot_refuses_unknown_input),
      cmocka_unit_test(test_duplicate_names_of_old_graphs_are_distinguished),
      cmocka_unit_test(test_outputs_of_one_node_have_names),
      cmocka_unit_test(test_time_evaluator_times_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
