/* The library libtvmrt_named: its functions are registered when it is loaded. */
#include <tvm/runtime/plugin.h>

#include "../core/function.h"

#define TABLES(X)    \
  X(const_loader)    \
  X(container)       \
  X(module_contents) \
  X(params)          \
  X(source)          \
  X(time)
#define DECLARE(name) extern const tvmrt_builtins tvmrt__##name##_builtins;
#define ROW(name) &tvmrt__##name##_builtins,

TABLES(DECLARE)

static int enter(void) {
  static const tvmrt_builtins* const tables[] = {TABLES(ROW) NULL};
  return tvmrt__globals_enter(tables);
}

/* It stays loaded until the process ends: modules have addresses of its functions. */
TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "named", NULL, enter, NULL,
                      TVMRT_SDK_VERSION};
