/* Convolutions and pooling: operators with windows over images.
 *
 * Everything that XNNPACK computes extents from is checked against the region's shapes first: it
 * would take extents of its own for the result, and runs could write beyond the caller's memory. */
#include "window.h"

#include <math.h>

#include "copy.h"
#include "quantized.h"

/* Windows ------------------------------------------------------------------------------------- */

/* Height and width of what a window has along its one or two axes. */
typedef struct {
  uint32_t height, width;
} pair;

typedef struct {
  pair kernel, stride, dilation, before, after;
} window;

/* Numbers from `least` on that fit XNNPACK's. Of one axis the height is the least that is
 * allowed: one element, or no padding. */
static int read_pair(const tvmrt_region_node* node, const char* key, int spatial, uint32_t least,
                     pair* out) {
  int32_t count = 0;
  const int64_t* values = tvmrt_node_ints(node, key, &count);
  int i;
  if (count != spatial) {
    return graph_fail("%s has %d numbers for %d axes", key, (int)count, spatial);
  }
  for (i = 0; i < spatial; ++i) {
    if (values[i] < least || values[i] > INT32_MAX) return graph_fail("%s is out of range", key);
  }
  out->height = spatial == 2 ? (uint32_t)values[0] : least;
  out->width = (uint32_t)values[spatial - 1];
  return 0;
}

/* The padding behind that the last window needs; what it does not reach does not count. The
 * number of windows that XNNPACK will count is computed as it does, and must be the region's. */
static int padding_behind(size_t extent, size_t out, uint32_t kernel, uint32_t stride,
                          uint32_t dilation, uint32_t before, uint32_t* after) {
  const int64_t span = ((int64_t)kernel - 1) * dilation + 1;
  const int64_t lacking = ((int64_t)out - 1) * stride + span - (int64_t)extent - before;
  const int64_t padded = (int64_t)extent + before + (lacking < 0 ? 0 : lacking);
  if (padded < span || (padded - span) / stride + 1 != (int64_t)out || lacking > INT32_MAX) {
    return graph_fail("the windows do not fit the result");
  }
  *after = lacking < 0 ? 0 : (uint32_t)lacking;
  return 0;
}

/* Operand and result are images of one rank and batch; out: their extents in XNNPACK's order.
 * Extents are checked here so that later reads of either array are within it. */
static int read_images(const graph* g, const tvmrt_region_node* node, size_t* x, size_t* y) {
  const tvmrt_region_tensor *from = node_tensor(g, node->inputs[0]),
                            *to = node_tensor(g, node->outputs[0]);
  if (from->ndim < 3 || from->ndim > GRAPH_MAX_RANK || to->ndim != from->ndim) {
    return graph_fail("%d axes are no image", (int)from->ndim);
  }
  (void)graph_dims(from, x);
  (void)graph_dims(to, y);
  return x[0] == y[0] ? 0 : graph_fail("operand and result have different batches");
}

/* A window of one axis has height 1, step 1 and no padding along the other. Strides and dilations
 * of 0 would never come to an end; paddings may be 0. */
static int read_steps(const graph* g, const tvmrt_region_node* node, pair kernel, window* w) {
  const int spatial = node_tensor(g, node->inputs[0])->ndim - 2;
  w->kernel = kernel;
  GRAPH_TRY(read_pair(node, "strides", spatial, 1, &w->stride));
  GRAPH_TRY(read_pair(node, "dilations", spatial, 1, &w->dilation));
  return read_pair(node, "pads_before", spatial, 0, &w->before);
}

/* Height and width are independent of each other. */
static int read_window(const graph* g, const tvmrt_region_node* node, pair kernel, const size_t* x,
                       const size_t* y, window* w) {
  GRAPH_TRY(read_steps(g, node, kernel, w));
  GRAPH_TRY(padding_behind(x[1], y[1], kernel.height, w->stride.height, w->dilation.height,
                           w->before.height, &w->after.height));
  return padding_behind(x[2], y[2], kernel.width, w->stride.width, w->dilation.width,
                        w->before.width, &w->after.width);
}

/* Convolutions -------------------------------------------------------------------------------- */

/* Weights [OC, IC / groups, H, W] as [OC, H, W, IC / groups], and a number for each result.
 * Weights of bytes bring the bias with them, whose units depend on theirs. */
static int read_filter(graph* g, const tvmrt_region_node* node, const tvmrt_region_tensor* weights,
                       const size_t* dims, uint32_t* filter, uint32_t* bias) {
  const int64_t plane = (int64_t)(dims[1] * dims[2]);
  const int64_t strides[GRAPH_MAX_RANK] = {(int64_t)dims[3] * plane, (int64_t)dims[2], 1, plane};
  if (weights->dtype.code != kDLFloat) {
    return quantized_weights(g, node, dims[0], GRAPH_MAX_RANK, dims, strides, filter, bias);
  }
  GRAPH_TRY(graph_source_value(g, weights, GRAPH_MAX_RANK, dims, strides, filter));
  return node_row(g, node_input(node, 2), dims[0], bias);
}

/* Weights of a convolution, [first, H, W, last] in XNNPACK's order: an image, too. Whether their
 * channels fit the operand's is compared by the callers. */
static int read_kernel(const graph* g, const tvmrt_region_node* node, size_t* dims, size_t* groups,
                       const tvmrt_region_tensor** out) {
  const int64_t given = tvmrt_node_int(node, "groups", 1);
  GRAPH_TRY(node_weights(g, node, out));
  if ((*out)->ndim != node_tensor(g, node->inputs[0])->ndim)
    return graph_fail("weights of another rank");
  (void)graph_dims(*out, dims);
  if (given < 1 || given > INT32_MAX || dims[0] % (size_t)given != 0) {
    return graph_fail("channels do not fall into groups");
  }
  *groups = (size_t)given;
  return 0;
}

/* A result's channels, the operand's and the weights' are three statements about the same
 * numbers, and a file may make them disagree. The four paddings are top, right, bottom, left:
 * XNNPACK's order. */
int window_conv(graph* g, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* weights = NULL;
  size_t dims[GRAPH_MAX_RANK], from[GRAPH_MAX_RANK], to[GRAPH_MAX_RANK], groups = 1;
  uint32_t x, filter, bias, y;
  float low, high;
  window w;
  GRAPH_TRY(read_images(g, node, from, to));
  GRAPH_TRY(read_kernel(g, node, dims, &groups, &weights));
  if (from[3] != dims[3] * groups || to[3] != dims[0])
    return graph_fail("weights of other channels");
  GRAPH_TRY(read_window(g, node, (pair){(uint32_t)dims[1], (uint32_t)dims[2]}, from, to, &w));
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  GRAPH_TRY(read_filter(g, node, weights, dims, &filter, &bias));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  quantized_bounds(g, node, &low, &high);
  return graph_check(xnn_define_convolution_2d(
                         g->subgraph, w.before.height, w.after.width, w.after.height,
                         w.before.width, w.kernel.height, w.kernel.width, w.stride.height,
                         w.stride.width, w.dilation.height, w.dilation.width, (uint32_t)groups,
                         dims[3], dims[0] / groups, low, high, x, filter, bias, y, 0),
                     "the convolution");
}

/* Weights [groups, C / groups, M, H, W] as [groups, M, H, W, C / groups]. Packed once, so the
 * copy in another order costs nothing later. */
static int transposed_filter(graph* g, const tvmrt_region_tensor* weights, size_t groups,
                             const size_t* dims, uint32_t* out_id) {
  const int64_t plane = (int64_t)(dims[1] * dims[2]), outputs = (int64_t)dims[3];
  const size_t inputs = dims[0] / groups;
  const size_t order[COPY_MAX_RANK] = {groups, dims[3], dims[1], dims[2], inputs};
  const int64_t strides[COPY_MAX_RANK] = {(int64_t)inputs * outputs * plane, plane,
                                          (int64_t)dims[2], 1, outputs * plane};
  return graph_source_value(g, weights, COPY_MAX_RANK, order, strides, out_id);
}

/* How a result is cut: the padding behind, or where that is negative, elements that are added.
 * XNNPACK can add elements to the end of a result, fewer than a stride. */
static int cut(size_t extent, size_t out, uint32_t kernel, uint32_t stride, uint32_t dilation,
               uint32_t before, uint32_t* after, uint32_t* added) {
  const int64_t whole = ((int64_t)extent - 1) * stride + ((int64_t)kernel - 1) * dilation + 1;
  const int64_t beyond = whole - before - (int64_t)out;
  if (out == 0 || extent == 0 || beyond > INT32_MAX || -beyond >= (int64_t)stride) {
    return graph_fail("XNNPACK adds less than a stride to the result");
  }
  *after = beyond < 0 ? 0 : (uint32_t)beyond;
  *added = beyond < 0 ? (uint32_t)-beyond : 0;
  return 0;
}

/* XNNPACK is told what is cut from the result and what is added to it, and computes the extents
 * from that. */
int window_conv_transpose(graph* g, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* weights = NULL;
  size_t dims[GRAPH_MAX_RANK], from[GRAPH_MAX_RANK], to[GRAPH_MAX_RANK], groups = 1;
  uint32_t x, filter, bias, y;
  window w;
  pair added = {0, 0};
  GRAPH_TRY(read_images(g, node, from, to));
  GRAPH_TRY(read_kernel(g, node, dims, &groups, &weights)); /* [C, H, W, M] */
  if (from[3] != dims[0] || to[3] != dims[3] * groups)
    return graph_fail("weights of other channels");
  GRAPH_TRY(read_steps(g, node, (pair){(uint32_t)dims[1], (uint32_t)dims[2]}, &w));
  GRAPH_TRY(cut(from[1], to[1], w.kernel.height, w.stride.height, w.dilation.height,
                w.before.height, &w.after.height, &added.height));
  GRAPH_TRY(cut(from[2], to[2], w.kernel.width, w.stride.width, w.dilation.width, w.before.width,
                &w.after.width, &added.width));
  GRAPH_TRY(graph_value(g, node->inputs[0], &x));
  GRAPH_TRY(transposed_filter(g, weights, groups, dims, &filter));
  GRAPH_TRY(node_row(g, node_input(node, 2), to[3], &bias));
  GRAPH_TRY(graph_value(g, node->outputs[0], &y));
  return graph_check(
      xnn_define_deconvolution_2d(
          g->subgraph, w.before.height, w.after.width, w.after.height, w.before.width, added.height,
          added.width, w.kernel.height, w.kernel.width, w.stride.height, w.stride.width,
          w.dilation.height, w.dilation.width, (uint32_t)groups, dims[0] / groups, dims[3],
          -INFINITY, INFINITY, x, filter, bias, y, 0),
      "the transposed convolution");
}

/* Pooling ------------------------------------------------------------------------------------- */

/* `from` gets the operand's extents in XNNPACK's order. Values are defined last, when all else is
 * right. */
static int read_pool(graph* g, const tvmrt_region_node* node, window* w, uint32_t* x, uint32_t* y,
                     size_t* from) {
  size_t to[GRAPH_MAX_RANK];
  pair kernel;
  GRAPH_TRY(read_images(g, node, from, to));
  if (from[3] != to[3]) return graph_fail("operand and result have different channels");
  GRAPH_TRY(read_pair(node, "kernel", node_tensor(g, node->inputs[0])->ndim - 2, 1, &kernel));
  GRAPH_TRY(read_window(g, node, kernel, from, to, w));
  GRAPH_TRY(graph_value(g, node->inputs[0], x));
  return graph_value(g, node->outputs[0], y);
}

/* What lies in the padding is never the largest, as XNNPACK has it, too. No bounds: a rectifier
 * behind it is a node of its own. */
int window_max_pool(graph* g, const tvmrt_region_node* node) {
  size_t dims[GRAPH_MAX_RANK];
  window w;
  uint32_t x, y;
  GRAPH_TRY(read_pool(g, node, &w, &x, &y, dims));
  return graph_check(
      xnn_define_max_pooling_2d(g->subgraph, w.before.height, w.after.width, w.after.height,
                                w.before.width, w.kernel.height, w.kernel.width, w.stride.height,
                                w.stride.width, w.dilation.height, w.dilation.width, -INFINITY,
                                INFINITY, x, y, 0),
      "the maximum");
}

/* A window over the whole image has an operator of its own, also for 8-bit values. Means over
 * parts of the image do not count the padding. */
int window_avg_pool(graph* g, const tvmrt_region_node* node) {
  window w;
  uint32_t x, y;
  size_t dims[GRAPH_MAX_RANK];
  float low, high;
  bool padded;
  GRAPH_TRY(read_pool(g, node, &w, &x, &y, dims));
  quantized_bounds(g, node, &low, &high);
  padded = w.before.height + w.before.width + w.after.height + w.after.width != 0;
  if (!padded && w.kernel.height == dims[1] && w.kernel.width == dims[2]) {
    return graph_check(xnn_define_global_average_pooling_2d(g->subgraph, low, high, x, y, 0),
                       "the mean");
  }
  return graph_check(
      xnn_define_average_pooling_2d(g->subgraph, w.before.height, w.after.width, w.after.height,
                                    w.before.width, w.kernel.height, w.kernel.width,
                                    w.stride.height, w.stride.width, -INFINITY, INFINITY, x, y, 0),
      "the mean");
}
