/* The AOT executor: an instance of a network whose operators one generated main function calls. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_AOT_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_AOT_H_

#include <tvm/runtime/metadata.h>

#include "../tensors/params.h"
#include "port.h"

typedef struct tvmrt_aot_executor {
  tvmrt_module base;
  const TVMMetadata* metadata; /* the library's */
  const TVMFunctionInfo* info; /* main's, with the author's names; NULL if the library has none */
  tvmrt_func* main_function;   /* retained */
  tvmrt_port* inputs;
  tvmrt_port* outputs;
  const tvmrt_dims* dims;           /* the library's, NULL where every extent is fixed */
  const tvmrt_placement* placement; /* the library's, NULL where all lies in the host's memory */
  tvmrt_tensor** pools; /* constants, then workspaces; what main takes after inputs and outputs */
  size_t num_inputs;
  size_t num_outputs;
  size_t num_pools;
  bool has_state; /* some of the workspace is what a run leaves for the next one */
  TVMValue* args; /* each the address of a DLTensor in use */
  int* codes;
  int num_args;
  atomic_bool is_taken;
} tvmrt_aot_executor;

/* An executor of the network `name` ("" for the library's only one); `params` may be NULL. *out is
 * owned. */
int tvmrt__aot_executor_new(tvmrt_module* library, const char* name, DLDevice dev,
                            const tvmrt_params* params, tvmrt_module** out);

/* The port of a name: as the network's author wrote it, else as the compiler spelled it in C, where
 * that means one port. *out is NULL if there is none. */
int tvmrt__aot_input_named(tvmrt_aot_executor* e, const char* name, tvmrt_port** out);
int tvmrt__aot_output_named(tvmrt_aot_executor* e, const char* name, tvmrt_port** out);

/* Set the inputs that have a name in params, by sharing. */
int tvmrt__aot_set_params(tvmrt_aot_executor* e, const tvmrt_params* params);
int tvmrt__aot_run(tvmrt_aot_executor* e);

/* Have the next run begin as the first one did. */
int tvmrt__aot_reset_state(tvmrt_aot_executor* e);

int tvmrt__aot_find(tvmrt_module* self, const char* name, tvmrt_found* out);

/* (...) -> JSON text of times per operator, see profile.h. */
int tvmrt__aot_profile(tvmrt_aot_executor* e, tvmrt_buf* text);

#endif
