/* The ahead-of-time executor: an instance of a network with a generated main function. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_AOT_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_AOT_H_

#include <tvm/runtime/metadata.h>

#include "executor.h"

typedef struct tvmrt_aot_executor {
  tvmrt_executor base;
  const TVMMetadata* metadata;      /* owned by the library */
  const TVMFunctionInfo* info;      /* main's, with source names; NULL if the library has none */
  tvmrt_func* main_function;        /* retained */
  const tvmrt_placement* placement; /* owned by the library, NULL if all is in host memory */
  tvmrt_tensor** pools; /* constants, then workspaces; main takes them after inputs and outputs */
  size_t num_pools;
  TVMValue* args; /* each the address of a DLTensor in use */
  int* codes;
  int num_args;
} tvmrt_aot_executor;

/* An executor of the network `name` ("" for the library's only one); `params` may be NULL. *out is
 * owned. */
int tvmrt__aot_executor_new(tvmrt_module* library, const char* name, DLDevice dev,
                            const tvmrt_params* params, tvmrt_module** out);

int tvmrt__aot_run(tvmrt_executor* e);

int tvmrt__aot_profile(tvmrt_executor* e, tvmrt_buf* text);

#endif
