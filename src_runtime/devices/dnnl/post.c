/* Pointwise nodes: as post-operations of a primitive, or as primitives of their own.
 *
 * Posts were read by post_read(); they are either appended to a head's attributes or built alone,
 * where the first becomes a primitive and the others its posts. What does not go is told by
 * UNSUITABLE, and the caller tries with fewer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "build.h"

/* Attributes ---------------------------------------------------------------------------------- */

/* The other operand, with as many dimensions as the value that flows. oneDNN broadcasts extents
 * of 1, and only between tensors of one rank. UNSUITABLE where flattened dimensions would have to
 * broadcast. */
static int other_operand(plan* p, int32_t tensor, int32_t flow, int ndims, const int64_t* dims,
                         view* out) {
  const tvmrt_region_tensor* t = build_tensor(p, tensor);
  const tvmrt_region_tensor* full = build_tensor(p, flow);
  bool flattened = full->ndim != ndims && !(full->ndim == 0 && ndims == 1);
  dnnl_dims_t shape;
  view v;
  int i, lead = ndims - t->ndim;
  PLAN_TRY(plan_source(p, tensor, &v));
  if (flattened && tvmrt_region_size(p->region, tensor) == tvmrt_region_size(p->region, flow)) {
    return layout_reshape(p, &v, ndims, dims, out);
  }
  if (flattened) {
    int64_t last = t->ndim > 0 ? t->shape[t->ndim - 1] : 1;
    if (tvmrt_region_size(p->region, tensor) != last) return DNNL_PLAN_UNSUITABLE;
    for (i = 0; i < ndims; ++i) shape[i] = i == ndims - 1 ? last : 1;
    return layout_reshape(p, &v, ndims, shape, out);
  }
  if (lead < 0) return DNNL_PLAN_UNSUITABLE;
  for (i = 0; i < ndims; ++i) shape[i] = i < lead ? 1 : t->shape[i - lead];
  return layout_reshape(p, &v, ndims, shape, out);
}

/* oneDNN's prelu as a post-operation takes one slope, or one for each channel. Slopes along
 * another axis are left to a primitive of their own. */
static int append_prelu(plan* p, dnnl_post_ops_t ops, int index, const post* op, int ndims,
                        const int64_t* dims, fused* f) {
  int64_t size = tvmrt_region_size(p->region, op->other);
  const tvmrt_region_tensor* t = build_tensor(p, op->other);
  plan_arg* arg = &f->args[f->num_args];
  int lead = ndims - t->ndim, axis;
  view v;
  for (axis = 0; axis < t->ndim && t->shape[axis] == 1; ++axis) continue;
  /* slopes must be constants: oneDNN wants them in an order of its own */
  if (t->data == NULL || ndims < 2 || size != dims[1] || axis + lead != 1) {
    return DNNL_PLAN_UNSUITABLE;
  }
  PLAN_TRY(plan_source(p, op->other, &v));
  arg->arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_WEIGHTS;
  PLAN_TRY(layout_reshape(p, &v, 1, &dims[1], &arg->v));
  f->num_args++;
  return plan_status(p, dnnl_post_ops_append_prelu(ops, 1 << 1), "prelu");
}

/* The operand is read in its own order, so that it is not copied for it. Gaps are closed, as
 * oneDNN's quick forms read none. */
static int append_binary(plan* p, dnnl_post_ops_t ops, int index, const post* op, int32_t flow,
                         int ndims, const int64_t* dims, fused* f) {
  plan_arg* arg = &f->args[f->num_args];
  PLAN_TRY(other_operand(p, op->other, flow, ndims, dims, &arg->v));
  PLAN_TRY(layout_packed(p, &arg->v, &arg->v));
  arg->arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1;
  f->num_args++;
  return plan_status(p, api_append_binary(ops, op->alg, &arg->v.md), "a binary operation");
}

static bool is_clip(const post* op) {
  return op->kind == POST_ELTWISE && op->alg == dnnl_eltwise_clip;
}

/* A lower bound and then an upper one are one operation. Only where the upper one is not below
 * the lower: the order would matter then. */
static bool merge_clips(const post* op, const post* next, post* out) {
  if (!is_clip(op) || !is_clip(next)) return false;
  if (op->beta != INFINITY || next->alpha != -INFINITY || next->beta < op->alpha) return false;
  *out = *next;
  out->alpha = op->alpha;
  return true;
}

/* How many posts the operation stands for that begins here. 1 or 2. *out is the operation for
 * both. */
static int take(const post* posts, int num_posts, post* out) {
  *out = posts[0];
  return num_posts > 1 && merge_clips(posts, posts + 1, out) ? 2 : 1;
}

/* oneDNN 2.6 computes with wrong parameters where one primitive has the same kind of element-wise
 * operation twice. `first` is the operation of the primitive itself; NULL where it is a head's. */
static bool has_twice(const post* first, const post* posts, int num_posts) {
  int i, k;
  for (i = 0; i < num_posts; ++i) {
    post op;
    int taken = take(posts + i, num_posts - i, &op);
    if (op.kind != POST_ELTWISE) continue;
    if (first != NULL && first->kind == POST_ELTWISE && first->alg == op.alg) return true;
    for (k = i + taken; k < num_posts; ++k) {
      if (posts[k].kind == POST_ELTWISE && posts[k].alg == op.alg) return true;
    }
    i += taken - 1;
  }
  return false;
}

/* How many operands of the posts lie in this store. */
static int count_reads(const plan* p, int32_t store, const post* posts, int num_posts) {
  int i, count = 0;
  for (i = 0; i < num_posts; ++i) {
    count += posts[i].other >= 0 && p->views[posts[i].other].store == store;
  }
  return count;
}

/* A sum into memory that holds the other operand already, which nothing else reads: no other post
 * of the primitive, and nothing afterwards. One sum a primitive: it begins with what lies in the
 * result's memory. */
static bool can_sum(const plan* p, const post* op, const post* posts, int num_posts, int32_t flow,
                    const fused* f) {
  const tvmrt_region_tensor* t = build_tensor(p, op->other);
  const tvmrt_region_tensor* full = build_tensor(p, flow);
  const int32_t store = p->views[op->other].store;
  return f->may_sum && !f->sums && op->alg == dnnl_binary_add && t->ndim == full->ndim &&
         memcmp(t->shape, full->shape, (size_t)t->ndim * sizeof(t->shape[0])) == 0 && store >= 0 &&
         plan_is_last_use(p, store) && count_reads(p, store, posts, num_posts) == 1;
}

/* No argument: the other operand is the primitive's result before it runs. */
static int append_sum(plan* p, dnnl_post_ops_t ops, const post* op, int ndims, const int64_t* dims,
                      fused* f) {
  PLAN_TRY(plan_source(p, op->other, &f->sum));
  PLAN_TRY(layout_reshape(p, &f->sum, ndims, dims, &f->sum));
  f->sums = true;
  return plan_status(p, api_append_sum(ops), "a sum");
}

/* index counts oneDNN's operations, fewer than posts where clips were joined. f->result is the
 * tensor that the last one leaves; -1 within a node, which callers never end with. */
static int append_posts(plan* p, dnnl_post_ops_t ops, int32_t flow, const post* posts,
                        int num_posts, int ndims, const int64_t* dims, fused* f) {
  int i, index = 0;
  for (i = 0; i < num_posts; ++i) {
    post op;
    /* no room for another operand */
    if (f->num_args == DNNL_PLAN_ARGS) return DNNL_PLAN_UNSUITABLE;
    i += take(&posts[i], num_posts - i, &op) - 1;
    if (op.kind == POST_ELTWISE) {
      PLAN_TRY(plan_status(p, api_append_eltwise(ops, op.alg, op.alpha, op.beta), "an operation"));
    } else if (op.kind == POST_PRELU) {
      PLAN_TRY(append_prelu(p, ops, index, &op, ndims, dims, f));
    } else if (can_sum(p, &op, posts, num_posts, flow, f)) {
      PLAN_TRY(append_sum(p, ops, &op, ndims, dims, f));
    } else {
      PLAN_TRY(append_binary(p, ops, index, &op, flow, ndims, dims, f));
    }
    ++index;
    f->result = op.result;
  }
  return 0;
}

/* On failure nothing is left to free. Scratch memory is the plan's (user mode). */
int fused_create(plan* p, int32_t flow, const post* posts, int num_posts, int ndims,
                 const int64_t* dims, bool may_sum, fused* f) {
  dnnl_post_ops_t ops = NULL;
  int rc;
  memset(f, 0, sizeof(*f));
  f->result = flow;
  f->may_sum = may_sum;
  if (has_twice(NULL, posts, num_posts)) return DNNL_PLAN_UNSUITABLE;
  rc = plan_status(p, dnnl_primitive_attr_create(&f->attr), "attributes");
  if (rc == 0) {
    rc = plan_status(p, dnnl_primitive_attr_set_scratchpad_mode(f->attr, dnnl_scratchpad_mode_user),
                     "scratch");
  }
  if (rc == 0) rc = plan_status(p, dnnl_post_ops_create(&ops), "post-operations");
  if (rc == 0) rc = append_posts(p, ops, flow, posts, num_posts, ndims, dims, f);
  if (rc == 0) {
    rc = plan_status(p, dnnl_primitive_attr_set_post_ops(f->attr, ops), "post-operations");
  }
  if (ops != NULL) dnnl_post_ops_destroy(ops);
  if (rc != 0) fused_free(f);
  return rc;
}

/* The arguments are views, which the plan has. */
void fused_free(fused* f) {
  if (f->attr != NULL) dnnl_primitive_attr_destroy(f->attr);
  f->attr = NULL;
}

/* Whether the name of oneDNN's implementation begins so. */
static bool is_named(const_dnnl_primitive_desc_t pd, const char* beginning) {
  const char* name = NULL;
  if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success) {
    return false;
  }
  return name != NULL && strncmp(name, beginning, strlen(beginning)) == 0;
}

/* Whether oneDNN has nothing better than its reference, or than convolution by matrix product. By
 * the implementation's own name, as no query tells of speed. */
static bool is_slow(const_dnnl_primitive_desc_t pd) {
  return is_named(pd, "ref") || is_named(pd, "x64:gemm");
}

/* Its names stand for products by batches of blocks, and for their depthwise form. */
bool fused_is_blockwise(const_dnnl_primitive_desc_t pd) {
  return is_named(pd, "brg") || is_named(pd, "brdgmm");
}

/* The text of the failure names the operation, not its posts. Without posts the slow one is
 * taken: there is no form with fewer. *out is the caller's to destroy, or plan_add()'s. */
int fused_desc(plan* p, const api_op* op, const fused* f, int num_posts,
               dnnl_primitive_desc_t* out) {
  char what[64];
  (void)snprintf(what, sizeof(what), "%s of these extents", op->what);
  PLAN_TRY(plan_status(p, api_primitive(op, p->engine, f->attr, out), what));
  if (num_posts == 0 || !is_slow(*out)) return 0;
  dnnl_primitive_desc_destroy(*out);
  return DNNL_PLAN_UNSUITABLE;
}

/* Where the primitive writes, in the layout that it has chosen: a new store, or what it adds to, or
 * a conversion of that. Products read their operands again and again: UNSUITABLE if one lies there. */
static int place(plan* p, const fused* f, const_dnnl_primitive_desc_t pd, const plan_arg* operands,
                 int num_operands, view* out) {
  layout md;
  int i;
  PLAN_TRY(layout_chosen(p, pd, dnnl_query_dst_md, 0, &md));
  if (!f->sums) return plan_new_view(p, &md, out);
  PLAN_TRY(layout_convert(p, &f->sum, &md, out));
  for (i = 0; i < num_operands; ++i) {
    if (operands[i].v.store == out->store) return DNNL_PLAN_UNSUITABLE;
  }
  plan_overwrite(p, out->store);
  return 0;
}

/* pd is taken over, also where this fails. The tensor is set where there is one: groups of a
 * node's own steps set theirs by themselves. */
int fused_add(plan* p, dnnl_primitive_desc_t pd, const fused* f, const plan_arg* args, int num_args,
              const view* dst) {
  /* heads have four arguments at most, and `fused` has no more than its own room */
  plan_arg all[2 * DNNL_PLAN_ARGS];
  memcpy(all, args, (size_t)num_args * sizeof(*args));
  memcpy(all + num_args, f->args, (size_t)f->num_args * sizeof(*args));
  PLAN_TRY(plan_add(p, pd, all, num_args + f->num_args));
  return f->result < 0 ? 0 : build_set(p, f->result, dst);
}

/* The place is found last, as it must not be where an operand lies. */
int fused_finish(plan* p, dnnl_primitive_desc_t pd, const fused* f, plan_arg* args, int num_args) {
  view* dst = &args[0].v;
  int i, rc = 0;
  for (i = 1; rc == 0 && i < num_args; ++i) {
    view* v = &args[i].v;
    if (args[i].arg == DNNL_ARG_SRC) {
      rc = layout_as_chosen(p, v, pd, dnnl_query_src_md, 0, v);
    } else if (args[i].arg == DNNL_ARG_WEIGHTS) {
      rc = layout_as_chosen(p, v, pd, dnnl_query_weights_md, 0, v);
    }
  }
  if (rc == 0) rc = place(p, f, pd, args + 1, num_args - 1, dst);
  if (rc == 0) return fused_add(p, pd, f, args, num_args, dst);
  dnnl_primitive_desc_destroy(pd);
  return rc;
}

/* Primitives of their own --------------------------------------------------------------------- */

/* In place where nobody reads the operand afterwards, nor the primitive itself in another order.
 * `other` is the first operation's second operand, NULL for none. */
static int result_place(plan* p, const view* src, const layout* md, const view* other,
                        const post* rest, int num_rest, view* dst) {
  bool same = other == NULL || other->store != src->store ||
              (other->offset == src->offset && api_equal(&other->md, &src->md));
  if (same && api_equal(&src->md, md) && plan_is_last_use(p, src->store) &&
      count_reads(p, src->store, rest, num_rest) == 0) {
    plan_overwrite(p, src->store);
    *dst = *src;
    return 0;
  }
  return plan_new_view(p, md, dst);
}

/* Truth values have a type of their own; floats stay in the type in which they flow. */
static dnnl_data_type_t result_dtype(const plan* p, const view* src, int32_t result) {
  dnnl_data_type_t dtype =
      result < 0 ? src->md.data_type : layout_dtype(build_tensor(p, result)->dtype);
  return dtype == dnnl_f32 ? src->md.data_type : dtype;
}

/* The layout of a result in this type, and the view of `src` that has the same order. A layout
 * that the version cannot express in another type is left for rows. */
static int result_layout(plan* p, const view* src, dnnl_data_type_t dtype, view* from,
                         layout* out) {
  *from = *src;
  *out = src->md;
  if (dtype == src->md.data_type) return 0;
  if (api_retype(&p->layouts, &src->md, dtype, out) == dnnl_success) return 0;
  PLAN_TRY(layout_row_major(p, src, from));
  return layout_dense(p, src->md.ndims, src->md.dims, dtype, out);
}

/* What the first post is to oneDNN, from `src` to a result in the layout `dst`; `other` gets its
 * second operand. Only operations with two operands may have a result of another type. */
static int describe(plan* p, const post* first, int32_t flow, const view* src, const layout* dst,
                    plan_arg* other, api_op* out) {
  static const api_kind kinds[] = {
      [POST_ELTWISE] = API_ELTWISE, [POST_BINARY] = API_BINARY, [POST_PRELU] = API_PRELU};
  *out = (api_op){.kind = kinds[first->kind],
                  .what = "an operation",
                  .alg = first->alg,
                  .src = &src->md,
                  .dst = dst,
                  .alpha = first->alpha,
                  .beta = first->beta};
  if (first->kind != POST_BINARY && dst->data_type != src->md.data_type) {
    return DNNL_PLAN_UNSUITABLE;
  }
  if (first->kind == POST_ELTWISE) return 0;
  other->arg = first->kind == POST_BINARY ? DNNL_ARG_SRC_1 : DNNL_ARG_WEIGHTS;
  PLAN_TRY(other_operand(p, first->other, flow, src->md.ndims, src->md.dims, &other->v));
  out->weights = &other->v.md;
  return first->kind == POST_BINARY ? layout_packed(p, &other->v, &other->v) : 0;
}

/* The first post as a primitive, num_rest of the num_left others behind it. UNSUITABLE: the
 * caller tries with fewer behind it. */
static int begin_with(plan* p, const post* first, int32_t flow, const view* src, const post* rest,
                      int num_rest, int num_left, view* out) {
  plan_arg args[3] = {{.arg = DNNL_ARG_SRC}, {.arg = DNNL_ARG_DST}, {0}};
  int32_t result = num_rest > 0 ? rest[num_rest - 1].result : first->result;
  int rc, num_args = first->kind == POST_ELTWISE ? 2 : 3;
  dnnl_primitive_desc_t pd = NULL;
  layout md;
  view from;
  api_op op;
  fused f;
  if (has_twice(first, rest, num_rest)) return DNNL_PLAN_UNSUITABLE;
  /* sums of oneDNN 2.6 for AVX2 are wrong there as soon as an operation follows them */
  if (first->kind == POST_BINARY && num_rest > 0 && !layout_is_whole(&src->md)) {
    return DNNL_PLAN_UNSUITABLE;
  }
  PLAN_TRY(result_layout(p, src, result_dtype(p, src, result), &from, &md));
  args[0].v = from;
  PLAN_TRY(describe(p, first, flow, &from, &md, &args[2], &op));
  PLAN_TRY(fused_create(p, flow, rest, num_rest, src->md.ndims, src->md.dims, false, &f));
  f.result = result;
  rc = fused_desc(p, &op, &f, num_rest, &pd);
  if (rc == 0) {
    rc = result_place(p, &from, &md, num_args == 3 ? &args[2].v : NULL, rest, num_left, out);
    args[1].v = *out;
    if (rc == 0) {
      rc = fused_add(p, pd, &f, args, num_args, out);
    } else {
      dnnl_primitive_desc_destroy(pd);
    }
  }
  fused_free(&f);
  return rc;
}

/* As many posts in a primitive as go. more-- counts down to none, with which it must go. Each
 * primitive's result is the next one's operand. The first operation alone must go, or the region
 * fails. */
int post_build_alone(plan* p, int32_t flow, const post* posts, int num_posts) {
  view src, dst;
  PLAN_TRY(plan_source(p, flow, &src));
  while (num_posts > 0) {
    post op;
    int taken = take(posts, num_posts, &op), more = num_posts - taken, rc;
    p->node = op.node;
    PLAN_TRY(layout_packed(p, &src, &src));
    do {
      rc = begin_with(p, &op, flow, &src, posts + taken, more, num_posts - taken, &dst);
    } while (rc == DNNL_PLAN_UNSUITABLE && more-- > 0);
    if (rc != 0) return -1;
    posts += taken + more;
    num_posts -= taken + more;
    src = dst;
  }
  return 0;
}
