/* Functions of the tvm_names plug-in. */
#ifndef TVMRT_PLUGINS_TVM_NAMES_FUNCTIONS_H_
#define TVMRT_PLUGINS_TVM_NAMES_FUNCTIONS_H_

#include "sdk/plugin.h"

#define NAMES_FUNCTIONS(X)                             \
  X("tvm.contrib.sort.argsort", names_argsort)         \
  X("tvm.contrib.sort.argsort_nms", names_argsort_nms) \
  X("tvm.contrib.sort.sort", names_sort)               \
  X("tvm.contrib.sort.topk", names_topk)

NAMES_FUNCTIONS(TVMRT_PLUGIN_DECLARE)

#endif
