/* Two operators and an ahead-of-time main function: y = 2 * x + w, z = sum over y's last axis.
   x, w and y are float32 (2, 3); z is float32 (2). */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/metadata.h>

#define PACKED(name)                                                                             \
  TVM_DLL int name(TVMValue* args, int* codes, int n, TVMValue* ret, int* ret_code, void* self); \
  int name(TVMValue* args, int* codes, int n, TVMValue* ret, int* ret_code, void* self)
#define UNUSED() ((void)args, (void)codes, (void)n, (void)ret, (void)ret_code, (void)self)

static float* data_of(const TVMValue* value) { return ((DLTensor*)value->v_handle)->data; }

PACKED(tvmgen_default_scale_add) {
  UNUSED();
  for (int i = 0; i < 6; i++)
    data_of(&args[2])[i] = 2 * data_of(&args[0])[i] + data_of(&args[1])[i];
  return 0;
}

PACKED(tvmgen_default_sum) {
  UNUSED();
  for (int i = 0; i < 2; i++) {
    const float* row = data_of(&args[0]) + 3 * i;
    data_of(&args[1])[i] = row[0] + row[1] + row[2];
  }
  return 0;
}

/* Inputs x, w; outputs y, z. */
PACKED(tvmgen_default___tvm_main__) {
  TVMValue sum_args[2] = {args[2], args[3]};
  UNUSED();
  if (tvmgen_default_scale_add(args, codes, 3, ret, ret_code, NULL) != 0) return -1;
  return tvmgen_default_sum(sum_args, codes, 2, ret, ret_code, NULL);
}

static const int64_t kMatrix[2] = {2, 3};
static const int64_t kVector[1] = {2};
static const struct TVMTensorInfo kInputs[2] = {{"x", kMatrix, 2, {kDLFloat, 32, 1}},
                                                {"w", kMatrix, 2, {kDLFloat, 32, 1}}};
static const struct TVMTensorInfo kOutputs[2] = {{"output0", kMatrix, 2, {kDLFloat, 32, 1}},
                                                 {"output1", kVector, 1, {kDLFloat, 32, 1}}};
static const struct TVMMetadata kMetadata = {.version = 1,
                                             .inputs = kInputs,
                                             .num_inputs = 2,
                                             .outputs = kOutputs,
                                             .num_outputs = 2,
                                             .mod_name = "tvmgen_default"};

PACKED(get_c_metadata) {
  UNUSED();
  ret->v_handle = (void*)(uintptr_t)&kMetadata;
  *ret_code = kTVMOpaqueHandle;
  return 0;
}
