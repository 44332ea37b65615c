/* Backend library: memory functions that a freestanding environment supplies, since compilers emit
 * calls of them. string.h may be missing there. */
#ifndef TVMRT_SRC_BACKEND_MEM_FUNCTIONS_H_
#define TVMRT_SRC_BACKEND_MEM_FUNCTIONS_H_

#include <stddef.h>

#include "compiler.h"

void* memcpy(void* to, const void* from, size_t num_bytes);
void* memset(void* at, int byte, size_t num_bytes);
int memcmp(const void* a, const void* b, size_t num_bytes);

#endif /* TVMRT_SRC_BACKEND_MEM_FUNCTIONS_H_ */
