/* What the rooms above give to those below, which know them by this header alone. runtime.c fills it:
 * the linker makes the connections, so that they hold before the first call, from every thread, and in
 * programs that are linked with the static library. */
#ifndef TVMRT_SRC_RUNTIME_CORE_HOOKS_H_
#define TVMRT_SRC_RUNTIME_CORE_HOOKS_H_

#include <stdbool.h>

#include "function.h"

/* The global functions that exist from the start, NULL at the end. Entered in this order. */
extern const tvmrt_builtins* const tvmrt__builtin_tables[];

typedef struct tvmrt_hooks {
  /* Load the plug-in of this name from the usual folders; *out_found says whether there was one. 0,
   * or -1 with the error text set. */
  int (*load_plugin)(const char* name, bool* out_found);
  /* Start the device of this name, which may register functions; whether there is one. */
  bool (*start_device)(const char* name);
} tvmrt_hooks;
extern const tvmrt_hooks tvmrt__hooks;

#endif
