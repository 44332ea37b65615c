/* Shared libraries, loaded while a program runs. Handles are the system's. */
#ifndef TVMRT_SRC_RUNTIME_PLATFORM_LOADING_H_
#define TVMRT_SRC_RUNTIME_PLATFORM_LOADING_H_

#include <stdbool.h>
#include <stddef.h>

#include "compiler.h"

/* Whether "./a/b" is loaded beside "a/b" where the file has become another one meanwhile. */
#if defined(_WIN32)
#define TVMRT_PATHS_HAVE_SPELLINGS 0
#else
#define TVMRT_PATHS_HAVE_SPELLINGS 1
#endif

/* How names of libraries begin and end. */
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
  TVMRT_LOAD_LAZILY,   /* a function that is missing is told by its call */
  TVMRT_LOAD_WHOLE,    /* or when the library is loaded; both are told at once on Windows */
  TVMRT_LOAD_IF_LOADED /* a library that is loaded already, or NULL */
} tvmrt_loading;

/* Load a library, whose symbols no other sees by that; NULL with tvmrt__library_error(). */
TVMRT_SDK void* tvmrt__library_load_file(const char* path, tvmrt_loading how);
TVMRT_SDK void tvmrt__library_unload(void* handle);
/* The address of a symbol; NULL if there is none. */
TVMRT_SDK void* tvmrt__library_symbol(void* handle, const char* name);
/* Why the last of the above failed on this thread; never NULL. Lives until the next of them. */
TVMRT_SDK const char* tvmrt__library_error(void);

/* Whether what is looked up later sees the symbols of a library, which is loaded. */
TVMRT_SDK bool tvmrt__library_show(void* handle);
/* The address of a symbol that all libraries of the process see; NULL if there is none. */
void* tvmrt__visible_symbol(const char* name);

/* The path of the library or program that an address is of; NULL if it is of none. Lives as long as
 * the library, or until the thread asks again. */
TVMRT_SDK const char* tvmrt__library_of(const void* address);
/* Bytes of what a symbol names, 0 where the system does not know; whether it is code, of which
 * otherwise the text is looked at: a C identifier is none. */
TVMRT_SDK size_t tvmrt__symbol_bytes(void* address);
bool tvmrt__symbol_is_function(void* address);

#endif
