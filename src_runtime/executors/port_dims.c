/* Inputs and outputs with dynamic dimensions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"

/* A declared dimension with equal bounds is a fixed extent. */
static bool is_open(const tvmrt_dims_tensor* about) {
  int32_t i = 0;
  while (i < about->rank && about->least[i] == about->most[i]) ++i;
  return i < about->rank;
}

/* The port uses its own memory, which has the maximum capacity. */
static int open_port(tvmrt_port* port, const tvmrt_dims_tensor* about, const tvmrt_dims* dims) {
  const DLTensor* t = &port->bound->dl;
  const size_t bytes = (size_t)about->rank * sizeof(*port->room);
  if (about->rank != t->ndim || memcmp(about->most, t->shape, bytes) != 0) {
    return tvmrt__fail_value("the library's dimensions of '%.80s' are not those of its tensor.",
                             port->name);
  }
  port->room = tvmrt__calloc((size_t)about->rank, sizeof(*port->room));
  if (port->room == NULL) return -1;
  /* Extents of the bound tensor change with each run; the capacity of its memory does not. */
  memcpy(port->room, t->shape, bytes);
  port->about = about;
  port->dims = dims;
  return 0;
}

/* Row i describes port i; ports without a row have fixed extents. */
static int open_ports(const tvmrt_ports* side, const tvmrt_dims_tensor* about, int32_t num_about,
                      const tvmrt_dims* dims) {
  int32_t i;
  /* The number comes from the library, which may be damaged. */
  if (num_about < 0 || (size_t)num_about > side->count) {
    return tvmrt__fail_value("the library has dimensions of %d tensors, the network has %zu.",
                             (int)num_about, side->count);
  }
  for (i = 0; i < num_about; ++i) {
    if (is_open(&about[i])) TVMRT_RETURN_IF_ERROR(open_port(&side->items[i], &about[i], dims));
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
  TVMRT_RETURN_IF_ERROR(open_ports(&e->inputs, dims->inputs, dims->num_inputs, dims));
  return open_ports(&e->outputs, dims->outputs, dims->num_outputs, dims);
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
static int misfit_axis(const tvmrt_dims_tensor* about, const DLTensor* given) {
  int i;
  for (i = 0; i < about->rank; ++i) {
    if (given->shape[i] < about->least[i] || given->shape[i] > about->most[i]) return i;
  }
  return -1;
}

bool tvmrt__port_admits(const tvmrt_port* port, const DLTensor* given) {
  if (port->about == NULL) return tvmrt__same_shape(&port->bound->dl, given);
  return given->ndim == port->about->rank && misfit_axis(port->about, given) < 0;
}

void tvmrt__port_note_room(tvmrt_port* port) {
  if (port->about == NULL) return;
  /* A caller's tensor has the capacity of its extents. */
  memcpy(port->room, port->bound == port->own ? port->about->most : port->bound->dl.shape,
         (size_t)port->about->rank * sizeof(*port->room));
}

/* The error text names what a user can change: a dimension by its name if one is wrong, else the
 * whole shape. */
int tvmrt__port_fail_fit(const tvmrt_port* port, const char* kind, const DLTensor* given) {
  const tvmrt_dims_tensor* about = port->about;
  char a[TVMRT_TENSOR_TEXT_BYTES];
  char b[TVMRT_TENSOR_TEXT_BYTES];
  DLTensor most = port->bound->dl;
  int axis = about == NULL || given->ndim != about->rank ? -1 : misfit_axis(about, given);
  if (axis >= 0) {
    const int32_t which = about->dim[axis];
    char most_text[32] = ""; /* a fixed extent is a single number */
    if (about->least[axis] != about->most[axis]) {
      (void)snprintf(most_text, sizeof(most_text), " to %" PRId64, about->most[axis]);
    }
    return tvmrt__fail_value("%s '%.80s': axis %d%s%.80s has %" PRId64
                             " elements, expected %" PRId64 "%s.",
                             kind, port->name, axis, which < 0 ? "" : ", dimension ",
                             which < 0 ? "" : port->dims->dims[which].name, given->shape[axis],
                             about->least[axis], most_text);
  }
  if (about != NULL) most.shape = (int64_t*)(uintptr_t)about->most; /* only read */
  return tvmrt__fail_value("%s '%s' is %s%s, got %s.", kind, port->name,
                           about == NULL ? "" : "at most ", tvmrt__tensor_text(&most, a),
                           tvmrt__tensor_text(given, b));
}
