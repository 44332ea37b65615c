/* Firmware runtime: what boards do for the packets of a client: calls, errors, and built-in functions
 * for timing and limits. */
#include <tvm/runtime/crt/platform.h>

#include "../../../src_backend/compiler.h"
#include "../../../src_backend/mem_functions.h"
#include "../aot/packed.h"
#include "../aot/registry.h"
#include "remote.h"

/* The board's functions: an image without a clock returns an error when times are requested. */
TVMRT_WEAK tvm_crt_error_t TVMPlatformTimerStart(void);
TVMRT_WEAK tvm_crt_error_t TVMPlatformTimerStop(double* elapsed_time_seconds);

/* Measurement of a time evaluator. There is one: function handles of an image have no state. */
typedef struct evaluator {
  TVMFunctionHandle function;
  int64_t number;
  int64_t repeat;
  double min_seconds; /* of a repetition */
  int64_t max_idle;   /* repetitions that may take no time at all */
} evaluator;

/* Maximum runs of a repetition: with a stopped clock it would never end. */
enum { MAX_NUMBER = 1 << 30 };

static evaluator requested;
/* borrowed from the answer being written */
static uint8_t* times;
static size_t times_capacity;
/* evaluate() returns its address; read before the next call */
static TVMByteArray result;

/* The function's result is ignored: tensors and texts of the image need no release. */
static int run_once(TVMValue* args, int* codes, int num_args) {
  TVMValue value;
  int code = kTVMNullptr;
  return TVMFuncCall(requested.function, args, codes, num_args, &value, &code);
}

/* Seconds of asked.number runs. The clock is stopped also if a run fails, so that it can be started
 * again. */
static int measure(TVMValue* args, int* codes, int num_args, double* seconds) {
  int64_t i;
  int rc = TVMPlatformTimerStart();
  for (i = 0; i < requested.number && rc == 0; ++i) rc = run_once(args, codes, num_args);
  if (rc != 0) {
    (void)TVMPlatformTimerStop(seconds);
    return rc;
  }
  return TVMPlatformTimerStop(seconds);
}

/* Increases the number of runs until they last long enough; it is kept for later repetitions. It
 * grows at least by the golden ratio, or to the number that the last times suggest; a clock that
 * shows no time is given up after max_idle rounds. */
static int measure_long_enough(TVMValue* args, int* codes, int num_args, double* seconds) {
  int64_t idle = 0;
  for (;;) {
    double wanted;
    const int rc = measure(args, codes, num_args, seconds);
    if (rc != 0 || *seconds >= requested.min_seconds || requested.number >= MAX_NUMBER) return rc;
    if (*seconds <= 0 && ++idle > requested.max_idle) return rc;
    wanted = 1.618 * (double)requested.number;
    if (*seconds > 0 && requested.min_seconds / *seconds * (double)requested.number + 1 > wanted) {
      wanted = requested.min_seconds / *seconds * (double)requested.number + 1;
    }
    requested.number = wanted < (double)MAX_NUMBER ? (int64_t)wanted + 1 : MAX_NUMBER;
  }
}

/* (arguments of the function) -> seconds of one run, a double for each repetition */
PACKED(evaluate) {
  int64_t i;
  int rc;
  (void)resource_handle;
  if (requested.function == NULL) return kTvmErrorTimeEvaluatorBadHandle;
  /* before any run */
  if ((uint64_t)requested.repeat > times_capacity / sizeof(double)) return kTvmErrorBufferTooSmall;
  rc = run_once(args, type_codes, num_args); /* a warm-up run */
  for (i = 0; i < requested.repeat && rc == 0; ++i) {
    double seconds = 0;
    rc = measure_long_enough(args, type_codes, num_args, &seconds);
    seconds /= (double)requested.number;
    memcpy(times + (size_t)i * sizeof(seconds), &seconds, sizeof(seconds));
  }
  if (rc != 0) return rc;
  result.data = (const char*)times;
  result.size = (size_t)requested.repeat * sizeof(double);
  out->v_handle = &result;
  *out_code = kTVMBytes;
  return kTvmErrorNoError;
}

/* Its address is the handle that clients get. */
static const TVMCPackedFunc evaluate_function = evaluate;

/* NULL for the module means a global function. An unknown name is an error, unlike in a look-up. */
static int find_function(TVMValue* args, const int* type_codes, TVMFunctionHandle* out) {
  if (type_codes[1] != kTVMStr) return kTvmErrorFunctionCallWrongArgType;
  if (type_codes[0] == kTVMNullptr) {
    const int rc = TVMFuncGetGlobal(args[1].v_str, out);
    if (rc != kTvmErrorNoError) return rc;
    return *out == NULL ? kTvmErrorFunctionNameNotFound : kTvmErrorNoError;
  }
  if (type_codes[0] != kTVMModuleHandle) return kTvmErrorFunctionCallWrongArgType;
  return TVMModGetFunction(args[0].v_handle, args[1].v_str, 0, out);
}

/* (module or nothing, name, device type and id, number, repeat, minimum milliseconds, repetitions
 * that may take no time (since 0.10), ...) -> function; the rest are pauses and functions between
 * repetitions, which boards do not support. */
PACKED(make_evaluator) {
  TVMFunctionHandle f = NULL;
  int rc;
  int i;
  (void)resource_handle;
  if (num_args < 8) return kTvmErrorFunctionCallNumArguments;
  for (i = 2; i < 8; ++i) {
    if (type_codes[i] != kTVMArgInt) return kTvmErrorFunctionCallWrongArgType;
  }
  rc = find_function(args, type_codes, &f);
  if (rc != kTvmErrorNoError) return rc;
  if (TVMPlatformTimerStart == NULL || TVMPlatformTimerStop == NULL) {
    return kTvmErrorPlatformTimerBadState;
  }
  if (args[4].v_int64 < 1 || args[4].v_int64 > MAX_NUMBER || args[5].v_int64 < 1 ||
      args[5].v_int64 > UINT16_MAX) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  requested.function = f;
  requested.number = args[4].v_int64;
  requested.repeat = args[5].v_int64;
  /* milliseconds, as sent by TVM's clients */
  requested.min_seconds = (double)args[6].v_int64 * 1e-3;
  requested.max_idle = num_args > 10 ? args[7].v_int64 : 100;
  out->v_handle = (void*)(uintptr_t)&evaluate_function;
  *out_code = kTVMPackedFuncHandle;
  return kTvmErrorNoError;
}

/* () -> maximum bytes of a packet after its length */
PACKED(packet_bytes) {
  (void)args, (void)type_codes, (void)resource_handle;
  if (num_args != 0) return kTvmErrorFunctionCallNumArguments;
  return return_int(out, out_code, REMOTE_PACKET_BYTES - 8);
}

static const TVMCPackedFunc functions[] = {make_evaluator, packet_bytes};

/* Built-in functions come first, so that a program's own cannot replace them. The octal count before
 * their names is their number; both have the same order. */
tvm_crt_error_t tvmrt__remote_find_global(remote_session* s, const char* name, void** out) {
  static const TVMFuncRegistry registry = {
      "\002runtime.RPCTimeEvaluator\0tvm.rpc.server.GetCRTMaxPacketSize", functions};
  (void)s;
  *out = tvmrt__registry_find(&registry, name);
  return *out != NULL ? kTvmErrorNoError : (tvm_crt_error_t)TVMFuncGetGlobal(name, out);
}

/* An evaluator writes its times directly into the answer: there is no other memory. */
tvm_crt_error_t tvmrt__remote_call(remote_session* s, void* function, remote_values* in,
                                   const remote_writer* out, TVMValue* value, int* code) {
  (void)s;
  times = out->data + REMOTE_RESULT_OFFSET;
  times_capacity = out->capacity - REMOTE_RESULT_OFFSET;
  return (tvm_crt_error_t)TVMFuncCall(function, in->values, in->codes, in->count, value, code);
}

/* The code, which the client can explain: eight digits, without printf(). */
const char* tvmrt__remote_error_text(tvm_crt_error_t code, char room[16]) {
  static const char zero[16] = "code 0x00000000";
  uint32_t left = (uint32_t)code;
  size_t i;
  memcpy(room, zero, sizeof(zero));
  for (i = sizeof(zero) - 2; left != 0; --i) {
    const uint32_t digit = left & 15u;
    room[i] = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
    left >>= 4;
  }
  return room;
}
