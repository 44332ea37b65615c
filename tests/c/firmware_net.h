/* What the tests of the firmware library share: a network compiled ahead of time. */
#ifndef TVMRT_TESTS_C_FIRMWARE_NET_H_
#define TVMRT_TESTS_C_FIRMWARE_NET_H_

#include "firmware_image.h"

/* (x + w) * 2 with w = 1 */

static const int64_t six[] = {6};
static const int64_t pool_bytes[] = {24};
static const TVMTensorInfo inputs[] = {{"image_0", six, 1, {kDLFloat, 32, 1}}};
static const TVMTensorInfo outputs[] = {{"output0", six, 1, {kDLFloat, 32, 1}}};
static const TVMTensorInfo pools[] = {{"global_workspace", pool_bytes, 1, {kDLUInt, 8, 1}}};
static const TVMConstantInfo constants[1];
static TVMMetadata metadata = {1, inputs, 1, outputs, 1, pools, 1, constants, 0, "tvmgen_net"};

static inline int net_metadata(TVMValue* args, int* codes, int num_args, TVMValue* out,
                               int* out_code, void* resource) {
  (void)args, (void)codes, (void)num_args, (void)resource;
  out->v_handle = &metadata;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

static inline int net_run(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                          void* resource) {
  (void)out, (void)out_code, (void)resource;
  if (check(args, codes, num_args, 2) != 0) return kTvmErrorFunctionCallNumArguments;
  for (int i = 0; i < 6; ++i) floats(args[1])[i] = 2 * (floats(args[0])[i] + 1);
  return 0;
}

/* As older releases: the pool is an additional tensor. */
static inline int net_main(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                           void* resource) {
  (void)out, (void)out_code, (void)resource;
  if (check(args, codes, num_args, 3) != 0) return kTvmErrorFunctionCallNumArguments;
  for (int i = 0; i < 6; ++i) floats(args[2])[i] = floats(args[0])[i] + 1;
  for (int i = 0; i < 6; ++i) floats(args[1])[i] = 2 * floats(args[2])[i];
  return 0;
}

static const TVMCPackedFunc run_functions[] = {net_metadata, net_run};
static const TVMFuncRegistry run_table = {"\002tvmgen_net_get_c_metadata\0tvmgen_net_run",
                                          run_functions};
static const TVMModule run_module = {&run_table};
static const TVMCPackedFunc main_functions[] = {net_metadata, net_main};
static const TVMFuncRegistry main_table = {"\002tvmgen_net_get_c_metadata\0tvmgen_net___tvm_main__",
                                           main_functions};
static const TVMModule main_module = {&main_table};

#endif
