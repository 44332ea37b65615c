/* Backend library: the stack allocator (last in, first out) in a block of memory.
 *
 * Used by workspaces, by the firmware executors, and by programs directly through TVM's names.
 * Every block is a multiple of the alignment, so the next one is aligned without padding. With the
 * LIFO check, a tag at the end of each block holds its length XOR a constant, which detects
 * overwritten tags. Without it, a free also releases all later blocks. */
#include <tvm/runtime/crt/stack_allocator.h>

#include "mem_functions.h"

#ifdef TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK
#define CHECK_ORDER 1
#else
#define CHECK_ORDER 0
#endif

#define ALIGN_MASK ((size_t)TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES - 1)

tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t* ws, uint8_t* memory, size_t num_bytes) {
  size_t skip = (size_t)(-(uintptr_t)memory) & ALIGN_MASK; /* provided memory may be unaligned */
  if (skip > num_bytes) skip = num_bytes;
  ws->workspace = memory == NULL ? NULL : memory + skip;
  ws->next_alloc = ws->workspace;
  ws->workspace_size = num_bytes - skip;
  return ws->workspace_size == 0 && num_bytes != 0 ? kTvmErrorPlatformNoMemory : kTvmErrorNoError;
}

static size_t bytes_left(const tvm_workspace_t* ws) {
  return ws->workspace_size - (size_t)(ws->next_alloc - ws->workspace);
}

tvm_crt_error_t StackMemoryManager_Allocate_Body(tvm_workspace_t* ws, int32_t nbytes, void** out,
                                                 uint8_t do_lifo_check) {
  size_t total;
  *out = NULL;
  /* A negative size would become a huge one below; sums cannot wrap, as a size has at most 31
   * bits. */
  if (nbytes < 0 || ws->workspace == NULL) return kTvmErrorPlatformNoMemory;
  total = ((size_t)nbytes + ALIGN_MASK) & ~ALIGN_MASK;
  if (do_lifo_check) total += (STACK_ALLOCATOR_TAG_SIZE_BYTES + ALIGN_MASK) & ~ALIGN_MASK;
  if (total > bytes_left(ws)) return kTvmErrorPlatformNoMemory;
  *out = ws->next_alloc;
  ws->next_alloc += total;
  if (do_lifo_check) {
    uint32_t tag = (uint32_t)total ^ STACK_ALLOCATOR_TAG;
    memcpy(ws->next_alloc - sizeof(tag), &tag, sizeof(tag));
  }
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t* ws, int32_t nbytes, void** out) {
  return StackMemoryManager_Allocate_Body(ws, nbytes, out, CHECK_ORDER);
}

/* The tag at the end of the last block contains the block's length. */
static int is_last_block(const tvm_workspace_t* ws, const uint8_t* block) {
  uint32_t tag;
  if ((size_t)(ws->next_alloc - block) < sizeof(tag)) return 0;
  memcpy(&tag, ws->next_alloc - sizeof(tag), sizeof(tag));
  return (tag ^ STACK_ALLOCATOR_TAG) == (uint32_t)(ws->next_alloc - block);
}

tvm_crt_error_t StackMemoryManager_Free_Body(tvm_workspace_t* ws, void* ptr,
                                             uint8_t do_lifo_check) {
  uint8_t* block = (uint8_t*)ptr;
  if (ws->workspace == NULL || block < ws->workspace || block > ws->next_alloc) {
    return kTvmErrorPlatformStackAllocBadFree;
  }
  if (do_lifo_check && !is_last_block(ws, block)) return kTvmErrorPlatformStackAllocBadFree;
  ws->next_alloc = block; /* also releases later blocks: callers are responsible for the order */
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t* ws, void* ptr) {
  return StackMemoryManager_Free_Body(ws, ptr, CHECK_ORDER);
}
