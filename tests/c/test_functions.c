/* Packed functions, the global registry, errors and objects. */
#include "support.h"

/* Returns the sum of its arguments, or fails if its resource says so. */
static int add(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* resource) {
  TVMValue sum;
  int code = kTVMArgInt;
  (void)codes;
  (void)resource;
  sum.v_int64 = 0;
  for (int i = 0; i < num_args; ++i) sum.v_int64 += args[i].v_int64;
  return TVMCFuncSetReturn(ret, &sum, &code, 1);
}

static void count_call(void* resource) { ++*(int*)resource; }

static TVMFunctionHandle make(TVMRuntimeCPackedFunc f, void* resource,
                              TVMPackedCFuncFinalizer fin) {
  TVMFunctionHandle handle = NULL;
  assert_ok(TVMFuncCreateFromCFunc(f, resource, fin, &handle));
  return handle;
}

static void test_call_passes_arguments_and_result(void** state) {
  TVMFunctionHandle f = make(add, NULL, NULL);
  call c = {0};
  (void)state;
  arg_int(&c, 40);
  arg_int(&c, 2);
  assert_ok(call_handle(&c, f));
  assert_int_equal(c.ret_code, kTVMArgInt);
  assert_int_equal(c.ret.v_int64, 42);
  TVMFuncFree(f);
}

static void test_finaliser_runs_with_the_last_reference(void** state) {
  int calls = 0;
  TVMFunctionHandle f = make(add, &calls, count_call);
  (void)state;
  assert_ok(TVMObjectRetain(f));
  assert_ok(TVMFuncFree(f));
  assert_int_equal(calls, 0);
  assert_ok(TVMFuncFree(f));
  assert_int_equal(calls, 1);
}

static int fail_with_resource(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                              void* resource) {
  (void)args, (void)codes, (void)num_args, (void)ret;
  TVMPackedFuncSetLastError(resource);
  return -1;
}

static void test_failure_gives_code_text_and_no_value(void** state) {
  TVMFunctionHandle f = make(fail_with_resource, (char[]){"ValueError: no"}, NULL);
  call c = {0};
  (void)state;
  c.ret.v_int64 = 7;
  c.ret_code = 7;
  assert_int_equal(call_handle(&c, f), -1);
  assert_string_equal(TVMGetLastError(), "ValueError: no");
  assert_int_equal(c.ret_code, kTVMNullptr);
  assert_null(c.ret.v_handle);
  TVMFuncFree(f);
}

static int return_text(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                       void* resource) {
  char text[] = "made on the stack";
  TVMValue value;
  int code = kTVMStr;
  (void)args, (void)codes, (void)num_args, (void)resource;
  value.v_str = text;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* Sets its result, then calls another function that returns text too. */
static int return_text_then_call(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                                 void* resource) {
  TVMValue value;
  TVMValue inner;
  int code = kTVMStr;
  (void)args, (void)codes, (void)num_args;
  value.v_str = "outer";
  if (TVMCFuncSetReturn(ret, &value, &code, 1) != 0) return -1;
  if (TVMFuncCall(resource, NULL, NULL, 0, &inner, &code) != 0) return -1;
  return strcmp(inner.v_str, "made on the stack") == 0 ? 0 : -1;
}

static void test_text_is_copied_and_survives_nested_calls(void** state) {
  TVMFunctionHandle inner = make(return_text, NULL, NULL);
  TVMFunctionHandle outer = make(return_text_then_call, inner, NULL);
  call c = {0};
  (void)state;
  assert_ok(call_handle(&c, outer));
  assert_int_equal(c.ret_code, kTVMStr);
  assert_string_equal(c.ret.v_str, "outer");
  assert_ok(call_handle(&c, inner));
  assert_string_equal(c.ret.v_str, "made on the stack");
  TVMFuncFree(outer);
  TVMFuncFree(inner);
}

static int return_first(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                        void* resource) {
  (void)num_args, (void)resource;
  return TVMCFuncSetReturn(ret, args, codes, 1);
}

static void test_bytes_and_data_types_are_returned(void** state) {
  TVMFunctionHandle f = make(return_first, NULL, NULL);
  TVMByteArray bytes = {"a\0b", 3};
  TVMValue dtype;
  call c = {0};
  call d = {0};
  const TVMByteArray* got;
  (void)state;
  arg_handle(&c, kTVMBytes, &bytes);
  assert_ok(call_handle(&c, f));
  got = c.ret.v_handle;
  assert_int_equal(got->size, 3);
  assert_memory_equal(got->data, "a\0b", 3);
  assert_ok(TVMByteArrayFree(c.ret.v_handle));
  dtype.v_type.code = kDLFloat;
  dtype.v_type.bits = 16;
  dtype.v_type.lanes = 4;
  arg(&d, kTVMDataType, dtype);
  assert_ok(call_handle(&d, f));
  assert_int_equal(d.ret_code, kTVMStr);
  assert_string_equal(d.ret.v_str, "float16x4");
  TVMFuncFree(f);
}

static void test_returned_objects_are_retained(void** state) {
  static const int64_t shape[] = {2};
  const float values[] = {1, 2};
  TVMFunctionHandle f = make(return_first, NULL, NULL);
  DLTensor* t = make_tensor(1, shape, values);
  call c = {0};
  (void)state;
  arg_handle(&c, kTVMNDArrayHandle, t);
  assert_ok(call_handle(&c, f));
  assert_int_equal(c.ret_code, kTVMNDArrayHandle);
  assert_ok(TVMArrayFree(t));
  assert_floats(c.ret.v_handle, 2, values);
  assert_ok(TVMArrayFree(c.ret.v_handle));
  TVMFuncFree(f);
}

static void test_view_cannot_be_returned(void** state) {
  static const int64_t shape[] = {1};
  TVMFunctionHandle f = make(return_first, NULL, NULL);
  DLTensor* t = make_tensor(1, shape, NULL);
  call c = {0};
  (void)state;
  arg_handle(&c, kTVMDLTensorHandle, t);
  assert_fails(call_handle(&c, f), "tensor view has no owner");
  TVMArrayFree(t);
  TVMFuncFree(f);
}

static void test_moved_argument_is_taken(void** state) {
  TVMFunctionHandle f = make(return_first, NULL, NULL);
  call c = {0};
  call text = {0};
  void* object;
  (void)state;
  arg_str(&text, "moved");
  assert_ok(call_global(&text, "runtime.String"));
  object = text.ret.v_handle;
  arg_handle(&c, kTVMObjectRValueRefArg, &object);
  assert_ok(call_handle(&c, f));
  assert_null(object);
  assert_int_equal(c.ret_code, kTVMObjectHandle);
  assert_ok(TVMObjectFree(c.ret.v_handle));
  TVMFuncFree(f);
}

/* ---- functions that store their result themselves ---- */

static int add_directly(TVMValue* args, int* codes, int num_args, TVMValue* ret, int* ret_code,
                        void* resource) {
  (void)codes;
  ret->v_int64 = *(int*)resource;
  for (int i = 0; i < num_args; ++i) ret->v_int64 += args[i].v_int64;
  *ret_code = kTVMArgInt;
  return num_args == 0 ? -1 : 0;
}

static int return_first_directly(TVMValue* args, int* codes, int num_args, TVMValue* ret,
                                 int* ret_code, void* resource) {
  (void)num_args, (void)resource;
  return tvmrt_func_return(args, codes[0], ret, ret_code);
}

static TVMFunctionHandle make_direct(TVMCPackedFunc f, void* resource,
                                     TVMPackedCFuncFinalizer fin) {
  TVMFunctionHandle handle = NULL;
  assert_ok(tvmrt_func_create(f, resource, fin, &handle));
  return handle;
}

static void test_direct_function_gets_its_resource(void** state) {
  int resource = 2;
  TVMFunctionHandle f = make_direct(add_directly, &resource, count_call);
  call c = {0};
  (void)state;
  arg_int(&c, 40);
  assert_ok(call_handle(&c, f));
  assert_int_equal(c.ret_code, kTVMArgInt);
  assert_int_equal(c.ret.v_int64, 42);
  assert_ok(TVMFuncFree(f));
  assert_int_equal(resource, 3); /* the finaliser, once */
}

static void test_failing_direct_function_returns_no_value(void** state) {
  int resource = 2;
  TVMFunctionHandle f = make_direct(add_directly, &resource, NULL);
  call c = {0};
  (void)state;
  assert_int_equal(call_handle(&c, f), -1);
  assert_int_equal(c.ret_code, kTVMNullptr);
  assert_null(c.ret.v_handle);
  TVMFuncFree(f);
  assert_fails(tvmrt_func_create(NULL, NULL, NULL, &f), "tvmrt_func_create: the function is NULL");
  assert_null(f);
}

static void test_direct_function_returns_text_and_bytes(void** state) {
  TVMFunctionHandle f = make_direct(return_first_directly, NULL, NULL);
  TVMByteArray bytes = {"a\0b", 3};
  char text[] = "made on the stack";
  const TVMByteArray* got;
  TVMValue dtype;
  call c = {0}, d = {0}, e = {0};
  (void)state;
  arg_str(&c, text);
  assert_ok(call_handle(&c, f));
  memset(text, 'x', sizeof(text) - 1);
  assert_int_equal(c.ret_code, kTVMStr);
  assert_string_equal(c.ret.v_str, "made on the stack");
  arg_handle(&d, kTVMBytes, &bytes);
  assert_ok(call_handle(&d, f));
  got = d.ret.v_handle;
  assert_int_equal(got->size, 3);
  assert_memory_equal(got->data, "a\0b", 3);
  dtype.v_type = (DLDataType){kDLFloat, 16, 4};
  arg(&e, kTVMDataType, dtype);
  assert_ok(call_handle(&e, f));
  assert_int_equal(e.ret_code, kTVMStr);
  assert_string_equal(e.ret.v_str, "float16x4");
  TVMFuncFree(f);
}

static void test_direct_function_returns_its_own_reference(void** state) {
  static const int64_t shape[] = {2};
  const float values[] = {1, 2};
  TVMFunctionHandle f = make_direct(return_first_directly, NULL, NULL);
  DLTensor* t = make_tensor(1, shape, values);
  call c = {0}, view = {0};
  (void)state;
  arg_handle(&view, kTVMDLTensorHandle, t);
  assert_fails(call_handle(&view, f), "tensor view has no owner");
  arg_handle(&c, kTVMNDArrayHandle, t);
  assert_ok(call_handle(&c, f));
  assert_ok(TVMArrayFree(t));
  assert_floats(c.ret.v_handle, 2, values);
  assert_ok(TVMArrayFree(c.ret.v_handle));
  TVMFuncFree(f);
}

static void test_wrong_handles_are_errors(void** state) {
  TVMFunctionHandle f = make(add, NULL, NULL);
  TVMFunctionHandle out;
  call c = {0};
  (void)state;
  assert_fails(call_handle(&c, NULL), "TVMFuncCall: the handle is NULL");
  assert_fails(TVMModGetFunction(f, "x", 0, &out),
               "expects a runtime.Module, got a runtime.PackedFunc");
  assert_fails(TVMModFree(f), "expects a runtime.Module");
  assert_ok(TVMFuncFree(NULL));
  assert_ok(TVMModFree(NULL));
  assert_ok(TVMArrayFree(NULL));
  assert_ok(TVMObjectFree(NULL));
  TVMFuncFree(f);
}

static void test_registry_registers_overrides_removes(void** state) {
  int calls = 0;
  TVMFunctionHandle f = make(add, &calls, count_call);
  TVMFunctionHandle g = make(add, NULL, NULL);
  TVMFunctionHandle out;
  (void)state;
  assert_ok(TVMFuncRegisterGlobal("test.add", f, 0));
  assert_ok(TVMFuncFree(f));
  assert_fails(TVMFuncRegisterGlobal("test.add", g, 0), "test.add is already registered");
  assert_ok(TVMFuncGetGlobal("test.add", &out));
  assert_ptr_equal(out, f);
  assert_ok(TVMFuncFree(out));
  assert_ok(TVMFuncRegisterGlobal("test.add", g, 1));
  assert_int_equal(calls, 1); /* the overridden function goes with its last reference */
  assert_ok(TVMFuncRemoveGlobal("test.add"));
  assert_ok(TVMFuncRemoveGlobal("test.add"));
  assert_ok(TVMFuncGetGlobal("test.add", &out));
  assert_null(out);
  TVMFuncFree(g);
}

static void test_registry_lists_names(void** state) {
  const char** names;
  int count;
  int found = 0;
  (void)state;
  assert_ok(TVMFuncListGlobalNames(&count, &names));
  for (int i = 0; i < count; ++i) found += strcmp(names[i], "runtime.ModuleGetTypeKey") == 0;
  assert_int_equal(found, 1);
}

static void test_registry_takes_many_names(void** state) {
  TVMFunctionHandle f = make(add, NULL, NULL);
  TVMFunctionHandle out;
  char name[32];
  (void)state;
  for (int i = 0; i < 100000; ++i) {
    (void)snprintf(name, sizeof(name), "many.%d", i);
    assert_ok(TVMFuncRegisterGlobal(name, f, 0));
  }
  for (int i = 0; i < 100000; i += 2) {
    (void)snprintf(name, sizeof(name), "many.%d", i);
    assert_ok(TVMFuncRemoveGlobal(name));
  }
  for (int i = 0; i < 100000; ++i) {
    (void)snprintf(name, sizeof(name), "many.%d", i);
    assert_ok(TVMFuncGetGlobal(name, &out));
    if (i % 2 == 0) {
      assert_null(out);
    } else {
      assert_ptr_equal(out, f);
      TVMFuncFree(out);
      assert_ok(TVMFuncRemoveGlobal(name));
    }
  }
  TVMFuncFree(f);
}

static void test_types_have_keys(void** state) {
  unsigned index;
  unsigned none;
  char* key;
  int derived;
  (void)state;
  assert_ok(TVMObjectTypeKey2Index("Array", &index));
  assert_ok(TVMObjectTypeIndex2Key(index, &key));
  assert_string_equal(key, "Array");
  free(key);
  assert_fails(TVMObjectTypeKey2Index("no.such.Type", &none), "no.such.Type");
  assert_fails(TVMObjectTypeIndex2Key(999, &key), "999");
  assert_ok(TVMObjectDerivedFrom(index, 0, &derived));
  assert_int_equal(derived, 1);
  assert_ok(TVMObjectDerivedFrom(0, index, &derived));
  assert_int_equal(derived, 0);
}

static void test_containers_hold_their_items(void** state) {
  call array = {0};
  call map = {0};
  call get = {0};
  call item = {0};
  call unbox = {0};
  call bad = {0};
  (void)state;
  arg_int(&array, 5);
  arg_str(&array, "six");
  assert_ok(call_global(&array, "runtime.Array"));
  arg_str(&map, "key");
  arg_handle(&map, kTVMObjectHandle, array.ret.v_handle);
  assert_ok(call_global(&map, "runtime.Map"));
  assert_ok(TVMObjectFree(array.ret.v_handle));
  arg_handle(&get, kTVMObjectHandle, map.ret.v_handle);
  arg_str(&get, "key");
  assert_ok(call_global(&get, "runtime.MapGetItem"));
  arg_handle(&item, kTVMObjectHandle, get.ret.v_handle);
  arg_int(&item, 0);
  assert_ok(call_global(&item, "runtime.ArrayGetItem"));
  arg_handle(&unbox, kTVMObjectHandle, item.ret.v_handle);
  assert_ok(call_global(&unbox, "runtime.Unbox"));
  assert_int_equal(unbox.ret.v_int64, 5);
  arg_handle(&bad, kTVMObjectHandle, get.ret.v_handle);
  arg_int(&bad, 2);
  assert_fails(call_global(&bad, "runtime.ArrayGetItem"), "index 2 is out of range, the size is 2");
  assert_ok(TVMObjectFree(item.ret.v_handle));
  assert_ok(TVMObjectFree(get.ret.v_handle));
  assert_ok(TVMObjectFree(map.ret.v_handle));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_call_passes_arguments_and_result),
      cmocka_unit_test(test_finaliser_runs_with_the_last_reference),
      cmocka_unit_test(test_failure_gives_code_text_and_no_value),
      cmocka_unit_test(test_text_is_copied_and_survives_nested_calls),
      cmocka_unit_test(test_bytes_and_data_types_are_returned),
      cmocka_unit_test(test_returned_objects_are_retained),
      cmocka_unit_test(test_view_cannot_be_returned),
      cmocka_unit_test(test_moved_argument_is_taken),
      cmocka_unit_test(test_direct_function_gets_its_resource),
      cmocka_unit_test(test_failing_direct_function_returns_no_value),
      cmocka_unit_test(test_direct_function_returns_text_and_bytes),
      cmocka_unit_test(test_direct_function_returns_its_own_reference),
      cmocka_unit_test(test_wrong_handles_are_errors),
      cmocka_unit_test(test_registry_registers_overrides_removes),
      cmocka_unit_test(test_registry_lists_names),
      cmocka_unit_test(test_registry_takes_many_names),
      cmocka_unit_test(test_types_have_keys),
      cmocka_unit_test(test_containers_hold_their_items),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
