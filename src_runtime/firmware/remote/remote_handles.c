/* Firmware runtime: the resources that a remote client knows, and may use.
 *
 * A table of fixed size, part of the session. Functions and modules are known by address, memory by
 * range. Memory that the client has allocated is owned and freed by address; memory of tensors that
 * it received is not owned, and adjacent ranges are merged. */
#include <tvm/runtime/platform.h>

#include "../aot/tensor_size.h"
#include "remote.h"

static const DLDevice cpu = {kDLCPU, 0};

/* A free place has REMOTE_HANDLE_NONE and address 0. */
static remote_handle* find(remote_handles* all, remote_handle_kind kind, uint64_t address) {
  int i;
  for (i = 0; i < REMOTE_MAX_HANDLES; ++i) {
    if (all->items[i].kind == kind && all->items[i].address == address) return &all->items[i];
  }
  return NULL;
}

/* Tensors of an executor are adjacent: one entry for all. Otherwise an executor with many inputs
 * would fill the table. */
static int join(remote_handles* all, uintptr_t begin, size_t bytes) {
  /* the maximum alignment gap between two tensors; a client may then access the gap, too */
  enum { MAX_GAP = 64 };
  const uintptr_t end = begin + bytes;
  int i;
  for (i = 0; i < REMOTE_MAX_HANDLES; ++i) {
    remote_handle* handle = &all->items[i];
    const uintptr_t thing_end = handle->address + handle->bytes;
    if (handle->kind != REMOTE_HANDLE_MEMORY || handle->is_owned) continue;
    if (begin > thing_end + MAX_GAP || handle->address > end + MAX_GAP) continue;
    if (begin < handle->address) handle->address = begin;
    handle->bytes = (end > thing_end ? end : thing_end) - handle->address;
    return 1;
  }
  return 0;
}

/* A resource that is added twice keeps one place, and the larger size. kTvmErrorPlatformNoMemory if
 * the table is full: places are released only by freeing. */
tvm_crt_error_t tvmrt__remote_add_handle(remote_handles* all, remote_handle_kind kind,
                                         const void* address, size_t bytes, int is_owned) {
  remote_handle* handle = find(all, kind, (uintptr_t)address);
  if (kind == REMOTE_HANDLE_MEMORY && !is_owned && (handle == NULL || !handle->is_owned) &&
      join(all, (uintptr_t)address, bytes)) {
    return kTvmErrorNoError;
  }
  if (handle == NULL) handle = find(all, REMOTE_HANDLE_NONE, 0);
  if (handle == NULL) return kTvmErrorPlatformNoMemory;
  handle->kind = kind;
  handle->address = (uintptr_t)address;
  if (bytes > handle->bytes) handle->bytes = bytes;
  if (is_owned) handle->is_owned = 1;
  return kTvmErrorNoError;
}

/* Compares exact addresses: an address within a resource is not known. */
int tvmrt__remote_has_handle(const remote_handles* all, remote_handle_kind kind, uint64_t address) {
  return find((remote_handles*)(uintptr_t)all, kind, address) != NULL; /* which changes nothing */
}

/* All numbers come from the client: no sum may overflow. */
int tvmrt__remote_may_access(const remote_handles* all, const DLTensor* t, uint64_t bytes) {
  const uint64_t data = (uintptr_t)t->data;
  int i;
  if (t->device.device_type != kDLCPU) return 0;
  /* nothing is read or written, so any address is valid */
  if (bytes == 0) return t->byte_offset == 0;
  if (t->byte_offset > UINTPTR_MAX - data || bytes > UINTPTR_MAX) return 0;
  for (i = 0; i < REMOTE_MAX_HANDLES; ++i) {
    const remote_handle* handle = &all->items[i];
    const uint64_t from = data + t->byte_offset - handle->address;
    if (handle->kind != REMOTE_HANDLE_MEMORY || data + t->byte_offset < handle->address) continue;
    if (bytes <= handle->bytes && from <= handle->bytes - bytes) return 1;
  }
  return 0;
}

static void forget(remote_handle* handle) {
  handle->kind = REMOTE_HANDLE_NONE;
  handle->address = 0;
  handle->bytes = 0;
  handle->is_owned = 0;
}

/* The place is released only if the board has freed the memory. */
tvm_crt_error_t tvmrt__remote_free(remote_handles* all, uint64_t address) {
  remote_handle* handle = find(all, REMOTE_HANDLE_MEMORY, address);
  tvm_crt_error_t rc;
  if (handle == NULL || !handle->is_owned) return kTvmErrorFunctionCallInvalidArg;
  rc = (tvm_crt_error_t)TVMDeviceFreeDataSpace(cpu, (void*)handle->address);
  if (rc == kTvmErrorNoError) forget(handle);
  return rc;
}

/* A stack allocator frees only its top, so the last places come first; refused blocks are lost. */
void tvmrt__remote_free_all(remote_handles* all) {
  int i;
  for (i = REMOTE_MAX_HANDLES - 1; i >= 0; --i) {
    if (all->items[i].is_owned) {
      (void)TVMDeviceFreeDataSpace(cpu, (void*)all->items[i].address);
    }
    forget(&all->items[i]);
  }
}

/* The numbers come from the client and may have any value. */
size_t tvmrt__remote_tensor_bytes(const DLTensor* t) {
  int ok;
  const size_t bytes = tvmrt__graph_bytes(t, &ok);
  return ok ? bytes : SIZE_MAX;
}
