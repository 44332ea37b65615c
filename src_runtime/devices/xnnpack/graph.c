/* Values of a region in XNNPACK's graph, and their constants.
 *
 * Ids of values are made with the first node that needs them and remembered by the region's
 * numbers. Constants are defined for each reader anew: they may lie in another order for each. */
#include "graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "copy.h"

/* Texts are cut at the buffer's size; the thread's error is the runtime's. */
void graph_set_error(const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  TVMPackedFuncSetLastError(text);
}

/* -1 with a text unless the status is success. Lack of memory is told apart, since nothing is
 * wrong with the region then. */
int graph_check(enum xnn_status status, const char* what) {
  if (status == xnn_status_success) return 0;
  if (status == xnn_status_out_of_memory) return graph_fail("out of memory");
  return graph_fail("XNNPACK refuses %s (status %d)", what, (int)status);
}

/* XNNPACK's images are [N, H, W, C]. The runtime has turned the tensors of borders so, but the
 * shapes of a region stay [N, C, ...]; an image of one axis has height 1. */
size_t graph_dims(const tvmrt_region_tensor* tensor, size_t* dims) {
  const int64_t* shape = tensor->shape;
  int32_t i;
  for (i = 0; i < GRAPH_MAX_RANK; ++i) dims[i] = i < tensor->ndim ? (size_t)shape[i] : 1;
  if (tensor->ndim < 3) return (size_t)tensor->ndim;
  dims[1] = tensor->ndim == 4 ? (size_t)shape[2] : 1;
  dims[2] = (size_t)shape[tensor->ndim - 1];
  dims[3] = (size_t)shape[1];
  return 4;
}

/* As graph_dims(), of strides: 0 along the axis that is added, which has one element. */
void graph_order(int rank, const int64_t* strides, int64_t* out) {
  int i;
  if (rank < 3) {
    for (i = 0; i < rank; ++i) out[i] = strides[i];
    return;
  }
  out[0] = strides[0];
  out[1] = rank == 4 ? strides[2] : 0;
  out[2] = strides[rank - 1];
  out[3] = strides[1];
}

/* Constants ----------------------------------------------------------------------------------- */

/* So large a copy has pages of its own, which leave the process with it: in the heap, packed
 * weights would lie behind it and hold them. */
#define MAPPED_BYTES ((size_t)64 << 10)

/* With room behind it, as XNNPACK reads beyond what it needs. NULL without memory. The head lies
 * in front of the numbers, in one block. */
static graph_constant* new_constant(size_t bytes) {
  const size_t whole = sizeof(graph_constant) + bytes + XNN_EXTRA_BYTES;
  graph_constant* made;
  if (whole < MAPPED_BYTES) {
    made = malloc(whole);
    if (made != NULL) made->mapped_bytes = 0;
    return made;
  }
  made = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return NULL;
  made->mapped_bytes = whole;
  return made;
}

/* Each says by itself which way it came. */
static void free_constants(graph_constant** list) {
  while (*list != NULL) {
    graph_constant* first = *list;
    *list = first->next;
    if (first->mapped_bytes == 0) {
      free(first);
    } else {
      (void)munmap(first, first->mapped_bytes);
    }
  }
}

/* The list owns the copy from the beginning, so a failure afterwards frees it, too. Elements are
 * put into XNNPACK's order, and broadcast where a stride is 0. */
static int copy_constant(graph_constant** list, const tvmrt_region_tensor* tensor, size_t num_dims,
                         const size_t* dims, const int64_t* strides, void** out) {
  const size_t item = tensor->dtype.bits / 8u;
  size_t count = 1, i;
  graph_constant* made;
  for (i = 0; i < num_dims; ++i) count *= dims[i];
  made = new_constant(count * item);
  if (made == NULL) return graph_fail("out of memory");
  made->next = *list;
  *list = made;
  copy_to_dense(made + 1, tensor->data, item, num_dims, dims, strides);
  *out = made + 1;
  return 0;
}

/* Sources are read while XNNPACK packs weights and not afterwards, so all of them go when it has:
 * graph_packed(). */
int graph_source_copy(graph* g, const tvmrt_region_tensor* tensor, size_t num_dims,
                      const size_t* dims, const int64_t* strides, void** out) {
  return copy_constant(&g->sources, tensor, num_dims, dims, strides, out);
}

/* In the library where they already lie as XNNPACK reads them: no copy of a network's weights is
 * made for packing alone. */
int graph_source(graph* g, const tvmrt_region_tensor* tensor, size_t num_dims, const size_t* dims,
                 const int64_t* strides, const void** out) {
  void* copy = NULL;
  *out = tensor->data;
  if (copy_is_dense(num_dims, dims, strides)) return 0;
  GRAPH_TRY(graph_source_copy(g, tensor, num_dims, dims, strides, &copy));
  *out = copy;
  return 0;
}

/* Constants of other types have other ways (quantized.c). */
static int check_floats(const tvmrt_region_tensor* tensor) {
  if (tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32) return 0;
  return graph_fail("%s is not of float32", tensor->name);
}

/* A static value: the data must stay as long as the value is used. XNNPACK copies nothing: it
 * keeps the address. */
static int define_floats(graph* g, const tvmrt_region_tensor* tensor, size_t num_dims,
                         const size_t* dims, const void* data, uint32_t* out_id) {
  return graph_check(xnn_define_tensor_value(g->subgraph, xnn_datatype_fp32, num_dims, dims, data,
                                             XNN_INVALID_VALUE_ID, 0, out_id),
                     tensor->name);
}

/* A constant that is packed: it may go behind graph_packed(). */
int graph_source_value(graph* g, const tvmrt_region_tensor* tensor, size_t num_dims,
                       const size_t* dims, const int64_t* strides, uint32_t* out_id) {
  const void* data = NULL;
  GRAPH_TRY(check_floats(tensor));
  GRAPH_TRY(graph_source(g, tensor, num_dims, dims, strides, &data));
  return define_floats(g, tensor, num_dims, dims, data, out_id);
}

/* Values -------------------------------------------------------------------------------------- */

/* Of operands and results. `external` is the number by which runs bind memory, or
 * XNN_INVALID_VALUE_ID inside of the graph. Bytes need their scale, which quantized_assign() has
 * found before. */
int graph_define(graph* g, int32_t tensor, uint32_t external, uint32_t flags) {
  const tvmrt_region_tensor* t = &g->region->tensors[tensor];
  const graph_quantization* q = &g->quantizations[tensor];
  const bool is_float = t->dtype.code == kDLFloat && t->dtype.bits == 32;
  size_t dims[GRAPH_MAX_RANK], count;
  if (t->ndim > GRAPH_MAX_RANK) return graph_fail("%s has %d axes", t->name, (int)t->ndim);
  if (!is_float && (t->dtype.bits != 8 || t->dtype.code == kDLFloat)) {
    return graph_fail("%s is neither of float32 nor of 8-bit integers", t->name);
  }
  count = graph_dims(t, dims);
  return graph_check(
      is_float
          ? xnn_define_tensor_value(g->subgraph, xnn_datatype_fp32, count, dims, NULL, external,
                                    flags, &g->ids[tensor])
          : xnn_define_quantized_tensor_value(
                g->subgraph, t->dtype.code == kDLInt ? xnn_datatype_qint8 : xnn_datatype_quint8,
                q->zero, q->scale, count, dims, NULL, external, flags, &g->ids[tensor]),
      t->name);
}

/* A constant of up to `rank` axes in the region as XNNPACK's of as many, whose extents broadcast.
 * Copied to the graph's own list, as XNNPACK reads small constants in each run. Freed with the
 * graph, behind the runtime. */
static int broadcast_constant(graph* g, const tvmrt_region_tensor* tensor, int rank,
                              uint32_t* out_id) {
  int64_t shape[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK], moved[GRAPH_MAX_RANK], step = 1;
  tvmrt_region_tensor wide = *tensor;
  size_t dims[GRAPH_MAX_RANK], count;
  void* kept = NULL;
  int i, missing = rank - tensor->ndim;
  for (i = rank - 1; i >= 0; --i) {
    shape[i] = i < missing ? 1 : tensor->shape[i - missing];
    strides[i] = step;
    step *= shape[i];
  }
  wide.ndim = rank;
  wide.shape = shape;
  count = graph_dims(&wide, dims);
  graph_order(rank, strides, moved);
  GRAPH_TRY(check_floats(tensor));
  GRAPH_TRY(copy_constant(&g->constants, tensor, count, dims, moved, &kept));
  return define_floats(g, tensor, count, dims, kept, out_id);
}

/* Of operators that broadcast: XNNPACK aligns axes at the end, and channels lie there, so missing
 * axes have to be written out first. Tensors that are computed must have the rank already:
 * check_operand() has seen to it. */
int graph_operand(graph* g, int32_t tensor, int rank, uint32_t* out_id) {
  const tvmrt_region_tensor* t = &g->region->tensors[tensor];
  if (!t->is_constant) return graph_value(g, tensor, out_id);
  if (t->ndim > rank || rank > GRAPH_MAX_RANK) {
    return graph_fail("%s has %d axes", t->name, (int)t->ndim);
  }
  return broadcast_constant(g, t, rank, out_id);
}

/* The first use defines it. Of constants a value is made for each reader, see the file's head. */
int graph_value(graph* g, int32_t tensor, uint32_t* out_id) {
  const tvmrt_region_tensor* t = &g->region->tensors[tensor];
  if (g->ids[tensor] == XNN_INVALID_VALUE_ID) {
    if (t->is_constant) return broadcast_constant(g, t, t->ndim, out_id);
    GRAPH_TRY(graph_define(g, tensor, XNN_INVALID_VALUE_ID, 0));
  }
  *out_id = g->ids[tensor];
  return 0;
}

/* The graph ----------------------------------------------------------------------------------- */

/* calloc() and malloc() of at least one, since NULL means no memory here. On failure graph_free()
 * takes what is there. */
int graph_init(graph* g, const tvmrt_region* region) {
  const size_t count = (size_t)region->num_tensors,
               borders = (size_t)region->num_inputs + (size_t)region->num_outputs;
  size_t i;
  g->region = region;
  g->ids = malloc((count + 1) * sizeof(*g->ids));
  g->quantizations = calloc(count + 1, sizeof(*g->quantizations));
  if (g->ids == NULL || g->quantizations == NULL) return graph_fail("out of memory");
  for (i = 0; i < count; ++i) g->ids[i] = XNN_INVALID_VALUE_ID;
  return graph_check(xnn_create_subgraph((uint32_t)borders, 0, &g->subgraph), "a graph");
}

/* The runtime has its own copy of the graph by then. */
void graph_packed(graph* g) {
  if (g->subgraph != NULL) (void)xnn_delete_subgraph(g->subgraph);
  g->subgraph = NULL;
  free_constants(&g->sources);
}

/* XNNPACK's runtime must be gone: it reads the constants. */
void graph_free(graph* g) {
  graph_packed(g);
  free_constants(&g->constants);
  free(g->ids);
  free(g->quantizations);
}
