/* Products of 8-bit tensors. oneDNN computes round(scale * (sum + bias) + zero point) in 32-bit
 * floats and clamps to the range of the type; a narrower range is a clip before the zero point. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"

/* What a product needs beside its operands. */
typedef struct {
  int32_t x_zero, y_zero;
  float* scales; /* owned */
  int64_t num_scales;
  int scale_mask;
  bool rounds_first; /* before the zero point is added, as the compiler's kernels do */
  bool clips;
  float low, high;
  dnnl_data_type_t to;
} quantization;

/* Sums of 32 bits have no zero point and no bounds. Bounds are those of the type where the node
 * has none. */
static int read_output(plan* p, const tvmrt_region_node* node, quantization* q) {
  double low = tvmrt_node_float(node, "low", -INFINITY);
  double high = tvmrt_node_float(node, "high", INFINITY);
  bool is_signed;
  q->to = layout_dtype(build_tensor(p, node->outputs[0])->dtype);
  is_signed = q->to == dnnl_s8;
  q->x_zero = (int32_t)tvmrt_node_int(node, "x_zero", 0);
  q->y_zero = (int32_t)tvmrt_node_int(node, "y_zero", 0);
  if (q->to != dnnl_s8 && q->to != dnnl_u8) {
    q->y_zero = 0;
    q->clips = false;
    return 0;
  }
  /* the type's own range needs no operation: oneDNN saturates when it writes bytes */
  q->clips = low > (is_signed ? -128 : 0) || high < (is_signed ? 127 : 255);
  /* moved by the zero point, which comes behind the clip */
  q->low = (float)low - (float)q->y_zero;
  q->high = (float)high - (float)q->y_zero;
  return 0;
}

/* One scale, or one for each of the channels, which are dimension 1. A copy, which
 * build_product() frees. Sums of 32 bits are not scaled: their one factor is 1. */
static int read_scales(plan* p, int32_t tensor, int64_t channels, quantization* q) {
  const tvmrt_region_tensor* t = build_tensor(p, tensor);
  if (t->data == NULL || t->dtype.code != kDLFloat || t->dtype.bits != 32) {
    return plan_fail(p, "scales are no constant floats");
  }
  q->num_scales = q->to == dnnl_s32 ? 1 : tvmrt_region_size(p->region, tensor);
  if (q->num_scales != 1 && q->num_scales != channels) {
    return plan_fail(p, "%d scales for %d channels", (int)q->num_scales, (int)channels);
  }
  q->scales = malloc((size_t)q->num_scales * sizeof(float));
  if (q->scales == NULL) return plan_fail(p, "out of memory");
  if (q->to == dnnl_s32) {
    q->scales[0] = 1.0f;
  } else {
    memcpy(q->scales, t->data, (size_t)q->num_scales * sizeof(float));
  }
  /* bit 1 stands for dimension 1, the result's channels; no bit for one number */
  q->scale_mask = q->num_scales == 1 ? 0 : 1 << 1;
  return 0;
}

/* A constant of `count` numbers along dimension 1, or of one in dimension 0, of 4 bytes each. The
 * numbers are copied, so they may lie on the caller's stack. */
static int constant(plan* p, int ndims, int64_t count, dnnl_data_type_t dtype, const void* numbers,
                    view* out) {
  layout md;
  dnnl_dims_t dims;
  int i;
  for (i = 0; i < ndims; ++i) dims[i] = i == 1 ? count : 1;
  PLAN_TRY(layout_dense(p, ndims, dims, dtype, &md));
  PLAN_TRY(plan_new_constant(p, &md, out));
  memcpy(p->stores[out->store].data, numbers, (size_t)count * 4);
  return 0;
}

/* 0 needs no attribute. Version 2 has the number in the attributes, version 3 reads it from
 * memory. */
static int set_zero(plan* p, int arg, int32_t zero, fused* f) {
  plan_arg* operand = &f->args[f->num_args];
  bool is_operand;
  if (zero == 0) return 0;
  PLAN_TRY(plan_status(p, api_set_zero_point(f->attr, arg, zero, &is_operand), "zero points"));
  if (!is_operand) return 0;
  operand->arg = DNNL_ARG_ATTR_ZERO_POINTS | arg;
  PLAN_TRY(constant(p, 1, 1, dnnl_s32, &zero, &operand->v));
  f->num_args++;
  return 0;
}

/* The scales as an attribute, or else as the first post-operation. */
static int scale(plan* p, dnnl_post_ops_t ops, const quantization* q, int ndims, fused* f) {
  dnnl_status_t status = api_set_scales(f->attr, q->num_scales, q->scale_mask, q->scales);
  plan_arg* operand = &f->args[f->num_args];
  /* version 3: as an operation of its own, in front of all others */
  if (status != dnnl_unimplemented) return plan_status(p, status, "scales");
  if (q->num_scales == 1 && q->scales[0] == 1.0f) return 0;
  operand->arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
  PLAN_TRY(constant(p, ndims, q->num_scales, dnnl_f32, q->scales, &operand->v));
  f->num_args++;
  return plan_status(p, api_append_binary(ops, dnnl_binary_mul, &operand->v.md), "scales");
}

/* In this order: scale, round, clip. The zero point comes behind all of them, by the attributes. */
static int append_posts(plan* p, const quantization* q, int ndims, fused* f) {
  dnnl_post_ops_t ops = NULL;
  int rc = plan_status(p, dnnl_post_ops_create(&ops), "post-operations");
  if (rc == 0) rc = scale(p, ops, q, ndims, f);
  if (rc == 0 && q->rounds_first) { /* ties to even */
    rc = plan_status(p, api_append_eltwise(ops, dnnl_eltwise_round, 0.0f, 0.0f), "rounding");
  }
  if (rc == 0 && q->clips) {
    rc = plan_status(p, api_append_eltwise(ops, dnnl_eltwise_clip, q->low, q->high), "a clip");
  }
  if (rc == 0) {
    rc = plan_status(p, dnnl_primitive_attr_set_post_ops(f->attr, ops), "post-operations");
  }
  if (ops != NULL) dnnl_post_ops_destroy(ops);
  return rc;
}

/* On failure nothing is left to free. Scratch memory is the plan's, as fused_create() sets it. */
static int create_attributes(plan* p, int32_t result, const quantization* q, int ndims,
                             const int64_t* dims, fused* f) {
  int rc;
  PLAN_TRY(fused_create(p, result, NULL, 0, ndims, dims, false, f));
  rc = append_posts(p, q, ndims, f);
  if (rc == 0) rc = set_zero(p, DNNL_ARG_SRC, q->x_zero, f);
  if (rc == 0) rc = set_zero(p, DNNL_ARG_DST, q->y_zero, f);
  if (rc != 0) fused_free(f);
  return rc;
}

/* Whether all zero points are this number; a missing one is 0. A tensor of another type, or one
 * that is computed, is none. */
static bool is_zero(const plan* p, int32_t tensor, int32_t expected) {
  const tvmrt_region_tensor* t;
  const int32_t* zeros;
  int64_t i;
  if (tensor < 0) return expected == 0;
  t = build_tensor(p, tensor);
  if (t->dtype.code != kDLInt || t->dtype.bits != 32) return false;
  zeros = t->data;
  for (i = 0; zeros != NULL && i < tvmrt_region_size(p->region, tensor); ++i) {
    if (zeros[i] != expected) return false;
  }
  return zeros != NULL;
}

/* Weights as signed numbers around 0; unsigned ones around 128 are moved there. oneDNN knows no
 * zero point of weights; the highest bit of a byte is what moves 128 to 0. */
static int read_weights(plan* p, const tvmrt_region_node* node, view* out) {
  int32_t tensor = build_input(node, 1), zero = build_input(node, 4);
  dnnl_data_type_t dtype;
  layout md;
  uint8_t* bytes;
  size_t i;
  PLAN_TRY(plan_source(p, tensor, out));
  dtype = out->md.data_type;
  if (dtype == dnnl_s8 && is_zero(p, zero, 0)) return 0;
  if (dtype != dnnl_u8 || !is_zero(p, zero, 128)) {
    return plan_fail(p, "oneDNN's weights have the zero point 0, or 128 if they are unsigned");
  }
  PLAN_TRY(plan_status(p, api_retype(&p->layouts, &out->md, dnnl_s8, &md), "weights"));
  PLAN_TRY(plan_new_constant(p, &md, out));
  /* the region's own bytes are never written */
  bytes = p->stores[out->store].data;
  memcpy(bytes, build_tensor(p, tensor)->data, p->stores[out->store].bytes);
  for (i = 0; i < p->stores[out->store].bytes; ++i) bytes[i] ^= 0x80;
  return 0;
}

/* One bias for each channel, which is dimension `axis` of `ndims`. In 32 bits, in the units of
 * the sum. */
static int read_bias(plan* p, int32_t tensor, int ndims, int axis, view* out) {
  dnnl_dims_t dims;
  int i;
  PLAN_TRY(plan_source(p, tensor, out));
  for (i = 0; i < ndims; ++i) dims[i] = i == axis ? tvmrt_region_size(p->region, tensor) : 1;
  return layout_reshape(p, out, ndims, dims, out);
}

/* The result's layout is the primitive's choice, too; fused_finish() makes room for it. */
static int add_product(plan* p, const api_op* op, const fused* f, view x, view w,
                       const view* bias) {
  plan_arg args[4] = {
      {DNNL_ARG_DST, x}, {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, x}};
  dnnl_primitive_desc_t pd = NULL;
  /* the last argument, so that it can be left out by its number */
  if (bias != NULL) args[3].v = *bias;
  /* 0: there is no form with fewer operations to be tried, so a slow one is taken, too */
  PLAN_TRY(fused_desc(p, op, f, 0, &pd));
  return fused_finish(p, pd, f, args, bias == NULL ? 3 : 4);
}

/* Convolution --------------------------------------------------------------------------------- */

/* Groups are a dimension of their own in oneDNN's weights. x and y may have channels last or
 * blocks, as the primitive likes. */
static int conv_with(plan* p, const tvmrt_region_node* node, const quantization* q) {
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  const tvmrt_region_tensor* kernel = build_tensor(p, node->inputs[1]);
  int64_t groups = tvmrt_node_int(node, "groups", 1);
  int32_t bias = build_input(node, 3);
  layout x_md, w_md, y_md;
  dnnl_dims_t dims;
  view x, w, b;
  build_window win = {.spatial = y->ndim - 2};
  api_op op = {.kind = API_CONV,
               .what = "an integer convolution",
               .src = &x_md,
               .weights = &w_md,
               .bias = bias >= 0 ? &b.md : NULL,
               .dst = &y_md,
               .strides = win.strides,
               .dilations = win.dilations,
               .before = win.before,
               .after = win.after};
  fused f;
  int i, rc;
  if (win.spatial < 1 || win.spatial > BUILD_MAX_SPATIAL || kernel->ndim != y->ndim || groups < 1) {
    return plan_fail(p, "weights do not fit the result");
  }
  PLAN_TRY(plan_source(p, node->inputs[0], &x));
  PLAN_TRY(build_read_window(p, node, x.md.dims + 2, y->shape + 2, kernel->shape + 2, &win));
  PLAN_TRY(read_weights(p, node, &w));
  if (groups > 1) {
    dims[0] = groups;
    dims[1] = kernel->shape[0] / groups;
    for (i = 1; i < kernel->ndim; ++i) dims[i + 1] = kernel->shape[i];
    PLAN_TRY(layout_reshape(p, &w, kernel->ndim + 1, dims, &w));
  }
  if (bias >= 0) PLAN_TRY(read_bias(p, bias, 1, 0, &b));
  PLAN_TRY(layout_free(p, x.md.ndims, x.md.dims, x.md.data_type, &x_md));
  PLAN_TRY(layout_free(p, y->ndim, y->shape, q->to, &y_md));
  PLAN_TRY(layout_any(p, w.md.ndims, w.md.dims, dnnl_s8, &w_md));
  PLAN_TRY(create_attributes(p, node->outputs[0], q, y->ndim, y->shape, &f));
  rc = add_product(p, &op, &f, x, w, bias >= 0 ? &b : NULL);
  fused_free(&f);
  return rc;
}

/* Matrix product ------------------------------------------------------------------------------ */

/* Rows are flattened: weights are one matrix. Rows of bytes, so that the result is one behind the
 * other as well. */
static int matmul_with(plan* p, const tvmrt_region_node* node, const quantization* q) {
  const tvmrt_region_tensor* t = build_tensor(p, node->inputs[0]);
  const tvmrt_region_tensor* kernel = build_tensor(p, node->inputs[1]);
  int32_t bias = build_input(node, 3);
  dnnl_dims_t x_dims = {1}, y_dims;
  layout w_md, y_md;
  view x, w, b;
  api_op op = {.kind = API_MATMUL,
               .what = "an integer product",
               .src = &x.md,
               .weights = &w_md,
               .bias = bias >= 0 ? &b.md : NULL,
               .dst = &y_md};
  fused f;
  int i, rc;
  if (t->ndim < 2 || kernel->ndim != 2) return plan_fail(p, "operands are no matrices");
  for (i = 0; i < t->ndim - 1; ++i) x_dims[0] *= t->shape[i];
  /* which the reshape compares with what x has */
  x_dims[1] = kernel->shape[0];
  y_dims[0] = x_dims[0];
  y_dims[1] = kernel->shape[1];
  PLAN_TRY(plan_source(p, node->inputs[0], &x));
  PLAN_TRY(layout_reshape(p, &x, 2, x_dims, &x));
  PLAN_TRY(layout_row_major(p, &x, &x));
  PLAN_TRY(read_weights(p, node, &w));
  if (bias >= 0) PLAN_TRY(read_bias(p, bias, 2, 1, &b));
  PLAN_TRY(layout_any(p, 2, w.md.dims, dnnl_s8, &w_md));
  PLAN_TRY(layout_dense(p, 2, y_dims, q->to, &y_md));
  PLAN_TRY(create_attributes(p, node->outputs[0], q, 2, y_dims, &f));
  rc = add_product(p, &op, &f, x, w, bias >= 0 ? &b : NULL);
  fused_free(&f);
  return rc;
}

/* Appends the product for one way of rounding; UNSUITABLE where oneDNN has not this one. */
typedef int (*product_builder)(plan* p, const tvmrt_region_node* node, const quantization* q);

/* `channel_axis`: of the weights. Where oneDNN has no rounding in front of the zero point, it
 * rounds behind: ties then go another way. */
static int build_product(plan* p, const tvmrt_region_node* node, int channel_axis,
                         product_builder with) {
  const tvmrt_region_tensor* w;
  quantization q = {0};
  int rc;
  if (build_input(node, 1) < 0 || build_input(node, 2) < 0) {
    return plan_fail(p, "weights or scales are missing");
  }
  w = build_tensor(p, node->inputs[1]);
  if (w->ndim < 2) return plan_fail(p, "weights are no matrix");
  PLAN_TRY(read_output(p, node, &q));
  rc = read_scales(p, node->inputs[2], w->shape[channel_axis], &q);
  /* without a zero point it does not matter when the sum is rounded */
  q.rounds_first = q.y_zero != 0;
  if (rc == 0) rc = with(p, node, &q);
  if (rc == DNNL_PLAN_UNSUITABLE && q.rounds_first) { /* results may then differ by one step */
    q.rounds_first = false;
    rc = with(p, node, &q);
  }
  free(q.scales);
  return rc;
}

/* Posts are none: the row in build.c says that nothing fuses behind bytes. */
int build_qconv(plan* p, const tvmrt_region_node* node) {
  return build_product(p, node, 0, conv_with);
}

int build_qmatmul(plan* p, const tvmrt_region_node* node) {
  return build_product(p, node, 1, matmul_with);
}
