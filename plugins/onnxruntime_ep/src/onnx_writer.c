/* Values, types and attributes of ONNX. */
#include <string.h>

#include "model.h"

enum { VARINT = 0, LENGTH_DELIMITED = 2, FIXED32 = 5, SIZE_BYTES = 5, MAX_AXES = 64 };
/* fields of onnx.proto */
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_STRINGS = 6, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, ELEMENT_TYPE = 1, SHAPE = 2, DIM = 1 };
enum { DIM_VALUE = 1, DIM_PARAM = 2, ATTRIBUTE_NAME = 1, ATTRIBUTE_TYPE = 20 };

/* The type and the field of each kind of attribute. */
static const struct {
  uint8_t type, field;
} attributes[] = {
    [ORT_INT] = {2, 3},    [ORT_INTS] = {7, 8},    [ORT_FLOAT] = {1, 2},  [ORT_FLOATS] = {6, 7},
    [ORT_STRING] = {3, 4}, [ORT_STRINGS] = {8, 9}, [ORT_TENSOR] = {4, 5},
};

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

void write_int(writer w, uint32_t field, int64_t value) {
  varint(w, field << 3 | VARINT);
  varint(w, (uint64_t)value);
}

void write_bytes(writer w, uint32_t field, const void* data, size_t size) {
  varint(w, field << 3 | LENGTH_DELIMITED);
  varint(w, size);
  append(w, data, size);
}

void write_text(writer w, uint32_t field, const char* text) {
  if (text != NULL) write_bytes(w, field, text, strlen(text));
}

size_t write_begin(writer w, uint32_t field) {
  static const char none[SIZE_BYTES] = {0};
  varint(w, field << 3 | LENGTH_DELIMITED);
  append(w, none, sizeof(none));
  return w.to->size;
}

void write_end(writer w, size_t begin) {
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

/* The type of a tensor by its number in ONNX. onnxruntime's numbers differ for types of 2 bits, whose
 * place in ONNX float8e8m0 has. */
static int read_type(job* j, const ort_shape* shape) {
  static const int in_onnx[] = {
      [ORT_ELEMENT_UINT2] = 25, [ORT_ELEMENT_INT2] = 26, [ORT_ELEMENT_FLOAT8E8M0] = 24};
  int type = 0;
  ORT(j, api.GetTensorElementType, shape, &type);
  return type >= ORT_ELEMENT_UINT2 && type <= ORT_ELEMENT_FLOAT8E8M0 ? in_onnx[type] : type;
}

/* The extents of a tensor; their number. */
static size_t read_extents(job* j, const ort_shape* shape, int64_t extents[MAX_AXES]) {
  size_t rank = 0;
  ORT(j, api.GetDimensionsCount, shape, &rank);
  if (rank > MAX_AXES) job_fail(j, ORT_FAIL, "a tensor has %zu axes; at most 64 work", rank);
  return ORT(j, api.GetDimensions, shape, extents, rank) ? rank : 0;
}

static void write_strings(writer w, const ort_value* value, const ort_shape* shape) {
  size_t size = 0, count = 0, *starts;
  char* text;
  ORT(w.j, api.GetTensorShapeElementCount, shape, &count);
  ORT(w.j, api.GetStringTensorDataLength, value, &size);
  text = job_alloc(w.j, size + 1, 1);
  starts = job_alloc(w.j, count + 1, sizeof(*starts));
  if (!ORT(w.j, api.GetStringTensorContent, value, text, size, starts, count)) return;
  starts[count] = size;
  for (size_t i = 0; i < count; ++i) {
    write_bytes(w, TENSOR_STRINGS, text + starts[i], starts[i + 1] - starts[i]);
  }
}

void write_tensor(writer w, uint32_t field, const char* name, const ort_value* value) {
  const size_t begin = write_begin(w, field);
  int type;
  size_t rank, size = 0;
  int64_t extents[MAX_AXES] = {0};
  const void* data = NULL;
  ort_shape* shape = NULL;
  ORT(w.j, api.GetTensorTypeAndShape, value, &shape);
  type = read_type(w.j, shape);
  rank = read_extents(w.j, shape, extents);
  for (size_t i = 0; i < rank; ++i) write_int(w, TENSOR_DIMS, extents[i]);
  write_int(w, TENSOR_TYPE, type);
  write_text(w, TENSOR_NAME, name);
  if (type == ORT_ELEMENT_STRING) {
    write_strings(w, value, shape);
  } else if (ORT(w.j, api.GetTensorSizeInBytes, value, &size) &&
             ORT(w.j, api.GetTensorData, value, &data)) {
    write_bytes(w, TENSOR_RAW, data, size);
  }
  if (shape != NULL) w.j->ort->api.ReleaseTensorTypeAndShapeInfo(shape);
  write_end(w, begin);
}

static void write_shape(writer w, const ort_shape* shape) {
  size_t rank, begin;
  int64_t extents[MAX_AXES] = {0};
  const char* names[MAX_AXES] = {NULL};
  if (w.j->has_failed || !w.j->ort->api.TensorTypeAndShape_HasShape(shape)) return;
  rank = read_extents(w.j, shape, extents);
  ORT(w.j, api.GetSymbolicDimensions, shape, names, rank);
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

void write_value_info(writer w, uint32_t field, const ort_value_info* info) {
  const size_t begin = write_begin(w, field);
  const char* name = NULL;
  const ort_type* type = NULL;
  const ort_shape* shape = NULL;
  ORT(w.j, api.GetValueInfoName, info, &name);
  write_text(w, VALUE_NAME, name);
  ORT(w.j, api.GetValueInfoTypeInfo, info, &type);
  if (type != NULL) ORT(w.j, api.CastTypeInfoToTensorInfo, type, &shape);
  if (shape != NULL) {
    const size_t of_value = write_begin(w, VALUE_TYPE), of_type = write_begin(w, TYPE_TENSOR);
    write_int(w, ELEMENT_TYPE, read_type(w.j, shape));
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

void write_attribute(writer w, uint32_t field, const ort_attribute* attribute) {
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
  write_int(w, ATTRIBUTE_TYPE, attributes[type].type);
  if (type == ORT_TENSOR) {
    ORT(w.j, api.OpAttr_GetTensorAttributeAsOrtValue, attribute, &value);
    write_tensor(w, attributes[type].field, NULL, value);
    if (value != NULL) w.j->ort->api.ReleaseValue(value);
  } else {
    const char* data = job_attribute(w.j, attribute, type, &size);
    if (data != NULL) write_items(w, attributes[type].field, type, data, size);
  }
  write_end(w, begin);
}
