/* Profiling reports as objects: created, parsed, and written as JSON, CSV and tables. */
#include "functions.h"

static const tvmrt_plugin_function functions[] = {
    PROFILING_FUNCTIONS(TVMRT_PLUGIN_ROW){NULL, NULL}};

TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "profiling", functions, NULL, NULL,
                      TVMRT_SDK_VERSION};
