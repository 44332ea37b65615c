/* An application over the AOT executor of the firmware library; prints the output, or the code. */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/platform.h>

static uint8_t memory[4096];

static int run(TVMAotExecutor* ex) {
  const float x[6] = {1, -2, 3, 0.5f, 100, -7};
  const char* name;
  const float* z;
  int rc;
  int i;
  if (TVMAotExecutor_GetNumInputs(ex) != 1 || TVMAotExecutor_GetNumOutputs(ex) != 1) return 10;
  if (TVMAotExecutor_GetInputName(ex, 0, &name) != 0 || strcmp(name, "x") != 0) return 11;
  if (TVMAotExecutor_GetInputName(ex, 1, &name) != kTvmErrorExecutorModuleNoSuchInput) return 12;
  if (TVMAotExecutor_GetInputIndex(ex, "x") != 0) return 13;
  if (TVMAotExecutor_GetInputIndex(ex, "y") != -1) return 14;
  memcpy(ex->args[0].dl_tensor.data, x, sizeof(x));
  rc = TVMAotExecutor_Run(ex);
  if (rc != 0) return rc;
  z = ex->args[1].dl_tensor.data;
  for (i = 0; i < 6; ++i) printf("%g%c", z[i], i == 5 ? '\n' : ' ');
  return 0;
}

int main(void) {
  const DLDevice cpu = {kDLCPU, 0};
  TVMModuleHandle module;
  TVMAotExecutor* ex;
  size_t size;
  int rc;
  if (TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &module) != 0) return 1;
  if (TVMAotExecutor_Create(module, cpu, &ex, "other") != kTvmErrorFunctionNameNotFound) return 2;
  for (size = 0; size < sizeof(memory); size += 64) {
    tvmrt_workspace_init(memory + 1, size);
    rc = TVMAotExecutor_Create(module, cpu, &ex, "default");
    if (rc == 0) break;
    if (rc != kTvmErrorPlatformNoMemory || ex != NULL) return 3;
  }
  tvmrt_workspace_init(memory + 1, sizeof(memory) - 1);
  rc = TVMAotExecutor_Create(module, cpu, &ex, "default");
  if (rc == 0) rc = run(ex);
  if (rc != 0) printf("code 0x%04x\n", (unsigned)rc);
  return TVMAotExecutor_Release(ex, cpu);
}
