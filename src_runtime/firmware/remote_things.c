/* Firmware runtime: the resources that a remote client knows, and may use.
 *
 * A table of fixed size, part of the session. Functions and modules are known by address, memory by
 * range. Memory that the client has allocated is owned and freed by address; memory of tensors that
 * it received is not owned, and adjacent ranges are merged. */
#include <tvm/runtime/platform.h>

#include "remote.h"
#include "tensor_bytes.h"

static const DLDevice cpu = {kDLCPU, 0};

/* A free place has THING_NONE and address 0. */
static remote_thing* find(remote_things* all, thing_kind kind, uint64_t address) {
  int i;
  for (i = 0; i < REMOTE_MOST_THINGS; ++i) {
    if (all->items[i].kind == kind && all->items[i].address == address) return &all->items[i];
  }
  return NULL;
}

/* Tensors of an executor are adjacent: one entry for all. Otherwise an executor with many inputs
 * would fill the table. */
static int join(remote_things* all, uintptr_t begin, size_t bytes) {
  /* the maximum alignment gap between two tensors; a client may then access the gap, too */
  enum { MOST_GAP = 64 };
  const uintptr_t end = begin + bytes;
  int i;
  for (i = 0; i < REMOTE_MOST_THINGS; ++i) {
    remote_thing* thing = &all->items[i];
    const uintptr_t thing_end = thing->address + thing->bytes;
    if (thing->kind != THING_MEMORY || thing->is_owned) continue;
    if (begin > thing_end + MOST_GAP || thing->address > end + MOST_GAP) continue;
    if (begin < thing->address) thing->address = begin;
    thing->bytes = (end > thing_end ? end : thing_end) - thing->address;
    return 1;
  }
  return 0;
}

/* A resource that is added twice keeps one place, and the larger size. kTvmErrorPlatformNoMemory if
 * the table is full: places are released only by freeing. */
tvm_crt_error_t tvmrt__remote_tell(remote_things* all, thing_kind kind, const void* address,
                                   size_t bytes, int is_owned) {
  remote_thing* thing = find(all, kind, (uintptr_t)address);
  if (kind == THING_MEMORY && !is_owned && (thing == NULL || !thing->is_owned) &&
      join(all, (uintptr_t)address, bytes)) {
    return kTvmErrorNoError;
  }
  if (thing == NULL) thing = find(all, THING_NONE, 0);
  if (thing == NULL) return kTvmErrorPlatformNoMemory;
  thing->kind = kind;
  thing->address = (uintptr_t)address;
  if (bytes > thing->bytes) thing->bytes = bytes;
  if (is_owned) thing->is_owned = 1;
  return kTvmErrorNoError;
}

/* Compares exact addresses: an address within a resource is not known. */
int tvmrt__remote_knows(const remote_things* all, thing_kind kind, uint64_t address) {
  return find((remote_things*)(uintptr_t)all, kind, address) != NULL; /* which changes nothing */
}

/* All numbers come from the client: no sum may overflow. */
int tvmrt__remote_may_use(const remote_things* all, const DLTensor* t, uint64_t bytes) {
  const uint64_t data = (uintptr_t)t->data;
  int i;
  if (t->device.device_type != kDLCPU) return 0;
  /* nothing is read or written, so any address is valid */
  if (bytes == 0) return t->byte_offset == 0;
  if (t->byte_offset > UINTPTR_MAX - data || bytes > UINTPTR_MAX) return 0;
  for (i = 0; i < REMOTE_MOST_THINGS; ++i) {
    const remote_thing* thing = &all->items[i];
    const uint64_t from = data + t->byte_offset - thing->address;
    if (thing->kind != THING_MEMORY || data + t->byte_offset < thing->address) continue;
    if (bytes <= thing->bytes && from <= thing->bytes - bytes) return 1;
  }
  return 0;
}

static void forget(remote_thing* thing) {
  thing->kind = THING_NONE;
  thing->address = 0;
  thing->bytes = 0;
  thing->is_owned = 0;
}

/* The place is released only if the board has freed the memory. */
tvm_crt_error_t tvmrt__remote_free(remote_things* all, uint64_t address) {
  remote_thing* thing = find(all, THING_MEMORY, address);
  tvm_crt_error_t rc;
  if (thing == NULL || !thing->is_owned) return kTvmErrorFunctionCallInvalidArg;
  rc = (tvm_crt_error_t)TVMDeviceFreeDataSpace(cpu, (void*)thing->address);
  if (rc == kTvmErrorNoError) forget(thing);
  return rc;
}

/* A stack allocator frees only its top, so the last places come first; refused blocks are lost. */
void tvmrt__remote_free_all(remote_things* all) {
  int i;
  for (i = REMOTE_MOST_THINGS - 1; i >= 0; --i) {
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
