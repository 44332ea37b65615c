/* Memory for many small things that are freed together: a list of chunks, used from their ends.
 *
 * What is read of a library's regions lives as long as the library and is never freed one by one.
 * Memory comes zeroed and aligned to 16 bytes; addresses stay. Not locked: it is filled while a
 * library is loaded. */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"

#define ALIGN_BYTES 16
#define CHUNK_BYTES 4080 /* with its head, what allocators hand out whole */

typedef struct tvmrt_arena_chunk {
  struct tvmrt_arena_chunk* next;
  size_t unused; /* keeps `bytes` aligned */
  char bytes[];
} tvmrt_arena_chunk;

/* What was left of the chunk before stays unused. */
static int add_chunk(tvmrt_arena* arena, size_t bytes) {
  size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
  tvmrt_arena_chunk* chunk = tvmrt__calloc(1, sizeof(*chunk) + size);
  if (chunk == NULL) return -1;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  arena->left = size;
  return 0;
}

/* NULL with the error text set. Nothing may have no bytes an item. */
void* tvmrt__arena_alloc(tvmrt_arena* arena, size_t count, size_t bytes) {
  size_t size;
  /* Half of all addresses, so that neither rounding up nor the chunk's head can overflow. */
  if (count > SIZE_MAX / 2 / bytes) {
    (void)tvmrt__fail_memory(SIZE_MAX);
    return NULL;
  }
  size = (count * bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  if ((arena->chunks == NULL || size > arena->left) && add_chunk(arena, size) != 0) return NULL;
  /* From the end to the front, so that what is left is the address, too. */
  arena->left -= size;
  return arena->chunks->bytes + arena->left;
}

void* tvmrt__arena_copy(tvmrt_arena* arena, const void* data, size_t bytes) {
  void* copy = tvmrt__arena_alloc(arena, bytes, 1);
  if (copy != NULL && bytes != 0) memcpy(copy, data, bytes);
  return copy;
}

/* The NUL behind it is the zero that the memory comes with. */
char* tvmrt__arena_text(tvmrt_arena* arena, const char* text, size_t size) {
  char* copy = tvmrt__arena_alloc(arena, size + 1, 1);
  if (copy != NULL && size != 0) memcpy(copy, text, size);
  return copy;
}

/* The arena is empty afterwards, and may be used again. */
void tvmrt__arena_free(tvmrt_arena* arena) {
  while (arena->chunks != NULL) {
    tvmrt_arena_chunk* next = arena->chunks->next;
    free(arena->chunks);
    arena->chunks = next;
  }
  arena->left = 0;
}
