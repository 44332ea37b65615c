/* Backend library: what a freestanding environment supplies, because compilers call it by themselves.
 * There string.h need not exist. */
#ifndef TVMRT_SRC_BACKEND_BYTES_H_
#define TVMRT_SRC_BACKEND_BYTES_H_

#include <stddef.h>

#include "compiler.h"

void* memcpy(void* to, const void* from, size_t num_bytes);
void* memset(void* at, int byte, size_t num_bytes);
int memcmp(const void* a, const void* b, size_t num_bytes);

#endif /* TVMRT_SRC_BACKEND_BYTES_H_ */
