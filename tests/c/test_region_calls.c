/* Calls of regions with invalid arguments. */
#include <tvm/runtime/device.h>

#include "support.h"

static const int64_t shape22[] = {2, 2};

/* y = relu(x); %s: the device. */
static TVMModuleHandle load_region(const char* device) {
  char text[1024];
  TVMByteArray none = {"", 0};
  call c = {0};
  (void)snprintf(
      text, sizeof(text),
      "{\"format\": \"tvmrt-regions\", \"version\": 1, %s, \"regions\": [{\"symbol\":"
      " \"r\", \"name\": \"r\", \"tensors\": [{\"name\": \"x\", \"dtype\": \"float32\","
      " \"shape\": [2, 2]}, {\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [2, 2]}],"
      " \"nodes\": [{\"op\": \"relu\", \"name\": \"n\", \"inputs\": [0], \"outputs\":"
      " [1]}], \"inputs\": [0], \"outputs\": [1]}]}",
      device);
  arg_str(&c, text);
  arg_handle(&c, kTVMBytes, &none);
  assert_ok(call_global(&c, "tvmrt.device.load_regions"));
  return c.ret.v_handle;
}

static int runs;

static int count_run(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                     void* resource) {
  (void)args, (void)codes, (void)num_args, (void)ret, (void)resource;
  ++runs;
  return 0;
}

static int enter(void** state) {
  TVMFunctionHandle f;
  (void)state;
  runs = 0;
  if (TVMFuncCreateFromCFunc(count_run, NULL, NULL, &f) != 0) return -1;
  if (TVMFuncRegisterGlobal("device.counting.run", f, 1) != 0) return -1;
  return TVMFuncFree(f);
}

static int leave(void** state) {
  (void)state;
  if (TVMFuncRemoveGlobal("device.counting.run") != 0) return -1;
  return tvmrt_device_unregister("counting");
}

static int call_with(TVMModuleHandle mod, int code, void* x, DLTensor* y) {
  call c = {0};
  arg_handle(&c, code, x);
  arg_handle(&c, kTVMNDArrayHandle, y);
  return call_module(&c, mod, "r");
}

static void test_mismatched_tensors_are_refused(void** state) {
  int64_t turned[] = {1, 2};
  int64_t compact[] = {2, 1};
  TVMModuleHandle mod = load_region("\"device\": \"counting\"");
  DLTensor* x = make_tensor(2, shape22, NULL);
  DLTensor* y = make_tensor(2, shape22, NULL);
  DLTensor other = *x;
  (void)state;
  assert_fails(call_with(mod, kTVMArgInt, NULL, y),
               "region 'r': tensor 'x' is not given as a tensor.");
  assert_fails(call_with(mod, kTVMDLTensorHandle, NULL, y), "is not given as a tensor.");
  other.strides = turned;
  assert_fails(call_with(mod, kTVMDLTensorHandle, &other, y),
               "region 'r': tensor 'x' is not compact.");
  other.strides = NULL;
  other.dtype.bits = 16;
  assert_fails(call_with(mod, kTVMDLTensorHandle, &other, y),
               "region 'r': tensor 'x' comes with another rank or type.");
  assert_int_equal(runs, 0);
  other = *x;
  other.strides = compact;
  assert_ok(call_with(mod, kTVMDLTensorHandle, &other, y));
  assert_int_equal(runs, 1);
  TVMArrayFree(x);
  TVMArrayFree(y);
  TVMModFree(mod);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_mismatched_tensors_are_refused, enter, leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
