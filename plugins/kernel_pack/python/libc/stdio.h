/*!
 * \file stdio.h
 * \brief Texts of errors; see stdint.h.
 */
#ifndef TVMRT_LIBC_STDIO_H_
#define TVMRT_LIBC_STDIO_H_

#include <stddef.h>

int snprintf(char* text, size_t bytes, const char* format, ...);

#endif /* TVMRT_LIBC_STDIO_H_ */
