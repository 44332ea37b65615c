/* What bench_calls.py calls through the classic packed convention. Every function checks what it
   gets, as real ones do. */
#include <tvm/runtime/c_backend_api.h>

#define PACKED(name)                                                                             \
  TVM_DLL int name(TVMValue* args, int* codes, int n, TVMValue* ret, int* ret_code, void* self); \
  int name(TVMValue* args, int* codes, int n, TVMValue* ret, int* ret_code, void* self)
#define UNUSED() ((void)args, (void)codes, (void)n, (void)ret, (void)ret_code, (void)self)

static int refuse(void) {
  TVMPackedFuncSetLastError("TypeError: another kind of argument is needed");
  return -1;
}

static int return_int(TVMValue* ret, int* ret_code, int64_t value) {
  ret->v_int64 = value;
  *ret_code = kTVMArgInt;
  return 0;
}

PACKED(nothing) {
  UNUSED();
  return n == 0 ? 0 : refuse();
}

PACKED(add) {
  UNUSED();
  if (n != 3 || codes[0] != kTVMArgInt || codes[1] != kTVMArgInt || codes[2] != kTVMArgInt) {
    return refuse();
  }
  return return_int(ret, ret_code, args[0].v_int64 + args[1].v_int64 + args[2].v_int64);
}

PACKED(tensors) {
  int64_t dims = 0;
  UNUSED();
  for (int i = 0; i < n; i++) {
    if (codes[i] != kTVMDLTensorHandle && codes[i] != kTVMNDArrayHandle) return refuse();
    dims += ((DLTensor*)args[i].v_handle)->ndim;
  }
  return return_int(ret, ret_code, dims);
}

PACKED(text) {
  UNUSED();
  if (n != 1 || codes[0] != kTVMStr) return refuse();
  return return_int(ret, ret_code, args[0].v_str[0]);
}

PACKED(repeat) {
  UNUSED();
  if (n != 2 || codes[0] != kTVMPackedFuncHandle || codes[1] != kTVMArgInt) return refuse();
  for (int64_t i = 0; i < args[1].v_int64; i++) {
    TVMValue values[3] = {{.v_int64 = i}, {.v_int64 = 2}, {.v_int64 = 3}}, result;
    int inner[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt}, result_code;
    if (TVMFuncCall(args[0].v_handle, values, inner, 3, &result, &result_code) != 0) return -1;
  }
  return 0;
}
