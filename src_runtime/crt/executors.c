/* The C functions of the executors for firmware programs on hosts, over the executors' modules.
 *
 * Boards have standalone executors under the same names; on hosts the functions call those of the
 * full runtime. Handles are structs from malloc(), freed by Release functions; all but runs are
 * called by name. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/graph_executor.h>

#include "../executors/aot.h"
#include "../executors/graph.h"

struct TVMGraphExecutor {
  tvmrt_module* module; /* a tvmrt_graph_executor */
};

/* The public struct, and the private module. */
typedef struct aot_handle {
  TVMAotExecutor public_part;
  tvmrt_module* module; /* a tvmrt_aot_executor */
} aot_handle;

/* Call a function of a module by its name; `out` and `out_code` may be NULL. The results of these
 * functions are numbers or nothing, so none needs a release. */
static int call(tvmrt_module* mod, const char* name, TVMValue* args, int* codes, int num_args,
                TVMValue* out, int* out_code) {
  tvmrt_func* f;
  TVMValue ret;
  int code = kTVMNullptr;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__module_get(mod, name, false, &f));
  if (f == NULL) return tvmrt__fail("Cannot find function %s.", name);
  rc = TVMFuncCall(f, args, codes, num_args, &ret, &code);
  tvmrt__release(&f->base);
  if (out != NULL) *out = ret;
  if (out_code != NULL) *out_code = code;
  return rc;
}

/* The executor holds a reference to the module: the program may release its own handle. Only the
 * first device is read, as firmware programs have one. On failure *executor is NULL. */
int TVMGraphExecutor_Create(const char* sym_json, TVMModuleHandle module_handle,
                            const DLDevice* devices, TVMGraphExecutor** executor) {
  TVMGraphExecutor* e;
  *executor = NULL;
  TVMRT_RETURN_IF_ERROR(
      tvmrt__check_type(module_handle, TVMRT_TYPE_MODULE, "TVMGraphExecutor_Create"));
  /* the struct first: the last step needs no cleanup */
  e = tvmrt__calloc(1, sizeof(*e));
  if (e == NULL) return -1;
  if (tvmrt__graph_executor_new(sym_json, strlen(sym_json), module_handle, devices, 1, NULL, NULL,
                                &e->module) != 0) {
    free(e);
    return -1;
  }
  *executor = e;
  return 0;
}

/* -1 on any failure, which is not a valid index or count. */
static int call_for_int(tvmrt_module* mod, const char* name, TVMValue* args, int* codes,
                        int num_args) {
  TVMValue ret;
  int code;
  if (call(mod, name, args, codes, num_args, &ret, &code) != 0 || code != kTVMArgInt) return -1;
  return (int)ret.v_int64;
}

/* -1 for a name that no input has, which is not an error here. */
int TVMGraphExecutor_GetInputIndex(TVMGraphExecutor* executor, const char* name) {
  TVMValue arg;
  int code = kTVMStr;
  arg.v_str = name;
  return call_for_int(executor->module, "get_input_index", &arg, &code, 1);
}

/* Weights are inputs as well, as on boards. */
int TVMGraphExecutor_GetNumInputs(TVMGraphExecutor* executor) {
  return call_for_int(executor->module, "get_num_inputs", NULL, NULL, 0);
}

int TVMGraphExecutor_GetNumOutputs(TVMGraphExecutor* executor) {
  return call_for_int(executor->module, "get_num_outputs", NULL, NULL, 0);
}

/* In place, as on boards, if possible: generated code for hosts requires an alignment. A tensor
 * that is used in place must stay valid until the last run that reads it; a copied one need not. */
int TVMGraphExecutor_SetInput(TVMGraphExecutor* executor, const char* name, DLTensor* data_in) {
  TVMValue args[2];
  int codes[2] = {kTVMStr, kTVMDLTensorHandle};
  bool in_place = tvmrt__is_compact(data_in) &&
                  (uintptr_t)tvmrt__tensor_data(data_in) % TVMRT_FOREIGN_ALIGN_BYTES == 0;
  args[0].v_str = name;
  args[1].v_handle = data_in;
  return call(executor->module, in_place ? "set_input_zero_copy" : "set_input", args, codes, 2,
              NULL, NULL);
}

/* Copies into the program's tensor; the executor's own stays valid until the next run. */
int TVMGraphExecutor_GetOutput(TVMGraphExecutor* executor, int32_t index, DLTensor* out) {
  TVMValue args[2];
  int codes[2] = {kTVMArgInt, kTVMDLTensorHandle};
  args[0].v_int64 = index;
  args[1].v_handle = out;
  return call(executor->module, "get_output", args, codes, 2, NULL, NULL);
}

/* The blob is copied and may be freed afterwards; on boards it must stay valid. */
int TVMGraphExecutor_LoadParams(TVMGraphExecutor* executor, const char* param_blob,
                                uint32_t param_size) {
  TVMByteArray bytes;
  TVMValue arg;
  int code = kTVMBytes;
  bytes.data = param_blob;
  bytes.size = param_size;
  arg.v_handle = &bytes;
  return call(executor->module, "load_params", &arg, &code, 1, NULL, NULL);
}

/* Called often, so not by name. The module was made by this file, so its type is known; a
 * concurrent run on another thread is rejected. */
int TVMGraphExecutor_Run(TVMGraphExecutor* executor) {
  tvmrt_executor* e = (tvmrt_executor*)executor->module;
  int rc;
  TVMRT_RETURN_IF_ERROR(tvmrt__begin_call(e, "TVMGraphExecutor_Run"));
  rc = tvmrt__graph_run(e);
  tvmrt__end_call(e);
  return rc;
}

/* The program's handle is NULL afterwards, so that a second release does nothing. */
int TVMGraphExecutor_Release(TVMGraphExecutor** executor) {
  TVMGraphExecutor* e = *executor;
  *executor = NULL;
  if (e == NULL) return 0;
  tvmrt__module_release(e->module);
  free(e);
  return 0;
}

/* Programs write to the data of the shown tensors, which belong to the executor: nothing is bound
 * here, so the addresses stay valid. A reference count of 1 prevents programs from freeing them:
 * they are freed with the executor. */
static int fill_public(aot_handle* h, const DLDevice device) {
  const tvmrt_aot_executor* e = (const tvmrt_aot_executor*)h->module;
  size_t count = e->base.inputs.count + e->base.outputs.count;
  size_t i;
  if (e->memory != NULL) {
    return tvmrt__fail_value(
        "this network plans memory for each run; create it with tvm.aot_executor.create.");
  }
  h->public_part.metadata = e->metadata;
  h->public_part.module_handle = e->base.module.library;
  h->public_part.device = device;
  h->public_part.args = tvmrt__calloc(count, sizeof(*h->public_part.args));
  if (h->public_part.args == NULL) return -1;
  h->public_part.num_args = (int64_t)count;
  for (i = 0; i < count; ++i) {
    h->public_part.args[i].dl_tensor = *(const DLTensor*)e->args[i].v_handle;
    h->public_part.args[i].reference_count = 1;
  }
  return 0;
}

/* Release accepts a partially built handle. Codes are firmware's; the error text has details. */
tvm_crt_error_t TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                                      TVMAotExecutor** executor, const char* module_name) {
  aot_handle* h;
  *executor = NULL;
  if (tvmrt__check_type(module_handle, TVMRT_TYPE_MODULE, "TVMAotExecutor_Create") != 0) {
    return kTvmErrorExecutorModuleBadContext;
  }
  h = tvmrt__calloc(1, sizeof(*h));
  if (h == NULL) return kTvmErrorPlatformNoMemory;
  if (tvmrt__aot_executor_new(module_handle, module_name, device, NULL, &h->module) != 0 ||
      fill_public(h, device) != 0) {
    (void)TVMAotExecutor_Release(&h->public_part, device);
    return kTvmErrorExecutorModuleBadContext;
  }
  *executor = &h->public_part;
  return kTvmErrorNoError;
}

/* The shown tensors belong to the executor and are freed with it. */
tvm_crt_error_t TVMAotExecutor_Release(TVMAotExecutor* executor, const DLDevice device) {
  aot_handle* h = (aot_handle*)executor;
  /* the tensors are the CPU's, so that the device is not needed to free them */
  (void)device;
  if (h == NULL) return kTvmErrorNoError;
  tvmrt__module_release((tvmrt_object*)h->module);
  free(h->public_part.args);
  free(h);
  return kTvmErrorNoError;
}

/* Accepts the name as the author wrote it, or its spelling in C; -1 if there is none. */
int TVMAotExecutor_GetInputIndex(TVMAotExecutor* executor, const char* name) {
  TVMValue arg;
  int code = kTVMStr;
  arg.v_str = name;
  return call_for_int(((aot_handle*)executor)->module, "get_input_index", &arg, &code, 1);
}

/* The metadata's spelling; valid as long as the library. */
int TVMAotExecutor_GetInputName(TVMAotExecutor* executor, int index, const char** name) {
  *name = NULL;
  if (index < 0 || index >= executor->metadata->num_inputs) {
    const int count = (int)executor->metadata->num_inputs;
    return tvmrt__fail("IndexError: the network has %d input%s, there is no input %d.", count,
                       count == 1 ? "" : "s", index);
  }
  *name = executor->metadata->inputs[index].name;
  return 0;
}

/* Not called by name either. A second thread that runs the executor fails and does not wait. */
tvm_crt_error_t TVMAotExecutor_Run(TVMAotExecutor* executor) {
  tvmrt_executor* e = (tvmrt_executor*)((aot_handle*)executor)->module;
  int rc = tvmrt__begin_call(e, "TVMAotExecutor_Run");
  if (rc != 0) return kTvmErrorFunctionCallInvalidArg;
  rc = tvmrt__aot_run(e);
  tvmrt__end_call(e);
  return rc == 0 ? kTvmErrorNoError : kTvmErrorFunctionCallInvalidArg;
}
