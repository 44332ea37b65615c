/* Firmware runtime: modules and functions by handle.
 *
 * A module's handle is the address of its table, a function's that of its table entry: both lie in
 * flash, are never counted and never freed, so freeing does nothing. */
#include <tvm/runtime/c_runtime_api.h>

#include "packed_func.h"
#include "registry.h"

/* A table that is NULL or empty has no names, and gives NULL. */
TVMFunctionHandle tvmrt__registry_find(const TVMFuncRegistry* registry, const char* name) {
  tvm_function_index_t index;
  if (TVMFuncRegistry_Lookup(registry, name, &index) != kTvmErrorNoError) return NULL;
  return (TVMFunctionHandle)(uintptr_t)&registry->funcs[index];
}

/* A module is its table: nothing is allocated, and every call returns the same handle. */
int TVMModCreateFromCModule(const TVMModule* mod, TVMModuleHandle* out_handle) {
  *out_handle = (TVMModuleHandle)(uintptr_t)mod;
  return mod == NULL || mod->registry == NULL ? kTvmErrorFunctionCallInvalidArg : kTvmErrorNoError;
}

/* *out is NULL on failure. Unlike for global functions, an unknown name is an error. */
int TVMModGetFunction(TVMModuleHandle mod, const char* func_name, int query_imports,
                      TVMFunctionHandle* out) {
  (void)query_imports; /* modules of an image have no imports */
  *out = NULL;
  if (mod == NULL) return kTvmErrorFunctionCallInvalidArg;
  *out = tvmrt__registry_find(((const TVMModule*)mod)->registry, func_name);
  return *out == NULL ? kTvmErrorFunctionNameNotFound : kTvmErrorNoError;
}

int TVMModFree(TVMModuleHandle mod) {
  (void)mod;
  return kTvmErrorNoError;
}

int TVMFuncFree(TVMFunctionHandle func) {
  (void)func;
  return kTvmErrorNoError;
}

/* The host's library has another one, which sets an error text. */
int tvmrt__function_missing(const char* name, int rc) {
  (void)name, (void)rc;
  return kTvmErrorFunctionNameNotFound;
}
