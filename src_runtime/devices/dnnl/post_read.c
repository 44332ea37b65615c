/* Pointwise nodes as posts: which operations of oneDNN a node stands for.
 *
 * Only the region is looked at: whether a primitive takes the operations is seen when it is
 * made. */
#include <math.h>
#include <string.h>

#include "build.h"

typedef struct {
  const char* op;
  dnnl_alg_kind_t alg;
  float alpha, beta;
} unary_row;

/* alpha and beta as oneDNN has them: linear is alpha * x + beta, pow is alpha * x^beta. */
static const unary_row UNARY[] = {
    {"relu", dnnl_eltwise_relu, 0.0f, 0.0f},
    {"sigmoid", dnnl_eltwise_logistic, 0.0f, 0.0f},
    {"tanh", dnnl_eltwise_tanh, 0.0f, 0.0f},
    {"exp", dnnl_eltwise_exp, 0.0f, 0.0f},
    {"log", dnnl_eltwise_log, 0.0f, 0.0f},
    {"sqrt", dnnl_eltwise_sqrt, 0.0f, 0.0f},
    {"abs", dnnl_eltwise_abs, 0.0f, 0.0f},
    {"round", dnnl_eltwise_round, 0.0f, 0.0f},
    {"softplus", dnnl_eltwise_soft_relu, 1.0f, 0.0f},
    {"neg", dnnl_eltwise_linear, -1.0f, 0.0f},
    {"reciprocal", dnnl_eltwise_pow, 1.0f, -1.0f},
};

typedef struct {
  const char* op;
  dnnl_alg_kind_t alg;
  dnnl_alg_kind_t swapped; /* with its operands exchanged; undef if there is none */
} binary_row;

/* x is oneDNN's first operand always; where the node has it second, `swapped` stands for it. */
static const binary_row BINARY[] = {
    {"add", dnnl_binary_add, dnnl_binary_add},
    {"mul", dnnl_binary_mul, dnnl_binary_mul},
    {"max", dnnl_binary_max, dnnl_binary_max},
    {"min", dnnl_binary_min, dnnl_binary_min},
    {"sub", dnnl_binary_sub, dnnl_alg_kind_undef},
    {"div", dnnl_binary_div, dnnl_alg_kind_undef},
    {"equal", dnnl_binary_eq, dnnl_binary_eq},
    {"less", dnnl_binary_lt, dnnl_binary_gt},
    {"less_equal", dnnl_binary_le, dnnl_binary_ge},
    {"greater", dnnl_binary_gt, dnnl_binary_lt},
    {"greater_equal", dnnl_binary_ge, dnnl_binary_le},
};

/* What flows is its one operand. */
static void set_eltwise(post* out, dnnl_alg_kind_t alg, float alpha, float beta) {
  out->kind = POST_ELTWISE;
  out->alg = alg;
  out->alpha = alpha;
  out->beta = beta;
}

/* What flows is the first operand, `other` the second. */
static void set_binary(post* out, dnnl_alg_kind_t alg, int32_t other) {
  out->kind = POST_BINARY;
  out->alg = alg;
  out->other = other;
}

/* With a constant number c as the other operand; `first`: x is the first operand. A number costs
 * no memory and no second operand. False where oneDNN has no such operation with one: then it is
 * read as a tensor. */
static bool read_scalar(const char* op, float c, bool first, post* out) {
  if (strcmp(op, "add") == 0) {
    set_eltwise(out, dnnl_eltwise_linear, 1.0f, c);
  } else if (strcmp(op, "mul") == 0) {
    set_eltwise(out, dnnl_eltwise_linear, c, 0.0f);
  } else if (strcmp(op, "sub") == 0) {
    set_eltwise(out, dnnl_eltwise_linear, first ? 1.0f : -1.0f, first ? -c : c);
  } else if (strcmp(op, "div") == 0 && first) {
    /* a product with the inverse may differ from the quotient in its last bit */
    set_eltwise(out, dnnl_eltwise_linear, 1.0f / c, 0.0f);
  } else if (strcmp(op, "div") == 0) {
    /* c / x */
    set_eltwise(out, dnnl_eltwise_pow, c, -1.0f);
  } else if (strcmp(op, "max") == 0) {
    /* one bound alone, so that the other is infinite: infinities pass */
    set_eltwise(out, dnnl_eltwise_clip, c, INFINITY);
  } else if (strcmp(op, "min") == 0) {
    set_eltwise(out, dnnl_eltwise_clip, -INFINITY, c);
  } else if (strcmp(op, "pow") == 0 && first) {
    set_eltwise(out, dnnl_eltwise_pow, 1.0f, c);
  } else if (strcmp(op, "prelu") == 0 && first) {
    /* alpha is the slope below 0 */
    set_eltwise(out, dnnl_eltwise_relu, c, 0.0f);
  } else {
    return false;
  }
  return true;
}

/* A post must not change the extents of what flows. A primitive's post-operations write where it
 * writes, element by element. */
static bool keeps_extents(const plan* p, const tvmrt_region_node* node, int32_t flow) {
  const tvmrt_region_tensor* a = build_tensor(p, flow);
  const tvmrt_region_tensor* b = build_tensor(p, node->outputs[0]);
  return a->ndim == b->ndim &&
         memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

/* Gives the number of posts, 0 for what oneDNN has not. A difference with its operands exchanged
 * takes two. */
static int read_operands(plan* p, const tvmrt_region_node* node, int32_t flow, post* out) {
  const binary_row* row = BUILD_ROW(BINARY, node->op);
  /* a node that reads what flows twice has it first, and second as the other operand */
  bool first = build_input(node, 0) == flow;
  int32_t other = build_input(node, first ? 1 : 0);
  /* of the other operand, where it is one number */
  float c;
  if (other < 0) return 0;
  if (layout_dtype(build_tensor(p, other)->dtype) == dnnl_data_type_undef) return 0;
  if (build_scalar(p, other, &c) && read_scalar(node->op, c, first, out)) return 1;
  if (strcmp(node->op, "prelu") == 0 && first) {
    out->kind = POST_PRELU;
    out->other = other;
    return 1;
  }
  if (row == NULL) return 0;
  if (first || row->swapped != dnnl_alg_kind_undef) {
    set_binary(out, first ? row->alg : row->swapped, other);
    return 1;
  }
  /* a tensor divided by x has no form of its own */
  if (row->alg != dnnl_binary_sub) return 0;
  set_eltwise(out, dnnl_eltwise_linear, -1.0f, 0.0f); /* other - x = -x + other */
  set_binary(out + 1, dnnl_binary_add, other);
  return 2;
}

int post_read(plan* p, const tvmrt_region_node* node, int32_t node_number, int32_t flow,
              post* out) {
  const unary_row* unary = BUILD_ROW(UNARY, node->op);
  int count = 1, i;
  if (node->num_outputs != 1 || !keeps_extents(p, node, flow)) return 0;
  /* room for as many: see extend() */
  memset(out, 0, 3 * sizeof(*out));
  for (i = 0; i < 3; ++i) out[i].other = -1;
  if (unary != NULL) {
    set_eltwise(out, unary->alg, unary->alpha, unary->beta);
  } else if (node->num_inputs == 2) {
    count = read_operands(p, node, flow, out);
  } else {
    return 0;
  }
  for (i = 0; i < count; ++i) {
    out[i].node = node_number;
    /* the region has a tensor behind the whole node alone */
    out[i].result = i == count - 1 ? node->outputs[0] : -1;
  }
  return count;
}
