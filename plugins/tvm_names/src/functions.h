/* Functions of the tvm_names plug-in. */
#ifndef TVMRT_PLUGINS_TVM_NAMES_FUNCTIONS_H_
#define TVMRT_PLUGINS_TVM_NAMES_FUNCTIONS_H_

#include "sdk/plugin.h"

#define NAMES_FUNCTIONS(X)                                           \
  X("cache_flush_cpu_non_first_arg", names_cache_flush)              \
  X("tvm.contrib.cblas.batch_matmul", names_batch_matmul)            \
  X("tvm.contrib.cblas.batch_matmul_iterative", names_batch_matmul)  \
  X("tvm.contrib.cblas.matmul", names_matmul)                        \
  X("tvm.contrib.dnnl.conv2d", names_conv2d)                         \
  X("tvm.contrib.dnnl.matmul", names_matmul)                         \
  X("tvm.contrib.mkl.batch_matmul", names_batch_matmul)              \
  X("tvm.contrib.mkl.batch_matmul_iterative", names_batch_matmul)    \
  X("tvm.contrib.mkl.matmul", names_matmul)                          \
  X("tvm.contrib.mkl.matmul_u8s8s32", names_matmul_u8s8s32)          \
  X("tvm.contrib.random.normal", names_normal)                       \
  X("tvm.contrib.random.randint", names_randint)                     \
  X("tvm.contrib.random.random_fill", names_random_fill)             \
  X("tvm.contrib.random.random_fill_for_measure", names_random_fill) \
  X("tvm.contrib.random.uniform", names_uniform)                     \
  X("tvm.contrib.sort.argsort", names_argsort)                       \
  X("tvm.contrib.sort.argsort_nms", names_argsort_nms)               \
  X("tvm.contrib.sort.sort", names_sort)                             \
  X("tvm.contrib.sort.topk", names_topk)

NAMES_FUNCTIONS(TVMRT_PLUGIN_DECLARE)

#endif
