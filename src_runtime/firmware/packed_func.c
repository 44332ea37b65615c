/* Firmware runtime: packed functions with their arguments in one struct. */
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/packed_func.h>

#include "../../src_backend/bytes.h"

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
  size_t i;
  memset(pf, 0, sizeof(*pf));
  if (f == NULL) return kTvmErrorFunctionNameNotFound;
  for (i = 0; i + 1 < sizeof(pf->name) && name[i] != '\0'; ++i) pf->name[i] = name[i];
  pf->fexec = f;
  pf->Call = TVMPackedFunc_Call;
  pf->SetArgs = TVMPackedFunc_SetArgs;
  TVMPackedFunc_SetArgs(pf, args);
  return kTvmErrorNoError;
}

int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc* pf, const char* name, const TVMArgs* args) {
  TVMFunctionHandle f;
  (void)TVMFuncGetGlobal(name, &f);
  return bind(pf, name, f, args);
}

int TVMPackedFunc_InitModuleFunc(TVMPackedFunc* pf, TVMModuleHandle module, const char* name,
                                 const TVMArgs* args) {
  TVMFunctionHandle f;
  (void)TVMModGetFunction(module, name, 0, &f);
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
