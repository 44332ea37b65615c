/* Every allocation of the module kind "examplejson" fails, from reading a graph to running it, saving
 * it and reading it back. */
#include "allocation_faults.h"

int register_examplejson_device(void);
int unregister_examplejson_device(void);

static const char text[] =
    "subgraph_0\n"
    "input 0 2 2\n"
    "input 1 2 2\n"
    "add 2 inputs: 0 1 shape: 2 2\n"
    "mul 3 inputs: 2 1 shape: 2 2\n"
    "subgraph_1\n"
    "input 0 3\n"
    "sub 1 inputs: 0 0 shape: 3\n";

static const char path[] = "out_of_memory.examplejson";

static int load_with(const char* function, const char* argument, TVMModuleHandle* out) {
  call c = {0};
  int rc;
  arg_str(&c, argument);
  rc = call_global(&c, function);
  *out = rc == 0 ? c.ret.v_handle : NULL;
  return rc;
}

static int run(TVMModuleHandle mod) {
  static const int64_t shape[] = {2, 2};
  static const float values[] = {1, 2, 3, 4};
  static const float expected[] = {2, 8, 18, 32}; /* (x + x) * x */
  call c = {0};
  int rc = 0;
  for (int i = 0; rc == 0 && i < 3; ++i) {
    DLTensor* t;
    rc = TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &t);
    if (rc != 0) break;
    memcpy(t->data, values, sizeof(values));
    arg_handle(&c, kTVMNDArrayHandle, t);
  }
  if (rc == 0) rc = call_module(&c, mod, "subgraph_0");
  if (rc == 0) assert_floats(c.args[2].v_handle, 4, expected);
  while (c.count > 0) (void)TVMArrayFree(c.args[--c.count].v_handle);
  return rc;
}

static int save(TVMModuleHandle mod) {
  call source = {0}, pack = {0};
  int rc;
  arg_handle(&source, kTVMModuleHandle, mod);
  arg_str(&source, "");
  rc = call_global(&source, "runtime.ModuleGetSource");
  if (rc == 0) assert_string_equal(source.ret.v_str, text);
  arg_handle(&pack, kTVMModuleHandle, mod);
  return rc == 0 ? call_global(&pack, "tvmrt.ModulePackImports") : rc;
}

static int use_module(void) {
  TVMModuleHandle mod = NULL;
  TVMModuleHandle from_file = NULL;
  int rc = register_examplejson_device();
  if (rc == 0) rc = load_with("module.examplejson_module_create", text, &mod);
  if (rc == 0) rc = run(mod);
  if (rc == 0) rc = save(mod);
  if (rc == 0) rc = load_with("runtime.module.loadfile_examplejson", path, &from_file);
  if (rc == 0) rc = run(from_file);
  (void)TVMModFree(mod);
  (void)TVMModFree(from_file);
  (void)unregister_examplejson_device();
  return rc;
}

static void test_module_survives_each_failed_allocation(void** state) {
  FILE* file = fopen(path, "wb");
  (void)state;
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, sizeof(text) - 1, file), sizeof(text) - 1);
  assert_int_equal(fclose(file), 0);
  sweep("examplejson", use_module, NULL);
  assert_int_equal(remove(path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_module_survives_each_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
