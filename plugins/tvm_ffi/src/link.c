/* Which function shows which: a table of the live ones, by the address of what was made.
 *
 * Both directions use it. The lock is held for a few pointers and for `retain`, which only counts.
 * A link leaves the table before what it shows is released. */
#include "link.h"

#include <stdint.h>
#include <stdlib.h>

#include "sdk/system.h"

/* For some thousand live functions; with more the lists get longer, and nothing worse. */
enum { NUM_BUCKETS = 1024 };

static BridgeLink* buckets[NUM_BUCKETS];
static tvmrt_mutex lock = TVMRT_MUTEX_INIT;

/* The low bits of addresses from malloc() are all the same. */
static BridgeLink** bucket_of(const void* outer) {
  uintptr_t address = (uintptr_t)outer;
  return &buckets[(address >> 4 ^ address >> 14) % NUM_BUCKETS];
}

/* In two steps, since the address by which it is found is known only when the function is made,
 * whose making needs the link. */
BridgeLink* bridge_link_new(void* inner) {
  BridgeLink* link = malloc(sizeof(*link));
  if (link != NULL) *link = (BridgeLink){NULL, inner, NULL};
  return link;
}

/* From here on the other direction finds it; `outer` must not be anybody else's yet. */
void bridge_link_add(BridgeLink* link, void* outer) {
  BridgeLink** bucket = bucket_of(outer);
  link->outer = outer;
  tvmrt__lock(&lock);
  link->next = *bucket;
  *bucket = link;
  tvmrt__unlock(&lock);
}

/* Gives back what was shown, whose reference is the caller's from here on. */
void* bridge_link_remove(BridgeLink* link) {
  BridgeLink** place = bucket_of(link->outer);
  void* inner = link->inner;
  tvmrt__lock(&lock);
  /* One that failed before it was added is not there. */
  while (*place != NULL && *place != link) place = &(*place)->next;
  if (*place != NULL) *place = link->next;
  tvmrt__unlock(&lock);
  free(link);
  return inner; /* released by the caller, outside the lock: that may end further functions */
}

/* The reference is taken under the lock: without it the last one could go between the look and the
 * count. NULL where the function shows none of the other side. */
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
