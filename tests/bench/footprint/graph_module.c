/* The graph executor as a module, found by its name, over the default allocator. */
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/platform.h>

#include "image.h"
#include "report.h"

static uint8_t pool[4096] __attribute__((aligned(16)));
static float x[NUM_FLOATS];

static int call(TVMModuleHandle mod, const char* name, TVMValue* args, int* codes, int num_args,
                TVMValue* ret) {
  TVMFunctionHandle f;
  int code;
  int rc = TVMModGetFunction(mod, name, 0, &f);
  return rc != 0 ? rc : TVMFuncCall(f, args, codes, num_args, ret, &code);
}

int main(void) {
  int64_t shape[1] = {NUM_FLOATS};
  DLTensor in = {x, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, NULL, 0};
  TVMValue args[4];
  int codes[4] = {kTVMStr, kTVMModuleHandle, kTVMArgInt, kTVMArgInt};
  TVMFunctionHandle f;
  TVMValue ret;
  TVMModuleHandle graph;
  int code;
  uint32_t before;
  tvmrt_workspace_init(pool, sizeof(pool));
  if (TVMInitializeRuntime() != 0 || TVMGraphExecutorModule_Register() != 0) return 1;
  if (TVMFuncGetGlobal("runtime.SystemLib", &f) != 0) return 2;
  if (TVMFuncCall(f, NULL, NULL, 0, &args[1], &code) != 0) return 3;
  if (TVMFuncGetGlobal("tvm.graph_executor.create", &f) != 0) return 4;
  args[0].v_str = graph_json;
  args[2].v_int64 = kDLCPU;
  args[3].v_int64 = 0;
  before = count_now();
  if (TVMFuncCall(f, args, codes, 4, &ret, &code) != 0) return 5;
  report("graph create as a module", count_between(before, count_now()));
  graph = ret.v_handle;
  args[0].v_str = "x";
  args[1].v_handle = &in;
  codes[1] = kTVMDLTensorHandle;
  if (call(graph, "set_input", args, codes, 2, &ret) != 0) return 6;
  if (call(graph, "run", NULL, NULL, 0, &ret) != 0) return 7;
  args[0].v_int64 = 0;
  codes[0] = kTVMArgInt;
  if (call(graph, "get_output", args, codes, 1, &ret) != 0) return 8;
  report("memory of the board's allocator", (uint32_t)tvmrt_workspace_peak_bytes());
  return ((int32_t*)((DLTensor*)ret.v_handle)->data)[63] == 3 ? 0 : 9;
}
