/* Modules of a plug-in's kind: their functions, saving, and networks whose code is the functions
   of such a module. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/metadata.h>
#include <tvm/runtime/module_plugin.h>

#include "support.h"

/* ---- the kind: it looks names up in a table ---- */

typedef struct answer {
  const char* name;
  TVMPackedCFunc front;  /* as a front end makes functions */
  TVMCPackedFunc direct; /* as libraries have them */
} answer;

typedef struct kind {
  const answer* answers; /* the last one has no name */
  const char* text;
} kind;

static int get_function(void* self, const char* name, tvmrt_module_function* out) {
  for (const answer* a = ((const kind*)self)->answers; a->name != NULL; ++a) {
    if (strcmp(a->name, name) != 0) continue;
    out->function = a->direct;
    if (a->front == NULL) return 0;
    return TVMFuncCreateFromCFunc(a->front, NULL, NULL, &out->handle);
  }
  return 0;
}

static int write_text(void* self, tvmrt_module_write write, void* sink) {
  const char* text = ((const kind*)self)->text;
  return write(sink, text, strlen(text));
}

static int write_source(void* self, const char* format, tvmrt_module_write write, void* sink) {
  return write(sink, format, strlen(format)) == 0 ? write_text(self, write, sink) : -1;
}

static const tvmrt_module_vtable front = {
    sizeof(front), "front", TVMRT_MODULE_RUNNABLE, get_function, write_text, write_source, NULL};
static const tvmrt_module_vtable bare = {
    sizeof(bare), "bare", TVMRT_MODULE_RUNNABLE, get_function, NULL, NULL, NULL};

static TVMModuleHandle make(const tvmrt_module_vtable* vtable, kind* self) {
  TVMModuleHandle mod = NULL;
  assert_ok(tvmrt_module_create(vtable, self, &mod));
  return mod;
}

static int call_for_text(TVMModuleHandle mod, const char* function, const char* text, call* c) {
  arg_handle(c, kTVMModuleHandle, mod);
  if (text != NULL) arg_str(c, text);
  return call_global(c, function);
}

/* ---- the module itself ---- */

static const answer no_answers[] = {{NULL, NULL, NULL}};

static void test_incomplete_tables_are_refused(void** state) {
  tvmrt_module_vtable tables[] = {front, front, front};
  TVMModuleHandle mod = NULL;
  (void)state;
  tables[0].struct_bytes = sizeof(front) - 1;
  tables[1].type_key = NULL;
  tables[2].get_function = NULL;
  for (int i = -1; i < 3; ++i) {
    assert_fails(tvmrt_module_create(i < 0 ? NULL : &tables[i], NULL, &mod),
                 "the table needs struct_bytes, type_key and get_function");
    assert_null(mod);
  }
}

static void test_module_source_and_payload(void** state) {
  kind self = {no_answers, "pay"};
  TVMModuleHandle mod = make(&front, &self);
  const TVMByteArray* bytes;
  call source = {0}, save = {0};
  (void)state;
  assert_ok(call_for_text(mod, "runtime.ModuleGetSource", "for ", &source));
  assert_string_equal(source.ret.v_str, "for pay");
  assert_ok(call_for_text(mod, "tvmrt.ModulePayload", NULL, &save));
  bytes = save.ret.v_handle;
  assert_int_equal(bytes->size, 3);
  assert_memory_equal(bytes->data, "pay", 3);
  TVMModFree(mod);
}

static void test_kind_without_output_is_reported(void** state) {
  kind self = {no_answers, ""};
  TVMModuleHandle mod = make(&bare, &self);
  call source = {0}, payload = {0}, save = {0};
  (void)state;
  assert_ok(call_for_text(mod, "runtime.ModuleGetSource", NULL, &source));
  assert_string_equal(source.ret.v_str, "");
  assert_fails(call_for_text(mod, "tvmrt.ModulePayload", NULL, &payload),
               "a module of kind 'bare' cannot be saved");
  assert_fails(call_for_text(mod, "runtime.ModuleSaveToFile", "/no/such/folder/file", &save),
               "a module of kind 'bare' cannot be saved");
  TVMModFree(mod);
}

/* ---- loader ---- */

static int load_numbers(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                        void* resource) {
  static kind self = {no_answers, ""};
  TVMValue value;
  int code = kTVMModuleHandle;
  uint64_t number;
  uint8_t bytes[3];
  (void)codes, (void)num_args;
  if (tvmrt_stream_read_u64(args[0].v_handle, &number) != 0) return -1;
  if (tvmrt_stream_read(args[0].v_handle, bytes, sizeof(bytes)) != 0) return -1;
  if (tvmrt_stream_read(args[0].v_handle, NULL, 0) != 0) return -1;
  *(uint64_t*)resource = number + bytes[0] + bytes[2];
  if (tvmrt_module_create(&bare, &self, &value.v_handle) != 0) return -1;
  if (TVMCFuncSetReturn(ret, &value, &code, 1) != 0) return -1;
  return TVMModFree(value.v_handle);
}

static int load_nothing(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                        void* resource) {
  TVMValue value = {.v_int64 = 7};
  int code = kTVMArgInt;
  (void)args, (void)codes, (void)num_args, (void)resource;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static void register_loader(TVMPackedCFunc loader, void* resource) {
  TVMFunctionHandle f;
  assert_ok(TVMFuncCreateFromCFunc(loader, resource, NULL, &f));
  assert_ok(TVMFuncRegisterGlobal("runtime.module.loadbinary_numbers", f, 1));
  assert_ok(TVMFuncFree(f));
}

/* The system library of a prefix of its own, with these bytes of modules in it. */
static int load_system(const char* prefix, const char* blob, call* c) {
  char name[64];
  (void)snprintf(name, sizeof(name), "%s__tvm_dev_mblob", prefix);
  assert_ok(TVMBackendRegisterSystemLibSymbol(name, (void*)(uintptr_t)blob));
  arg_str(c, prefix);
  return call_global(c, "runtime.SystemLib");
}

static void test_loader_reads_numbers_and_bytes(void** state) {
  static const char blob[] =
      "\42\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0"
      "\7\0\0\0\0\0\0\0numbers"
      "\144\0\0\0\0\0\0\0"
      "\1\2\3";
  static const char cut_off[] =
      "\36\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0numbers\144\0\0\0\0\0";
  uint64_t sum = 0;
  call c = {0}, cut = {0}, wrong = {0};
  TVMModuleHandle import;
  (void)state;
  register_loader(load_numbers, &sum);
  assert_ok(load_system("numbers_", blob, &c));
  assert_int_equal(sum, 104);
  import = import_of(c.ret.v_handle, 0);
  TVMModFree(import);
  TVMModFree(c.ret.v_handle);
  assert_fails(load_system("cut_", cut_off, &cut), "the embedded module tree");
  register_loader(load_nothing, NULL);
  assert_fails(load_system("wrong_", blob, &wrong),
               "loader 'runtime.module.loadbinary_numbers' returned an int instead of a Module");
  assert_ok(TVMFuncRemoveGlobal("runtime.module.loadbinary_numbers"));
}

/* ---- networks ---- */

static int released;

static void count_release(void* resource) {
  (void)resource;
  ++released;
}

/* y = 2 x of two elements; the caller releases the returned function. */
static int twice(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* resource) {
  const float* x = ((DLTensor*)args[0].v_handle)->data;
  float* y = ((DLTensor*)args[1].v_handle)->data;
  TVMValue value;
  int code = kTVMPackedFuncHandle;
  (void)codes, (void)resource;
  if (num_args != 2) return -1;
  for (int i = 0; i < 2; ++i) y[i] = 2 * x[i];
  if (TVMFuncCreateFromCFunc(twice, NULL, count_release, &value.v_handle) != 0) return -1;
  if (TVMCFuncSetReturn(ret, &value, &code, 1) != 0) return -1;
  return TVMFuncFree(value.v_handle);
}

static int fail_with_text(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                          void* resource) {
  (void)args, (void)codes, (void)num_args, (void)ret, (void)resource;
  TVMAPISetLastError("the wires are cut.");
  return -1;
}

static int fail_silently(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                         void* resource) {
  (void)args, (void)codes, (void)num_args, (void)out, (void)out_code, (void)resource;
  return -1;
}

static const answer operators[] = {{"twice", twice, NULL},
                                   {"fail", fail_with_text, NULL},
                                   {"silent", NULL, fail_silently},
                                   {"tw\"i\001ce", twice, NULL},
                                   {NULL, NULL, NULL}};

static TVMModuleHandle make_graph(TVMModuleHandle library, const char* function) {
  char json[1024];
  call c = {0};
  (void)snprintf(
      json, sizeof(json),
      "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, {\"op\": \"tvm_op\","
      " \"name\": \"y\", \"inputs\": [[0, 0, 0]], \"attrs\": {\"func_name\": \"%s\"}}],"
      " \"arg_nodes\": [0], \"heads\": [[1, 0, 0]], \"attrs\": {\"dltype\": [\"list_str\","
      " [\"float32\", \"float32\"]], \"storage_id\": [\"list_int\", [0, 1]], \"shape\":"
      " [\"list_shape\", [[2], [2]]]}, \"node_row_ptr\": [0, 1, 2]}",
      function);
  arg_str(&c, json);
  arg_handle(&c, kTVMModuleHandle, library);
  arg_cpu(&c);
  assert_ok(call_global(&c, "tvm.graph_executor.create"));
  return c.ret.v_handle;
}

static int set_input(TVMModuleHandle ex, const char* function, DLTensor* t) {
  call c = {0};
  arg_int(&c, 0);
  arg_handle(&c, kTVMDLTensorHandle, t);
  return call_module(&c, ex, function);
}

static void check_output(TVMModuleHandle ex, const float* expected) {
  call c = {0};
  arg_int(&c, 0);
  assert_ok(call_module(&c, ex, "get_output"));
  assert_floats(c.ret.v_handle, 2, expected);
  assert_ok(TVMArrayFree(c.ret.v_handle));
}

static int run(TVMModuleHandle ex) {
  call c = {0};
  return call_module(&c, ex, "run");
}

static const int64_t shape2[] = {2};
static const float x_values[] = {3, -4};
static const float doubled[] = {6, -8};

static void test_operators_may_be_functions_of_a_front_end(void** state) {
  kind self = {operators, ""};
  TVMModuleHandle library = make(&front, &self);
  TVMModuleHandle ex = make_graph(library, "twice");
  DLTensor* x = make_tensor(1, shape2, x_values);
  (void)state;
  assert_ok(set_input(ex, "set_input", x));
  released = 0;
  for (int i = 1; i <= 2; ++i) {
    assert_ok(run(ex));
    assert_int_equal(released, i);
  }
  check_output(ex, doubled);
  TVMArrayFree(x);
  TVMModFree(ex);
  TVMModFree(library);
}

static void test_profile_quotes_names(void** state) {
  kind self = {operators, ""};
  TVMModuleHandle library = make(&front, &self);
  TVMModuleHandle ex = make_graph(library, "tw\\\"i\\u0001ce");
  call c = {0};
  (void)state;
  assert_ok(call_module(&c, ex, "profile_rpc"));
  assert_non_null(strstr(c.ret.v_str, "\"tw\\\"i\\u0001ce\""));
  TVMModFree(ex);
  TVMModFree(library);
}

static void test_tensor_of_another_type_is_named(void** state) {
  static const struct {
    uint8_t bits;
    const char* text;
  } kTypes[] = {{64, "got handle (2)"}, {0, "got void (2)"}};
  kind self = {operators, ""};
  TVMModuleHandle library = make(&front, &self);
  TVMModuleHandle ex = make_graph(library, "twice");
  DLTensor* x = make_tensor(1, shape2, x_values);
  (void)state;
  for (int i = 0; i < 2; ++i) {
    DLTensor other = *x;
    other.dtype.code = kDLOpaqueHandle;
    other.dtype.bits = kTypes[i].bits;
    assert_fails(set_input(ex, "set_input", &other), kTypes[i].text);
  }
  TVMArrayFree(x);
  TVMModFree(ex);
  TVMModFree(library);
}

static void test_failing_operators_are_reported(void** state) {
  kind self = {operators, ""};
  TVMModuleHandle library = make(&front, &self);
  TVMModuleHandle fails = make_graph(library, "fail");
  TVMModuleHandle silent = make_graph(library, "silent");
  (void)state;
  assert_fails(run(fails), "the wires are cut.");
  assert_fails(run(silent), "node 'y': function 'silent' failed without an error text.");
  assert_fails(run(fails), "the wires are cut.");
  {
    TVMFunctionHandle one = NULL;
    TVMValue node = {.v_str = "y"}, ret;
    int code = kTVMStr, ret_code;
    assert_ok(TVMModGetFunction(silent, "execute_node", 0, &one));
    assert_fails(TVMFuncCall(one, &node, &code, 1, &ret, &ret_code),
                 "node 'y': function 'silent' failed without an error text.");
    TVMFuncFree(one);
  }
  TVMModFree(fails);
  TVMModFree(silent);
  TVMModFree(library);
}

static void test_memory_of_another_device_is_not_bound(void** state) {
  kind self = {operators, ""};
  TVMModuleHandle library = make(&front, &self);
  TVMModuleHandle ex = make_graph(library, "twice");
  DLTensor* x = make_tensor(1, shape2, x_values);
  DLTensor elsewhere = *x;
  (void)state;
  elsewhere.device.device_type = kDLCUDA;
  elsewhere.device.device_id = 1;
  assert_fails(set_input(ex, "set_input_zero_copy", &elsewhere),
               "input 'x' is on device 1:0, the tensor on 2:1.");
  assert_ok(set_input(ex, "set_input_zero_copy", x));
  assert_ok(run(ex));
  check_output(ex, doubled);
  TVMArrayFree(x);
  TVMModFree(ex);
  TVMModFree(library);
}

/* ---- networks compiled ahead of time ---- */

static int give_metadata(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                         void* resource) {
  static const struct TVMTensorInfo in[] = {{"x_in", shape2, 1, {kDLFloat, 32, 1}}};
  static const struct TVMTensorInfo result[] = {{"output0", shape2, 1, {kDLFloat, 32, 1}}};
  static const struct TVMMetadata metadata = {
      TVM_METADATA_VERSION, in, 1, result, 1, NULL, 0, NULL, 0, "net"};
  (void)args, (void)codes, (void)num_args, (void)resource;
  out->v_handle = (void*)(uintptr_t)&metadata;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

static int give_model_of_another(TVMValue* args, int* codes, int num_args, TVMValue* out,
                                 int* out_code, void* resource) {
  static const struct TVMParameterInfo params[] = {
      {"of another", "other_in", shape2, 1, {kDLFloat, 32, 1}, {kDLCPU, 0}},
      {"of another:0", "other_out", shape2, 1, {kDLFloat, 32, 1}, {kDLCPU, 0}}};
  static const struct TVMFunctionInfo functions[] = {
      {"net_of_another___tvm_main__", params, 1, 1, 0, 16, 0}};
  static const struct TVMModelMetadata model = {TVM_MODEL_METADATA_VERSION, functions, 1, "other"};
  (void)args, (void)codes, (void)num_args, (void)resource;
  out->v_handle = (void*)(uintptr_t)&model;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

static int make_aot(const answer* answers, call* c) {
  static kind self;
  TVMModuleHandle library;
  int rc;
  self.answers = answers;
  library = make(&bare, &self);
  arg_handle(c, kTVMModuleHandle, library);
  arg_cpu(c);
  arg_str(c, "net");
  rc = call_global(c, "tvm.aot_executor.create");
  TVMModFree(library);
  return rc;
}

static void test_main_may_be_a_function_of_a_front_end(void** state) {
  static const answer answers[] = {{"get_c_metadata", NULL, give_metadata},
                                   {"get_model_metadata", NULL, give_model_of_another},
                                   {"net___tvm_main__", twice, NULL},
                                   {NULL, NULL, NULL}};
  DLTensor* x = make_tensor(1, shape2, x_values);
  call c = {0}, name = {0}, profile = {0};
  (void)state;
  assert_ok(make_aot(answers, &c));
  assert_ok(set_input(c.ret.v_handle, "set_input", x));
  released = 0;
  assert_ok(run(c.ret.v_handle));
  assert_int_equal(released, 1);
  check_output(c.ret.v_handle, doubled);
  /* Metadata of another network in the library is not used. */
  arg_int(&name, 0);
  assert_ok(call_module(&name, c.ret.v_handle, "get_input_name"));
  assert_string_equal(name.ret.v_str, "x_in");
  /* Without a slot for times the network is one row. */
  assert_ok(call_module(&profile, c.ret.v_handle, "profile_rpc"));
  assert_non_null(strstr(profile.ret.v_str, "\"net\"}, \"Count\": {\"count\": 1}"));
  TVMArrayFree(x);
  TVMModFree(c.ret.v_handle);
}

static void test_failing_main_is_reported(void** state) {
  static const answer answers[][3] = {
      {{"get_c_metadata", NULL, give_metadata},
       {"net___tvm_main__", fail_with_text, NULL},
       {NULL, NULL, NULL}},
      {{"get_c_metadata", NULL, give_metadata},
       {"net___tvm_main__", NULL, fail_silently},
       {NULL, NULL, NULL}},
      {{"get_c_metadata", NULL, give_metadata}, {NULL, NULL, NULL}},
  };
  call text = {0}, silent = {0}, none = {0};
  (void)state;
  assert_ok(make_aot(answers[0], &text));
  assert_fails(run(text.ret.v_handle), "the wires are cut.");
  TVMModFree(text.ret.v_handle);
  assert_ok(make_aot(answers[1], &silent));
  assert_fails(run(silent.ret.v_handle), "network 'net' failed without an error text.");
  TVMModFree(silent.ret.v_handle);
  assert_fails(make_aot(answers[2], &none),
               "the library has metadata but no main function 'net___tvm_main__'.");
}

static void test_missing_metadata_is_reported(void** state) {
  static const char* const functions[] = {"get_metadata", "get_model_metadata"};
  kind self = {no_answers, ""};
  TVMModuleHandle library = make(&bare, &self);
  call c = {0};
  (void)state;
  assert_ok(call_global(&c, "runtime.MetadataModuleCreate"));
  assert_ok(TVMModImport(c.ret.v_handle, library));
  for (int i = 0; i < 2; ++i) {
    call m = {0};
    assert_fails(call_module(&m, c.ret.v_handle, functions[i]),
                 "the library has no function 'get_c_metadata'");
  }
  TVMModFree(c.ret.v_handle);
  TVMModFree(library);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_incomplete_tables_are_refused),
      cmocka_unit_test(test_module_source_and_payload),
      cmocka_unit_test(test_kind_without_output_is_reported),
      cmocka_unit_test(test_loader_reads_numbers_and_bytes),
      cmocka_unit_test(test_operators_may_be_functions_of_a_front_end),
      cmocka_unit_test(test_profile_quotes_names),
      cmocka_unit_test(test_tensor_of_another_type_is_named),
      cmocka_unit_test(test_failing_operators_are_reported),
      cmocka_unit_test(test_memory_of_another_device_is_not_bound),
      cmocka_unit_test(test_main_may_be_a_function_of_a_front_end),
      cmocka_unit_test(test_failing_main_is_reported),
      cmocka_unit_test(test_missing_metadata_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
