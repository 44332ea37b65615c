/* A linked list, since there are few blocks and look-ups are rare. The lock is held only during the
 * look-up, never during driver calls. */
#include "memory_blocks.h"

#include <stdint.h>
#include <stdlib.h>

#include "registration.h"

/* The list owns its entries; the device owns the described memory. */
struct block {
  memory_block is;
  struct block* next;
};

/* On failure the block stays the caller's. An equal address would hide an older entry, but
 * allocators never return an address twice. */
int blocks_add(memory_blocks* blocks, const memory_block* added) {
  struct block* b = malloc(sizeof(*b));
  if (b == NULL) return device_fail("out of memory");
  b->is = *added;
  (void)pthread_mutex_lock(&blocks->lock);
  b->next = blocks->first;
  blocks->first = b;
  (void)pthread_mutex_unlock(&blocks->lock);
  return 0;
}

/* NULL takes any block, for the shutdown of a device. The caller owns the block afterwards. The
 * entry is freed outside the lock, since it is unreachable by then. */
bool blocks_take(memory_blocks* blocks, const void* address, memory_block* out) {
  struct block **at, *found = NULL;
  (void)pthread_mutex_lock(&blocks->lock);
  for (at = &blocks->first; *at != NULL; at = &(*at)->next) {
    if (address != NULL && (*at)->is.address != address) continue;
    found = *at;
    *at = found->next;
    break;
  }
  (void)pthread_mutex_unlock(&blocks->lock);
  if (found == NULL) return false;
  *out = found->is;
  free(found);
  return true;
}

/* Also finds addresses inside a block, since tensors have byte offsets. Returns a copy, since the
 * list may change after the lock is released. */
bool blocks_find(memory_blocks* blocks, const void* address, memory_block* out) {
  const uintptr_t target = (uintptr_t)address;
  const struct block* b;
  (void)pthread_mutex_lock(&blocks->lock);
  for (b = blocks->first; b != NULL; b = b->next) {
    const uintptr_t begin = (uintptr_t)b->is.address;
    if (target < begin || target - begin >= b->is.bytes) continue;
    *out = b->is;
    break;
  }
  (void)pthread_mutex_unlock(&blocks->lock);
  return b != NULL;
}
