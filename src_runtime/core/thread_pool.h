/* Queries of the workers of TVMBackendParallelLaunch. */
#ifndef TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_
#define TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_

#include <stdbool.h>

#include "../platform/compiler.h"

/* Whether launches have started threads. Functions that are fast on one thread, and may be called
 * by programs that never launch anything, do not start any. */
bool tvmrt__has_workers(void);

/* Maximum number of threads of a launch. The first call reads the environment and asks the system;
 * executors make it when they are created, so that no run does. */
int tvmrt__num_threads(void);

/* Limit launches of this thread to *threads threads, itself included, from now on; 0, or NULL: no
 * limit. Returns the previous argument. */
TVMRT_SDK const int* tvmrt__limit_launches(const int* threads);

#endif /* TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_ */
