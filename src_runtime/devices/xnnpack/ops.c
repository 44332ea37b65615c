/* The region's operators as XNNPACK's nodes.
 *
 * Each define function checks what XNNPACK would not: operands and result come from a file. Values
 * of results are defined by the node that makes them, those of operands are there by then or
 * constants. */
#include "ops.h"

#include <math.h>
#include <string.h>

#include "quantized.h"
#include "window.h"

/* Products ------------------------------------------------------------------------------------ */

/* A constant of float32 with one element, or whose first one counts. Broadcast constants of one
 * element are of any rank, so the rank is not looked at. */
static int read_number(const graph* g, int32_t tensor, float* out) {
  const tvmrt_region_tensor* t = node_tensor(g, tensor);
  if (!t->is_constant || t->dtype.code != kDLFloat || t->dtype.bits != 32 || t->num_bytes == 0) {
    return graph_fail("%s is no constant number", t->name);
  }
  memcpy(out, t->data, sizeof(*out));
  return 0;
}

/* XNNPACK takes extents from the weights alone. Products of more axes are flattened by the
 * compiler's half, or stay with the CPU. */
static int check_product(const graph* g, const tvmrt_region_node* node,
                         const tvmrt_region_tensor* w) {
  const tvmrt_region_tensor *x = node_tensor(g, node->inputs[0]),
                            *y = node_tensor(g, node->outputs[0]);
  if (w->ndim != 2 || x->ndim != 2 || y->ndim != 2) return graph_fail("operands are no matrices");
  if (x->shape[1] == w->shape[0] && y->shape[0] == x->shape[0] && y->shape[1] == w->shape[1])
    return 0;
  return graph_fail("the operands do not fit the result");
}

/* XNNPACK's weights are [N, K]; the flag says that these are the other way round. */
static int define_matmul(graph* g, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* weights = NULL;
  uint32_t x, filter, bias, y;
  size_t dims[2]; /* as the region has them: [K, N] */
  int64_t strides[2] = {0, 1};
  float low, high;
  GRAPH_TRY(node_weights(g, node, &weights));
  GRAPH_TRY(check_product(g, node, weights));
  dims[0] = (size_t)weights->shape[0];
  dims[1] = (size_t)weights->shape[1];
  strides[0] = weights->shape[1];
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  if (weights->dtype.code == kDLFloat) {
    GRAPH_TRY(graph_source_value(g, weights, 2, dims, strides, &filter));
    GRAPH_TRY(node_row(g, node_input(node, 2), dims[1], &bias));
  } else {
    GRAPH_TRY(quantized_weights(g, node, dims[1], 2, dims, strides, &filter, &bias));
  }
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  quantized_bounds(g, node, &low, &high);
  return graph_check(xnn_define_fully_connected(g->subgraph, low, high, x, filter, bias, y,
                                                XNN_FLAG_TRANSPOSE_WEIGHTS),
                     "the product");
}

/* Of all pixels. Bytes have an operator of their own, see window_avg_pool(). */
static int define_mean(graph* g, const tvmrt_region_node* node) {
  const tvmrt_region_tensor *from = node_tensor(g, node->inputs[0]),
                            *to = node_tensor(g, node->outputs[0]);
  uint32_t x, y;
  if (from->ndim < 3 || to->ndim < 2 || to->shape[0] != from->shape[0] ||
      to->shape[1] != from->shape[1] ||
      tvmrt_region_size(g->region, node->outputs[0]) != from->shape[0] * from->shape[1]) {
    return graph_fail("the result is no mean of pixels");
  }
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  return graph_check(
      xnn_define_global_average_pooling_2d(g->subgraph, -INFINITY, INFINITY, x, y, 0), "the mean");
}

/* Element by element -------------------------------------------------------------------------- */

typedef enum xnn_status (*unary_function)(xnn_subgraph_t, uint32_t, uint32_t, uint32_t);
typedef enum xnn_status (*binary_function)(xnn_subgraph_t, uint32_t, uint32_t, uint32_t, uint32_t);
typedef enum xnn_status (*bounded_function)(xnn_subgraph_t, float, float, uint32_t, uint32_t,
                                            uint32_t, uint32_t);

/* One function of XNNPACK's for operand and result alone. The flags, 0, are for none of what is
 * used here. */
static int define_unary(graph* g, const tvmrt_region_node* node, unary_function function) {
  uint32_t x, y;
  GRAPH_TRY(node_same(g, node->inputs[0], node->outputs[0]));
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  return graph_check(function(g->subgraph, x, y, 0), node->op);
}

/* By the operand's number, since a bound may be either of two operands. Bounds may be infinite. */
static int define_clamp(graph* g, const tvmrt_region_node* node, int32_t x, float low, float high) {
  uint32_t from, to;
  GRAPH_TRY(node_same(g, x, node->outputs[0]));
  GRAPH_TRY(graph_value(g, x, &from));
  GRAPH_TRY(graph_value(g, node->outputs[0], &to));
  return graph_check(xnn_define_clamp(g->subgraph, low, high, from, to, 0), node->op);
}

/* Whether an operand has the result's extents, or 1 in their places; `full` loses axes that it
 * lacks. Tensors that are computed must have the result's rank: they cannot be given another
 * order. */
static int check_operand(const graph* g, int32_t operand, int32_t result, bool* full) {
  const tvmrt_region_tensor *x = node_tensor(g, operand), *y = node_tensor(g, result);
  const int missing = y->ndim - x->ndim;
  int i;
  if (missing < 0 || (missing > 0 && !x->is_constant)) {
    return graph_fail("%s has %d axes of %d", x->name, (int)x->ndim, (int)y->ndim);
  }
  for (i = 0; i < y->ndim; ++i) {
    const int64_t extent = i < missing ? 1 : x->shape[i - missing];
    if (extent != y->shape[i] && extent != 1) return graph_fail("%s does not broadcast", x->name);
    if (extent == y->shape[i]) full[i] = true;
  }
  return 0;
}

/* XNNPACK broadcasts by extents; a result with an extent that no operand has would be computed
 * smaller. Constants get the result's rank, others must have it. */
static int read_operands(graph* g, const tvmrt_region_node* node, uint32_t* a, uint32_t* b,
                         uint32_t* y) {
  const int rank = node_tensor(g, node->outputs[0])->ndim;
  bool full[GRAPH_MAX_RANK] = {false};
  int i;
  if (rank > GRAPH_MAX_RANK) return graph_fail("%d axes", rank);
  /* `full` gathers over both: one of them has to have each extent */
  for (i = 0; i < 2; ++i) GRAPH_TRY(check_operand(g, node->inputs[i], node->outputs[0], full));
  for (i = 0; i < rank; ++i) {
    if (!full[i]) return graph_fail("no operand has the result's extents");
  }
  GRAPH_TRY(graph_operand(g, node->inputs[0], rank, a));
  GRAPH_TRY(graph_operand(g, node->inputs[1], rank, b));
  return graph_value(g, node->outputs[0], y);
}

/* XNNPACK's two kinds of functions for two operands: without bounds, and below with bounds that no
 * node here has. */
static int define_binary(graph* g, const tvmrt_region_node* node, binary_function function) {
  uint32_t a, b, y;
  GRAPH_TRY(read_operands(g, node, &a, &b, &y));
  return graph_check(function(g->subgraph, a, b, y, 0), node->op);
}

/* -INFINITY to INFINITY: nothing is cut. */
static int define_bounded(graph* g, const tvmrt_region_node* node, bounded_function function) {
  uint32_t a, b, y;
  GRAPH_TRY(read_operands(g, node, &a, &b, &y));
  return graph_check(function(g->subgraph, -INFINITY, INFINITY, a, b, y, 0), node->op);
}

/* The larger or smaller of a tensor and one number is a bound, which XNNPACK computes in the node
 * before. */
static int define_bound(graph* g, const tvmrt_region_node* node, bool is_lower) {
  int i;
  for (i = 0; i < 2; ++i) {
    const tvmrt_region_tensor* t = node_tensor(g, node->inputs[i]);
    float number;
    if (!t->is_constant || tvmrt_region_size(g->region, node->inputs[i]) != 1) continue;
    GRAPH_TRY(read_number(g, node->inputs[i], &number));
    /* XNNPACK compares bounds, and a comparison with it says nothing */
    if (isnan(number)) return graph_fail("a bound is no number");
    return define_clamp(g, node, node->inputs[1 - i], is_lower ? number : -INFINITY,
                        is_lower ? INFINITY : number);
  }
  return define_binary(g, node, is_lower ? xnn_define_maximum2 : xnn_define_minimum2);
}

/* One slope for all is another operator of XNNPACK's. Slopes are constants, one for each
 * channel. */
static int define_prelu(graph* g, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* t = node_tensor(g, node->inputs[0]);
  size_t dims[GRAPH_MAX_RANK], count;
  uint32_t x, slope, y;
  float number;
  GRAPH_TRY(node_same(g, node->inputs[0], node->outputs[0]));
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  if (tvmrt_region_size(g->region, node->inputs[1]) == 1) {
    GRAPH_TRY(read_number(g, node->inputs[1], &number));
    return graph_check(xnn_define_leaky_relu(g->subgraph, number, x, y, 0), "the slope");
  }
  if (t->ndim < 1) return graph_fail("there are no channels");
  count = graph_dims(t, dims);
  GRAPH_TRY(node_row(g, node->inputs[1], dims[count - 1], &slope));
  return graph_check(xnn_define_prelu(g->subgraph, x, slope, y, 0), "the slopes");
}

/* Others -------------------------------------------------------------------------------------- */

/* Whether row-major order in the region is XNNPACK's. One channel, or one pixel: there is nothing
 * to change places. */
static bool is_plain(const tvmrt_region_tensor* t) {
  return t->ndim < 3 || t->shape[1] == 1 || (t->shape[2] == 1 && t->shape[t->ndim - 1] == 1);
}

/* Channels are innermost in XNNPACK's order, so only some reshapes are moves of no element.
 * Others are refused, and stay with the CPU. */
static int define_reshape(graph* g, const tvmrt_region_node* node) {
  const tvmrt_region_tensor *from = node_tensor(g, node->inputs[0]),
                            *to = node_tensor(g, node->outputs[0]);
  size_t dims[GRAPH_MAX_RANK], count;
  uint32_t x, y;
  if (from->num_bytes != to->num_bytes || to->ndim > GRAPH_MAX_RANK) {
    return graph_fail("another number of elements");
  }
  if (!is_plain(from) || !is_plain(to)) return graph_fail("the order of channels would change");
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  count = graph_dims(to, dims);
  return graph_check(xnn_define_static_reshape(g->subgraph, count, dims, x, y, 0), "the shape");
}

/* Paddings of the region's axes in XNNPACK's order. As numbers of elements, in front or behind. */
static int read_padding(const tvmrt_region_node* node, const char* key, int rank, size_t* out) {
  tvmrt_region_tensor padded = {.ndim = rank};
  int32_t count = 0;
  int i;
  padded.shape = tvmrt_node_ints(node, key, &count);
  if (count != rank) return graph_fail("%s has %d numbers for %d axes", key, (int)count, rank);
  /* as sizes, negative numbers and sums of large ones would wrap around to what fits */
  for (i = 0; i < rank; ++i) {
    if (padded.shape[i] < 0 || padded.shape[i] > INT32_MAX) {
      return graph_fail("%s is out of range", key);
    }
  }
  (void)graph_dims(&padded, out);
  if (rank == 3) out[1] = 0; /* the axis that the region does not have */
  return 0;
}

/* XNNPACK computes the result's extents from these. What does not agree would be written beyond
 * the result. */
static int check_padding(const graph* g, const tvmrt_region_node* node, size_t count,
                         const size_t* before, const size_t* after) {
  size_t from[GRAPH_MAX_RANK], to[GRAPH_MAX_RANK], i;
  if (graph_dims(node_tensor(g, node->inputs[0]), from) !=
      graph_dims(node_tensor(g, node->outputs[0]), to)) {
    return graph_fail("the result has other axes");
  }
  for (i = 0; i < count; ++i) {
    if (from[i] + before[i] + after[i] != to[i])
      return graph_fail("the padding does not fit the result");
  }
  return 0;
}

/* The result keeps the operand's axes; its extents are what XNNPACK will compute. */
static int define_pad(graph* g, const tvmrt_region_node* node) {
  const int32_t value = node_input(node, 1);
  const int rank = node_tensor(g, node->inputs[0])->ndim;
  size_t before[GRAPH_MAX_RANK], after[GRAPH_MAX_RANK];
  float number = 0;
  uint32_t x, y;
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  GRAPH_TRY(read_padding(node, "before", rank, before));
  GRAPH_TRY(read_padding(node, "after", rank, after));
  GRAPH_TRY(check_padding(g, node, rank < 3 ? (size_t)rank : GRAPH_MAX_RANK, before, after));
  /* zero where the node does not say */
  if (value >= 0) GRAPH_TRY(read_number(g, value, &number));
  return graph_check(xnn_define_static_constant_pad(g->subgraph, before, after, number, x, y, 0),
                     "the padding");
}

/* One function each, since the table below knows no arguments. */
#define UNARY(name, function)                                \
  static int name(graph* g, const tvmrt_region_node* node) { \
    return define_unary(g, node, function);                  \
  }
#define BINARY(name, function, how) \
  static int name(graph* g, const tvmrt_region_node* node) { return how(g, node, function); }
UNARY(define_abs, xnn_define_abs)
UNARY(define_ceil, xnn_define_ceiling)
UNARY(define_floor, xnn_define_floor)
UNARY(define_neg, xnn_define_negate)
UNARY(define_round, xnn_define_bankers_rounding)
UNARY(define_sigmoid, xnn_define_sigmoid)
UNARY(define_softmax, xnn_define_softmax)
UNARY(define_sqrt, xnn_define_square_root)
BINARY(define_add, xnn_define_add2, define_bounded)
BINARY(define_div, xnn_define_divide, define_bounded)
BINARY(define_mul, xnn_define_multiply2, define_bounded)
BINARY(define_sub, xnn_define_subtract, define_bounded)
BINARY(define_max, true, define_bound)
BINARY(define_min, false, define_bound)

/* As a bound, which XNNPACK merges with the node before. */
static int define_relu(graph* g, const tvmrt_region_node* node) {
  return define_clamp(g, node, node->inputs[0], 0, INFINITY);
}

/* NULL for an operator that is not here: the region is refused with its name. The number is that of
 * operands which must be there. */
const ops_operator* ops_find(const char* op) {
  static const ops_operator rows[] = {
      {"abs", 1, define_abs},
      {"add", 2, define_add},
      {"avg_pool", 1, window_avg_pool},
      {"ceil", 1, define_ceil},
      {"conv", 2, window_conv},
      {"conv_transpose", 2, window_conv_transpose},
      {"dequantize", 3, quantized_convert},
      {"div", 2, define_div},
      {"floor", 1, define_floor},
      {"matmul", 2, define_matmul},
      {"max", 2, define_max},
      {"max_pool", 1, window_max_pool},
      {"min", 2, define_min},
      {"mul", 2, define_mul},
      {"neg", 1, define_neg},
      {"pad", 1, define_pad},
      {"prelu", 2, define_prelu},
      {"qadd", 2, quantized_add},
      {"qavg_pool", 1, window_avg_pool},
      {"qconv", 3, window_conv},
      {"qmatmul", 3, define_matmul},
      {"qmax_pool", 1, window_max_pool},
      {"qmul", 2, quantized_mul},
      {"quantize", 3, quantized_convert},
      {"reduce_mean", 1, define_mean},
      {"relu", 1, define_relu},
      {"reshape", 1, define_reshape},
      {"round", 1, define_round},
      {"sigmoid", 1, define_sigmoid},
      {"softmax", 1, define_softmax},
      {"sqrt", 1, define_sqrt},
      {"sub", 2, define_sub},
  };
  size_t i;
  for (i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    if (strcmp(rows[i].op, op) == 0) return &rows[i];
  }
  return NULL;
}
