/* Functions of <tvm/runtime/device.h>, implemented by the device library. That library, regions/,
 * is loaded by the first call of one of them. */
#ifndef TVMRT_SRC_RUNTIME_MODULES_DEVICES_H_
#define TVMRT_SRC_RUNTIME_MODULES_DEVICES_H_

#include <stdbool.h>
#include <tvm/runtime/device.h>

#include "../platform/compiler.h"

/* Names as in the public header. Static. */
typedef struct tvmrt_device_functions {
  int (*device_register)(const tvmrt_device* device);
  int (*device_unregister)(const char* name);
  int (*device_find)(const char* name, tvmrt_device** out_device);
  int (*device_list)(const char** names, int32_t capacity, int32_t* out_count);
  int (*device_load_plugin)(const char* path);
  int (*split_graph_by_describe)(tvmrt_device* device, const tvmrt_region* graph,
                                 int32_t* out_groups);
  int (*region_find)(TVMModuleHandle module, const char* symbol, tvmrt_region** out_region);
  /* Load the device plug-in of this name from the usual folders; *out_found: whether there was one.
   * 0, or -1 with the error text set. */
  int (*plugin_find)(const char* name, bool* out_found);
} tvmrt_device_functions;

/* Called by the device library when it is loaded. */
TVMRT_SDK void tvmrt__devices_provide(const tvmrt_device_functions* functions);

/* For hooks: calls plugin_find. */
int tvmrt__devices_load_plugin(const char* name, bool* out_found);
/* For hooks: whether there is a device of this name; starts it if necessary. */
bool tvmrt__devices_start(const char* name);

#endif
