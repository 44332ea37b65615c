/* Compiler features beyond C99 that the backend and firmware use. */
#ifndef TVMRT_SRC_BACKEND_COMPILER_H_
#define TVMRT_SRC_BACKEND_COMPILER_H_

#include <tvm/runtime/kernels/scalar/no_low_overhead_loops.h>

/* Declares a function that the image may lack; its address is then NULL. */
#if defined(__GNUC__)
#define TVMRT_WEAK __attribute__((weak))
#else
#define TVMRT_WEAK
#endif
/* A definition that the image may override. Windows linkers do not support this in libraries. */
#if defined(_WIN32)
#define TVMRT_REPLACEABLE
#else
#define TVMRT_REPLACEABLE TVMRT_WEAK
#endif
/* printf-like function: parameter `fmt` is the format, its arguments start at parameter `first`. */
#if !defined(__GNUC__)
#define TVMRT_PRINTF(fmt, first)
#elif defined(__MINGW32__) && !defined(__clang__)
#define TVMRT_PRINTF(fmt, first) __attribute__((format(gnu_printf, fmt, first)))
#else
#define TVMRT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#endif

#endif
