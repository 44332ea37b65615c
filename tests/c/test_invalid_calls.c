/* Calls of the C API and of executors with invalid arguments; and strings of every form. */
#include <inttypes.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/module.h>

#include "support.h"

/* An input and an operator without a function, whose name and attributes the tests choose. */
static const char graph_json[] =
    "{\"nodes\": [{\"op\": \"null\", \"name\": \"%s\", \"inputs\": []},"
    " {\"op\": \"tvm_op\", \"name\": \"n\", \"inputs\": [[0, 0, 0]], \"attrs\": {\"func_name\":"
    " \"__nop\", \"num_inputs\": \"1\", \"num_outputs\": \"1\", \"flatten_data\": \"0\"}}],"
    " \"arg_nodes\": [0], \"heads\": [[1, 0, 0]], %s \"attrs\": {\"dltype\": [\"list_str\","
    " [\"float32\", \"float32\"]], \"storage_id\": [\"list_int\", [0, 0]], \"shape\":"
    " [\"list_shape\", [[2], [2]]]}, \"node_row_ptr\": [0, 1, 2]}";

static int create(const char* name, const char* more, call* c) {
  char json[2048];
  TVMModuleHandle library = load("FIXTURE_PLAIN");
  int rc;
  (void)snprintf(json, sizeof(json), graph_json, name, more);
  arg_str(c, json);
  arg_handle(c, kTVMModuleHandle, library);
  arg_int(c, kDLCPU);
  arg_int(c, 0);
  rc = call_global(c, "tvm.graph_executor.create");
  (void)TVMModFree(library);
  return rc;
}

static void test_names_may_have_every_letter(void** state) {
  static const char* const kNames[][2] = {
      {"a\\u0041\\u00e4\\u20ac", "aA\xc3\xa4\xe2\x82\xac"},
      {"\\ud83d\\ude00", "\xf0\x9f\x98\x80"},
      {"q\\\"\\\\\\/\\b\\f\\n\\r\\t", "q\"\\/\b\f\n\r\t"},
      {"grue\xc3\x9f", "grue\xc3\x9f"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    call c = {0}, index = {0};
    assert_ok(create(kNames[i][0], "", &c));
    arg_str(&index, kNames[i][1]);
    assert_ok(call_module(&index, c.ret.v_handle, "get_input_index"));
    assert_int_equal(index.ret.v_int64, 0);
    (void)TVMModFree(c.ret.v_handle);
  }
}

static void test_unterminated_text_is_reported(void** state) {
  call c = {0};
  (void)state;
  assert_fails(create("x", "\"metadata\": {\"any\": \"text without an end},", &c), "graph JSON");
}

static void test_executor_methods_reject_wrong_arguments(void** state) {
  static const struct {
    const char* method;
    const char* arguments; /* i: 0, s: "x", m: a module of another kind */
    const char* text;
  } kCases[] = {
      {"run_from_inputs", "iis", "alternating names and tensors"},
      {"share_params", "ms", "must be a graph executor"},
      {"run_individual", "iii", "at least 1"},
      {"run_individual_node", "iiiii", "at least 1"},
  };
  TVMModuleHandle library = load("FIXTURE_PLAIN");
  call c = {0};
  (void)state;
  assert_ok(create("x", "", &c));
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    call m = {0};
    for (const char* kind = kCases[i].arguments; *kind != '\0'; ++kind) {
      if (*kind == 'i') arg_int(&m, 0);
      if (*kind == 's') arg_str(&m, "x");
      if (*kind == 'm') arg_handle(&m, kTVMModuleHandle, library);
    }
    print_message("%s\n", kCases[i].method);
    assert_fails(call_module(&m, c.ret.v_handle, kCases[i].method), kCases[i].text);
  }
  (void)TVMModFree(c.ret.v_handle);
  (void)TVMModFree(library);
}

static void test_devices_of_executors_come_in_pairs(void** state) {
  call none = {0}, half = {0};
  TVMModuleHandle library = load("FIXTURE_PLAIN");
  (void)state;
  for (int i = 0; i < 2; ++i) {
    call* c = i == 0 ? &none : &half;
    arg_str(c, "{}");
    arg_handle(c, kTVMModuleHandle, library);
    if (i == 1) arg_int(c, kDLCPU);
    assert_fails(call_global(c, "tvm.graph_executor.create"), "");
  }
  (void)TVMModFree(library);
}

static void test_aot_network_is_created_by_name(void** state) {
  TVMModuleHandle library = load("FIXTURE_AOT");
  call c = {0}, wrong = {0}, count = {0};
  TVMAotExecutor* executor = NULL;
  DLDevice cpu = {kDLCPU, 0};
  (void)state;
  arg_handle(&c, kTVMModuleHandle, library);
  arg_cpu(&c);
  arg_str(&c, "default");
  assert_ok(call_global(&c, "tvm.aot_executor.create"));
  assert_ok(call_module(&count, c.ret.v_handle, "get_num_inputs"));
  assert_true(count.ret.v_int64 > 0);
  (void)TVMModFree(c.ret.v_handle);
  arg_handle(&wrong, kTVMModuleHandle, library);
  arg_cpu(&wrong);
  assert_fails(call_global(&wrong, "tvm.aot_executor.create"), "takes 3 arguments");
  assert_int_not_equal(TVMAotExecutor_Create(NULL, cpu, &executor, "default"), 0);
  assert_null(executor);
  (void)TVMModFree(library);
  library = load("FIXTURE_PLAIN");
  assert_int_not_equal(TVMAotExecutor_Create(library, cpu, &executor, "default"), 0);
  assert_null(executor);
  (void)TVMModFree(library);
}

static int return_two(TVMValue* args, int* codes, int n, TVMRetValueHandle ret, void* resource) {
  TVMValue values[2] = {{.v_int64 = 1}, {.v_int64 = 2}};
  int types[2] = {kTVMArgInt, kTVMArgInt};
  (void)args, (void)codes, (void)n, (void)resource;
  return TVMCFuncSetReturn(ret, values, types, 2);
}

static void test_functions_return_one_value(void** state) {
  TVMFunctionHandle f = NULL;
  call c = {0};
  (void)state;
  assert_ok(TVMFuncCreateFromCFunc(return_two, NULL, NULL, &f));
  assert_fails(call_handle(&c, f), "returns one value, got 2");
  (void)TVMFuncFree(f);
}

static void test_objects_convert_to_their_values(void** state) {
  TVMByteArray with_nul = {"a\0b", 3};
  call text = {0}, clean = {0}, three = {0}, array = {0}, item = {0}, map = {0}, get = {0};
  TVMObjectHandle key;
  (void)state;
  arg_handle(&text, kTVMBytes, &with_nul);
  assert_ok(call_global(&text, "runtime.String"));
  key = text.ret.v_handle;
  assert_int_equal(text.ret_code, kTVMObjectHandle);
  arg_handle(&clean, kTVMObjectHandle, key);
  assert_ok(call_global(&clean, "runtime.SanitizeName"));
  assert_string_equal(clean.ret.v_str, "a");
  arg_handle(&map, kTVMObjectHandle, key);
  arg_int(&map, 5);
  assert_ok(call_global(&map, "runtime.Map"));
  arg_handle(&get, kTVMObjectHandle, map.ret.v_handle);
  arg_handle(&get, kTVMBytes, &with_nul);
  assert_ok(call_global(&get, "runtime.MapGetItem"));
  arg_int(&three, 0);
  assert_ok(call_global(&three, "runtime.Box"));
  arg_int(&array, 7);
  assert_ok(call_global(&array, "runtime.Array"));
  arg_handle(&item, kTVMObjectHandle, array.ret.v_handle);
  arg_handle(&item, three.ret_code, three.ret.v_handle);
  assert_ok(call_global(&item, "runtime.ArrayGetItem"));
  if (item.ret_code == kTVMObjectHandle) (void)TVMObjectFree(item.ret.v_handle);
  if (get.ret_code == kTVMObjectHandle) (void)TVMObjectFree(get.ret.v_handle);
  (void)TVMObjectFree(array.ret.v_handle);
  if (three.ret_code == kTVMObjectHandle) (void)TVMObjectFree(three.ret.v_handle);
  (void)TVMObjectFree(map.ret.v_handle);
  (void)TVMObjectFree(key);
}

/* A moved object stays with the caller if the function only reads it. */
static void test_moved_object_is_read(void** state) {
  call array = {0}, size = {0};
  TVMObjectHandle moved;
  (void)state;
  arg_int(&array, 7);
  arg_int(&array, 8);
  assert_ok(call_global(&array, "runtime.Array"));
  moved = array.ret.v_handle;
  arg_handle(&size, kTVMObjectRValueRefArg, &moved);
  assert_ok(call_global(&size, "runtime.ArraySize"));
  assert_int_equal(size.ret.v_int64, 2);
  assert_ptr_equal(moved, array.ret.v_handle);
  assert_ok(TVMObjectFree(moved));
}

static void test_tensors_with_gaps_are_refused(void** state) {
  float data[8] = {0};
  int64_t shape[] = {2, 2}, strides[] = {4, 1};
  DLTensor gaps = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 0};
  DLTensor* whole = make_tensor(2, shape, NULL);
  call view = {0}, flat = {0};
  (void)state;
  assert_fails(TVMArrayCopyFromTo(whole, &gaps, NULL), "compact");
  arg_int(&flat, 4);
  assert_ok(call_global(&flat, "runtime.ShapeTuple"));
  arg_handle(&view, kTVMDLTensorHandle, &gaps);
  arg_handle(&view, kTVMObjectHandle, flat.ret.v_handle);
  assert_fails(call_global(&view, "runtime.TVMArrayCreateView"),
               "argument 0 must be an NDArray, got a view.");
  (void)TVMObjectFree(flat.ret.v_handle);
  (void)TVMArrayFree(whole);
}

static void test_moved_null_and_foreign_bytes(void** state) {
  TVMByteArray foreign = {"a", 1};
  TVMObjectHandle none = NULL;
  TVMValue value = {.v_handle = &none};
  int code = kTVMObjectRValueRefArg;
  (void)state;
  assert_ok(TVMCbArgToReturn(&value, &code));
  assert_int_equal(code, kTVMNullptr);
  assert_fails(TVMByteArrayFree(&foreign), "not the last return value of this thread");
}

static int in_image(TVMValue* args, int* codes, int n, TVMValue* out, int* code, void* resource) {
  (void)args, (void)codes, (void)n, (void)resource;
  out->v_int64 = 77;
  *code = kTVMArgInt;
  return 0;
}

/* As code generated for firmware brings it: one function. */
const TVMModule* TVMSystemLibEntryPoint(void);
const TVMModule* TVMSystemLibEntryPoint(void) {
  static const TVMBackendPackedCFunc functions[] = {in_image};
  static const TVMFuncRegistry registry = {"\001in_image", functions};
  static const TVMModule image = {&registry};
  return &image;
}

static void test_functions_of_the_image_are_in_the_system_library(void** state) {
  call lib = {0}, c = {0};
  (void)state;
  assert_ok(call_global(&lib, "runtime.SystemLib"));
  assert_ok(call_module(&c, lib.ret.v_handle, "in_image"));
  assert_int_equal(c.ret.v_int64, 77);
  assert_fails(call_module(&c, lib.ret.v_handle, "absent"), "no such function");
  assert_int_equal(TVMGraphExecutorModule_Register(), 0);
  assert_int_equal(TVMAotExecutorModule_Register(), 0);
  (void)TVMModFree(lib.ret.v_handle);
}

static void test_non_module_is_refused(void** state) {
  TVMModuleHandle mod = NULL;
  (void)state;
  assert_fails(TVMModCreateFromCModule(NULL, &mod), "is NULL");
  assert_null(mod);
  assert_fails(TVMObjectRetain(NULL), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names_may_have_every_letter),
      cmocka_unit_test(test_unterminated_text_is_reported),
      cmocka_unit_test(test_executor_methods_reject_wrong_arguments),
      cmocka_unit_test(test_devices_of_executors_come_in_pairs),
      cmocka_unit_test(test_aot_network_is_created_by_name),
      cmocka_unit_test(test_functions_return_one_value),
      cmocka_unit_test(test_objects_convert_to_their_values),
      cmocka_unit_test(test_moved_object_is_read),
      cmocka_unit_test(test_tensors_with_gaps_are_refused),
      cmocka_unit_test(test_moved_null_and_foreign_bytes),
      cmocka_unit_test(test_functions_of_the_image_are_in_the_system_library),
      cmocka_unit_test(test_non_module_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
