/* Backend library: string functions; a freestanding C has no string.h. */
#ifndef TVMRT_SRC_BACKEND_STRING_FUNCTIONS_H_
#define TVMRT_SRC_BACKEND_STRING_FUNCTIONS_H_

#include <stddef.h>

#include "compiler.h"

/* Length of a NUL-terminated string, in bytes. */
static inline size_t tvmrt__text_length(const char* text) {
  const char* end = text;
  while (*end != '\0') ++end;
  return (size_t)(end - text);
}

/* Whether two NUL-terminated strings are equal. */
static inline int tvmrt__text_equal(const char* a, const char* b) {
  for (; *a == *b; ++a, ++b) {
    if (*a == '\0') return 1;
  }
  return 0;
}

#endif /* TVMRT_SRC_BACKEND_STRING_FUNCTIONS_H_ */
