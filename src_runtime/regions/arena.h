/* Memory arena: many small blocks that are freed together. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_ARENA_H_
#define TVMRT_SRC_RUNTIME_REGIONS_ARENA_H_

#include <stddef.h>

/* Zero-initialised is empty. */
typedef struct tvmrt_arena {
  struct tvmrt_arena_chunk* chunks;
  size_t left; /* free bytes in the newest chunk */
} tvmrt_arena;

/* Zeroed, aligned to 16 bytes; NULL with the error text set. */
void* tvmrt__arena_alloc(tvmrt_arena* arena, size_t count, size_t bytes);
void* tvmrt__arena_copy(tvmrt_arena* arena, const void* data, size_t bytes);
/* A copy with a final NUL. */
char* tvmrt__arena_text(tvmrt_arena* arena, const char* text, size_t size);
void tvmrt__arena_free(tvmrt_arena* arena);

#endif
