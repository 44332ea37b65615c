/* Every allocation on the way from a file to a result fails once: an error each time, no crash, no
 * leak. The runtime is linked statically, with its allocations going through the counters below. */
#include <stdio.h>
#include <tvm/runtime/device.h>

#include "support.h"

void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* ptr, size_t size);
int __real_posix_memalign(void** out, size_t align, size_t size);
void* __wrap_malloc(size_t size);
void* __wrap_calloc(size_t count, size_t size);
void* __wrap_realloc(void* ptr, size_t size);
int __wrap_posix_memalign(void** out, size_t align, size_t size);

static long allowed = -1; /* allocations until the one that fails; negative: none fails */
static int failed;

static int fails_now(void) {
  if (allowed < 0) return 0;
  if (allowed-- > 0) return 0;
  failed = 1;
  return 1; /* and allowed is -1 now: the others succeed */
}

void* __wrap_malloc(size_t size) { return fails_now() ? NULL : __real_malloc(size); }
void* __wrap_calloc(size_t count, size_t size) {
  return fails_now() ? NULL : __real_calloc(count, size);
}
void* __wrap_realloc(void* ptr, size_t size) {
  return fails_now() ? NULL : __real_realloc(ptr, size);
}
int __wrap_posix_memalign(void** out, size_t align, size_t size) {
  return fails_now() ? 12 : __real_posix_memalign(out, align, size);
}

static int run_network(const char* path, DLTensor* x) {
  TVMModuleHandle factory = NULL;
  call create = {0};
  call set = {0};
  call run = {0};
  call get = {0};
  int rc = TVMModLoadFromFile(path, "so", &factory);
  if (rc != 0) return rc;
  arg_cpu(&create);
  rc = call_module(&create, factory, "default");
  (void)TVMModFree(factory);
  if (rc != 0) return rc;
  arg_int(&set, 0);
  arg_handle(&set, kTVMNDArrayHandle, x);
  rc = call_module(&set, create.ret.v_handle, "set_input");
  if (rc == 0) rc = call_module(&run, create.ret.v_handle, "run");
  arg_int(&get, 0);
  if (rc == 0) rc = call_module(&get, create.ret.v_handle, "get_output");
  if (rc == 0) (void)TVMArrayFree(get.ret.v_handle);
  (void)TVMModFree(create.ret.v_handle);
  return rc;
}

static void test_network_survives_each_failed_allocation(void** state) {
  static const int64_t shape23[] = {2, 3};
  static const int64_t shape4[] = {4};
  const char* variable = *state;
  const char* path = fixture(variable);
  int is_graph = strcmp(variable, "FIXTURE_GRAPH") == 0;
  DLTensor* x = is_graph ? make_tensor(2, shape23, NULL) : make_tensor(1, shape4, NULL);
  long failures = 0;
  memset(x->data, 0, 16);
  for (long n = 0;; ++n) {
    int rc;
    failed = 0;
    allowed = n;
    rc = run_network(path, x);
    allowed = -1;
    if (!failed) {
      assert_ok(rc);
      break;
    }
    if (rc != 0) {
      ++failures;
      assert_true(strlen(TVMGetLastError()) > 0);
    }
    assert_ok(run_network(path, x)); /* nothing is left in a bad state */
  }
  assert_true(failures > 20);
  TVMArrayFree(x);
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
  for (long n = 0;; ++n) {
    int rc;
    failed = 0;
    allowed = n;
    rc = use_registry();
    allowed = -1;
    assert_int_equal(rc != 0, failed);
    if (!failed) break;
  }
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

static int use_device(DLTensor* x, DLTensor* y) {
  static const tvmrt_device_interface slots = {.run = copy_input};
  static const tvmrt_device copier = {
      .struct_bytes = sizeof(copier), .name = "copier", .interface = &slots};
  TVMModuleHandle mod;
  call c = {0};
  int rc = tvmrt_device_register(&copier);
  if (rc != 0) return rc;
  rc = load_region(&mod);
  arg_handle(&c, kTVMNDArrayHandle, x);
  arg_handle(&c, kTVMNDArrayHandle, y);
  if (rc == 0) rc = call_module(&c, mod, "r");
  (void)TVMModFree(mod);
  assert_int_equal(tvmrt_device_unregister("copier"), 0);
  return rc;
}

static void test_device_survives_each_failed_allocation(void** state) {
  const int64_t shape = 2;
  const float values[2] = {3, 4};
  DLTensor* x = make_tensor(1, &shape, values);
  DLTensor* y = make_tensor(1, &shape, NULL);
  long failures = 0;
  (void)state;
  for (long n = 0;; ++n) {
    int rc;
    failed = 0;
    allowed = n;
    rc = use_device(x, y);
    allowed = -1;
    if (rc != 0) ++failures;
    if (!failed) {
      assert_ok(rc);
      break;
    }
    assert_ok(use_device(x, y)); /* nothing is left in a bad state */
  }
  assert_floats(y, 2, values);
  assert_true(failures > 20);
  TVMArrayFree(x);
  TVMArrayFree(y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_registry_survives_each_failed_allocation),
      cmocka_unit_test(test_device_survives_each_failed_allocation),
      cmocka_unit_test_prestate(test_network_survives_each_failed_allocation,
                                (char[]){"FIXTURE_GRAPH"}),
      cmocka_unit_test_prestate(test_network_survives_each_failed_allocation,
                                (char[]){"FIXTURE_AOT_POOLS"}),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
