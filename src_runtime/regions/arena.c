/* Memory arena: many small blocks that are freed together, in a list of chunks.
 *
 * The data of a library's regions lives as long as the library and is never freed individually.
 * Memory is zeroed and aligned to 16 bytes; addresses are stable. Not locked: it is filled while a
 * library is loaded. */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"

#define ALIGN_BYTES 16
#define CHUNK_BYTES 4080 /* plus its head: a size that allocators use fully */

typedef struct tvmrt_arena_chunk {
  struct tvmrt_arena_chunk* next;
  size_t unused; /* keeps `bytes` aligned */
  char bytes[];
} tvmrt_arena_chunk;

/* The remainder of the previous chunk stays unused. */
static int add_chunk(tvmrt_arena* arena, size_t bytes) {
  size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
  tvmrt_arena_chunk* chunk = tvmrt__calloc(1, sizeof(*chunk) + size);
  if (chunk == NULL) return -1;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  arena->left = size;
  return 0;
}

/* NULL with the error text set. `bytes` must not be 0. */
void* tvmrt__arena_alloc(tvmrt_arena* arena, size_t count, size_t bytes) {
  size_t size;
  /* Half of the address space, so that neither rounding up nor the chunk's head can overflow. */
  if (count > SIZE_MAX / 2 / bytes) {
    (void)tvmrt__fail_memory(SIZE_MAX);
    return NULL;
  }
  size = (count * bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  if ((arena->chunks == NULL || size > arena->left) && add_chunk(arena, size) != 0) return NULL;
  /* Allocates from the end to the front, so that `left` is also the offset. */
  arena->left -= size;
  return arena->chunks->bytes + arena->left;
}

void* tvmrt__arena_copy(tvmrt_arena* arena, const void* data, size_t bytes) {
  void* copy = tvmrt__arena_alloc(arena, bytes, 1);
  if (copy != NULL && bytes != 0) memcpy(copy, data, bytes);
  return copy;
}

/* The final NUL is part of the zeroed memory. */
char* tvmrt__arena_text(tvmrt_arena* arena, const char* text, size_t size) {
  char* copy = tvmrt__arena_alloc(arena, size + 1, 1);
  if (copy != NULL && size != 0) memcpy(copy, text, size);
  return copy;
}

/* The arena is empty afterwards, and may be reused. */
void tvmrt__arena_free(tvmrt_arena* arena) {
  while (arena->chunks != NULL) {
    tvmrt_arena_chunk* next = arena->chunks->next;
    free(arena->chunks);
    arena->chunks = next;
  }
  arena->left = 0;
}
