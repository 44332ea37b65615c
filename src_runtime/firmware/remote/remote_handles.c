/* Firmware runtime: the resources that a remote client knows, and may use.
 *
 * A table of fixed size, part of the session. Functions and modules are known by address, memory by
 * range. Memory that the client has allocated is owned and freed by address; memory of tensors that
 * it received is not owned, and adjacent ranges are merged. */
#include <tvm/runtime/crt/stack_allocator.h>
#include <tvm/runtime/platform.h>

#include "../aot/tensor_size.h"
#include "remote.h"

static const DLDevice cpu = {kDLCPU, 0};

/* A free place has code and address 0. */
static remote_handle* find(remote_handles* all, int code, uint64_t address) {
  int i;
  for (i = 0; i < REMOTE_MAX_HANDLES; ++i) {
    if (all->items[i].code == code && all->items[i].address == address) return &all->items[i];
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
    if (handle->code != kTVMOpaqueHandle || handle->is_owned) continue;
    if (begin > thing_end + MAX_GAP || handle->address > end + MAX_GAP) continue;
    if (begin < handle->address) handle->address = begin;
    handle->bytes = (end > thing_end ? end : thing_end) - handle->address;
    return 1;
  }
  return 0;
}

/* A resource that is added twice keeps one place, and the larger size. kTvmErrorPlatformNoMemory if
 * the table is full: places are released only by freeing. */
static tvm_crt_error_t add(remote_handles* all, int code, const void* address, size_t bytes,
                           int is_owned) {
  remote_handle* handle = find(all, code, (uintptr_t)address);
  if (code == kTVMOpaqueHandle && !is_owned && (handle == NULL || !handle->is_owned) &&
      join(all, (uintptr_t)address, bytes)) {
    return kTvmErrorNoError;
  }
  if (handle == NULL) handle = find(all, 0, 0);
  if (handle == NULL) return kTvmErrorPlatformNoMemory;
  handle->code = code;
  handle->address = (uintptr_t)address;
  if (bytes > handle->bytes) handle->bytes = bytes;
  if (is_owned) handle->is_owned = 1;
  return kTvmErrorNoError;
}

/* An array is known by its memory: its handle is only freed, which does nothing. */
tvm_crt_error_t tvmrt__remote_add_handle(remote_handles* all, int code, void* object,
                                         uint64_t* out) {
  const DLTensor* t = (const DLTensor*)object;
  *out = (uintptr_t)object;
  if (code != kTVMNDArrayHandle) return add(all, code, object, 0, 0);
  return add(all, kTVMOpaqueHandle, t->data, (size_t)t->byte_offset + tvmrt__remote_tensor_bytes(t),
             0);
}

/* Compares exact addresses: an address within a resource is not known. */
tvm_crt_error_t tvmrt__remote_find_handle(const remote_handles* all, int code, uint64_t handle,
                                          void** out) {
  /* which changes nothing */
  if (find((remote_handles*)(uintptr_t)all, code, handle) == NULL) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  *out = (void*)(uintptr_t)handle;
  return kTvmErrorNoError;
}

/* All numbers come from the client: no sum may overflow. */
static int may_access(const remote_handles* all, const DLTensor* t, uint64_t bytes) {
  const uint64_t data = (uintptr_t)t->data;
  int i;
  if (t->device.device_type != kDLCPU) return 0;
  /* nothing is read or written, so any address is valid */
  if (bytes == 0) return t->byte_offset == 0;
  if (t->byte_offset > UINTPTR_MAX - data || bytes > UINTPTR_MAX) return 0;
  for (i = 0; i < REMOTE_MAX_HANDLES; ++i) {
    const remote_handle* handle = &all->items[i];
    const uint64_t from = data + t->byte_offset - handle->address;
    if (handle->code != kTVMOpaqueHandle || data + t->byte_offset < handle->address) continue;
    if (bytes <= handle->bytes && from <= handle->bytes - bytes) return 1;
  }
  return 0;
}

tvm_crt_error_t tvmrt__remote_check_access(const remote_handles* all, const DLTensor* t,
                                           uint64_t bytes) {
  return may_access(all, t, bytes) ? kTvmErrorNoError : kTvmErrorFunctionCallInvalidArg;
}

static void forget(remote_handle* handle) {
  handle->code = 0;
  handle->address = 0;
  handle->bytes = 0;
  handle->is_owned = 0;
}

/* Owned by the session: memory that a client does not free is released when the board restarts.
 * Clients ask for the alignment of their own machine; code on boards needs no more than this. */
tvm_crt_error_t tvmrt__remote_allocate(remote_handles* all, DLDevice dev, uint64_t bytes,
                                       size_t alignment, void** out) {
  const DLDataType hint = {kDLUInt, 8, 1};
  tvm_crt_error_t rc;
  if (alignment > TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES) alignment = TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES;
  if (bytes > SIZE_MAX || (alignment & (alignment - 1)) != 0) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  rc = (tvm_crt_error_t)TVMDeviceAllocDataSpace(dev, (size_t)bytes, alignment, hint, out);
  if (rc != kTvmErrorNoError) return rc;
  rc = add(all, kTVMOpaqueHandle, *out, (size_t)bytes, 1);
  if (rc != kTvmErrorNoError) (void)TVMDeviceFreeDataSpace(dev, *out);
  return rc;
}

/* The place is released only if the board has freed the memory. */
tvm_crt_error_t tvmrt__remote_free(remote_handles* all, DLDevice dev, uint64_t address) {
  remote_handle* handle = find(all, kTVMOpaqueHandle, address);
  tvm_crt_error_t rc;
  (void)dev; /* the only one */
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
