/* Runs a compiled network through the C interface of the runtime, and counts what its runs call.
 *
 *     LD_PRELOAD=count_calls.so count_runs NETWORK.so RUNS
 *
 * After load, another thread than the one that loaded it runs the network. Prints the number of
 * counted calls and their functions. strace sees the runs between two calls of getpgid(), with the arguments
 * -77 and -78. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tvm/runtime/c_runtime_api.h>
#include <unistd.h>

typedef struct job {
  TVMFunctionHandle set_input, run, get_output;
  int runs, num_inputs, num_outputs;
  TVMArrayHandle inputs[64], outputs[64];
  long calls;
  const char* names;
} job;

static void stop(const char* where) {
  fprintf(stderr, "%s: %s\n", where, TVMGetLastError());
  exit(1);
}

static TVMValue call(TVMFunctionHandle f, int count, const TVMValue* given, const int* types) {
  TVMValue values[4], result = {0};
  int codes[4], code;
  memcpy(values, given, (size_t)count * sizeof(*values));
  memcpy(codes, types, (size_t)count * sizeof(*codes));
  if (TVMFuncCall(f, values, codes, count, &result, &code) != 0) stop("call");
  return result;
}

static TVMFunctionHandle function(TVMModuleHandle module, const char* name) {
  TVMFunctionHandle found = NULL;
  if (TVMModGetFunction(module, name, 0, &found) != 0 || found == NULL) stop(name);
  return found;
}

static void each_tensor(const job* j, TVMFunctionHandle f, const TVMArrayHandle* tensors,
                        int count) {
  int i;
  for (i = 0; i < count; ++i) {
    TVMValue values[2] = {{.v_int64 = i}, {.v_handle = tensors[i]}};
    int codes[2] = {kDLInt, kTVMDLTensorHandle};
    (void)j;
    (void)call(f, 2, values, codes);
  }
}

static void* run_all(void* argument) {
  job* j = argument;
  void (*begin)(void);
  long (*end)(const char**);
  int i;
  *(void**)&begin = dlsym(RTLD_DEFAULT, "tvmrt_count_begin");
  *(void**)&end = dlsym(RTLD_DEFAULT, "tvmrt_count_end");
  if (begin != NULL) begin();
  (void)syscall(SYS_getpgid, -77);
  for (i = 0; i < j->runs; ++i) {
    each_tensor(j, j->set_input, j->inputs, j->num_inputs);
    (void)call(j->run, 0, NULL, NULL);
    each_tensor(j, j->get_output, j->outputs, j->num_outputs);
  }
  (void)syscall(SYS_getpgid, -78);
  if (end != NULL) j->calls = end(&j->names);
  return NULL;
}

/* Zeroed tensors of the caller, like those of the executor. */
static int like(TVMFunctionHandle get, int count, TVMArrayHandle* out) {
  int i;
  if (count > 64) stop("more than 64 tensors");
  for (i = 0; i < count; ++i) {
    TVMValue index = {.v_int64 = i};
    int code = kDLInt;
    const DLTensor* t = call(get, 1, &index, &code).v_handle;
    if (TVMArrayAlloc(t->shape, t->ndim, t->dtype.code, t->dtype.bits, t->dtype.lanes, kDLCPU, 0,
                      &out[i]) != 0) {
      stop("TVMArrayAlloc");
    }
    {
      size_t bytes = (size_t)(t->dtype.bits * t->dtype.lanes + 7) / 8;
      int d;
      for (d = 0; d < t->ndim; ++d) bytes *= (size_t)t->shape[d];
      memset(out[i]->data, 0, bytes);
    }
  }
  return count;
}

int main(int argc, char** argv) {
  TVMModuleHandle library, executor;
  TVMValue device;
  int code = kDLDevice;
  pthread_t thread;
  job j;
  if (argc != 3) return 2;
  memset(&j, 0, sizeof(j));
  j.runs = atoi(argv[2]);
  if (TVMModLoadFromFile(argv[1], "so", &library) != 0) stop(argv[1]);
  device.v_device.device_type = kDLCPU;
  device.v_device.device_id = 0;
  executor = call(function(library, "default"), 1, &device, &code).v_handle;
  j.set_input = function(executor, "set_input");
  j.run = function(executor, "run");
  j.get_output = function(executor, "get_output");
  j.num_inputs =
      like(function(executor, "get_input"),
           (int)call(function(executor, "get_num_inputs"), 0, NULL, NULL).v_int64, j.inputs);
  j.num_outputs =
      like(j.get_output, (int)call(function(executor, "get_num_outputs"), 0, NULL, NULL).v_int64,
           j.outputs);
  if (pthread_create(&thread, NULL, run_all, &j) != 0 || pthread_join(thread, NULL) != 0) return 1;
  printf("%ld %s\n", j.calls, j.names == NULL ? "" : j.names);
  return 0;
}
