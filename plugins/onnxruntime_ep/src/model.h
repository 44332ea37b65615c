/* Write the nodes that onnxruntime gives the plug-in as one ONNX model. */
#ifndef TVMRT_ONNXRUNTIME_EP_MODEL_H_
#define TVMRT_ONNXRUNTIME_EP_MODEL_H_

#include "text.h"

/* An array of value infos, owned; entries are borrowed from the graph, NULL for absent values. */
typedef struct infos {
  const ort_value_info** items;
  size_t count;
} infos;

void infos_free(infos* of);
ort_status* graph_inputs(const ort_functions* ort, const ort_graph* graph, infos* out);
ort_status* graph_outputs(const ort_functions* ort, const ort_graph* graph, infos* out);
ort_status* node_inputs(const ort_functions* ort, const ort_node* node, infos* out);
ort_status* node_outputs(const ort_functions* ort, const ort_node* node, infos* out);
/* The graph's nodes in topological order; owned by the caller. */
ort_status* graph_nodes(const ort_functions* ort, const ort_graph* graph, const ort_node*** nodes,
                        size_t* count);

/* Append a serialized ModelProto of the graph to `to`. Its inputs and outputs are those of
 * `boundary`, in that order, without constants; without `boundary`, those of the graph. */
ort_status* write_model(const ort_functions* ort, const ort_graph* graph, const ort_node* boundary,
                        bytes* to);

#endif /* TVMRT_ONNXRUNTIME_EP_MODEL_H_ */
