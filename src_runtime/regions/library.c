/* The device library, libtvmrt_regions: initialisation when it is loaded. */
#include <tvm/runtime/plugin.h>

#include "../modules/devices.h"
#include "registry.h"

extern const tvmrt_builtins tvmrt__region_builtins;
extern const tvmrt_builtins tvmrt__device_slot_functions;
extern const tvmrt_builtins tvmrt__region_module_builtins;

static const tvmrt_device_functions functions = {
    .device_register = tvmrt__device_register,
    .device_unregister = tvmrt__device_unregister,
    .device_find = tvmrt__device_find,
    .device_list = tvmrt__device_list,
    .device_load_plugin = tvmrt__device_load_plugin,
    .split_graph_by_describe = tvmrt__split_graph_by_describe,
    .region_find = tvmrt__region_find,
    .plugin_find = tvmrt__plugin_find,
};

/* Devices that are part of this library call the provided functions. */
static int enter(void) {
  static const tvmrt_builtins* const tables[] = {&tvmrt__region_builtins,
                                                 &tvmrt__region_module_builtins, NULL};
  TVMRT_RETURN_IF_ERROR(tvmrt__globals_enter(tables));
  tvmrt__devices_set_functions(&tvmrt__device_slot_functions);
  tvmrt__devices_provide(&functions);
  tvmrt__devices_enter_builtin();
  return 0;
}

/* It stays until the process ends: modules and devices hold addresses of its functions. */
TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "regions", NULL, enter, NULL,
                      TVMRT_SDK_VERSION};
