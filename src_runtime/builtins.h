/* Tables of the global functions that exist from the start; each ends with a NULL name. */
#ifndef TVMRT_SRC_RUNTIME_BUILTINS_H_
#define TVMRT_SRC_RUNTIME_BUILTINS_H_

#include "function.h"

extern const tvmrt_builtin tvmrt__aot_builtins[];
extern const tvmrt_builtin tvmrt__aot_factory_builtins[];
extern const tvmrt_builtin tvmrt__container_builtins[];
extern const tvmrt_builtin tvmrt__const_loader_builtins[];
extern const tvmrt_builtin tvmrt__contrib_builtins[];
extern const tvmrt_builtin tvmrt__device_builtins[];
extern const tvmrt_builtin tvmrt__graph_builtins[];
extern const tvmrt_builtin tvmrt__loader_builtins[];
extern const tvmrt_builtin tvmrt__metadata_builtins[];
extern const tvmrt_builtin tvmrt__module_builtins[];
extern const tvmrt_builtin tvmrt__pack_builtins[];
extern const tvmrt_builtin tvmrt__params_builtins[];
extern const tvmrt_builtin tvmrt__region_builtins[];
extern const tvmrt_builtin tvmrt__source_builtins[];
extern const tvmrt_builtin tvmrt__system_lib_builtins[];
extern const tvmrt_builtin tvmrt__tensor_builtins[];
extern const tvmrt_builtin tvmrt__thread_builtins[];
extern const tvmrt_builtin tvmrt__time_builtins[];

#endif
