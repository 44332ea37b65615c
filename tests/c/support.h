/* What the C tests share: cmocka, and calls of packed functions that read as one line. */
#ifndef TVMRT_TESTS_C_SUPPORT_H_
#define TVMRT_TESTS_C_SUPPORT_H_

/* cmocka.h needs the others before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include <cmocka.h>
/* clang-format on */

/* A call with its arguments and its result. */
typedef struct call {
  TVMValue args[24];
  int codes[24];
  int count;
  TVMValue ret;
  int ret_code;
} call;

static inline void arg(call* c, int code, TVMValue value) {
  c->args[c->count] = value;
  c->codes[c->count++] = code;
}
static inline void arg_int(call* c, int64_t value) {
  TVMValue v;
  v.v_int64 = value;
  arg(c, kTVMArgInt, v);
}
static inline void arg_str(call* c, const char* text) {
  TVMValue v;
  v.v_str = text;
  arg(c, kTVMStr, v);
}
static inline void arg_handle(call* c, int code, void* handle) {
  TVMValue v;
  v.v_handle = handle;
  arg(c, code, v);
}
static inline void arg_cpu(call* c) {
  TVMValue v;
  v.v_device.device_type = kDLCPU;
  v.v_device.device_id = 0;
  arg(c, kDLDevice, v);
}

#define assert_ok(rc)                                     \
  do {                                                    \
    int rc_ = (rc);                                       \
    if (rc_ != 0) print_error("%s\n", TVMGetLastError()); \
    assert_int_equal(rc_, 0);                             \
  } while (0)

/* rc is not 0 and the error text contains `part`. */
#define assert_fails(rc, part)                            \
  do {                                                    \
    assert_int_not_equal((rc), 0);                        \
    if (strstr(TVMGetLastError(), (part)) == NULL) {      \
      print_error("error text: %s\n", TVMGetLastError()); \
      fail();                                             \
    }                                                     \
  } while (0)

static inline int call_handle(call* c, TVMFunctionHandle f) {
  return TVMFuncCall(f, c->args, c->codes, c->count, &c->ret, &c->ret_code);
}

static inline int call_global(call* c, const char* name) {
  TVMFunctionHandle f = NULL;
  int rc = TVMFuncGetGlobal(name, &f);
  if (rc != 0) return rc;
  if (f == NULL) {
    TVMPackedFuncSetLastError("test: no such global");
    return -1;
  }
  rc = call_handle(c, f);
  (void)TVMFuncFree(f);
  return rc;
}

static inline int call_module(call* c, TVMModuleHandle mod, const char* name) {
  TVMFunctionHandle f = NULL;
  int rc = TVMModGetFunction(mod, name, 0, &f);
  if (rc != 0) return rc;
  if (f == NULL) {
    TVMPackedFuncSetLastError("test: the module has no such function");
    return -1;
  }
  rc = call_handle(c, f);
  (void)TVMFuncFree(f);
  return rc;
}

/* A float32 tensor of the runtime, filled. */
static inline DLTensor* make_tensor(int ndim, const int64_t* shape, const float* values) {
  DLTensor* t = NULL;
  size_t count = 1;
  for (int i = 0; i < ndim; ++i) count *= (size_t)shape[i];
  assert_ok(TVMArrayAlloc(shape, ndim, kDLFloat, 32, 1, kDLCPU, 0, &t));
  if (values != NULL) memcpy(t->data, values, count * sizeof(float));
  return t;
}

static inline void assert_floats(const DLTensor* t, size_t count, const float* expected) {
  const float* got = (const float*)(const void*)((const char*)t->data + t->byte_offset);
  for (size_t i = 0; i < count; ++i) assert_float_equal(got[i], expected[i], 1e-6f);
}

/* Path of a fixture library, from the environment that the build sets. */
static inline const char* fixture(const char* variable) {
  const char* path = getenv(variable);
  if (path == NULL) fail_msg("set %s to the fixture library", variable);
  return path;
}

static inline TVMModuleHandle load(const char* variable) {
  TVMModuleHandle mod = NULL;
  assert_ok(TVMModLoadFromFile(fixture(variable), "so", &mod));
  assert_non_null(mod);
  return mod;
}

static inline TVMModuleHandle import_of(TVMModuleHandle mod, int64_t index) {
  call c = {0};
  arg_handle(&c, kTVMModuleHandle, mod);
  arg_int(&c, index);
  assert_ok(call_global(&c, "runtime.ModuleGetImport"));
  return c.ret.v_handle;
}

#endif
