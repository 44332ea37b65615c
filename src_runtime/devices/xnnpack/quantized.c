/* 8-bit values: what their numbers mean, and the operators that only they have.
 *
 * XNNPACK wants scales of tensors, nodes of a region give multipliers of products: scales are first
 * collected from all nodes (quantized_assign()), then weights get those that make the products
 * right. */
#include "quantized.h"

#include <math.h>
#include <string.h>

/* Other integers are indices and sums, which have no scale. */
static bool is_byte(const tvmrt_region_tensor* t) {
  return t->dtype.bits == 8 && (t->dtype.code == kDLInt || t->dtype.code == kDLUInt);
}

/* Scales and zero points ---------------------------------------------------------------------- */

/* Two nodes that disagree are refused: XNNPACK has one scale a tensor. 0 means not said yet: no
 * tensor has that scale. */
static int set_scale(graph* g, int32_t tensor, float scale) {
  graph_quantization* q = &g->quantizations[tensor];
  if (q->scale != 0 && q->scale != scale) {
    return graph_fail("%s is read with different scales", node_tensor(g, tensor)->name);
  }
  q->scale = scale;
  return 0;
}

/* Nodes also have such attributes of tensors that are no bytes, which do not count. Compared,
 * since two nodes may say different things of one tensor. */
static int set_zero(graph* g, int32_t tensor, const tvmrt_region_node* node, const char* key) {
  const tvmrt_attr* attr = tvmrt_node_attr(node, key);
  const int32_t zero = (int32_t)tvmrt_node_int(node, key, 0);
  graph_quantization* q = &g->quantizations[tensor];
  if (attr == NULL || !is_byte(node_tensor(g, tensor))) return 0;
  if (q->has_zero && q->zero != zero) {
    return graph_fail("%s is read with different zero points", node_tensor(g, tensor)->name);
  }
  q->has_zero = true;
  q->zero = zero;
  return 0;
}

/* Whichever of the two the node has. */
static int set_attributes(graph* g, int32_t tensor, const tvmrt_region_node* node,
                          const char* scale, const char* zero) {
  if (tvmrt_node_attr(node, scale) != NULL) {
    GRAPH_TRY(set_scale(g, tensor, (float)tvmrt_node_float(node, scale, 0)));
  }
  return set_zero(g, tensor, node, zero);
}

/* quantize and dequantize have both as operands. They must be constants: XNNPACK has them when
 * the graph is made. */
static int set_operands(graph* g, int32_t tensor, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* scale = node_tensor(g, node->inputs[1]);
  const tvmrt_region_tensor* zero = node_tensor(g, node->inputs[2]);
  graph_quantization* q = &g->quantizations[tensor];
  float number;
  if (!scale->is_constant || scale->dtype.code != kDLFloat || scale->dtype.bits != 32 ||
      scale->num_bytes == 0 || !zero->is_constant || !is_byte(zero) || zero->num_bytes == 0) {
    return graph_fail("scale or zero point are no constant numbers");
  }
  memcpy(&number, scale->data, sizeof(number));
  GRAPH_TRY(set_scale(g, tensor, number));
  q->has_zero = true;
  q->zero = zero->dtype.code == kDLInt ? *(const int8_t*)zero->data : *(const uint8_t*)zero->data;
  return 0;
}

/* Attributes that a node does not have are passed over, so that nodes of floats tell nothing.
 * Only what nodes state; what follows from it is handed on later. */
static int assign_node(graph* g, const tvmrt_region_node* node) {
  const int32_t x = node->inputs[0], y = node->outputs[0];
  if (strcmp(node->op, "quantize") == 0) return set_operands(g, y, node);
  if (strcmp(node->op, "dequantize") == 0) return set_operands(g, x, node);
  if (strcmp(node->op, "qadd") == 0 || strcmp(node->op, "qmul") == 0) {
    GRAPH_TRY(set_attributes(g, x, node, "a_scale", "a_zero"));
    GRAPH_TRY(set_attributes(g, node->inputs[1], node, "b_scale", "b_zero"));
  } else {
    GRAPH_TRY(set_attributes(g, x, node, "x_scale", "x_zero"));
  }
  return set_attributes(g, y, node, "y_scale", "y_zero");
}

/* What moves elements alone leaves their meaning; `from` may know it. An error where both know
 * and differ: the elements would change their meaning. */
static int hand_on(graph* g, int32_t from, int32_t to) {
  const graph_quantization* q = &g->quantizations[from];
  graph_quantization* other = &g->quantizations[to];
  if (q->scale != 0) GRAPH_TRY(set_scale(g, to, q->scale));
  if (!q->has_zero) return 0;
  if (other->has_zero && other->zero != q->zero) return graph_fail("zero points differ");
  other->has_zero = true;
  other->zero = q->zero;
  return 0;
}

/* Elements keep their numbers: operand and result mean the same by them. */
static bool moves(const graph* g, const tvmrt_region_node* node) {
  if (!is_byte(node_tensor(g, node->inputs[0]))) return false;
  return strcmp(node->op, "reshape") == 0 || strcmp(node->op, "qmax_pool") == 0;
}

/* Backwards, then forwards, so that a chain of moves learns it from either end. */
int quantized_assign(graph* g) {
  const tvmrt_region* region = g->region;
  int32_t i;
  for (i = 0; i < region->num_nodes; ++i) GRAPH_TRY(assign_node(g, &region->nodes[i]));
  for (i = region->num_nodes - 1; i >= 0; --i) {
    const tvmrt_region_node* node = &region->nodes[i];
    if (moves(g, node)) GRAPH_TRY(hand_on(g, node->outputs[0], node->inputs[0]));
  }
  for (i = 0; i < region->num_nodes; ++i) {
    const tvmrt_region_node* node = &region->nodes[i];
    if (moves(g, node)) GRAPH_TRY(hand_on(g, node->inputs[0], node->outputs[0]));
  }
  for (i = 0; i < region->num_tensors; ++i) {
    /* of tensors that nobody says anything about: floats, for which it does not count */
    if (g->quantizations[i].scale == 0) g->quantizations[i].scale = 1;
  }
  return 0;
}

/* Products ------------------------------------------------------------------------------------ */

/* Constants of a product, `count` of them or one for all; how far apart they lie. *step is 0
 * where one number is for all, 1 where each channel has its own. */
static int read_channels(const graph* g, int32_t tensor, size_t count, uint8_t code,
                         int64_t* step) {
  const tvmrt_region_tensor* t = node_tensor(g, tensor);
  const size_t size = (size_t)tvmrt_region_size(g->region, tensor);
  if (!t->is_constant || t->dtype.code != code || t->dtype.bits != 32) {
    return graph_fail("%s is not constant, or of another type", t->name);
  }
  /* none for no channels would do for a loop, but the first one is read by itself */
  if (size == 0 || (size != 1 && size != count))
    return graph_fail("%s is for %zu channels of %zu", t->name, size, count);
  *step = size == 1 ? 0 : 1;
  return 0;
}

/* The scales of weights with which XNNPACK multiplies sums by the node's own. One for each
 * channel, in a copy that lives until XNNPACK has packed. */
static int weight_scales(graph* g, const tvmrt_region_node* node, size_t count, float** out) {
  const tvmrt_region_tensor* given = node_tensor(g, node->inputs[2]);
  int64_t step = 0;
  const float x = g->quantizations[node->inputs[0]].scale;
  const float y = g->quantizations[node->outputs[0]].scale;
  void* kept = NULL;
  size_t i;
  GRAPH_TRY(read_channels(g, node->inputs[2], count, kDLFloat, &step));
  GRAPH_TRY(graph_source_copy(g, given, 1, &count, &step, &kept));
  for (i = 0; i < count; ++i) ((float*)kept)[i] *= y / x;
  *out = kept;
  return 0;
}

/* `scales`: one a channel, or for a value with one scale, that. Where there is one scale, the
 * first counts. */
static int define(graph* g, enum xnn_datatype type, int32_t zero, const float* scales,
                  size_t num_dims, const size_t* dims, const void* data, uint32_t* out_id) {
  const bool by_channel = type == xnn_datatype_qcint8 || type == xnn_datatype_qcint32;
  return graph_check(
      by_channel
          ? xnn_define_channelwise_quantized_tensor_value(
                g->subgraph, type, scales, num_dims, 0, dims, data, XNN_INVALID_VALUE_ID, 0, out_id)
          : xnn_define_quantized_tensor_value(g->subgraph, type, zero, scales[0], num_dims, dims,
                                              data, XNN_INVALID_VALUE_ID, 0, out_id),
      "8-bit weights");
}

/* A bias counts in units of the product of both scales. Without one *out_id says so. */
static int define_bias(graph* g, const tvmrt_region_node* node, enum xnn_datatype type,
                       size_t count, uint32_t* out_id) {
  const int32_t number = node_input(node, 3);
  int64_t step = 0;
  float* scales = NULL;
  const void* source = NULL;
  size_t i;
  *out_id = XNN_INVALID_VALUE_ID;
  if (number < 0) return 0;
  GRAPH_TRY(read_channels(g, number, count, kDLInt, &step));
  GRAPH_TRY(graph_source(g, node_tensor(g, number), 1, &count, &step, &source));
  GRAPH_TRY(weight_scales(g, node, count, &scales));
  for (i = 0; i < count; ++i) scales[i] *= g->quantizations[node->inputs[0]].scale;
  return define(g, type, 0, scales, 1, &count, source, out_id);
}

/* Of the zero points the first counts for all channels. */
int quantized_weights(graph* g, const tvmrt_region_node* node, size_t channels, size_t num_dims,
                      const size_t* dims, const int64_t* strides, uint32_t* out_filter,
                      uint32_t* out_bias) {
  const tvmrt_region_tensor* weights = node_tensor(g, node->inputs[1]);
  const bool is_signed = weights->dtype.code == kDLInt;
  const bool by_channel = is_signed && num_dims > 2; /* products of matrices have one scale */
  const int32_t zeros = node_input(node, 4);
  float* scales = NULL;
  int32_t zero = 0;
  const void* source = NULL;
  int64_t step = 0;
  if (!is_byte(weights)) return graph_fail("weights are no 8-bit integers");
  if (zeros >= 0) {
    GRAPH_TRY(read_channels(g, zeros, channels, kDLInt, &step));
    memcpy(&zero, node_tensor(g, zeros)->data, sizeof(zero));
  }
  GRAPH_TRY(weight_scales(g, node, channels, &scales));
  GRAPH_TRY(graph_source(g, weights, num_dims, dims, strides, &source));
  GRAPH_TRY(define(g,
                   by_channel  ? xnn_datatype_qcint8
                   : is_signed ? xnn_datatype_qint8
                               : xnn_datatype_quint8,
                   zero, scales, num_dims, dims, source, out_filter));
  return define_bias(g, node, by_channel ? xnn_datatype_qcint32 : xnn_datatype_qint32, channels,
                     out_bias);
}

/* In real numbers, as XNNPACK wants bounds; infinite where the type cuts anyway. */
void quantized_bounds(const graph* g, const tvmrt_region_node* node, float* low, float* high) {
  const int32_t y = node->outputs[0];
  const graph_quantization* q = &g->quantizations[y];
  const int64_t least = node_tensor(g, y)->dtype.code == kDLInt ? INT8_MIN : 0,
                most = least + UINT8_MAX;
  const int64_t from = tvmrt_node_int(node, "low", least), to = tvmrt_node_int(node, "high", most);
  /* a product whose result is float32 has no bytes to be cut at */
  const bool bounded = is_byte(node_tensor(g, y));
  *low = bounded && from > least ? (float)(from - q->zero) * q->scale : -INFINITY;
  *high = bounded && to < most ? (float)(to - q->zero) * q->scale : INFINITY;
}

/* Element by element -------------------------------------------------------------------------- */

/* Both ways: which one is told by the types of the two values. */
int quantized_convert(graph* g, const tvmrt_region_node* node) {
  uint32_t x, y;
  GRAPH_TRY(node_same(g, node->inputs[0], node->outputs[0]));
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  return graph_check(xnn_define_convert(g->subgraph, x, y, 0), node->op);
}

typedef enum xnn_status (*binary)(xnn_subgraph_t, float, float, uint32_t, uint32_t, uint32_t,
                                  uint32_t);

/* Without broadcasting: the three have one shape, and a scale each. Scales were found by
 * quantized_assign(). */
static int define_binary(graph* g, const tvmrt_region_node* node, binary function) {
  uint32_t a, b, y;
  float low, high;
  GRAPH_TRY(node_same(g, node->inputs[0], node->outputs[0]));
  GRAPH_TRY(node_same(g, node->inputs[1], node->outputs[0]));
  GRAPH_TRY(graph_value(g, node->inputs[0], &a));
  GRAPH_TRY(graph_value(g, node->inputs[1], &b));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  quantized_bounds(g, node, &low, &high);
  return graph_check(function(g->subgraph, low, high, a, b, y, 0), node->op);
}

int quantized_add(graph* g, const tvmrt_region_node* node) {
  return define_binary(g, node, xnn_define_add2);
}

int quantized_mul(graph* g, const tvmrt_region_node* node) {
  return define_binary(g, node, xnn_define_multiply2);
}
