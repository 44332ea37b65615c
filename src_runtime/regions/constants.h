/* The constants of a module's regions, in place in the library or copied. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_CONSTANTS_H_
#define TVMRT_SRC_RUNTIME_REGIONS_CONSTANTS_H_

#include <stddef.h>

typedef struct tvmrt_constants {
  const void* data; /* aligned to TVMRT_CONSTANT_ALIGN_BYTES */
  size_t size;
  void* copy;    /* owned; NULL if they lie in a library */
  void* library; /* handle that keeps the library loaded */
} tvmrt_constants;

/* Aligned constants of a loaded library stay in place; others are copied. */
int tvmrt__constants_init(tvmrt_constants* out, const void* data, size_t size);
void tvmrt__constants_free(tvmrt_constants* self);
/* Drop constants of a library from memory until the next access. */
void tvmrt__constants_release_pages(const tvmrt_constants* self);

#endif
