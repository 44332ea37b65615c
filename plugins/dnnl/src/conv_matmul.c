/* Convolutions, deconvolutions and matmuls of float32 and int8.
 *
 * A layer is read in three steps: operands, extents for oneDNN, and the offered layouts. The
 * primitive then chooses, and operands are converted to its choice. */
#include <string.h>

#include "build.h"

#define MAX_SPATIAL 3

struct weighted_op {
  const char* op;
  api_kind kind;
  bool is_int8; /* int8: the bias is input 3, otherwise 2 */
  const char* what;
};

static const weighted_op KINDS[] = {
    {"conv", API_CONV, false, "a convolution"},
    {"conv_transpose", API_DECONV, false, "a transposed convolution"},
    {"matmul", API_MATMUL, false, "a matrix product"},
    {"qconv", API_CONV, true, "an integer convolution"},
    {"qmatmul", API_MATMUL, true, "an integer product"}};

const weighted_op* weighted_op_find(const char* op) {
  size_t i;
  for (i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); ++i) {
    if (strcmp(KINDS[i].op, op) == 0) return &KINDS[i];
  }
  return NULL;
}

/* Int8 layers take no posts: their requantisation uses the post-operations. */
bool weighted_op_takes_post_ops(const weighted_op* kind) { return kind != NULL && !kind->is_int8; }

/* Data from which a layer is built. */
typedef struct {
  plan_arg args[4]; /* the result, which has no store yet, operands, and the bias */
  int num_args;     /* 3 without bias */
  view *x, *w, *bias;
  layout x_md, w_md, y_md; /* offered to the primitive */
  dnnl_dims_t strides, dilations, before, after;
  api_op op;
} weighted_layer;

/* Get the operands unchanged. */
static int begin(plan* p, const weighted_op* kind, const tvmrt_region_node* node,
                 weighted_layer* o) {
  const int32_t bias = build_input(node, kind->is_int8 ? 3 : 2);
  *o = (weighted_layer){.args = {{.arg = DNNL_ARG_DST},
                                 {.arg = DNNL_ARG_SRC},
                                 {.arg = DNNL_ARG_WEIGHTS},
                                 {.arg = DNNL_ARG_BIAS}},
                        .num_args = bias < 0 ? 3 : 4};
  o->x = &o->args[1].v;
  o->w = &o->args[2].v;
  o->bias = &o->args[3].v;
  o->op = (api_op){.kind = kind->kind,
                   .what = kind->what,
                   .src = &o->x_md,
                   .weights = &o->w_md,
                   .bias = bias < 0 ? NULL : &o->bias->md,
                   .dst = &o->y_md,
                   .strides = o->strides,
                   .dilations = o->dilations,
                   .before = o->before,
                   .after = o->after};
  PLAN_TRY(plan_source(p, node->inputs[0], o->x));
  PLAN_TRY(plan_source(p, build_input(node, 1), o->w));
  return bias < 0 ? 0 : plan_source(p, bias, o->bias);
}

/* Convolutions -------------------------------------------------------------------------------- */

/* Read an attribute with a number per spatial axis. oneDNN uses 32 bits and multiplies some. */
static int read_int_attr(plan* p, const tvmrt_region_node* node, const char* key, int count,
                         int64_t minimum, dnnl_dim_t* out) {
  int32_t found = 0, i;
  const int64_t* values = tvmrt_node_ints(node, key, &found);
  if (found != count) {
    return plan_fail(p, "attribute %s has %d integers, expected %d", key, (int)found, count);
  }
  for (i = 0; i < count; ++i) {
    if (values[i] < minimum || values[i] > 1 << 28) {
      return plan_fail(p, "attribute %s has a value outside %d to 2^28", key, (int)minimum);
    }
    out[i] = values[i];
  }
  return 0;
}

/* The padding at the end follows from the extents, since the node's own may exceed the last window.
 * The bounds keep all values below 2^57, so nothing overflows. */
static int read_axis(plan* p, weighted_layer* o, int axis, int64_t extent, int64_t windows,
                     int64_t kernel) {
  int64_t after;
  if (extent < 0 || windows < 0 || kernel < 1 || extent > 1 << 28 || windows > 1 << 28 ||
      kernel > 1 << 28) {
    return plan_fail(p, "a window extent is outside 0 to 2^28");
  }
  after = (windows - 1) * o->strides[axis] + (kernel - 1) * o->dilations[axis] + 1 - extent -
          o->before[axis];
  if (after > 1 << 28) return plan_fail(p, "a window spans more than 2^28 elements");
  o->after[axis] = after < 0 ? 0 : after;
  o->dilations[axis]--; /* oneDNN counts the gaps */
  return 0;
}

/* A deconvolution has the window of the convolution that it inverts: from result to input. */
static int read_window(plan* p, const tvmrt_region_node* node, weighted_layer* o) {
  const bool transposed = o->op.kind == API_DECONV;
  const tvmrt_region_tensor* from =
      build_tensor(p, transposed ? node->outputs[0] : node->inputs[0]);
  const tvmrt_region_tensor* to = build_tensor(p, transposed ? node->inputs[0] : node->outputs[0]);
  const tvmrt_region_tensor* kernel = build_tensor(p, node->inputs[1]);
  int i, n = to->ndim - 2;
  if (from->ndim != to->ndim || kernel->ndim != to->ndim) {
    return plan_fail(p, "operands and result must have the same rank");
  }
  if (n < 1 || n > MAX_SPATIAL) return plan_fail(p, "%d spatial axes are not supported", n);
  PLAN_TRY(read_int_attr(p, node, "strides", n, 1, o->strides));
  PLAN_TRY(read_int_attr(p, node, "dilations", n, 1, o->dilations));
  PLAN_TRY(read_int_attr(p, node, "pads_before", n, 0, o->before));
  for (i = 0; i < n; ++i) {
    PLAN_TRY(read_axis(p, o, i, from->shape[i + 2], to->shape[i + 2], kernel->shape[i + 2]));
  }
  return 0;
}

static void swap(dnnl_dim_t* pair) {
  /* lint: both are there, as weights have three axes at least */
  const dnnl_dim_t first = pair[0];
  pair[0] = pair[1];
  pair[1] = first;
}

/* Reshape [C, ...] to [g, C / g, ...] for several groups, since oneDNN has other primitives for
 * those. A deconvolution has input channels first, but oneDNN expects output channels first, so its
 * row-major weights get exchanged strides. */
static int read_weights(plan* p, const tvmrt_region_node* node, weighted_layer* o) {
  const tvmrt_region_tensor* t = build_tensor(p, node->inputs[1]);
  const int64_t groups = tvmrt_node_int(node, "groups", 1);
  const int group_axis = groups != 1;
  dnnl_dims_t dims, strides;
  int i, n = t->ndim + group_axis;
  if (groups < 1 || t->shape[0] % groups != 0) {
    return plan_fail(p, "the weights' output channels are not a multiple of %lld groups",
                     (long long)groups);
  }
  dims[0] = groups;
  memcpy(dims + group_axis, t->shape, (size_t)t->ndim * sizeof(dims[0]));
  dims[group_axis] = t->shape[0] / groups;
  PLAN_TRY(layout_reshape(p, o->w, n, dims, o->w));
  if (o->op.kind != API_DECONV) return 0;
  PLAN_TRY(layout_row_major(p, o->w, o->w));
  for (i = n - 1; i >= 0; --i) strides[i] = i == n - 1 ? 1 : strides[i + 1] * dims[i + 1];
  swap(dims + group_axis);
  swap(strides + group_axis);
  return plan_status(p, api_layout(&p->layouts, n, dims, dnnl_f32, strides, &o->w->md), "weights");
}

/* The primitive chooses all three layouts; the bias is a row. */
static int shape_conv(plan* p, const tvmrt_region_node* node, weighted_layer* o) {
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  const view* x = o->x;
  PLAN_TRY(read_window(p, node, o));
  PLAN_TRY(read_weights(p, node, o));
  if (o->op.bias != NULL) PLAN_TRY(layout_row_major(p, o->bias, o->bias));
  PLAN_TRY(layout_any(p, x->md.ndims, x->md.dims, x->md.dtype, &o->x_md));
  PLAN_TRY(layout_any(p, o->w->md.ndims, o->w->md.dims, o->w->md.dtype, &o->w_md));
  return layout_any(p, y->ndim, y->shape, layout_dtype(y->dtype), &o->y_md);
}

/* Matmuls ------------------------------------------------------------------------------------- */

/* Product of all dimensions except the last. */
static int64_t rows_of(const tvmrt_region_tensor* t) {
  int64_t rows = 1;
  int i;
  for (i = 0; i < t->ndim - 1; ++i) rows *= t->shape[i];
  return rows;
}

/* Extents aligned as in NumPy, with leading ones; or rows and columns if all batches form one
 * matmul. */
static int read_extents(plan* p, int32_t tensor, int ndims, bool as_rows, dnnl_dims_t out) {
  const tvmrt_region_tensor* t = build_tensor(p, tensor);
  int lead = ndims - t->ndim, i;
  if (as_rows && t->ndim >= 2) {
    out[0] = rows_of(t);
    out[1] = t->shape[t->ndim - 1];
    return 0;
  }
  if (lead < 0 || ndims > DNNL_MAX_NDIMS)
    return plan_fail(p, "operands of rank %d are not supported", t->ndim);
  for (i = 0; i < ndims; ++i) out[i] = i < lead ? 1 : t->shape[i - lead];
  return 0;
}

/* oneDNN broadcasts extents of 1, and would read past the end of a bias with other extents. */
static int shape_bias(plan* p, const tvmrt_region_node* node, int32_t tensor, weighted_layer* o) {
  dnnl_dims_t dims;
  int i;
  PLAN_TRY(read_extents(p, tensor, o->y_md.ndims, o->y_md.ndims == 2, dims));
  for (i = 0; i < o->y_md.ndims; ++i) {
    /* lint: read_extents() has filled as many */
    if (dims[i] != o->y_md.dims[i] && dims[i] != 1) {
      return plan_fail(p, "the bias of %s does not broadcast to the result", node->op);
    }
  }
  PLAN_TRY(layout_reshape(p, o->bias, o->y_md.ndims, dims, o->bias));
  return layout_row_major(p, o->bias, o->bias);
}

/* Operands and result are row-major, since the next matmul reads rows. Only constant weights are
 * packed in oneDNN's layout, as packing others would cost time in each run. If one matrix serves
 * all batches, they are the rows of one matmul. */
static int shape_matmul(plan* p, const tvmrt_region_node* node, weighted_layer* o) {
  const int32_t bias = build_input(node, o->w->md.dtype == dnnl_f32 ? 2 : 3);
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  const bool as_rows = o->w->md.ndims == 2;
  const int ndims = as_rows ? 2 : y->ndim;
  dnnl_dims_t a, b, c;
  int i;
  if (o->x->md.ndims < 2 || o->w->md.ndims < 2 || y->ndim < 2) {
    return plan_fail(p, "the operands are not matrices");
  }
  PLAN_TRY(read_extents(p, node->inputs[0], ndims, as_rows, a));
  PLAN_TRY(read_extents(p, node->inputs[1], ndims, as_rows, b));
  PLAN_TRY(read_extents(p, node->outputs[0], ndims, as_rows, c));
  for (i = 0; i < ndims; ++i) {
    /* lint: read_extents() has filled as many; oneDNN divides by them */
    if (a[i] == 0 || b[i] == 0) return plan_fail(p, "an operand has no elements");
  }
  PLAN_TRY(layout_reshape(p, o->x, ndims, a, o->x));
  PLAN_TRY(layout_row_major(p, o->x, o->x));
  PLAN_TRY(layout_reshape(p, o->w, ndims, b, o->w));
  PLAN_TRY(layout_row_major(p, o->w, o->w));
  PLAN_TRY(layout_dense(p, ndims, c, layout_dtype(y->dtype), &o->y_md));
  o->x_md = o->x->md;
  o->w_md = o->w->md;
  if (p->stores[o->w->store].kind == STORE_CONSTANT) {
    PLAN_TRY(layout_any(p, ndims, b, o->w->md.dtype, &o->w_md));
  }
  return bias < 0 ? 0 : shape_bias(p, node, bias, o);
}

/* Convolutions and matmuls -------------------------------------------------------------------- */

/* Choose the layouts of a layer without posts. Channels last suits oneDNN's fastest convolutions
 * and all neighbours; if none of those applies, the primitive chooses freely. */
static int choose(plan* p, weighted_layer* o, const fused* f, dnnl_primitive_desc_t* out) {
  layout x, y;
  int rc;
  if (o->op.kind != API_MATMUL) {
    const layout free_x = o->x_md, free_y = o->y_md;
    PLAN_TRY(layout_channels_last(p, &free_x, &o->x_md));
    PLAN_TRY(layout_channels_last(p, &free_y, &o->y_md));
    rc = fused_desc(p, &o->op, f, 0, out);
    if (rc == 0 && fused_is_blockwise(*out)) return 0;
    if (rc == 0) dnnl_primitive_desc_destroy(*out);
    o->x_md = free_x;
    o->y_md = free_y;
  }
  PLAN_TRY(fused_desc(p, &o->op, f, 0, out));
  rc = plan_status(p, api_chosen(&p->layouts, *out, dnnl_query_src_md, &o->x_md, &x), "a layout");
  if (rc == 0) {
    rc = plan_status(p, api_chosen(&p->layouts, *out, dnnl_query_dst_md, &o->y_md, &y), "a layout");
  }
  if (rc != 0) {
    dnnl_primitive_desc_destroy(*out);
    return rc;
  }
  o->x_md = x;
  o->y_md = y;
  return 0;
}

/* Recreate the layer with posts, whose operands get its result's layout. pd and f are replaced. */
static int add_post_ops(plan* p, const tvmrt_region_node* node, const post_op* post_ops,
                        int num_post_ops, const weighted_layer* o, fused* f,
                        dnnl_primitive_desc_t* pd) {
  dnnl_primitive_desc_destroy(*pd);
  fused_free(f);
  PLAN_TRY(fused_create(p, node->outputs[0], post_ops, num_post_ops, &o->y_md, f));
  return fused_desc(p, &o->op, f, num_post_ops, pd);
}

int weighted_op_build(plan* p, const weighted_op* kind, const tvmrt_region_node* node,
                      const post_op* post_ops, int num_post_ops) {
  const int32_t result = num_post_ops > 0 ? post_ops[num_post_ops - 1].result : node->outputs[0];
  dnnl_primitive_desc_t pd = NULL;
  weighted_layer o;
  fused f;
  int rc;
  PLAN_TRY(begin(p, kind, node, &o));
  if (kind->is_int8) PLAN_TRY(int8_read_weights(p, node, o.w));
  PLAN_TRY(kind->kind == API_MATMUL ? shape_matmul(p, node, &o) : shape_conv(p, node, &o));
  PLAN_TRY(fused_create(p, node->outputs[0], NULL, 0, &o.y_md, &f));
  rc = kind->is_int8 ? int8_set_attributes(p, node, o.y_md.ndims, &f) : 0;
  if (rc == 0) rc = choose(p, &o, &f, &pd);
  if (rc == 0 && num_post_ops > 0) rc = add_post_ops(p, node, post_ops, num_post_ops, &o, &f, &pd);
  if (rc == 0) rc = fused_add(p, &o.op, pd, &f, o.args, o.num_args, result);
  fused_free(&f);
  return rc;
}
