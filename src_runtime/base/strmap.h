/* A hash map from names to pointers: open addressing, amortised O(1). */
#ifndef TVMRT_SRC_RUNTIME_BASE_STRMAP_H_
#define TVMRT_SRC_RUNTIME_BASE_STRMAP_H_

#include <stddef.h>
#include <stdint.h>

#include "../platform/compiler.h"

typedef struct tvmrt_strmap_slot {
  char* key; /* owned copy; NULL marks a free slot */
  void* value;
  uint64_t hash;
} tvmrt_strmap_slot;

/* Zero-initialised is empty. Not synchronised. */
typedef struct tvmrt_strmap {
  tvmrt_strmap_slot* slots;
  size_t num_slots; /* 0 or a power of two */
  size_t size;
} tvmrt_strmap;

/* The slot of a key, or NULL. Valid until the next change of the map. */
tvmrt_strmap_slot* tvmrt__strmap_find(const tvmrt_strmap* map, const char* key);

/* Find or add a key (value NULL when new). NULL with the error text set if out of memory. */
tvmrt_strmap_slot* tvmrt__strmap_insert(tvmrt_strmap* map, const char* key);

/* Remove a key; returns its value, NULL if there was none. */
void* tvmrt__strmap_remove(tvmrt_strmap* map, const char* key);

/* Free the table and its keys, not the values. */
void tvmrt__strmap_free(tvmrt_strmap* map);

#endif
