/* Few and looked up rarely: a list, the last one first. The lock is held for the look-up alone,
 * never while a driver is called. */
#include "blocks.h"

#include <stdint.h>
#include <stdlib.h>

#include "told.h"

/* The list owns its entries, the device what they tell of. */
struct block {
  memory_block is;
  struct block* next;
};

/* A failure leaves the block its maker's. An address that is there already hides the older one:
 * no allocator gives an address twice. */
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

/* NULL takes any, as a device does that ends; the caller has the block from then on. The entry is
 * freed outside of the lock, which nobody else reaches any more. */
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

/* Of an address inside of a block, too: tensors have byte offsets. A copy, since the list may
 * change as soon as the lock is let go. */
bool blocks_find(memory_blocks* blocks, const void* address, memory_block* out) {
  const uintptr_t place = (uintptr_t)address;
  const struct block* b;
  (void)pthread_mutex_lock(&blocks->lock);
  for (b = blocks->first; b != NULL; b = b->next) {
    const uintptr_t begin = (uintptr_t)b->is.address;
    if (place < begin || place - begin >= b->is.bytes) continue;
    *out = b->is;
    break;
  }
  (void)pthread_mutex_unlock(&blocks->lock);
  return b != NULL;
}
