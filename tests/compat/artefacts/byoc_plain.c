/* A subgraph as the C source generator of the ccompiler kind writes it: a kernel, a wrapper over
 * tensors, and an exported function of five parameters in all releases. */
#include <dlpack/dlpack.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

#define CSOURCE_BINARY_OP_2D(p_ID_, p_OP_, p_DIM1_, p_DIM2_) \
  static void p_ID_(float* a, float* b, float* out) {        \
    for (int64_t i = 0; i < p_DIM1_; ++i) {                  \
      for (int64_t j = 0; j < p_DIM2_; ++j) {                \
        int64_t k = i * p_DIM2_ + j;                         \
        out[k] = a[k] p_OP_ b[k];                            \
      }                                                      \
    }                                                        \
  }

CSOURCE_BINARY_OP_2D(tvmgen_default_ccompiler_main_0_0, +, 2, 3)

static void tvmgen_default_ccompiler_main_0_(float* a, float* b, float* out0) {
  float* buf_0 = (float*)malloc(4 * 6);
  tvmgen_default_ccompiler_main_0_0(a, b, buf_0);
  memcpy(out0, buf_0, 4 * 6);
  free(buf_0);
}

int tvmgen_default_ccompiler_main_0_wrapper_(DLTensor* arg0, DLTensor* arg1, DLTensor* out0);
int tvmgen_default_ccompiler_main_0_wrapper_(DLTensor* arg0, DLTensor* arg1, DLTensor* out0) {
  tvmgen_default_ccompiler_main_0_((float*)(arg0->data), (float*)(arg1->data),
                                   (float*)(out0->data));
  return 0;
}

#ifdef __cplusplus
extern "C" {
#endif
TVM_DLL int32_t tvmgen_default_ccompiler_main_0(TVMValue* args, int* type_code, int num_args,
                                                TVMValue* out_value, int* out_type_code);
TVM_DLL int32_t tvmgen_default_ccompiler_main_0(TVMValue* args, int* type_code, int num_args,
                                                TVMValue* out_value, int* out_type_code) {
  DLTensor* arg0 = (DLTensor*)(((TVMValue*)args)[0].v_handle);
  DLTensor* arg1 = (DLTensor*)(((TVMValue*)args)[1].v_handle);
  DLTensor* ret2 = (DLTensor*)(((TVMValue*)args)[2].v_handle);
  (void)type_code, (void)num_args, (void)out_value, (void)out_type_code;
  return tvmgen_default_ccompiler_main_0_wrapper_(arg0, arg1, ret2);
}
#ifdef __cplusplus
}
#endif
