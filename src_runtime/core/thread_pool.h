/* Query of the workers of TVMBackendParallelLaunch. */
#ifndef TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_
#define TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_

#include <stdbool.h>

/* Whether launches have started threads. Functions that are fast on one thread, and may be called
 * by programs that never launch anything, do not start any. */
bool tvmrt__has_workers(void);

#endif /* TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_ */
