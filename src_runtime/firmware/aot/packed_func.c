/* Packed functions with their arguments in one struct. Part of both runtimes, firmware and host. */
#include "packed_func.h"

#include <tvm/runtime/c_runtime_api.h>

#include "../../../src_backend/mem_functions.h"

/* Returned by value. Excess arguments are dropped, and values_count is then smaller. */
TVMArgs TVMArgs_Create(TVMValue* values, uint32_t* tcodes, uint32_t values_count) {
  TVMArgs args;
  uint32_t i;
  memset(&args, 0, sizeof(args));
  for (i = 0; i < values_count && i < TVM_CRT_MAX_ARGS; ++i) {
    args.values[i] = values[i];
    args.tcodes[i] = (int)tcodes[i];
  }
  args.values_count = i;
  return args;
}

/* A name that is too long is truncated: it is for inspection only. `rc` is the result of the
 * look-up. */
static int bind(TVMPackedFunc* pf, const char* name, const TVMArgs* args, int rc) {
  size_t i;
  if (pf->fexec == NULL) return tvmrt__function_missing(name, rc);
  for (i = 0; i + 1 < sizeof(pf->name) && name[i] != '\0'; ++i) pf->name[i] = name[i];
  pf->Call = TVMPackedFunc_Call;
  pf->SetArgs = TVMPackedFunc_SetArgs;
  TVMPackedFunc_SetArgs(pf, args);
  return 0;
}

int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc* pf, const char* name, const TVMArgs* args) {
  memset(pf, 0, sizeof(*pf));
  return bind(pf, name, args, TVMFuncGetGlobal(name, &pf->fexec));
}

int TVMPackedFunc_InitModuleFunc(TVMPackedFunc* pf, TVMModuleHandle module, const char* name,
                                 const TVMArgs* args) {
  memset(pf, 0, sizeof(*pf));
  return bind(pf, name, args, TVMModGetFunction(module, name, 0, &pf->fexec));
}

/* The result stays owned by the struct until the next call; there is none if the call fails. */
int TVMPackedFunc_Call(TVMPackedFunc* pf) {
  int rc = TVMFuncCall(pf->fexec, pf->args.values, pf->args.tcodes, (int)pf->args.values_count,
                       &pf->ret_value.values[0], &pf->ret_value.tcodes[0]);
  pf->ret_value.values_count = rc == 0 ? 1 : 0;
  return rc;
}

/* NULL leaves the arguments unchanged. */
void TVMPackedFunc_SetArgs(TVMPackedFunc* pf, const TVMArgs* args) {
  if (args != NULL) pf->args = *args;
}
