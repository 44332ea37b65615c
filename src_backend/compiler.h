/* Compiler features beyond C99 that the backend uses. */
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

#endif
