/* Int8 convolutions and matmuls. oneDNN computes round(scale * (sum + bias) + zero point) in
 * float32 and saturates; a narrower range is a clip before the zero point. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"

/* Requantisation of the sum. */
typedef struct {
  int32_t y_zero;
  bool scales; /* false: the result is the int32 sum */
  bool clips;
  float low, high;
} finish;

/* The bounds are shifted by the zero point, which is added after the clip. The type's own range
 * needs no clip, since oneDNN saturates. */
static void read_finish(const plan* p, const tvmrt_region_node* node, finish* q) {
  const dnnl_data_type_t to = layout_dtype(build_tensor(p, node->outputs[0])->dtype);
  const double low = tvmrt_node_float(node, "low", -INFINITY);
  const double high = tvmrt_node_float(node, "high", INFINITY);
  *q = (finish){.scales = to == dnnl_s8 || to == dnnl_u8};
  if (!q->scales) return;
  q->y_zero = (int32_t)tvmrt_node_int(node, "y_zero", 0);
  q->clips = low > (to == dnnl_s8 ? -128 : 0) || high < (to == dnnl_s8 ? 127 : 255);
  q->low = (float)low - (float)q->y_zero;
  q->high = (float)high - (float)q->y_zero;
}

/* Make a constant of `count` 4-byte numbers along dimension 1, or of one number in dimension 0. The
 * numbers are copied, so they may be on the caller's stack. */
static int constant(plan* p, int ndims, int64_t count, dnnl_data_type_t dtype, const void* values,
                    view* out) {
  layout md;
  dnnl_dims_t dims;
  int i;
  for (i = 0; i < ndims; ++i) dims[i] = i == 1 ? count : 1;
  PLAN_TRY(layout_dense(p, ndims, dims, dtype, &md));
  PLAN_TRY(plan_new_constant(p, &md, out));
  memcpy(p->stores[out->store].data, values, (size_t)count * 4);
  return 0;
}

/* Zero points of 0 need no attribute. Version 2 stores the number in the attributes, version 3
 * reads it from memory. */
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

/* Set the scales as an attribute or, if unsupported, as the first post-operation: one, or one per
 * channel, which is dimension 1. */
static int scale(plan* p, const tvmrt_region_node* node, dnnl_post_ops_t ops, int ndims, fused* f) {
  const tvmrt_region_tensor* t = build_tensor(p, node->inputs[2]);
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  const int64_t count = tvmrt_region_size(p->region, node->inputs[2]);
  const int64_t channels = y->shape[strcmp(node->op, "qconv") == 0 ? 1 : y->ndim - 1];
  plan_arg* operand = &f->args[f->num_args];
  dnnl_status_t status;
  if (t->data == NULL || layout_dtype(t->dtype) != dnnl_f32) {
    return plan_fail(p, "the scales are not constant float32 values");
  }
  if (count != 1 && count != channels) {
    return plan_fail(p, "got %d scales for %d channels", (int)count, (int)channels);
  }
  status = api_set_scales(f->attr, count, count == 1 ? 0 : 1 << 1, t->data);
  if (status != dnnl_unimplemented) return plan_status(p, status, "scales");
  operand->arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
  PLAN_TRY(constant(p, ndims, count, dnnl_f32, t->data, &operand->v));
  f->num_args++;
  return plan_status(p, dnnl_post_ops_append_binary(ops, dnnl_binary_mul, operand->v.md.md),
                     "scales");
}

/* In this order: scale, round (ties to even), clip. The attributes add the zero point after these.
 * Without a zero point, the final rounding is sufficient. */
static int append_post_ops(plan* p, const tvmrt_region_node* node, const finish* q, int ndims,
                           dnnl_post_ops_t ops, fused* f) {
  if (!q->scales) return 0;
  PLAN_TRY(scale(p, node, ops, ndims, f));
  if (q->y_zero != 0) {
    PLAN_TRY(plan_status(p, api_append_eltwise(ops, dnnl_eltwise_round, 0.0f, 0.0f), "rounding"));
  }
  if (!q->clips) return 0;
  return plan_status(p, api_append_eltwise(ops, dnnl_eltwise_clip, q->low, q->high), "a clip");
}

int int8_set_attributes(plan* p, const tvmrt_region_node* node, int ndims, fused* f) {
  const int32_t x_zero = (int32_t)tvmrt_node_int(node, "x_zero", 0);
  dnnl_post_ops_t ops = NULL;
  finish q;
  int rc;
  if (build_input(node, 2) < 0) return plan_fail(p, "scales are missing");
  read_finish(p, node, &q);
  rc = plan_status(p, dnnl_post_ops_create(&ops), "post-operations");
  if (rc == 0) rc = append_post_ops(p, node, &q, ndims, ops, f);
  if (rc == 0) {
    rc = plan_status(p, dnnl_primitive_attr_set_post_ops(f->attr, ops), "post-operations");
  }
  if (ops != NULL) dnnl_post_ops_destroy(ops);
  if (rc == 0) rc = set_zero(p, DNNL_ARG_SRC, x_zero, f);
  return rc == 0 ? set_zero(p, DNNL_ARG_DST, q.y_zero, f) : rc;
}

/* Whether all zero points equal `expected`; a missing one is 0. False for tensors of other types
 * and for computed ones. */
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

/* Convert weights to signed numbers with zero point 0: for unsigned ones with zero point 128, the
 * highest bit is flipped. oneDNN has no zero points of weights. */
int int8_read_weights(plan* p, const tvmrt_region_node* node, view* out) {
  int32_t tensor = build_input(node, 1), zero = build_input(node, 4);
  dnnl_data_type_t dtype;
  layout md;
  uint8_t* bytes;
  size_t i;
  if (build_tensor(p, tensor)->data == NULL) return plan_fail(p, "the weights are not constant");
  dtype = out->md.dtype;
  if (dtype == dnnl_s8 && is_zero(p, zero, 0)) return 0;
  if (dtype != dnnl_u8 || !is_zero(p, zero, 128)) {
    return plan_fail(p, "oneDNN needs weight zero point 0 for int8, or 128 for uint8");
  }
  PLAN_TRY(layout_dense(p, out->md.ndims, out->md.dims, dnnl_s8, &md));
  PLAN_TRY(plan_new_constant(p, &md, out));
  /* the region's own data is never written */
  bytes = p->stores[out->store].data;
  memcpy(bytes, build_tensor(p, tensor)->data, p->stores[out->store].bytes);
  for (i = 0; i < p->stores[out->store].bytes; ++i) bytes[i] ^= 0x80;
  return 0;
}
