/* Plug-ins: loading by the prefixes of their functions. */
#ifndef TVMRT_SRC_RUNTIME_CORE_PLUGINS_H_
#define TVMRT_SRC_RUNTIME_CORE_PLUGINS_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <tvm/runtime/plugin.h>

#include "../platform/compiler.h"

/* Plug-ins that are part of this library, NULL at the end; the build generates the list. */
extern const tvmrt_plugin* const tvmrt__static_plugins[];

/* The lock for loading and unloading of plug-ins and devices. It is a single recursive lock,
 * because a plug-in that enters registers devices, and a device that starts looks up functions. */
TVMRT_SDK void tvmrt__loading_begin(void);
TVMRT_SDK void tvmrt__loading_end(void);

/* Whether a missing function of this name may be in a plug-in that is not loaded. */
bool tvmrt__plugin_is_pending(const char* name);
/* Load the plug-in that has functions of this name, if there is one. 0, or -1 with the error text
 * set if it cannot be loaded. */
TVMRT_SDK int tvmrt__plugin_load_for(const char* name);
/* Load the plug-in of a name, ignoring failures; keeps the thread's error text. */
void tvmrt__plugin_try_load_for(const char* name);
/* Address of the functions that a library of this runtime has provided; NULL before. */
typedef _Atomic(const void*) tvmrt_provided;
/* Functions that a library of this runtime provides; loads the library, which has the prefix
 * `prefix`, if necessary. NULL, with the error text set, if the library is missing. */
const void* tvmrt__plugin_provided(tvmrt_provided* provided, const char* prefix,
                                   const char* library);
/* Load all plug-ins with a prefix that begins with `beginning`, ignoring failures; keeps the
 * thread's error text. */
void tvmrt__plugins_load_by_prefix(const char* beginning);

#endif
