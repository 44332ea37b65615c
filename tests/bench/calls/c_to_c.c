/*
 * Adds three integers through TVMFuncCall and through TVMFFIFunctionCall, in turns, and through a
 * bare function pointer; arguments are packed for every call. Prints nanoseconds a call, medians
 * of the rounds: pointer, classic, tvm-ffi, and the median of classic / tvm-ffi within a round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tvm/ffi/c_api.h>
#include <tvm/runtime/c_runtime_api.h>

enum { ROUNDS = 21, CALLS = 4000000 };

static int add_packed(TVMValue* args, int* codes, int count, TVMValue* out, int* out_code,
                      void* resource) {
  (void)resource;
  if (count != 3 || codes[0] != kTVMArgInt || codes[1] != kTVMArgInt || codes[2] != kTVMArgInt) {
    return -1;
  }
  out->v_int64 = args[0].v_int64 + args[1].v_int64 + args[2].v_int64;
  *out_code = kTVMArgInt;
  return 0;
}

static int add_front(TVMValue* args, int* codes, int count, TVMRetValueHandle ret, void* resource) {
  TVMValue sum;
  int code;
  if (add_packed(args, codes, count, &sum, &code, resource) != 0) return -1;
  return TVMCFuncSetReturn(ret, &sum, &code, 1);
}

static int add_ffi(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self;
  if (count != 3 || args[0].type_index != kTVMFFIInt || args[1].type_index != kTVMFFIInt ||
      args[2].type_index != kTVMFFIInt) {
    return -1;
  }
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = args[0].v_int64 + args[1].v_int64 + args[2].v_int64;
  return 0;
}

static double now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values) {
  qsort(values, ROUNDS, sizeof(values[0]), by_value);
  return values[ROUNDS / 2];
}

static int64_t total; /* keeps the sums alive */

static double time_pointer(TVMCPackedFunc volatile* function) {
  const double start = now();
  for (int i = 0; i < CALLS; ++i) {
    TVMValue args[3], out;
    int codes[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt}, code = kTVMNullptr;
    args[0].v_int64 = i, args[1].v_int64 = 1, args[2].v_int64 = 2;
    if ((*function)(args, codes, 3, &out, &code, NULL) != 0) return -1;
    total += out.v_int64;
  }
  return (now() - start) / CALLS;
}

static double time_classic(TVMFunctionHandle function) {
  const double start = now();
  for (int i = 0; i < CALLS; ++i) {
    TVMValue args[3], out;
    int codes[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt}, code;
    args[0].v_int64 = i, args[1].v_int64 = 1, args[2].v_int64 = 2;
    if (TVMFuncCall(function, args, codes, 3, &out, &code) != 0) return -1;
    total += out.v_int64;
  }
  return (now() - start) / CALLS;
}

static double time_ffi(TVMFFIObjectHandle function) {
  const double start = now();
  for (int i = 0; i < CALLS; ++i) {
    TVMFFIAny args[3], out;
    for (int k = 0; k < 3; ++k) args[k].type_index = kTVMFFIInt, args[k].zero_padding = 0;
    args[0].v_int64 = i, args[1].v_int64 = 1, args[2].v_int64 = 2;
    out.type_index = kTVMFFINone;
    out.zero_padding = 0;
    out.v_int64 = 0;
    if (TVMFFIFunctionCall(function, args, 3, &out) != 0) return -1;
    total += out.v_int64;
  }
  return (now() - start) / CALLS;
}

/* add() of the library given as argument: what a caller of generated code has in hand. */
static TVMFunctionHandle library_function(const char* path) {
  TVMModuleHandle module = NULL;
  TVMFunctionHandle function = NULL;
  if (TVMModLoadFromFile(path, "so", &module) != 0) return NULL;
  return TVMModGetFunction(module, "add", 0, &function) == 0 ? function : NULL;
}

int main(int argc, char** argv) {
  double pointer[ROUNDS], classic[ROUNDS], ffi[ROUNDS], ratio[ROUNDS];
  TVMCPackedFunc volatile bare = add_packed;
  TVMFunctionHandle ours = argc > 1 ? library_function(argv[1]) : NULL;
  TVMFFIObjectHandle theirs = NULL;
  if (argc < 2 && TVMFuncCreateFromCFunc(add_front, NULL, NULL, &ours) != 0) return 1;
  if (ours == NULL || TVMFFIFunctionCreate(NULL, add_ffi, NULL, &theirs) != 0) return 1;
  for (int i = 0; i < ROUNDS; ++i) {
    pointer[i] = time_pointer(&bare);
    classic[i] = time_classic(ours);
    ffi[i] = time_ffi(theirs);
    if (pointer[i] < 0 || classic[i] < 0 || ffi[i] < 0) return 1;
    ratio[i] = classic[i] / ffi[i];
  }
  printf("%.3f %.3f %.3f %.3f\n", median(pointer), median(classic), median(ffi), median(ratio));
  return total == 0;
}
