/* Softmax and normalisations.
 *
 * oneDNN normalises rows: layers and groups are brought to that form by reshapes. None takes
 * posts. */
#include <string.h>

#include "build.h"

/* Append a primitive with the arguments given and set the node's result. `dst` may be the
 * operand's own view where the primitive computes in place. */
static int add(plan* p, const tvmrt_region_node* node, const api_op* op, plan_arg* args,
               int num_args, view* dst) {
  dnnl_primitive_desc_t pd = NULL;
  fused f;
  int rc;
  PLAN_TRY(fused_create(p, node->outputs[0], NULL, 0, dst->md.ndims, dst->md.dims, false, &f));
  rc = fused_desc(p, op, &f, 0, &pd);
  if (rc == 0) rc = plan_add(p, pd, args, num_args);
  fused_free(&f);
  return rc;
}

/* The node's result from its first operand, in the operand's own order. */
static int add_alike(plan* p, const tvmrt_region_node* node, api_op* op, const view* src) {
  plan_arg args[2] = {{DNNL_ARG_SRC, *src}, {.arg = DNNL_ARG_DST}};
  op->src = op->dst = &src->md;
  PLAN_TRY(plan_new_view(p, &src->md, &args[1].v));
  PLAN_TRY(add(p, node, op, args, 2, &args[1].v));
  return build_set(p, node->outputs[0], &args[1].v);
}

/* Over any axis. Accurate: the largest is subtracted first, so that nothing overflows. */
int build_softmax(plan* p, const tvmrt_region_node* node) {
  bool log = tvmrt_node_int(node, "log", 0) != 0;
  api_op op = {.kind = API_SOFTMAX,
               .what = "softmax",
               .alg = log ? dnnl_softmax_log : dnnl_softmax_accurate,
               .axis = (int)tvmrt_node_int(node, "axis", -1)};
  view src;
  PLAN_TRY(plan_source(p, node->inputs[0], &src));
  PLAN_TRY(layout_packed(p, &src, &src));
  /* counted from the end */
  if (op.axis < 0) op.axis += src.md.ndims;
  if (op.axis < 0 || op.axis >= src.md.ndims)
    return plan_fail(p, "axis %d is out of range", op.axis);
  return add_alike(p, node, &op, &src);
}

/* A number for each place in a row of `extent`, as the next argument; -1 is none. */
static int add_row(plan* p, int32_t tensor, const dnnl_dim_t* extent, int arg, plan_arg* args,
                   int* num_args) {
  plan_arg* row = &args[*num_args];
  if (tensor < 0) return 0;
  row->arg = arg;
  ++*num_args;
  PLAN_TRY(plan_source(p, tensor, &row->v));
  return layout_reshape(p, &row->v, 1, extent, &row->v);
}

/* Normalise the last dimension of [rows, extent]; scale and shift are tensors or -1. Both are as
 * long as a row, which the reshape compares. */
static int norm_rows(plan* p, const tvmrt_region_node* node, const view* src, float epsilon,
                     int32_t scale, int32_t shift, view* dst) {
  plan_arg args[4] = {{DNNL_ARG_SRC, *src}, {.arg = DNNL_ARG_DST}};
  api_op op = {.kind = API_LAYER_NORM,
               .what = "a normalisation",
               .src = &src->md,
               .dst = &src->md,
               .constant = epsilon,
               .flags = (scale >= 0 ? dnnl_use_scale : 0u) | (shift >= 0 ? dnnl_use_shift : 0u)};
  int num_args = 2;
  /* lint: src has been read, since plan_fail() never gives 0 */
  PLAN_TRY(add_row(p, scale, &src->md.dims[1], DNNL_ARG_SCALE, args, &num_args));
  PLAN_TRY(add_row(p, shift, &src->md.dims[1], DNNL_ARG_SHIFT, args, &num_args));
  PLAN_TRY(plan_new_view(p, &src->md, dst));
  args[1].v = *dst;
  return add(p, node, &op, args, num_args, dst);
}

/* The node's input as rows of `extent` elements. Rows lie behind each other, as oneDNN normalises
 * the last axis in memory. */
static int as_rows(plan* p, const tvmrt_region_node* node, int64_t extent, view* out) {
  int64_t size = tvmrt_region_size(p->region, node->inputs[0]);
  dnnl_dims_t dims;
  /* a row of nothing cannot be divided by */
  if (extent < 1 || size % extent != 0) return plan_fail(p, "rows of %d", (int)extent);
  dims[0] = size / extent;
  dims[1] = extent;
  PLAN_TRY(plan_source(p, node->inputs[0], out));
  /* blocks of channels would lie within a row */
  PLAN_TRY(layout_row_major(p, out, out));
  return layout_reshape(p, out, 2, dims, out);
}

/* All axes from `axis` on are one row. Scale and shift then have as many numbers as the row. */
int build_layer_norm(plan* p, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* x = build_tensor(p, node->inputs[0]);
  float epsilon = (float)tvmrt_node_float(node, "epsilon", 1e-5);
  int64_t axis = tvmrt_node_int(node, "axis", x->ndim - 1), extent = 1, i;
  view src, dst;
  if (tvmrt_node_int(node, "centre", 1) == 0) {
    return plan_fail(p, "oneDNN normalises around the mean only");
  }
  if (axis < 0 || axis > x->ndim) return plan_fail(p, "axis %d is out of range", (int)axis);
  for (i = axis; i < x->ndim; ++i) extent *= x->shape[i];
  PLAN_TRY(as_rows(p, node, extent, &src));
  PLAN_TRY(norm_rows(p, node, &src, epsilon, build_input(node, 1), build_input(node, 2), &dst));
  return build_set(p, node->outputs[0], &dst);
}

/* Multiply by or add one number for each channel. In place: the tensor is the one that was just
 * computed, which nobody else has. */
static int per_channel(plan* p, const tvmrt_region_node* node, dnnl_alg_kind_t alg, int32_t numbers,
                       view* v) {
  plan_arg args[3] = {{DNNL_ARG_SRC, *v}, {.arg = DNNL_ARG_SRC_1}, {DNNL_ARG_DST, *v}};
  api_op op = {.kind = API_BINARY, .what = "scaling channels", .alg = alg};
  dnnl_dims_t dims;
  int i;
  /* none: the tensor stays as it is */
  if (numbers < 0) return 0;
  for (i = 0; i < v->md.ndims; ++i) dims[i] = i == 1 ? v->md.dims[1] : 1;
  PLAN_TRY(plan_source(p, numbers, &args[1].v));
  PLAN_TRY(layout_reshape(p, &args[1].v, v->md.ndims, dims, &args[1].v));
  op.src = op.dst = &v->md;
  op.weights = &args[1].v.md;
  return add(p, node, &op, args, 3, v);
}

/* oneDNN's scale and shift would be those of places within a group, the node's are those of
 * channels. So the rows are normalised without either, and both are applied to channels behind
 * it. */
int build_group_norm(plan* p, const tvmrt_region_node* node) {
  const tvmrt_region_tensor* x = build_tensor(p, node->inputs[0]);
  float epsilon = (float)tvmrt_node_float(node, "epsilon", 1e-5);
  int64_t groups = tvmrt_node_int(node, "groups", 1), size, rows;
  view src, dst;
  size = tvmrt_region_size(p->region, node->inputs[0]);
  /* an image's channels are axis 1; groups of them lie one behind the other */
  rows = x->ndim < 2 || groups < 1 ? 0 : x->shape[0] * groups;
  if (rows < 1 || size % rows != 0) return plan_fail(p, "channels do not fall into groups");
  PLAN_TRY(as_rows(p, node, size / rows, &src));
  PLAN_TRY(norm_rows(p, node, &src, epsilon, -1, -1, &dst));
  PLAN_TRY(layout_reshape(p, &dst, x->ndim, x->shape, &dst));
  PLAN_TRY(per_channel(p, node, dnnl_binary_mul, build_input(node, 1), &dst));
  PLAN_TRY(per_channel(p, node, dnnl_binary_add, build_input(node, 2), &dst));
  return build_set(p, node->outputs[0], &dst);
}

/* alpha is divided by the number of channels on both sides, in ONNX and in oneDNN. */
int build_lrn(plan* p, const tvmrt_region_node* node) {
  api_op op = {.kind = API_LRN,
               .what = "a normalisation",
               .size = tvmrt_node_int(node, "size", 5),
               .alpha = (float)tvmrt_node_float(node, "alpha", 1e-4),
               .beta = (float)tvmrt_node_float(node, "beta", 0.75),
               .constant = (float)tvmrt_node_float(node, "bias", 1.0)};
  view src;
  PLAN_TRY(plan_source(p, node->inputs[0], &src));
  PLAN_TRY(layout_packed(p, &src, &src));
  return add_alike(p, node, &op, &src);
}
