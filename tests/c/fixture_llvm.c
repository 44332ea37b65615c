/* A library as an LLVM code generator of TVM makes it: no undefined symbol of the runtime, which is
 * reached through exported pointers instead; the entry's name as a text; linked parameters as in 0.8. */
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void* __tvm_module_ctx;
EXPORT int (*__TVMFuncCall)(void*, TVMValue*, int*, int, TVMValue*, int*);
EXPORT void (*__TVMAPISetLastError)(const char*);
EXPORT int (*__TVMBackendGetFuncFromEnv)(void*, const char*, void**);
EXPORT void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);
EXPORT int (*__TVMBackendFreeWorkspace)(int, int, void*);
EXPORT int (*__TVMBackendParallelLaunch)(FTVMParallelLambda, void*, int);
EXPORT int (*__TVMBackendParallelBarrier)(int, TVMParallelGroupEnv*);
EXPORT const char __tvm_main__[] = "llvm_entry";

#define FUNCTION(name)                                                                         \
  EXPORT int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code, \
                  void* resource);                                                             \
  int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,        \
           void* resource)

#define UNUSED_ARGS \
  (void)args, (void)type_codes, (void)num_args, (void)out, (void)out_code, (void)resource

static int fill_task(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  int64_t* memory = cdata;
  if (__TVMBackendParallelBarrier(task_id, env) != 0) return -1;
  for (int i = task_id; i < 16; i += env->num_task) memory[i] = i;
  return 0;
}

/* Uses every pointer: workspace, parallel launch, barrier, a call by name. Returns 0 + ... + 15. */
FUNCTION(llvm_entry) {
  static void* callee;
  int64_t sum = 0;
  int64_t* memory = __TVMBackendAllocWorkspace(1, 0, 16 * sizeof(int64_t), 0, 64);
  UNUSED_ARGS;
  if (memory == NULL || __TVMBackendParallelLaunch(fill_task, memory, 0) != 0) return -1;
  for (int i = 0; i < 16; ++i) sum += memory[i];
  if (__TVMBackendFreeWorkspace(1, 0, memory) != 0) return -1;
  if (num_args == 1) {
    __TVMAPISetLastError("Assert fail: (num_args == 0), llvm_entry: num_args should be 0");
    return -1;
  }
  if (callee == NULL &&
      __TVMBackendGetFuncFromEnv(__tvm_module_ctx, "runtime.NumThreads", &callee) != 0) {
    return -1;
  }
  if (__TVMFuncCall(callee, NULL, NULL, 0, out, out_code) != 0 || out->v_int64 < 1) return -1;
  out->v_int64 = sum;
  *out_code = kTVMArgInt;
  return 0;
}

FUNCTION(fixture_add) {
  UNUSED_ARGS;
  const DLTensor* a = args[0].v_handle;
  const DLTensor* b = args[1].v_handle;
  const DLTensor* c = args[2].v_handle;
  /* What the asserts of such code check of every tensor. */
  if (type_codes[0] != kTVMDLTensorHandle || a->strides != NULL || a->byte_offset != 0 ||
      a->device.device_type != kDLCPU || (uintptr_t)a->data % 64 != 0) {
    __TVMAPISetLastError("Assert fail: tensor argument");
    return -1;
  }
  for (int i = 0; i < 2; ++i) {
    ((float*)c->data)[i] = ((const float*)a->data)[i] + ((const float*)b->data)[i];
  }
  return 0;
}

/* Storage 1 is a constant of the library; the others are the executor's. */
FUNCTION(_lookup_linked_param) {
  static const _Alignas(128) float weight[] = {100, 200};
  UNUSED_ARGS;
  *out_code = kTVMNullptr;
  if (args[0].v_int64 == 1) {
    out->v_handle = (void*)(uintptr_t)weight;
    *out_code = kTVMOpaqueHandle;
  }
  return 0;
}
