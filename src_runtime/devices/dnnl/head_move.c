/* What moves elements: concatenation, views, casts.
 *
 * Most of these cost nothing: they make another view of their operand's store. What cannot be
 * expressed so is copied by layout.c. */
#include <stdlib.h>
#include <string.h>

#include "build.h"

/* All parts in one element type, without gaps. Their layouts may differ: oneDNN joins any. */
static int read_parts(plan* p, const tvmrt_region_node* node, plan_arg* args, layout* mds) {
  int i;
  for (i = 0; i < node->num_inputs; ++i) {
    view* v = &args[i].v;
    args[i].arg = DNNL_ARG_MULTIPLE_SRC + i;
    PLAN_TRY(plan_source(p, node->inputs[i], v));
    /* the first part's type: one of reduced precision may have come before */
    PLAN_TRY(layout_as_dtype(p, v, i == 0 ? v->md.data_type : args[0].v.md.data_type, v));
    mds[i] = v->md;
  }
  return 0;
}

/* No posts and no sum: the attributes are for scratch memory alone. */
static int concat(plan* p, const tvmrt_region_node* node, plan_arg* args, layout* mds) {
  int n = node->num_inputs, axis = (int)tvmrt_node_int(node, "axis", 0), rc;
  dnnl_primitive_desc_t pd = NULL;
  layout md;
  fused f;
  PLAN_TRY(read_parts(p, node, args, mds));
  /* attributes come from a file: oneDNN would count beyond its arrays */
  if (axis < 0 || axis >= mds[0].ndims) return plan_fail(p, "axis %d is out of range", axis);
  PLAN_TRY(fused_create(p, node->outputs[0], NULL, 0, mds[0].ndims, mds[0].dims, false, &f));
  rc = plan_status(p, api_concat(n, mds, axis, p->engine, f.attr, &pd),
                   "joining tensors of these extents");
  fused_free(&f);
  PLAN_TRY(rc);
  /* the place behind the last part, for which the list has room */
  args[n].arg = DNNL_ARG_DST;
  rc = layout_chosen(p, pd, dnnl_query_dst_md, 0, &md);
  if (rc == 0) rc = plan_new_view(p, &md, &args[n].v);
  if (rc != 0) {
    dnnl_primitive_desc_destroy(pd);
    return rc;
  }
  PLAN_TRY(plan_add(p, pd, args, n + 1));
  return build_set(p, node->outputs[0], &args[n].v);
}

/* Any number of parts, so the lists are not of fixed size. Both are freed here: the plan copies
 * what it keeps of them. */
int build_concat(plan* p, const tvmrt_region_node* node) {
  size_t n = (size_t)node->num_inputs;
  plan_arg* args = calloc(n + 1, sizeof(*args));
  layout* mds = calloc(n, sizeof(*mds));
  int rc;
  if (args == NULL || mds == NULL) {
    rc = plan_fail(p, "out of memory");
  } else {
    rc = concat(p, node, args, mds);
  }
  free(args);
  free(mds);
  return rc;
}

/* A scalar has no axes to slice. Backward steps are refused by layout_slice(). */
static int slice(plan* p, const tvmrt_region_node* node, view* v) {
  const int64_t *starts, *steps, *sizes;
  int n = build_tensor(p, node->inputs[0])->ndim;
  if (n == 0) return 0;
  PLAN_TRY(build_ints(p, node, "starts", n, &starts));
  PLAN_TRY(build_ints(p, node, "steps", n, &steps));
  PLAN_TRY(build_ints(p, node, "sizes", n, &sizes));
  return layout_slice(p, v, starts, steps, sizes, v);
}

/* Only the view changes; whoever reads it may have it copied. */
static int transpose(plan* p, const tvmrt_region_node* node, view* v) {
  const int64_t* perm;
  int n = build_tensor(p, node->inputs[0])->ndim;
  if (n == 0) return 0;
  PLAN_TRY(build_ints(p, node, "perm", n, &perm));
  return layout_permute(p, v, perm, v);
}

/* Reshape and identity have nothing of their own: build_set() gives the result its extents. */
int build_view(plan* p, const tvmrt_region_node* node) {
  view v;
  PLAN_TRY(plan_source(p, node->inputs[0], &v));
  if (strcmp(node->op, "slice") == 0) PLAN_TRY(slice(p, node, &v));
  if (strcmp(node->op, "transpose") == 0) PLAN_TRY(transpose(p, node, &v));
  return build_set(p, node->outputs[0], &v);
}

/* To floats alone: a cast to whole numbers cuts, where oneDNN's conversion rounds. */
int build_cast(plan* p, const tvmrt_region_node* node) {
  dnnl_data_type_t to = layout_dtype(build_tensor(p, node->outputs[0])->dtype);
  view v;
  PLAN_TRY(plan_source(p, node->inputs[0], &v));
  if (to != dnnl_f32 && to != dnnl_bf16) return plan_fail(p, "oneDNN rounds where casts truncate");
  PLAN_TRY(layout_as_dtype(p, &v, to, &v));
  return build_set(p, node->outputs[0], &v);
}
