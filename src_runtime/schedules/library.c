/* The library of schedulers, libtvmrt_schedules: initialisation when it is loaded. */
#include <tvm/runtime/plugin.h>

#include "graph_steps.h"

static int enter(void) {
  tvmrt__schedules_provide(&tvmrt__own_schedule_functions);
  return 0;
}

/* It stays loaded until the process ends: executors and threads have addresses of its functions. */
TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "schedules", NULL, enter, NULL,
                      TVMRT_SDK_VERSION};
