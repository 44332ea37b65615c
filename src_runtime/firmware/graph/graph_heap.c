/* Firmware runtime: graph executors in memory of the board's allocator, for older programs.
 *
 * Three blocks at most: tables, tensors, and parameters that cannot be used in place. They are
 * freed in reverse order. */
#include <tvm/runtime/platform.h>

#include "../../../src_backend/string_functions.h"
#include "graph.h"

typedef struct block {
  struct block* previous;
  void* memory; /* as returned by the board's allocator */
} block;

static const DLDevice cpu = {kDLCPU, 0};

/* A block with usable memory after its head: *begin is aligned, with num_bytes bytes. Heads form a
 * list, so that no table of blocks is needed. */
static tvm_crt_error_t take(size_t num_bytes, block* previous, block** out, uint8_t** begin) {
  size_t head = TVMRT_GRAPH_ROUND_UP(sizeof(block));
  void* memory;
  uint8_t* at;
  tvm_crt_error_t rc =
      TVMPlatformMemoryAllocate(num_bytes + head + TVMRT_GRAPH_ALIGN_BYTES - 1, cpu, &memory);
  if (rc != kTvmErrorNoError) return rc;
  at = (uint8_t*)memory + (-(uintptr_t)memory & (TVMRT_GRAPH_ALIGN_BYTES - 1));
  *out = (block*)(void*)at;
  (*out)->previous = previous;
  (*out)->memory = memory;
  *begin = at + head;
  return kTvmErrorNoError;
}

/* The remainder of the previous block stays unused. */
static tvm_crt_error_t grow(TVMGraphExecutor* g, size_t num_bytes) {
  block* b;
  uint8_t* begin;
  tvm_crt_error_t rc = take(num_bytes, (block*)g->blocks, &b, &begin);
  if (rc != kTvmErrorNoError) return rc;
  g->blocks = b;
  g->at = begin;
  g->end = begin + num_bytes;
  return kTvmErrorNoError;
}

/* The first block contains the executor itself. So each link is read before its block is freed.
 * No field of the executor is read after its own block, the last one, was freed. */
static void release(TVMGraphExecutor* g) {
  block* b = (block*)g->blocks;
  while (b != NULL) {
    block* previous = b->previous;
    (void)TVMPlatformMemoryFree(b->memory, cpu);
    b = previous;
  }
}

static const graph_memory heap = {grow, release};

/* The JSON must stay valid: it contains the names of inputs. The block of the tables is allocated
 * before they are read, since reading needs them; on failure all is freed. */
int TVMGraphExecutor_Create(const char* sym_json, TVMModuleHandle module_handle,
                            const DLDevice* devices, TVMGraphExecutor** executor) {
  graph_plan plan;
  TVMGraphExecutor* g;
  block* first;
  uint8_t* begin;
  size_t tensor_bytes;
  tvm_crt_error_t rc;
  *executor = NULL;
  if (devices != NULL && devices[0].device_type != kDLCPU) return kTvmErrorFunctionCallInvalidArg;
  rc = tvmrt__graph_plan(sym_json, sym_json == NULL ? 0 : tvmrt__text_length(sym_json), &plan);
  if (rc != kTvmErrorNoError) return rc;
  rc = take(tvmrt__graph_table_bytes(&plan), NULL, &first, &begin);
  if (rc != kTvmErrorNoError) return rc;
  g = (TVMGraphExecutor*)(void*)begin;
  rc = tvmrt__graph_read(&plan, (const TVMModule*)module_handle, g);
  g->blocks = first; /* after reading, which zeroes the tables first */
  g->memory = &heap;
  if (rc == kTvmErrorNoError) rc = tvmrt__graph_assign_memory(g, &tensor_bytes);
  if (rc == kTvmErrorNoError) {
    *executor = g;
  } else {
    release(g);
  }
  return rc;
}
