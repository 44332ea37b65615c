/* Workspaces on hosts: of the executor that the thread runs, or of the thread.
 *
 * An executor reserves the bytes that its library states when it is created, so its runs allocate
 * nothing on the thread that calls them. Worker threads, and libraries of other compilers, use the
 * thread's own blocks: each thread keeps its used blocks and reuses the best fitting one. They are
 * freed when it ends (base/error.c calls free_all()), so nothing is locked. Runs of a network
 * request the same sizes again: from the second run on no system memory is allocated. Blocks may be
 * released in any order. */
#include "workspace.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

#include "../base/error.h"
#include "../core/thread_pool.h"
#include "memory_device.h"

/* Requests are rounded up, so that operators with similar needs share a block. */
enum { PAGE_BYTES = 4096 };

typedef struct tvmrt_workspace_block {
  struct tvmrt_workspace_block* next; /* of the thread's blocks, newest first */
  DLDevice dev;
  size_t bytes; /* whole pages */
  void* data;
  bool in_use;
} block;

static TVMRT_THREAD_POINTER tvmrt_reserve* current_reserve; /* of the run on this thread */

/* Also frees blocks in use: the thread has ended, and no other thread may release them. */
static void free_all(tvmrt_thread* thread) {
  while (thread->workspace != NULL) {
    block* b = thread->workspace;
    thread->workspace = b->next;
    (void)TVMDeviceFreeDataSpace(b->dev, b->data);
    free(b);
  }
}

/* Compares type and number, as DLPack does. */
static bool same_device(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

/* The smallest sufficient block, by linear search; there are few. */
static block* find_best_free(const tvmrt_thread* thread, DLDevice dev, size_t bytes) {
  block* best = NULL;
  block* b;
  for (b = thread->workspace; b != NULL; b = b->next) {
    if (b->in_use || b->bytes < bytes || !same_device(b->dev, dev)) continue;
    if (best == NULL || b->bytes < best->bytes) best = b;
    if (best->bytes == bytes) break;
  }
  return best;
}

/* Free blocks that are too small would never be used again once a request has outgrown them. */
static void drop_largest_free(tvmrt_thread* thread, DLDevice dev) {
  block** at;
  block** largest = NULL;
  block* b;
  for (at = &thread->workspace; *at != NULL; at = &(*at)->next) {
    if ((*at)->in_use || !same_device((*at)->dev, dev)) continue;
    if (largest == NULL || (*at)->bytes > (*largest)->bytes) largest = at;
  }
  if (largest == NULL) return;
  b = *largest;
  *largest = b->next;
  (void)TVMDeviceFreeDataSpace(b->dev, b->data);
  free(b);
}

/* NULL with the error text set. Inserted at the head of the list, where the next search begins. */
static block* new_block(tvmrt_thread* thread, DLDevice dev, size_t bytes) {
  static const DLDataType byte = {kDLUInt, 8, 1};
  block* b = tvmrt__calloc(1, sizeof(*b));
  if (b == NULL) return NULL;
  if (TVMDeviceAllocDataSpace(dev, bytes, TVMRT_ALLOC_ALIGN_BYTES, byte, &b->data) != 0) {
    free(b);
    return NULL;
  }
  b->dev = dev;
  b->bytes = bytes;
  b->next = thread->workspace;
  thread->workspace = b;
  /* a callback, since base/error.c is in a lower layer */
  thread->free_workspace = free_all;
  return b;
}

int tvmrt__reserve_alloc(tvmrt_reserve* reserve, uint64_t bytes) {
  static const DLDataType byte = {kDLUInt, 8, 1};
  static const DLDevice cpu = {kDLCPU, 0};
  void* memory = NULL;
  if (bytes == 0) return 0;
  if (bytes > PTRDIFF_MAX) return tvmrt__fail_memory(SIZE_MAX);
  TVMRT_RETURN_IF_ERROR(
      TVMDeviceAllocDataSpace(cpu, (size_t)bytes, TVMRT_ALLOC_ALIGN_BYTES, byte, &memory));
  reserve->memory = memory;
  reserve->bytes = (size_t)bytes;
  return 0;
}

void tvmrt__reserve_free(tvmrt_reserve* reserve) {
  static const DLDevice cpu = {kDLCPU, 0};
  if (reserve->memory != NULL) (void)TVMDeviceFreeDataSpace(cpu, reserve->memory);
  memset(reserve, 0, sizeof(*reserve));
}

/* A failed run may have left blocks in use. */
tvmrt_reserve* tvmrt__reserve_begin(tvmrt_reserve* reserve) {
  tvmrt_reserve* previous = current_reserve;
  reserve->used = reserve->num_blocks = 0;
  current_reserve = reserve;
  (void)tvmrt__limit_launches(&reserve->max_threads);
  return previous;
}

void tvmrt__reserve_end(tvmrt_reserve* previous) {
  current_reserve = previous;
  (void)tvmrt__limit_launches(previous == NULL ? NULL : &previous->max_threads);
}

/* The next block of the reserve, or NULL if it has no space or is on another device. */
static void* take_reserved(DLDevice dev, size_t bytes) {
  tvmrt_reserve* r = current_reserve;
  const size_t begin = r == NULL ? 0 : r->used;
  if (r == NULL || dev.device_type != kDLCPU || r->num_blocks == TVMRT_MAX_RESERVED ||
      bytes > r->bytes - begin) {
    return NULL;
  }
  r->blocks[r->num_blocks].begin = begin;
  r->blocks[r->num_blocks].in_use = true;
  ++r->num_blocks;
  r->used += bytes;
  return r->memory + begin;
}

/* Whether the block is of the reserve. Kernels release in reverse order; after another order the
 * space is used again when all later blocks are released, too. */
static bool release_reserved(const void* ptr) {
  tvmrt_reserve* r = current_reserve;
  size_t i = r == NULL ? 0 : r->num_blocks;
  while (i > 0 && r->memory + r->blocks[i - 1].begin != (const char*)ptr) --i;
  if (i == 0 || !r->blocks[i - 1].in_use) return false;
  r->blocks[i - 1].in_use = false;
  while (r->num_blocks > 0 && !r->blocks[r->num_blocks - 1].in_use) {
    r->used = r->blocks[--r->num_blocks].begin;
  }
  return true;
}

/* Generated code calls this at the start of a function and only checks for NULL; the error text
 * explains the failure to its caller. */
void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  size_t bytes =
      nbytes == 0 ? PAGE_BYTES : (size_t)(nbytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  const bool is_valid = nbytes <= PTRDIFF_MAX - PAGE_BYTES; /* else `bytes` may have wrapped */
  tvmrt_thread* thread;
  void* reserved;
  DLDevice dev;
  block* b;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  dev.device_type = (DLDeviceType)device_type;
  dev.device_id = device_id;
  reserved = is_valid ? take_reserved(dev, bytes) : NULL;
  if (reserved != NULL) return reserved;
  thread = tvmrt__thread();
  if (thread == NULL || !is_valid) {
    (void)tvmrt__fail("MemoryError: no memory for a workspace of %llu bytes.",
                      (unsigned long long)nbytes);
    return NULL;
  }
  b = find_best_free(thread, dev, bytes);
  if (b == NULL) {
    /* Each new block replaces at most one free block, so that a thread keeps about as much as its
     * peak use. */
    drop_largest_free(thread, dev);
    b = new_block(thread, dev, bytes);
  }
  if (b == NULL) return NULL;
  b->in_use = true;
  return b->data;
}

/* Called by the thread that allocated it, as generated code does. */
int TVMBackendFreeWorkspace(int device_type, int device_id, void* ptr) {
  const tvmrt_thread* thread;
  block* b;
  (void)device_type;
  (void)device_id;
  if (ptr == NULL || release_reserved(ptr)) return 0;
  thread = tvmrt__thread();
  b = thread == NULL ? NULL : thread->workspace;
  while (b != NULL && (b->data != ptr || !b->in_use)) b = b->next;
  if (b == NULL) {
    return tvmrt__fail(
        "TVMBackendFreeWorkspace: the block was not allocated by this thread, or is "
        "free already.");
  }
  b->in_use = false;
  return 0;
}
