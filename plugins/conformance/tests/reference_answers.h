/* What the reference device answers to a compiler. Mutants do not change it. */
#include <math.h>
#include <stdint.h>
#include <tvm/runtime/device.h>

static int fail(const char* why) {
  TVMPackedFuncSetLastError(why);
  return -1;
}
static int is(const tvmrt_region_node* n, const char* op) { return strcmp(n->op, op) == 0; }
static const tvmrt_region_tensor* type_of(const tvmrt_region* r, const tvmrt_region_node* n,
                                          int32_t i) {
  return i < n->num_inputs && n->inputs[i] >= 0 ? &r->tensors[n->inputs[i]] : NULL;
}
static int is_byte(const tvmrt_region_tensor* t) {
  return t->dtype.bits == 8 && t->dtype.code != kDLFloat;
}
static int is_float(const tvmrt_region_tensor* t) {
  return t->dtype.bits == 32 && t->dtype.code == kDLFloat;
}
static int same_shape(const tvmrt_region_tensor* a, const tvmrt_region_tensor* b) {
  return a->ndim == b->ndim && a->num_bytes == b->num_bytes;
}

/* NULL if the node is supported. */
static const char* refusal(const tvmrt_region* r, const tvmrt_region_node* n) {
  const tvmrt_region_tensor* x = type_of(r, n, 0);
  const tvmrt_region_tensor* w = type_of(r, n, 1);
  const tvmrt_region_tensor* y = &r->tensors[n->outputs[0]];
  const tvmrt_region_tensor* bias = type_of(r, n, 2);
  if (is(n, "qconv") || is(n, "qmatmul")) {
    if (strcmp(tvmrt_node_text(n, "rounding", "even"), "even") != 0) return "rounds ties to even";
    if (!is_byte(y)) return "gives bytes only";
    return is(n, "qconv") && x->ndim != 4 ? "images only" : NULL;
  }
  if (is(n, "conv")) return x->ndim == 4 && w->is_constant ? NULL : "images, constant weights";
  if (is(n, "matmul")) {
    if (w->ndim != 2 || !w->is_constant) return "constant matrices only";
    if (bias == NULL) return NULL;
    if (!bias->is_constant) return "a constant bias only";
    return bias->ndim == 1 && bias->shape[0] == w->shape[1] ? NULL : "a bias a column";
  }
  if (is(n, "max_pool")) return x->ndim == 4 && is_float(x) ? NULL : "float32 images";
  if (is(n, "qadd") || is(n, "relu")) return is(n, "qadd") || is_float(x) ? NULL : "float32 only";
  if (!is_float(x)) return "float32 only";
  return same_shape(x, y) && same_shape(w, y) ? NULL : "equal shapes only";
}

static int evaluation(tvmrt_device* self, const tvmrt_region* region) {
  (void)self;
  for (int32_t i = 0; i < region->num_nodes; ++i) {
    const char* why = refusal(region, &region->nodes[i]);
    if (why == NULL) continue;
    ((tvmrt_region*)(uintptr_t)region)->failed_node = i;
    return fail(why);
  }
  return 0;
}

static int describe(tvmrt_device* self, tvmrt_device_description* out) {
  static const char* const ops[] = {"conv",  "matmul",  "add",  "mul",      "max", "relu",
                                    "qconv", "qmatmul", "qadd", "max_pool", NULL};
  static const char* const types[] = {"float32", "int8", "uint8", "int32", NULL};
  (void)self;
  out->ops = ops;
  out->dtypes = types;
  return 0;
}
