/* Firmware runtime: global functions. Built-in ones lie in flash; functions that a program adds go
 * to a table in memory that the program provides. */
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/config_defaults.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/platform.h>

#include "../../../src_backend/compiler.h"
#include "registry.h"

/* An image without a table of functions has no system library; the address is then NULL. */
TVMRT_WEAK const TVMModule* TVMSystemLibEntryPoint(void);

static TVMMutableFuncRegistry added; /* names are NULL until there is memory */

/* () -> the module of this image */
static int system_lib(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                      void* resource_handle) {
  (void)args, (void)type_codes, (void)resource_handle;
  if (num_args != 0) return kTvmErrorFunctionCallNumArguments;
  if (TVMSystemLibEntryPoint == NULL) return kTvmErrorFunctionNameNotFound;
  *out_code = kTVMModuleHandle;
  return TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &out->v_handle);
}

/* (module, name, query_imports) -> function, or nothing. `query_imports` is ignored: modules of an
 * image have no imports. */
static int get_function(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,
                        void* resource_handle) {
  int rc;
  (void)resource_handle;
  if (num_args != 3) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMModuleHandle || type_codes[1] != kTVMStr) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  rc = TVMModGetFunction(args[0].v_handle, args[1].v_str, 0, &out->v_handle);
  *out_code = out->v_handle == NULL ? kTVMNullptr : kTVMPackedFuncHandle;
  return rc == kTvmErrorFunctionNameNotFound ? kTvmErrorNoError : rc;
}

/* The octal count before the names is the number of functions; both have the same order. */
static const TVMCPackedFunc builtin_functions[] = {system_lib, get_function};
static const TVMFuncRegistry builtins = {"\002runtime.SystemLib\0tvm.rpc.server.ModuleGetFunction",
                                         builtin_functions};

/* The memory is borrowed and stays in use. A second call removes all registered functions. */
tvm_crt_error_t tvmrt_globals_init(void* memory, size_t num_bytes) {
  if (memory == NULL) return kTvmErrorBufferTooSmall;
  return TVMMutableFuncRegistry_Create(&added, (uint8_t*)memory, num_bytes);
}

/* For programs of TVM, which have the board's allocator; further calls do nothing. */
tvm_crt_error_t TVMInitializeRuntime(void) {
  const DLDevice cpu = {kDLCPU, 0};
  void* memory;
  tvm_crt_error_t rc;
  if (added.registry.names != NULL) return kTvmErrorNoError;
  rc = TVMPlatformMemoryAllocate(TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES, cpu, &memory);
  if (rc != kTvmErrorNoError) return rc;
  return tvmrt_globals_init(memory, TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES);
}

/* `f` is the address of a function pointer, which is copied: it may lie on a stack. The name is
 * copied, too. An existing name is replaced if `override` is set, and an error otherwise. */
int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle f, int override) {
  if (name == NULL || f == NULL) return kTvmErrorFunctionCallInvalidArg;
  if (added.registry.names == NULL) return kTvmErrorFunctionRegistryFull;
  return TVMMutableFuncRegistry_Set(&added, name, *(const TVMCPackedFunc*)f, override);
}

/* The program's functions come first, so that they can replace built-in ones. An unknown name is no
 * error, as the ABI requires. */
int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out) {
  *out = tvmrt__registry_find(&added.registry, name);
  if (*out == NULL) *out = tvmrt__registry_find(&builtins, name);
  return kTvmErrorNoError;
}
