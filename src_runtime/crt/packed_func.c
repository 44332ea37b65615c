/* Packed functions with their arguments in one struct, for firmware programs; and their start. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/packed_func.h>

#include "../function.h"
#include "../tensor.h"

tvm_crt_error_t TVMInitializeRuntime(void) {
  tvmrt_func* f;
  if (tvmrt__global_get("runtime.SystemLib", &f) != 0) return kTvmErrorPlatformNoMemory;
  if (f != NULL) tvmrt__release(&f->base);
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMGraphExecutorModule_Register(void) { return kTvmErrorNoError; }

tvm_crt_error_t TVMAotExecutorModule_Register(void) { return kTvmErrorNoError; }

DLDataType String2DLDataType(const char* s) {
  DLDataType dtype = {0, 0, 0};
  (void)tvmrt__dtype_from_text(s, &dtype);
  return dtype;
}

TVMArgs TVMArgs_Create(TVMValue* values, uint32_t* tcodes, uint32_t values_count) {
  TVMArgs args;
  uint32_t i;
  memset(&args, 0, sizeof(args));
  args.values_count = values_count < TVM_CRT_MAX_ARGS ? values_count : TVM_CRT_MAX_ARGS;
  for (i = 0; i < args.values_count; ++i) {
    args.values[i] = values[i];
    args.tcodes[i] = (int)tcodes[i];
  }
  return args;
}

static int bind(TVMPackedFunc* pf, const char* name, TVMFunctionHandle f, const TVMArgs* args) {
  if (f == NULL) return tvmrt__fail("Cannot find function %s.", name);
  (void)strncpy(pf->name, name, sizeof(pf->name) - 1);
  pf->fexec = f;
  pf->Call = TVMPackedFunc_Call;
  pf->SetArgs = TVMPackedFunc_SetArgs;
  TVMPackedFunc_SetArgs(pf, args);
  return 0;
}

int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc* pf, const char* name, const TVMArgs* args) {
  TVMFunctionHandle f;
  memset(pf, 0, sizeof(*pf));
  TVMRT_RETURN_IF_ERROR(TVMFuncGetGlobal(name, &f));
  return bind(pf, name, f, args);
}

int TVMPackedFunc_InitModuleFunc(TVMPackedFunc* pf, TVMModuleHandle module, const char* name,
                                 const TVMArgs* args) {
  TVMFunctionHandle f;
  memset(pf, 0, sizeof(*pf));
  TVMRT_RETURN_IF_ERROR(TVMModGetFunction(module, name, 0, &f));
  return bind(pf, name, f, args);
}

void TVMPackedFunc_Call(TVMPackedFunc* pf) {
  pf->ret_value.values_count = 0;
  if (TVMFuncCall(pf->fexec, pf->args.values, pf->args.tcodes, (int)pf->args.values_count,
                  &pf->ret_value.values[0], &pf->ret_value.tcodes[0]) == 0) {
    pf->ret_value.values_count = 1;
  }
}

void TVMPackedFunc_SetArgs(TVMPackedFunc* pf, const TVMArgs* args) {
  if (args != NULL) pf->args = *args;
}
