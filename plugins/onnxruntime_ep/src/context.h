/* EPContext nodes: compiled parts inside an ONNX model. */
#ifndef TVMRT_ONNXRUNTIME_EP_CONTEXT_H_
#define TVMRT_ONNXRUNTIME_EP_CONTEXT_H_

#include "kernel.h"

#define EP_NAME "tvmrt"

/* Where compiled models are written; from the session options ep.context_*. */
typedef struct context_options {
  bool is_written, is_embedded;
  char* path; /* of the model that onnxruntime writes; owned, or NULL */
} context_options;

/* Whether the node is an EPContext node of this plug-in. */
ort_status* context_is_ours(const ort_functions* ort, const ort_node* node, bool* is);

/* The kernel of an EPContext node. A file name is relative to the folder of the model. */
ort_status* context_load(const ort_functions* ort, const context_options* options,
                         const ort_graph* graph, const ort_node* node, kernel** out);

/* An EPContext node in the place of `fused`. onnxruntime takes ownership. */
ort_status* context_node(const ort_functions* ort, const context_options* options,
                         const ort_graph* graph, const ort_node* fused, const bytes* library,
                         ort_node** out);

#endif /* TVMRT_ONNXRUNTIME_EP_CONTEXT_H_ */
