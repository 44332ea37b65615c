/* Table of the rpc plug-in's functions. */
#include "functions.h"

static const tvmrt_plugin_function functions[] = {RPC_FUNCTIONS(TVMRT_PLUGIN_ROW){NULL, NULL}};

TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "rpc", functions, NULL, NULL,
                      TVMRT_SDK_VERSION};
