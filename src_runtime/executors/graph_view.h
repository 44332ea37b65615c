/* Results of nodes that lie inside a larger storage. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_VIEW_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_GRAPH_VIEW_H_

#include <dlpack/dlpack.h>

#include "graph_json.h"

#define TVMRT_VIEW_MAX_NDIM 16

typedef struct tvmrt_graph_view {
  DLTensor tensor; /* borrows the storage; shape and strides are the arrays below */
  int64_t shape[TVMRT_VIEW_MAX_NDIM];
  int64_t strides[TVMRT_VIEW_MAX_NDIM];
} tvmrt_graph_view;

/*
 * The tensor that the node's attribute "view" describes within its first output, which is then a
 * storage of bytes:
 *
 *   "[offset in bytes, type code, bits, extent ..., stride in elements ...]"
 *
 * for example "[256, 2, 32, 1, 8, 6, 6, 288, 1, 48, 8]" for float32 [1, 8, 6, 6], channels last.
 * Without the attribute the view is the output itself. Returns 0, or -1 if the text is not such a
 * list or points outside of the storage.
 */
int tvmrt__graph_view(const tvmrt_graph_node* node, const DLTensor* output, tvmrt_graph_view* out);

#endif
