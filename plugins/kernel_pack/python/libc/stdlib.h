/*!
 * \file stdlib.h
 * \brief Allocation and variables of the environment; see stdint.h.
 */
#ifndef TVMRT_LIBC_STDLIB_H_
#define TVMRT_LIBC_STDLIB_H_

#include <stddef.h>

void* malloc(size_t bytes);
void* calloc(size_t count, size_t bytes);
void free(void* memory);
char* getenv(const char* name);
double strtod(const char* text, char** end);
int abs(int value);

#endif /* TVMRT_LIBC_STDLIB_H_ */
