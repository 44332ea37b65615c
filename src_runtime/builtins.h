/* Tables of the global functions that exist from the start. */
#ifndef TVMRT_SRC_RUNTIME_BUILTINS_H_
#define TVMRT_SRC_RUNTIME_BUILTINS_H_

#include "function.h"

extern const tvmrt_builtins tvmrt__aot_builtins;
extern const tvmrt_builtins tvmrt__aot_factory_builtins;
extern const tvmrt_builtins tvmrt__container_builtins;
extern const tvmrt_builtins tvmrt__const_loader_builtins;
extern const tvmrt_builtins tvmrt__contrib_builtins;
extern const tvmrt_builtins tvmrt__device_builtins;
extern const tvmrt_builtins tvmrt__graph_builtins;
extern const tvmrt_builtins tvmrt__loader_builtins;
extern const tvmrt_builtins tvmrt__metadata_builtins;
extern const tvmrt_builtins tvmrt__module_builtins;
extern const tvmrt_builtins tvmrt__pack_builtins;
extern const tvmrt_builtins tvmrt__params_builtins;
extern const tvmrt_builtins tvmrt__region_builtins;
extern const tvmrt_builtins tvmrt__source_builtins;
extern const tvmrt_builtins tvmrt__system_lib_builtins;
extern const tvmrt_builtins tvmrt__tensor_builtins;
extern const tvmrt_builtins tvmrt__thread_builtins;
extern const tvmrt_builtins tvmrt__time_builtins;

#endif
