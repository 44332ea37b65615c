/* Manifest of a library of generated code. */
#ifndef TVMRT_SRC_RUNTIME_MODULES_MANIFEST_H_
#define TVMRT_SRC_RUNTIME_MODULES_MANIFEST_H_

#include <stddef.h>

/* Check that a manifest, `size` bytes including the final NUL, is intact and its library compatible
 * with this runtime. 0, or -1 with an error text that names the file at `path`. */
int tvmrt__manifest_check(const char* path, const char* text, size_t size);

#endif
