/* Functions that only libraries compiled by TVM call: matrix products and sorting, under the names
 * of TVM's library wrappers. */
#include "functions.h"

static const tvmrt_plugin_function functions[] = {NAMES_FUNCTIONS(TVMRT_PLUGIN_ROW){NULL, NULL}};

TVMRT_PLUGIN_TABLE = {sizeof(tvmrt_plugin), TVMRT_PLUGIN_ABI, "tvm_names", functions, NULL, NULL,
                      TVMRT_SDK_VERSION};
