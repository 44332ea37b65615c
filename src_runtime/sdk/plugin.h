/* The table of a plug-in whose functions are in several files. */
#ifndef TVMRT_SRC_RUNTIME_SDK_PLUGIN_H_
#define TVMRT_SRC_RUNTIME_SDK_PLUGIN_H_

#include <tvm/runtime/plugin.h>

/* A function of the table, like TVMRT_NATIVE(); its name begins with the plug-in's, since plug-ins
 * may be linked into one library. */
#define TVMRT_PLUGIN_NATIVE(fn)                                                       \
  int fn(TVMValue* args, int* type_codes, int num_args, TVMValue* out, int* out_code, \
         void* resource_handle)

/* For a list X("name", function): declarations, and the rows of the table without its end. */
#define TVMRT_PLUGIN_DECLARE(name, fn) TVMRT_PLUGIN_NATIVE(fn);
#define TVMRT_PLUGIN_ROW(name, fn) {name, fn},

#endif
