/* Firmware runtime: graphs whose runs choose extents. Linked only by such networks.
 *
 * Inputs have the shapes of the tensors that a program sets, all other tensors the largest shapes.
 * The first node of such a graph reads the run's sizes from the inputs; operators that write
 * outputs set the resulting extents. */
#include <tvm/runtime/crt/graph_dims.h>

#include "../../../src_backend/error_slot.h"
#include "../../../src_backend/mem_functions.h"
#include "graph.h"

enum { TEXT_BYTES = 80 /* the capacity of TVMGetLastError() */ };

/* A text that grows; text beyond its capacity is dropped. */
typedef struct text {
  char bytes[TEXT_BYTES];
  size_t length;
} text;

static void append(text* t, const char* more) {
  while (*more != '\0' && t->length < TEXT_BYTES - 1) t->bytes[t->length++] = *more++;
  t->bytes[t->length] = '\0';
}

/* A number, after the text `before`; a number that exceeds 32 bits is shown as their limit. Does
 * not use printf(), which would add kilobytes. */
static void append_number(text* t, const char* before, int64_t number) {
  char digits[12];
  char* at = &digits[sizeof(digits) - 1];
  uint32_t left = number > INT32_MAX || number < -INT32_MAX ? (uint32_t)INT32_MAX
                  : number < 0                              ? (uint32_t)-number
                                                            : (uint32_t)number;
  *at = '\0';
  do {
    *--at = (char)('0' + left % 10);
    left /= 10;
  } while (left != 0);
  if (number < 0) *--at = '-';
  append(t, before);
  append(t, at);
}

/* The error of an axis: "batch: found 9, allowed 1 to 8 (input x)". The code is enough where no
 * text is wanted; dim NULL means an axis without a name. */
static int32_t refuse(const char* dim, int32_t axis, int64_t found, int64_t minimum,
                      int64_t maximum, const char* where, const char* name) {
  text t = {{0}, 0};
  /* no text if the image does not link the functions that read it */
  if (!TVMRT_IS_LINKED(tvmrt__store_error)) return kTvmErrorNetworkDimensionOutOfRange;
  if (dim != NULL) {
    append(&t, dim);
  } else {
    append_number(&t, "axis ", axis);
  }
  append_number(&t, ": found ", found);
  append_number(&t, ", allowed ", minimum);
  if (maximum != minimum) append_number(&t, " to ", maximum);
  append(&t, where);
  append(&t, name);
  append(&t, ")");
  tvmrt__store_error(t.bytes);
  return kTvmErrorNetworkDimensionOutOfRange;
}

/* Has a text of its own, as there is no axis to name. */
static int32_t check_rank(const tvmrt_dims_tensor* desc, const DLTensor* given) {
  text t = {{0}, 0};
  if (given->ndim == desc->rank) return kTvmErrorNoError;
  if (TVMRT_IS_LINKED(tvmrt__store_error)) {
    append_number(&t, "found ", given->ndim);
    append_number(&t, " axes, allowed ", desc->rank);
    append(&t, " (input ");
    append(&t, desc->name);
    append(&t, ")");
    tvmrt__store_error(t.bytes);
  }
  return kTvmErrorGraphTensorMismatch;
}

/* The rank and the bounds of each axis; other inputs are not compared. */
static int32_t check_bounds(const tvmrt_dims* dims, const tvmrt_dims_tensor* desc,
                            const DLTensor* given) {
  int32_t rc = check_rank(desc, given);
  int32_t i;
  for (i = 0; rc == kTvmErrorNoError && i < desc->rank; ++i) {
    int64_t extent = given->shape[i];
    if (extent >= desc->min[i] && extent <= desc->max[i]) continue;
    rc = refuse(desc->dim[i] < 0 ? NULL : dims->dims[desc->dim[i]].name, i, extent, desc->min[i],
                desc->max[i], " (input ", desc->name);
  }
  return rc;
}

/* Called by the graph's first node with the inputs. A dimension of several inputs must be the same
 * in all. */
int32_t tvmrt_graph_read_dims(const tvmrt_dims* dims, const TVMValue* args, int32_t* sizes) {
  int32_t i;
  int32_t k;
  /* unknown yet: sizes of a run are never negative */
  for (i = 0; i < dims->num_dims; ++i) sizes[i] = -1;
  for (i = 0; i < dims->num_inputs; ++i) {
    const tvmrt_dims_tensor* desc = &dims->inputs[i];
    const DLTensor* given = (const DLTensor*)args[i].v_handle;
    int32_t rc = check_bounds(dims, desc, given);
    if (rc != kTvmErrorNoError) return rc;
    for (k = 0; k < desc->rank; ++k) {
      int32_t* size = desc->dim[k] < 0 ? NULL : &sizes[desc->dim[k]];
      if (size == NULL) continue;
      if (*size >= 0 && *size != given->shape[k]) {
        return refuse(dims->dims[desc->dim[k]].name, k, given->shape[k], *size, *size,
                      " as in another input (input ", desc->name);
      }
      *size = (int32_t)given->shape[k];
    }
  }
  return kTvmErrorNoError;
}

/* For extents derived from dimensions: `extent` is the expected one. Called by the generated first
 * node, after tvmrt_graph_read_dims(), which has checked the rank. */
int32_t tvmrt_graph_check_extent(TVMValue arg, const char* input, int32_t axis, int64_t extent) {
  const DLTensor* given = (const DLTensor*)arg.v_handle;
  if (given->shape[axis] == extent) return kTvmErrorNoError;
  return refuse(NULL, axis, given->shape[axis], extent, extent, " from other dimensions (input ",
                input);
}

/* For a dimension that is not an axis: its size from an axis whose extent is `step` times the size
 * plus `first`. On failure the text has the nearest valid extent. */
int32_t tvmrt_graph_check_steps(TVMValue arg, const char* input, int32_t axis, int32_t step,
                                int32_t first, int32_t* size) {
  const DLTensor* given = (const DLTensor*)arg.v_handle;
  int64_t extent;
  *size = (int32_t)((given->shape[axis] - first) / step);
  extent = (int64_t)*size * step + first;
  if (given->shape[axis] == extent) return kTvmErrorNoError;
  return refuse(NULL, axis, given->shape[axis], extent, extent, " next (input ", input);
}

/* Extents only decrease from the maximum set by show_capacity(). Called by the operator that writes
 * the output; if the extent does not fit, it stays unchanged. */
int32_t tvmrt_graph_set_extent(TVMValue arg, const char* output, int32_t axis, int64_t extent) {
  DLTensor* given = (DLTensor*)arg.v_handle;
  int64_t capacity = axis < given->ndim ? given->shape[axis] : 0;
  if (capacity < extent) return refuse(NULL, axis, extent, 0, capacity, " (output ", output);
  given->shape[axis] = extent;
  return kTvmErrorNoError;
}

/* Inputs after the network's own are weights, whose shapes are fixed. On failure nothing is bound
 * and no shape changes, so that the input stays unchanged. */
static tvm_crt_error_t set_input(TVMGraphExecutor* g, uint32_t input, const DLTensor* tensor) {
  const DLTensor* own = &g->entries[g->inputs[input].entry];
  DLTensor expected = *own;
  uint8_t* data = NULL;
  int32_t rc = kTvmErrorNoError;
  if (tensor != NULL && input < (uint32_t)g->dims->num_inputs) {
    rc = check_bounds(g->dims, &g->dims->inputs[input], tensor);
    expected.shape = tensor->shape;
  }
  if (rc == kTvmErrorNoError) rc = tvmrt__graph_compare(&expected, tensor, &data);
  if (rc != kTvmErrorNoError) return (tvm_crt_error_t)rc;
  if (expected.shape != own->shape) {
    memcpy(own->shape, expected.shape, (size_t)own->ndim * sizeof(*own->shape));
  }
  tvmrt__graph_bind(g, input, data);
  return kTvmErrorNoError;
}

/* Several operators may write parts of an output: each has its own tensor for it, with one storage.
 * Inputs keep their shapes, even if the graph also lists them as outputs. */
static void show_capacity(const TVMGraphExecutor* g) {
  int32_t i;
  uint32_t k;
  for (i = 0; i < g->dims->num_outputs; ++i) {
    const tvmrt_dims_tensor* desc = &g->dims->outputs[i];
    uint16_t storage = g->storage_ids[g->heads[i]];
    for (k = 0; k < g->num_entries && (storage & EXTERNAL) == 0; ++k) {
      const DLTensor* own = &g->entries[k];
      if (g->storage_ids[k] != storage || own->ndim != desc->rank) continue;
      memcpy(own->shape, desc->max, (size_t)desc->rank * sizeof(*own->shape));
    }
  }
}

/* Used by tvmrt_graph_open() alone, so that other networks link none of this. */
static const graph_sizes sizes = {set_input, show_capacity};

/* Whether the graph has the largest extents of a tensor. A graph and a table of dimensions from
 * different networks would write out of bounds. */
static int is_same(const tvmrt_dims_tensor* desc, const DLTensor* own) {
  return desc->rank == own->ndim &&
         memcmp(desc->max, own->shape, (size_t)own->ndim * sizeof(*own->shape)) == 0;
}

/* Called by tvmrt__graph_read() when the tables are complete; sets the executor's sizes. */
int32_t tvmrt_graph_open(TVMGraphExecutor* executor, const tvmrt_dims* dims) {
  int32_t i;
  int ok = dims->num_inputs <= executor->num_inputs && dims->num_outputs == executor->num_heads;
  for (i = 0; ok && i < dims->num_inputs; ++i) {
    ok = is_same(&dims->inputs[i], &executor->entries[executor->inputs[i].entry]);
  }
  for (i = 0; ok && i < dims->num_outputs; ++i) {
    ok = is_same(&dims->outputs[i], &executor->entries[executor->heads[i]]);
  }
  if (!ok) return kTvmErrorGraphInconsistent;
  executor->dims = dims;
  executor->sizes = &sizes;
  return kTvmErrorNoError;
}
