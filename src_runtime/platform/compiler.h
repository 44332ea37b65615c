/* Optional compiler features beyond C11; each macro is empty if the compiler lacks the feature. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_COMPILER_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_COMPILER_H_

#include <stdint.h> /* __GLIBC__ */

#include "../../src_backend/compiler.h"

#if defined(__GNUC__)
/* Not inlined: keeps stack frames of rare paths out of the most frequent one. */
#define TVMRT_OUT_OF_LINE __attribute__((noinline))
/* Not inlined, with unchanged parameters: a caller with the same parameters can tail-call it. */
#if defined(__clang__)
#define TVMRT_TAIL_CALLED TVMRT_OUT_OF_LINE
#else
#define TVMRT_TAIL_CALLED __attribute__((noipa))
#endif
/* Optimised for size, even if its file is optimised for speed. */
#define TVMRT_COLD_PATH __attribute__((noinline, cold))
/* A condition that is nearly always true: the code after it is reached without a jump. */
#define TVMRT_EXPECT_TRUE(condition) __builtin_expect((condition) != 0, 1)
/* Aligned to a cache line: otherwise its alignment would depend on the objects linked before it. */
#define TVMRT_CACHE_ALIGNED __attribute__((aligned(64)))
/* A function that runs when the library is unloaded, or the program ends. */
#define TVMRT_AT_UNLOAD __attribute__((destructor, unused))
#else
#define TVMRT_OUT_OF_LINE
#define TVMRT_TAIL_CALLED
#define TVMRT_COLD_PATH
#define TVMRT_EXPECT_TRUE(condition) (condition)
#define TVMRT_CACHE_ALIGNED
#define TVMRT_AT_UNLOAD
#endif

/* Thread-local pointer: one pointer fits the static TLS reserve of glibc's loader, and is then read
 * without a call. musl has no such reserve, and refuses libraries that need it. */
#if defined(__GNUC__) && defined(__ELF__) && defined(__GLIBC__)
#define TVMRT_THREAD_POINTER _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define TVMRT_THREAD_POINTER _Thread_local
#endif

/* Exported by this library for plug-ins of the same version, which include it through sdk/. */
#if defined(_WIN32) && defined(TVM_EXPORTS)
#define TVMRT_SDK __declspec(dllexport)
#elif defined(_WIN32)
#define TVMRT_SDK __declspec(dllimport)
#elif defined(__GNUC__)
#define TVMRT_SDK __attribute__((visibility("default")))
#else
#define TVMRT_SDK
#endif

/* Whether a library may reference a function, TVMRT_WEAK, which the loading program may lack. */
#if defined(__GNUC__) && defined(__ELF__)
#define TVMRT_HAS_WEAK 1
#else
#define TVMRT_HAS_WEAK 0
#endif

/* Pause instruction for loops that wait for another thread. */
static inline void tvmrt__relax(void) {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
  __builtin_ia32_pause();
#elif defined(__GNUC__) && (defined(__aarch64__) || defined(__arm__))
  __asm__ volatile("yield");
#endif
}

/* Write back and evict the cache line of a byte; wait for the end of that; size of a line in bytes.
 * No-ops on machines that do not allow this in user mode. */
#if defined(__x86_64__) && defined(__GNUC__)
static inline void tvmrt__flush_line(const char* at) {
  __asm__ volatile("clflush %0" : : "m"(*at) : "memory");
}
static inline void tvmrt__flush_end(void) { __asm__ volatile("mfence" : : : "memory"); }
static inline unsigned tvmrt__line_bytes(void) { return 64; }
#elif defined(__aarch64__) && defined(__GNUC__) && defined(__linux__)
static inline void tvmrt__flush_line(const char* at) {
  __asm__ volatile("dc civac, %0" : : "r"(at) : "memory");
}
static inline void tvmrt__flush_end(void) { __asm__ volatile("dsb ish" : : : "memory"); }
static inline unsigned tvmrt__line_bytes(void) {
  unsigned long kind;
  __asm__("mrs %0, ctr_el0" : "=r"(kind));
  return 4u << ((kind >> 16) & 15u); /* log2 of the smallest data cache line, in words of 4 bytes */
}
#else
static inline void tvmrt__flush_line(const char* at) { (void)at; }
static inline void tvmrt__flush_end(void) {}
static inline unsigned tvmrt__line_bytes(void) { return 64; }
#endif

#endif
