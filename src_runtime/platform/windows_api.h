/* Windows' own header, for the sources of this room alone, and texts as it has them. */
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

/* A text of Windows in place of UTF-8, malloc()ed; NULL without memory, or where it is no UTF-8. */
TVMRT_SDK wchar_t* tvmrt__wide(const char* text);
/* The other way into `out` of `size` bytes; false where it does not fit. */
TVMRT_SDK bool tvmrt__narrow(const wchar_t* text, char* out, size_t size);

#endif
