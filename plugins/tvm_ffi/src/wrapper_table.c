/* Table of live wrapper functions, by the wrapper's address.
 *
 * Both directions use it. The lock is held for a few pointer operations and for `retain`, which
 * only counts. A link is removed from the table before its wrapped function is released. */
#include "wrapper_table.h"

#include <stdint.h>
#include <stdlib.h>

#include "sdk/system.h"

/* For a few thousand live functions; with more, the lists only get longer. */
enum { NUM_BUCKETS = 1024 };

static BridgeWrapper* buckets[NUM_BUCKETS];
static tvmrt_mutex lock = TVMRT_MUTEX_INIT;

/* The low bits of malloc() addresses are all equal. */
static BridgeWrapper** bucket_of(const void* outer) {
  uintptr_t address = (uintptr_t)outer;
  return &buckets[(address >> 4 ^ address >> 14) % NUM_BUCKETS];
}

/* Making the wrapper needs the link, and adding the link needs the wrapper's address, so this takes
 * two steps. */
BridgeWrapper* bridge_wrapper_new(void* inner) {
  BridgeWrapper* wrapper = malloc(sizeof(*wrapper));
  if (wrapper != NULL) *wrapper = (BridgeWrapper){NULL, inner, NULL};
  return wrapper;
}

/* From here on the other direction finds the link; `outer` must not be shared yet. */
void bridge_wrapper_add(BridgeWrapper* wrapper, void* outer) {
  BridgeWrapper** bucket = bucket_of(outer);
  wrapper->outer = outer;
  tvmrt__lock(&lock);
  wrapper->next = *bucket;
  *bucket = wrapper;
  tvmrt__unlock(&lock);
}

/* Returns the wrapped function, whose reference the caller now owns. */
void* bridge_wrapper_remove(BridgeWrapper* wrapper) {
  BridgeWrapper** slot = bucket_of(wrapper->outer);
  void* inner = wrapper->inner;
  tvmrt__lock(&lock);
  /* A link that was never added is not in the table. */
  while (*slot != NULL && *slot != wrapper) slot = &(*slot)->next;
  if (*slot != NULL) *slot = wrapper->next;
  tvmrt__unlock(&lock);
  free(wrapper);
  return inner; /* released by the caller, outside the lock: that may destroy further functions */
}

/* The reference is taken under the lock, since the last one could be released between look-up and
 * retain. NULL if the function is not a wrapper. */
void* bridge_wrapper_find(const void* outer, void (*retain)(void* inner)) {
  void* inner = NULL;
  const BridgeWrapper* wrapper;
  tvmrt__lock(&lock);
  for (wrapper = *bucket_of(outer); wrapper != NULL && wrapper->outer != outer;)
    wrapper = wrapper->next;
  if (wrapper != NULL) {
    inner = wrapper->inner;
    retain(inner);
  }
  tvmrt__unlock(&lock);
  return inner;
}
