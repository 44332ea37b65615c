/* C code on both sides of the bridge to tvm-ffi, using its header: functions in its calling
   convention, and calls by address on threads unknown to Python. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <tvm/ffi/c_api.h>
#include <tvm/runtime/c_packed_func.h>

#define EXPORT __attribute__((visibility("default")))

enum { FAILED = -1, STUCK = -2 };

/* ---- functions of tvm-ffi ---- */

/* The sum of integers; `handle` may be the address of one more. */
EXPORT int __tvm_ffi_sum(void* handle, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  int64_t sum = handle != NULL ? *(const int64_t*)handle : 0;
  for (int32_t i = 0; i < n; i++) {
    if (args[i].type_index != kTVMFFIInt) {
      TVMFFIErrorSetRaisedFromCStr("TypeError", "sum() adds integers");
      return -1;
    }
    sum += args[i].v_int64;
  }
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = sum;
  return 0;
}

/* The type indices of the arguments, two decimal digits each, the first one highest. */
EXPORT int __tvm_ffi_type_indices(void* handle, const TVMFFIAny* args, int32_t n,
                                  TVMFFIAny* result) {
  int64_t number = 0;
  (void)handle;
  for (int32_t i = 0; i < n; i++) number = number * 100 + args[i].type_index;
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = number;
  return 0;
}

/* Returns the reference count of the argument. */
EXPORT int __tvm_ffi_references(void* handle, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  (void)handle;
  if (n != 1 || args[0].type_index < kTVMFFIStaticObjectBegin) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "references() takes an object");
    return -1;
  }
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = (int64_t)(args[0].v_obj->combined_ref_count & 0xffffffffu);
  return 0;
}

/* ---- calls by address ---- */

typedef struct {
  TVMFFISafeCallType safe_call; /* or ... */
  TVMCPackedFunc packed;        /* ... this */
  void* handle;
  int64_t result;
} Call;

static void* call_safe(void* closure) {
  Call* call = closure;
  TVMFFIAny args[3], result;
  memset(args, 0, sizeof(args));
  memset(&result, 0, sizeof(result));
  for (int i = 0; i < 3; i++) {
    args[i].type_index = kTVMFFIInt;
    args[i].v_int64 = 10 * (i + 1);
  }
  if (call->safe_call(call->handle, args, 3, &result) != 0) {
    TVMFFIObjectHandle error;
    TVMFFIErrorMoveFromRaised(&error);
    TVMFFIObjectDecRef(error);
  } else if (result.type_index == kTVMFFIInt) {
    call->result = result.v_int64;
  }
  return NULL;
}

static void* call_packed(void* closure) {
  Call* call = closure;
  TVMValue args[3], result;
  int codes[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt}, code = kTVMNullptr;
  for (int i = 0; i < 3; i++) args[i].v_int64 = 10 * (i + 1);
  if (call->packed(args, codes, 3, &result, &code, call->handle) == 0 && code == kTVMArgInt) {
    call->result = result.v_int64;
  }
  return NULL;
}

/* Returns STUCK if the call deadlocks on a lock of the caller. */
static int64_t run(Call* call, void* (*body)(void*)) {
  static Call kept; /* a stuck thread still uses it */
  pthread_t thread;
  struct timespec end;
  kept = *call;
  kept.result = FAILED;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 20;
  if (pthread_create(&thread, NULL, body, &kept) != 0) return FAILED;
  if (pthread_timedjoin_np(thread, NULL, &end) != 0) return STUCK;
  return kept.result;
}

/* Returns the result of a function for 10, 20, 30 on another thread. */
EXPORT int64_t run_safe_call(TVMFFISafeCallType safe_call, void* handle) {
  Call call = {safe_call, NULL, handle, 0};
  return run(&call, call_safe);
}

EXPORT int64_t run_packed_call(TVMCPackedFunc packed, void* handle) {
  Call call = {NULL, packed, handle, 0};
  return run(&call, call_packed);
}
