/* Memory for many small things that are freed together: a list of chunks, used from their ends. */
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

static int add_chunk(tvmrt_arena* arena, size_t bytes) {
  size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
  tvmrt_arena_chunk* chunk = tvmrt__calloc(1, sizeof(*chunk) + size);
  if (chunk == NULL) return -1;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  arena->left = size;
  return 0;
}

void* tvmrt__arena_alloc(tvmrt_arena* arena, size_t count, size_t bytes) {
  size_t size;
  if (count > SIZE_MAX / 2 / bytes) {
    (void)tvmrt__fail_memory(SIZE_MAX);
    return NULL;
  }
  size = (count * bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  if ((arena->chunks == NULL || size > arena->left) && add_chunk(arena, size) != 0) return NULL;
  arena->left -= size;
  return arena->chunks->bytes + arena->left;
}

void* tvmrt__arena_copy(tvmrt_arena* arena, const void* data, size_t bytes) {
  void* copy = tvmrt__arena_alloc(arena, bytes, 1);
  if (copy != NULL && bytes != 0) memcpy(copy, data, bytes);
  return copy;
}

char* tvmrt__arena_text(tvmrt_arena* arena, const char* text, size_t size) {
  char* copy = tvmrt__arena_alloc(arena, size + 1, 1);
  if (copy != NULL && size != 0) memcpy(copy, text, size);
  return copy;
}

void tvmrt__arena_free(tvmrt_arena* arena) {
  while (arena->chunks != NULL) {
    tvmrt_arena_chunk* next = arena->chunks->next;
    free(arena->chunks);
    arena->chunks = next;
  }
  arena->left = 0;
}
