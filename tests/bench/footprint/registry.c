/* Functions by name and modules, and packed calls by handle and in a struct. */
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/packed_func.h>
#include <tvm/runtime/platform.h>

#include "image.h"
#include "report.h"

static uint8_t pool[1024] __attribute__((aligned(16)));
static int32_t x[NUM_FLOATS];
static int32_t y[NUM_FLOATS];

static int call_by_name(const TVMArgs* args) {
  static TVMPackedFunc packed;
  if (TVMPackedFunc_InitGlobalFunc(&packed, "first", args) != 0) return 1;
  packed.Call(&packed);
  return packed.ret_value.values_count != 1 || TVMGetLastError()[0] != '\0';
}

/* The cost of a call by handle is its difference from the call by address. */
static int compare_calls(TVMFunctionHandle f, op_args* args) {
  TVMCPackedFunc volatile direct = op_first;
  TVMValue result;
  int code = kTVMNullptr;
  uint32_t at[3];
  int rc;
  at[0] = count_now();
  rc = direct(args->values, args->codes, 2, &result, &code, NULL);
  at[1] = count_now();
  rc |= TVMFuncCall(f, args->values, args->codes, 2, &result, &code);
  at[2] = count_now();
  report("packed call over direct call", count_between(at[1], at[2]) - count_between(at[0], at[1]));
  return rc;
}

int main(void) {
  DLTensor tensors[2] = {{x, {kDLCPU, 0}, 0, {kDLInt, 32, 1}, NULL, NULL, 0},
                         {y, {kDLCPU, 0}, 0, {kDLInt, 32, 1}, NULL, NULL, 0}};
  op_args args = {{{0}}, {kTVMDLTensorHandle, kTVMDLTensorHandle}};
  uint32_t codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  TVMFunctionHandle f;
  TVMValue module;
  TVMArgs packed_args;
  int code;
  tvmrt_workspace_init(pool, sizeof(pool));
  if (TVMInitializeRuntime() != kTvmErrorNoError) return 1;
  if (TVMFuncGetGlobal("runtime.SystemLib", &f) != 0) return 2;
  if (TVMFuncCall(f, NULL, NULL, 0, &module, &code) != 0) return 3;
  if (TVMModGetFunction(module.v_handle, "tvmgen_default_fused_add", 0, &f) != 0) return 4;
  if (TVMFuncRegisterGlobal("first", f, 0) != 0) return 5;
  args.values[0].v_handle = &tensors[0];
  args.values[1].v_handle = &tensors[1];
  if (compare_calls(f, &args) != 0) return 6;
  packed_args = TVMArgs_Create(args.values, codes, 2);
  return call_by_name(&packed_args) != 0 || y[0] != 1 ? 7 : 0;
}
