/* What the backend asks of a compiler beyond C99. */
#ifndef TVMRT_SRC_BACKEND_COMPILER_H_
#define TVMRT_SRC_BACKEND_COMPILER_H_

#include <tvm/runtime/kernels/scalar/counted_loops.h>

/* A declaration of what the image may lack, whose address is NULL then. */
#if defined(__GNUC__)
#define TVMRT_WEAK __attribute__((weak))
#else
#define TVMRT_WEAK
#endif
/* A definition that another one of the image replaces. The linkers of Windows take none of a library. */
#if defined(_WIN32)
#define TVMRT_REPLACEABLE
#else
#define TVMRT_REPLACEABLE TVMRT_WEAK
#endif

#endif
