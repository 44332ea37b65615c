/* A network compiled ahead of time: y0 = x + 1, y1 = 2 x, with a workspace, constants and a slot for
 * profiling. */
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/metadata.h>

#define EXPORTED(name)                                                                          \
  TVM_DLL int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code, \
                   void* resource);                                                             \
  int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,         \
           void* resource)

static const int64_t io_shape[] = {4};
static const struct TVMTensorInfo inputs[] = {{"x_in", io_shape, 1, {kDLFloat, 32, 1}}};
static const struct TVMTensorInfo outputs[] = {{"output0", io_shape, 1, {kDLFloat, 32, 1}},
                                               {"output1", io_shape, 1, {kDLFloat, 32, 1}}};

#ifdef FIXTURE_POOLS
static const int64_t pool_shape[] = {256};
static const struct TVMTensorInfo pools[] = {{"workspace", pool_shape, 1, {kDLUInt, 8, 1}}};

/* A serialised float32 tensor of shape (1,): the value 1. */
static const unsigned char one[] = {
    0x3f, 0xa1, 0xb4, 0x96, 0xf0, 0x40, 0x5e, 0xdd, 0, 0, 0, 0,  0, 0, 0,    0,   1, 0,
    0,    0,    0,    0,    0,    0,    1,    0,    0, 0, 2, 32, 1, 0, 1,    0,   0, 0,
    0,    0,    0,    0,    4,    0,    0,    0,    0, 0, 0, 0,  0, 0, 0x80, 0x3f};
static const struct TVMConstantInfo constants[] = {{"one", 64, sizeof(one), one}};
#define POOLS pools, 1, constants, 1
#else
#define POOLS NULL, 0, NULL, 0
#endif

static const struct TVMMetadata metadata[] = {
    {TVM_METADATA_VERSION, inputs, 1, outputs, 2, POOLS, "tvmgen_default"}};

EXPORTED(get_c_metadata) {
  (void)args, (void)type_codes, (void)num_args, (void)resource;
  out->v_handle = (void*)(uintptr_t)metadata;
  *out_code = kTVMOpaqueHandle;
  return 0;
}

#ifndef FIXTURE_POOLS /* that one is of an older release, which has the classic metadata only */
static const struct TVMParameterInfo params[] = {
    {"x.in", "x_in", io_shape, 1, {kDLFloat, 32, 1}, {kDLCPU, 0}},
    {"sum:0", "output0", io_shape, 1, {kDLFloat, 32, 1}, {kDLCPU, 0}},
    {"twice:0", "output1", io_shape, 1, {kDLFloat, 32, 1}, {kDLCPU, 0}}};
static const struct TVMFunctionInfo functions[] = {
    {"tvmgen_default___tvm_main__", params, 1, 2, 0, 48, 0}};
static const struct TVMModelMetadata model[] = {
    {TVM_MODEL_METADATA_VERSION, functions, 1, "default"}};

EXPORTED(get_model_metadata) {
  (void)args, (void)type_codes, (void)num_args, (void)resource;
  out->v_handle = (void*)(uintptr_t)model;
  *out_code = kTVMOpaqueHandle;
  return 0;
}
#endif

static const char* const op_names[] = {"add_one", "double"};
extern TVM_DLL tvmrt_profile_slot tvmgen_default_profile_slot;
tvmrt_profile_slot tvmgen_default_profile_slot = {op_names, 2, NULL, NULL, NULL};

static float* data_of(TVMValue* args, int i) { return ((DLTensor*)args[i].v_handle)->data; }

EXPORTED(tvmgen_default___tvm_main__) {
  (void)type_codes, (void)out, (void)out_code, (void)resource;
  float addend = 1;
#ifdef FIXTURE_POOLS
  if (num_args != 5) {
    TVMPackedFuncSetLastError("main: expected 5 arguments");
    return -1;
  }
  memcpy(&addend, (char*)((DLTensor*)args[3].v_handle)->data + 64, sizeof(addend));
  memset(((DLTensor*)args[4].v_handle)->data, 0, 256);
#else
  if (num_args != 3) {
    TVMPackedFuncSetLastError("main: expected 3 arguments");
    return -1;
  }
#endif
  TVMRT_PROFILE_BEGIN(&tvmgen_default_profile_slot, 0);
  for (int i = 0; i < 4; ++i) data_of(args, 1)[i] = data_of(args, 0)[i] + addend;
  TVMRT_PROFILE_END(&tvmgen_default_profile_slot, 0);
  TVMRT_PROFILE_BEGIN(&tvmgen_default_profile_slot, 1);
  for (int i = 0; i < 4; ++i) data_of(args, 2)[i] = data_of(args, 0)[i] * 2;
  TVMRT_PROFILE_END(&tvmgen_default_profile_slot, 1);
  return 0;
}
