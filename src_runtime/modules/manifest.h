/* What a library of generated code says of itself. */
#ifndef TVMRT_SRC_RUNTIME_MODULES_MANIFEST_H_
#define TVMRT_SRC_RUNTIME_MODULES_MANIFEST_H_

#include <stddef.h>

/* Whether the text of a manifest, `size` bytes with the NUL at their end, is whole and of a library
 * that this runtime can call. 0, or -1 with a sentence that names the file at `path`. */
int tvmrt__manifest_check(const char* path, const char* text, size_t size);

#endif
