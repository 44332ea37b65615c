/* Libraries that export functions of tvm-ffi. */
#ifndef TVMRT_SRC_RUNTIME_MODULES_FFI_LIBRARY_H_
#define TVMRT_SRC_RUNTIME_MODULES_FFI_LIBRARY_H_

#include "module.h"

/* Call before loading a file: makes the functions of libtvm_ffi that it references available. 0, or
 * -1 with the text set; unreadable files are left to dlopen(). */
int tvmrt__ffi_prepare(const char* path);

/* Fill the variables that a library uses to call tvm-ffi, if it has them. */
void tvmrt__ffi_fill_variables(const tvmrt_library_source* source);

/* The function `__tvm_ffi_<name>` as a packed function, owned, which retains `owner`; *out is NULL
 * if there is none. The name of an entry is "__tvm_main__". */
int tvmrt__ffi_find(const tvmrt_library_source* source, tvmrt_module* owner, const char* name,
                    tvmrt_func** out);

#endif
