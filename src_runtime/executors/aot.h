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
  struct tvmrt_run_memory* memory; /* if it is planned for each run; else NULL */
  TVMValue* args;                  /* each the address of a DLTensor in use */
  int* codes;
  int num_args;
} tvmrt_aot_executor;

/* An executor of the network `name` ("" for the library's only one); `params` may be NULL. *out is
 * owned. */
int tvmrt__aot_executor_new(tvmrt_module* library, const char* name, DLDevice dev,
                            const tvmrt_params* params, tvmrt_module** out);

int tvmrt__aot_run(tvmrt_executor* e);

/* Read the library's plan of memory, if it has one, and then its dimensions. */
int tvmrt__aot_read_plan(tvmrt_aot_executor* e);
/* Accepts NULL. */
void tvmrt__run_memory_free(struct tvmrt_run_memory* memory);

/* Provide workspace and outputs for a run of the inputs' sizes, and update main's arguments. On
 * failure outputs are unchanged. */
int tvmrt__aot_plan_run(tvmrt_aot_executor* e);

/* Let main receive the DLTensor inside of an NDArray as argument i; its address is stable while the
 * port or the pool retains the tensor. */
static inline void tvmrt__aot_set_arg(tvmrt_aot_executor* e, size_t i, tvmrt_tensor* t) {
  e->args[i].v_handle = &t->dl;
  e->codes[i] = kTVMDLTensorHandle;
}

int tvmrt__aot_profile(tvmrt_executor* e, tvmrt_buf* text);

#endif
