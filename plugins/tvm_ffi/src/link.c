/* Table of live wrapper functions, by the wrapper's address.
 *
 * Both directions use it. The lock is held for a few pointer operations and for `retain`, which
 * only counts. A link is removed from the table before its wrapped function is released. */
#include "link.h"

#include <stdint.h>
#include <stdlib.h>

#include "sdk/system.h"

/* For a few thousand live functions; with more, the lists only get longer. */
enum { NUM_BUCKETS = 1024 };

static BridgeLink* buckets[NUM_BUCKETS];
static tvmrt_mutex lock = TVMRT_MUTEX_INIT;

/* The low bits of malloc() addresses are all equal. */
static BridgeLink** bucket_of(const void* outer) {
  uintptr_t address = (uintptr_t)outer;
  return &buckets[(address >> 4 ^ address >> 14) % NUM_BUCKETS];
}

/* Making the wrapper needs the link, and adding the link needs the wrapper's address, so this takes
 * two steps. */
BridgeLink* bridge_link_new(void* inner) {
  BridgeLink* link = malloc(sizeof(*link));
  if (link != NULL) *link = (BridgeLink){NULL, inner, NULL};
  return link;
}

/* From here on the other direction finds the link; `outer` must not be shared yet. */
void bridge_link_add(BridgeLink* link, void* outer) {
  BridgeLink** bucket = bucket_of(outer);
  link->outer = outer;
  tvmrt__lock(&lock);
  link->next = *bucket;
  *bucket = link;
  tvmrt__unlock(&lock);
}

/* Returns the wrapped function, whose reference the caller now owns. */
void* bridge_link_remove(BridgeLink* link) {
  BridgeLink** place = bucket_of(link->outer);
  void* inner = link->inner;
  tvmrt__lock(&lock);
  /* A link that was never added is not in the table. */
  while (*place != NULL && *place != link) place = &(*place)->next;
  if (*place != NULL) *place = link->next;
  tvmrt__unlock(&lock);
  free(link);
  return inner; /* released by the caller, outside the lock: that may destroy further functions */
}

/* The reference is taken under the lock, since the last one could be released between look-up and
 * retain. NULL if the function is not a wrapper. */
void* bridge_link_find(const void* outer, void (*retain)(void* inner)) {
  void* inner = NULL;
  const BridgeLink* link;
  tvmrt__lock(&lock);
  for (link = *bucket_of(outer); link != NULL && link->outer != outer;) link = link->next;
  if (link != NULL) {
    inner = link->inner;
    retain(inner);
  }
  tvmrt__unlock(&lock);
  return inner;
}
