/* A network compiled ahead of time by the C generator for the C++ runtime: one file of operators and
 * main, one of metadata (here below it), z = (x + w) * 2. Operators are called directly. */
#define TVM_EXPORTS
#include <math.h>

#include "tvm/runtime/c_backend_api.h"
#include "tvm/runtime/c_runtime_api.h"
#if MINOR >= 12
#include <stdbool.h>
#endif
void* __tvm_module_ctx = NULL;
#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    tvmgen_default_fused_add(void* args, int32_t* arg_type_ids, int32_t num_args,
                             void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  void* arg_p0 = (((TVMValue*)args)[0].v_handle);
  void* arg_p1 = (((TVMValue*)args)[1].v_handle);
  void* arg_out = (((TVMValue*)args)[2].v_handle);
  void* p0 = (((DLTensor*)arg_p0)[0].data);
  void* p1 = (((DLTensor*)arg_p1)[0].data);
  void* T_add = (((DLTensor*)arg_out)[0].data);
  for (int32_t ax0_ax1_fused = 0; ax0_ax1_fused < 6; ++ax0_ax1_fused) {
    ((float*)T_add)[ax0_ax1_fused] = (((float*)p0)[ax0_ax1_fused] + ((float*)p1)[ax0_ax1_fused]);
  }
  return 0;
}

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
  void* T_multiply = (((DLTensor*)arg_out)[0].data);
  for (int32_t ax0_ax1_fused = 0; ax0_ax1_fused < 6; ++ax0_ax1_fused) {
    ((float*)T_multiply)[ax0_ax1_fused] = (((float*)p0)[ax0_ax1_fused] * 2.000000e+00f);
  }
  return 0;
}

#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    tvmgen_default___tvm_main__(void* args, int32_t* arg_type_ids, int32_t num_args,
                                void* out_ret_value, int32_t* out_ret_tcode,
                                void* resource_handle) {
  void* arg_x = (((TVMValue*)args)[0].v_handle);
  void* arg_w = (((TVMValue*)args)[1].v_handle);
  void* arg_out = (((TVMValue*)args)[2].v_handle);
  TVMValue stack[6];
  void* stack_value = stack;
  int32_t stack_tcode[8];
  TVMValue ret_val[1];
  int32_t ret_tcode[1];
  void* sid_2 =
      TVMBackendAllocWorkspace(1, (((DLTensor*)arg_x)[0].device.device_id), (uint64_t)24, 0, 8);
  if (sid_2 == NULL) {
    return -1;
  }
  DLTensor sid_2_tensor = *(DLTensor*)arg_x;
  sid_2_tensor.data = sid_2;
  (((TVMValue*)stack_value)[0].v_handle) = arg_x;
  ((int32_t*)stack_tcode)[0] = 7;
  (((TVMValue*)stack_value)[1].v_handle) = arg_w;
  ((int32_t*)stack_tcode)[1] = 7;
  (((TVMValue*)stack_value)[2].v_handle) = &sid_2_tensor;
  ((int32_t*)stack_tcode)[2] = 7;
  if (tvmgen_default_fused_add((TVMValue*)stack_value, (int*)stack_tcode, 3, &ret_val[0],
                               &ret_tcode[0], NULL) != 0) {
    return -1;
  }
  (((TVMValue*)stack_value)[0].v_handle) = &sid_2_tensor;
  (((TVMValue*)stack_value)[1].v_handle) = arg_out;
  if (tvmgen_default_fused_multiply((TVMValue*)stack_value, (int*)stack_tcode, 2, &ret_val[0],
                                    &ret_tcode[0], NULL) != 0) {
    return -1;
  }
  if (TVMBackendFreeWorkspace(1, (((DLTensor*)arg_x)[0].device.device_id), sid_2) != 0) {
    return -1;
  }
  return 0;
}

#include <inttypes.h>

#include "tvm/runtime/metadata_types.h"
static const int64_t kTvmgenMetadata_inputs_0_shape[2] = {2, 3};
static const int64_t kTvmgenMetadata_inputs_1_shape[2] = {2, 3};
static const int64_t kTvmgenMetadata_outputs_0_shape[2] = {2, 3};
static const struct TVMTensorInfo kTvmgenMetadata_inputs[2] = {
    {.name = "x_in", .shape = kTvmgenMetadata_inputs_0_shape, .num_shape = 2, .dtype = {2, 32, 1}},
    {.name = "w", .shape = kTvmgenMetadata_inputs_1_shape, .num_shape = 2, .dtype = {2, 32, 1}},
};
static const struct TVMTensorInfo kTvmgenMetadata_outputs[1] = {
    {.name = "output0",
     .shape = kTvmgenMetadata_outputs_0_shape,
     .num_shape = 2,
     .dtype = {2, 32, 1}},
};
static const struct TVMTensorInfo kTvmgenMetadata_workspace_pools[0] = {};
static const struct TVMConstantInfo kTvmgenMetadata_constant_pools[0] = {};
static const struct TVMMetadata kTvmgenMetadata[1] = {
    {
        .version = INT64_C(1),
        .inputs = kTvmgenMetadata_inputs,
        .num_inputs = INT64_C(2),
        .outputs = kTvmgenMetadata_outputs,
        .num_outputs = INT64_C(1),
        .workspace_pools = kTvmgenMetadata_workspace_pools,
        .num_workspace_pools = INT64_C(0),
        .constant_pools = kTvmgenMetadata_constant_pools,
        .num_constant_pools = INT64_C(0),
        .mod_name = "tvmgen_default",
    },
};
#ifdef __cplusplus
extern "C"
#endif
    TVM_DLL int32_t
    get_c_metadata(TVMValue* arg_values, int* arg_tcodes, int num_args, TVMValue* ret_values,
                   int* ret_tcodes, void* resource_handle) {
  ret_values[0].v_handle = (void*)&kTvmgenMetadata;
  ret_tcodes[0] = kTVMOpaqueHandle;
  return 0;
}
