/* Firmware runtime: graph executors in a memory arena of the program.
 *
 * One block for all: the executor with its tables, then the tensors. Nothing is allocated, and
 * nothing must be freed. *used_bytes is set to the graph's size even if the arena is too small, so
 * that a program can find the size with an arena of 0 bytes. */
#include "graph.h"

/* The executor lies at the arena's beginning, and lives as long as the arena. */
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
  /* Tensors can be measured only with tables that were read: without room for these, only their
   * size is returned. */
  if (table_bytes > arena_bytes) {
    rc = kTvmErrorPlatformNoMemory;
  } else {
    rc = tvmrt__graph_read(&plan, module, g);
    if (rc != kTvmErrorNoError) return rc;
    /* the rest of the arena; it cannot grow, as g->memory stays NULL */
    g->at = (uint8_t*)arena + table_bytes;
    g->end = (uint8_t*)arena + arena_bytes;
    rc = tvmrt__graph_assign_memory(g, &tensor_bytes);
  }
  if (used_bytes != NULL) *used_bytes = table_bytes + tensor_bytes;
  if (rc == kTvmErrorNoError) *executor = g;
  return rc;
}
