/* A subgraph in the library itself that gets its constant from an initialiser. */
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

extern TVM_DLL void* __tvm_module_ctx;
void* __tvm_module_ctx = NULL;

static float constant[6];

#define PACKED(name)                                                                      \
  TVM_DLL int32_t name(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, \
                       int* out_type_code, void* resource_handle);                        \
  TVM_DLL int32_t name(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, \
                       int* out_type_code, void* resource_handle)

PACKED(__init_tvmgen_default_ccompiler_main_0) {
  TVMFunctionHandle get_item;
  TVMValue pair[2];
  int pair_codes[2] = {kTVMObjectHandle, kTVMArgInt};
  TVMValue item;
  int code;
  (void)type_code, (void)num_args, (void)resource_handle;
  pair[0] = args[0];
  pair[1].v_int64 = 0;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "runtime.ArrayGetItem", &get_item) != 0) return -1;
  if (TVMFuncCall(get_item, pair, pair_codes, 2, &item, &code) != 0) return -1;
  memcpy(constant, ((DLTensor*)item.v_handle)->data, sizeof(constant));
  out_value->v_int64 = INIT_RESULT;
  *out_type_code = kTVMArgInt;
  return 0;
}

PACKED(tvmgen_default_ccompiler_main_0) {
  int i;
  (void)type_code, (void)num_args, (void)out_value, (void)out_type_code, (void)resource_handle;
  for (i = 0; i < 6; ++i) {
    ((float*)((DLTensor*)args[1].v_handle)->data)[i] =
        ((float*)((DLTensor*)args[0].v_handle)->data)[i] + constant[i];
  }
  return 0;
}
