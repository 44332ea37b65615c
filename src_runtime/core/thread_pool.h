/* What the runtime asks of the workers behind TVMBackendParallelLaunch. */
#ifndef TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_
#define TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_

#include <stdbool.h>

/* Whether launches have started threads. What is quick on one thread, and may be called by programs that
 * never launch anything, starts none by itself. */
bool tvmrt__has_workers(void);

#endif /* TVMRT_SRC_RUNTIME_CORE_THREAD_POOL_H_ */
