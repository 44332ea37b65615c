/* Forgets cached data, so that a measurement begins with tensors in memory. */
#include "../core/function.h"
#include "tensor.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define LINE_BYTES 64u
static void flush_line(const char* at) { __asm__ volatile("clflush %0" : : "m"(*at) : "memory"); }
static void flush_end(void) { __asm__ volatile("mfence" : : : "memory"); }
static size_t line_bytes(void) { return LINE_BYTES; }
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__APPLE__)
static void flush_line(const char* at) { __asm__ volatile("dc civac, %0" : : "r"(at) : "memory"); }
static void flush_end(void) { __asm__ volatile("dsb ish" : : : "memory"); }
static size_t line_bytes(void) {
  uint64_t kind;
  __asm__("mrs %0, ctr_el0" : "=r"(kind));
  return (size_t)4 << ((kind >> 16) & 15u); /* of the smallest data cache, in words of 4 bytes */
}
#else
static void flush_line(const char* at) { (void)at; }
static void flush_end(void) {}
static size_t line_bytes(void) { return 64; }
#endif

/* (what is kept, tensors ...): by name as the preparation of a measurement, which passes it the
 * arguments of what is measured */
TVMRT_NATIVE(cache_flush) {
  TVMRT_GLOBAL_ARGS;
  for (int i = 1; i < in.count; ++i) {
    DLTensor* t;
    uint64_t bytes;
    size_t line = line_bytes();
    if (in.codes[i] != kTVMDLTensorHandle && in.codes[i] != kTVMNDArrayHandle) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(&in, i, &t));
    TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
    if (t->device.device_type != kDLCPU || bytes == 0) continue;
    for (uint64_t at = 0; at < bytes; at += line) flush_line(tvmrt__tensor_data(t) + at);
    flush_line(tvmrt__tensor_data(t) + bytes - 1);
  }
  flush_end();
  return 0;
}

#define FUNCTIONS(X) X("cache_flush_cpu_non_first_arg", cache_flush)
const tvmrt_builtins tvmrt__cache_builtins = TVMRT_BUILTINS(FUNCTIONS);
