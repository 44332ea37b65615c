/* What the tests of the firmware library share: an image with a table of operators. */
#ifndef TVMRT_TESTS_C_FIRMWARE_IMAGE_H_
#define TVMRT_TESTS_C_FIRMWARE_IMAGE_H_

#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/metadata.h>
#include <tvm/runtime/platform.h>

#include "support.h"

static float x[6] = {1, 2, 3, 4, 5, 6};

static inline int check(TVMValue* args, const int* codes, int num_args, int expected) {
  if (num_args != expected) return kTvmErrorFunctionCallNumArguments;
  for (int i = 0; i < num_args; ++i) {
    const DLTensor* t = args[i].v_handle;
    assert_int_equal(codes[i], kTVMDLTensorHandle);
    assert_non_null(t->data);
    assert_int_equal((uintptr_t)t->data % sizeof(float), 0);
  }
  return 0;
}

static inline float* floats(TVMValue arg) { return ((const DLTensor*)arg.v_handle)->data; }

static inline int image_add(TVMValue* args, int* codes, int num_args, TVMValue* out, int* out_code,
                            void* resource) {
  (void)out, (void)out_code, (void)resource;
  if (check(args, codes, num_args, 3) != 0) return kTvmErrorFunctionCallNumArguments;
  for (int i = 0; i < 6; ++i) floats(args[2])[i] = floats(args[0])[i] + floats(args[1])[i];
  return 0;
}

static inline int image_double(TVMValue* args, int* codes, int num_args, TVMValue* out,
                               int* out_code, void* resource) {
  (void)out, (void)out_code, (void)resource;
  if (check(args, codes, num_args, 2) != 0) return kTvmErrorFunctionCallNumArguments;
  for (int i = 0; i < 6; ++i) floats(args[1])[i] = 2 * floats(args[0])[i];
  return 0;
}

static inline int image_answer(TVMValue* args, int* codes, int num_args, TVMValue* out,
                               int* out_code, void* resource) {
  (void)codes, (void)resource;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  out->v_int64 = args[0].v_int64 + 40;
  *out_code = kTVMArgInt;
  return 0;
}

static const TVMCPackedFunc functions[] = {image_answer, image_double, image_add};
static const TVMFuncRegistry narrow_count = {"\003answer\0double\0add", functions};
static const TVMFuncRegistry wide_count = {"\003\000answer\0double\0add", functions};
static const TVMModule narrow_module = {&narrow_count};
static const TVMModule wide_module = {&wide_count};

/* Call a function of a module by its name. */
static inline int call_of(TVMModuleHandle mod, const char* name, TVMValue* args, int* codes,
                          int count, TVMValue* ret) {
  TVMFunctionHandle f;
  int code;
  assert_int_equal(TVMModGetFunction(mod, name, 0, &f), 0);
  return TVMFuncCall(f, args, codes, count, ret, &code);
}

#endif
