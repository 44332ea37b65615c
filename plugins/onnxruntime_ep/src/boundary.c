/* The inputs and outputs of a compiled part, compared with those of its node in the model. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "provider.h"
#include "sdk/tensors.h"

enum {
  MAX_AXES = 64,
  MAX_STEP = 1024 /* a multiple of a step without a maximum ends that much below INT32_MAX */
};

/* Names of the runtime for onnxruntime's element types, by number. */
static const char* const element_names[] = {
    "undefined",       "float32",     "uint8",           "int8",       "uint16",   "int16",
    "int32",           "int64",       "string",          "bool",       "float16",  "float64",
    "uint32",          "uint64",      "complex64",       "complex128", "bfloat16", "e4m3_float8",
    "e4m3fnuz_float8", "e5m2_float8", "e5m2fnuz_float8", "uint4",      "int4",     "e2m1_float4",
    "uint2",           "int2",        "e8m0fnu_float8",
};
enum { NUM_ELEMENTS = sizeof(element_names) / sizeof(element_names[0]) };

/* A tensor as the model declares it. */
typedef struct declared {
  const char *name, *element;
  bool has_shape;
  size_t rank;
  int64_t extents[MAX_AXES]; /* negative: not fixed */
} declared;

static bool read_declared(job* j, const ort_value_info* info, declared* out) {
  const ort_type* type = NULL;
  const ort_shape* shape = NULL;
  int element = 0;
  *out = (declared){.name = "", .element = element_names[0]};
  if (info == NULL) return !j->has_failed; /* an optional input that is not given */
  ORT(j, api.GetValueInfoName, info, &out->name);
  ORT(j, api.GetValueInfoTypeInfo, info, &type);
  if (type != NULL) ORT(j, api.CastTypeInfoToTensorInfo, type, &shape);
  if (j->has_failed || shape == NULL) return !j->has_failed;
  ORT(j, api.GetTensorElementType, shape, &element);
  if (element > 0 && element < NUM_ELEMENTS) out->element = element_names[element];
  out->has_shape = j->ort->api.TensorTypeAndShape_HasShape(shape);
  ORT(j, api.GetDimensionsCount, shape, &out->rank);
  if (out->rank > MAX_AXES) return job_fail(j, ORT_FAIL, "%.80s has too many axes", out->name);
  return ORT(j, api.GetDimensions, shape, out->extents, out->rank);
}

/* An extent is fixed or has bounds. */
static int64_t min_extent(const library_port* port, size_t axis) {
  return port->dims == NULL ? port->tensor->shape[axis] : port->dims->min[axis];
}

static int64_t max_extent(const library_port* port, size_t axis) {
  return port->dims == NULL ? port->tensor->shape[axis] : port->dims->max[axis];
}

/* An extent that the model leaves open is compared by each run. */
static bool has_shape_of(const declared* model, const library_port* port) {
  if (!model->has_shape) return true;
  if (model->rank != (size_t)port->tensor->ndim) return false;
  for (size_t i = 0; i < model->rank; ++i) {
    if (model->extents[i] < 0) continue;
    if (model->extents[i] < min_extent(port, i) || model->extents[i] > max_extent(port, i)) {
      return false;
    }
  }
  return true;
}

/* Graph executors add ":" and the index to the name of an output. */
static bool has_name_of(const declared* model, const library_port* port) {
  const size_t size = strlen(model->name);
  char suffix[24];
  if (strncmp(port->name, model->name, size) != 0) return false;
  (void)snprintf(suffix, sizeof(suffix), ":%zu", port->index);
  return port->name[size] == '\0' || (!port->is_input && strcmp(port->name + size, suffix) == 0);
}

static bool has_element_of(const declared* model, const library_port* port) {
  DLDataType dtype;
  return tvmrt__dtype_from_text(model->element, &dtype) == 0 &&
         tvmrt__same_dtype(dtype, port->tensor->dtype);
}

/* Append a range of extents, such as 4, 1..8, 1.. without a maximum or, if it is not known, ?. */
static void add_extent(tvmrt_buf* to, size_t axis, int64_t low, int64_t high) {
  (void)tvmrt__buf_puts(to, axis == 0 ? "" : ",");
  if (low < 0) {
    (void)tvmrt__buf_puts(to, "?");
  } else if (low == high) {
    (void)tvmrt__buf_printf(to, "%" PRId64, low);
  } else if (high > INT32_MAX - MAX_STEP) {
    (void)tvmrt__buf_printf(to, "%" PRId64 "..", low);
  } else {
    (void)tvmrt__buf_printf(to, "%" PRId64 "..%" PRId64, low, high);
  }
}

static void fail_difference(job* j, const declared* model, const library_port* port) {
  tvmrt_buf wanted = {NULL, 0, 0}, found = {NULL, 0, 0};
  char element[TVMRT_DTYPE_TEXT_BYTES];
  tvmrt__dtype_to_text(port->tensor->dtype, element);
  for (size_t i = 0; i < model->rank; ++i) {
    add_extent(&found, i, model->extents[i], model->extents[i]);
  }
  for (int32_t i = 0; i < port->tensor->ndim; ++i) {
    add_extent(&wanted, (size_t)i, min_extent(port, (size_t)i), max_extent(port, (size_t)i));
  }
  job_fail(
      j, ORT_INVALID_ARGUMENT,
      "%s %zu of a compiled part is '%.80s' %s[%.200s] in its library and '%.80s' %s[%.200s] in "
      "the model; compile the model again",
      port->is_input ? "input" : "output", port->index, port->name, element,
      wanted.data == NULL ? "" : wanted.data, model->name, model->element,
      !model->has_shape    ? "..."
      : found.data == NULL ? ""
                           : found.data);
  tvmrt__buf_free(&wanted);
  tvmrt__buf_free(&found);
}

void boundary_check(job* j, const ort_value_info* info, const library_port* port) {
  declared model;
  if (!read_declared(j, info, &model)) return;
  if (has_name_of(&model, port) && has_element_of(&model, port) && has_shape_of(&model, port))
    return;
  fail_difference(j, &model, port);
}
