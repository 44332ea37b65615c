/* Functions of the tvm_names plug-in. */
#ifndef TVMRT_PLUGINS_TVM_NAMES_FUNCTIONS_H_
#define TVMRT_PLUGINS_TVM_NAMES_FUNCTIONS_H_

#include "sdk/plugin.h"

/* mkl and dnnl are other choices of TVM for the same matrix products. */
#define NAMES_FUNCTIONS(X)                                \
  X("tvm.contrib.cblas.batch_matmul", names_batch_matmul) \
  X("tvm.contrib.cblas.matmul", names_matmul)             \
  X("tvm.contrib.dnnl.matmul", names_matmul)              \
  X("tvm.contrib.mkl.batch_matmul", names_batch_matmul)   \
  X("tvm.contrib.mkl.matmul", names_matmul)               \
  X("tvm.contrib.sort.argsort", names_argsort)            \
  X("tvm.contrib.sort.argsort_nms", names_argsort_nms)    \
  X("tvm.contrib.sort.sort", names_sort)                  \
  X("tvm.contrib.sort.topk", names_topk)

NAMES_FUNCTIONS(TVMRT_PLUGIN_DECLARE)

#endif
