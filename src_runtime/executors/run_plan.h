/* Placement of buffers in one workspace, by their sizes and lifetimes. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_RUN_PLAN_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_RUN_PLAN_H_

#include <tvm/runtime/run_plan.h>

/* A range of bytes, or a key with an index. */
typedef struct tvmrt_range {
  int64_t begin;
  int64_t end;
} tvmrt_range;

/* The buffers of a network. Zero-initialised is empty. */
typedef struct tvmrt_buffers {
  const tvmrt_plan_buffer* items; /* in the order in which they are placed; borrowed */
  int32_t count;
  int32_t* neighbours;  /* per buffer, the others that are live at a common step */
  tvmrt_range* ordered; /* memory for the placement, in one block with those below */
  tvmrt_range* taken;
  int64_t* trial;
  size_t* begins; /* per buffer, its first index into `neighbours`; one more at the end */
} tvmrt_buffers;

/* Determine which buffers are live together. 0, or -1 with the error text set; free in both cases.
 */
int tvmrt__buffers_init(tvmrt_buffers* buffers, const tvmrt_plan_buffer* items, int32_t count);
void tvmrt__buffers_free(tvmrt_buffers* buffers);

/* Set the offset of each buffer, so that buffers live together do not overlap; return the bytes of
 * all. Offsets are multiples of 64 if all sizes are. Does not allocate. */
int64_t tvmrt__buffers_place(const tvmrt_buffers* buffers, const int64_t* bytes, int64_t* offsets);

#endif
