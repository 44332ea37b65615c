/* The complete runtime: only this file knows all components and their interfaces. */
#include "core/hooks.h"
#include "modules/devices.h"

/* The tables are defined next to their functions: tvmrt__<name>_builtins. A list, no constructors:
 * these would need an order among files, and linkers drop unreferenced files of static
 * libraries. */
#define TABLES(X)  \
  X(aot)           \
  X(aot_factory)   \
  X(device)        \
  X(graph)         \
  X(graph_factory) \
  X(loader)        \
  X(memory_device) \
  X(metadata)      \
  X(module)        \
  X(plugin)        \
  X(system_lib)    \
  X(tensor)        \
  X(thread)
#define DECLARE(name) extern const tvmrt_builtins tvmrt__##name##_builtins;
#define ROW(name) &tvmrt__##name##_builtins,

TABLES(DECLARE)

const tvmrt_builtins* const tvmrt__builtin_tables[] = {TABLES(ROW) NULL};

const tvmrt_hooks tvmrt__hooks = {
    .load_plugin = tvmrt__devices_load_plugin,
    .start_device = tvmrt__devices_start,
};
