/* A hash map from names to pointers, with linear probing and no tombstones.
 *
 * For tables of functions, of containers' keys, of inputs by name. Keys are copied; the caller owns
 * the values and frees them before the map. A zero-initialised map is empty and owns no memory. Not
 * locked: a shared map needs a lock around it. */
#include "strmap.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

/* Hashes eight bytes per step: every call by name hashes its name. Not resistant to collision
 * attacks, which would only slow their own process. The length is hashed first, since the last word
 * is padded with zeros. */
static uint64_t hash_text(const char* text) {
  const uint64_t odd = 0x9e3779b97f4a7c15u;
  size_t left = strlen(text);
  uint64_t h = left * odd;
  uint64_t word;
  for (; left >= sizeof(word); left -= sizeof(word), text += sizeof(word)) {
    memcpy(&word, text, sizeof(word));
    h = (h ^ word) * odd;
    h ^= h >> 32;
  }
  word = 0;
  memcpy(&word, text, left);
  h = (h ^ word) * odd;
  return h ^ (h >> 32);
}

/* Slot of the key, or the free one for it. The table is never full. Hashes are compared first:
 * texts with equal hashes are nearly always equal, so there is one text comparison. */
static tvmrt_strmap_slot* probe(const tvmrt_strmap* map, const char* key, uint64_t hash) {
  size_t mask = map->num_slots - 1;
  size_t i = (size_t)hash & mask;
  while (map->slots[i].key != NULL) {
    if (map->slots[i].hash == hash && strcmp(map->slots[i].key, key) == 0) break;
    i = (i + 1) & mask;
  }
  return &map->slots[i];
}

/* An empty map may have no table yet, so the key is not hashed. */
tvmrt_strmap_slot* tvmrt__strmap_find(const tvmrt_strmap* map, const char* key) {
  tvmrt_strmap_slot* slot;
  if (map->size == 0) return NULL;
  slot = probe(map, key, hash_text(key));
  return slot->key == NULL ? NULL : slot;
}

/* On failure the map is unchanged. Slots move, so pointers to them become invalid. */
static int grow(tvmrt_strmap* map) {
  tvmrt_strmap bigger = {0};
  size_t i;
  bigger.num_slots = map->num_slots == 0 ? 8 : map->num_slots * 2;
  bigger.slots = tvmrt__calloc(bigger.num_slots, sizeof(*bigger.slots));
  if (bigger.slots == NULL) return -1;
  for (i = 0; i < map->num_slots; ++i) {
    if (map->slots[i].key == NULL) continue;
    *probe(&bigger, map->slots[i].key, map->slots[i].hash) = map->slots[i];
  }
  bigger.size = map->size;
  free(map->slots);
  *map = bigger;
  return 0;
}

/* An existing slot keeps its value. The returned pointer is valid until the next insertion or
 * removal. */
tvmrt_strmap_slot* tvmrt__strmap_insert(tvmrt_strmap* map, const char* key) {
  uint64_t hash = hash_text(key);
  tvmrt_strmap_slot* slot;
  /* A quarter stays free, so that probe() terminates quickly. Slots move, values do not. */
  if ((map->size + 1) * 4 > map->num_slots * 3 && grow(map) != 0) return NULL;
  slot = probe(map, key, hash);
  if (slot->key != NULL) return slot;
  slot->key = tvmrt__strdup(key);
  if (slot->key == NULL) return NULL; /* the slot is still free */
  slot->hash = hash;
  slot->value = NULL;
  ++map->size;
  return slot;
}

/* Close the gap: move back every later slot of the probe sequence that could not be found past it.
 * Otherwise a look-up would stop at the gap, before keys that were inserted after it. */
static void close_gap(tvmrt_strmap* map, size_t gap) {
  size_t mask = map->num_slots - 1;
  size_t i = gap;
  for (;;) {
    size_t home;
    i = (i + 1) & mask;
    if (map->slots[i].key == NULL) break;
    home = (size_t)map->slots[i].hash & mask;
    /* nearer to its home than to the gap: the gap lies before its home, outside of its probe
     * sequence */
    if (((i - home) & mask) < ((i - gap) & mask)) continue;
    map->slots[gap] = map->slots[i];
    gap = i;
  }
  map->slots[gap].key = NULL;
  map->slots[gap].value = NULL;
}

/* Returns the value, which the caller owns; NULL if there is no such key. */
void* tvmrt__strmap_remove(tvmrt_strmap* map, const char* key) {
  tvmrt_strmap_slot* slot = tvmrt__strmap_find(map, key);
  void* value;
  if (slot == NULL) return NULL;
  value = slot->value;
  free(slot->key);
  --map->size;
  close_gap(map, (size_t)(slot - map->slots));
  return value;
}

/* Afterwards the map is empty and may be reused. */
void tvmrt__strmap_free(tvmrt_strmap* map) {
  size_t i;
  for (i = 0; i < map->num_slots; ++i) free(map->slots[i].key);
  free(map->slots);
  map->slots = NULL;
  map->num_slots = 0;
  map->size = 0;
}
