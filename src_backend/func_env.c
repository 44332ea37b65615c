/* Backend library: calls by name, resolved in the image's own table.
 *
 * Generated code calls this for packed calls to functions that it does not define itself. Only the
 * image is searched: firmware loads no modules, so the module node is not read and may be
 * invalid. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/module.h>

#include "error_slot.h"

/* An image with direct calls only has no table; the address is then NULL. */
TVMRT_WEAK const TVMModule* TVMSystemLibEntryPoint(void);

/* A handle is the address of the table entry: a data pointer, as the handle type requires. */
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
