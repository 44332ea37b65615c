/* Calls of an executor's functions, and a network that calls a function of the test. */
#ifndef TVMRT_TESTS_C_EXECUTOR_CALLS_H_
#define TVMRT_TESTS_C_EXECUTOR_CALLS_H_

#include "support.h"

static inline TVMModuleHandle make_executor(TVMModuleHandle factory) {
  call c = {0};
  arg_cpu(&c);
  assert_ok(call_module(&c, factory, "default"));
  assert_int_equal(c.ret_code, kTVMModuleHandle);
  return c.ret.v_handle;
}

static inline int set(TVMModuleHandle ex, const char* function, const char* name, DLTensor* t,
                      int code) {
  call c = {0};
  arg_str(&c, name);
  arg_handle(&c, code, t);
  return call_module(&c, ex, function);
}

static inline int set_at(TVMModuleHandle ex, const char* function, int64_t index, DLTensor* t,
                         int code) {
  call c = {0};
  arg_int(&c, index);
  arg_handle(&c, code, t);
  return call_module(&c, ex, function);
}

static inline int run(TVMModuleHandle ex) {
  call c = {0};
  return call_module(&c, ex, "run");
}

static inline int64_t call_int(TVMModuleHandle ex, const char* function) {
  call c = {0};
  assert_ok(call_module(&c, ex, function));
  return c.ret.v_int64;
}

static inline int64_t index_of(TVMModuleHandle ex, const char* function, const char* name) {
  call c = {0};
  arg_str(&c, name);
  assert_ok(call_module(&c, ex, function));
  return c.ret.v_int64;
}

static inline void set_scalar(TVMModuleHandle ex, const char* name, float value) {
  static const int64_t shape1[] = {1};
  DLTensor* t = make_tensor(1, shape1, &value);
  assert_ok(set(ex, "set_input", name, t, kTVMNDArrayHandle));
  TVMArrayFree(t);
}

/* One node whose function, of the library, calls the global test.callee: two inputs that share a name,
 * two outputs of the node; the text ends with what follows the last key. */
static inline TVMModuleHandle make_duplicate_names(TVMModuleHandle library, const char* end) {
  char json[2048];
  call c = {0};
  (void)snprintf(
      json, sizeof(json),
      "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
      " {\"op\": \"null\", \"name\": \"x\", \"inputs\": []},"
      " {\"op\": \"tvm_op\", \"name\": \"y\", \"inputs\": [[0, 0, 0], [1, 0, 0]], \"attrs\":"
      " {\"func_name\": \"fixture_call_global\", \"num_inputs\": \"2\", \"num_outputs\": \"2\","
      " \"flatten_data\": \"0\"}}], \"arg_nodes\": [0, 1], \"heads\": [[2, 0, 0], [2, 1, 0]],"
      " \"attrs\": {\"dltype\": [\"list_str\", [\"float32\", \"float32\", \"float32\", "
      "\"float32\"]],"
      " \"storage_id\": [\"list_int\", [0, 1, 2, 3]], \"shape\": [\"list_shape\", [[1], [1], [1],"
      " [1]]]}, \"node_row_ptr\": [0, 1, 2, 4]%s}",
      end);
  arg_str(&c, json);
  arg_handle(&c, kTVMModuleHandle, library);
  arg_int(&c, kDLCPU);
  arg_int(&c, 0);
  if (call_global(&c, "tvm.graph_executor.create") != 0) return NULL;
  return c.ret.v_handle;
}

static inline void register_callee(TVMPackedCFunc callee, void* resource) {
  TVMFunctionHandle f;
  assert_ok(TVMFuncCreateFromCFunc(callee, resource, NULL, &f));
  assert_ok(TVMFuncRegisterGlobal("test.callee", f, 1));
  assert_ok(TVMFuncFree(f));
}

#endif /* TVMRT_TESTS_C_EXECUTOR_CALLS_H_ */
