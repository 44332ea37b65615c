/* Pooling, reductions, resizing to the nearest neighbour. */
#include <string.h>

#include "build.h"

/* The node's result from `src`, with the extents `dims` and in the same element type: averages and sums
 * of floats are floats. Its layout is whatever suits the primitive. */
static int add_unary(plan* p, const tvmrt_region_node* node, const api_op* kind, const view* src,
                     const int64_t* dims, const post* posts, int num_posts) {
  plan_arg args[2] = {{DNNL_ARG_DST, *src}, {DNNL_ARG_SRC, *src}};
  dnnl_primitive_desc_t pd = NULL;
  api_op op = *kind;
  layout dst;
  fused f;
  int rc;
  op.src = &src->md;
  op.dst = &dst;
  PLAN_TRY(layout_any(p, src->md.ndims, dims, src->md.data_type, &dst));
  PLAN_TRY(fused_create(p, node->outputs[0], posts, num_posts, src->md.ndims, dims, false, &f));
  rc = fused_desc(p, &op, &f, num_posts, &pd);
  if (rc == 0) rc = fused_finish(p, pd, &f, args, 2);
  fused_free(&f);
  return rc;
}

/* Pooling ------------------------------------------------------------------------------------- */

/* oneDNN counts the gaps between elements of a window, nodes the distances. The padding behind is
 * computed from the extents, which must all be reached. */
int build_read_window(plan* p, const tvmrt_region_node* node, const int64_t* x, const int64_t* y,
                      const int64_t* kernel, build_window* w) {
  const int64_t *strides, *dilations, *before;
  int i;
  if (kernel == NULL) PLAN_TRY(build_ints(p, node, "kernel", w->spatial, &kernel));
  PLAN_TRY(build_ints(p, node, "strides", w->spatial, &strides));
  PLAN_TRY(build_ints(p, node, "dilations", w->spatial, &dilations));
  PLAN_TRY(build_ints(p, node, "pads_before", w->spatial, &before));
  for (i = 0; i < w->spatial; ++i) {
    PLAN_TRY(
        build_padding(p, x[i], y[i], kernel[i], strides[i], dilations[i], before[i], &w->after[i]));
    w->kernel[i] = kernel[i];
    w->strides[i] = strides[i];
    w->dilations[i] = dilations[i] - 1;
    w->before[i] = before[i];
  }
  return 0;
}

/* Posts are those that oneDNN's pooling takes; sums into memory it does not. */
static int pool(plan* p, const tvmrt_region_node* node, const build_window* w, const view* src,
                const int64_t* dims, const post* posts, int num_posts) {
  api_op op = {.kind = API_POOL,
               .what = "pooling",
               .alg = w->alg,
               .strides = w->strides,
               .kernel = w->kernel,
               .dilations = w->dilations,
               .before = w->before,
               .after = w->after};
  return add_unary(p, node, &op, src, dims, posts, num_posts);
}

/* The image in its own order, without gaps. More than three spatial axes oneDNN has not. Averages
 * count the padding where the node says so. */
int build_pool(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts) {
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  build_window w = {.spatial = y->ndim - 2, .alg = dnnl_pooling_max};
  view src;
  if (w.spatial < 1 || w.spatial > BUILD_MAX_SPATIAL)
    return plan_fail(p, "%d spatial axes", w.spatial);
  PLAN_TRY(plan_source(p, node->inputs[0], &src));
  PLAN_TRY(layout_packed(p, &src, &src));
  if (src.md.ndims != y->ndim) return plan_fail(p, "operand and result differ in their axes");
  PLAN_TRY(build_read_window(p, node, src.md.dims + 2, y->shape + 2, NULL, &w));
  if (strcmp(node->op, "avg_pool") == 0) {
    /* whether elements of the padding count among those that are divided by */
    w.alg = tvmrt_node_int(node, "count_pads", 0) != 0 ? dnnl_pooling_avg_include_padding
                                                       : dnnl_pooling_avg_exclude_padding;
  }
  return pool(p, node, &w, &src, y->shape, posts, num_posts);
}

/* Of bytes: what follows is part of how they round. */
int build_qmax_pool(plan* p, const tvmrt_region_node* node) { return build_pool(p, node, NULL, 0); }

/* Reductions ---------------------------------------------------------------------------------- */

typedef struct {
  const char* op;
  dnnl_alg_kind_t alg;
  dnnl_alg_kind_t pool; /* over all pixels of a channel; undef if none */
} reduction_row;

/* Sums of squares are a norm without its root, whose power is `alpha`. */
static const reduction_row REDUCTIONS[] = {
    {"reduce_sum", dnnl_reduction_sum, dnnl_alg_kind_undef},
    {"reduce_mean", dnnl_reduction_mean, dnnl_pooling_avg_include_padding},
    {"reduce_max", dnnl_reduction_max, dnnl_pooling_max},
    {"reduce_min", dnnl_reduction_min, dnnl_alg_kind_undef},
    {"reduce_prod", dnnl_reduction_mul, dnnl_alg_kind_undef},
    {"reduce_sum_square", dnnl_reduction_norm_lp_power_p_sum, dnnl_alg_kind_undef},
};

/* Extents after folding, all axes kept; whether exactly the spatial axes are folded. */
static int folded_dims(plan* p, const tvmrt_region_node* node, const view* src, int64_t* dims,
                       bool* out_spatial) {
  int32_t count = 0, i;
  const int64_t* axes = tvmrt_node_ints(node, "axes", &count);
  memcpy(dims, src->md.dims, (size_t)src->md.ndims * sizeof(dims[0]));
  *out_spatial = src->md.ndims >= 3 && src->md.ndims <= 5 && count == src->md.ndims - 2;
  for (i = 0; i < count; ++i) {
    if (axes[i] < 0 || axes[i] >= src->md.ndims) return plan_fail(p, "an axis is out of range");
    dims[axes[i]] = 1;
    *out_spatial = *out_spatial && axes[i] >= 2;
  }
  return 0;
}

/* Whether a reduction keeps its axes, so that what follows sees the same extents. */
static bool keeps_rank(const plan* p, const tvmrt_region_node* node) {
  return build_tensor(p, node->outputs[0])->ndim == build_tensor(p, node->inputs[0])->ndim;
}

/* oneDNN refuses a reduction that folds no axis of more than one element. What is left of it then
 * is the tensor itself, or its square. The square is a primitive, as no view has other elements. */
static int reduce_nothing(plan* p, const tvmrt_region_node* node, const view* src) {
  api_op op = {.kind = API_ELTWISE, .what = "a square", .alg = dnnl_eltwise_square};
  if (strcmp(node->op, "reduce_sum_square") != 0) return build_set(p, node->outputs[0], src);
  return add_unary(p, node, &op, src, src->md.dims, NULL, 0);
}

/* oneDNN is quick where the axes that it folds are the last in memory: bring them there. The
 * others keep their order, so that only the rank of the result may differ. The tensor is copied
 * where its axes lie otherwise. */
static int fold_last(plan* p, dnnl_dims_t dims, view* src) {
  int64_t perm[DNNL_MAX_NDIMS];
  int kept = 0, n, i;
  for (i = 0; i < src->md.ndims; ++i) {
    if (dims[i] == src->md.dims[i]) perm[kept++] = i;
  }
  for (i = 0, n = kept; i < src->md.ndims; ++i) {
    if (dims[i] != src->md.dims[i]) perm[n++] = i;
  }
  PLAN_TRY(layout_permute(p, src, perm, src));
  for (i = 0; i < src->md.ndims; ++i) dims[i] = i < kept ? src->md.dims[i] : 1;
  return layout_row_major(p, src, src);
}

/* Pooling reads any layout and takes posts, reductions want their axes last. One window over all
 * pixels; the stride is never used. */
static int pool_all(plan* p, const tvmrt_region_node* node, dnnl_alg_kind_t alg, const view* src,
                    const int64_t* dims, const post* posts, int num_posts) {
  build_window w = {.spatial = src->md.ndims - 2, .alg = alg};
  int i;
  for (i = 0; i < w.spatial; ++i) w.kernel[i] = w.strides[i] = src->md.dims[i + 2];
  return pool(p, node, &w, src, dims, posts, num_posts);
}

/* With posts only pooling will do, see pool_all(). */
int build_reduce(plan* p, const tvmrt_region_node* node, const post* posts, int num_posts) {
  /* build.c lists the same names */
  const reduction_row* row = BUILD_ROW(REDUCTIONS, node->op);
  /* alpha is the power of reduce_sum_square; others do not read it */
  api_op op = {.kind = API_REDUCTION, .what = "a reduction", .alpha = 2.0f};
  dnnl_dims_t dims;
  bool spatial;
  view src;
  /* posts work on the result's extents, in the rank that the primitive has */
  if (num_posts > 0 && !keeps_rank(p, node)) return DNNL_PLAN_UNSUITABLE;
  PLAN_TRY(plan_source(p, node->inputs[0], &src));
  PLAN_TRY(folded_dims(p, node, &src, dims, &spatial));
  if (spatial && row->pool != dnnl_alg_kind_undef) {
    PLAN_TRY(layout_packed(p, &src, &src));
    return pool_all(p, node, row->pool, &src, dims, posts, num_posts);
  }
  if (num_posts > 0) return DNNL_PLAN_UNSUITABLE;
  if (memcmp(dims, src.md.dims, (size_t)src.md.ndims * sizeof(dims[0])) == 0) {
    return reduce_nothing(p, node, &src);
  }
  PLAN_TRY(fold_last(p, dims, &src));
  op.alg = row->alg;
  return add_unary(p, node, &op, &src, dims, NULL, 0);
}

/* Resizing ------------------------------------------------------------------------------------ */

/* The place that oneDNN takes for output element `o`: its centre's nearest. A tie goes up. */
static int64_t nearest(int64_t o, int64_t out, int64_t in) {
  double place = ((double)o + 0.5) * (double)in / (double)out - 0.5;
  int64_t below = (int64_t)(place < 0 ? 0 : place);
  int64_t found = place - (double)below >= 0.5 ? below + 1 : below;
  return found < in ? found : in - 1;
}

/* Whether the places that the node takes along its axes are those that oneDNN takes. Places were
 * made for the compiler's own kernel, which may follow any of ONNX's rules. */
static int check_places(plan* p, const tvmrt_region_node* node, const view* src, int64_t* dims) {
  int32_t count = 0, i;
  const int64_t* axes = tvmrt_node_ints(node, "axes", &count);
  /* a list of places for each axis, behind the tensor itself */
  if (count + 1 > node->num_inputs) return plan_fail(p, "places along an axis are missing");
  memcpy(dims, src->md.dims, (size_t)src->md.ndims * sizeof(dims[0]));
  for (i = 0; i < count; ++i) {
    int32_t tensor = build_input(node, i + 1);
    const int32_t* places = tensor < 0 ? NULL : build_tensor(p, tensor)->data;
    int64_t n, o;
    if (places == NULL || build_tensor(p, tensor)->dtype.bits != 32 || axes[i] < 2 ||
        axes[i] >= src->md.ndims) {
      return plan_fail(p, "axis %d is not resized by oneDNN", (int)axes[i]);
    }
    n = tvmrt_region_size(p->region, tensor);
    for (o = 0; o < n; ++o) {
      if (places[o] != nearest(o, n, src->md.dims[axes[i]])) {
        return plan_fail(p, "the places are not those of oneDNN's nearest neighbour");
      }
    }
    dims[axes[i]] = n;
  }
  return 0;
}

/* oneDNN computes places by itself, so only nodes that mean the same ones can be given to it. The
 * first two axes are never resized: oneDNN sees them as images and channels. */
int build_resample(plan* p, const tvmrt_region_node* node) {
  api_op op = {.kind = API_NEAREST, .what = "resizing"};
  dnnl_dims_t dims;
  view src;
  PLAN_TRY(plan_source(p, node->inputs[0], &src));
  PLAN_TRY(layout_packed(p, &src, &src));
  PLAN_TRY(check_places(p, node, &src, dims));
  return add_unary(p, node, &op, &src, dims, NULL, 0);
}
