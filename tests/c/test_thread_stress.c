/* Threads that load, run, free, register, look up, fail and launch at once, in an order that differs
 * from run to run of the scheduler but not in what each does: made for the thread sanitizer. */
#include <pthread.h>
#include <stdatomic.h>
#include <tvm/runtime/c_backend_api.h>

#include "support.h"

enum { kThreads = 8, kSteps = 60, kNames = 8 };

static TVMModuleHandle shared;
static float expected[6];
static atomic_int wrong;

static const int64_t shape23[] = {2, 3};

/* The network of the fixture on 0.5, 1.5, ...: its output. */
static int run_network(TVMModuleHandle library, float* out) {
  TVMModuleHandle executor = NULL;
  DLTensor* x = NULL;
  call create = {0}, set = {0}, run = {0}, get = {0};
  int rc = TVMArrayAlloc(shape23, 2, kDLFloat, 32, 1, kDLCPU, 0, &x);
  if (rc != 0) return rc;
  for (int i = 0; i < 6; ++i) ((float*)x->data)[i] = 0.5f + (float)i;
  arg_cpu(&create);
  rc = call_module(&create, library, "default");
  executor = rc == 0 ? create.ret.v_handle : NULL;
  arg_int(&set, 0);
  arg_handle(&set, kTVMNDArrayHandle, x);
  if (rc == 0) rc = call_module(&set, executor, "set_input");
  if (rc == 0) rc = call_module(&run, executor, "run");
  arg_int(&get, 0);
  if (rc == 0) rc = call_module(&get, executor, "get_output");
  if (rc == 0) memcpy(out, ((DLTensor*)get.ret.v_handle)->data, sizeof(expected));
  if (rc == 0) (void)TVMArrayFree(get.ret.v_handle);
  (void)TVMArrayFree(x);
  (void)TVMModFree(executor);
  return rc;
}

static int run_shared(unsigned seed) {
  float out[6];
  (void)seed;
  return run_network(shared, out) != 0 || memcmp(out, expected, sizeof(out)) != 0;
}

static int run_own(unsigned seed) {
  float out[6];
  TVMModuleHandle library = NULL;
  int rc = TVMModLoadFromFile(fixture("FIXTURE_GRAPH"), "so", &library);
  (void)seed;
  if (rc == 0) rc = run_network(library, out);
  (void)TVMModFree(library);
  return rc != 0 || memcmp(out, expected, sizeof(out)) != 0;
}

static int answer(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret, void* resource) {
  TVMValue value = {.v_int64 = 42};
  int code = kTVMArgInt;
  (void)args, (void)codes, (void)num_args, (void)resource;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static void name_of(unsigned seed, char* name, size_t size) {
  (void)snprintf(name, size, "many.%u", seed % kNames);
}

static int register_function(unsigned seed) {
  char name[32];
  TVMFunctionHandle f = NULL;
  int rc = TVMFuncCreateFromCFunc(answer, NULL, NULL, &f);
  name_of(seed, name, sizeof(name));
  if (rc == 0) rc = TVMFuncRegisterGlobal(name, f, 1);
  (void)TVMFuncFree(f);
  return rc;
}

static int remove_function(unsigned seed) {
  char name[32];
  name_of(seed, name, sizeof(name));
  (void)TVMFuncRemoveGlobal(name); /* another thread may have been faster */
  return 0;
}

static int call_function(unsigned seed) {
  char name[32];
  call c = {0};
  TVMFunctionHandle f = NULL;
  int rc;
  name_of(seed, name, sizeof(name));
  rc = TVMFuncGetGlobal(name, &f);
  if (rc != 0 || f == NULL) return rc;
  rc = call_handle(&c, f);
  (void)TVMFuncFree(f);
  return rc != 0 || c.ret.v_int64 != 42;
}

static int keep_error(unsigned seed) {
  char text[32];
  int count = 0;
  const char** names = NULL;
  (void)snprintf(text, sizeof(text), "error of %u", seed);
  TVMAPISetLastError(text);
  if (TVMFuncListGlobalNames(&count, &names) != 0) return 1;
  for (int i = 0; i < count; ++i) {
    if (names[i][0] == '\0') return 1;
  }
  return strcmp(TVMGetLastError(), text) != 0;
}

static int count_tasks(int task, TVMParallelGroupEnv* env, void* data) {
  atomic_int* counts = data;
  (void)task;
  atomic_fetch_add(&counts[0], 1);
  atomic_store(&counts[1], env->num_task);
  return 0;
}

static int launch(unsigned seed) {
  atomic_int counts[2] = {0, 0};
  int rc = TVMBackendParallelLaunch(count_tasks, counts, 1 + (int)(seed % 4));
  return rc != 0 || atomic_load(&counts[0]) != atomic_load(&counts[1]);
}

static void* work(void* first_seed) {
  static int (*const kActions[])(unsigned) = {run_shared,    run_own,    register_function, launch,
                                              call_function, keep_error, remove_function};
  unsigned seed = *(const unsigned*)first_seed;
  for (int i = 0; i < kSteps; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const unsigned action = (seed >> 16) % (sizeof(kActions) / sizeof(kActions[0]));
    if (kActions[action](seed >> 20) != 0) atomic_fetch_add(&wrong, 1);
  }
  return NULL;
}

static void test_threads_do_everything_at_once(void** state) {
  pthread_t threads[kThreads];
  unsigned seeds[kThreads];
  (void)state;
  shared = load("FIXTURE_GRAPH");
  assert_ok(run_network(shared, expected));
  for (unsigned i = 0; i < kThreads; ++i) {
    seeds[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&wrong), 0);
  assert_ok(TVMModFree(shared));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_do_everything_at_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
