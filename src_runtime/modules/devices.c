/* Device functions for programs that link this library: each call is forwarded to the device
 * library, which is loaded by the first one. */
#include "devices.h"

#include <stdatomic.h>
#include <stddef.h>

#include "../core/function.h"
#include "../core/plugins.h"

static tvmrt_provided provided;

void tvmrt__devices_provide(const tvmrt_device_functions* functions) {
  atomic_store_explicit(&provided, functions, memory_order_release);
}

static const tvmrt_device_functions* find_functions(void) {
  return tvmrt__plugin_provided(&provided, "tvmrt.device.list", "libtvmrt_regions");
}

/* Forward a call to the function named `name`. */
#define FORWARD(name, ...)                                        \
  do {                                                            \
    const tvmrt_device_functions* functions = find_functions();   \
    return functions == NULL ? -1 : functions->name(__VA_ARGS__); \
  } while (0)

int tvmrt_device_register(const tvmrt_device* device) { FORWARD(device_register, device); }

int tvmrt_device_unregister(const char* name) { FORWARD(device_unregister, name); }

int tvmrt_device_find(const char* name, tvmrt_device** out_device) {
  *out_device = NULL;
  FORWARD(device_find, name, out_device);
}

int tvmrt_device_list(const char** names, int32_t capacity, int32_t* out_count) {
  *out_count = 0;
  FORWARD(device_list, names, capacity, out_count);
}

int tvmrt_device_load_plugin(const char* path) { FORWARD(device_load_plugin, path); }

int tvmrt_split_graph_by_describe(tvmrt_device* device, const tvmrt_region* graph,
                                  int32_t* out_groups) {
  FORWARD(split_graph_by_describe, device, graph, out_groups);
}

int tvmrt_region_find(TVMModuleHandle module, const char* symbol, tvmrt_region** out_region) {
  *out_region = NULL;
  FORWARD(region_find, module, symbol, out_region);
}

int tvmrt__devices_load_plugin(const char* name, bool* out_found) {
  *out_found = false;
  FORWARD(plugin_find, name, out_found);
}

bool tvmrt__devices_start(const char* name) {
  tvmrt_device* device;
  return tvmrt_device_find(name, &device) == 0 && device != NULL;
}

/* (name) -> 1 if there is such a device; searches like for a library that needs it. Front ends
 * register "tvmrt.device.find_installed", which must not load the device library: its prefixes
 * exclude this name. */
TVMRT_NATIVE(find_device) {
  const char* name;
  tvmrt_device* device;
  TVMRT_COUNTED_ARGS(1, 1);
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(&in, 0, &name));
  TVMRT_RETURN_IF_ERROR(tvmrt_device_find(name, &device));
  return tvmrt__ret_int(out, out_code, device != NULL);
}

#define FUNCTIONS(X) X("tvmrt.device.find", find_device)
const tvmrt_builtins tvmrt__device_builtins = TVMRT_BUILTINS(FUNCTIONS);
