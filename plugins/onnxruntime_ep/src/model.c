#include "model.h"

#include <stdlib.h>

#include "onnx_writer.h"

/* fields of onnx.proto */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { GRAPH_VALUE = 13 };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OPERATOR, NODE_ATTRIBUTE, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_TYPE = 20, TYPE_GRAPH = 5 };

void infos_free(infos* of) {
  free(of->items);
  *of = (infos){NULL, 0};
}

/* Each list of onnxruntime is read by two functions: its length, and its entries. */
#define READ_INFOS(NAME, PARENT, COUNT, ITEMS)                                   \
  ort_status* NAME(const ort_functions* ort, const PARENT* parent, infos* out) { \
    ort_status* status;                                                          \
    *out = (infos){NULL, 0};                                                     \
    ORT_TRY(ort->api.COUNT(parent, &out->count));                                \
    out->items = calloc(out->count + 1, sizeof(*out->items));                    \
    if (out->items == NULL) return fail_memory(ort);                             \
    if (out->count == 0) return NULL;                                            \
    status = ort->api.ITEMS(parent, out->items, out->count);                     \
    if (status != NULL) infos_free(out);                                         \
    return status;                                                               \
  }
READ_INFOS(graph_inputs, ort_graph, Graph_GetNumInputs, Graph_GetInputs)
READ_INFOS(graph_outputs, ort_graph, Graph_GetNumOutputs, Graph_GetOutputs)
static READ_INFOS(graph_constants, ort_graph, Graph_GetNumInitializers, Graph_GetInitializers)
    READ_INFOS(node_inputs, ort_node, Node_GetNumInputs, Node_GetInputs)
        READ_INFOS(node_outputs, ort_node, Node_GetNumOutputs,
                   Node_GetOutputs) static READ_INFOS(node_implicit, ort_node,
                                                      Node_GetNumImplicitInputs,
                                                      Node_GetImplicitInputs)

            ort_status* graph_nodes(const ort_functions* ort, const ort_graph* graph,
                                    const ort_node*** nodes, size_t* count) {
  ort_status* status;
  *nodes = NULL;
  ORT_TRY(ort->api.Graph_GetNumNodes(graph, count));
  *nodes = calloc(*count + 1, sizeof(**nodes));
  if (*nodes == NULL) return fail_memory(ort);
  status = *count == 0 ? NULL : ort->api.Graph_GetNodes(graph, *nodes, *count);
  if (status != NULL) {
    free(*nodes);
    *nodes = NULL;
  }
  return status;
}

/* ---- constants ---- */

typedef struct constant {
  const char* name;
  const ort_value_info* info;
} constant;

typedef struct constants {
  constant* items;
  size_t count, capacity;
} constants;

/* Add those of `from` that are constants of this graph. Releases `from`. */
static ort_status* add_constants(const ort_functions* ort, infos* from, bool is_body,
                                 constants* to) {
  ort_status* status = NULL;
  for (size_t i = 0; status == NULL && i < from->count; ++i) {
    bool is = false, outer = false;
    const ort_value_info* info = from->items[i];
    if (info == NULL) continue;
    status = ort->api.ValueInfo_IsConstantInitializer(info, &is);
    if (status == NULL && is && is_body) status = ort->api.ValueInfo_IsFromOuterScope(info, &outer);
    if (status != NULL || !is || outer) continue;
    if (to->count == to->capacity) {
      const size_t capacity = to->capacity == 0 ? 64 : 2 * to->capacity;
      constant* grown = realloc(to->items, capacity * sizeof(*grown));
      if (grown == NULL) {
        status = fail_memory(ort);
        continue;
      }
      to->items = grown;
      to->capacity = capacity;
    }
    to->items[to->count].info = info;
    status = ort->api.GetValueInfoName(info, &to->items[to->count].name);
    if (status == NULL) ++to->count;
  }
  infos_free(from);
  return status;
}

static int by_name(const void* a, const void* b) {
  return strcmp(((const constant*)a)->name, ((const constant*)b)->name);
}

/* The constants of a graph and of its nodes, each once, in the order of their names. */
static ort_status* write_constants(const ort_functions* ort, bytes* to, const ort_graph* graph,
                                   const ort_node* const* nodes, size_t num_nodes, bool is_body) {
  constants found = {NULL, 0, 0};
  infos list;
  ort_status* status = graph_constants(ort, graph, &list);
  if (status == NULL) status = add_constants(ort, &list, is_body, &found);
  for (size_t i = 0; status == NULL && i < num_nodes; ++i) {
    status = node_inputs(ort, nodes[i], &list);
    if (status == NULL) status = add_constants(ort, &list, is_body, &found);
    if (status == NULL) status = node_implicit(ort, nodes[i], &list);
    if (status == NULL) status = add_constants(ort, &list, is_body, &found);
  }
  if (found.count > 0) qsort(found.items, found.count, sizeof(*found.items), by_name);
  for (size_t i = 0; status == NULL && i < found.count; ++i) {
    const ort_value* value = NULL;
    if (i > 0 && by_name(&found.items[i - 1], &found.items[i]) == 0) continue;
    status = ort->api.ValueInfo_GetInitializerValue(found.items[i].info, &value);
    if (status == NULL && value != NULL) {
      status = write_tensor(ort, to, GRAPH_CONSTANT, found.items[i].name, value);
    }
  }
  free(found.items);
  return status;
}

/* ---- nodes ---- */

static ort_status* write_graph(const ort_functions* ort, bytes* to, const ort_graph* graph,
                               const ort_node* boundary, bool is_body);

/* Releases `from`. */
static ort_status* write_names(const ort_functions* ort, bytes* to, uint32_t field, infos* from) {
  ort_status* status = NULL;
  for (size_t i = 0; status == NULL && i < from->count; ++i) {
    const char* name = "";
    if (from->items[i] != NULL) status = ort->api.GetValueInfoName(from->items[i], &name);
    if (status == NULL) proto_text(to, field, name);
  }
  infos_free(from);
  return status;
}

static ort_status* write_attributes(const ort_functions* ort, bytes* to, const ort_node* node) {
  size_t count = 0;
  const ort_attribute** attributes;
  ort_status* status = NULL;
  ORT_TRY(ort->api.Node_GetNumAttributes(node, &count));
  if (count == 0) return NULL;
  attributes = calloc(count, sizeof(*attributes));
  if (attributes == NULL) return fail_memory(ort);
  status = ort->api.Node_GetAttributes(node, attributes, count);
  for (size_t i = 0; status == NULL && i < count; ++i) {
    if (attributes[i] != NULL) status = write_attribute(ort, to, attributes[i]);
  }
  free(attributes);
  return status;
}

static ort_status* write_bodies(const ort_functions* ort, bytes* to, const ort_node* node) {
  size_t count = 0;
  const ort_graph** graphs;
  const char** names;
  ort_status* status;
  ORT_TRY(ort->api.Node_GetNumSubgraphs(node, &count));
  if (count == 0) return NULL;
  graphs = calloc(count, sizeof(*graphs));
  names = calloc(count, sizeof(*names));
  status = graphs == NULL || names == NULL ? fail_memory(ort)
                                           : ort->api.Node_GetSubgraphs(node, graphs, count, names);
  for (size_t i = 0; status == NULL && graphs != NULL && names != NULL && i < count; ++i) {
    const size_t attribute = proto_begin(to, NODE_ATTRIBUTE);
    size_t body;
    proto_text(to, ATTRIBUTE_NAME, names[i]);
    proto_int(to, ATTRIBUTE_TYPE, TYPE_GRAPH);
    body = proto_begin(to, ATTRIBUTE_GRAPH);
    status = write_graph(ort, to, graphs[i], NULL, true);
    proto_end(to, body);
    proto_end(to, attribute);
  }
  free(names);
  free(graphs);
  return status;
}

static ort_status* write_node(const ort_functions* ort, bytes* to, const ort_node* node) {
  const char *name = NULL, *type = NULL, *domain = NULL;
  infos list;
  const size_t begin = proto_begin(to, GRAPH_NODE);
  ORT_TRY(node_inputs(ort, node, &list));
  ORT_TRY(write_names(ort, to, NODE_INPUT, &list));
  ORT_TRY(node_outputs(ort, node, &list));
  ORT_TRY(write_names(ort, to, NODE_OUTPUT, &list));
  ORT_TRY(ort->api.Node_GetName(node, &name));
  ORT_TRY(ort->api.Node_GetOperatorType(node, &type));
  ORT_TRY(ort->api.Node_GetDomain(node, &domain));
  proto_text(to, NODE_NAME, name);
  proto_text(to, NODE_OPERATOR, type);
  proto_text(to, NODE_DOMAIN, domain);
  ORT_TRY(write_attributes(ort, to, node));
  ORT_TRY(write_bodies(ort, to, node));
  proto_end(to, begin);
  return NULL;
}

/* ---- graphs ---- */

/* Releases `from`. */
static ort_status* write_infos(const ort_functions* ort, bytes* to, uint32_t field, infos* from) {
  ort_status* status = NULL;
  for (size_t i = 0; status == NULL && i < from->count; ++i) {
    bool is_constant = false;
    if (from->items[i] == NULL) continue;
    if (field == GRAPH_INPUT) {
      status = ort->api.ValueInfo_IsConstantInitializer(from->items[i], &is_constant);
    }
    if (status == NULL && !is_constant) status = write_value_info(ort, to, field, from->items[i]);
  }
  infos_free(from);
  return status;
}

static ort_status* write_graph(const ort_functions* ort, bytes* to, const ort_graph* graph,
                               const ort_node* boundary, bool is_body) {
  const ort_node** nodes = NULL;
  size_t count = 0;
  infos list;
  ort_status* status = graph_nodes(ort, graph, &nodes, &count);
  proto_text(to, GRAPH_NAME, "graph");
  for (size_t i = 0; status == NULL && i < count; ++i) status = write_node(ort, to, nodes[i]);
  if (status == NULL) status = write_constants(ort, to, graph, nodes, count, is_body);
  /* the types of values between nodes that only onnxruntime knows */
  for (size_t i = 0; status == NULL && !is_body && i < count; ++i) {
    status = node_outputs(ort, nodes[i], &list);
    if (status == NULL) status = write_infos(ort, to, GRAPH_VALUE, &list);
  }
  free(nodes);
  ORT_TRY(status);
  ORT_TRY(boundary == NULL ? graph_inputs(ort, graph, &list) : node_inputs(ort, boundary, &list));
  ORT_TRY(write_infos(ort, to, GRAPH_INPUT, &list));
  ORT_TRY(boundary == NULL ? graph_outputs(ort, graph, &list) : node_outputs(ort, boundary, &list));
  return write_infos(ort, to, GRAPH_OUTPUT, &list);
}

static ort_status* write_opsets(const ort_functions* ort, bytes* to, const ort_graph* graph) {
  size_t count = 0;
  const char** domains;
  int64_t* versions;
  ort_status* status;
  ORT_TRY(ort->api.Graph_GetNumOperatorSets(graph, &count));
  domains = calloc(count + 1, sizeof(*domains));
  versions = calloc(count + 1, sizeof(*versions));
  status = domains == NULL || versions == NULL
               ? fail_memory(ort)
               : ort->api.Graph_GetOperatorSets(graph, domains, versions, count);
  for (size_t i = 0; status == NULL && domains != NULL && versions != NULL && i < count; ++i) {
    const size_t begin = proto_begin(to, MODEL_OPSET);
    proto_text(to, OPSET_DOMAIN, domains[i]);
    proto_int(to, OPSET_VERSION, versions[i]);
    proto_end(to, begin);
  }
  free(versions);
  free(domains);
  return status;
}

ort_status* write_model(const ort_functions* ort, const ort_graph* graph, const ort_node* boundary,
                        bytes* to) {
  int64_t version = 0;
  size_t begin;
  ORT_TRY(ort->api.Graph_GetOnnxIRVersion(graph, &version));
  proto_int(to, MODEL_IR, version < 4 ? 4 : version); /* since 4, constants need not be inputs */
  proto_text(to, MODEL_PRODUCER, "onnxruntime");
  ORT_TRY(write_opsets(ort, to, graph));
  begin = proto_begin(to, MODEL_GRAPH);
  ORT_TRY(write_graph(ort, to, graph, boundary, false));
  proto_end(to, begin);
  if (!to->failed) return NULL;
  return fail(ort, ORT_FAIL,
              "tvmrt: the graph and its constants need more memory than there is, or more than 2 "
              "GiB; split the network into several sessions");
}
