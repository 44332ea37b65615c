/* Matrix products of floats.
 *
 * Leading dimensions are flattened into rows where b is one matrix, so that there is one
 * product. */
#include <string.h>

#include "build.h"

/* A product of a [B..., M, K] and b [B..., K, N], or of matrices if b is one. */
typedef struct {
  int ndims; /* of the three */
  dnnl_dims_t a, b, y;
} extents;

/* All dimensions but the last. 1 for a vector, which callers have refused. */
static int64_t rows_of(const tvmrt_region_tensor* t) {
  int64_t rows = 1;
  int i;
  for (i = 0; i < t->ndim - 1; ++i) rows *= t->shape[i];
  return rows;
}

/* `shape` with ones in front up to `ndims` dimensions. As NumPy aligns operands: at the end. */
static void pad_front(const tvmrt_region_tensor* t, int ndims, dnnl_dims_t out) {
  int lead = ndims - t->ndim, i;
  for (i = 0; i < ndims; ++i) out[i] = i < lead ? 1 : t->shape[i - lead];
}

/* Batches broadcast as in NumPy, which oneDNN does by extents of 1. Only with one matrix for all
 * batches are they rows of one product. */
static int read_extents(plan* p, const tvmrt_region_node* node, extents* out) {
  const tvmrt_region_tensor* a = build_tensor(p, node->inputs[0]);
  const tvmrt_region_tensor* b = build_tensor(p, build_input(node, 1));
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  if (a->ndim < 2 || b->ndim < 2 || y->ndim < 2) return plan_fail(p, "operands are no matrices");
  if (b->ndim > 2) { /* batches of b */
    out->ndims = y->ndim;
    pad_front(a, y->ndim, out->a);
    pad_front(b, y->ndim, out->b);
    pad_front(y, y->ndim, out->y);
    return 0;
  }
  out->ndims = 2;
  /* the result's inner extents are compared below, its rows here */
  out->a[0] = out->y[0] = rows_of(a);
  out->a[1] = a->shape[a->ndim - 1];
  out->b[0] = b->shape[0];
  out->b[1] = out->y[1] = b->shape[1];
  if (rows_of(y) != out->y[0] || y->shape[y->ndim - 1] != out->y[1]) {
    return plan_fail(p, "the operands do not fit the result");
  }
  return 0;
}

/* oneDNN divides by the extents of matrices. Results without elements are the CPU's. */
static int check_extents(plan* p, const extents* e) {
  int i;
  /* lint: read_extents() has set ndims, or has failed */
  for (i = 0; i < e->ndims; ++i) {
    if (e->a[i] == 0 || e->b[i] == 0) return plan_fail(p, "an operand has no elements");
  }
  return 0;
}

/* The bias with the result's rank; UNSUITABLE if it depends on a flattened dimension. A bias of
 * the result's full extents is taken as well. */
static int read_bias(plan* p, int32_t tensor, const extents* e, view* out) {
  const tvmrt_region_tensor* t = build_tensor(p, tensor);
  dnnl_dims_t dims;
  int i;
  if (e->ndims == 2 && tvmrt_region_size(p->region, tensor) == e->y[0] * e->y[1] && t->ndim > 0) {
    memcpy(dims, e->y, 2 * sizeof(dims[0]));
  } else if (e->ndims == 2) {
    int64_t last = t->ndim > 0 ? t->shape[t->ndim - 1] : 1;
    if (tvmrt_region_size(p->region, tensor) != last) return DNNL_PLAN_UNSUITABLE;
    dims[0] = 1;
    dims[1] = last;
  } else {
    pad_front(t, e->ndims, dims);
  }
  PLAN_TRY(plan_source(p, tensor, out));
  PLAN_TRY(layout_reshape(p, out, e->ndims, dims, out));
  for (i = 0; i < e->ndims; ++i) {
    /* oneDNN would read beyond a bias of other extents */
    if (dims[i] != e->y[i] && dims[i] != 1) return DNNL_PLAN_UNSUITABLE;
  }
  return layout_packed(p, out, out);
}

typedef struct {
  view a, b, bias;
  layout a_md, b_md, y_md;
  bool has_bias;
} operands;

/* In the node's precision: constants are converted as they are packed. */
static int read_operands(plan* p, const tvmrt_region_node* node, int32_t result, const extents* e,
                         operands* o) {
  dnnl_data_type_t dtype = build_dtype(p, node, node->inputs[0]);
  int32_t bias = build_input(node, 2);
  bool constant = build_tensor(p, build_input(node, 1))->data != NULL;
  PLAN_TRY(plan_source(p, node->inputs[0], &o->a));
  PLAN_TRY(plan_source(p, node->inputs[1], &o->b));
  /* lint: ndims says how many of the extents are set */
  PLAN_TRY(layout_reshape(p, &o->a, e->ndims, e->a, &o->a));
  PLAN_TRY(layout_reshape(p, &o->b, e->ndims, e->b, &o->b));
  PLAN_TRY(layout_as_dtype(p, &o->a, dtype, &o->a));
  if (!constant) PLAN_TRY(layout_as_dtype(p, &o->b, dtype, &o->b));
  /* as it lies: build_matmul() looks at whether oneDNN takes that */
  o->a_md = o->a.md;
  o->b_md = o->b.md;
  if (constant) { /* packed once, the way oneDNN likes it */
    PLAN_TRY(layout_any(p, e->ndims, e->b, dtype, &o->b_md));
  }
  o->has_bias = bias >= 0;
  if (o->has_bias) PLAN_TRY(read_bias(p, bias, e, &o->bias));
  return layout_dense(p, e->ndims, e->y, build_dtype(p, node, result), &o->y_md);
}

/* pd is taken over, also where this fails. a has its layout already; b may still be packed. */
static int add_product(plan* p, dnnl_primitive_desc_t pd, const fused* f, const operands* o) {
  plan_arg args[4] = {{DNNL_ARG_DST, o->a},
                      {DNNL_ARG_SRC, o->a},
                      {DNNL_ARG_WEIGHTS, o->b},
                      {DNNL_ARG_BIAS, o->bias}};
  return fused_finish(p, pd, f, args, o->has_bias ? 4 : 3);
}

/* oneDNN's matmul takes rows or columns one behind the other, and no parts of larger matrices. */
static int settle(plan* p, view* v) {
  const dnnl_dim_t* strides = v->md.strides;
  int n = v->md.ndims;
  bool plain = layout_is_packed(&v->md) && v->md.inner_blocks == 0;
  if (plain && (strides[n - 1] == 1 || strides[n - 2] == 1)) return 0;
  return layout_row_major(p, v, v);
}

/* Weights that are computed at run time are taken as they lie, as repacking them costs each run.
 * The result is row-major, whatever comes behind: rows are what the next product reads. */
int build_matmul(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts) {
  api_op op = {.kind = API_MATMUL, .what = "a matrix product"};
  dnnl_primitive_desc_t pd = NULL;
  operands o;
  extents e;
  fused f;
  int rc;
  if (build_input(node, 1) < 0) return plan_fail(p, "an operand is missing");
  PLAN_TRY(read_extents(p, node, &e));
  PLAN_TRY(check_extents(p, &e));
  PLAN_TRY(read_operands(p, node, build_result(node, posts, num_posts), &e, &o));
  PLAN_TRY(settle(p, &o.a));
  o.a_md = o.a.md;
  /* weights that oneDNN packs come in any order */
  if (!o.b_md.any) {
    PLAN_TRY(settle(p, &o.b));
    o.b_md = o.b.md;
  }
  op.src = &o.a_md;
  op.weights = &o.b_md;
  op.bias = o.has_bias ? &o.bias.md : NULL;
  op.dst = &o.y_md;
  PLAN_TRY(fused_create(p, node->outputs[0], posts, num_posts, e.ndims, e.y, true, &f));
  rc = fused_desc(p, &op, &f, num_posts, &pd);
  if (rc == 0) rc = add_product(p, pd, &f, &o);
  fused_free(&f);
  return rc;
}
