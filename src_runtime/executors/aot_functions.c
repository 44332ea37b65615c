/* Global functions for ahead-of-time compiled networks. */
#include <ctype.h>
#include <stdlib.h>

#include "aot.h"

/* (module, Device, name) */
TVMRT_NATIVE(create) {
  tvmrt_module* library;
  tvmrt_module* mod;
  DLDevice dev;
  const char* name;
  TVMRT_COUNTED_ARGS(3, 3);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_module(&in, 0, &library));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_device(&in, 1, &dev));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 2, &name));
  TVMRT_RETURN_IF_ERROR(tvmrt__aot_executor_new(library, name, dev, NULL, &mod));
  return tvmrt__ret_object(out, out_code, &mod->base);
}

/* (name) -> the name with '_' for all characters except letters and digits, as in C code of TVM's
 * compiler. Callers construct function names with it before they load a library, so both must
 * agree. */
TVMRT_NATIVE(sanitise) {
  const char* name;
  char* clean;
  char* p;
  int rc;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  clean = tvmrt__strdup(name);
  for (p = clean; p != NULL && *p != '\0'; ++p) {
    if (!isalnum((unsigned char)*p)) *p = '_';
  }
  rc = clean == NULL ? -1 : tvmrt__ret_str(out, out_code, clean);
  free(clean);
  return rc;
}

#define FUNCTIONS(X)                   \
  X("tvm.aot_executor.create", create) \
  X("runtime.SanitizeName", sanitise)
const tvmrt_builtins tvmrt__aot_builtins = TVMRT_BUILTINS(FUNCTIONS);
