/*
 * A region's values in a graph of XNNPACK.
 *
 * XNNPACK's images have their channels innermost. A tensor of rank 3 or 4 is an image to it, [N, C, W] or
 * [N, C, H, W] in the region and [N, H, W, C] in the graph; one of a lower rank is as it is. Callers'
 * tensors that lie otherwise are copied at the border.
 *
 * Functions return 0, or -1 with the error text set.
 */
#ifndef TVMRT_DEVICES_XNNPACK_GRAPH_H_
#define TVMRT_DEVICES_XNNPACK_GRAPH_H_

#include <stdbool.h>
#include <tvm/runtime/device.h>
#include <xnnpack.h>

#define GRAPH_MAX_RANK 4

#define GRAPH_TRY(expression)         \
  do {                                \
    if ((expression) != 0) return -1; \
  } while (0)

/* Memory for constants in XNNPACK's order. */
typedef struct graph_constant {
  struct graph_constant* next;
  size_t mapped_bytes; /* 0: of the heap */
} graph_constant;

/* What the numbers of an 8-bit tensor mean: (number - zero) * scale. */
typedef struct {
  float scale; /* 0: not known yet */
  int32_t zero;
  bool has_zero;
} graph_quantization;

typedef struct {
  const tvmrt_region* region;
  xnn_subgraph_t subgraph; /* NULL when the runtime is made */
  uint32_t* ids; /* of the region's tensors; XNN_INVALID_VALUE_ID where there is none yet */
  graph_quantization* quantizations; /* of the region's tensors */
  graph_constant* constants;         /* that runs read */
  graph_constant* sources;           /* that XNNPACK packs when the runtime is made */
} graph;

/* `g` is zeroed before; graph_free() frees what it holds, also after a failure. */
int graph_init(graph* g, const tvmrt_region* region);
void graph_free(graph* g);

/* The runtime is made: the subgraph and what was packed go. */
void graph_packed(graph* g);

/* -1, and the text of the error; a macro, so that analyzers see what it is. */
#define graph_fail(...) (graph_set_error(__VA_ARGS__), -1)
void graph_set_error(const char* format, ...);
int graph_check(enum xnn_status status, const char* what);

/* Extents of a tensor in XNNPACK's order, GRAPH_MAX_RANK of them, behind its own 1; how many are its own. */
size_t graph_dims(const tvmrt_region_tensor* tensor, size_t* dims);

/* Strides of a tensor of `rank` axes in XNNPACK's order. */
void graph_order(int rank, const int64_t* strides, int64_t* out);

/* Define the value of a tensor that is no constant; `external` is its number at the border, or
 * XNN_INVALID_VALUE_ID. */
int graph_define(graph* g, int32_t tensor, uint32_t external, uint32_t flags);

/* The value of a tensor: an input, a result of an earlier node, or one that is defined now. */
int graph_value(graph* g, int32_t tensor, uint32_t* out_id);

/* The value of an operand of a pointwise node with a result of `rank` axes in the region. */
int graph_operand(graph* g, int32_t tensor, int rank, uint32_t* out_id);

/* What XNNPACK packs: a constant, dense in the order of `dims`; axis d is read `strides[d]` elements on.
 * The region's own memory where it lies so, else a copy until graph_packed(). */
int graph_source(graph* g, const tvmrt_region_tensor* tensor, size_t num_dims, const size_t* dims,
                 const int64_t* strides, const void** out);

/* Such a copy in any case, which may be written. */
int graph_source_copy(graph* g, const tvmrt_region_tensor* tensor, size_t num_dims,
                      const size_t* dims, const int64_t* strides, void** out);

/* What XNNPACK packs as a value of floats. */
int graph_source_value(graph* g, const tvmrt_region_tensor* tensor, size_t num_dims,
                       const size_t* dims, const int64_t* strides, uint32_t* out_id);

#endif /* TVMRT_DEVICES_XNNPACK_GRAPH_H_ */
