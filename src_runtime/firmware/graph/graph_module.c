/* Firmware runtime: the graph executor as a module: `tvm.graph_executor.create` and its functions.
 *
 * Function handles of an image have no state, so there is one such executor at a time; it exists
 * until the program ends. Programs that need several use the functions of crt/graph_executor.h. */
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/graph_executor_module.h>

#include "../aot/packed.h"
#include "graph.h"

/* NULL until create() has succeeded; the module's functions cannot be found before. */
static TVMGraphExecutor* executor;

static int is_tensor(int code) { return code == kTVMDLTensorHandle || code == kTVMNDArrayHandle; }

/* Index of the input that an argument names or numbers; -1 if there is none. Numbers of 64 bits are
 * compared before they are narrowed. */
static int32_t input_of(TVMValue arg, int code) {
  if (code == kTVMStr) return TVMGraphExecutor_GetInputIndex(executor, arg.v_str);
  if (code != kTVMArgInt || arg.v_int64 < 0 || arg.v_int64 >= executor->num_inputs) return -1;
  return (int32_t)arg.v_int64;
}

/* (name or index) -> tensor */
PACKED(get_input) {
  (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  return return_tensor(out, out_code,
                       tvmrt_graph_input(executor, input_of(args[0], type_codes[0])));
}

/* (name) -> index, -1 if unknown */
PACKED(get_input_index) {
  (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMStr) return kTvmErrorFunctionCallWrongArgType;
  return return_int(out, out_code, input_of(args[0], type_codes[0]));
}

PACKED(get_num_inputs) {
  (void)args, (void)type_codes, (void)num_args, (void)resource_handle;
  return return_int(out, out_code, executor->num_inputs);
}

PACKED(get_num_outputs) {
  (void)args, (void)type_codes, (void)num_args, (void)resource_handle;
  return return_int(out, out_code, executor->num_heads);
}

/* (index) -> tensor; (index, tensor): copies */
PACKED(get_output) {
  int32_t index;
  (void)resource_handle;
  if (num_args != 1 && num_args != 2) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMArgInt) return kTvmErrorFunctionCallWrongArgType;
  /* graphs have at most INT16_MAX outputs */
  index = args[0].v_int64 < 0 || args[0].v_int64 > INT16_MAX ? -1 : (int32_t)args[0].v_int64;
  if (num_args == 1) return return_tensor(out, out_code, tvmrt_graph_output(executor, index));
  if (!is_tensor(type_codes[1])) return kTvmErrorFunctionCallWrongArgType;
  return TVMGraphExecutor_GetOutput(executor, index, (DLTensor*)args[1].v_handle);
}

/* (bytes): the blob stays owned by the caller, and must outlive the executor. */
PACKED(load_params) {
  const TVMByteArray* bytes;
  (void)out, (void)out_code, (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMBytes) return kTvmErrorFunctionCallWrongArgType;
  bytes = (const TVMByteArray*)args[0].v_handle;
  if (bytes->size > UINT32_MAX) return kTvmErrorGraphParamsDamaged;
  return TVMGraphExecutor_LoadParams(executor, bytes->data, (uint32_t)bytes->size);
}

PACKED(run) {
  (void)args, (void)type_codes, (void)num_args;
  (void)out, (void)out_code, (void)resource_handle;
  return TVMGraphExecutor_Run(executor);
}

/* (name or index, tensor): used in place until the next call */
PACKED(set_input) {
  int32_t index;
  (void)out, (void)out_code, (void)resource_handle;
  if (num_args != 2) return kTvmErrorFunctionCallNumArguments;
  if (!is_tensor(type_codes[1])) return kTvmErrorFunctionCallWrongArgType;
  index = input_of(args[0], type_codes[0]);
  if (index < 0) return kTvmErrorExecutorModuleNoSuchInput;
  return tvmrt__graph_set_input(executor, (uint32_t)index, (const DLTensor*)args[1].v_handle);
}

static const TVMCPackedFunc functions[] = {
    get_input, get_input_index, get_num_inputs, get_num_outputs, get_output, load_params,
    run,       set_input};
/* The leading octal count is the number of functions; both lists have the same order. */
static const TVMFuncRegistry registry = {
    "\010get_input\0get_input_index\0get_num_inputs\0get_num_outputs\0get_output\0load_params\0"
    "run\0set_input",
    functions};
static const TVMModule module = {&registry};

/* (graph JSON, module, device type, device id) -> module */
PACKED(create) {
  DLDevice device;
  int rc;
  (void)resource_handle;
  if (num_args != 4) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMStr || type_codes[1] != kTVMModuleHandle ||
      type_codes[2] != kTVMArgInt || type_codes[3] != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (executor != NULL) return kTvmErrorExecutorModuleAlreadyCreated;
  if (args[2].v_int64 != kDLCPU || args[3].v_int64 != 0) {
    return kTvmErrorExecutorModuleBadContext;
  }
  device.device_type = kDLCPU;
  device.device_id = 0;
  rc = TVMGraphExecutor_Create(args[0].v_str, args[1].v_handle, &device, &executor);
  if (rc != kTvmErrorNoError) return rc;
  *out_code = kTVMModuleHandle;
  return TVMModCreateFromCModule(&module, &out->v_handle);
}

/* Called by the program after the registry exists: images that do not call it link none of this
 * file. */
tvm_crt_error_t TVMGraphExecutorModule_Register(void) {
  static const TVMCPackedFunc entry = create;
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvm.graph_executor.create",
                                                (TVMFunctionHandle)(uintptr_t)&entry, 0);
}
