/* Convolutions, forward and transposed, of floats and of quantised tensors.
 *
 * A convolution is read in three steps: window and extents, operands, and the layouts that the
 * primitive chooses, into which operands are then brought. Weights are constants as a rule and
 * converted once. */
#include <string.h>

#include "build.h"

/* Extents of the tensors of one convolution, batch and channels first. */
typedef struct {
  int ndims;
  dnnl_dims_t x, kernel, y;
} extents;

/* Rows of pixels are no images to oneDNN: leave out spatial axes of one element, if one is left.
 * A layer over 1 x N pixels is then one of a single spatial axis. */
static void read_extents(const plan* p, const tvmrt_region_node* node, build_window* w,
                         extents* out) {
  const tvmrt_region_tensor* x = build_tensor(p, node->inputs[0]);
  const tvmrt_region_tensor* kernel = build_tensor(p, node->inputs[1]);
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  int i, kept = 0;
  for (i = 0; i < y->ndim; ++i) {
    int s = i - 2, left = y->ndim - 1 - i;
    /* of height or width one in all three */
    bool unit = s >= 0 && x->shape[i] == 1 && kernel->shape[i] == 1 && y->shape[i] == 1;
    /* one spatial axis has to stay */
    if (unit && (kept > 2 || left > 0)) continue;
    if (s >= 0) {
      /* lint: ndims says how many of the extents are set */
      w->strides[kept - 2] = w->strides[s];
      w->dilations[kept - 2] = w->dilations[s];
      w->before[kept - 2] = w->before[s];
      w->after[kept - 2] = w->after[s];
    }
    out->x[kept] = x->shape[i];
    out->kernel[kept] = kernel->shape[i];
    out->y[kept++] = y->shape[i];
  }
  out->ndims = kept;
  w->spatial = kept - 2;
}

/* Operands and layouts of one convolution, as oneDNN numbers them. */
typedef struct {
  view x, w, bias;
  layout x_md, w_md, bias_md, y_md;
  layout* bias_used; /* NULL: none */
} operands;

/* Weights [OC, IC / g, ...] as [g, OC / g, IC / g, ...]. With a dimension for groups only where
 * there are several: oneDNN takes other primitives for those. */
static int read_weights(plan* p, int32_t tensor, int64_t groups, const extents* e,
                        dnnl_data_type_t dtype, operands* o) {
  int extra = groups > 1, ndims = e->ndims + extra, i;
  dnnl_dims_t dims;
  if (e->kernel[0] % groups != 0) return plan_fail(p, "weights do not fall into groups");
  dims[0] = groups;
  dims[extra] = e->kernel[0] / groups;
  for (i = 1; i < e->ndims; ++i) dims[i + extra] = e->kernel[i];
  PLAN_TRY(plan_source(p, tensor, &o->w));
  PLAN_TRY(layout_reshape(p, &o->w, ndims, dims, &o->w));
  return layout_any(p, ndims, o->w.md.dims, dtype, &o->w_md);
}

/* One number for each channel, in rows; missing ones cost nothing. */
static int read_bias(plan* p, int32_t tensor, operands* o) {
  o->bias_used = NULL;
  if (tensor < 0) return 0;
  PLAN_TRY(plan_source(p, tensor, &o->bias));
  PLAN_TRY(layout_row_major(p, &o->bias, &o->bias));
  o->bias_md = o->bias.md;
  o->bias_used = &o->bias_md;
  return 0;
}

/* x and y are left to the primitive's choice, the bias is one row. The type is that in which the
 * node computes; operands of another are converted by fused_finish(). */
static int read_operands(plan* p, const tvmrt_region_node* node, const extents* e,
                         dnnl_data_type_t dtype, int32_t result, operands* o) {
  dnnl_data_type_t y_dtype = build_dtype(p, node, result);
  PLAN_TRY(plan_source(p, node->inputs[0], &o->x));
  PLAN_TRY(layout_reshape(p, &o->x, e->ndims, e->x, &o->x));
  PLAN_TRY(read_bias(p, build_input(node, 2), o));
  PLAN_TRY(layout_free(p, o->x.md.ndims, o->x.md.dims, dtype, &o->x_md));
  return layout_free(p, e->ndims, e->y, y_dtype, &o->y_md);
}

/* pd is taken over, also where this fails. */
static int add_primitive(plan* p, dnnl_primitive_desc_t pd, const fused* f, const operands* o) {
  plan_arg args[4] = {{DNNL_ARG_DST, o->x},
                      {DNNL_ARG_SRC, o->x},
                      {DNNL_ARG_WEIGHTS, o->w},
                      {DNNL_ARG_BIAS, o->bias}};
  return fused_finish(p, pd, f, args, o->bias_used == NULL ? 3 : 4);
}

/* Channels last suit oneDNN's quickest convolutions and the neighbours of all: only where that is
 * none of those, it chooses the layouts. *op is as it was when this returns. */
static int choose(plan* p, api_op* op, const fused* f, int num_posts, dnnl_primitive_desc_t* out) {
  const layout *x = op->src, *y = op->dst;
  layout x_last, y_last;
  /* lint: ndims says how many of the extents are set */
  int rc = layout_channels_last(p, x->ndims, x->dims, x->data_type, &x_last);
  if (rc == 0) rc = layout_channels_last(p, y->ndims, y->dims, y->data_type, &y_last);
  if (rc == 0) {
    op->src = &x_last;
    op->dst = &y_last;
    rc = fused_desc(p, op, f, num_posts, out);
    op->src = x;
    op->dst = y;
    if (rc == 0 && fused_is_blockwise(*out)) return 0;
    if (rc == 0) dnnl_primitive_desc_destroy(*out);
  }
  return fused_desc(p, op, f, num_posts, out);
}

/* Weights [IC, OC / g, ...] as [g, OC / g, IC / g, ...]. ONNX has input channels in front there,
 * oneDNN output channels as in any convolution. */
static int read_transposed_weights(plan* p, int32_t tensor, int64_t groups, const extents* e,
                                   dnnl_data_type_t dtype, operands* o) {
  int64_t dims[BUILD_MAX_SPATIAL + 3], perm[BUILD_MAX_SPATIAL + 3];
  int i;
  if (e->kernel[0] % groups != 0) return plan_fail(p, "weights do not fall into groups");
  PLAN_TRY(plan_source(p, tensor, &o->w));
  dims[0] = groups;
  dims[1] = e->kernel[0] / groups;
  for (i = 0; i < e->ndims + 1; ++i) perm[i] = i;
  for (i = 1; i < e->ndims; ++i) dims[i + 1] = e->kernel[i];
  /* input and output channels change places, within each group */
  perm[1] = 2;
  perm[2] = 1;
  PLAN_TRY(layout_reshape(p, &o->w, e->ndims + 1, dims, &o->w));
  PLAN_TRY(layout_permute(p, &o->w, perm, &o->w));
  if (groups == 1) PLAN_TRY(layout_reshape(p, &o->w, e->ndims, o->w.md.dims + 1, &o->w));
  return layout_any(p, o->w.md.ndims, o->w.md.dims, dtype, &o->w_md);
}

/* Everything that oneDNN would divide by or read as far as is compared here. Where windows go forward
 * from input to result, padding follows from the exchanged extents. Posts may sum into memory:
 * fused_finish() looks at what the layer reads. UNSUITABLE is for these posts: with fewer it may
 * do. */
static int build_layer(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts,
                       bool transposed) {
  const tvmrt_region_tensor* x = build_tensor(p, node->inputs[0]);
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  const int32_t weights = build_input(node, 1);
  const int64_t groups = tvmrt_node_int(node, "groups", 1);
  const dnnl_data_type_t dtype = build_dtype(p, node, node->inputs[0]);
  build_window w = {.spatial = y->ndim - 2};
  operands o;
  api_op op = {.kind = transposed ? API_DECONV : API_CONV,
               .what = transposed ? "a transposed convolution" : "a convolution",
               .src = &o.x_md,
               .weights = &o.w_md,
               .dst = &o.y_md,
               .strides = w.strides,
               .dilations = w.dilations,
               .before = w.before,
               .after = w.after};
  dnnl_primitive_desc_t pd = NULL;
  extents e = {.ndims = 0};
  fused f;
  int rc;
  if (weights < 0 || build_tensor(p, weights)->ndim != y->ndim) return plan_fail(p, "no weights");
  if (x->ndim != y->ndim) return plan_fail(p, "operand and result differ in their axes");
  if (w.spatial < 1 || w.spatial > BUILD_MAX_SPATIAL) {
    return plan_fail(p, "%d spatial axes", w.spatial);
  }
  PLAN_TRY(build_read_window(p, node, (transposed ? y : x)->shape + 2,
                             (transposed ? x : y)->shape + 2, build_tensor(p, weights)->shape + 2,
                             &w));
  /* divided by below */
  if (groups < 1) return plan_fail(p, "%lld groups", (long long)groups);
  read_extents(p, node, &w, &e);
  PLAN_TRY(read_operands(p, node, &e, dtype, build_result(node, posts, num_posts), &o));
  PLAN_TRY(transposed ? read_transposed_weights(p, weights, groups, &e, dtype, &o)
                      : read_weights(p, weights, groups, &e, dtype, &o));
  op.bias = o.bias_used;
  PLAN_TRY(fused_create(p, node->outputs[0], posts, num_posts, e.ndims, e.y, true, &f));
  rc = choose(p, &op, &f, num_posts, &pd);
  if (rc == 0) rc = add_primitive(p, pd, &f, &o);
  fused_free(&f);
  return rc;
}

int build_conv(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts) {
  return build_layer(p, node, posts, num_posts, false);
}

int build_conv_transpose(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts) {
  return build_layer(p, node, posts, num_posts, true);
}
