/* Make every allocation between a file and a result fail once: always an error, no crash, no
   leak. */
#include <tvm/runtime/device.h>

#include "allocation_faults.h"

static const char* network; /* which fixture */
static DLTensor* input;

static int run_executor(TVMModuleHandle executor) {
  call set = {0}, run = {0}, get = {0};
  int rc;
  arg_int(&set, 0);
  arg_handle(&set, kTVMNDArrayHandle, input);
  rc = call_module(&set, executor, "set_input");
  if (rc == 0) rc = call_module(&run, executor, "run");
  arg_int(&get, 0);
  if (rc == 0) rc = call_module(&get, executor, "get_output");
  if (rc == 0) (void)TVMArrayFree(get.ret.v_handle);
  return rc;
}

static int run_network(void) {
  TVMModuleHandle factory = NULL;
  call create = {0};
  int rc = TVMModLoadFromFile(fixture(network), "so", &factory);
  if (rc != 0) return rc;
  arg_cpu(&create);
  rc = call_module(&create, factory, "default");
  (void)TVMModFree(factory);
  if (rc != 0) return rc;
  rc = run_executor(create.ret.v_handle);
  (void)TVMModFree(create.ret.v_handle);
  return rc;
}

static void test_network_survives_each_failed_allocation(void** state) {
  static const int64_t shape23[] = {2, 3};
  static const int64_t shape4[] = {4};
  network = *state;
  input = strstr(network, "GRAPH") != NULL ? make_tensor(2, shape23, NULL)
                                           : make_tensor(1, shape4, NULL);
  memset(input->data, 0, 16);
  sweep(network, run_network, NULL);
  TVMArrayFree(input);
}

static int identity(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                    void* resource) {
  (void)num_args, (void)resource;
  return TVMCFuncSetReturn(ret, args, codes, 1);
}

static int use_registry(void) {
  TVMFunctionHandle f;
  call c = {0};
  int rc = TVMFuncCreateFromCFunc(identity, NULL, NULL, &f);
  if (rc != 0) return rc;
  rc = TVMFuncRegisterGlobal("oom.identity", f, 1);
  (void)TVMFuncFree(f);
  arg_str(&c, "a text that is returned");
  if (rc == 0) rc = call_global(&c, "oom.identity");
  if (rc == 0) assert_string_equal(c.ret.v_str, "a text that is returned");
  (void)TVMFuncRemoveGlobal("oom.identity");
  return rc;
}

static void test_registry_survives_each_failed_allocation(void** state) {
  (void)state;
  sweep("registry", use_registry, NULL);
}

static int copy_input(tvmrt_device* device, tvmrt_region* region) {
  (void)device;
  memcpy(tvmrt_region_data(region, 2), tvmrt_region_data(region, 0), 8);
  return 0;
}

static int load_region(TVMModuleHandle* out) {
  static const char text[] =
      "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"copier\", \"options\": {},"
      " \"regions\": [{\"symbol\": \"r\", \"tensors\": [{\"name\": \"x\", \"dtype\": \"float32\","
      " \"shape\": [2]}, {\"name\": \"w\", \"dtype\": \"int8\", \"shape\": [8], \"offset\": 0,"
      " \"bytes\": 8}, {\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [2]}], \"nodes\":"
      " [{\"op\": \"copy\", \"inputs\": [0, 1], \"outputs\": [2], \"attrs\": {\"a\": [1, 2.5],"
      " \"b\": \"text\"}}], \"inputs\": [0], \"outputs\": [2]}]}";
  TVMByteArray constants = {"\1\2\3\4\5\6\7\10", 8};
  call c = {0};
  int rc;
  arg_str(&c, text);
  arg_handle(&c, kTVMBytes, &constants);
  rc = call_global(&c, "tvmrt.device.load_regions");
  *out = rc == 0 ? c.ret.v_handle : NULL;
  return rc;
}

static DLTensor* region_input;
static DLTensor* region_output;

static int use_device(void) {
  static const tvmrt_device_interface slots = {.run = copy_input};
  static const tvmrt_device copier = {
      .struct_bytes = sizeof(copier), .name = "copier", .interface = &slots};
  TVMModuleHandle mod;
  call c = {0};
  int rc = tvmrt_device_register(&copier);
  if (rc != 0) return rc;
  rc = load_region(&mod);
  arg_handle(&c, kTVMNDArrayHandle, region_input);
  arg_handle(&c, kTVMNDArrayHandle, region_output);
  if (rc == 0) rc = call_module(&c, mod, "r");
  (void)TVMModFree(mod);
  assert_int_equal(tvmrt_device_unregister("copier"), 0);
  return rc;
}

static void test_device_survives_each_failed_allocation(void** state) {
  const int64_t shape = 2;
  const float values[2] = {3, 4};
  (void)state;
  region_input = make_tensor(1, &shape, values);
  region_output = make_tensor(1, &shape, NULL);
  sweep("device", use_device, NULL);
  assert_floats(region_output, 2, values);
  TVMArrayFree(region_input);
  TVMArrayFree(region_output);
}

/* ---- everything else, by the names of global functions ---- */

/* Results that a scenario still owns. */
typedef struct bag {
  TVMValue values[24];
  int codes[24];
  int count;
} bag;

static void drop(TVMValue value, int code) {
  if (code == kTVMModuleHandle) (void)TVMModFree(value.v_handle);
  if (code == kTVMPackedFuncHandle) (void)TVMFuncFree(value.v_handle);
  if (code == kTVMNDArrayHandle) (void)TVMArrayFree(value.v_handle);
  if (code == kTVMObjectHandle) (void)TVMObjectFree(value.v_handle);
}

static void empty(bag* b) {
  while (b->count > 0) {
    --b->count;
    drop(b->values[b->count], b->codes[b->count]);
  }
}

/* Store the result of a call. */
static int keep(bag* b, const call* c, int rc) {
  if (rc != 0) return rc;
  b->values[b->count] = c->ret;
  b->codes[b->count++] = c->ret_code;
  return 0;
}

static int global(bag* b, call* c, const char* name) { return keep(b, c, call_global(c, name)); }
static int method(bag* b, call* c, const char* name) {
  return keep(b, c, call_module(c, b->values[0].v_handle, name));
}
static void arg_kept(call* c, const bag* b, int i) { arg(c, b->codes[i], b->values[i]); }

static int make_string_list(bag* b, const char* text) {
  call list = {0};
  arg_str(&list, text);
  return global(b, &list, "runtime.Array");
}

static int make_map(bag* b, const char* key, int value) {
  call map = {0};
  arg_str(&map, key);
  arg_kept(&map, b, value);
  return global(b, &map, "runtime.Map");
}

static int use_containers(void) {
  bag b = {0};
  call box = {0}, shape = {0}, adt = {0}, items = {0}, item = {0}, unbox = {0};
  int rc = make_string_list(&b, "value");
  if (rc == 0) rc = make_map(&b, "key", 0);
  arg_int(&box, 7);
  if (rc == 0) rc = global(&b, &box, "runtime.Box");
  arg_int(&shape, 2);
  arg_int(&shape, 3);
  if (rc == 0) rc = global(&b, &shape, "runtime.ShapeTuple");
  arg_int(&adt, 1);
  arg_kept(&adt, &b, 0);
  if (rc == 0) rc = global(&b, &adt, "runtime.ADT");
  arg_kept(&items, &b, 1);
  if (rc == 0) rc = global(&b, &items, "runtime.MapItems");
  arg_kept(&item, &b, 1);
  arg_str(&item, "key");
  if (rc == 0) rc = global(&b, &item, "runtime.MapGetItem");
  arg_kept(&unbox, &b, 2);
  if (rc == 0) rc = global(&b, &unbox, "runtime.Unbox");
  if (rc == 0) assert_int_equal(b.values[b.count - 1].v_int64, 7);
  empty(&b);
  return rc;
}

static int use_params(void) {
  const int64_t shape = 2;
  bag b = {0};
  call save = {0}, load = {0}, to_file = {0}, from_file = {0};
  DLTensor* w = NULL;
  int rc = TVMArrayAlloc(&shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &w);
  if (rc != 0) return rc;
  memset(w->data, 0, 8);
  b.values[0].v_handle = w;
  b.codes[0] = kTVMNDArrayHandle;
  b.count = 1;
  rc = make_map(&b, "w", 0);
  arg_kept(&save, &b, 1);
  if (rc == 0) rc = call_global(&save, "runtime.SaveParams");
  arg(&load, kTVMBytes, save.ret);
  if (rc == 0) rc = global(&b, &load, "runtime.LoadParams");
  arg_kept(&to_file, &b, 1);
  arg_str(&to_file, "out_of_memory.params");
  if (rc == 0) rc = call_global(&to_file, "runtime.SaveParamsToFile");
  arg_str(&from_file, "out_of_memory.params");
  if (rc == 0) rc = global(&b, &from_file, "runtime.LoadParamsFromFile");
  (void)remove("out_of_memory.params");
  empty(&b);
  return rc;
}

/* A module of C source, written to a file, and the payload of a factory. */
static int use_modules(void) {
  bag b = {0};
  call source = {0}, save = {0}, load = {0}, payload = {0};
  int rc;
  arg_str(&source, "int f;");
  arg_str(&source, "c");
  rc = global(&b, &source, "runtime.CSourceModuleCreate");
  arg_kept(&save, &b, 0);
  arg_str(&save, "out_of_memory.c");
  if (rc == 0) rc = call_global(&save, "runtime.ModuleSaveToFile");
  arg_str(&load, fixture("FIXTURE_GRAPH"));
  arg_str(&load, "so");
  if (rc == 0) rc = global(&b, &load, "runtime.ModuleLoadFromFile");
  arg_kept(&payload, &b, 1);
  if (rc == 0) rc = call_global(&payload, "tvmrt.ModulePayload");
  (void)remove("out_of_memory.c");
  empty(&b);
  return rc;
}

static int use_factories(void) {
  bag b = {0};
  call load = {0}, aot = {0}, metadata = {0}, json = {0}, params = {0}, graph = {0}, create = {0};
  int rc;
  arg_str(&load, fixture("FIXTURE_GRAPH"));
  arg_str(&load, "so");
  rc = global(&b, &load, "runtime.ModuleLoadFromFile");
  if (rc == 0) rc = method(&b, &json, "get_graph_json");
  if (rc == 0) rc = method(&b, &params, "get_graph_params");
  arg_kept(&aot, &b, 0);
  arg_str(&aot, "net");
  arg_str(&aot, "w");
  arg_handle(&aot, kTVMNDArrayHandle, input);
  if (rc == 0) rc = global(&b, &aot, "tvm.aot_executor_factory.create");
  if (rc == 0) rc = global(&b, &metadata, "runtime.MetadataModuleCreate");
  arg_kept(&graph, &b, 1);
  arg_kept(&graph, &b, 0);
  arg_str(&graph, "net");
  arg_str(&graph, "w");
  arg_handle(&graph, kTVMNDArrayHandle, input);
  if (rc == 0) rc = global(&b, &graph, "tvm.graph_executor_factory.create");
  arg_kept(&create, &b, 1);
  arg_kept(&create, &b, 0);
  arg_int(&create, kDLCPU);
  arg_int(&create, 0);
  if (rc == 0) rc = global(&b, &create, "tvm.graph_executor.create");
  empty(&b);
  return rc;
}

static int use_debug_executor(void) {
  bag b = {0};
  TVMModuleHandle factory = NULL;
  call create = {0}, individual = {0}, one = {0}, node = {0}, profile = {0}, name = {0}, info = {0};
  int rc = TVMModLoadFromFile(fixture("FIXTURE_GRAPH"), "so", &factory);
  arg_str(&create, "default");
  arg_cpu(&create);
  if (rc == 0) rc = keep(&b, &create, call_module(&create, factory, "debug_create"));
  (void)TVMModFree(factory);
  if (rc == 0) rc = run_executor(b.values[0].v_handle);
  for (int i = 0; i < 3; ++i) arg_int(&individual, i < 2);
  if (rc == 0) rc = method(&b, &individual, "run_individual");
  arg_int(&one, 2);
  for (int i = 0; i < 3; ++i) arg_int(&one, i < 2);
  if (rc == 0) rc = method(&b, &one, "run_individual_node");
  arg_str(&node, "sum");
  if (rc == 0) rc = method(&b, &node, "get_node_output");
  if (rc == 0) rc = call_module(&profile, b.values[0].v_handle, "profile_rpc");
  arg_int(&name, 0);
  if (rc == 0) rc = method(&b, &name, "get_input_name");
  if (rc == 0) rc = method(&b, &info, "get_input_info");
  empty(&b);
  return rc;
}

static int use_scheduler(void) {
  bag b = {0};
  TVMModuleHandle factory = NULL;
  call create = {0}, choose = {0}, run = {0}, wait = {0};
  int rc = TVMModLoadFromFile(fixture("FIXTURE_GRAPH"), "so", &factory);
  arg_cpu(&create);
  if (rc == 0) rc = keep(&b, &create, call_module(&create, factory, "default"));
  (void)TVMModFree(factory);
  arg_str(&choose, "async");
  if (rc == 0) rc = method(&b, &choose, "set_scheduler");
  if (rc == 0) rc = run_executor(b.values[0].v_handle);
  if (rc == 0) rc = method(&b, &run, "run_async");
  if (rc == 0) rc = method(&b, &wait, "wait");
  empty(&b);
  return rc;
}

static int use_evaluator(void) {
  static const int kOptions[] = {kDLCPU, 0, 1, 2, 0};
  bag b = {0};
  TVMModuleHandle factory = NULL;
  call create = {0}, timer = {0}, time = {0};
  int rc = TVMModLoadFromFile(fixture("FIXTURE_GRAPH"), "so", &factory);
  arg_cpu(&create);
  if (rc == 0) rc = keep(&b, &create, call_module(&create, factory, "default"));
  (void)TVMModFree(factory);
  if (rc == 0) rc = run_executor(b.values[0].v_handle);
  arg_kept(&timer, &b, 0);
  arg_str(&timer, "run");
  for (int i = 0; i < 5; ++i) arg_int(&timer, kOptions[i]);
  arg_str(&timer, "");
  if (rc == 0) rc = global(&b, &timer, "runtime.RPCTimeEvaluator");
  if (rc == 0) rc = call_handle(&time, b.values[1].v_handle);
  empty(&b);
  return rc;
}

static int use_tensors(void) {
  bag b = {0};
  call shape = {0}, tensor = {0}, view = {0};
  DLManagedTensor* lent = NULL;
  DLTensor* back = NULL;
  TVMValue dtype = {.v_type = {kDLFloat, 32, 1}};
  int rc;
  arg_int(&shape, 4);
  rc = global(&b, &shape, "runtime.ShapeTuple");
  arg_kept(&tensor, &b, 0);
  arg(&tensor, kTVMDataType, dtype);
  arg_cpu(&tensor);
  arg_str(&tensor, "global");
  if (rc == 0) rc = global(&b, &tensor, "runtime.TVMArrayAllocWithScope");
  arg_kept(&view, &b, 1);
  arg_kept(&view, &b, 0);
  if (rc == 0) rc = global(&b, &view, "runtime.TVMArrayCreateView");
  if (rc == 0) rc = TVMArrayToDLPack(b.values[1].v_handle, &lent);
  if (rc == 0) {
    rc = TVMArrayFromDLPack(lent, &back);
    if (rc != 0) TVMDLManagedTensorCallDeleter(lent);
  }
  if (rc == 0) (void)TVMArrayFree(back);
  empty(&b);
  return rc;
}

static const struct {
  const char* name;
  scenario use;
} functions[] = {
    {"containers", use_containers},
    {"parameters", use_params},
    {"modules", use_modules},
    {"factories", use_factories},
    {"debug executor", use_debug_executor},
    {"scheduler", use_scheduler},
    {"evaluator", use_evaluator},
    {"tensors", use_tensors},
};

static void test_functions_survive_each_failed_allocation(void** state) {
  static const int64_t shape23[] = {2, 3};
  (void)state;
  input = make_tensor(2, shape23, NULL);
  memset(input->data, 0, 24);
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
    sweep(functions[i].name, functions[i].use, NULL);
  }
  TVMArrayFree(input);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_registry_survives_each_failed_allocation),
      cmocka_unit_test(test_device_survives_each_failed_allocation),
      cmocka_unit_test_prestate(test_network_survives_each_failed_allocation,
                                (char[]){"FIXTURE_GRAPH"}),
      cmocka_unit_test_prestate(test_network_survives_each_failed_allocation,
                                (char[]){"FIXTURE_AOT"}),
      cmocka_unit_test_prestate(test_network_survives_each_failed_allocation,
                                (char[]){"FIXTURE_AOT_POOLS"}),
      cmocka_unit_test(test_functions_survive_each_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
