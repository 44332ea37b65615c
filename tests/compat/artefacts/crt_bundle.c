/* A network bundled with the C runtime as boards and small programs bundle it: a library, or an
 * object of the program, whose functions make a graph executor, feed it and ask it. Each call is
 * checked, as it is in programs that were written for TVM: a code that is not 0 ends it. */
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/packed_func.h>
#ifdef BOARD
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>
#endif

#define MUST(expression)                                   \
  do {                                                     \
    int code = (expression);                               \
    if (code != 0) {                                       \
      fprintf(stderr, "%s: code %d\n", #expression, code); \
      exit(code);                                          \
    }                                                      \
  } while (0)

#ifdef BOARD
static uint8_t memory[1 << 16] __attribute__((aligned(64)));
static MemoryManagerInterface* manager;

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice device, void** out) {
  if (manager == NULL) MUST(PageMemoryManagerCreate(&manager, memory, sizeof(memory), 8));
  return manager->Allocate(manager, num_bytes, device, out);
}

tvm_crt_error_t TVMPlatformMemoryFree(void* at, DLDevice device) {
  return manager->Free(manager, at, device);
}
#endif

TVM_DLL void* bundle_create(const char* json, const char* params, uint32_t num_bytes);
TVM_DLL void bundle_set_input(void* bundle, const char* name, DLTensor* tensor);
TVM_DLL void bundle_run(void* bundle);
TVM_DLL void bundle_get_output(void* bundle, int32_t index, DLTensor* tensor);
TVM_DLL void bundle_destroy(void* bundle);
TVM_DLL int bundle_call_that_fails(void);

void* bundle_create(const char* json, const char* params, uint32_t num_bytes) {
  DLDevice cpu = {kDLCPU, 0};
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMGraphExecutor* executor = NULL;
  TVMPackedFunc find;
  MUST(TVMInitializeRuntime());
  MUST(TVMPackedFunc_InitGlobalFunc(&find, "runtime.SystemLib", &args));
  MUST(TVMPackedFunc_Call(&find));
  MUST(TVMGraphExecutor_Create(json, TVMArgs_AsModuleHandle(&find.ret_value, 0), &cpu, &executor));
  MUST(TVMGraphExecutor_LoadParams(executor, params, num_bytes));
  return executor;
}

void bundle_set_input(void* bundle, const char* name, DLTensor* tensor) {
  TVMGraphExecutor_SetInput((TVMGraphExecutor*)bundle, name, tensor);
}

void bundle_run(void* bundle) { TVMGraphExecutor_Run((TVMGraphExecutor*)bundle); }

void bundle_get_output(void* bundle, int32_t index, DLTensor* tensor) {
  MUST(TVMGraphExecutor_GetOutput((TVMGraphExecutor*)bundle, index, tensor));
}

void bundle_destroy(void* bundle) {
  TVMGraphExecutor* executor = (TVMGraphExecutor*)bundle;
  MUST(TVMGraphExecutor_Release(&executor));
}

/* By the function and by the member of the struct: it gets no argument and needs three. */
int bundle_call_that_fails(void) {
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMPackedFunc pf;
  MUST(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.rpc.server.ModuleGetFunction", &args));
  return pf.Call(&pf) != 0 && TVMPackedFunc_Call(&pf) != 0 && pf.ret_value.values_count == 0;
}
