/* A program with networks linked in: for each prefix given (or once without), loads the system library,
 * runs x = {1 ... 6} and prints the kinds of the tree, the output and the answer of num_threads. */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, TVMGetLastError());
  return 1;
}

static int call(TVMFunctionHandle f, TVMValue* args, int* codes, int count, TVMValue* ret) {
  int code;
  int rc = TVMFuncCall(f, args, codes, count, ret, &code);
  TVMFuncFree(f);
  return rc;
}

static int call_global(const char* name, TVMValue* args, int* codes, int count, TVMValue* ret) {
  TVMFunctionHandle f;
  if (TVMFuncGetGlobal(name, &f) != 0 || f == NULL) return -1;
  return call(f, args, codes, count, ret);
}

static int call_module(void* mod, const char* name, TVMValue* args, int* codes, int count,
                       TVMValue* ret) {
  TVMFunctionHandle f;
  if (TVMModGetFunction(mod, name, 1, &f) != 0 || f == NULL) return -1;
  return call(f, args, codes, count, ret);
}

static int run_network(void* library) {
  static float x[6] = {1, 2, 3, 4, 5, 6};
  TVMValue device = {0}, executor, args[2], ret;
  int device_code = kDLDevice;
  int codes[2] = {kTVMStr, kTVMNDArrayHandle};
  int64_t shape[2] = {2, 3};
  DLTensor* tensor;
  int i;
  device.v_device.device_type = kDLCPU;
  if (call_module(library, "default", &device, &device_code, 1, &executor) != 0) {
    return fail("default");
  }
  if (TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &tensor) != 0 ||
      TVMArrayCopyFromBytes(tensor, x, sizeof(x)) != 0) {
    return fail("tensor");
  }
  args[0].v_str = "x";
  args[1].v_handle = tensor;
  if (call_module(executor.v_handle, "set_input", args, codes, 2, &ret) != 0) return fail("input");
  if (call_module(executor.v_handle, "run", NULL, NULL, 0, &ret) != 0) return fail("run");
  args[0].v_int64 = 0;
  codes[0] = kTVMArgInt;
  if (call_module(executor.v_handle, "get_output", args, codes, 1, &ret) != 0)
    return fail("output");
  for (i = 0; i < 6; ++i) printf(" %g", ((float*)((DLTensor*)ret.v_handle)->data)[i]);
  TVMArrayFree(ret.v_handle);
  TVMArrayFree(tensor);
  TVMModFree(executor.v_handle);
  return 0;
}

static int run_library(const char* prefix) {
  TVMValue arg, library, again, ret;
  int str_code = kTVMStr;
  int module_code = kTVMModuleHandle;
  int count = prefix == NULL ? 0 : 1;
  arg.v_str = prefix;
  if (call_global("runtime.SystemLib", &arg, &str_code, count, &library) != 0) return fail("load");
  if (call_global("runtime.SystemLib", &arg, &str_code, count, &again) != 0) return fail("again");
  if (again.v_handle != library.v_handle) return fail("there are two modules of one library");
  if (call_global("runtime.ModuleGetTypeKey", &library, &module_code, 1, &ret) != 0) {
    return fail("kind");
  }
  printf("%s", ret.v_str);
  if (strcmp(ret.v_str, "library") != 0 && run_network(library.v_handle) != 0) return 1;
  if (call_module(library.v_handle, "num_threads", NULL, NULL, 0, &ret) != 0)
    return fail("threads");
  printf(" %s\n", ret.v_int64 >= 1 ? "threads" : "no threads");
  TVMModFree(library.v_handle);
  TVMModFree(again.v_handle);
  return 0;
}

int main(int argc, char** argv) {
  int i;
  if (argc == 1) return run_library(NULL);
  for (i = 1; i < argc; ++i) {
    if (run_library(argv[i]) != 0) return 1;
  }
  return 0;
}
