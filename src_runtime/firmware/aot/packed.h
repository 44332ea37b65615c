/* Firmware runtime: packed functions of executors' modules. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_PACKED_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_PACKED_H_

#include <tvm/runtime/c_packed_func.h>
#include <tvm/runtime/crt/error_codes.h>

#define PACKED(name)                                                                           \
  static int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code, \
                  void* resource_handle)

static inline int return_int(TVMValue* out, int* out_code, int64_t value) {
  out->v_int64 = value;
  *out_code = kTVMArgInt;
  return kTvmErrorNoError;
}

/* NULL: there is no such input or output. */
static inline int return_tensor(TVMValue* out, int* out_code, const DLTensor* tensor) {
  if (tensor == NULL) return kTvmErrorExecutorModuleNoSuchInput;
  out->v_handle = (void*)(uintptr_t)tensor;
  *out_code = kTVMNDArrayHandle;
  return kTvmErrorNoError;
}

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_PACKED_H_ */
