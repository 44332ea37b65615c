/* Packed functions with all kinds of arguments, for the tests of the Python layer. Plain C with the
   headers that generated code may use. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tvm/runtime/c_backend_api.h>

#define PACKED(name)                                                                             \
  TVM_DLL int name(TVMValue* args, int* codes, int n, TVMValue* ret, int* ret_code, void* self); \
  int name(TVMValue* args, int* codes, int n, TVMValue* ret, int* ret_code, void* self)
#define UNUSED() ((void)args, (void)codes, (void)n, (void)ret, (void)ret_code, (void)self)

static int fail(const char* text) {
  TVMPackedFuncSetLastError(text);
  return -1;
}

static int return_int(TVMValue* ret, int* ret_code, int64_t value) {
  ret->v_int64 = value;
  *ret_code = kTVMArgInt;
  return 0;
}

static int is_tensor(int code) { return code == kTVMDLTensorHandle || code == kTVMNDArrayHandle; }

static int64_t num_elements(const DLTensor* tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->ndim; i++) count *= tensor->shape[i];
  return count;
}

static float* floats(const TVMValue* value) {
  DLTensor* tensor = value->v_handle;
  return (float*)(void*)((char*)tensor->data + tensor->byte_offset);
}

PACKED(nothing) {
  UNUSED();
  return 0;
}

/* The type codes of the arguments, base 16, the first argument lowest. */
PACKED(type_codes) {
  int64_t number = 0;
  UNUSED();
  for (int i = n - 1; i >= 0; i--) number = number * 16 + codes[i];
  return return_int(ret, ret_code, number);
}

PACKED(count) {
  UNUSED();
  return return_int(ret, ret_code, n);
}

PACKED(add3) {
  UNUSED();
  if (n != 3) return fail("TypeError: add3() takes 3 arguments");
  for (int i = 0; i < 3; i++) {
    if (codes[i] != kTVMArgInt) return fail("TypeError: add3() adds integers");
  }
  return return_int(ret, ret_code, args[0].v_int64 + args[1].v_int64 + args[2].v_int64);
}

/* Return a number, device or similar value unchanged. */
PACKED(echo) {
  UNUSED();
  *ret = args[0];
  *ret_code = codes[0];
  return 0;
}

PACKED(string_length) {
  UNUSED();
  if (n != 1 || codes[0] != kTVMStr) return fail("TypeError: a string is needed");
  return return_int(ret, ret_code, (int64_t)strlen(args[0].v_str));
}

PACKED(sum_bytes) {
  int64_t sum = 0;
  TVMByteArray* bytes;
  UNUSED();
  if (n != 1 || codes[0] != kTVMBytes) return fail("TypeError: bytes are needed");
  bytes = args[0].v_handle;
  for (size_t i = 0; i < bytes->size; i++) sum += (unsigned char)bytes->data[i];
  return return_int(ret, ret_code, sum);
}

PACKED(data_address) {
  UNUSED();
  if (n != 1 || !is_tensor(codes[0])) return fail("TypeError: a tensor is needed");
  return return_int(ret, ret_code, (int64_t)(intptr_t)floats(args));
}

/* Type of the tensor's elements: code * 65536 + bits * 256 + lanes. */
PACKED(element_type) {
  DLDataType dtype;
  UNUSED();
  if (n != 1 || !is_tensor(codes[0])) return fail("TypeError: a tensor is needed");
  dtype = ((DLTensor*)args[0].v_handle)->dtype;
  return return_int(ret, ret_code, dtype.code * 65536 + dtype.bits * 256 + dtype.lanes);
}

/* out = in * scale, float32 */
PACKED(scale) {
  DLTensor* in;
  UNUSED();
  if (n != 3 || !is_tensor(codes[0]) || !is_tensor(codes[1]) || codes[2] != kTVMArgFloat) {
    return fail("TypeError: scale(in, out, factor)");
  }
  in = args[0].v_handle;
  for (int64_t i = 0; i < num_elements(in); i++) {
    floats(&args[1])[i] = floats(&args[0])[i] * (float)args[2].v_float64;
  }
  return 0;
}

PACKED(raise_error) {
  UNUSED();
  return fail(n > 0 && codes[0] == kTVMStr ? args[0].v_str : "no text was given");
}

/* Call a function with the remaining arguments and return its result. */
PACKED(call) {
  UNUSED();
  return TVMFuncCall(args[0].v_handle, args + 1, codes + 1, n - 1, ret, ret_code);
}

PACKED(call_ignoring_errors) {
  UNUSED();
  (void)TVMFuncCall(args[0].v_handle, args + 1, codes + 1, n - 1, ret, ret_code);
  *ret_code = kTVMNullptr;
  return 0;
}

PACKED(call_with_context) {
  char text[512];
  UNUSED();
  if (TVMFuncCall(args[0].v_handle, args + 1, codes + 1, n - 1, ret, ret_code) == 0) return 0;
  snprintf(text, sizeof(text), "layer conv1: %s", TVMGetLastError());
  return fail(text);
}

/* Call a function with three integers, n times: repeat(function, n). */
PACKED(repeat) {
  UNUSED();
  for (int64_t i = 0; i < args[1].v_int64; i++) {
    TVMValue values[3] = {{.v_int64 = i}, {.v_int64 = 2}, {.v_int64 = 3}};
    int inner[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt};
    if (TVMFuncCall(args[0].v_handle, values, inner, 3, ret, ret_code) != 0) return -1;
  }
  return 0;
}

/* Pass a function a tensor that is valid only during the call. */
PACKED(call_with_stack_tensor) {
  float data[3] = {1, 2, 3};
  int64_t shape[1] = {3};
  DLTensor tensor = {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, NULL, 0};
  TVMValue value = {.v_handle = &tensor};
  int code = kTVMDLTensorHandle;
  UNUSED();
  if (TVMFuncCall(args[0].v_handle, &value, &code, 1, ret, ret_code) != 0) return -1;
  ret->v_float64 = data[0];
  *ret_code = kTVMArgFloat;
  return 0;
}

typedef struct {
  TVMFunctionHandle function;
  TVMValue result;
  int code, rc;
  char text[256];
} ThreadCall;

static void* run_on_thread(void* closure) {
  ThreadCall* call = closure;
  TVMValue value = {.v_int64 = 20};
  int code = kTVMArgInt;
  call->rc = TVMFuncCall(call->function, &value, &code, 1, &call->result, &call->code);
  if (call->rc != 0) snprintf(call->text, sizeof(call->text), "%s", TVMGetLastError());
  return NULL;
}

/* Call a function with 20 on a thread that Python did not create. */
PACKED(call_on_thread) {
  ThreadCall call = {.function = args[0].v_handle};
  pthread_t thread;
  UNUSED();
  if (pthread_create(&thread, NULL, run_on_thread, &call) != 0) return fail("no thread");
  pthread_join(thread, NULL);
  if (call.rc != 0) return fail(call.text);
  *ret = call.result;
  *ret_code = call.code;
  return 0;
}

PACKED(sleep_ms) {
  struct timespec time = {args[0].v_int64 / 1000, args[0].v_int64 % 1000 * 1000000};
  UNUSED();
  nanosleep(&time, NULL);
  return 0;
}

/* Look up a function by name in the module's imports or the global registry. */
extern void* __tvm_module_ctx;
TVM_DLL void* __tvm_module_ctx = NULL;

PACKED(call_global) {
  TVMFunctionHandle function;
  UNUSED();
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, args[0].v_str, &function) != 0) return -1;
  return TVMFuncCall(function, args + 1, codes + 1, n - 1, ret, ret_code);
}

PACKED(__tvm_main__) {
  UNUSED();
  return return_int(ret, ret_code, 42);
}
