/* The backend library alone: a network that was compiled ahead of time, with nothing else linked. */
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/stack_allocator.h>
#include <tvm/runtime/platform.h>

#include "support.h"

extern int tvmgen_default___tvm_main__(TVMValue* args, int* type_codes, int num_args, TVMValue* out,
                                       int* out_code, void* resource);

static void test_network_runs(void** state) {
  float x[] = {1, 2, 3, 4};
  float y0[4];
  float y1[4];
  float* data[] = {x, y0, y1};
  DLTensor tensors[3];
  TVMValue args[3];
  int codes[3];
  TVMValue ret;
  int code;
  (void)state;
  memset(tensors, 0, sizeof(tensors));
  for (int i = 0; i < 3; ++i) {
    tensors[i].data = data[i];
    args[i].v_handle = &tensors[i];
    codes[i] = kTVMDLTensorHandle;
  }
  assert_int_equal(tvmgen_default___tvm_main__(args, codes, 3, &ret, &code, NULL), 0);
  assert_float_equal(y0[3], 5, 0);
  assert_float_equal(y1[3], 8, 0);
  assert_int_equal(tvmgen_default___tvm_main__(args, codes, 2, &ret, &code, NULL), -1);
  assert_string_equal(TVMGetLastError(), "main: expected 3 arguments");
}

static void test_workspaces_use_provided_memory(void** state) {
  static _Alignas(16) uint8_t memory[256];
  void* a;
  void* b;
  (void)state;
  assert_null(TVMBackendAllocWorkspace(kDLCPU, 0, 16, kDLFloat, 32));
  assert_non_null(strstr(TVMGetLastError(), "tvmrt_workspace_init"));
  tvmrt_workspace_init(memory, sizeof(memory));
  a = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32);
  b = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32);
  assert_ptr_equal(a, memory);
  assert_non_null(b);
  assert_int_equal((uintptr_t)b % 16, 0);
  assert_null(TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32));
  assert_int_equal(tvmrt_workspace_peak_bytes(), 224);
  assert_int_equal(TVMBackendFreeWorkspace(kDLCPU, 0, b), 0);
  assert_int_equal(TVMBackendFreeWorkspace(kDLCPU, 0, a), 0);
  assert_int_equal(TVMBackendFreeWorkspace(kDLCPU, 0, NULL), 0);
  assert_int_equal(TVMBackendFreeWorkspace(kDLCPU, 0, &state), -1);
  assert_null(TVMBackendAllocWorkspace(kDLCPU, 0, (uint64_t)1 << 40, kDLFloat, 32));
  tvmrt_workspace_init(NULL, 100);
  assert_null(TVMBackendAllocWorkspace(kDLCPU, 0, 16, kDLFloat, 32));
}

static void test_stack_allocator_checks_the_order(void** state) {
  static _Alignas(16) uint8_t memory[256];
  tvm_workspace_t ws;
  void* a;
  void* b;
  (void)state;
  assert_int_equal(StackMemoryManager_Init(&ws, memory + 1, 250), kTvmErrorNoError);
  assert_ptr_equal(ws.workspace, memory + 16);
  assert_int_equal(StackMemoryManager_Allocate_Body(&ws, 10, &a, 1), kTvmErrorNoError);
  assert_int_equal(StackMemoryManager_Allocate_Body(&ws, 20, &b, 1), kTvmErrorNoError);
  assert_int_equal(StackMemoryManager_Free_Body(&ws, a, 1), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(StackMemoryManager_Free_Body(&ws, b, 1), kTvmErrorNoError);
  assert_int_equal(StackMemoryManager_Free_Body(&ws, a, 1), kTvmErrorNoError);
  assert_int_equal(StackMemoryManager_Allocate(&ws, -1, &a), kTvmErrorPlatformNoMemory);
}

static void test_page_allocator_reuses_blocks_of_any_order(void** state) {
  static _Alignas(16) uint8_t memory[2048];
  const DLDevice cpu = {kDLCPU, 0};
  MemoryManagerInterface* m;
  void* a;
  void* b;
  void* c;
  (void)state;
  assert_int_equal(PageMemoryManagerCreate(&m, memory, 64, 8), kTvmErrorPlatformNoMemory);
  assert_int_equal(PageMemoryManagerCreate(&m, memory, sizeof(memory), 8), kTvmErrorNoError);
  assert_int_equal(m->Allocate(m, 300, cpu, &a), kTvmErrorNoError);
  assert_int_equal(m->Allocate(m, 10, cpu, &b), kTvmErrorNoError);
  assert_int_equal(m->vleak_size, 2);
  assert_int_equal(m->Free(m, a, cpu), kTvmErrorNoError);
  assert_int_equal(m->Free(m, a, cpu), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(m->Free(m, (uint8_t*)b + 1, cpu), kTvmErrorPlatformStackAllocBadFree);
  assert_int_equal(m->Allocate(m, 512, cpu, &c), kTvmErrorNoError);
  assert_ptr_equal(c, a);
  assert_int_equal(m->Allocate(m, 4096, cpu, &a), kTvmErrorPlatformNoMemory);
  assert_int_equal(m->Free(m, c, cpu), kTvmErrorNoError);
  assert_int_equal(m->Free(m, b, cpu), kTvmErrorNoError);
  assert_int_equal(m->vleak_size, 0);
}

static int count_task(int task_id, TVMParallelGroupEnv* env, void* cdata) {
  *(int*)cdata += 10 * env->num_task + task_id;
  return TVMBackendParallelBarrier(task_id, env);
}

static void test_parallel_launch_calls_task_once(void** state) {
  int sum = 0;
  (void)state;
  assert_int_equal(TVMBackendParallelLaunch(count_task, &sum, 4), 0);
  assert_int_equal(sum, 10);
}

static int answer(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                  void* resource) {
  (void)args, (void)codes, (void)num_args, (void)resource;
  out->v_int64 = 3;
  *out_code = kTVMArgInt;
  return 0;
}

static void test_mutable_table_grows_until_full(void** state) {
  static _Alignas(16) uint8_t memory[2 + 3 * TVM_AVERAGE_FUNC_ENTRY_SIZE_BYTES];
  TVMMutableFuncRegistry reg;
  tvm_function_index_t index;
  (void)state;
  assert_int_equal(TVMMutableFuncRegistry_Create(&reg, memory, 4), kTvmErrorBufferTooSmall);
  assert_int_equal(TVMMutableFuncRegistry_Create(&reg, memory, sizeof(memory)), 0);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "one", answer, 0), 0);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "two", answer, 0), 0);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "one", answer, 0),
                   kTvmErrorFunctionAlreadyDefined);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "one", answer, 1), 0);
  assert_int_equal(TVMMutableFuncRegistry_Set(&reg, "a name that is much too long", answer, 0),
                   kTvmErrorFunctionRegistryFull);
  assert_int_equal(TVMFuncRegistry_Lookup(&reg.registry, "two", &index), 0);
  assert_int_equal(index, 1);
}

static void test_calls_by_name_need_a_table(void** state) {
  TVMFunctionHandle f = state;
  (void)state;
  assert_int_equal(TVMBackendGetFuncFromEnv(NULL, "absent", &f), -1);
  assert_null(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_network_runs),
      cmocka_unit_test(test_workspaces_use_provided_memory),
      cmocka_unit_test(test_stack_allocator_checks_the_order),
      cmocka_unit_test(test_page_allocator_reuses_blocks_of_any_order),
      cmocka_unit_test(test_parallel_launch_calls_task_once),
      cmocka_unit_test(test_mutable_table_grows_until_full),
      cmocka_unit_test(test_calls_by_name_need_a_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
