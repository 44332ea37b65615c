/* Functions of higher layers for lower ones, which use only this header. runtime.c defines them:
 * they are linked, not registered, so they work before the first call, from every thread, and in
 * programs that link the static library. */
#ifndef TVMRT_SRC_RUNTIME_CORE_HOOKS_H_
#define TVMRT_SRC_RUNTIME_CORE_HOOKS_H_

#include <stdbool.h>

#include "function.h"

/* The built-in global functions, NULL at the end. Registered in this order. */
extern const tvmrt_builtins* const tvmrt__builtin_tables[];

typedef struct tvmrt_hooks {
  /* Load the plug-in of this name from the usual folders; *out_found: whether there was one. 0, or
   * -1 with the error text set. */
  int (*load_plugin)(const char* name, bool* out_found);
  /* Start the device of this name, which may register functions; returns whether there is one. */
  bool (*start_device)(const char* name);
} tvmrt_hooks;
extern const tvmrt_hooks tvmrt__hooks;

#endif
