#include "onnx_writer.h"

#include <stdlib.h>

enum { VARINT = 0, LENGTH_DELIMITED = 2, FIXED32 = 5, SIZE_BYTES = 5 };
/* fields of onnx.proto */
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_STRINGS = 6, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, ELEMENT_TYPE = 1, SHAPE = 2, DIM = 1 };
enum { DIM_VALUE = 1, DIM_PARAM = 2 };
enum { ATTR_NAME = 1, ATTR_F, ATTR_I, ATTR_S, ATTR_T, ATTR_FLOATS = 7, ATTR_INTS, ATTR_STRINGS };
enum { ATTR_TYPE = 20 };
enum { FLOAT = 1, INT = 2, STRING = 3, TENSOR = 4, FLOATS = 6, INTS = 7, STRINGS = 8 };

static void varint(bytes* to, uint64_t value) {
  char out[10];
  size_t n = 0;
  do {
    out[n++] = (char)((value & 127) | (value > 127 ? 128 : 0));
    value >>= 7;
  } while (value != 0);
  bytes_add(to, out, n);
}

void proto_int(bytes* to, uint32_t field, int64_t value) {
  varint(to, field << 3 | VARINT);
  varint(to, (uint64_t)value);
}

void proto_float(bytes* to, uint32_t field, float value) {
  varint(to, field << 3 | FIXED32);
  bytes_add(to, &value, sizeof(value)); /* little-endian machines only, as tvmrt's targets are */
}

void proto_bytes(bytes* to, uint32_t field, const void* data, size_t size) {
  varint(to, field << 3 | LENGTH_DELIMITED);
  varint(to, size);
  bytes_add(to, data, size);
}

void proto_text(bytes* to, uint32_t field, const char* text) {
  if (text != NULL) proto_bytes(to, field, text, strlen(text));
}

size_t proto_begin(bytes* to, uint32_t field) {
  static const char none[SIZE_BYTES] = {0};
  varint(to, field << 3 | LENGTH_DELIMITED);
  bytes_add(to, none, sizeof(none));
  return to->size;
}

void proto_end(bytes* to, size_t begin) {
  size_t size = to->size - begin;
  if (to->failed) return;
  if (size > INT32_MAX) { /* no parser accepts more */
    to->failed = true;
    return;
  }
  for (int i = 0; i < SIZE_BYTES; ++i, size >>= 7) {
    to->data[begin - SIZE_BYTES + (size_t)i] =
        (char)((size & 127) | (i < SIZE_BYTES - 1 ? 128 : 0));
  }
}

static ort_status* write_strings(const ort_functions* ort, bytes* to, const ort_value* value,
                                 size_t count) {
  size_t size = 0;
  char* text;
  size_t* starts;
  ort_status* status;
  ORT_TRY(ort->api.GetStringTensorDataLength(value, &size));
  text = malloc(size + 1);
  starts = calloc(count + 1, sizeof(*starts));
  status = text == NULL || starts == NULL
               ? fail_memory(ort)
               : ort->api.GetStringTensorContent(value, text, size, starts, count);
  for (size_t i = 0; status == NULL && text != NULL && starts != NULL && i < count; ++i) {
    const size_t end = i + 1 < count ? starts[i + 1] : size;
    proto_bytes(to, TENSOR_STRINGS, text + starts[i], end - starts[i]);
  }
  free(starts);
  free(text);
  return status;
}

static ort_status* write_content(const ort_functions* ort, bytes* to, const ort_value* value,
                                 const ort_shape* shape) {
  int type = 0;
  size_t rank = 0, size = 0, count = 0;
  int64_t extents[64];
  const void* data = NULL;
  ORT_TRY(ort->api.GetTensorElementType(shape, &type));
  ORT_TRY(ort->api.GetDimensionsCount(shape, &rank));
  if (rank > 64)
    return fail(ort, ORT_FAIL, "tvmrt: a constant has %zu axes; at most 64 work", rank);
  ORT_TRY(ort->api.GetDimensions(shape, extents, rank));
  for (size_t i = 0; i < rank; ++i) proto_int(to, TENSOR_DIMS, extents[i]);
  proto_int(to, TENSOR_TYPE, type);
  if (type == ORT_ELEMENT_STRING) {
    ORT_TRY(ort->api.GetTensorShapeElementCount(shape, &count));
    return write_strings(ort, to, value, count);
  }
  ORT_TRY(ort->api.GetTensorSizeInBytes(value, &size));
  ORT_TRY(ort->api.GetTensorData(value, &data));
  proto_bytes(to, TENSOR_RAW, data, size);
  return NULL;
}

ort_status* write_tensor(const ort_functions* ort, bytes* to, uint32_t field, const char* name,
                         const ort_value* value) {
  ort_shape* shape = NULL;
  ort_status* status;
  size_t begin;
  ORT_TRY(ort->api.GetTensorTypeAndShape(value, &shape));
  begin = proto_begin(to, field);
  proto_text(to, TENSOR_NAME, name);
  status = write_content(ort, to, value, shape);
  proto_end(to, begin);
  ort->api.ReleaseTensorTypeAndShapeInfo(shape);
  return status;
}

static ort_status* write_shape(const ort_functions* ort, bytes* to, const ort_shape* shape) {
  size_t rank = 0, begin;
  int64_t extents[64];
  const char* names[64];
  if (!ort->api.TensorTypeAndShape_HasShape(shape)) return NULL;
  ORT_TRY(ort->api.GetDimensionsCount(shape, &rank));
  if (rank > 64) return fail(ort, ORT_FAIL, "tvmrt: a tensor has %zu axes; at most 64 work", rank);
  ORT_TRY(ort->api.GetDimensions(shape, extents, rank));
  ORT_TRY(ort->api.GetSymbolicDimensions(shape, names, rank));
  begin = proto_begin(to, SHAPE);
  for (size_t i = 0; i < rank; ++i) {
    size_t dim = proto_begin(to, DIM);
    if (extents[i] >= 0) {
      proto_int(to, DIM_VALUE, extents[i]);
    } else if (names[i] != NULL && names[i][0] != '\0') {
      proto_text(to, DIM_PARAM, names[i]);
    }
    proto_end(to, dim);
  }
  proto_end(to, begin);
  return NULL;
}

ort_status* write_value_info(const ort_functions* ort, bytes* to, uint32_t field,
                             const ort_value_info* info) {
  const char* name = NULL;
  const ort_type* type = NULL;
  const ort_shape* shape = NULL;
  ort_status* status = NULL;
  size_t begin = proto_begin(to, field);
  ORT_TRY(ort->api.GetValueInfoName(info, &name));
  proto_text(to, VALUE_NAME, name);
  ORT_TRY(ort->api.GetValueInfoTypeInfo(info, &type));
  if (type != NULL) ORT_TRY(ort->api.CastTypeInfoToTensorInfo(type, &shape));
  if (shape != NULL) {
    int element = 0;
    size_t of_value = proto_begin(to, VALUE_TYPE), of_type = proto_begin(to, TYPE_TENSOR);
    status = ort->api.GetTensorElementType(shape, &element);
    proto_int(to, ELEMENT_TYPE, element);
    if (status == NULL) status = write_shape(ort, to, shape);
    proto_end(to, of_type);
    proto_end(to, of_value);
  }
  proto_end(to, begin);
  return status;
}

/* The bytes of an attribute. The first call reports the size as an error. */
static ort_status* read_bytes(const ort_functions* ort, const ort_attribute* attribute, int type,
                              char** data, size_t* size) {
  ort_status* status = ort->api.ReadOpAttr(attribute, type, NULL, 0, size);
  *data = NULL;
  if (status != NULL) ort->api.ReleaseStatus(status);
  if (*size == 0) return NULL;
  *data = malloc(*size);
  if (*data == NULL) return fail_memory(ort);
  return ort->api.ReadOpAttr(attribute, type, *data, *size, size);
}

static ort_status* write_list(const ort_functions* ort, bytes* to, const ort_attribute* attribute,
                              int type) {
  char* data = NULL;
  size_t size = 0;
  ort_status* status = read_bytes(ort, attribute, type, &data, &size);
  if (status != NULL) {
    free(data);
    return status;
  }
  switch (type) {
    case ORT_ATTRIBUTE_INTS:
      proto_int(to, ATTR_TYPE, INTS);
      for (size_t at = 0; at + 8 <= size; at += 8) {
        int64_t value;
        memcpy(&value, data + at, 8);
        proto_int(to, ATTR_INTS, value);
      }
      break;
    case ORT_ATTRIBUTE_FLOATS:
      proto_int(to, ATTR_TYPE, FLOATS);
      for (size_t at = 0; at + 4 <= size; at += 4) {
        float value;
        memcpy(&value, data + at, 4);
        proto_float(to, ATTR_FLOATS, value);
      }
      break;
    case ORT_ATTRIBUTE_STRING:
      proto_int(to, ATTR_TYPE, STRING);
      /* some versions count a final NUL */
      proto_bytes(to, ATTR_S, data, size > 0 && data[size - 1] == '\0' ? size - 1 : size);
      break;
    default:
      proto_int(to, ATTR_TYPE, STRINGS);
      for (size_t at = 0; data != NULL && at < size; at += strnlen(data + at, size - at) + 1) {
        proto_bytes(to, ATTR_STRINGS, data + at, strnlen(data + at, size - at));
      }
  }
  free(data);
  return NULL;
}

static ort_status* write_value(const ort_functions* ort, bytes* to, const ort_attribute* attribute,
                               int type) {
  size_t size = 0;
  int64_t number = 0;
  float real = 0;
  ort_value* value = NULL;
  ort_status* status;
  switch (type) {
    case ORT_ATTRIBUTE_INT:
      ORT_TRY(ort->api.ReadOpAttr(attribute, type, &number, sizeof(number), &size));
      proto_int(to, ATTR_I, number);
      proto_int(to, ATTR_TYPE, INT);
      return NULL;
    case ORT_ATTRIBUTE_FLOAT:
      ORT_TRY(ort->api.ReadOpAttr(attribute, type, &real, sizeof(real), &size));
      proto_float(to, ATTR_F, real);
      proto_int(to, ATTR_TYPE, FLOAT);
      return NULL;
    case ORT_ATTRIBUTE_TENSOR:
      ORT_TRY(ort->api.OpAttr_GetTensorAttributeAsOrtValue(attribute, &value));
      status = write_tensor(ort, to, ATTR_T, NULL, value);
      proto_int(to, ATTR_TYPE, TENSOR);
      ort->api.ReleaseValue(value);
      return status;
    case ORT_ATTRIBUTE_INTS:
    case ORT_ATTRIBUTE_FLOATS:
    case ORT_ATTRIBUTE_STRING:
    case ORT_ATTRIBUTE_STRINGS:
      return write_list(ort, to, attribute, type);
    default:
      return fail(ort, ORT_FAIL, "tvmrt: an attribute has the unknown type %d", type);
  }
}

ort_status* write_attribute(const ort_functions* ort, bytes* to, const ort_attribute* attribute) {
  const char* name = NULL;
  int type = 0;
  size_t begin;
  ort_status* status;
  ORT_TRY(ort->api.OpAttr_GetType(attribute, &type));
  if (type == ORT_ATTRIBUTE_GRAPH) return NULL; /* written with the node's subgraphs */
  ORT_TRY(ort->api.OpAttr_GetName(attribute, &name));
  begin = proto_begin(to, 5);
  proto_text(to, ATTR_NAME, name);
  status = write_value(ort, to, attribute, type);
  proto_end(to, begin);
  return status;
}
