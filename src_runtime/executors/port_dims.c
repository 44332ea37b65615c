/* Inputs and outputs with dynamic dimensions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"

/* A declared dimension with equal bounds is a fixed extent. */
bool tvmrt__has_dynamic_extent(const tvmrt_dims_tensor* desc) {
  int32_t i = 0;
  while (i < desc->rank && desc->min[i] == desc->max[i]) ++i;
  return i < desc->rank;
}

/* The port uses its own memory, which has the maximum capacity, or the minimum if it grows. */
static int init_dynamic_port(tvmrt_port* port, const tvmrt_dims_tensor* desc,
                             const tvmrt_dims* dims) {
  const DLTensor* t = &port->bound->dl;
  const size_t bytes = (size_t)desc->rank * sizeof(*port->capacity);
  if (desc->rank != t->ndim || memcmp(port->grows ? desc->min : desc->max, t->shape, bytes) != 0) {
    return tvmrt__fail_value(
        "the library's dimensions of '%.80s' do not match the tensor; compile the network again.",
        port->name);
  }
  port->capacity = tvmrt__calloc((size_t)desc->rank, sizeof(*port->capacity));
  if (port->capacity == NULL) return -1;
  /* Extents of the bound tensor change with each run; the capacity of its memory does not. */
  memcpy(port->capacity, t->shape, bytes);
  port->desc = desc;
  port->dims = dims;
  return 0;
}

int tvmrt__check_described(const tvmrt_ports* side, const char* property, int32_t count) {
  /* The number comes from the library, which may be damaged. */
  if (count >= 0 && (size_t)count <= side->count) return 0;
  return tvmrt__fail_value(
      "the library has %s of %d tensors, the network has %zu; compile the network again.", property,
      (int)count, side->count);
}

/* Row i describes port i; ports without a row have fixed extents. */
static int init_dynamic_ports(const tvmrt_ports* side, const tvmrt_dims_tensor* desc,
                              int32_t num_descs, const tvmrt_dims* dims) {
  int32_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__check_described(side, "dimensions", num_descs));
  for (i = 0; i < num_descs; ++i) {
    if (tvmrt__has_dynamic_extent(&desc[i]))
      TVMRT_RETURN_IF_ERROR(init_dynamic_port(&side->items[i], &desc[i], dims));
  }
  return 0;
}

/* The network's own function takes precedence: in a library of several networks, the plain name
 * describes one of them. */
int tvmrt__network_pointer(tvmrt_module* library, const char* network, const char* name,
                           void** out) {
  tvmrt_buf symbol = {NULL, 0, 0};
  int rc = 0;
  *out = NULL;
  if (network != NULL) {
    rc = tvmrt__buf_printf(&symbol, "%s_%s", network, name);
    if (rc == 0) rc = tvmrt__module_call_pointer(library, symbol.data, out);
    tvmrt__buf_free(&symbol);
  }
  if (rc != 0 || *out != NULL) return rc;
  return tvmrt__module_call_pointer(library, name, out);
}

/* Called once, while ports only have their own tensors. */
int tvmrt__executor_read_dims(tvmrt_executor* e, const char* network) {
  const tvmrt_dims* dims;
  void* found;
  /* A struct inside the library's code: it lives as long as the library is retained. */
  TVMRT_RETURN_IF_ERROR(tvmrt__network_pointer(e->module.library, network, "get_dims", &found));
  dims = found;
  e->dims = dims;
  if (dims == NULL) return 0;
  TVMRT_RETURN_IF_ERROR(init_dynamic_ports(&e->inputs, dims->inputs, dims->num_inputs, dims));
  return init_dynamic_ports(&e->outputs, dims->outputs, dims->num_outputs, dims);
}

/* Libraries of other compilers have no such function, and no state. */
int tvmrt__library_has_state(tvmrt_module* library, const char* network, bool* out) {
  void* found;
  TVMRT_RETURN_IF_ERROR(tvmrt__network_pointer(library, network, "get_state", &found));
  /* Any non-NULL pointer means state; only generated code reads the target. */
  *out = found != NULL;
  return 0;
}

/* The first axis out of its bounds, both inclusive; -1: none. The ranks are equal. */
static int out_of_bounds_axis(const tvmrt_dims_tensor* desc, const DLTensor* given) {
  int i;
  for (i = 0; i < desc->rank; ++i) {
    if (given->shape[i] < desc->min[i] || given->shape[i] > desc->max[i]) return i;
  }
  return -1;
}

bool tvmrt__port_accepts(const tvmrt_port* port, const DLTensor* given) {
  if (port->desc == NULL) return tvmrt__same_shape(&port->bound->dl, given);
  return given->ndim == port->desc->rank && out_of_bounds_axis(port->desc, given) < 0;
}

void tvmrt__port_record_capacity(tvmrt_port* port) {
  if (port->desc == NULL) return;
  /* A caller's tensor has the capacity of its extents. */
  memcpy(port->capacity,
         port->bound == port->own && !port->grows ? port->desc->max : port->bound->dl.shape,
         (size_t)port->desc->rank * sizeof(*port->capacity));
}

/* Whether an axis has no maximum; one that is a multiple of a number has a slightly lower one. */
static bool is_open(const tvmrt_dims_tensor* desc, int axis) {
  return desc->min[axis] != desc->max[axis] && desc->max[axis] > INT32_MAX - 1024;
}

/* The error text names the dimension that a user can change: a dimension by its name if one is
 * wrong, else the whole shape. */
int tvmrt__port_type_error(const tvmrt_port* port, const char* kind, const DLTensor* given) {
  const tvmrt_dims_tensor* desc = port->desc;
  char a[TVMRT_TENSOR_TEXT_BYTES];
  char b[TVMRT_TENSOR_TEXT_BYTES];
  DLTensor most = port->bound->dl;
  int axis = desc == NULL || given->ndim != desc->rank ? -1 : out_of_bounds_axis(desc, given);
  if (axis >= 0) {
    const int32_t dim_index = desc->dim[axis];
    char maximum_text[32] = ""; /* a fixed extent is a single number */
    if (is_open(desc, axis)) {
      (void)snprintf(maximum_text, sizeof(maximum_text), " or more");
    } else if (desc->min[axis] != desc->max[axis]) {
      (void)snprintf(maximum_text, sizeof(maximum_text), " to %" PRId64, desc->max[axis]);
    }
    return tvmrt__fail_value("%s '%.80s': axis %d%s%.80s has %" PRId64
                             " elements, expected %" PRId64 "%s.",
                             kind, port->name, axis, dim_index < 0 ? "" : ", dimension ",
                             dim_index < 0 ? "" : port->dims->dims[dim_index].name,
                             given->shape[axis], desc->min[axis], maximum_text);
  }
  for (axis = 0; desc != NULL && axis < desc->rank; ++axis) {
    if (!is_open(desc, axis)) continue;
    tvmrt__dtype_to_text(most.dtype, a);
    return tvmrt__fail_value("%s '%s' is %s with %d axes, got %s.", kind, port->name, a,
                             (int)desc->rank, tvmrt__tensor_text(given, b));
  }
  if (desc != NULL) most.shape = (int64_t*)(uintptr_t)desc->max; /* only read */
  return tvmrt__fail_value("%s '%s' is %s%s, got %s.", kind, port->name,
                           desc == NULL ? "" : "at most ", tvmrt__tensor_text(&most, a),
                           tvmrt__tensor_text(given, b));
}
