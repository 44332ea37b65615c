/* The firmware library alone: functions by name, and networks compiled ahead of time. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/packed_func.h>

#include "firmware_net.h"

const TVMModule* TVMSystemLibEntryPoint(void) { return &wide_module; }

/* ---- functions by name ---- */

static int64_t call_for_answer(TVMFunctionHandle f, int64_t value) {
  TVMValue arg;
  TVMValue ret;
  int code = kTVMArgInt;
  int ret_code;
  arg.v_int64 = value;
  assert_int_equal(TVMFuncCall(f, &arg, &code, 1, &ret, &ret_code), 0);
  assert_int_equal(ret_code, kTVMArgInt);
  return ret.v_int64;
}

static void test_both_tables_are_read(void** state) {
  const TVMModule* modules[] = {&narrow_module, &wide_module};
  (void)state;
  for (int i = 0; i < 2; ++i) {
    TVMModuleHandle mod;
    TVMFunctionHandle f;
    assert_int_equal(TVMModCreateFromCModule(modules[i], &mod), 0);
    assert_int_equal(TVMModGetFunction(mod, "answer", 0, &f), 0);
    assert_int_equal(call_for_answer(f, 2), 42);
    assert_int_equal(TVMModGetFunction(mod, "ad", 1, &f), kTvmErrorFunctionNameNotFound);
    assert_null(f);
    assert_int_equal(TVMFuncFree(f), 0);
    assert_int_equal(TVMModFree(mod), 0);
  }
}

static void test_bad_handles_get_a_code(void** state) {
  TVMModuleHandle mod;
  TVMFunctionHandle f;
  TVMValue ret;
  int code;
  const TVMModule empty = {NULL};
  (void)state;
  assert_int_equal(TVMModCreateFromCModule(NULL, &mod), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMModCreateFromCModule(&empty, &mod), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMModGetFunction(NULL, "answer", 0, &f), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMFuncCall(NULL, NULL, NULL, 0, &ret, &code), kTvmErrorFunctionNameNotFound);
  assert_int_equal(code, kTVMNullptr);
}

static void test_globals_need_memory_only_when_added(void** state) {
  static _Alignas(8) uint8_t memory[100];
  TVMModuleHandle mod;
  TVMFunctionHandle f;
  TVMFunctionHandle found;
  (void)state;
  assert_int_equal(TVMModCreateFromCModule(&wide_module, &mod), 0);
  assert_int_equal(TVMModGetFunction(mod, "answer", 0, &f), 0);
  assert_int_equal(TVMFuncRegisterGlobal("mine", f, 0), kTvmErrorFunctionRegistryFull);
  assert_int_equal(tvmrt_globals_init(NULL, 100), kTvmErrorBufferTooSmall);
  assert_int_equal(tvmrt_globals_init(memory, 4), kTvmErrorBufferTooSmall);
  assert_int_equal(tvmrt_globals_init(memory, sizeof(memory)), 0);
  assert_int_equal(TVMFuncRegisterGlobal("mine", f, 0), 0);
  assert_int_equal(TVMFuncRegisterGlobal("mine", f, 0), kTvmErrorFunctionAlreadyDefined);
  assert_int_equal(TVMFuncGetGlobal("mine", &found), 0);
  assert_int_equal(call_for_answer(found, 1), 41);
  assert_int_equal(TVMFuncGetGlobal("yours", &found), 0);
  assert_null(found);
}

static void test_the_system_library_is_a_global(void** state) {
  TVMValue args[3];
  int codes[3] = {kTVMModuleHandle, kTVMStr, kTVMArgInt};
  TVMValue ret;
  int code;
  TVMFunctionHandle f;
  (void)state;
  assert_int_equal(TVMFuncGetGlobal("runtime.SystemLib", &f), 0);
  assert_int_equal(TVMFuncCall(f, NULL, NULL, 0, &ret, &code), 0);
  assert_int_equal(code, kTVMModuleHandle);
  args[0] = ret;
  args[1].v_str = "answer";
  args[2].v_int64 = 0;
  assert_int_equal(TVMFuncGetGlobal("tvm.rpc.server.ModuleGetFunction", &f), 0);
  assert_int_equal(TVMFuncCall(f, args, codes, 3, &ret, &code), 0);
  assert_int_equal(code, kTVMPackedFuncHandle);
  assert_int_equal(call_for_answer(ret.v_handle, 0), 40);
  args[1].v_str = "absent";
  assert_int_equal(TVMFuncCall(f, args, codes, 3, &ret, &code), 0);
  assert_int_equal(code, kTVMNullptr);
  codes[1] = kTVMArgInt;
  assert_int_equal(TVMFuncCall(f, args, codes, 3, &ret, &code), kTvmErrorFunctionCallWrongArgType);
}

static void test_generated_code_calls_by_name_and_reports_errors(void** state) {
  TVMFunctionHandle f;
  (void)state;
  assert_int_equal(TVMBackendGetFuncFromEnv(NULL, "answer", &f), 0);
  assert_non_null(f);
  assert_int_equal(TVMBackendGetFuncFromEnv(NULL, "no answer", &f), -1);
  assert_null(f);
  TVMAPISetLastError("text of generated code");
  assert_string_equal(TVMGetLastError(), "text of generated code");
}

static void test_packed_function_in_a_struct(void** state) {
  TVMValue value;
  uint32_t code = kTVMArgInt;
  TVMArgs args;
  TVMPackedFunc pf;
  (void)state;
  value.v_int64 = 3;
  args = TVMArgs_Create(&value, &code, 1);
  assert_int_equal(
      TVMPackedFunc_InitModuleFunc(&pf, (void*)(uintptr_t)&narrow_module, "answer", &args), 0);
  assert_int_equal(pf.Call(&pf), 0);
  assert_int_equal(pf.ret_value.values_count, 1);
  assert_int_equal(pf.ret_value.values[0].v_int64, 43);
  assert_int_equal(TVMPackedFunc_InitGlobalFunc(&pf, "absent", &args),
                   kTvmErrorFunctionNameNotFound);
  assert_int_equal(String2DLDataType("float32x4").lanes, 4);
  assert_int_equal(String2DLDataType("bool").bits, 1);
  assert_int_equal(String2DLDataType("float99999").bits, 0);
  assert_int_equal(String2DLDataType("int8 ").bits, 0);
  assert_int_equal(String2DLDataType("bool8").bits, 0);
  assert_int_equal(String2DLDataType("int8x65535").lanes, 65535);
  assert_int_equal(String2DLDataType("int8x65536").lanes, 0);
}

/* ---- memory of the device ---- */

static void test_tensors_use_one_block(void** state) {
  static uint8_t memory[256];
  const int64_t shape[] = {2, 3};
  const int64_t negative[] = {-1};
  const int64_t huge[] = {1 << 20, 1 << 20};
  TVMArrayHandle t;
  (void)state;
  tvmrt_workspace_init(memory + 1, sizeof(memory) - 1);
  assert_int_equal(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &t), 0);
  assert_int_equal((uintptr_t)t->data % 16, 0);
  assert_int_equal(t->shape[1], 3);
  assert_ptr_not_equal(t->shape, shape);
  memset(t->data, 0, 24);
  assert_int_equal(TVMArrayFree(t), 0);
  assert_int_equal(TVMArrayFree(NULL), 0);
  assert_int_equal(TVMArrayAlloc(shape, 2, kDLFloat, 32, 9, kDLCPU, 0, &t),
                   kTvmErrorPlatformNoMemory);
  assert_null(t);
  assert_int_equal(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCUDA, 0, &t),
                   kTvmErrorPlatformNoMemory);
  assert_int_equal(TVMArrayAlloc(negative, 1, kDLFloat, 32, 1, kDLCPU, 0, &t),
                   kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMArrayAlloc(huge, 2, kDLFloat, 32, 1, kDLCPU, 0, &t),
                   kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMArrayAlloc(NULL, 0, kDLInt, 8, 1, kDLCPU, 0, &t), 0);
  assert_int_equal(TVMArrayFree(t), 0);
}

static void test_raw_memory_and_copies(void** state) {
  static _Alignas(16) uint8_t memory[256];
  const DLDevice device = {kDLCPU, 0};
  const DLDataType byte = {kDLUInt, 8, 1};
  int64_t four[] = {4};
  int64_t five[] = {5};
  uint8_t bytes[8] = {0, 1, 2, 3, 4};
  DLTensor from = {bytes, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, four, NULL, 1};
  DLTensor to = from;
  TVMStreamHandle stream = state;
  void* block;
  (void)state;
  tvmrt_workspace_init(memory, sizeof(memory));
  assert_int_equal(TVMDeviceAllocDataSpace(device, 100, 16, byte, &block), 0);
  to.data = block;
  to.byte_offset = 0;
  assert_int_equal(TVMDeviceCopyDataFromTo(&from, &to, NULL), 0);
  assert_memory_equal(block, bytes + 1, 4);
  to.shape = five;
  assert_int_equal(TVMDeviceCopyDataFromTo(&from, &to, NULL), kTvmErrorFunctionCallInvalidArg);
  assert_int_equal(TVMDeviceFreeDataSpace(device, block), 0);
  assert_int_equal(TVMDeviceFreeDataSpace(device, NULL), 0);
  assert_int_equal(TVMDeviceAllocDataSpace(device, 100, 4096, byte, &block),
                   (uintptr_t)memory % 4096 == 0 ? 0 : kTvmErrorPlatformNoMemory);
  assert_int_equal(TVMStreamCreate(kDLCPU, 0, &stream), 0);
  assert_null(stream);
  assert_int_equal(TVMSetStream(kDLCPU, 0, stream), 0);
  assert_int_equal(TVMSynchronize(kDLCPU, 0, stream), 0);
  assert_int_equal(TVMStreamStreamSynchronize(kDLCPU, 0, stream, stream), 0);
  assert_int_equal(TVMStreamFree(kDLCPU, 0, stream), 0);
}

/* ---- networks compiled ahead of time ---- */

static const DLDevice cpu = {kDLCPU, 0};

static void test_aot_network(void** state) {
  static uint8_t memory[1024];
  const TVMModule* modules[] = {&run_module, &main_module};
  (void)state;
  for (int i = 0; i < 2; ++i) {
    TVMAotExecutor* ex = NULL;
    const char* name;
    tvm_crt_error_t rc = kTvmErrorPlatformNoMemory;
    for (size_t room = 0; rc == kTvmErrorPlatformNoMemory && room < sizeof(memory); ++room) {
      assert_null(ex);
      tvmrt_workspace_init(memory, room);
      rc = TVMAotExecutor_Create((void*)(uintptr_t)modules[i], cpu, &ex, "net");
    }
    assert_int_equal(rc, 0);
    assert_int_equal(ex->num_args, 2 + i);
    assert_int_equal(TVMAotExecutor_GetNumInputs(ex), 1);
    assert_int_equal(TVMAotExecutor_GetNumOutputs(ex), 1);
    assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "image_0"), 0);
    assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "image:0"), 0);
    assert_int_equal(TVMAotExecutor_GetInputIndex(ex, "image"), -1);
    assert_int_equal(TVMAotExecutor_GetInputName(ex, 0, &name), 0);
    assert_string_equal(name, "image_0");
    for (int index = -1; index <= 1; index += 2) {
      assert_int_equal(TVMAotExecutor_GetInputName(ex, index, &name),
                       kTvmErrorExecutorModuleNoSuchInput);
      assert_null(name);
    }
    memcpy(ex->args[0].dl_tensor.data, x, sizeof(x));
    /* a run may choose extents: they are the executor's own, not the metadata's */
    assert_int_equal(ex->args[0].dl_tensor.shape[0], 6);
    ex->args[0].dl_tensor.shape[0] = 3;
    assert_int_equal(ex->args[1].dl_tensor.shape[0], 6);
    assert_int_equal(six[0], 6);
    assert_int_equal(TVMAotExecutor_Run(ex), 0);
    assert_float_equal(((float*)ex->args[1].dl_tensor.data)[5], 14, 0);
    assert_int_equal(TVMAotExecutor_Release(ex, cpu), 0);
  }
  assert_int_equal(TVMAotExecutor_Release(NULL, cpu), 0);
}

static void test_bad_aot_networks_get_error_code(void** state) {
  static uint8_t memory[1024];
  static const DLDevice gpu = {kDLCUDA, 0};
  static const int64_t huge[] = {INT64_MAX / 2};
  char name[200];
  TVMModuleHandle mod = (void*)(uintptr_t)&run_module;
  TVMAotExecutor* ex;
  (void)state;
  tvmrt_workspace_init(memory, sizeof(memory));
  assert_int_equal(TVMAotExecutor_Create(NULL, cpu, &ex, "net"), kTvmErrorExecutorModuleBadContext);
  assert_int_equal(TVMAotExecutor_Create(mod, gpu, &ex, "net"), kTvmErrorExecutorModuleBadContext);
  assert_int_equal(TVMAotExecutor_Create(mod, cpu, &ex, "ne"), kTvmErrorFunctionNameNotFound);
  memset(name, 'n', sizeof(name));
  name[sizeof(name) - 1] = '\0';
  assert_int_equal(TVMAotExecutor_Create(mod, cpu, &ex, name), kTvmErrorFunctionNameNotFound);
  metadata.version = 2;
  assert_int_equal(TVMAotExecutor_Create(mod, cpu, &ex, "net"), kTvmErrorFunctionNameNotFound);
  metadata.version = 1;
  metadata.num_constant_pools = 1;
  assert_int_equal(TVMAotExecutor_Create((void*)(uintptr_t)&main_module, cpu, &ex, "net"),
                   kTvmErrorExecutorModuleBadContext);
  metadata.num_constant_pools = 0;
  const TVMTensorInfo large[] = {{"x", huge, 1, {kDLFloat, 32, 1}}};
  metadata.inputs = large;
  assert_int_equal(TVMAotExecutor_Create(mod, cpu, &ex, "net"), kTvmErrorExecutorModuleBadContext);
  metadata.inputs = inputs;
  assert_null(ex);
}

static void test_aot_network_as_module(void** state) {
  static _Alignas(16) uint8_t memory[1024];
  static _Alignas(8) uint8_t table[100];
  TVMValue args[3];
  int codes[3] = {kTVMModuleHandle, kDLDevice, kTVMStr};
  TVMValue ret;
  int code;
  TVMFunctionHandle f;
  TVMModuleHandle mod;
  (void)state;
  tvmrt_workspace_init(memory, sizeof(memory));
  assert_int_equal(tvmrt_globals_init(table, sizeof(table)), 0);
  assert_int_equal(TVMAotExecutorModule_Register(), 0);
  assert_int_equal(TVMFuncGetGlobal("tvm.aot_executor.create", &f), 0);
  args[0].v_handle = (void*)(uintptr_t)&run_module;
  args[1].v_device = cpu;
  args[2].v_str = "net";
  assert_int_equal(TVMFuncCall(f, args, codes, 2, &ret, &code), kTvmErrorFunctionCallNumArguments);
  codes[2] = kTVMBytes;
  assert_int_equal(TVMFuncCall(f, args, codes, 3, &ret, &code), kTvmErrorFunctionCallWrongArgType);
  codes[2] = kTVMStr;
  assert_int_equal(TVMFuncCall(f, args, codes, 3, &ret, &code), 0);
  mod = ret.v_handle;
  assert_int_equal(TVMFuncCall(f, args, codes, 3, &ret, &code),
                   kTvmErrorExecutorModuleAlreadyCreated);
  args[0].v_int64 = 0;
  codes[0] = kTVMArgInt;
  assert_int_equal(call_of(mod, "get_input", args, codes, 1, &ret), 0);
  memcpy(((DLTensor*)ret.v_handle)->data, x, sizeof(x));
  assert_int_equal(call_of(mod, "get_input_name", args, codes, 1, &ret), 0);
  assert_string_equal(ret.v_str, "image_0");
  assert_int_equal(call_of(mod, "get_num_inputs", NULL, NULL, 0, &ret), 0);
  assert_int_equal(ret.v_int64, 1);
  assert_int_equal(call_of(mod, "get_num_outputs", NULL, NULL, 0, &ret), 0);
  assert_int_equal(ret.v_int64, 1);
  args[1].v_str = "image_0";
  codes[1] = kTVMStr;
  assert_int_equal(call_of(mod, "get_input_index", &args[1], &codes[1], 1, &ret), 0);
  assert_int_equal(ret.v_int64, 0);
  assert_int_equal(call_of(mod, "get_input_index", args, codes, 1, &ret),
                   kTvmErrorFunctionCallWrongArgType);
  assert_int_equal(call_of(mod, "get_input_index", args, codes, 0, &ret),
                   kTvmErrorFunctionCallNumArguments);
  assert_int_equal(call_of(mod, "run", NULL, NULL, 0, &ret), 0);
  assert_int_equal(call_of(mod, "get_output", args, codes, 1, &ret), 0);
  assert_float_equal(((float*)((DLTensor*)ret.v_handle)->data)[0], 4, 0);
  args[0].v_int64 = 1;
  assert_int_equal(call_of(mod, "get_output", args, codes, 1, &ret),
                   kTvmErrorExecutorModuleNoSuchInput);
  assert_int_equal(call_of(mod, "get_input", args, codes, 1, &ret),
                   kTvmErrorExecutorModuleNoSuchInput);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_both_tables_are_read),
      cmocka_unit_test(test_bad_handles_get_a_code),
      cmocka_unit_test(test_globals_need_memory_only_when_added),
      cmocka_unit_test(test_the_system_library_is_a_global),
      cmocka_unit_test(test_generated_code_calls_by_name_and_reports_errors),
      cmocka_unit_test(test_packed_function_in_a_struct),
      cmocka_unit_test(test_tensors_use_one_block),
      cmocka_unit_test(test_raw_memory_and_copies),
      cmocka_unit_test(test_aot_network),
      cmocka_unit_test(test_bad_aot_networks_get_error_code),
      cmocka_unit_test(test_aot_network_as_module),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
