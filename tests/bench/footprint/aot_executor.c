/* The executor of a network compiled ahead of time, over the packed interface and its metadata. */
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/platform.h>

#include "image.h"
#include "report.h"

static uint8_t pool[1024] __attribute__((aligned(16)));
static const int64_t shape[] = {1, NUM_FLOATS};
static const TVMTensorInfo inputs[] = {{"x", shape, 2, {kDLFloat, 32, 1}}};
static const TVMTensorInfo outputs[] = {{"output0", shape, 2, {kDLFloat, 32, 1}}};
static const TVMMetadata metadata = {1, inputs, 1, outputs, 1, NULL, 0, NULL, 0, "tvmgen_default"};

static int get_metadata(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                        void* resource) {
  (void)args, (void)codes, (void)num_args, (void)resource;
  out->v_handle = (void*)(uintptr_t)&metadata;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

static const TVMCPackedFunc functions[] = {op_first, get_metadata};
static const TVMFuncRegistry registry = {
    "\002\000tvmgen_default_run\000tvmgen_default_get_c_metadata\000", functions};
static const TVMModule module = {&registry};

int main(void) {
  const DLDevice cpu = {kDLCPU, 0};
  TVMCPackedFunc volatile direct = op_first;
  TVMModuleHandle handle;
  TVMAotExecutor* ex;
  op_args args = {{{0}}, {kTVMDLTensorHandle, kTVMDLTensorHandle}};
  TVMValue result;
  int code;
  uint32_t at[4];
  tvmrt_workspace_init(pool, sizeof(pool));
  if (TVMModCreateFromCModule(&module, &handle) != 0) return 1;
  at[0] = count_now();
  if (TVMAotExecutor_Create(handle, cpu, &ex, "default") != kTvmErrorNoError) return 2;
  at[1] = count_now();
  if (TVMAotExecutor_Run(ex) != kTvmErrorNoError) return 3;
  at[2] = count_now();
  args.values[0].v_handle = &ex->args[0].dl_tensor;
  args.values[1].v_handle = &ex->args[1].dl_tensor;
  if (direct(args.values, args.codes, 2, &result, &code, NULL) != 0) return 4;
  at[3] = count_now();
  report("network compiled ahead: create", count_between(at[0], at[1]));
  report("network compiled ahead: run over a direct call",
         count_between(at[1], at[2]) - count_between(at[2], at[3]));
  report("network compiled ahead: memory without tensors",
         (uint32_t)tvmrt_workspace_peak_bytes() - 2 * NUM_FLOATS * 4);
  return TVMAotExecutor_Release(ex, cpu);
}
