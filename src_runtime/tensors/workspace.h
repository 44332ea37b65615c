/* Workspaces that an executor reserves when it is created, so that its runs allocate none. */
#ifndef TVMRT_SRC_RUNTIME_TENSORS_WORKSPACE_H_
#define TVMRT_SRC_RUNTIME_TENSORS_WORKSPACE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of a reserve that are in use at a time; further ones are the thread's own. */
enum { TVMRT_MAX_RESERVED = 8 };

/* Memory for the workspaces of the thread that runs the executor; zero-initialised is empty. One
 * run uses it at a time, on any thread. */
typedef struct tvmrt_reserve {
  int max_threads; /* of a launch of the run; 0: no limit */
  char* memory;
  size_t bytes;
  size_t used;       /* bytes up to the end of the last block */
  size_t num_blocks; /* blocks in `blocks`, in the order of their addresses */
  struct tvmrt_reserved {
    size_t begin; /* byte of the memory */
    bool in_use;
  } blocks[TVMRT_MAX_RESERVED];
} tvmrt_reserve;

/* Reserve `bytes`, the maximum of all blocks that are in use at a time, each in whole pages. 0, or
 * -1 with the error text set. */
int tvmrt__reserve_alloc(tvmrt_reserve* reserve, uint64_t bytes);
/* Accepts an empty reserve. */
void tvmrt__reserve_free(tvmrt_reserve* reserve);

/* Let TVMBackendAllocWorkspace() of this thread take blocks from `reserve` until
 * tvmrt__reserve_end(), which takes the returned value: runs may be nested. */
tvmrt_reserve* tvmrt__reserve_begin(tvmrt_reserve* reserve);
void tvmrt__reserve_end(tvmrt_reserve* previous);

#endif
