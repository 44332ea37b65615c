/* Handle table of a session: the objects that a client uses, and the memory that it may write to.
 *
 * A handle is the index of a place plus one, so 0 is never a handle and means NULL. Places have
 * objects, which the table retains, or memory, which it frees with the session. Clients name memory
 * by its address. The table belongs to one session, which one thread serves. */
#include <stdlib.h>
#include <string.h>

#include "sdk/tensors.h"
#include "sdk/values.h"
#include "wire.h"

enum { FREE = -1 };

/* Reuse the first free place; *out is filled and cleared. */
static int new_place(remote_handles* all, int code, remote_handle** out) {
  size_t i = all->first_free;
  while (i < all->count && all->items[i].code != FREE) ++i;
  if (i == all->count) {
    void* items = all->items;
    TVMRT_RETURN_IF_ERROR(tvmrt__grow(&items, all->count, sizeof(*all->items)));
    all->items = items;
    all->count++;
  }
  all->first_free = i + 1;
  *out = &all->items[i];
  memset(*out, 0, sizeof(**out));
  (*out)->code = code;
  return 0;
}

/* The memory of an array is recorded, since the client may copy to and from it. */
tvm_crt_error_t tvmrt__remote_add_handle(remote_handles* all, int code, void* object,
                                         uint64_t* out) {
  const TVMValue value = {.v_handle = object};
  remote_handle* h;
  if (new_place(all, code, &h) != 0) return kTvmErrorPlatformNoMemory;
  h->object = tvmrt__value_object(&value, code);
  tvmrt__retain(h->object);
  if (code == kTVMNDArrayHandle) {
    const DLTensor* t = object;
    h->address = (uintptr_t)tvmrt__tensor_data(t);
    h->device = t->device;
    /* a tensor whose size overflows has no bytes that a copy may touch */
    if (tvmrt__tensor_bytes(t, &h->bytes) != 0) h->bytes = 0;
  }
  *out = (uint64_t)(h - all->items) + 1;
  return kTvmErrorNoError;
}

/* The place of a handle; NULL with the error text set. Places of memory have no object, so no handle
 * names them. */
static remote_handle* place_of(const remote_handles* all, uint64_t handle) {
  if (handle != 0 && handle <= all->count && all->items[handle - 1].object != NULL) {
    return &all->items[handle - 1];
  }
  (void)tvmrt__fail_value("there is no handle %llu in this session; it may have been freed.",
                          (unsigned long long)handle);
  return NULL;
}

/* *out is borrowed; its type is checked against `code`. */
tvm_crt_error_t tvmrt__remote_find_handle(const remote_handles* all, int code, uint64_t handle,
                                          void** out) {
  const remote_handle* h = place_of(all, handle);
  if (h != NULL && h->code != code) {
    tvmrt__set_type_error("handle %llu is %s, not %s.", (unsigned long long)handle,
                          tvmrt__code_name(h->code), tvmrt__code_name(code));
    h = NULL;
  }
  *out = h == NULL ? NULL : h->object;
  return h == NULL ? kTvmErrorFunctionCallInvalidArg : kTvmErrorNoError;
}

static void clear(remote_handles* all, remote_handle* h) {
  const size_t i = (size_t)(h - all->items);
  h->code = FREE;
  h->object = NULL;
  if (i < all->first_free) all->first_free = i;
}

/* The place is freed before the object, since its destructor may use the table. */
tvm_crt_error_t tvmrt__remote_drop_handle(remote_handles* all, uint64_t handle) {
  remote_handle* h = place_of(all, handle);
  void* object = h == NULL ? NULL : h->object;
  if (h == NULL) return kTvmErrorFunctionCallInvalidArg;
  clear(all, h);
  tvmrt__release(object);
  return kTvmErrorNoError;
}

/* The difference cannot overflow, since the allocated size never exceeds the limit. */
tvm_crt_error_t tvmrt__remote_allocate(remote_handles* all, DLDevice dev, uint64_t bytes,
                                       size_t alignment, void** out) {
  const DLDataType hint = {kDLUInt, 8, 1};
  remote_handle* h;
  if (bytes > all->max_memory - all->memory || bytes > SIZE_MAX) {
    return REMOTE_FAIL(kTvmErrorPlatformNoMemory,
                       "%llu more bytes would exceed the session's limit of %llu bytes.",
                       (unsigned long long)bytes, (unsigned long long)all->max_memory);
  }
  if (TVMDeviceAllocDataSpace(dev, (size_t)bytes, alignment, hint, out) != 0) {
    return kTvmErrorPlatformNoMemory;
  }
  if (new_place(all, kTVMOpaqueHandle, &h) != 0) {
    (void)TVMDeviceFreeDataSpace(dev, *out);
    return kTvmErrorPlatformNoMemory;
  }
  h->address = (uintptr_t)*out;
  h->bytes = bytes;
  h->device = dev;
  all->memory += bytes;
  return kTvmErrorNoError;
}

/* Freed on the device that allocated it: only the type is compared with the client's. */
tvm_crt_error_t tvmrt__remote_free(remote_handles* all, DLDevice dev, uint64_t address) {
  size_t i;
  for (i = 0; i < all->count; ++i) {
    remote_handle* h = &all->items[i];
    if (h->code != kTVMOpaqueHandle || h->address != address) continue;
    if (h->device.device_type != dev.device_type) continue;
    all->memory -= h->bytes;
    clear(all, h);
    return (tvm_crt_error_t)TVMDeviceFreeDataSpace(h->device, (void*)h->address);
  }
  return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg,
                     "cannot free memory that this session has not allocated.");
}

/* Whether the place contains the client's range; the comparisons avoid overflow. */
static bool contains(const remote_handle* h, const DLTensor* t, uint64_t bytes) {
  const uintptr_t data = (uintptr_t)t->data;
  if (h->code != kTVMOpaqueHandle && h->code != kTVMNDArrayHandle) return false;
  if (h->device.device_type != t->device.device_type || data < h->address) return false;
  if (data - h->address > h->bytes || t->byte_offset > h->bytes - (data - h->address)) return false;
  return bytes <= h->bytes - (data - h->address) - t->byte_offset;
}

/* Empty tensors without an address are allowed, since they are never read. */
tvm_crt_error_t tvmrt__remote_check_access(const remote_handles* all, const DLTensor* t,
                                           uint64_t bytes) {
  size_t i;
  if (bytes == 0 && t->byte_offset == 0 && t->data == NULL) return kTvmErrorNoError;
  for (i = 0; i < all->count; ++i) {
    if (contains(&all->items[i], t, bytes)) return kTvmErrorNoError;
  }
  return REMOTE_FAIL(kTvmErrorFunctionCallInvalidArg,
                     "a tensor's %llu bytes are not in memory that this session has allocated.",
                     (unsigned long long)bytes);
}

/* In any order, since each object retains what it needs. */
void tvmrt__remote_free_all(remote_handles* all) {
  size_t i;
  for (i = 0; i < all->count; ++i) {
    const remote_handle* h = &all->items[i];
    if (h->code == kTVMOpaqueHandle) (void)TVMDeviceFreeDataSpace(h->device, (void*)h->address);
    tvmrt__release(h->object);
  }
  free(all->items);
  memset(all, 0, sizeof(*all));
}
