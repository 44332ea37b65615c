/* Backend library: calls by name, served by the functions of the image's own table.
 *
 * Generated code calls this for packed calls to functions that it does not define itself. There is
 * nothing to look in but the image: firmware loads no modules, so the module node is not read and
 * need not be one. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/module.h>

#include "error_slot.h"

/* An image of direct calls only has no table; the address is then NULL. */
TVMRT_WEAK const TVMModule* TVMSystemLibEntryPoint(void);

/* A handle here is the address of the table's entry: a data pointer, as the handle type asks for. */
int TVMBackendGetFuncFromEnv(void* mod_node, const char* func_name, TVMFunctionHandle* out) {
  const TVMModule* image = NULL;
  tvm_function_index_t index;
  (void)mod_node;
  *out = NULL;
  if (TVMSystemLibEntryPoint != NULL) image = TVMSystemLibEntryPoint();
  if (image != NULL &&
      TVMFuncRegistry_Lookup(image->registry, func_name, &index) == kTvmErrorNoError) {
    *out = (TVMFunctionHandle)(uintptr_t)&image->registry->funcs[index];
    return 0;
  }
  (void)tvmrt__report(kTvmErrorFunctionNameNotFound);
  return -1;
}
