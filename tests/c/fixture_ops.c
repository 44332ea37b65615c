/* Operators as a C code generator writes them, for the libraries that tests load. */
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/metadata.h>

typedef struct {
  const float* a;
  const float* b;
  float* out;
  int64_t count;
} add_args;

static int64_t elements(const DLTensor* t) {
  int64_t count = 1;
  for (int i = 0; i < t->ndim; ++i) count *= t->shape[i];
  return count;
}

#define FIXTURE(name)                                                                           \
  TVM_DLL int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code, \
                   void* resource);                                                             \
  int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code,         \
           void* resource)

#define UNUSED_ARGS \
  (void)args, (void)type_codes, (void)num_args, (void)out, (void)out_code, (void)resource

void* __tvm_module_ctx = NULL;

FIXTURE(fixture_add) {
  UNUSED_ARGS;
  if (num_args != 3) {
    TVMPackedFuncSetLastError("fixture_add: expected 3 arguments");
    return -1;
  }
  const DLTensor* a = args[0].v_handle;
  const DLTensor* b = args[1].v_handle;
  const DLTensor* c = args[2].v_handle;
  int64_t count = elements(c);
  for (int64_t i = 0; i < count; ++i) {
    ((float*)c->data)[i] = ((const float*)a->data)[i] + ((const float*)b->data)[i];
  }
  return 0;
}

/* Written for a tensor of one dimension. */
FIXTURE(fixture_double) {
  UNUSED_ARGS;
  const DLTensor* a = args[0].v_handle;
  const DLTensor* b = args[1].v_handle;
  if (a->ndim != 1 || b->ndim != 1) {
    TVMPackedFuncSetLastError("fixture_double: expected 1 dimension");
    return -1;
  }
  for (int64_t i = 0; i < b->shape[0]; ++i) {
    ((float*)b->data)[i] = 2 * ((const float*)a->data)[i];
  }
  return 0;
}

FIXTURE(fixture_return_int) {
  UNUSED_ARGS;
  out->v_int64 = 42;
  *out_code = kTVMArgInt;
  return 0;
}

FIXTURE(fixture_return_text) {
  UNUSED_ARGS;
  out->v_str = "nobody owns this";
  *out_code = kTVMStr;
  return 0;
}

FIXTURE(fixture_return_nothing) {
  UNUSED_ARGS;
  return 0;
}

FIXTURE(fixture_fail) {
  UNUSED_ARGS;
  TVMAPISetLastError("ValueError: fixture_fail was called");
  return -1;
}

/* A call by name, as generated code makes it: look up once, then call. */
FIXTURE(fixture_call_global) {
  static TVMFunctionHandle cached;
  UNUSED_ARGS;
  if (cached == NULL && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "test.callee", &cached) != 0) {
    return -1;
  }
  return TVMFuncCall(cached, args, type_codes, num_args, out, out_code) == 0 ? 0 : -1;
}

/* The C code generator's entry point is a function. */
FIXTURE(__tvm_main__) {
  return fixture_return_int(args, type_codes, num_args, out, out_code, resource);
}
