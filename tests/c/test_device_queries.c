/* Compiler queries to devices: descriptions, refusals, partitions, precisions; devices made of
   functions. */
#include "probe_device.h"

static void query(const char* function, const char* text, const char* expected) {
  call c = {0};
  if (text != NULL) arg_str(&c, text);
  assert_ok(call_global(&c, function));
  assert_int_equal(c.ret_code, kTVMStr);
  assert_string_equal(c.ret.v_str, expected);
}

static void test_compiler_queries_by_packed_functions(void** unused) {
  char text[1024];
  (void)unused;
  query("device.probe.describe", NULL,
        "{\"name\": \"probe\", \"version\": 2, \"layout\": \"dense\", \"async\": 0, "
        "\"any_size\": 0, \"own_split\": 1, \"ops\": "
        "[\"add\", "
        "\"neg\"], \"dtypes\": [\"float32\"], \"precisions\": [], \"chips\": []}");
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "add");
  query("device.probe.judge", text, "{\"reason\": \"\", \"node\": -1}");
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "neg");
  query("device.probe.judge", text, "{\"reason\": \"it cannot count backwards.\", \"node\": -1}");
}

/* A graph by its nodes: operator and two inputs each, node i computes tensor i + 1 of tensor 0. */
static void split(const char* const* ops, const int (*inputs)[2], int count, const char* expected) {
  char text[4096];
  size_t at = 0;
#define PUT(...) at += (size_t)snprintf(text + at, sizeof(text) - at, __VA_ARGS__)
  PUT("{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"probe\", \"regions\": [{");
  PUT("\"symbol\": \"g\", \"inputs\": [0], \"outputs\": [%d], \"tensors\": [", count);
  for (int i = 0; i <= count; ++i) {
    PUT("%s{\"name\": \"t\", \"dtype\": \"float32\", \"shape\": [1]}", i == 0 ? "" : ", ");
  }
  PUT("], \"nodes\": [");
  for (int i = 0; i < count; ++i) {
    PUT("%s{\"op\": \"%s\", \"inputs\": [%d, %d], \"outputs\": [%d]}", i == 0 ? "" : ", ", ops[i],
        inputs[i][0], inputs[i][1], i + 1);
  }
  PUT("]}]}");
#undef PUT
  query("device.probe.split_graph", text, expected);
}

static int query_precision(const char* precision, const char** out) {
  char text[1024];
  call c = {0};
  int rc;
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "add");
  arg_str(&c, text);
  arg_handle(&c, kTVMNullptr, NULL); /* no constants */
  arg_str(&c, precision);
  rc = call_global(&c, "device.probe.optimize_graph");
  *out = rc == 0 ? c.ret.v_str : NULL;
  return rc;
}

static void test_precision_is_chosen_per_node(void** unused) {
  const char* answer;
  (void)unused;
  assert_ok(query_precision("int8", &answer));
  assert_string_equal(answer, "[1]");
  assert_ok(query_precision("float16", &answer));
  assert_string_equal(answer, "[0]");
  state.fails = OPTIMIZE;
  assert_fails(query_precision("int8", &answer), "optimize_graph of region 'r0' failed: the wires");
}

static void test_failing_queries_are_named(void** unused) {
  TVMModuleHandle mod;
  char text[1024];
  call split_call = {0};
  call describe_call = {0};
  (void)unused;
  (void)snprintf(text, sizeof(text), REGION_TEXT, plain, "add");
  arg_str(&split_call, text);
  state.fails = SPLIT;
  assert_fails(call_global(&split_call, "device.probe.split_graph"),
               "split_graph of region 'r0' failed: the wires are cut.");
  state.fails = DESCRIBE;
  assert_fails(call_global(&describe_call, "device.probe.describe"),
               "device 'probe': describe failed: the wires are cut.");
  assert_fails(load_with(plain, "add", &mod), "device 'probe': describe failed");
}

static void test_default_split_makes_convex_groups(void** unused) {
  (void)unused;
  split((const char*[]){"add", "add", "mul", "add"},
        (const int[][2]){{0, 0}, {1, 1}, {2, 2}, {3, 3}}, 4, "[0, 0, -1, 1]");
  /* The last node reads the group directly and through the CPU. */
  split((const char*[]){"add", "mul", "add"}, (const int[][2]){{0, 0}, {1, 1}, {1, 2}}, 3,
        "[0, -1, 1]");
  /* Two branches meet in one group. */
  split((const char*[]){"add", "add", "add"}, (const int[][2]){{0, 0}, {0, 0}, {1, 2}}, 3,
        "[0, 0, 0]");
  /* Each branch crosses the CPU: one group of all four would wait for itself. */
  split((const char*[]){"add", "mul", "add", "mul", "add", "add"},
        (const int[][2]){{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 1}, {5, 3}}, 6,
        "[0, -1, 1, -1, 2, 2]");
}

static int scripted_calls;

static int scripted_run(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                        void* resource) {
  const DLTensor* x = args[1].v_handle;
  const DLTensor* y = args[2].v_handle;
  (void)ret;
  (void)resource;
  assert_int_equal(num_args, 3);
  assert_int_equal(codes[1], kTVMDLTensorHandle);
  assert_string_equal(args[0].v_str, "r0");
  for (int i = 0; i < 2; ++i) {
    ((float*)y->data)[i] = ((const float*)x->data)[i] + 10.0f * (float)(i + 1);
  }
  ++scripted_calls;
  return 0;
}

static int scripted_pre_run(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                            void* resource) {
  const TVMByteArray* constants = args[2].v_handle;
  (void)ret;
  (void)resource;
  assert_int_equal(num_args, 4);
  assert_int_equal(codes[2], kTVMBytes);
  assert_int_equal(constants->size, 72);
  assert_memory_equal(args[1].v_str, "{\"symbol\": \"r0\"", 15);
  return 0;
}

static void test_packed_functions_are_a_device(void** unused) {
  TVMModuleHandle mod;
  TVMFunctionHandle f;
  (void)unused;
  assert_ok(TVMFuncCreateFromCFunc(scripted_run, NULL, NULL, &f));
  assert_ok(TVMFuncRegisterGlobal("device.scripted.run", f, 0));
  assert_ok(TVMFuncFree(f));
  assert_ok(TVMFuncCreateFromCFunc(scripted_pre_run, NULL, NULL, &f));
  assert_ok(TVMFuncRegisterGlobal("device.scripted.pre_run", f, 0));
  assert_ok(TVMFuncFree(f));
  assert_ok(load_with("\"device\": \"scripted\"", "add", &mod));
  assert_ok(run_region(mod, 2));
  assert_int_equal(scripted_calls, 1);
  TVMModFree(mod);
  assert_ok(TVMFuncRemoveGlobal("device.scripted.run"));
  assert_fails(load_with("\"device\": \"scripted\"", "add", &mod),
               "device.scripted.run was removed");
  assert_ok(tvmrt_device_unregister("scripted"));
  assert_ok(TVMFuncRemoveGlobal("device.scripted.pre_run"));
}

static void test_the_cpu_is_a_device(void** unused) {
  tvmrt_device other = {.struct_bytes = sizeof(other), .name = "cpu"};
  tvmrt_device* cpu;
  (void)unused;
  assert_ok(tvmrt_device_find("cpu", &cpu));
  assert_string_equal(cpu->name, "cpu");
  other.interface = cpu->interface;
  assert_fails(tvmrt_device_register(&other), "there is a device 'cpu' already");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_PROBE(test_compiler_queries_by_packed_functions),
      WITH_PROBE(test_precision_is_chosen_per_node),
      WITH_PROBE(test_failing_queries_are_named),
      WITH_PROBE(test_default_split_makes_convex_groups),
      cmocka_unit_test(test_packed_functions_are_a_device),
      cmocka_unit_test(test_the_cpu_is_a_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
