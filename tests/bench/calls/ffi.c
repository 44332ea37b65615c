/* The same functions through apache-tvm-ffi's convention. */
#include <tvm/ffi/c_api.h>

#define EXPORTED(name)                                                                  \
  TVM_FFI_DLL_EXPORT int __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t n, \
                                          TVMFFIAny* ret);                              \
  int __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* ret)
#define UNUSED() ((void)self, (void)args, (void)n, (void)ret)

static int refuse(void) {
  TVMFFIErrorSetRaisedFromCStr("TypeError", "another kind of argument is needed");
  return -1;
}

static int return_int(TVMFFIAny* ret, int64_t value) {
  ret->type_index = kTVMFFIInt;
  ret->zero_padding = 0;
  ret->v_int64 = value;
  return 0;
}

EXPORTED(nothing) {
  UNUSED();
  return n == 0 ? 0 : refuse();
}

EXPORTED(add) {
  UNUSED();
  if (n != 3 || args[0].type_index != kTVMFFIInt || args[1].type_index != kTVMFFIInt ||
      args[2].type_index != kTVMFFIInt) {
    return refuse();
  }
  return return_int(ret, args[0].v_int64 + args[1].v_int64 + args[2].v_int64);
}

EXPORTED(tensors) {
  int64_t dims = 0;
  UNUSED();
  for (int i = 0; i < n; i++) {
    if (args[i].type_index == kTVMFFITensor) {
      dims += ((DLTensor*)((char*)args[i].v_obj + sizeof(TVMFFIObject)))->ndim;
    } else if (args[i].type_index == kTVMFFIDLTensorPtr) {
      dims += ((DLTensor*)args[i].v_ptr)->ndim;
    } else {
      return refuse();
    }
  }
  return return_int(ret, dims);
}

EXPORTED(text) {
  UNUSED();
  if (n != 1) return refuse();
  switch (args[0].type_index) {
    case kTVMFFIRawStr:
      return return_int(ret, args[0].v_c_str[0]);
    case kTVMFFISmallStr:
      return return_int(ret, args[0].v_bytes[0]);
    case kTVMFFIStr:
      return return_int(ret,
                        ((TVMFFIByteArray*)((char*)args[0].v_obj + sizeof(TVMFFIObject)))->data[0]);
    default:
      return refuse();
  }
}

EXPORTED(repeat) {
  UNUSED();
  if (n != 2 || args[0].type_index != kTVMFFIFunction || args[1].type_index != kTVMFFIInt) {
    return refuse();
  }
  for (int64_t i = 0; i < args[1].v_int64; i++) {
    TVMFFIAny values[3] = {{.type_index = kTVMFFIInt, .v_int64 = i},
                           {.type_index = kTVMFFIInt, .v_int64 = 2},
                           {.type_index = kTVMFFIInt, .v_int64 = 3}};
    TVMFFIAny result = {.type_index = kTVMFFINone};
    if (TVMFFIFunctionCall(args[0].v_obj, values, 3, &result) != 0) return -1;
  }
  return 0;
}
