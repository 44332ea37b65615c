/* Pointwise nodes: as post-operations of a primitive, or as separate primitives. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "build.h"

/* Reading ------------------------------------------------------------------------------------- */

/* Read a constant of one float; such operands become parameters instead of arguments. */
static bool read_scalar(const plan* p, int32_t tensor, float* out) {
  const tvmrt_region_tensor* t = tensor < 0 ? NULL : build_tensor(p, tensor);
  if (t == NULL || t->data == NULL || tvmrt_region_size(p->region, tensor) != 1) return false;
  if (layout_dtype(t->dtype) != dnnl_f32) return false;
  memcpy(out, t->data, sizeof(*out));
  return !isnan(*out);
}

static bool same_extents(const plan* p, int32_t a, int32_t b) {
  const tvmrt_region_tensor *s = build_tensor(p, a), *t = build_tensor(p, b);
  return s->ndim == t->ndim &&
         memcmp(s->shape, t->shape, (size_t)s->ndim * sizeof(s->shape[0])) == 0;
}

/* Read a node as an add, a relu, or a clip with one infinite bound, so that infinities pass. If a
 * node reads `flow` twice, the second operand is `other`. */
static bool read_node(const plan* p, const tvmrt_region_node* node, int32_t flow, post_op* out) {
  const int32_t other = build_input(node, build_input(node, 0) == flow ? 1 : 0);
  float bound;
  *out = (post_op){.alg = dnnl_eltwise_clip, .alpha = -INFINITY, .beta = INFINITY, .other = other};
  if (strcmp(node->op, "relu") == 0) {
    out->alg = dnnl_eltwise_relu;
    out->alpha = out->beta = 0.0f;
    return node->num_inputs == 1;
  }
  if (node->num_inputs != 2 || other < 0) return false;
  if (strcmp(node->op, "add") == 0) {
    out->is_sum = true;
    return layout_dtype(build_tensor(p, other)->dtype) == dnnl_f32;
  }
  if (!read_scalar(p, other, &bound)) return false;
  if (strcmp(node->op, "max") == 0) {
    out->alpha = bound;
  } else if (strcmp(node->op, "min") == 0) {
    out->beta = bound;
  } else {
    return false;
  }
  return true;
}

/* Merge two consecutive clips into one, unless the result depends on their order. */
static bool merge_bounds(post_op* first, const post_op* next) {
  const float low = fmaxf(first->alpha, next->alpha), high = fminf(first->beta, next->beta);
  if (low > high) return false;
  first->alpha = low;
  first->beta = high;
  first->result = next->result;
  first->node = next->node;
  return true;
}

/* oneDNN 2.6 uses wrong parameters if one primitive has two eltwise post-operations of equal kind,
 * so the second one is rejected. A post must not change the extents, as it writes to the layer's
 * result. */
bool post_op_read(const plan* p, int32_t node_index, int32_t flow, post_op* post_ops,
                  int* num_post_ops) {
  const tvmrt_region_node* node = &p->region->nodes[node_index];
  const int32_t result = node->outputs[0];
  post_op next;
  int i;
  if (layout_dtype(build_tensor(p, flow)->dtype) != dnnl_f32 || !same_extents(p, flow, result) ||
      !read_node(p, node, flow, &next)) {
    return false;
  }
  next.node = node_index;
  next.result = result;
  for (i = 0; i < *num_post_ops; ++i) {
    if (next.is_sum || post_ops[i].is_sum || post_ops[i].alg != next.alg) continue;
    return i == *num_post_ops - 1 && next.alg == dnnl_eltwise_clip &&
           merge_bounds(&post_ops[i], &next);
  }
  if (*num_post_ops == BUILD_MAX_POST_OPS) return false;
  post_ops[(*num_post_ops)++] = next;
  return true;
}

/* Attributes ---------------------------------------------------------------------------------- */

/* The error text is used if no other form is found. */
static int exceeds_limit(plan* p) {
  (void)plan_fail(p, "oneDNN cannot broadcast an operand of these extents");
  return PLAN_UNSUITABLE;
}

/* Get the other operand with the rank of the result: oneDNN broadcasts extents of 1 only between
 * tensors of equal rank. An operand with the result's extents is converted to its layout, since
 * oneDNN's fast kernels require that; a broadcast operand is row-major. PLAN_UNSUITABLE if
 * flattened dimensions would have to be broadcast. */
static int read_other(plan* p, int32_t tensor, int32_t flow, const layout* result, view* out) {
  const tvmrt_region_tensor* t = build_tensor(p, tensor);
  const bool flattened = build_tensor(p, flow)->ndim > result->ndims;
  const int n = result->ndims, lead = n - t->ndim;
  dnnl_dims_t shape;
  int i;
  PLAN_TRY(plan_source(p, tensor, out));
  if (same_extents(p, tensor, flow)) {
    PLAN_TRY(layout_reshape(p, out, n, result->dims, out));
    return layout_convert(p, out, result, out);
  }
  if (flattened) { /* a row, or a single number */
    int64_t last = t->ndim > 0 ? t->shape[t->ndim - 1] : 1;
    if (tvmrt_region_size(p->region, tensor) != last) return exceeds_limit(p);
    for (i = 0; i < n; ++i) shape[i] = i == n - 1 ? last : 1;
  } else if (lead < 0) {
    return exceeds_limit(p);
  }
  for (i = 0; i < n; ++i) {
    if (!flattened) shape[i] = i < lead ? 1 : t->shape[i - lead];
    /* oneDNN would read past the end of an operand with other extents */
    if (shape[i] != result->dims[i] && shape[i] != 1) return exceeds_limit(p);
  }
  PLAN_TRY(layout_reshape(p, out, n, shape, out));
  return layout_row_major(p, out, out);
}

/* Arguments are numbered by post-operation. */
static int append_post_ops(plan* p, dnnl_post_ops_t ops, int32_t flow, const post_op* post_ops,
                           int num_post_ops, const layout* result, fused* f) {
  int i;
  for (i = 0; i < num_post_ops; ++i) {
    const post_op* op = &post_ops[i];
    plan_arg* arg = &f->args[f->num_args];
    if (!op->is_sum) {
      PLAN_TRY(
          plan_status(p, api_append_eltwise(ops, op->alg, op->alpha, op->beta), "an operation"));
      continue;
    }
    PLAN_TRY(read_other(p, op->other, flow, result, &arg->v));
    arg->arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1;
    f->num_args++;
    PLAN_TRY(
        plan_status(p, dnnl_post_ops_append_binary(ops, dnnl_binary_add, arg->v.md.md), "a sum"));
  }
  return 0;
}

/* On failure nothing must be freed. The plan provides the scratch memory (user mode). */
int fused_create(plan* p, int32_t flow, const post_op* post_ops, int num_post_ops,
                 const layout* result, fused* f) {
  dnnl_post_ops_t ops = NULL;
  int rc;
  memset(f, 0, sizeof(*f));
  rc = plan_status(p, dnnl_primitive_attr_create(&f->attr), "attributes");
  if (rc == 0) {
    rc = plan_status(p, dnnl_primitive_attr_set_scratchpad_mode(f->attr, dnnl_scratchpad_mode_user),
                     "scratch");
  }
  if (rc == 0) rc = plan_status(p, dnnl_post_ops_create(&ops), "post-operations");
  if (rc == 0) rc = append_post_ops(p, ops, flow, post_ops, num_post_ops, result, f);
  if (rc == 0) {
    rc = plan_status(p, dnnl_primitive_attr_set_post_ops(f->attr, ops), "post-operations");
  }
  if (ops != NULL) dnnl_post_ops_destroy(ops);
  if (rc != 0) fused_free(f);
  return rc;
}

/* The arguments are views owned by the plan. */
void fused_free(fused* f) {
  if (f->attr != NULL) dnnl_primitive_attr_destroy(f->attr);
  f->attr = NULL;
}

/* Whether the implementation's name starts with `beginning`; no query reports its speed. */
static bool is_named(const_dnnl_primitive_desc_t pd, const char* beginning) {
  const char* name = NULL;
  dnnl_status_t status = dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
  return status == dnnl_success && name != NULL && strncmp(name, beginning, strlen(beginning)) == 0;
}

/* The names of batch-reduced GEMM kernels and of their depthwise form. */
bool fused_is_blockwise(const_dnnl_primitive_desc_t pd) {
  return is_named(pd, "brg") || is_named(pd, "brdgmm");
}

/* Slow are the reference and GEMM-based convolution. Without posts they are accepted, since no
 * smaller form exists. The caller or plan_add() destroys *out. */
int fused_desc(plan* p, const api_op* op, const fused* f, int num_post_ops,
               dnnl_primitive_desc_t* out) {
  char what[64];
  (void)snprintf(what, sizeof(what), "%s of these extents", op->what);
  PLAN_TRY(plan_status(p, api_primitive(op, p->options.engine, f->attr, out), what));
  if (num_post_ops == 0 || !(is_named(*out, "ref") || is_named(*out, "x64:gemm"))) return 0;
  dnnl_primitive_desc_destroy(*out);
  return PLAN_UNSUITABLE;
}

/* Convert the operand to the primitive's layout. Constants are converted once, when the plan is
 * made. */
static int convert_operand(plan* p, dnnl_primitive_desc_t pd, dnnl_query_t what, view* v) {
  layout md;
  PLAN_TRY(plan_status(p, api_chosen(&p->layouts, pd, what, &v->md, &md), "a layout"));
  return layout_convert(p, v, &md, v);
}

int fused_add(plan* p, const api_op* op, dnnl_primitive_desc_t pd, const fused* f, plan_arg* args,
              int num_args, int32_t result) {
  /* layers have at most four arguments, `fused` at most its array's size */
  plan_arg all[4 + 2 * BUILD_MAX_POST_OPS];
  layout md;
  int i, rc = 0;
  for (i = 1; rc == 0 && i < num_args; ++i) {
    if (args[i].arg == DNNL_ARG_SRC) {
      rc = convert_operand(p, pd, dnnl_query_src_md, &args[i].v);
    } else if (args[i].arg == DNNL_ARG_WEIGHTS) {
      rc = convert_operand(p, pd, dnnl_query_weights_md, &args[i].v);
    }
  }
  if (rc == 0) {
    rc = plan_status(p, api_chosen(&p->layouts, pd, dnnl_query_dst_md, op->dst, &md), "a layout");
  }
  if (rc == 0) rc = plan_new_view(p, &md, &args[0].v);
  if (rc != 0) {
    dnnl_primitive_desc_destroy(pd);
    return rc;
  }
  memcpy(all, args, (size_t)num_args * sizeof(*args));
  memcpy(all + num_args, f->args, (size_t)f->num_args * sizeof(*args));
  PLAN_TRY(plan_add(p, pd, all, num_args + f->num_args));
  return build_set(p, result, &args[0].v);
}

/* Separate primitives ------------------------------------------------------------------------- */

/* The result has the operand's layout. */
static int build_one(plan* p, int32_t flow, const post_op* op) {
  plan_arg args[3] = {{.arg = DNNL_ARG_DST}, {.arg = DNNL_ARG_SRC_0}, {.arg = DNNL_ARG_SRC_1}};
  view *src = &args[1].v, *other = &args[2].v;
  api_op what = {.kind = op->is_sum ? API_BINARY : API_ELTWISE,
                 .what = "an operation",
                 .alg = op->is_sum ? dnnl_binary_add : op->alg,
                 .src = &src->md,
                 .dst = &src->md,
                 .alpha = op->alpha,
                 .beta = op->beta};
  fused f;
  dnnl_primitive_desc_t pd = NULL;
  int rc = 0;
  PLAN_TRY(plan_source(p, flow, src));
  if (op->is_sum) {
    PLAN_TRY(read_other(p, op->other, flow, &src->md, other));
    what.weights = &other->md;
  }
  PLAN_TRY(fused_create(p, flow, NULL, 0, &src->md, &f));
  rc = fused_desc(p, &what, &f, 0, &pd);
  if (rc == 0) rc = fused_add(p, &what, pd, &f, args, op->is_sum ? 3 : 2, op->result);
  fused_free(&f);
  return rc;
}

int post_op_build_separate(plan* p, int32_t flow, const post_op* post_ops, int num_post_ops) {
  int i;
  for (i = 0; i < num_post_ops; ++i) {
    p->node = post_ops[i].node;
    PLAN_TRY(build_one(p, flow, &post_ops[i]));
    flow = post_ops[i].result;
  }
  return 0;
}
