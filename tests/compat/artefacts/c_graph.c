/* Operators as the C generator writes them: direct calls of the runtime, no checks, serial loops,
 * and text that is both C and C++. */
#define TVM_EXPORTS
#include <math.h>

#include "tvm/runtime/c_backend_api.h"
#include "tvm/runtime/c_runtime_api.h"
#if MINOR >= 12
#include <stdbool.h>
#endif

#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    tvmgen_default_fused_add(void* args, int32_t* arg_type_ids, int32_t num_args,
                             void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle);
#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    tvmgen_default_fused_add(void* args, int32_t* arg_type_ids, int32_t num_args,
                             void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  int32_t arg_p0_code = arg_type_ids[0];
  int32_t arg_p1_code = arg_type_ids[1];
  int32_t arg_out_code = arg_type_ids[2];
  void* arg_p0 = (((TVMValue*)args)[0].v_handle);
  void* arg_p1 = (((TVMValue*)args)[1].v_handle);
  void* arg_out = (((TVMValue*)args)[2].v_handle);
  void* p0 = (((DLTensor*)arg_p0)[0].data);
  void* arg_p0_shape = (((DLTensor*)arg_p0)[0].shape);
  void* arg_p0_strides = (((DLTensor*)arg_p0)[0].strides);
  int32_t dev_id = (((DLTensor*)arg_p0)[0].device.device_id);
  void* p1 = (((DLTensor*)arg_p1)[0].data);
  void* T_add = (((DLTensor*)arg_out)[0].data);
  (void)arg_p0_code, (void)arg_p1_code, (void)arg_out_code;
  (void)arg_p0_shape, (void)arg_p0_strides, (void)dev_id;
  for (int32_t ax0 = 0; ax0 < 2; ++ax0) {
    for (int32_t ax1 = 0; ax1 < 3; ++ax1) {
      int32_t cse_var_1 = ((ax0 * 3) + ax1);
      ((float*)T_add)[cse_var_1] = (((float*)p0)[cse_var_1] + ((float*)p1)[cse_var_1]);
    }
  }
  return 0;
}

#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    tvmgen_default_fused_multiply(void* args, int32_t* arg_type_ids, int32_t num_args,
                                  void* out_ret_value, int32_t* out_ret_tcode,
                                  void* resource_handle);
#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    tvmgen_default_fused_multiply(void* args, int32_t* arg_type_ids, int32_t num_args,
                                  void* out_ret_value, int32_t* out_ret_tcode,
                                  void* resource_handle) {
  void* arg_p0 = (((TVMValue*)args)[0].v_handle);
  void* arg_out = (((TVMValue*)args)[1].v_handle);
  void* p0 = (((DLTensor*)arg_p0)[0].data);
  int32_t dev_id = (((DLTensor*)arg_p0)[0].device.device_id);
  void* T_multiply = (((DLTensor*)arg_out)[0].data);
  void* tmp = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)2400, 2, 32);
  if (tmp == NULL) {
    return -1;
  }
  for (int32_t i = 0; i < 6; ++i) {
    ((float*)tmp)[i] = (((float*)p0)[i] * 2.000000e+00f);
  }
  for (int32_t i = 0; i < 6; ++i) {
    ((float*)T_multiply)[i] = ((float*)tmp)[i];
  }
  if (TVMBackendFreeWorkspace(1, dev_id, tmp) != 0) {
    return -1;
  }
  return 0;
}

/* The entry is code here. */
#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    __tvm_main__(void* args, int* arg_type_ids, int num_args, void* out_ret_value,
                 int* out_ret_tcode, void* resource_handle);
#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    __tvm_main__(void* args, int* arg_type_ids, int num_args, void* out_ret_value,
                 int* out_ret_tcode, void* resource_handle) {
  return tvmgen_default_fused_add(args, arg_type_ids, num_args, out_ret_value, out_ret_tcode,
                                  resource_handle);
}
