/* Workspaces on hosts: each thread keeps its used blocks and reuses the best fitting one.
 *
 * The thread owns the blocks, which are freed when it ends (base/error.c calls free_all()), so
 * nothing is locked. Runs of a network request the same sizes again: from the second run on no
 * system memory is allocated. Blocks may be released in any order. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

#include "../base/error.h"
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

/* Generated code calls this at the start of a function and only checks for NULL; the error text
 * explains the failure to its caller. */
void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  tvmrt_thread* thread = tvmrt__thread();
  size_t bytes =
      nbytes == 0 ? PAGE_BYTES : (size_t)(nbytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  DLDevice dev;
  block* b;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  if (thread == NULL || nbytes > PTRDIFF_MAX - PAGE_BYTES) { /* then `bytes` may have wrapped */
    (void)tvmrt__fail("MemoryError: no memory for a workspace of %llu bytes.",
                      (unsigned long long)nbytes);
    return NULL;
  }
  dev.device_type = (DLDeviceType)device_type;
  dev.device_id = device_id;
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
  const tvmrt_thread* thread = tvmrt__thread();
  block* b = thread == NULL ? NULL : thread->workspace;
  (void)device_type;
  (void)device_id;
  if (ptr == NULL) return 0;
  while (b != NULL && (b->data != ptr || !b->in_use)) b = b->next;
  if (b == NULL) {
    return tvmrt__fail(
        "TVMBackendFreeWorkspace: the block was not allocated by this thread, or is "
        "free already.");
  }
  b->in_use = false;
  return 0;
}
