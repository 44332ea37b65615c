/* Conversion of modules. A tvm-ffi module is a C++ object, which is used through global functions.
 * It can only be made in C++, so a classic module becomes a Function from names to functions. */
#include <string.h>
#include <tvm/runtime/module_plugin.h>

#include "convert.h"
#include "error.h"
#include "library.h"
#include "raise.h"

/* ---- tvm-ffi to classic ---- */

typedef int (*FindGlobal)(const TVMByteArray* name, void** out);

/* Get a module's function; *out is None if there is none. */
static int call_module_function(FfiObject* module, const char* name, FfiAny* out) {
  static const char kAsk[] = "ffi.ModuleGetFunction";
  const TVMByteArray key = {kAsk, sizeof(kAsk) - 1};
  FfiAny args[3] = {{.type_index = kFfiModule, .u.v_obj = module},
                    {.type_index = kFfiRawStr, .u.v_str = name},
                    {.type_index = kFfiBool, .u.v_int64 = 1}};
  /* Not in the function table, since only modules need it; a module exists only if libtvm_ffi is
   * loaded. */
  void* symbol = bridge_loaded_symbol("TVMFFIFunctionGetGlobal");
  FindGlobal find;
  void* function = NULL;
  int rc;
  memcpy(&find, &symbol, sizeof(find));
  if (find == NULL) return bridge_fail("a tvm-ffi module cannot be used without libtvm_ffi");
  if (find(&key, &function) != 0) return bridge_catch();
  if (function == NULL) return bridge_fail("libtvm_ffi has no global function %s", kAsk);
  *out = (FfiAny){.type_index = kFfiNone};
  rc = ffi.function_call(function, args, 3, out) == 0 ? 0 : bridge_catch();
  ffi_release(function);
  return rc;
}

/* The main function has different names on the two sides. A missing function is not an error: *out
 * stays empty. */
static int get_function(void* self, const char* name, tvmrt_module_function* out) {
  FfiAny found = {.type_index = kFfiNone};
  int rc = 0;
  if (call_module_function(self, strcmp(name, "__tvm_main__") == 0 ? "main" : name, &found) != 0)
    return -1;
  if (found.type_index == kFfiFunction) {
    rc = bridge_function_to_classic(found.u.v_obj, &out->handle);
  }
  bridge_release_any(&found);
  return rc;
}

/* Called with the classic module's last reference, on any thread. */
static void release(void* self) { ffi_release(self); }

/* Retained last, so that a failure has nothing to release. */
int bridge_module_to_classic(FfiObject* module, TVMModuleHandle* out) {
  static const tvmrt_module_vtable table = {
      .struct_bytes = sizeof(table),
      .type_key = "tvm_ffi",
      .properties = TVMRT_MODULE_RUNNABLE,
      .get_function = get_function,
      .release = release,
  };
  if (tvmrt_module_create(&table, module, out) != 0) return -1;
  ffi_retain(module);
  return 0;
}

/* ---- classic to tvm-ffi ---- */

/* TVMRuntimeCPackedFunc: (name) -> function or None. */
static int get_by_name(TVMValue* args, int* codes, int num_args, TVMRetValueHandle ret,
                       void* module) {
  TVMValue value;
  int code = kTVMPackedFuncHandle;
  int rc;
  if (num_args != 1 || codes[0] != kTVMStr) {
    return bridge_fail("TypeError: a module is called with the name of one of its functions");
  }
  if (TVMModGetFunction(module, args[0].v_str, 1, &value.v_handle) != 0) return -1;
  if (value.v_handle == NULL) return 0;
  rc = TVMCFuncSetReturn(ret, &value, &code, 1);
  (void)TVMFuncFree(value.v_handle);
  return rc;
}

/* Releases the reference taken by bridge_module_to_ffi(). */
static void free_module(void* module) { (void)TVMModFree(module); }

/* After TVMFuncCreateFromCFunc() the function owns the module's reference. */
int bridge_module_to_ffi(TVMModuleHandle module, FfiObject** out) {
  TVMFunctionHandle function;
  int rc;
  *out = NULL;
  if (TVMObjectRetain(module) != 0) return -1;
  if (TVMFuncCreateFromCFunc(get_by_name, module, free_module, &function) != 0) {
    (void)TVMModFree(module);
    return -1;
  }
  rc = bridge_function_to_ffi(function, out);
  (void)TVMFuncFree(function);
  return rc;
}
