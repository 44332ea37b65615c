/* Convolutions, forward and transposed, of floats and of quantised tensors.
 *
 * A convolution is read in three steps: window and extents, operands, and the layouts that the
 * primitive chooses, into which operands are then brought. Weights are constants as a rule and
 * converted once. */
#include <string.h>

#include "build.h"

/* Extents and windows of one convolution. */
typedef struct {
  int spatial;
  int64_t groups;
  dnnl_dims_t strides, dilations, before, after;
} window;

/* The three lists have a number for each spatial axis; oneDNN would read as many. */
static int read_window(plan* p, const tvmrt_region_node* node, int spatial, window* out) {
  const int64_t *strides, *dilations, *before;
  int i;
  if (spatial < 1 || spatial > BUILD_MAX_SPATIAL) return plan_fail(p, "%d spatial axes", spatial);
  PLAN_TRY(build_ints(p, node, "strides", spatial, &strides));
  PLAN_TRY(build_ints(p, node, "dilations", spatial, &dilations));
  PLAN_TRY(build_ints(p, node, "pads_before", spatial, &before));
  out->spatial = spatial;
  out->groups = tvmrt_node_int(node, "groups", 1);
  /* divided by below */
  if (out->groups < 1) return plan_fail(p, "%lld groups", (long long)out->groups);
  for (i = 0; i < spatial; ++i) {
    out->strides[i] = strides[i];
    out->dilations[i] = dilations[i] - 1; /* oneDNN counts the gaps */
    out->before[i] = before[i];
  }
  return 0;
}

/* The padding behind follows from the extents; a transposed convolution has them exchanged. 0
 * where the windows leave elements over. */
static int close_window(plan* p, window* w, const int64_t* larger, const int64_t* smaller,
                        const int64_t* kernel) {
  int i;
  for (i = 0; i < w->spatial; ++i) {
    PLAN_TRY(build_padding(p, larger[i], smaller[i], kernel[i], w->strides[i], w->dilations[i] + 1,
                           w->before[i], &w->after[i]));
  }
  return 0;
}

/* Extents of the tensors of one convolution, batch and channels first. */
typedef struct {
  int ndims;
  dnnl_dims_t x, kernel, y;
} extents;

/* Rows of pixels are no images to oneDNN: leave out spatial axes of one element, if one is left.
 * A layer over 1 x N pixels is then one of a single spatial axis. */
static void read_extents(const plan* p, const tvmrt_region_node* node, window* w, extents* out) {
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

/* What both kinds of convolution read of a node before their weights. */
typedef struct layer {
  int32_t weights;
  dnnl_data_type_t dtype;
  extents e;
  window w;
  operands o;
} layer;

/* Everything that oneDNN would divide by or read as far as is compared here. */
static int read_layer(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts,
                      layer* out) {
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  out->weights = build_input(node, 1);
  out->dtype = build_dtype(p, node, node->inputs[0]);
  if (out->weights < 0 || build_tensor(p, out->weights)->ndim != y->ndim) {
    return plan_fail(p, "no weights");
  }
  if (build_tensor(p, node->inputs[0])->ndim != y->ndim) {
    return plan_fail(p, "operand and result differ in their axes");
  }
  PLAN_TRY(read_window(p, node, y->ndim - 2, &out->w));
  read_extents(p, node, &out->w, &out->e);
  return read_operands(p, node, &out->e, out->dtype, build_result(node, posts, num_posts), &out->o);
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

/* The primitive, with what follows the node. Posts may sum into memory: fused_finish() looks at
 * what the layer reads. */
static int add_layer(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts,
                     api_kind kind, const char* what, const layer* l) {
  api_op op = {.kind = kind,
               .what = what,
               .src = &l->o.x_md,
               .weights = &l->o.w_md,
               .bias = l->o.bias_used,
               .dst = &l->o.y_md,
               .strides = l->w.strides,
               .dilations = l->w.dilations,
               .before = l->w.before,
               .after = l->w.after};
  dnnl_primitive_desc_t pd = NULL;
  fused f;
  int rc;
  PLAN_TRY(fused_create(p, node->outputs[0], posts, num_posts, l->e.ndims, l->e.y, true, &f));
  rc = choose(p, &op, &f, num_posts, &pd);
  if (rc == 0) rc = add_primitive(p, pd, &f, &l->o);
  fused_free(&f);
  return rc;
}

/* UNSUITABLE is for these posts: with fewer it may do. */
int build_conv(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts) {
  layer l;
  PLAN_TRY(read_layer(p, node, posts, num_posts, &l));
  /* lint: ndims says how many of the extents are set */
  PLAN_TRY(read_weights(p, l.weights, l.w.groups, &l.e, l.dtype, &l.o));
  PLAN_TRY(close_window(p, &l.w, l.e.x + 2, l.e.y + 2, l.e.kernel + 2));
  return add_layer(p, node, posts, num_posts, API_CONV, "a convolution", &l);
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

/* Where windows go forward from input to result, padding follows from the exchanged extents. */
int build_conv_transpose(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts) {
  layer l;
  PLAN_TRY(read_layer(p, node, posts, num_posts, &l));
  /* lint: ndims says how many of the extents are set */
  PLAN_TRY(read_transposed_weights(p, l.weights, l.w.groups, &l.e, l.dtype, &l.o));
  PLAN_TRY(close_window(p, &l.w, l.e.y + 2, l.e.x + 2, l.e.kernel + 2));
  return add_layer(p, node, posts, num_posts, API_DECONV, "a transposed convolution", &l);
}
