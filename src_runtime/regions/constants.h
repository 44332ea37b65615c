/* The constants of a module's regions: where they lie in the library, or in a copy. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_CONSTANTS_H_
#define TVMRT_SRC_RUNTIME_REGIONS_CONSTANTS_H_

#include <stddef.h>

typedef struct tvmrt_constants {
  const void* data; /* aligned to TVMRT_CONSTANT_ALIGN_BYTES */
  size_t size;
  void* copy;    /* owned; NULL where they lie in a library */
  void* library; /* which stays loaded by this handle */
} tvmrt_constants;

/* Of a loaded library that is aligned as it should be, they stay where they are; else they are copied. */
int tvmrt__constants_init(tvmrt_constants* out, const void* data, size_t size);
void tvmrt__constants_free(tvmrt_constants* self);
/* Nobody is about to read them: those of a library leave memory until somebody does. */
void tvmrt__constants_give_back(const tvmrt_constants* self);

#endif
