/* The nodes that onnxruntime gives the plug-in, as an ONNX model. */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

enum { VARINT = 0, LENGTH_DELIMITED = 2, FIXED32 = 5, SIZE_BYTES = 5, MAX_AXES = 64 };
/* fields of onnx.proto */
enum { MODEL_IR = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { GRAPH_VALUE = 13 };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OPERATOR, NODE_ATTRIBUTE, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_TYPE = 20, TYPE_GRAPH = 5 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_STRINGS = 6, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, ELEMENT_TYPE = 1, SHAPE = 2, DIM = 1 };
enum { DIM_VALUE = 1, DIM_PARAM = 2 };

/* The type and the field of each kind of attribute. */
static const struct {
  uint8_t type, field;
} attribute_kinds[] = {
    [ORT_INT] = {2, 3},    [ORT_INTS] = {7, 8},    [ORT_FLOAT] = {1, 2},  [ORT_FLOATS] = {6, 7},
    [ORT_STRING] = {3, 4}, [ORT_STRINGS] = {8, 9}, [ORT_TENSOR] = {4, 5},
};

/* ---- protocol buffers ---- */

/* A message, written in one pass: the size of a nested message takes five bytes, which are filled in
 * at its end. */
typedef struct writer {
  job* j;
  tvmrt_buf* to;
} writer;

static void append(writer w, const void* data, size_t size) {
  if (size > 0 && !w.j->has_failed) TVM(w.j, tvmrt__buf_append(w.to, data, size));
}

static void varint(writer w, uint64_t value) {
  char out[10];
  size_t n = 0;
  do {
    out[n++] = (char)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value != 0);
  append(w, out, n);
}

static void write_int(writer w, uint32_t field, int64_t value) {
  varint(w, field << 3 | VARINT);
  varint(w, (uint64_t)value);
}

static void write_bytes(writer w, uint32_t field, const void* data, size_t size) {
  varint(w, field << 3 | LENGTH_DELIMITED);
  varint(w, size);
  append(w, data, size);
}

static void write_text(writer w, uint32_t field, const char* text) {
  if (text != NULL) write_bytes(w, field, text, strlen(text));
}

static size_t write_begin(writer w, uint32_t field) {
  static const char none[SIZE_BYTES] = {0};
  varint(w, field << 3 | LENGTH_DELIMITED);
  append(w, none, sizeof(none));
  return w.to->size;
}

static void write_end(writer w, size_t begin) {
  size_t size = w.to->size - begin;
  if (w.j->has_failed) return;
  if (size > INT32_MAX) {
    job_fail(w.j, ORT_FAIL,
             "the graph and its constants need more than 2 GiB, which no ONNX file has; split the "
             "network into several sessions");
    return;
  }
  for (int i = SIZE_BYTES; i > 0; --i, size >>= 7) {
    w.to->data[begin - (size_t)i] = (char)((size & 127) | (i > 1 ? 128 : 0));
  }
}

/* ---- values and attributes ---- */

/* An element type by its number in onnxruntime, which differs from ONNX's for types of 2 bits, whose
 * place in ONNX float8e8m0 has. */
static void write_type(writer w, uint32_t field, int type) {
  static const int in_onnx[] = {
      [ORT_ELEMENT_UINT2] = 25, [ORT_ELEMENT_INT2] = 26, [ORT_ELEMENT_FLOAT8E8M0] = 24};
  const bool differs = type >= ORT_ELEMENT_UINT2 && type <= ORT_ELEMENT_FLOAT8E8M0;
  write_int(w, field, differs ? in_onnx[type] : type);
}

static void write_strings(writer w, const ort_value* value, size_t count) {
  size_t size = 0, *starts = job_alloc(w.j, count + 1, sizeof(*starts));
  char* text;
  ORT(w.j, api.GetStringTensorDataLength, value, &size);
  text = job_alloc(w.j, size + 1, 1);
  if (!ORT(w.j, api.GetStringTensorContent, value, text, size, starts, count)) return;
  starts[count] = size;
  for (size_t i = 0; i < count; ++i) {
    write_bytes(w, TENSOR_STRINGS, text + starts[i], starts[i + 1] - starts[i]);
  }
}

/* A constant, with its content. */
static void write_tensor(writer w, uint32_t field, const char* name, const ort_value* value) {
  const size_t begin = write_begin(w, field);
  int type = 0;
  size_t rank = 0, size = 0, count = 1;
  const int64_t* extents = NULL;
  const void* data = NULL;
  ORT(w.j, api.GetTensorElementTypeAndShapeDataReference, value, &type, &extents, &rank);
  for (size_t i = 0; i < rank; ++i) {
    write_int(w, TENSOR_DIMS, extents[i]);
    count *= (size_t)extents[i];
  }
  write_type(w, TENSOR_TYPE, type);
  write_text(w, TENSOR_NAME, name);
  if (type == ORT_ELEMENT_STRING) {
    write_strings(w, value, count);
  } else if (ORT(w.j, api.GetTensorSizeInBytes, value, &size) &&
             ORT(w.j, api.GetTensorData, value, &data)) {
    write_bytes(w, TENSOR_RAW, data, size);
  }
  write_end(w, begin);
}

static void write_shape(writer w, const ort_shape* shape) {
  size_t rank = 0, begin;
  int64_t extents[MAX_AXES] = {0};
  const char* names[MAX_AXES] = {NULL};
  if (w.j->has_failed || !w.j->ort->api.TensorTypeAndShape_HasShape(shape)) return;
  ORT(w.j, api.GetDimensionsCount, shape, &rank);
  if (rank > MAX_AXES) job_fail(w.j, ORT_FAIL, "a tensor has %zu axes; at most 64 work", rank);
  ORT(w.j, api.GetDimensions, shape, extents, rank);
  if (!ORT(w.j, api.GetSymbolicDimensions, shape, names, rank)) return;
  begin = write_begin(w, SHAPE);
  for (size_t i = 0; i < rank; ++i) {
    const size_t dim = write_begin(w, DIM);
    if (extents[i] >= 0) {
      write_int(w, DIM_VALUE, extents[i]);
    } else if (names[i] != NULL && names[i][0] != '\0') {
      write_text(w, DIM_PARAM, names[i]);
    }
    write_end(w, dim);
  }
  write_end(w, begin);
}

/* A name, and for tensors element type and shape. */
static void write_value_info(writer w, uint32_t field, const ort_value_info* info) {
  const size_t begin = write_begin(w, field);
  int element = 0;
  const char* name = NULL;
  const ort_type* type = NULL;
  const ort_shape* shape = NULL;
  ORT(w.j, api.GetValueInfoName, info, &name);
  write_text(w, VALUE_NAME, name);
  ORT(w.j, api.GetValueInfoTypeInfo, info, &type);
  if (type != NULL) ORT(w.j, api.CastTypeInfoToTensorInfo, type, &shape);
  if (shape != NULL) {
    const size_t of_value = write_begin(w, VALUE_TYPE), of_type = write_begin(w, TYPE_TENSOR);
    ORT(w.j, api.GetTensorElementType, shape, &element);
    write_type(w, ELEMENT_TYPE, element);
    write_shape(w, shape);
    write_end(w, of_type);
    write_end(w, of_value);
  }
  write_end(w, begin);
}

/* Numbers and texts, each as a field of its own. */
static void write_items(writer w, uint32_t field, int type, const char* data, size_t size) {
  if (type == ORT_STRING) {
    write_bytes(w, field, data, size > 0 && data[size - 1] == '\0' ? size - 1 : size);
  } else if (type == ORT_STRINGS) { /* a NUL follows each */
    for (size_t at = 0; at < size; at += strlen(data + at) + 1) write_text(w, field, data + at);
  } else if (type == ORT_INT || type == ORT_INTS) {
    for (int64_t value; size >= sizeof(value); data += sizeof(value), size -= sizeof(value)) {
      memcpy(&value, data, sizeof(value));
      write_int(w, field, value);
    }
  } else { /* little-endian machines only, as tvmrt's targets are */
    for (; size >= sizeof(float); data += sizeof(float), size -= sizeof(float)) {
      varint(w, field << 3 | FIXED32);
      append(w, data, sizeof(float));
    }
  }
}

/* An attribute, except a graph. */
static void write_attribute(writer w, uint32_t field, const ort_attribute* attribute) {
  const char* name = NULL;
  ort_value* value = NULL;
  int type = 0;
  size_t begin, size = 0;
  if (!ORT(w.j, api.OpAttr_GetType, attribute, &type) || type == ORT_GRAPH) return;
  ORT(w.j, api.OpAttr_GetName, attribute, &name);
  if (type < ORT_INT || type > ORT_TENSOR) {
    job_fail(w.j, ORT_FAIL, "the attribute %s has the unknown type %d", name, type);
    return;
  }
  begin = write_begin(w, field);
  write_text(w, ATTRIBUTE_NAME, name);
  write_int(w, ATTRIBUTE_TYPE, attribute_kinds[type].type);
  if (type == ORT_TENSOR) {
    ORT(w.j, api.OpAttr_GetTensorAttributeAsOrtValue, attribute, &value);
    write_tensor(w, attribute_kinds[type].field, NULL, value);
    if (value != NULL) w.j->ort->api.ReleaseValue(value);
  } else {
    const char* data = job_attribute(w.j, attribute, type, &size);
    if (data != NULL) write_items(w, attribute_kinds[type].field, type, data, size);
  }
  write_end(w, begin);
}

/* ---- nodes ---- */

static void write_graph(writer w, const ort_graph* graph, const ort_node* boundary, bool is_body);

static void write_names(writer w, uint32_t field, list infos) {
  const char** names = job_names(w.j, infos);
  for (size_t i = 0; names != NULL && i < infos.count; ++i) write_text(w, field, names[i]);
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

/* Nodes outside of bodies have no name: onnxruntime names its own after counters, and equal graphs
 * have equal models. */
static void write_node(writer w, const ort_node* node, bool is_in_body) {
  const char *name = NULL, *type = NULL, *domain = NULL;
  const list attributes = LIST(w.j, Node, Attributes, node);
  const size_t begin = write_begin(w, GRAPH_NODE);
  write_names(w, NODE_INPUT, LIST(w.j, Node, Inputs, node));
  write_names(w, NODE_OUTPUT, LIST(w.j, Node, Outputs, node));
  if (is_in_body) ORT(w.j, api.Node_GetName, node, &name);
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

typedef struct constant {
  const char* name;
  const ort_value_info* info;
} constant;

static int compare_names(const void* a, const void* b) {
  return strcmp(((const constant*)a)->name, ((const constant*)b)->name);
}

/* Constants by their names: onnxruntime lists them in an order that changes. */
static void write_constants(writer w, list infos) {
  const char** names = job_names(w.j, infos);
  constant* sorted = job_alloc(w.j, infos.count + 1, sizeof(*sorted));
  if (names == NULL || sorted == NULL) return;
  for (size_t i = 0; i < infos.count; ++i) sorted[i] = (constant){names[i], infos.items[i]};
  qsort(sorted, infos.count, sizeof(*sorted), compare_names);
  for (size_t i = 0; i < infos.count; ++i) {
    const ort_value* value = NULL;
    bool is_constant = false;
    ORT(w.j, api.ValueInfo_IsConstantInitializer, sorted[i].info, &is_constant);
    if (!is_constant) continue; /* the default of an input */
    if (ORT(w.j, api.ValueInfo_GetInitializerValue, sorted[i].info, &value) && value != NULL) {
      write_tensor(w, GRAPH_CONSTANT, sorted[i].name, value);
    }
  }
}

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
  for (size_t i = 0; i < nodes.count; ++i) write_node(w, nodes.items[i], is_body);
  write_constants(w, LIST(w.j, Graph, Initializers, graph));
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
