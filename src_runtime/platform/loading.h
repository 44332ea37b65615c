/* Shared libraries, loaded at run time. Handles are the system's. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_LOADING_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_LOADING_H_

#include <stdbool.h>
#include <stddef.h>

#include "compiler.h"

/* Whether "./a/b" can be loaded in addition to "a/b" if the file was replaced in between. */
#if defined(_WIN32)
#define TVMRT_PATHS_HAVE_SPELLINGS 0
#else
#define TVMRT_PATHS_HAVE_SPELLINGS 1
#endif

/* Prefix and suffix of library names. */
#if defined(_WIN32)
#if defined(__MINGW32__)
#define TVMRT_LIBRARY_PREFIX "lib"
#else
#define TVMRT_LIBRARY_PREFIX ""
#endif
#define TVMRT_LIBRARY_SUFFIX ".dll"
#elif defined(__APPLE__)
#define TVMRT_LIBRARY_PREFIX "lib"
#define TVMRT_LIBRARY_SUFFIX ".dylib"
#else
#define TVMRT_LIBRARY_PREFIX "lib"
#define TVMRT_LIBRARY_SUFFIX ".so"
#endif

typedef enum tvmrt_loading {
  TVMRT_LOAD_LAZY,     /* missing functions are reported when they are called */
  TVMRT_LOAD_NOW,      /* or when the library is loaded; on Windows always then */
  TVMRT_LOAD_IF_LOADED /* a library that is already loaded, or NULL */
} tvmrt_loading;

/* Load a library, with symbols local to it; NULL with tvmrt__library_error(). */
TVMRT_SDK void* tvmrt__library_load_file(const char* path, tvmrt_loading binding);
TVMRT_SDK void tvmrt__library_unload(void* handle);
/* The address of a symbol; NULL if there is none. */
TVMRT_SDK void* tvmrt__library_symbol(void* handle, const char* name);
/* Error of the last failed function above on this thread; never NULL. Valid until the next. */
TVMRT_SDK const char* tvmrt__library_error(void);

/* Make the symbols of a loaded library visible to later look-ups; whether that succeeded. */
TVMRT_SDK bool tvmrt__library_show(void* handle);
/* The address of a globally visible symbol; NULL if there is none. */
void* tvmrt__visible_symbol(const char* name);

/* The path of the library or program that contains an address; NULL if there is none. Valid as long
 * as the library, or until the thread calls this again. */
TVMRT_SDK const char* tvmrt__library_of(const void* address);
/* Size of a symbol's object in bytes, 0 if unknown; and whether a symbol is code. If the system
 * does not know, its bytes decide: a C identifier is not code. */
TVMRT_SDK size_t tvmrt__symbol_bytes(void* address);
bool tvmrt__symbol_is_function(void* address);

#endif
