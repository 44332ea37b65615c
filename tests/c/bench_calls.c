/* Cost of calls, look-ups and launches inside one process. Run by hand: it prints, and checks nothing.
 * Medians of repeated batches, in nanoseconds each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tvm/runtime/c_runtime_api.h>

enum { REPEATS = 15 };

static double now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void* a, const void* b) {
  double x = *(const double*)a;
  double y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Print the median time of one of `count` calls that body makes. */
static void report(const char* name, void (*body)(int count, void* arg), int count, void* arg) {
  double times[REPEATS];
  int i;
  body(count, arg);
  for (i = 0; i < REPEATS; ++i) {
    double start = now();
    body(count, arg);
    times[i] = (now() - start) / count;
  }
  qsort(times, REPEATS, sizeof(times[0]), compare);
  printf("%-44s %9.2f ns\n", name, times[REPEATS / 2]);
}

typedef struct subject {
  TVMModuleHandle module;
  TVMFunctionHandle function;
  TVMCPackedFunc volatile pointer;
} subject;

static void call_pointer(int count, void* arg) {
  subject* s = arg;
  TVMValue ret;
  int code;
  for (int i = 0; i < count; ++i) (void)s->pointer(NULL, NULL, 0, &ret, &code, NULL);
}

static void call_handle(int count, void* arg) {
  subject* s = arg;
  TVMValue ret;
  int code;
  for (int i = 0; i < count; ++i) (void)TVMFuncCall(s->function, NULL, NULL, 0, &ret, &code);
}

static void look_up(int count, void* arg) {
  subject* s = arg;
  TVMFunctionHandle f;
  for (int i = 0; i < count; ++i) {
    (void)TVMModGetFunction(s->module, "fixture_return_int", 0, &f);
    (void)TVMFuncFree(f);
  }
}

static void look_up_global(int count, void* arg) {
  TVMFunctionHandle f;
  (void)arg;
  for (int i = 0; i < count; ++i) {
    (void)TVMFuncGetGlobal("runtime.ModuleGetTypeKey", &f);
    (void)TVMFuncFree(f);
  }
}

static int nothing(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  (void)task_id, (void)env, (void)cdata;
  return 0;
}

/* Runs of an executor: `s->function` is its `run`. */
static void run_executor(const char* name, const char* variable) {
  subject s = {NULL, NULL, NULL};
  const char* path = getenv(variable);
  TVMModuleHandle factory;
  TVMFunctionHandle create;
  TVMValue device;
  TVMValue executor;
  int code = kDLDevice;
  int ret_code;
  device.v_device.device_type = kDLCPU;
  device.v_device.device_id = 0;
  if (path == NULL || TVMModLoadFromFile(path, "so", &factory) != 0) return;
  if (TVMModGetFunction(factory, "default", 0, &create) == 0 && create != NULL &&
      TVMFuncCall(create, &device, &code, 1, &executor, &ret_code) == 0 &&
      TVMModGetFunction(executor.v_handle, "run", 0, &s.function) == 0) {
    report(name, call_handle, 200000, &s);
    (void)TVMFuncFree(s.function);
    (void)TVMModFree(executor.v_handle);
  }
  (void)TVMFuncFree(create);
  (void)TVMModFree(factory);
}

static void launch(int count, void* arg) {
  (void)arg;
  for (int i = 0; i < count; ++i) (void)TVMBackendParallelLaunch(nothing, NULL, 0);
}

static void workspace(int count, void* arg) {
  (void)arg;
  for (int i = 0; i < count; ++i) {
    void* p = TVMBackendAllocWorkspace(kDLCPU, 0, 65536, kDLFloat, 32);
    (void)TVMBackendFreeWorkspace(kDLCPU, 0, p);
  }
}

static void use_workers(int64_t count) {
  TVMFunctionHandle f;
  TVMValue args[2];
  TVMValue ret;
  int codes[2] = {kTVMArgInt, kTVMArgInt};
  int code;
  args[0].v_int64 = 1;
  args[1].v_int64 = count;
  if (TVMFuncGetGlobal("runtime.config_threadpool", &f) != 0 || f == NULL) return;
  (void)TVMFuncCall(f, args, codes, 2, &ret, &code);
  (void)TVMFuncFree(f);
}

static void register_names(int count, TVMFunctionHandle f) {
  char name[32];
  double start = now();
  for (int i = 0; i < count; ++i) {
    (void)snprintf(name, sizeof(name), "bench.%d", i);
    (void)TVMFuncRegisterGlobal(name, f, 1);
  }
  printf("register %8d names %25.2f ns each\n", count, (now() - start) / count);
  start = now();
  for (int i = 0; i < count; ++i) {
    TVMFunctionHandle out;
    (void)snprintf(name, sizeof(name), "bench.%d", i);
    (void)TVMFuncGetGlobal(name, &out);
    (void)TVMFuncFree(out);
  }
  printf("look up  %8d names %25.2f ns each\n", count, (now() - start) / count);
}

static int from_library(subject* s, const char* path) {
  if (TVMModLoadFromFile(path, "so", &s->module) != 0) return -1;
  return TVMModGetFunction(s->module, "fixture_return_int", 0, &s->function);
}

static int return_int(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                      void* resource) {
  (void)args, (void)codes, (void)num_args, (void)resource;
  out->v_int64 = 42;
  *out_code = kTVMArgInt;
  return 0;
}

int main(void) {
  subject s = {NULL, NULL, return_int};
  const char* path = getenv("FIXTURE_PLAIN");
  if (path == NULL || from_library(&s, path) != 0 || s.function == NULL) {
    fprintf(stderr, "set FIXTURE_PLAIN to the fixture library: %s\n", TVMGetLastError());
    return 2;
  }
  report("function pointer", call_pointer, 1000000, &s);
  report("TVMFuncCall, no argument", call_handle, 1000000, &s);
  report("TVMModGetFunction and TVMFuncFree", look_up, 200000, &s);
  report("TVMFuncGetGlobal and TVMFuncFree", look_up_global, 200000, &s);
  report("workspace, 64 KB", workspace, 200000, NULL);
  run_executor("run of a graph executor, 2 operators", "FIXTURE_GRAPH");
  run_executor("run of an AOT executor, 2 operators", "FIXTURE_AOT");
  use_workers(1);
  report("parallel launch, 1 worker", launch, 200000, NULL);
  use_workers(2);
  report("parallel launch, 2 workers", launch, 20000, NULL);
  register_names(1000, s.function);
  register_names(1000000, s.function);
  (void)TVMFuncFree(s.function);
  (void)TVMModFree(s.module);
  return 0;
}
