/* The runtime as a whole, the one file that knows all rooms: what each gives to those below it. */
#include "core/hooks.h"
#include "regions/registry.h"

/* The tables stand beside their functions: tvmrt__<name>_builtins. A list, and no constructors:
 * these would need an order among files, and a linker drops from a static library whatever file
 * nobody names. */
#define TABLES(X)  \
  X(aot)           \
  X(aot_factory)   \
  X(const_loader)  \
  X(container)     \
  X(graph)         \
  X(graph_factory) \
  X(loader)        \
  X(memory_device) \
  X(metadata)      \
  X(module)        \
  X(pack)          \
  X(params)        \
  X(plugin)        \
  X(region)        \
  X(region_module) \
  X(source)        \
  X(system_lib)    \
  X(tensor)        \
  X(thread)        \
  X(time)
#define DECLARE(name) extern const tvmrt_builtins tvmrt__##name##_builtins;
#define ROW(name) &tvmrt__##name##_builtins,

TABLES(DECLARE)

const tvmrt_builtins* const tvmrt__builtin_tables[] = {TABLES(ROW) NULL};

/* For memory devices, which lie below: whether a device of the name is there, started if need
 * be. */
static bool start_device(const char* name) {
  tvmrt_device* device = NULL;
  return tvmrt_device_find(name, &device) == 0 && device != NULL;
}

const tvmrt_hooks tvmrt__hooks = {
    .enter_devices = tvmrt__devices_enter_builtin,
    .load_plugin = tvmrt__plugin_find,
    .start_device = start_device,
};
