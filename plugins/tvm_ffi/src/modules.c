/* Conversion of modules. A tvm-ffi module is a C++ object, which is used through global functions.
 * It can only be made in C++, so a classic module becomes a Function from names to functions. */
#include "modules.h"

#include <string.h>
#include <tvm/runtime/module_plugin.h>

#include "library.h"
#include "sdk/base.h"
#include "wrappers.h"

/* ---- tvm-ffi to classic ---- */

/* The main function has different names on the two sides. A missing function is not an error: *out
 * stays empty. */
static int get_function(void* self, const char* name, tvmrt_module_function* out) {
  FfiAny args[3] = {{.type_index = kFfiModule, .u.v_obj = self},
                    {.type_index = kFfiRawStr, .u.v_str = name},
                    {.type_index = kFfiBool, .u.v_int64 = 1}}; /* also in its imports */
  FfiAny found;
  int rc = 0;
  if (strcmp(name, "__tvm_main__") == 0) args[1].u.v_str = "main";
  if (bridge_call_ffi("ffi.ModuleGetFunction", args, 3, &found) != 0) return -1;
  if (found.type_index == kFfiFunction) {
    rc = bridge_function_to_classic(found.u.v_obj, &out->handle);
  }
  ffi_release_any(&found);
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

/* TVMCPackedFunc: (name) -> function or None. */
static int get_by_name(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                       void* module) {
  if (num_args != 1 || codes[0] != kTVMStr) {
    return tvmrt__fail_type("a module is called with the name of one of its functions");
  }
  if (TVMModGetFunction(module, args[0].v_str, 1, &out->v_handle) != 0) return -1;
  *out_code = out->v_handle == NULL ? kTVMNullptr : kTVMPackedFuncHandle;
  return 0;
}

/* Releases the reference taken by bridge_module_to_ffi(). */
static void free_module(void* module) { (void)TVMModFree(module); }

/* After tvmrt_func_create() the function owns the module's reference. */
int bridge_module_to_ffi(TVMModuleHandle module, FfiObject** out) {
  TVMFunctionHandle function;
  int rc;
  *out = NULL;
  if (TVMObjectRetain(module) != 0) return -1;
  if (tvmrt_func_create(get_by_name, module, free_module, &function) != 0) {
    (void)TVMModFree(module);
    return -1;
  }
  rc = bridge_function_to_ffi(function, out);
  (void)TVMFuncFree(function);
  return rc;
}
