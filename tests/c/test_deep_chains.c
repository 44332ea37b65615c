/* Chains of objects: as long as memory allows, released without recursion. */
#include "support.h"

enum { DEPTH = 1000000, EXECUTORS = 100000 };

static void* wrap_in_array(void* inner) {
  call c = {0};
  arg_handle(&c, kTVMObjectHandle, inner);
  assert_ok(call_global(&c, "runtime.Array"));
  return c.ret.v_handle;
}

static void* wrap_in_adt(void* inner) {
  call c = {0};
  arg_int(&c, 7);
  arg_handle(&c, kTVMObjectHandle, inner);
  assert_ok(call_global(&c, "runtime.ADT"));
  return c.ret.v_handle;
}

static void* wrap_in_map(void* inner) {
  call c = {0};
  arg_str(&c, "inner");
  arg_handle(&c, kTVMObjectHandle, inner);
  assert_ok(call_global(&c, "runtime.Map"));
  return c.ret.v_handle;
}

static void* use_as_key(void* inner) {
  call c = {0};
  arg_handle(&c, kTVMObjectHandle, inner);
  arg_int(&c, 1);
  assert_ok(call_global(&c, "runtime.Map"));
  return c.ret.v_handle;
}

static int finalised;
static void count_end(void* resource) {
  (void)resource;
  ++finalised;
}

static int nothing(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                   void* resource) {
  (void)args, (void)codes, (void)num_args, (void)ret, (void)resource;
  return 0;
}

/* An array with a function that records its release. */
static void* innermost(void) {
  TVMFunctionHandle f;
  call c = {0};
  assert_ok(TVMFuncCreateFromCFunc(nothing, NULL, count_end, &f));
  arg_handle(&c, kTVMPackedFuncHandle, f);
  assert_ok(call_global(&c, "runtime.Array"));
  assert_ok(TVMFuncFree(f));
  return c.ret.v_handle;
}

static void test_containers_need_no_stack(void** state) {
  static void* (*const wrappers[])(void*) = {wrap_in_array, wrap_in_adt, wrap_in_map, use_as_key};
  void* object = innermost();
  void* kept = NULL;
  (void)state;
  finalised = 0;
  for (int i = 0; i < DEPTH; ++i) {
    void* outer = wrappers[i % 4](object);
    assert_ok(TVMObjectFree(object));
    object = outer;
    if (i == DEPTH / 2) {
      kept = object;
      assert_ok(TVMObjectRetain(kept));
    }
  }
  assert_ok(TVMObjectFree(object));
  assert_int_equal(finalised, 0); /* the inner half has another reference */
  assert_ok(TVMObjectFree(kept));
  assert_int_equal(finalised, 1);
}

static void test_views_need_no_stack(void** state) {
  static const int64_t extents[] = {4};
  static const float values[] = {1, 2, 3, 4};
  DLTensor* t = make_tensor(1, extents, values);
  call shape = {0};
  (void)state;
  arg_int(&shape, 4);
  assert_ok(call_global(&shape, "runtime.ShapeTuple"));
  for (int i = 0; i < DEPTH; ++i) {
    TVMValue type = {.v_type = {kDLFloat, 32, 1}};
    call c = {0};
    arg_handle(&c, kTVMNDArrayHandle, t);
    arg_handle(&c, kTVMObjectHandle, shape.ret.v_handle);
    arg(&c, kTVMDataType, type);
    assert_ok(call_global(&c, "runtime.TVMArrayCreateView"));
    assert_ok(TVMArrayFree(t));
    t = c.ret.v_handle;
  }
  assert_floats(t, 4, values);
  assert_ok(TVMArrayFree(t));
  assert_ok(TVMObjectFree(shape.ret.v_handle));
}

static void test_dlpack_round_trips_do_not_recurse(void** state) {
  static const int64_t extents[] = {2, 2};
  static const float values[] = {1, 2, 3, 4};
  DLTensor* t = make_tensor(2, extents, values);
  (void)state;
  for (int i = 0; i < DEPTH; ++i) {
    DLManagedTensor* managed;
    assert_ok(TVMArrayToDLPack(t, &managed));
    assert_ok(TVMArrayFree(t));
    assert_ok(TVMArrayFromDLPack(managed, &t));
  }
  assert_int_equal(t->ndim, 2);
  assert_floats(t, 4, values);
  assert_ok(TVMArrayFree(t));
}

static const char empty_graph[] =
    "{\"nodes\": [], \"arg_nodes\": [], \"heads\": [], \"attrs\": {\"dltype\": [\"list_str\", []],"
    " \"storage_id\": [\"list_int\", []], \"shape\": [\"list_shape\", []]},"
    " \"node_row_ptr\": [0]}";

/* Each takes its functions from the one before. */
static void test_executors_need_no_stack(void** state) {
  TVMModuleHandle mod = load("FIXTURE_PLAIN");
  (void)state;
  for (int i = 0; i < EXECUTORS; ++i) {
    call c = {0};
    arg_str(&c, empty_graph);
    arg_handle(&c, kTVMModuleHandle, mod);
    arg_int(&c, kDLCPU);
    arg_int(&c, 0);
    assert_ok(call_global(&c, "tvm.graph_executor.create"));
    assert_ok(TVMModFree(mod));
    mod = c.ret.v_handle;
  }
  assert_ok(TVMModFree(mod));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_containers_need_no_stack),
      cmocka_unit_test(test_views_need_no_stack),
      cmocka_unit_test(test_dlpack_round_trips_do_not_recurse),
      cmocka_unit_test(test_executors_need_no_stack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
