/* The simulated accelerator with several threads, hanging runs and a device that is
   unregistered. */
#include <pthread.h>
#include <tvm/runtime/device.h>

#include "support.h"

#define TENSOR "{\"name\": \"t\", \"dtype\": \"float32\", \"shape\": [3]}"
#define REGION(symbol, op)                                         \
  "{\"symbol\": \"" symbol "\", \"tensors\": [" TENSOR ", " TENSOR \
  "], \"nodes\": ["                                                \
  "{\"op\": \"" op "\", \"inputs\": [0], \"outputs\": [1]}], \"inputs\": [0], \"outputs\": [1]}"

static int load_regions(const char* options, TVMModuleHandle* out) {
  char text[1024];
  call c = {0};
  TVMByteArray none = {"", 0};
  int rc;
  (void)snprintf(text, sizeof(text),
                 "{\"format\": \"tvmrt-regions\", \"version\": 1, \"device\": \"tpu\", "
                 "\"options\": %s, \"regions\": [" REGION("a", "relu") ", " REGION("b", "neg") "]}",
                 options);
  arg_str(&c, text);
  arg_handle(&c, kTVMBytes, &none);
  rc = call_global(&c, "tvmrt.device.load_regions");
  *out = rc == 0 ? c.ret.v_handle : NULL;
  return rc;
}

static int run_region(TVMModuleHandle mod, const char* symbol, const float* expected) {
  static const float values[3] = {-2, 0, 3};
  const int64_t shape = 3;
  DLTensor* x = make_tensor(1, &shape, values);
  DLTensor* y = make_tensor(1, &shape, NULL);
  call c = {0};
  int rc;
  arg_handle(&c, kTVMNDArrayHandle, x);
  arg_handle(&c, kTVMNDArrayHandle, y);
  rc = call_module(&c, mod, symbol);
  if (rc == 0) assert_floats(y, 3, expected);
  TVMArrayFree(x);
  TVMArrayFree(y);
  return rc;
}

static const float relu[3] = {0, 0, 3};
static const float neg[3] = {2, 0, -3};

static void* run_often(void* mod) {
  for (int i = 0; i < 50; ++i) {
    if (run_region(mod, "a", relu) != 0 || run_region(mod, "b", neg) != 0) return mod;
  }
  return NULL;
}

static void test_threads_share_regions(void** unused) {
  TVMModuleHandle mod;
  pthread_t threads[4];
  void* failed;
  (void)unused;
  assert_ok(load_regions("{}", &mod));
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, mod), 0);
  }
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  TVMModFree(mod);
}

static void test_hanging_run_does_not_block_others(void** unused) {
  TVMModuleHandle hanging;
  TVMModuleHandle mod;
  (void)unused;
  assert_ok(load_regions("{\"fault\": \"hang\", \"timeout_ms\": 5}", &hanging));
  assert_ok(load_regions("{}", &mod));
  for (int i = 0; i < 3; ++i) {
    assert_fails(run_region(hanging, "a", relu), "did not end in time");
    assert_ok(run_region(mod, "a", relu));
  }
  TVMModFree(hanging);
  TVMModFree(mod);
}

static void test_device_is_unregistered_and_registered_again(void** unused) {
  TVMModuleHandle mod;
  (void)unused;
  for (int i = 0; i < 3; ++i) {
    assert_ok(load_regions("{\"precision\": \"float16\"}", &mod));
    assert_ok(run_region(mod, "b", neg));
    assert_fails(tvmrt_device_unregister("tpu"), "used by 1 loaded libraries");
    TVMModFree(mod);
    assert_ok(tvmrt_device_unregister("tpu"));
  }
}

int main(void) {
  tvmrt_device* device;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads_share_regions),
      cmocka_unit_test(test_hanging_run_does_not_block_others),
      cmocka_unit_test(test_device_is_unregistered_and_registered_again),
  };
  if (tvmrt_device_find("tpu", &device) != 0 || device == NULL) return 77; /* skipped */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
