/* Workspaces of threads. */
#ifndef TVMRT_SRC_RUNTIME_WORKSPACE_H_
#define TVMRT_SRC_RUNTIME_WORKSPACE_H_

#include "error.h"

/* Free all workspaces of a thread that ends. */
void tvmrt__workspace_free_all(tvmrt_thread* thread);

#endif
