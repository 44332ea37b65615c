/* Library modules: symbols, context, embedded trees, constants, sources, system and image libraries. */
#include <dlfcn.h>
#include <pthread.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/metadata.h>
#include <tvm/runtime/module_plugin.h>

#include "support.h"

static const char* text_of(TVMModuleHandle mod, const char* global) {
  call c = {0};
  arg_handle(&c, kTVMModuleHandle, mod);
  assert_ok(call_global(&c, global));
  return c.ret.v_str;
}

static void test_plain_library_answers_by_symbol(void** state) {
  TVMModuleHandle mod = load("FIXTURE_PLAIN");
  TVMFunctionHandle f;
  TVMFunctionHandle again;
  call c = {0};
  call m = {0};
  (void)state;
  assert_string_equal(text_of(mod, "runtime.ModuleGetTypeKey"), "library");
  assert_ok(TVMModGetFunction(mod, "fixture_return_int", 0, &f));
  assert_ok(TVMModGetFunction(mod, "fixture_return_int", 0, &again));
  assert_ptr_equal(f, again);
  assert_ok(TVMFuncFree(again));
  assert_ok(TVMModGetFunction(mod, "no_such_function", 1, &again));
  assert_null(again);
  assert_ok(call_module(&m, mod, "__tvm_main__"));
  assert_int_equal(m.ret.v_int64, 42);
  assert_ok(TVMModFree(mod)); /* the function keeps the library open */
  assert_ok(call_handle(&c, f));
  assert_int_equal(c.ret.v_int64, 42);
  assert_ok(TVMFuncFree(f));
}

static void test_library_functions_return_values(void** state) {
  TVMModuleHandle mod = load("FIXTURE_PLAIN");
  call c = {0};
  (void)state;
  assert_ok(call_module(&c, mod, "fixture_return_nothing"));
  assert_int_equal(c.ret_code, kTVMNullptr);
  assert_ok(call_module(&c, mod, "fixture_return_text")); /* the library's own: borrowed */
  assert_int_equal(c.ret_code, kTVMStr);
  assert_string_equal(c.ret.v_str, "nobody owns this");
  assert_fails(call_module(&c, mod, "fixture_fail"), "ValueError: fixture_fail was called");
  TVMModFree(mod);
}

static int callee(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* resource) {
  TVMValue value;
  int code = kTVMArgInt;
  (void)args, (void)codes, (void)resource;
  value.v_int64 = 1000 + num_args;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static void test_generated_code_calls_globals_by_name(void** state) {
  TVMModuleHandle mod = load("FIXTURE_PLAIN");
  TVMFunctionHandle f;
  call c = {0};
  (void)state;
  arg_int(&c, 1);
  assert_fails(call_module(&c, mod, "fixture_call_global"), "Cannot find function test.callee");
  assert_ok(TVMFuncCreateFromCFunc(callee, NULL, NULL, &f));
  assert_ok(TVMFuncRegisterGlobal("test.callee", f, 0));
  assert_ok(call_module(&c, mod, "fixture_call_global"));
  assert_int_equal(c.ret.v_int64, 1001);
  assert_ok(TVMFuncRemoveGlobal("test.callee"));
  TVMFuncFree(f);
  assert_ok(call_module(&c, mod, "fixture_call_global")); /* the module keeps what it gave out */
  TVMModFree(mod);
}

static void test_llvm_library_reaches_the_runtime_by_pointers(void** state) {
  TVMModuleHandle mod = load("FIXTURE_LLVM");
  call c = {0};
  call bad = {0};
  (void)state;
  assert_ok(call_module(&c, mod, "__tvm_main__")); /* the text names the function */
  assert_int_equal(c.ret.v_int64, 120);
  arg_int(&bad, 1);
  assert_fails(call_module(&bad, mod, "llvm_entry"), "Assert fail: (num_args == 0)");
  TVMModFree(mod);
}

static void test_tree_is_restored(void** state) {
  TVMModuleHandle root = load("FIXTURE_GRAPH");
  TVMModuleHandle library = import_of(root, 0);
  call json = {0};
  call params = {0};
  (void)state;
  assert_string_equal(text_of(root, "runtime.ModuleGetTypeKey"), "GraphExecutorFactory");
  assert_string_equal(text_of(library, "runtime.ModuleGetTypeKey"), "library");
  assert_ok(call_module(&json, root, "get_graph_json"));
  assert_non_null(strstr(json.ret.v_str, "reshape_nop"));
  assert_ok(call_module(&params, root, "get_graph_params"));
  assert_int_equal(params.ret_code, kTVMObjectHandle);
  TVMObjectFree(params.ret.v_handle);
  TVMModFree(library);
  TVMModFree(root);
}

static void test_blob_without_tree_is_imported_by_library(void** state) {
  TVMModuleHandle root = load("FIXTURE_FLAT");
  TVMModuleHandle import = import_of(root, 0);
  (void)state;
  assert_string_equal(text_of(root, "runtime.ModuleGetTypeKey"), "library");
  assert_string_equal(text_of(import, "runtime.ModuleGetTypeKey"), "metadata_module");
  TVMModFree(import);
  TVMModFree(root);
}

/* A module kind of an accelerator: one symbol, which needs one constant. */
typedef struct accelerator {
  char symbol[16];
  int initialised;
  float first;
} accelerator;

static int accelerator_init(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                            void* resource) {
  accelerator* a = resource;
  call item = {0};
  if (num_args != 1 || codes[0] != kTVMObjectHandle) return -1;
  arg_handle(&item, kTVMObjectHandle, args[0].v_handle);
  arg_int(&item, 0);
  if (call_global(&item, "runtime.ArrayGetItem") != 0) return -1;
  a->first = ((float*)((DLTensor*)item.ret.v_handle)->data)[0];
  ++a->initialised;
  out->v_int64 = 0;
  *out_code = kTVMArgInt;
  return TVMArrayFree(item.ret.v_handle);
}

static int accelerator_run(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                           void* resource) {
  const accelerator* a = resource;
  (void)args, (void)codes, (void)num_args;
  if (a->initialised != 1) return -1;
  out->v_float64 = a->first;
  *out_code = kTVMArgFloat;
  return 0;
}

static int accelerator_get(void* self, const char* name, tvmrt_module_function* out) {
  accelerator* a = self;
  out->resource = a;
  if (strcmp(name, a->symbol) == 0) out->function = accelerator_run;
  if (strcmp(name, "__init_ext_0") == 0) out->function = accelerator_init;
  return 0;
}

static int accelerator_save(void* self, tvmrt_module_write write, void* sink) {
  const accelerator* a = self;
  uint64_t size = strlen(a->symbol);
  return write(sink, &size, sizeof(size)) == 0 ? write(sink, a->symbol, size) : -1;
}

static int load_accelerator(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                            void* resource) {
  static const tvmrt_module_vtable kind = {sizeof(kind),
                                           "fixture_json",
                                           TVMRT_MODULE_SERIALIZABLE | TVMRT_MODULE_RUNNABLE,
                                           accelerator_get,
                                           accelerator_save,
                                           NULL,
                                           free};
  const char* symbol;
  size_t size;
  TVMValue value;
  int code = kTVMModuleHandle;
  accelerator* a = calloc(1, sizeof(*a));
  (void)codes, (void)num_args, (void)resource;
  if (tvmrt_stream_read_string(args[0].v_handle, &symbol, &size) != 0 || size >= 16) return -1;
  memcpy(a->symbol, symbol, size);
  if (tvmrt_module_create(&kind, a, &value.v_handle) != 0) return -1;
  if (TVMCFuncSetReturn(ret, &value, &code, 1) != 0) return -1;
  return TVMModFree(value.v_handle); /* the result holds its own reference */
}

static void test_constants_reach_a_plugin_before_its_first_call(void** state) {
  TVMModuleHandle root;
  TVMFunctionHandle loader;
  TVMFunctionHandle f;
  call c = {0};
  (void)state;
  assert_fails(TVMModLoadFromFile(fixture("FIXTURE_CONST"), "", &root),
               "kind 'fixture_json', which this runtime cannot load");
  assert_ok(TVMFuncCreateFromCFunc(load_accelerator, NULL, NULL, &loader));
  assert_ok(TVMFuncRegisterGlobal("runtime.module.loadbinary_fixture_json", loader, 0));
  assert_ok(TVMFuncFree(loader));
  root = load("FIXTURE_CONST");
  assert_ok(TVMModGetFunction(root, "ext_0", 1, &f));
  assert_non_null(f);
  for (int i = 0; i < 2; ++i) {
    assert_ok(call_handle(&c, f));
    assert_float_equal(c.ret.v_float64, 10, 0);
  }
  assert_ok(TVMFuncRemoveGlobal("runtime.module.loadbinary_fixture_json"));
  TVMFuncFree(f);
  TVMModFree(root);
}

static void test_metadata_is_returned(void** state) {
  TVMModuleHandle root = load("FIXTURE_AOT_POOLS");
  TVMModuleHandle metadata = import_of(root, 0);
  const TVMMetadata* classic;
  const TVMModelMetadata* model;
  call c = {0};
  call m = {0};
  (void)state;
  assert_ok(call_module(&c, metadata, "get_metadata"));
  assert_int_equal(c.ret_code, kTVMOpaqueHandle);
  classic = c.ret.v_handle;
  assert_string_equal(classic->mod_name, "tvmgen_default");
  assert_ok(call_module(&m, metadata, "get_model_metadata"));
  model = m.ret.v_handle;
  assert_int_equal(model->num_functions, 1);
  assert_string_equal(model->functions[0].function_name, "tvmgen_default___tvm_main__");
  assert_int_equal(model->functions[0].workspace_size_bytes, 256);
  assert_int_equal(model->functions[0].io_size_bytes, 3 * 16);
  assert_int_equal(model->functions[0].constant_size_bytes, 52);
  assert_string_equal(model->functions[0].params[0].relay_name_hint, "x_in");
  assert_int_equal(model->functions[0].params[0].device.device_type, kDLCPU);
  TVMModFree(metadata);
  TVMModFree(root);
}

static void test_import_cycles_are_refused(void** state) {
  TVMModuleHandle a = load("FIXTURE_PLAIN");
  TVMModuleHandle b = load("FIXTURE_FLAT"); /* another file: one file is one module */
  (void)state;
  assert_ok(TVMModImport(a, b));
  assert_fails(TVMModImport(b, a), "cycle");
  assert_fails(TVMModImport(a, a), "cycle");
  TVMModFree(a);
  TVMModFree(b);
}

static void test_load_errors_name_cause_and_position(void** state) {
  TVMModuleHandle mod;
  (void)state;
  assert_fails(TVMModLoadFromFile("/no/such/file.so", "", &mod), "/no/such/file.so");
  assert_null(mod);
  assert_fails(TVMModLoadFromFile("/no/suffix", "", &mod), "no suffix");
  assert_fails(TVMModLoadFromFile("x.cubin", "", &mod), "runtime.module.loadfile_cubin");
}

/* Saving a factory gives the bytes that its loader read from the library. */
static void test_saved_payload_equals_restored_one(void** state) {
  const char* variable = *state;
  TVMModuleHandle root = load(variable);
  void* library = dlopen(fixture(variable), RTLD_LAZY | RTLD_LOCAL);
  const void* written = dlsym(library, "__tvm_dev_mblob");
  call c = {0};
  const TVMByteArray* payload;
  uint64_t size;
  assert_non_null(written);
  memcpy(&size, written, sizeof(size));
  arg_handle(&c, kTVMModuleHandle, root);
  assert_ok(call_global(&c, "tvmrt.ModulePayload"));
  payload = c.ret.v_handle;
  assert_in_range(payload->size, 20, size);
  assert_non_null(memmem(written, size, payload->data, payload->size));
  assert_int_equal(dlclose(library), 0);
  TVMModFree(root);
}

static void test_source_module_keeps_its_text(void** state) {
  call c = {0};
  (void)state;
  arg_str(&c, "int f(void);");
  arg_str(&c, "c");
  assert_ok(call_global(&c, "runtime.CSourceModuleCreate"));
  assert_string_equal(text_of(c.ret.v_handle, "runtime.ModuleGetSource"), "int f(void);");
  assert_string_equal(text_of(c.ret.v_handle, "runtime.ModuleGetFormat"), "c");
  TVMModFree(c.ret.v_handle);
}

static int return_seven(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                        void* resource) {
  (void)args, (void)codes, (void)num_args, (void)resource;
  out->v_int64 = 7;
  *out_code = kTVMArgInt;
  return 0;
}

static void test_system_library_finds_prefixed_names(void** state) {
  TVMCPackedFunc f = return_seven;
  void* address;
  call lib = {0};
  call again = {0};
  call c = {0};
  (void)state;
  memcpy(&address, &f, sizeof(address));
  assert_ok(TVMBackendRegisterSystemLibSymbol("net_seven", address));
  arg_str(&lib, "net_");
  assert_ok(call_global(&lib, "runtime.SystemLib"));
  arg_str(&again, "net_");
  assert_ok(call_global(&again, "runtime.SystemLib"));
  assert_ptr_equal(lib.ret.v_handle, again.ret.v_handle);
  assert_ok(call_module(&c, lib.ret.v_handle, "seven"));
  assert_int_equal(c.ret.v_int64, 7);
  assert_ok(call_module(&c, lib.ret.v_handle, "net_seven"));
  TVMModFree(lib.ret.v_handle);
  TVMModFree(again.ret.v_handle);
}

static void test_image_tables_of_both_encodings(void** state) {
  static const TVMCPackedFunc funcs[] = {return_seven, return_seven};
  static const TVMFuncRegistry narrow = {"\002a\000bc\000", funcs};
  static const TVMFuncRegistry wide = {"\002\000a\000bc\000", funcs};
  static const TVMModule modules[] = {{&narrow}, {&wide}};
  (void)state;
  for (int i = 0; i < 2; ++i) {
    TVMModuleHandle mod;
    TVMFunctionHandle absent;
    call c = {0};
    assert_int_equal(TVMFuncRegistry_GetNumFuncs(modules[i].registry), 2);
    assert_ok(TVMModCreateFromCModule(&modules[i], &mod));
    assert_ok(call_module(&c, mod, "bc"));
    assert_int_equal(c.ret.v_int64, 7);
    assert_ok(TVMModGetFunction(mod, "b", 0, &absent));
    assert_null(absent);
    TVMModFree(mod);
  }
}

static void* look_up_in_thread(void* mod) {
  for (int i = 0; i < 2000; ++i) {
    TVMFunctionHandle f;
    if (TVMModGetFunction(mod, i % 2 == 0 ? "fixture_return_int" : "absent", 1, &f) != 0)
      return mod;
    if ((f != NULL) != (i % 2 == 0) || TVMFuncFree(f) != 0) return mod;
  }
  return NULL;
}

static void test_threads_may_look_up_at_once(void** state) {
  TVMModuleHandle mod = load("FIXTURE_GRAPH");
  pthread_t threads[4];
  (void)state;
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(pthread_create(&threads[i], NULL, look_up_in_thread, mod), 0);
  }
  for (int i = 0; i < 4; ++i) {
    void* failed;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  TVMModFree(mod);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain_library_answers_by_symbol),
      cmocka_unit_test(test_library_functions_return_values),
      cmocka_unit_test(test_generated_code_calls_globals_by_name),
      cmocka_unit_test(test_llvm_library_reaches_the_runtime_by_pointers),
      cmocka_unit_test(test_tree_is_restored),
      cmocka_unit_test(test_blob_without_tree_is_imported_by_library),
      cmocka_unit_test(test_constants_reach_a_plugin_before_its_first_call),
      cmocka_unit_test(test_metadata_is_returned),
      cmocka_unit_test(test_import_cycles_are_refused),
      cmocka_unit_test(test_load_errors_name_cause_and_position),
      cmocka_unit_test_prestate(test_saved_payload_equals_restored_one, (char[]){"FIXTURE_GRAPH"}),
      cmocka_unit_test_prestate(test_saved_payload_equals_restored_one, (char[]){"FIXTURE_AOT"}),
      cmocka_unit_test(test_source_module_keeps_its_text),
      cmocka_unit_test(test_system_library_finds_prefixed_names),
      cmocka_unit_test(test_image_tables_of_both_encodings),
      cmocka_unit_test(test_threads_may_look_up_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
