/*
 * Runs a network once by the C runtime and prints how much resident memory that took.
 *
 *   resident NET.so MODULE_NAME
 *
 * Prints two numbers in bytes: the most that the process held before the library was loaded, and
 * the most at the end. Inputs are zeros, written out so that their memory is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

static long resident_bytes(void) {
  char line[256];
  long kilobytes = -1;
  FILE* status = fopen("/proc/self/status", "r");
  if (status == NULL) return -1;
  while (fgets(line, sizeof(line), status) != NULL) {
    if (sscanf(line, "VmHWM: %ld kB", &kilobytes) == 1) break;
  }
  fclose(status);
  return kilobytes < 0 ? -1 : kilobytes * 1024;
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, TVMGetLastError());
  return 1;
}

/* Calls a packed function of a module that takes and gives no more than this. */
static int call(TVMModuleHandle module, const char* name, TVMValue* args, int* codes, int count,
                TVMValue* result) {
  TVMFunctionHandle function = NULL;
  int code = kTVMNullptr;
  if (TVMModGetFunction(module, name, 0, &function) != 0) return fail(name);
  if (function == NULL) {
    fprintf(stderr, "the module has no function %s\n", name);
    return 1;
  }
  if (TVMFuncCall(function, args, codes, count, result, &code) != 0) return fail(name);
  return TVMFuncFree(function) != 0;
}

static int write_inputs(TVMModuleHandle executor) {
  TVMValue count, index, tensor;
  int code = kTVMArgInt;
  if (call(executor, "get_num_inputs", NULL, NULL, 0, &count) != 0) return 1;
  for (index.v_int64 = 0; index.v_int64 < count.v_int64; ++index.v_int64) {
    if (call(executor, "get_input", &index, &code, 1, &tensor) != 0) return 1;
    const DLTensor* input = (const DLTensor*)tensor.v_handle;
    size_t bytes = (input->dtype.bits + 7) / 8;
    for (int d = 0; d < input->ndim; ++d) bytes *= (size_t)input->shape[d];
    memset((char*)input->data + input->byte_offset, 0, bytes);
    if (TVMArrayFree(tensor.v_handle) != 0) return fail("get_input");
  }
  return 0;
}

int main(int argc, char** argv) {
  TVMModuleHandle library = NULL;
  TVMValue device, executor, nothing;
  int device_code = kDLDevice;
  if (argc != 3) {
    fprintf(stderr, "usage: resident NET.so MODULE_NAME\n");
    return 2;
  }
  memset(&device, 0, sizeof(device));
  device.v_device.device_type = kDLCPU;
  const long before = resident_bytes();
  if (TVMModLoadFromFile(argv[1], "so", &library) != 0) return fail(argv[1]);
  if (call(library, argv[2], &device, &device_code, 1, &executor) != 0) return 1;
  if (write_inputs(executor.v_handle) != 0) return 1;
  if (call(executor.v_handle, "run", NULL, NULL, 0, &nothing) != 0) return 1;
  printf("%ld %ld\n", before, resident_bytes());
  return TVMModFree(executor.v_handle) != 0 || TVMModFree(library) != 0;
}
