/* Handle table of a session.
 *
 * A handle is the index of a slot plus one, so 0 is never a handle and means NULL. Slots have
 * objects, which the table retains, or memory, which it frees with the session. The table belongs
 * to one session, which one thread serves. */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/tensors.h"
#include "sdk/values.h"

enum { FREE = -1 };

/* Reuse the first free slot; *out is filled and cleared. */
static int new_slot(tvmrt_rpc_handles* all, int code, tvmrt_rpc_handle** out) {
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

/* The memory of an NDArray is recorded, since the client may copy to and from it. */
int tvmrt__rpc_handles_add(tvmrt_rpc_handles* all, int code, tvmrt_object* owned, uint64_t* out) {
  tvmrt_rpc_handle* h;
  *out = 0;
  if (new_slot(all, code, &h) != 0) {
    tvmrt__release(owned);
    return -1;
  }
  h->object = owned;
  if (code == kTVMNDArrayHandle) {
    const DLTensor* t = &((tvmrt_ndarray*)(void*)owned)->dl;
    h->data = (uintptr_t)tvmrt__tensor_data(t);
    h->device = t->device;
    /* a tensor whose size overflows has no bytes that a copy may touch */
    if (tvmrt__tensor_bytes(t, &h->bytes) != 0) h->bytes = 0;
  }
  *out = (uint64_t)(h - all->items) + 1;
  return 0;
}

/* Slots of memory have no object, so no handle names them. */
static int slot_of(const tvmrt_rpc_handles* all, uint64_t number, size_t* out) {
  if (number == 0 || number > all->count || all->items[number - 1].object == NULL) {
    return tvmrt__fail_value("there is no handle %llu in this session; it may have been freed.",
                             (unsigned long long)number);
  }
  *out = (size_t)(number - 1);
  return 0;
}

/* *out is borrowed; its type is checked against `code`. */
int tvmrt__rpc_handles_find(const tvmrt_rpc_handles* all, uint64_t number, int code,
                            tvmrt_object** out) {
  size_t i = 0;
  TVMRT_RETURN_IF_ERROR(slot_of(all, number, &i));
  if (all->items[i].code != code) {
    return tvmrt__fail_type("handle %llu is %s, not %s.", (unsigned long long)number,
                            tvmrt__code_name(all->items[i].code), tvmrt__code_name(code));
  }
  *out = all->items[i].object;
  return 0;
}

static void clear(tvmrt_rpc_handles* all, size_t i) {
  all->items[i].code = FREE;
  all->items[i].object = NULL;
  if (i < all->first_free) all->first_free = i;
}

/* The slot is freed before the object, since its destructor may use the table. */
int tvmrt__rpc_handles_drop(tvmrt_rpc_handles* all, uint64_t number) {
  size_t i = 0;
  tvmrt_object* object;
  TVMRT_RETURN_IF_ERROR(slot_of(all, number, &i));
  object = all->items[i].object;
  clear(all, i);
  tvmrt__release(object);
  return 0;
}

int tvmrt__rpc_handles_add_memory(tvmrt_rpc_handles* all, DLDevice device, void* data,
                                  uint64_t bytes) {
  tvmrt_rpc_handle* h;
  TVMRT_RETURN_IF_ERROR(new_slot(all, kTVMOpaqueHandle, &h));
  h->data = (uintptr_t)data;
  h->bytes = bytes;
  h->device = device;
  return 0;
}

/* Freed on the device that allocated it: only the type is compared with the client's. */
int tvmrt__rpc_handles_drop_memory(tvmrt_rpc_handles* all, DLDevice device, uintptr_t data,
                                   uint64_t* out_bytes) {
  size_t i;
  for (i = 0; i < all->count; ++i) {
    const tvmrt_rpc_handle* h = &all->items[i];
    if (h->code != kTVMOpaqueHandle || h->data != data) continue;
    if (h->device.device_type != device.device_type) continue;
    *out_bytes = h->bytes;
    clear(all, i);
    return TVMDeviceFreeDataSpace(h->device, (void*)data);
  }
  return tvmrt__fail_value("cannot free memory that this session has not allocated.");
}

/* Whether the slot contains the client's range; the comparisons avoid overflow. */
static bool contains(const tvmrt_rpc_handle* h, DLDevice device, uintptr_t data, uint64_t offset,
                     uint64_t bytes) {
  if (h->code != kTVMOpaqueHandle && h->code != kTVMNDArrayHandle) return false;
  if (h->device.device_type != device.device_type || data < h->data) return false;
  if (data - h->data > h->bytes || offset > h->bytes - (data - h->data)) return false;
  return bytes <= h->bytes - (data - h->data) - offset;
}

int tvmrt__rpc_handles_check(const tvmrt_rpc_handles* all, DLDevice device, const void* data,
                             uint64_t byte_offset, uint64_t bytes) {
  size_t i;
  for (i = 0; i < all->count; ++i) {
    if (contains(&all->items[i], device, (uintptr_t)data, byte_offset, bytes)) return 0;
  }
  return tvmrt__fail_value(
      "a tensor's %llu bytes are not in memory that this session has allocated.",
      (unsigned long long)bytes);
}

/* Empty tensors without an address are allowed, since they are never read. */
int tvmrt__rpc_handles_check_tensor(const tvmrt_rpc_handles* all, const DLTensor* t) {
  uint64_t bytes;
  TVMRT_RETURN_IF_ERROR(tvmrt__tensor_bytes(t, &bytes));
  if (bytes == 0 && t->byte_offset == 0 && t->data == NULL) return 0;
  return tvmrt__rpc_handles_check(all, t->device, t->data, t->byte_offset, bytes);
}

/* In any order, since each object retains what it needs. */
void tvmrt__rpc_handles_free(tvmrt_rpc_handles* all) {
  size_t i;
  for (i = 0; i < all->count; ++i) {
    tvmrt_rpc_handle* h = &all->items[i];
    if (h->code == kTVMOpaqueHandle) (void)TVMDeviceFreeDataSpace(h->device, (void*)h->data);
    tvmrt__release(h->object);
  }
  free(all->items);
  memset(all, 0, sizeof(*all));
}
