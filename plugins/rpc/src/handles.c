/* Handle table of a session.
 *
 * A handle is an index with a generation, so a freed handle differs from the next one of the same
 * slot. Entries are objects, which the table retains, and memory, which it frees with the session.
 * The table belongs to one session, which one thread serves.
 *
 * The low 20 bits of a handle are the slot plus one, the 11 bits above are the generation: slot 2
 * gives first 3, then 3 + 2^20. So 0 is never a handle and means NULL. */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/tensors.h"
#include "sdk/values.h"

/* At most a million slots, and 2,048 generations before a handle repeats. */
enum { FREE = -1, SLOT_BITS = 20 };

/* A handle fits 31 bits, for 32-bit clients. */
static uint64_t handle_of(const tvmrt_rpc_handles* all, size_t i) {
  return ((uint64_t)(all->items[i].generation & 0x7ff) << SLOT_BITS) | (i + 1);
}

/* Reuse a free slot first; the table grows up to the session's limit. */
static int find_free_slot(tvmrt_rpc_handles* all, size_t* out) {
  void* items = all->items;
  if (all->first_free != 0) {
    *out = all->first_free - 1;
    all->first_free = all->items[*out].next_free;
    return 0;
  }
  if (all->count >= all->limit) {
    return tvmrt__fail("the session has reached its limit of %zu handles; free some first.",
                       all->count);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&items, all->count, sizeof(*all->items)));
  all->items = items;
  *out = all->count++;
  /* only a new slot is cleared: a reused one keeps its generation */
  memset(&all->items[*out], 0, sizeof(all->items[*out]));
  return 0;
}

/* Takes over the object, also on failure. The memory of an NDArray is recorded, since the client
 * may copy to and from it. */
int tvmrt__rpc_handles_add(tvmrt_rpc_handles* all, int code, tvmrt_object* owned, uint64_t* out) {
  size_t i;
  tvmrt_rpc_handle* h;
  *out = 0;
  if (find_free_slot(all, &i) != 0) {
    tvmrt__release(owned);
    return -1;
  }
  h = &all->items[i];
  h->code = code;
  h->object = owned;
  h->data = 0;
  h->bytes = 0;
  if (code == kTVMNDArrayHandle) {
    const DLTensor* t = &((tvmrt_ndarray*)(void*)owned)->dl;
    h->data = (uintptr_t)tvmrt__tensor_data(t);
    h->device = t->device;
    /* a tensor whose size overflows has no bytes that a copy may touch */
    if (tvmrt__tensor_bytes(t, &h->bytes) != 0) h->bytes = 0;
  }
  *out = handle_of(all, i);
  return 0;
}

/* Find the slot of a client's handle. 0 gives an invalid slot. Memory entries have no object, so no
 * handle names them: clients know only the address. */
static int slot_of(const tvmrt_rpc_handles* all, uint64_t number, size_t* out) {
  const size_t i = (size_t)(number & ((1u << SLOT_BITS) - 1)) - 1;
  if (i >= all->count || all->items[i].object == NULL || all->items[i].code == FREE ||
      handle_of(all, i) != number) {
    return tvmrt__fail_value("there is no handle %llu in this session; it may have been freed.",
                             (unsigned long long)number);
  }
  *out = i;
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

/* Free a slot; its handle becomes invalid, and the slot is reused next. */
static void clear(tvmrt_rpc_handles* all, size_t i) {
  tvmrt_rpc_handle* h = &all->items[i];
  h->code = FREE;
  h->object = NULL;
  h->generation++;
  h->next_free = all->first_free;
  all->first_free = i + 1;
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

/* Memory has no handle: clients name it by address. On failure it stays the caller's. */
int tvmrt__rpc_handles_add_memory(tvmrt_rpc_handles* all, DLDevice device, void* data,
                                  uint64_t bytes) {
  size_t i;
  tvmrt_rpc_handle* h;
  TVMRT_RETURN_IF_ERROR(find_free_slot(all, &i));
  h = &all->items[i];
  h->code = kTVMOpaqueHandle;
  h->object = NULL;
  h->data = (uintptr_t)data;
  h->bytes = bytes;
  h->device = device;
  return 0;
}

/* Free memory by address; *out_bytes is its size. */
int tvmrt__rpc_handles_drop_memory(tvmrt_rpc_handles* all, DLDevice device, uintptr_t data,
                                   uint64_t* out_bytes) {
  size_t i;
  for (i = 0; i < all->count; ++i) {
    const tvmrt_rpc_handle* h = &all->items[i];
    if (h->code != kTVMOpaqueHandle || h->data != data) continue;
    if (h->device.device_type != device.device_type) continue;
    *out_bytes = h->bytes;
    /* free on the device that allocated it: only the device type was compared with the client's */
    device = h->device;
    clear(all, i);
    return TVMDeviceFreeDataSpace(device, (void*)data);
  }
  return tvmrt__fail_value("cannot free memory that this session has not allocated.");
}

/* Whether the entry contains the client's range; the comparisons avoid overflow. */
static bool contains(const tvmrt_rpc_handle* h, DLDevice device, uintptr_t data, uint64_t offset,
                     uint64_t bytes) {
  if (h->code != kTVMOpaqueHandle && h->code != kTVMNDArrayHandle) return false;
  if (h->device.device_type != device.device_type || data < h->data) return false;
  if (data - h->data > h->bytes || offset > h->bytes - (data - h->data)) return false;
  return bytes <= h->bytes - (data - h->data) - offset;
}

/* Clients use the same memory repeatedly, so the last found entry is checked first. */
int tvmrt__rpc_handles_check(tvmrt_rpc_handles* all, DLDevice device, const void* data,
                             uint64_t byte_offset, uint64_t bytes) {
  const uintptr_t at = (uintptr_t)data;
  size_t i;
  if (all->last_found < all->count &&
      contains(&all->items[all->last_found], device, at, byte_offset, bytes)) {
    return 0;
  }
  for (i = 0; i < all->count; ++i) {
    if (!contains(&all->items[i], device, at, byte_offset, bytes)) continue;
    all->last_found = i;
    return 0;
  }
  return tvmrt__fail_value(
      "a tensor's %llu bytes are not in memory that this session has allocated.",
      (unsigned long long)bytes);
}

/* Release all entries in any order, since each retains what it needs. */
void tvmrt__rpc_handles_free(tvmrt_rpc_handles* all) {
  size_t i;
  for (i = 0; i < all->count; ++i) {
    tvmrt_rpc_handle* h = &all->items[i];
    if (h->code == FREE) continue;
    if (h->code == kTVMOpaqueHandle) {
      (void)TVMDeviceFreeDataSpace(h->device, (void*)h->data);
    } else {
      tvmrt__release(h->object);
    }
  }
  free(all->items);
  memset(all, 0, sizeof(*all));
}
