/* Tensors of a plan in another layout or element type.
 *
 * A conversion is a primitive of the plan, or is done at once where the tensor is a constant. What
 * was converted is remembered, until somebody computes in place in one of both. */
#include "plan.h"

/* A view that was converted, so that a second reader of the same layout needs no second reorder. */
struct plan_version {
  view from;
  view to;
};

/* A store may also be a conversion of another one, which readers of that one get. Constants and
 * the caller's memory never are: they are read again by the next run. */
bool plan_is_last_use(const plan* p, int32_t store) {
  int32_t i;
  if (p->stores[store].kind != STORE_ARENA) return false;
  for (i = 0; i < p->num_versions; ++i) {
    if (p->versions[i].to.store == store && !plan_is_last_use(p, p->versions[i].from.store)) {
      return false;
    }
  }
  for (i = 0; i < p->region->num_tensors; ++i) {
    if (p->views[i].store == store && p->pending[i] > 0) return false;
  }
  return true;
}

/* Conversions from or to what is overwritten are no longer true. */
void plan_overwrite(plan* p, int32_t store) {
  int32_t i, kept = 0;
  for (i = 0; i < p->num_versions; ++i) {
    const struct plan_version* v = &p->versions[i];
    if (v->from.store != store && v->to.store != store) p->versions[kept++] = *v;
  }
  p->num_versions = kept;
}

/* With scratch memory of the plan's own, as all primitives that run have it. */
static int reorder_desc(plan* p, const view* from, const view* to, dnnl_primitive_desc_t* out) {
  dnnl_primitive_attr_t attr = NULL;
  int rc = plan_status(p, dnnl_primitive_attr_create(&attr), "attributes");
  if (rc != 0) return rc;
  rc = plan_status(p, dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
                   "attributes");
  if (rc == 0) {
    rc =
        plan_status(p, api_reorder(&from->md, &to->md, p->engine, attr, out), "a change of layout");
  }
  dnnl_primitive_attr_destroy(attr);
  return rc;
}

/* The view `to` is new, so nobody waits for what it held. */
int plan_reorder(plan* p, const view* from, const view* to) {
  dnnl_primitive_desc_t pd = NULL;
  plan_arg args[2] = {{DNNL_ARG_FROM, *from}, {DNNL_ARG_TO, *to}};
  PLAN_TRY(reorder_desc(p, from, to, &pd));
  return plan_add(p, pd, args, 2);
}

/* Weights are converted once, here. Before the plan runs, by scratch memory of oneDNN's own,
 * which goes at once. */
static int reorder_now(plan* p, const view* from, const view* to) {
  dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, NULL}, {DNNL_ARG_TO, NULL}};
  dnnl_primitive_desc_t pd = NULL;
  dnnl_primitive_t primitive = NULL;
  int rc =
      plan_status(p, api_reorder(&from->md, &to->md, p->engine, NULL, &pd), "a change of layout");
  if (rc == 0) rc = plan_status(p, dnnl_primitive_create(&primitive, pd), "a change of layout");
  if (rc == 0) {
    rc = plan_status(p, api_memory(&args[0].memory, &from->md, p->engine, plan_address(p, from)),
                     "weights");
  }
  if (rc == 0) {
    rc = plan_status(p, api_memory(&args[1].memory, &to->md, p->engine, plan_address(p, to)),
                     "weights");
  }
  if (rc == 0) {
    rc = plan_status(p, dnnl_primitive_execute(primitive, p->stream, 2, args), "weights");
  }
  /* before the objects go that it works with */
  if (rc == 0) rc = plan_status(p, dnnl_stream_wait(p->stream), "weights");
  if (args[0].memory != NULL) dnnl_memory_destroy(args[0].memory);
  if (args[1].memory != NULL) dnnl_memory_destroy(args[1].memory);
  if (primitive != NULL) dnnl_primitive_destroy(primitive);
  if (pd != NULL) dnnl_primitive_desc_destroy(pd);
  return rc;
}

/* The same elements in the same order, whatever the tensor is called. */
static bool same_view(const view* v, const view* w) {
  return v->store == w->store && v->offset == w->offset && api_equal(&v->md, &w->md);
}

/* By comparing all: there are few in a region. NULL where nobody wanted it so yet. Borrowed: the
 * list may move. */
static const view* find_version(const plan* p, const view* v, const layout* md) {
  int32_t i;
  for (i = 0; i < p->num_versions; ++i) {
    if (same_view(&p->versions[i].from, v) && api_equal(&p->versions[i].to.md, md)) {
      return &p->versions[i].to;
    }
  }
  return NULL;
}

/* Constants are converted at once, others by a primitive of the plan. A conversion into the
 * layout that it has costs nothing. */
int layout_convert(plan* p, const view* v, const layout* md, view* out) {
  struct plan_version version;
  const view* known;
  bool constant = p->stores[v->store].kind == STORE_CONSTANT;
  /* the usual case: most primitives choose what their neighbour has */
  if (api_equal(&v->md, md)) {
    *out = *v;
    return 0;
  }
  known = find_version(p, v, md);
  if (known != NULL) {
    *out = *known;
    return 0;
  }
  version.from = *v;
  if (constant) {
    PLAN_TRY(plan_new_constant(p, md, &version.to));
    PLAN_TRY(reorder_now(p, v, &version.to));
  } else {
    PLAN_TRY(plan_new_view(p, md, &version.to));
    PLAN_TRY(plan_reorder(p, v, &version.to));
  }
  PLAN_TRY(plan_grow(p, (void**)&p->versions, p->num_versions, &p->cap_versions, sizeof(version)));
  p->versions[p->num_versions++] = version;
  *out = version.to;
  return 0;
}
