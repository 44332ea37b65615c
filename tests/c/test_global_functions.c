/* Global functions called by name from a front end: their results, and refused arguments. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/module_plugin.h>

#include "support.h"

static void check_refused(const char* name, call* c, const char* text) {
  assert_fails(call_global(c, name), text);
}

static void test_wrong_arguments_are_reported(void** state) {
  static const struct {
    const char* function;
    const char* arguments; /* s: text, i: 3, b: the text as bytes */
    const char* text;
  } kCases[] = {
      {"runtime.ShapeTuple", "s", "an int"},
      {"runtime.GetShapeTupleSize", "i", "argument 0"},
      {"runtime.ArraySize", "s", "argument 0"},
      {"runtime.Map", "s", "alternating keys and values"},
      {"runtime.Box", "s", "must be a number"},
      {"runtime.Unbox", "s", "must be a boxed number"},
      {"runtime.ModuleGetTypeKey", "i", "argument 0"},
      {"runtime.ModuleGetSource", "", "takes"},
      {"runtime.LoadParams", "i", "bytes"},
      {"runtime.LoadParamsFromFile", "i", "a str"},
      {"runtime.CSourceModuleCreate", "ii", "argument 0"},
      {"runtime.RPCTimeEvaluator", "siiiiiiii", "takes 8, 10, 11 or 12 arguments"},
      {"runtime.RPCTimeEvaluator", "ssiiiiii", "argument 7"},
      {"runtime.ModuleLoadFromFile", "i", "a str"},
      {"runtime.TVMArrayAllocWithScope", "sssss", "raw pointer"},
      {"runtime.TVMArrayCreateView", "ss", "argument 0"},
      {"tvmrt.ModulePayload", "i", "argument 0"},
      {"runtime.SaveParams", "i", "argument 0"},
      {"tvmrt.device.load_regions", "i", "takes 2 arguments"},
      {"tvmrt.device.find", "i", "a str"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); ++i) {
    call c = {0};
    for (const char* kind = kCases[i].arguments; *kind != '\0'; ++kind) {
      if (*kind == 's') arg_str(&c, "/no/such/file");
      if (*kind == 'i') arg_int(&c, 3);
    }
    print_message("%s(%s)\n", kCases[i].function, kCases[i].arguments);
    check_refused(kCases[i].function, &c, kCases[i].text);
  }
}

static void test_cpu_streams_do_nothing(void** state) {
  TVMStreamHandle stream = NULL;
  call set = {0}, device = {0}, api = {0};
  (void)state;
  assert_ok(TVMStreamCreate(kDLCPU, 0, &stream));
  assert_ok(TVMSetStream(kDLCPU, 0, stream));
  assert_ok(TVMSynchronize(kDLCPU, 0, stream));
  assert_ok(TVMStreamStreamSynchronize(kDLCPU, 0, stream, stream));
  assert_ok(TVMStreamFree(kDLCPU, 0, stream));
  arg_int(&set, kDLCPU);
  arg_int(&set, 0);
  arg_handle(&set, kTVMOpaqueHandle, NULL);
  assert_ok(call_global(&set, "runtime.TVMSetStream"));
  arg_int(&device, kDLCPU);
  arg_int(&device, 0);
  assert_ok(call_global(&device, "__tvm_set_device"));
  assert_ok(call_global(&api, "device_api.cpu"));
  assert_non_null(api.ret.v_handle);
  assert_fails(TVMSetStream(kDLCUDA, 0, NULL), "cuda");
}

static int held;
static void hold(void* object) { held += object != NULL; }
static void let_go(void* object) { held -= object != NULL; }
static int take_lock(void) { return 5; }
static void give_lock(int state) { assert_int_equal(state, 5); }

static void test_frontend_exception_is_kept_once(void** state) {
  int object = 0;
  (void)state;
  assert_null(TVMGetLastPythonError());
  assert_ok(TVMBackendRegisterEnvCAPI("Py_IncRef", (void*)(uintptr_t)hold));
  assert_ok(TVMBackendRegisterEnvCAPI("Py_DecRef", (void*)(uintptr_t)let_go));
  assert_ok(TVMBackendRegisterEnvCAPI("PyGILState_Ensure", (void*)(uintptr_t)take_lock));
  assert_ok(TVMBackendRegisterEnvCAPI("PyGILState_Release", (void*)(uintptr_t)give_lock));
  assert_fails(TVMBackendRegisterEnvCAPI("Py_Nothing", NULL), "Py_Nothing");
  TVMAPISetLastPythonError(&object);
  TVMAPISetLastPythonError(&object);
  assert_int_equal(held, 1);
  assert_ptr_equal(TVMGetLastPythonError(), &object);
  TVMDropLastPythonError();
  assert_int_equal(held, 0);
  assert_null(TVMGetLastPythonError());
  TVMAPISetLastError("text");
  assert_string_equal(TVMGetLastBacktrace(), "text");
}

static void test_module_functions_by_name(void** state) {
  TVMModuleHandle mod = load("FIXTURE_GRAPH");
  call create = {0}, absent = {0}, has = {0}, lacks = {0}, format = {0}, mask = {0};
  (void)state;
  arg_handle(&create, kTVMModuleHandle, mod);
  arg_str(&create, "default");
  assert_ok(call_global(&create, "runtime.ModuleGetFunction"));
  assert_int_equal(create.ret_code, kTVMPackedFuncHandle);
  (void)TVMFuncFree(create.ret.v_handle);
  arg_handle(&absent, kTVMModuleHandle, mod);
  arg_str(&absent, "absent");
  arg_int(&absent, 1);
  assert_ok(call_global(&absent, "runtime.ModuleGetFunction"));
  assert_int_equal(absent.ret_code, kTVMNullptr);
  arg_handle(&has, kTVMModuleHandle, mod);
  arg_str(&has, "default");
  assert_ok(call_global(&has, "runtime.ModuleImplementsFunction"));
  assert_int_equal(has.ret.v_int64, 1);
  arg_handle(&lacks, kTVMModuleHandle, mod);
  arg_str(&lacks, "absent");
  assert_ok(call_global(&lacks, "runtime.ModuleImplementsFunction"));
  assert_int_equal(lacks.ret.v_int64, 0);
  arg_handle(&format, kTVMModuleHandle, mod);
  assert_ok(call_global(&format, "runtime.ModuleGetFormat"));
  assert_string_equal(format.ret.v_str, "");
  arg_handle(&mask, kTVMModuleHandle, mod);
  assert_ok(call_global(&mask, "runtime.ModuleGetPropertyMask"));
  assert_int_equal(mask.ret.v_int64, TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_RUNNABLE);
  (void)TVMModFree(mod);
}

static void test_tensor_is_allocated_as_in_tvm_0_8(void** state) {
  int64_t shape[] = {2, 3};
  TVMValue dtype = {.v_type = {kDLFloat, 32, 1}};
  call c = {0}, scope = {0};
  unsigned index = 99;
  (void)state;
  arg_handle(&c, kTVMOpaqueHandle, shape);
  arg_int(&c, 2);
  arg(&c, kTVMDataType, dtype);
  arg_cpu(&c);
  arg_handle(&c, kTVMNullptr, NULL);
  assert_ok(call_global(&c, "runtime.TVMArrayAllocWithScope"));
  assert_int_equal(((DLTensor*)c.ret.v_handle)->shape[1], 3);
  assert_ok(TVMArrayGetTypeIndex(c.ret.v_handle, &index));
  assert_int_equal(index, 2);
  (void)TVMArrayFree(c.ret.v_handle);
  arg_handle(&scope, kTVMOpaqueHandle, shape);
  arg_int(&scope, 2);
  arg(&scope, kTVMDataType, dtype);
  arg_cpu(&scope);
  arg_str(&scope, "texture");
  check_refused("runtime.TVMArrayAllocWithScope", &scope, "no memory scope 'texture'");
}

static void test_evaluator_cools_down_and_flushes(void** state) {
  /* number, repeat, least ms, limit, cool-down ms, repeats to it, bytes to flush */
  static const int kOptions[] = {kDLCPU, 0, 1, 3, 0, 100, 1, 1, 4096};
  TVMModuleHandle mod = load("FIXTURE_PLAIN");
  call timer = {0}, measure = {0}, prepare = {0};
  (void)state;
  arg_handle(&timer, kTVMModuleHandle, mod);
  arg_str(&timer, "no_such_function");
  for (int i = 0; i < 9; ++i) arg_int(&timer, kOptions[i]);
  arg_str(&timer, "");
  check_refused("runtime.RPCTimeEvaluator", &timer, "no_such_function");
  arg_handle(&prepare, kTVMNullptr, NULL);
  arg_str(&prepare, "runtime.NumThreads");
  for (int i = 0; i < 9; ++i) arg_int(&prepare, kOptions[i]);
  arg_str(&prepare, "no.such.function");
  check_refused("runtime.RPCTimeEvaluator", &prepare, "no.such.function");
  prepare.args[11].v_str = "";
  assert_ok(call_global(&prepare, "runtime.RPCTimeEvaluator"));
  assert_ok(call_handle(&measure, prepare.ret.v_handle));
  assert_int_equal(measure.ret_code, kTVMBytes);
  assert_int_equal(((const TVMByteArray*)measure.ret.v_handle)->size, 3 * sizeof(double));
  (void)TVMFuncFree(prepare.ret.v_handle);
  (void)TVMModFree(mod);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wrong_arguments_are_reported),
      cmocka_unit_test(test_cpu_streams_do_nothing),
      cmocka_unit_test(test_frontend_exception_is_kept_once),
      cmocka_unit_test(test_module_functions_by_name),
      cmocka_unit_test(test_tensor_is_allocated_as_in_tvm_0_8),
      cmocka_unit_test(test_evaluator_cools_down_and_flushes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
