/* Firmware runtime: the ahead-of-time executor as a module: `tvm.aot_executor.create` and its
 * functions. There is one at a time, as with the graph executor's module. */
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/module.h>

#include "packed.h"

/* NULL until create() has succeeded; the module's functions cannot be found before. Never released:
 * a handle of the module has no owner that could release it. */
static TVMAotExecutor* executor;

/* Index of the input that an argument names or numbers; -1 if there is none. */
static int32_t input_of(TVMValue arg, int code) {
  if (code == kTVMStr) return TVMAotExecutor_GetInputIndex(executor, arg.v_str);
  if (code != kTVMArgInt || arg.v_int64 < 0) return -1;
  return arg.v_int64 < executor->metadata->num_inputs ? (int32_t)arg.v_int64 : -1;
}

/* (name or index) -> tensor */
PACKED(get_input) {
  int32_t index;
  (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  index = input_of(args[0], type_codes[0]);
  return return_tensor(out, out_code, index < 0 ? NULL : &executor->args[index].dl_tensor);
}

/* (name) -> index, -1 if unknown */
PACKED(get_input_index) {
  (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMStr) return kTvmErrorFunctionCallWrongArgType;
  return return_int(out, out_code, input_of(args[0], type_codes[0]));
}

/* (index) -> name */
PACKED(get_input_name) {
  (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMArgInt) return kTvmErrorFunctionCallWrongArgType;
  *out_code = kTVMStr;
  return TVMAotExecutor_GetInputName(executor, input_of(args[0], type_codes[0]), &out->v_str);
}

PACKED(get_num_inputs) {
  (void)args, (void)type_codes, (void)num_args, (void)resource_handle;
  return return_int(out, out_code, executor->metadata->num_inputs);
}

PACKED(get_num_outputs) {
  (void)args, (void)type_codes, (void)num_args, (void)resource_handle;
  return return_int(out, out_code, executor->metadata->num_outputs);
}

/* (index) -> tensor */
PACKED(get_output) {
  const TVMMetadata* m = executor->metadata;
  int64_t index;
  (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMArgInt) return kTvmErrorFunctionCallWrongArgType;
  index = args[0].v_int64;
  /* the index has 64 bits and is compared before it is narrowed */
  if (index < 0 || index >= m->num_outputs) return return_tensor(out, out_code, NULL);
  return return_tensor(out, out_code, &executor->args[m->num_inputs + index].dl_tensor);
}

/* Arguments are ignored, as in the graph executor's module. */
PACKED(run) {
  (void)args, (void)type_codes, (void)num_args;
  (void)out, (void)out_code, (void)resource_handle;
  return TVMAotExecutor_Run(executor);
}

static const TVMCPackedFunc functions[] = {
    get_input, get_input_index, get_input_name, get_num_inputs, get_num_outputs, get_output, run};
/* The leading octal count is the number of functions; both lists have the same order. */
static const TVMFuncRegistry registry = {
    "\007get_input\0get_input_index\0get_input_name\0get_num_inputs\0get_num_outputs\0get_output\0"
    "run",
    functions};
static const TVMModule module = {&registry};

/* (module, device, name of the network) -> module */
PACKED(create) {
  int rc;
  (void)resource_handle;
  if (num_args != 3) return kTvmErrorFunctionCallNumArguments;
  if (type_codes[0] != kTVMModuleHandle || type_codes[1] != kDLDevice || type_codes[2] != kTVMStr) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (executor != NULL) return kTvmErrorExecutorModuleAlreadyCreated;
  rc = TVMAotExecutor_Create(args[0].v_handle, args[1].v_device, &executor, args[2].v_str);
  if (rc != kTvmErrorNoError) return rc;
  *out_code = kTVMModuleHandle;
  return TVMModCreateFromCModule(&module, &out->v_handle);
}

/* Called by the program after the registry exists: images that do not call it link none of this
 * file. */
tvm_crt_error_t TVMAotExecutorModule_Register(void) {
  static const TVMCPackedFunc entry = create;
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvm.aot_executor.create",
                                                (TVMFunctionHandle)(uintptr_t)&entry, 0);
}
