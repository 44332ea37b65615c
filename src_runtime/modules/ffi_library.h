/* Libraries that export functions of tvm-ffi. */
#ifndef TVMRT_SRC_RUNTIME_MODULES_FFI_LIBRARY_H_
#define TVMRT_SRC_RUNTIME_MODULES_FFI_LIBRARY_H_

#include "../platform/loading.h"
#include "module.h"

/* How to load a file: at once if functions of libtvm_ffi are missing, which is then loaded first if
 * the system finds it. */
tvmrt_loading tvmrt__ffi_binding(const char* path);

/* Call after a file could not be loaded: says what to install if libtvm_ffi is missing. Returns
 * -1. */
int tvmrt__ffi_explain(const char* path);

/* The function `__tvm_ffi_<name>` as a packed function, owned, which retains `owner`; *out is NULL
 * if there is none. The name of an entry is "__tvm_main__". */
int tvmrt__ffi_find(const tvmrt_library_source* source, tvmrt_module* owner, const char* name,
                    tvmrt_func** out);

#endif
