/* Which function shows which: a table of the live ones, by the address of what was made. */
#include "link.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { NUM_BUCKETS = 1024 };

static BridgeLink* buckets[NUM_BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The low bits of addresses from malloc() are all the same. */
static BridgeLink** bucket_of(const void* outer) {
  uintptr_t address = (uintptr_t)outer;
  return &buckets[(address >> 4 ^ address >> 14) % NUM_BUCKETS];
}

BridgeLink* bridge_link_new(void* inner) {
  BridgeLink* link = malloc(sizeof(*link));
  if (link != NULL) *link = (BridgeLink){NULL, inner, NULL};
  return link;
}

void bridge_link_add(BridgeLink* link, void* outer) {
  BridgeLink** bucket = bucket_of(outer);
  link->outer = outer;
  (void)pthread_mutex_lock(&lock);
  link->next = *bucket;
  *bucket = link;
  (void)pthread_mutex_unlock(&lock);
}

void* bridge_link_remove(BridgeLink* link) {
  BridgeLink** place = bucket_of(link->outer);
  void* inner = link->inner;
  (void)pthread_mutex_lock(&lock);
  while (*place != NULL && *place != link) place = &(*place)->next;
  if (*place != NULL) *place = link->next;
  (void)pthread_mutex_unlock(&lock);
  free(link);
  return inner; /* released by the caller, outside the lock: that may end further functions */
}

void* bridge_link_find(const void* outer, void (*retain)(void* inner)) {
  void* inner = NULL;
  const BridgeLink* link;
  (void)pthread_mutex_lock(&lock);
  for (link = *bucket_of(outer); link != NULL && link->outer != outer;) link = link->next;
  if (link != NULL) {
    inner = link->inner;
    retain(inner);
  }
  (void)pthread_mutex_unlock(&lock);
  return inner;
}
