#include "model.h"

#include <stdlib.h>
#include <string.h>

/* fields of onnx.proto */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { GRAPH_VALUE = 13 };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OPERATOR, NODE_ATTRIBUTE, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_TYPE = 20, TYPE_GRAPH = 5 };

/* ---- constants ---- */

typedef struct constant {
  const char* name;
  const ort_value_info* info;
} constant;

typedef struct constants {
  constant* items; /* freed by free() */
  size_t count;
} constants;

/* Add those of a list that are constants of this graph. */
static void add_constants(job* j, list from, bool is_body, constants* to) {
  for (size_t i = 0; i < from.count; ++i) {
    const ort_value_info* info = from.items[i];
    constant found = {NULL, info};
    bool is = false, outer = false;
    if (info == NULL) continue; /* an absent operand */
    ORT(j, api.ValueInfo_IsConstantInitializer, info, &is);
    if (is && is_body) ORT(j, api.ValueInfo_IsFromOuterScope, info, &outer);
    if (!is || outer || !ORT(j, api.GetValueInfoName, info, &found.name)) continue;
    TVM(j, tvmrt__grow((void**)(void*)&to->items, to->count, sizeof(found)));
    if (!j->has_failed && to->items != NULL) {
      to->items[to->count++] = found;
    }
  }
}

static int by_name(const void* a, const void* b) {
  return strcmp(((const constant*)a)->name, ((const constant*)b)->name);
}

/* The constants of a graph and of its nodes, each once, in the order of their names. */
static void write_constants(writer w, const ort_graph* graph, list nodes, bool is_body) {
  constants found = {NULL, 0};
  add_constants(w.j, LIST(w.j, Graph, Initializers, graph), is_body, &found);
  for (size_t i = 0; i < nodes.count; ++i) {
    add_constants(w.j, LIST(w.j, Node, Inputs, nodes.items[i]), is_body, &found);
    add_constants(w.j, LIST(w.j, Node, ImplicitInputs, nodes.items[i]), is_body, &found);
  }
  if (found.count > 0) qsort(found.items, found.count, sizeof(*found.items), by_name);
  for (size_t i = 0; i < found.count; ++i) {
    const ort_value* value = NULL;
    if (i > 0 && by_name(&found.items[i - 1], &found.items[i]) == 0) continue;
    ORT(w.j, api.ValueInfo_GetInitializerValue, found.items[i].info, &value);
    if (value != NULL) write_tensor(w, GRAPH_CONSTANT, found.items[i].name, value);
  }
  free(found.items);
}

/* ---- nodes ---- */

static void write_graph(writer w, const ort_graph* graph, const ort_node* boundary, bool is_body);

static void write_names(writer w, uint32_t field, list infos) {
  for (size_t i = 0; i < infos.count; ++i) {
    const char* name = "";
    if (infos.items[i] != NULL) ORT(w.j, api.GetValueInfoName, infos.items[i], &name);
    write_text(w, field, name);
  }
}

static void write_bodies(writer w, const ort_node* node) {
  size_t count = 0;
  const ort_graph** graphs;
  const char** names;
  ORT(w.j, api.Node_GetNumSubgraphs, node, &count);
  if (count == 0) return;
  graphs = job_alloc(w.j, count, sizeof(*graphs));
  names = job_alloc(w.j, count, sizeof(*names));
  if (!ORT(w.j, api.Node_GetSubgraphs, node, graphs, count, names)) return;
  for (size_t i = 0; i < count; ++i) {
    const size_t attribute = write_begin(w, NODE_ATTRIBUTE);
    size_t body;
    write_text(w, ATTRIBUTE_NAME, names[i]);
    write_int(w, ATTRIBUTE_TYPE, TYPE_GRAPH);
    body = write_begin(w, ATTRIBUTE_GRAPH);
    write_graph(w, graphs[i], NULL, true);
    write_end(w, body);
    write_end(w, attribute);
  }
}

static void write_node(writer w, const ort_node* node) {
  const char *name = NULL, *type = NULL, *domain = NULL;
  const list attributes = LIST(w.j, Node, Attributes, node);
  const size_t begin = write_begin(w, GRAPH_NODE);
  write_names(w, NODE_INPUT, LIST(w.j, Node, Inputs, node));
  write_names(w, NODE_OUTPUT, LIST(w.j, Node, Outputs, node));
  ORT(w.j, api.Node_GetName, node, &name);
  ORT(w.j, api.Node_GetOperatorType, node, &type);
  ORT(w.j, api.Node_GetDomain, node, &domain);
  write_text(w, NODE_NAME, name);
  write_text(w, NODE_OPERATOR, type);
  write_text(w, NODE_DOMAIN, domain);
  for (size_t i = 0; i < attributes.count; ++i) {
    if (attributes.items[i] != NULL) write_attribute(w, NODE_ATTRIBUTE, attributes.items[i]);
  }
  write_bodies(w, node);
  write_end(w, begin);
}

/* ---- graphs ---- */

static void write_infos(writer w, uint32_t field, list infos) {
  for (size_t i = 0; i < infos.count; ++i) {
    bool is_constant = false;
    if (infos.items[i] == NULL) continue;
    if (field == GRAPH_INPUT) {
      ORT(w.j, api.ValueInfo_IsConstantInitializer, infos.items[i], &is_constant);
    }
    if (!is_constant) write_value_info(w, field, infos.items[i]);
  }
}

static void write_graph(writer w, const ort_graph* graph, const ort_node* boundary, bool is_body) {
  const list nodes = LIST(w.j, Graph, Nodes, graph);
  write_text(w, GRAPH_NAME, "graph");
  for (size_t i = 0; i < nodes.count; ++i) write_node(w, nodes.items[i]);
  write_constants(w, graph, nodes, is_body);
  /* the types of values between nodes that only onnxruntime knows */
  for (size_t i = 0; !is_body && i < nodes.count; ++i) {
    write_infos(w, GRAPH_VALUE, LIST(w.j, Node, Outputs, nodes.items[i]));
  }
  write_infos(
      w, GRAPH_INPUT,
      boundary != NULL ? LIST(w.j, Node, Inputs, boundary) : LIST(w.j, Graph, Inputs, graph));
  write_infos(
      w, GRAPH_OUTPUT,
      boundary != NULL ? LIST(w.j, Node, Outputs, boundary) : LIST(w.j, Graph, Outputs, graph));
}

void write_model(job* j, const ort_graph* graph, const ort_node* boundary, tvmrt_buf* to) {
  const writer w = {j, to};
  int64_t version = 0, *versions;
  size_t begin, count = 0;
  const char** domains;
  ORT(j, api.Graph_GetOnnxIRVersion, graph, &version);
  write_int(w, MODEL_IR, version < 4 ? 4 : version); /* since 4, constants need not be inputs */
  write_text(w, MODEL_PRODUCER, "onnxruntime");
  ORT(j, api.Graph_GetNumOperatorSets, graph, &count);
  domains = job_alloc(j, count + 1, sizeof(*domains));
  versions = job_alloc(j, count + 1, sizeof(*versions));
  if (!ORT(j, api.Graph_GetOperatorSets, graph, domains, versions, count)) return;
  for (size_t i = 0; i < count; ++i) {
    begin = write_begin(w, MODEL_OPSET);
    write_text(w, OPSET_DOMAIN, domains[i]);
    write_int(w, OPSET_VERSION, versions[i]);
    write_end(w, begin);
  }
  begin = write_begin(w, MODEL_GRAPH);
  write_graph(w, graph, boundary, false);
  write_end(w, begin);
}
