/*!
 * \file string.h
 * \brief Functions of memory and strings; see stdint.h.
 */
#ifndef TVMRT_LIBC_STRING_H_
#define TVMRT_LIBC_STRING_H_

#include <stddef.h>

void* memcpy(void* to, const void* from, size_t bytes);
void* memmove(void* to, const void* from, size_t bytes);
void* memset(void* to, int value, size_t bytes);
void* memchr(const void* memory, int value, size_t bytes);
int memcmp(const void* a, const void* b, size_t bytes);
size_t strlen(const char* text);
char* strchr(const char* text, int character);
size_t strcspn(const char* text, const char* stops);
size_t strspn(const char* text, const char* accepted);
char* strstr(const char* text, const char* part);
int strcmp(const char* a, const char* b);
int strncmp(const char* a, const char* b, size_t bytes);

#endif /* TVMRT_LIBC_STRING_H_ */
