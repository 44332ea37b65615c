/* Workers and workspaces. */
#ifndef TVMRT_SRC_RUNTIME_THREADS_H_
#define TVMRT_SRC_RUNTIME_THREADS_H_

#include "error.h"

/* Free all workspaces of a thread that ends. */
void tvmrt__workspace_free_all(tvmrt_thread* thread);

/* Number of tasks that a launch may use now, at least 1. */
int tvmrt__num_workers(void);

/* Use `count` threads from now on; 0 goes back to what the environment says. */
int tvmrt__set_num_workers(int count);

#endif
