/* Plug-ins: loading them by the prefixes of their functions. */
#ifndef TVMRT_SRC_RUNTIME_CORE_PLUGINS_H_
#define TVMRT_SRC_RUNTIME_CORE_PLUGINS_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <tvm/runtime/plugin.h>

#include "../platform/compiler.h"

/* Plug-ins that are part of this library, NULL at the end; the build writes the list. */
extern const tvmrt_plugin* const tvmrt__static_plugins[];

/* The lock of everything that comes and goes with a library: plug-ins and devices. One lock and a
 * recursive one, because a plug-in that enters registers devices, and a device that starts looks for
 * functions. */
TVMRT_SDK void tvmrt__loading_begin(void);
TVMRT_SDK void tvmrt__loading_end(void);

/* Whether a missing function of this name may be in a plug-in that is not loaded. */
bool tvmrt__plugin_awaited(const char* name);
/* Load the plug-in that has functions of this name, if there is one. 0, or -1 with the error text set
 * where it cannot be loaded. */
TVMRT_SDK int tvmrt__plugin_load_for(const char* name);
/* The same, where one that cannot be loaded is none; the thread's error text stays. */
void tvmrt__plugin_try_for(const char* name);
/* The functions that a library of this runtime provides when it is loaded, which happens here; `prefix` is
 * one of its prefixes. NULL, with the error text set, where the library is missing. */
const void* tvmrt__plugin_provided(_Atomic(const void*)* provided, const char* prefix,
                                   const char* library);
/* Load all plug-ins of the table with a prefix that begins so; those that cannot be loaded are left out,
 * and the thread's error text stays. */
void tvmrt__plugins_load_under(const char* beginning);

#endif
