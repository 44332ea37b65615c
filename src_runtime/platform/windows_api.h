/* Windows' own header, only for sources of this folder, and string conversions. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_WINDOWS_API_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_WINDOWS_API_H_

#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0601 /* Windows 7 */
#endif
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <stdbool.h>
#include <stddef.h>
#include <windows.h>

#include "compiler.h"

/* Convert UTF-8 to a wide string, malloc()ed; NULL if memory is exhausted, or for invalid UTF-8. */
TVMRT_SDK wchar_t* tvmrt__utf8_to_wide(const char* text);
/* Convert a wide string to UTF-8 into `out` of `size` bytes; false if it does not fit. */
TVMRT_SDK bool tvmrt__wide_to_utf8(const wchar_t* text, char* out, size_t size);

#endif
