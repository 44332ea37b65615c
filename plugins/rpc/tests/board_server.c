/* A board simulated by a process: the remote call server on standard input and output, with
   functions for tests. Ends with 0 when its client ends the session, so that it is started
   again. */
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/platform.h>
#include <unistd.h>

#define PACKED(name)                                                                           \
  static int name(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code, \
                  void* resource_handle)

/* (value) -> the value, if it is a number, a string or bytes */
PACKED(echo) {
  (void)resource_handle;
  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;
  *out = args[0];
  *out_code = type_codes[0];
  return 0;
}

/* (tensor of floats) -> their sum */
PACKED(sum) {
  const DLTensor* t = args[0].v_handle;
  double all = 0;
  int64_t i;
  (void)resource_handle;
  if (num_args != 1 || type_codes[0] != kTVMDLTensorHandle || t->ndim != 1) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  for (i = 0; i < t->shape[0]; ++i) {
    float x;
    memcpy(&x, (const char*)t->data + t->byte_offset + (size_t)i * sizeof(x), sizeof(x));
    all += x;
  }
  out->v_float64 = all;
  *out_code = kTVMArgFloat;
  return 0;
}

/* (milliseconds): sleeps that long */
PACKED(rest) {
  const struct timespec time = {args[0].v_int64 / 1000, args[0].v_int64 % 1000 * 1000000};
  (void)type_codes, (void)num_args, (void)out, (void)out_code, (void)resource_handle;
  return nanosleep(&time, NULL);
}

PACKED(crash) {
  (void)args, (void)type_codes, (void)num_args, (void)out, (void)out_code, (void)resource_handle;
  _exit(0);
}

static const TVMCPackedFunc functions[] = {crash, echo, rest, sum};
static const char* const names[] = {"crash", "echo", "rest", "sum"};
static struct timespec started;

tvm_crt_error_t TVMPlatformTimerStart(void) {
  return clock_gettime(CLOCK_MONOTONIC, &started) == 0 ? kTvmErrorNoError
                                                       : kTvmErrorPlatformTimerBadState;
}

tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_time_seconds) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return kTvmErrorPlatformTimerBadState;
  *elapsed_time_seconds =
      (double)(now.tv_sec - started.tv_sec) + 1e-9 * (double)(now.tv_nsec - started.tv_nsec);
  return kTvmErrorNoError;
}

static ssize_t write_bytes(void* context, const uint8_t* data, size_t num_bytes) {
  (void)context;
  return write(STDOUT_FILENO, data, num_bytes);
}

int main(void) {
  static uint8_t memory[1 << 16];
  microtvm_rpc_server_t server;
  uint8_t bytes[256];
  ssize_t got;
  size_t i;
  tvmrt_workspace_init(memory, sizeof(memory));
  if (TVMInitializeRuntime() != 0) return 2;
  for (i = 0; i < sizeof(functions) / sizeof(*functions); ++i) {
    if (TVMFuncRegisterGlobal(names[i], (TVMFunctionHandle)(uintptr_t)&functions[i], 0) != 0)
      return 2;
  }
  server = MicroTVMRpcServerInit(write_bytes, NULL);
  while ((got = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0) {
    uint8_t* at = bytes;
    size_t left = (size_t)got;
    const tvm_crt_error_t rc = MicroTVMRpcServerLoop(server, &at, &left);
    if (rc != kTvmErrorNoError) return rc == kTvmErrorPlatformShutdown ? 0 : 3;
  }
  return 0;
}
