/* Firmware runtime: executors in memory that the program gives.
 *
 * One block for all: the executor with its tables in front, tensors behind them. Nothing is
 * allocated, now or later, and nothing has to be given back. *used_bytes tells how much the graph
 * takes even where the arena is too small, so that a program can find its size by asking with
 * none. */
#include "graph.h"

/* The executor is the arena's beginning, and goes with it. */
tvm_crt_error_t tvmrt_graph_create(const char* json, size_t json_bytes, const TVMModule* module,
                                   void* arena, size_t arena_bytes, TVMGraphExecutor** executor,
                                   size_t* used_bytes) {
  TVMGraphExecutor* g = (TVMGraphExecutor*)arena;
  graph_plan plan;
  size_t table_bytes;
  size_t tensor_bytes = 0;
  tvm_crt_error_t rc;
  *executor = NULL;
  if (used_bytes != NULL) *used_bytes = 0;
  if (arena == NULL) return kTvmErrorGraphArenaNull;
  if ((uintptr_t)arena % TVMRT_GRAPH_ALIGN_BYTES != 0) return kTvmErrorGraphArenaMisaligned;
  rc = tvmrt__graph_plan(json, json_bytes, &plan);
  if (rc != kTvmErrorNoError) return rc;
  table_bytes = tvmrt__graph_table_bytes(&plan);
  /* Tensors can only be measured by tables that were read: without these it tells what they take
   * alone. */
  if (table_bytes > arena_bytes) {
    rc = kTvmErrorPlatformNoMemory;
  } else {
    rc = tvmrt__graph_read(&plan, module, g);
    if (rc != kTvmErrorNoError) return rc;
    /* what is left of the arena; there is no more, as g->memory stays NULL */
    g->at = (uint8_t*)arena + table_bytes;
    g->end = (uint8_t*)arena + arena_bytes;
    rc = tvmrt__graph_place(g, &tensor_bytes);
  }
  if (used_bytes != NULL) *used_bytes = table_bytes + tensor_bytes;
  if (rc == kTvmErrorNoError) *executor = g;
  return rc;
}
