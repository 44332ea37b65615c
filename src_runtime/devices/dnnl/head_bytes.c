/* Eight-bit tensors element by element, and their averages: quantize, dequantize, qadd,
 * qavg_pool.
 *
 * oneDNN's own forms for bytes round in other places than the meaning of these operators does. So
 * they are computed in floats, in the order that the operators say, each step a primitive's
 * operation of its own: differences of small integers are exact, and no product is fused with a
 * sum. */
#include <string.h>

#include "build.h"

#define MAX_STEPS 8

/* One operation on what flows: with a second operand, or with two numbers. */
typedef struct {
  dnnl_alg_kind_t alg;
  float alpha, beta;
  const view* other; /* NULL: none */
} step;

/* Numbers as operands. */
typedef struct {
  view zero, scale;
} pair;

/* Operands become arguments in the order of the operations. */
static int append(plan* p, dnnl_post_ops_t ops, int index, const step* s, fused* f) {
  plan_arg* operand = &f->args[f->num_args];
  if (s->other == NULL) {
    return plan_status(p, api_append_eltwise(ops, s->alg, s->alpha, s->beta), "an operation");
  }
  operand->arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1;
  operand->v = *s->other;
  f->num_args++;
  return plan_status(p, api_append_binary(ops, s->alg, &operand->v.md), "an operation");
}

/* The attributes copy the list. Any error destroys the list, never the attributes, which are the
 * caller's. */
static int set_steps(plan* p, const step* steps, int count, fused* f) {
  dnnl_post_ops_t ops = NULL;
  int rc = plan_status(p, dnnl_post_ops_create(&ops), "post-operations");
  int i;
  for (i = 0; rc == 0 && i < count; ++i) rc = append(p, ops, i, &steps[i], f);
  if (rc == 0) rc = plan_status(p, dnnl_primitive_attr_set_post_ops(f->attr, ops), "operations");
  if (ops != NULL) dnnl_post_ops_destroy(ops);
  return rc;
}

/* A primitive with steps behind it, from `src` and perhaps another operand to a new view. *out is
 * the new view only on success; operands of steps must live until this returns. */
static int add(plan* p, const api_op* op, const view* src, const view* other, const step* steps,
               int count, view* out) {
  plan_arg args[3] = {{DNNL_ARG_DST, *src}, {DNNL_ARG_SRC, *src}, {DNNL_ARG_SRC_1, *src}};
  dnnl_primitive_desc_t pd = NULL;
  fused f;
  int rc;
  if (other != NULL) args[2].v = *other;
  PLAN_TRY(fused_create(p, -1, NULL, 0, op->dst->ndims, op->dst->dims, false, &f));
  rc = set_steps(p, steps, count, &f);
  if (rc == 0) rc = fused_desc(p, op, &f, 0, &pd);
  if (rc == 0) rc = fused_finish(p, pd, &f, args, other == NULL ? 2 : 3);
  fused_free(&f);
  *out = args[0].v;
  return rc;
}

/* Steps on floats. The first has a second operand: unlike operations with numbers alone, oneDNN's
 * quick form of it takes others behind it. The result has the operand's layout. */
static int compute(plan* p, const view* src, const step* steps, int count, view* out) {
  const api_op op = {.kind = API_BINARY,
                     .what = "a step between bytes",
                     .alg = steps[0].alg,
                     .src = &src->md,
                     .weights = &steps[0].other->md,
                     .dst = &src->md};
  return add(p, &op, src, steps[0].other, steps + 1, count - 1, out);
}

/* A tensor as floats without gaps, in its own order unless some of its blocks are not full,
 * behind which oneDNN 2.6 is wrong where steps follow. */
static int floats(plan* p, int32_t tensor, view* out) {
  PLAN_TRY(plan_source(p, tensor, out));
  PLAN_TRY(layout_packed(p, out, out));
  if (!layout_is_whole(&out->md)) PLAN_TRY(layout_row_major(p, out, out));
  return layout_as_dtype(p, out, dnnl_f32, out);
}

/* A result that has been rounded and clamped. Nothing rounds any more: the numbers are whole and
 * within the type. */
static int set_bytes(plan* p, int32_t tensor, const view* v, dnnl_data_type_t to) {
  view bytes;
  PLAN_TRY(layout_as_dtype(p, v, to, &bytes));
  return build_set(p, tensor, &bytes);
}

/* A number as an operand for tensors of so many dimensions. In floats, as it will be computed
 * with: scales of files are floats, and zero points small. */
static int number(plan* p, int ndims, double value, view* out) {
  dnnl_dims_t ones;
  layout md;
  float f = (float)value;
  int i;
  for (i = 0; i < ndims; ++i) ones[i] = 1;
  PLAN_TRY(layout_dense(p, ndims, ones, dnnl_f32, &md));
  PLAN_TRY(plan_new_constant(p, &md, out));
  memcpy(p->stores[out->store].data, &f, sizeof(f));
  return 0;
}

/* (x - zero) * scale: a difference that is exact, and a product that is rounded. All numbers are
 * operands but those of quantized(): oneDNN 2.6 computes with wrong ones where one primitive has
 * the same operation with numbers twice. */
static int dequantized(plan* p, const view* x, double zero, double scale, pair* numbers,
                       step* out) {
  PLAN_TRY(number(p, x->md.ndims, zero, &numbers->zero));
  PLAN_TRY(number(p, x->md.ndims, scale, &numbers->scale));
  out[0] = (step){.alg = dnnl_binary_sub, .other = &numbers->zero};
  out[1] = (step){.alg = dnnl_binary_mul, .other = &numbers->scale};
  return 0;
}

/* What the last steps need: clamp(round(f) + zero, low, high). A zero point is added behind the
 * clip, whose bounds are moved by it: the sum is then exact. */
static void quantized(const tvmrt_region_node* node, dnnl_data_type_t to, double zero, step* out) {
  const double least = to == dnnl_s8 ? -128 : 0, most = to == dnnl_s8 ? 127 : 255;
  const double low = tvmrt_node_float(node, "low", least);
  const double high = tvmrt_node_float(node, "high", most);
  out[0] = (step){.alg = dnnl_eltwise_round};
  out[1] =
      (step){.alg = dnnl_eltwise_clip, .alpha = (float)(low - zero), .beta = (float)(high - zero)};
  out[2] = (step){.alg = dnnl_eltwise_linear, .alpha = 1.0f, .beta = (float)zero};
}

/* In oneDNN's words; undef for what it does not have. */
static dnnl_data_type_t type_of(const plan* p, int32_t tensor) {
  return layout_dtype(build_tensor(p, tensor)->dtype);
}

/* Of either sign; products of 32 bits have their own operators. */
static bool is_bytes(dnnl_data_type_t type) { return type == dnnl_s8 || type == dnnl_u8; }

/* A constant of one element of any type that the operators have. *out is set on success alone. */
static int read_one(plan* p, int32_t tensor, double* out) {
  const tvmrt_region_tensor* t = tensor < 0 ? NULL : build_tensor(p, tensor);
  if (t == NULL || t->data == NULL || tvmrt_region_size(p->region, tensor) != 1) {
    return plan_fail(p, "scale and zero point are no constants of one number");
  }
  if (t->dtype.code == kDLFloat && t->dtype.bits == 32) {
    *out = (double)*(const float*)t->data;
  } else if (t->dtype.code == kDLInt && t->dtype.bits == 8) {
    *out = *(const int8_t*)t->data;
  } else if (t->dtype.code == kDLUInt && t->dtype.bits == 8) {
    *out = *(const uint8_t*)t->data;
  } else {
    return plan_fail(p, "scale and zero point are of a type that oneDNN's bytes do not have");
  }
  return 0;
}

/* Bytes as floats first: the difference is then exact. Scales for each channel are refused. */
int build_dequantize(plan* p, const tvmrt_region_node* node) {
  double scale = 1, zero = 0;
  view src, out;
  pair numbers;
  step steps[2];
  if (!is_bytes(type_of(p, node->inputs[0]))) return plan_fail(p, "the operand is of no bytes");
  PLAN_TRY(read_one(p, build_input(node, 1), &scale));
  PLAN_TRY(read_one(p, build_input(node, 2), &zero));
  PLAN_TRY(floats(p, node->inputs[0], &src));
  PLAN_TRY(dequantized(p, &src, zero, scale, &numbers, steps));
  PLAN_TRY(compute(p, &src, steps, 2, &out));
  return build_set(p, node->outputs[0], &out);
}

/* Divided and not multiplied by the inverse, as the operator says, which rounds otherwise. Rounds
 * to the nearest even, as ONNX does. */
int build_quantize(plan* p, const tvmrt_region_node* node) {
  const dnnl_data_type_t to = type_of(p, node->outputs[0]);
  double scale = 1, zero = 0;
  view src, divisor, out;
  step steps[4];
  if (!is_bytes(to)) return plan_fail(p, "the result is of no bytes");
  PLAN_TRY(read_one(p, build_input(node, 1), &scale));
  PLAN_TRY(read_one(p, build_input(node, 2), &zero));
  PLAN_TRY(floats(p, node->inputs[0], &src));
  PLAN_TRY(number(p, src.md.ndims, scale, &divisor));
  steps[0] = (step){.alg = dnnl_binary_div, .other = &divisor};
  quantized(node, to, zero, steps + 1);
  PLAN_TRY(compute(p, &src, steps, 4, &out));
  return set_bytes(p, node->outputs[0], &out, to);
}

/* The first operand becomes floats by itself and is then an operand of the second one's steps.
 * Both zero points go away before anything is scaled. */
int build_qadd(plan* p, const tvmrt_region_node* node) {
  const dnnl_data_type_t to = type_of(p, node->outputs[0]);
  view a, b, term, divisor, out;
  pair a_numbers, b_numbers;
  step steps[MAX_STEPS];
  if (!is_bytes(to) || !is_bytes(type_of(p, node->inputs[0])) ||
      !is_bytes(type_of(p, build_input(node, 1)))) {
    return plan_fail(p, "an operand or the result is of no bytes");
  }
  PLAN_TRY(floats(p, node->inputs[0], &a));
  PLAN_TRY(floats(p, node->inputs[1], &b));
  PLAN_TRY(dequantized(p, &a, tvmrt_node_float(node, "a_zero", 0),
                       tvmrt_node_float(node, "a_scale", 1), &a_numbers, steps));
  PLAN_TRY(compute(p, &a, steps, 2, &term));
  PLAN_TRY(layout_convert(p, &term, &b.md, &term)); /* operands of a step lie in its order */
  PLAN_TRY(dequantized(p, &b, tvmrt_node_float(node, "b_zero", 0),
                       tvmrt_node_float(node, "b_scale", 1), &b_numbers, steps));
  PLAN_TRY(number(p, b.md.ndims, tvmrt_node_float(node, "y_scale", 1), &divisor));
  /* in the order of the operator: sum, then quotient, then rounding */
  steps[2] = (step){.alg = dnnl_binary_add, .other = &term};
  steps[3] = (step){.alg = dnnl_binary_div, .other = &divisor};
  quantized(node, to, tvmrt_node_float(node, "y_zero", 0), steps + 4);
  PLAN_TRY(compute(p, &b, steps, 7, &out));
  return set_bytes(p, node->outputs[0], &out, to);
}

/* Averages ------------------------------------------------------------------------------------ */

/* Whether one window is the whole image: then the sum is exact, and multiplied once. Not where a
 * list is missing or short, which build_read_window() tells. Strides do not matter for one
 * window. */
static bool is_global(const tvmrt_region_node* node, const view* x, int spatial) {
  int32_t counts[3] = {0};
  const int64_t* kernel = tvmrt_node_ints(node, "kernel", &counts[0]);
  const int64_t* before = tvmrt_node_ints(node, "pads_before", &counts[1]);
  const int64_t* after = tvmrt_node_ints(node, "pads_after", &counts[2]);
  int i;
  if (counts[0] != spatial || counts[1] != spatial || counts[2] != spatial) return false;
  for (i = 0; i < spatial; ++i) {
    if (kernel[i] != x->md.dims[i + 2] || before[i] != 0 || after[i] != 0) return false;
  }
  return true;
}

/* One factor for both scales and the number of pixels. The sum is of whole numbers: up to 2^24 a
 * float holds it exactly, in any order. */
static int sum_pixels(plan* p, const tvmrt_region_node* node, const view* x, const int64_t* dims,
                      const step* rest, int count, view* out) {
  double pixels = 1;
  step steps[MAX_STEPS];
  layout dst;
  view row_major, factor;
  api_op op = {.kind = API_REDUCTION,
               .what = "a sum over pixels",
               .alg = dnnl_reduction_sum,
               .src = &x->md,
               .dst = &dst};
  int i;
  for (i = 2; i < x->md.ndims; ++i) pixels *= (double)x->md.dims[i];
  PLAN_TRY(
      number(p, x->md.ndims,
             tvmrt_node_float(node, "x_scale", 1) / (tvmrt_node_float(node, "y_scale", 1) * pixels),
             &factor));
  steps[0] = (step){.alg = dnnl_binary_mul, .other = &factor};
  memcpy(steps + 1, rest, (size_t)count * sizeof(*rest));
  PLAN_TRY(layout_row_major(p, x, &row_major));
  op.src = &row_major.md;
  PLAN_TRY(layout_dense(p, x->md.ndims, dims, dnnl_f32, &dst));
  return add(p, &op, &row_major, NULL, steps, count + 1, out);
}

/* build_read_window() fills what op points to. Padding is 0 in floats, which is the zero point of
 * the bytes: it was subtracted before. */
static int average(plan* p, const tvmrt_region_node* node, const view* x, const int64_t* dims,
                   const step* rest, int count, view* out) {
  step steps[MAX_STEPS];
  build_window w;
  view divisor;
  layout dst;
  api_op op = {.kind = API_POOL,
               .what = "averages of bytes",
               .alg = tvmrt_node_int(node, "count_pads", 0) != 0 ? dnnl_pooling_avg_include_padding
                                                                 : dnnl_pooling_avg_exclude_padding,
               .src = &x->md,
               .dst = &dst,
               .strides = w.strides,
               .kernel = w.kernel,
               .dilations = w.dilations,
               .before = w.before,
               .after = w.after};
  w.spatial = x->md.ndims - 2;
  PLAN_TRY(build_read_window(p, node, x->md.dims + 2, dims + 2, NULL, &w));
  PLAN_TRY(number(p, x->md.ndims, tvmrt_node_float(node, "y_scale", 1), &divisor));
  steps[0] = (step){.alg = dnnl_binary_div, .other = &divisor};
  memcpy(steps + 1, rest, (size_t)count * sizeof(*rest));
  PLAN_TRY(layout_any(p, x->md.ndims, dims, dnnl_f32, &dst));
  return add(p, &op, x, NULL, steps, count + 1, out);
}

/* For a whole image only the zero point goes away first; the scales are part of the one factor. */
int build_qavg_pool(plan* p, const tvmrt_region_node* node) {
  const dnnl_data_type_t to = type_of(p, node->outputs[0]);
  const tvmrt_region_tensor* y = build_tensor(p, node->outputs[0]);
  view x, out;
  pair numbers;
  step steps[2], rest[3];
  bool whole;
  PLAN_TRY(floats(p, node->inputs[0], &x));
  /* before any extent behind the channels is read */
  if (y->ndim < 3 || y->ndim > 5 || x.md.ndims != y->ndim || !is_bytes(to) ||
      !is_bytes(type_of(p, node->inputs[0]))) {
    return plan_fail(p, "operand and result are no images of bytes");
  }
  whole = is_global(node, &x, y->ndim - 2);
  PLAN_TRY(dequantized(p, &x, tvmrt_node_float(node, "x_zero", 0),
                       tvmrt_node_float(node, "x_scale", 1), &numbers, steps));
  PLAN_TRY(compute(p, &x, steps, whole ? 1 : 2, &x));
  quantized(node, to, tvmrt_node_float(node, "y_zero", 0), rest);
  PLAN_TRY(whole ? sum_pixels(p, node, &x, y->shape, rest, 3, &out)
                 : average(p, node, &x, y->shape, rest, 3, &out));
  return set_bytes(p, node->outputs[0], &out, to);
}
