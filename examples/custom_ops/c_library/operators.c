/* Operators in a shared library: a kernel and a composition.
 *
 *   cc -shared -fPIC $(tvmrt config --cflags) operators.c -o liboperators.so
 *   tvmrt compile net.onnx --operators liboperators.so -o net.so
 */
#include <stdio.h>
#include <tvm/runtime/custom_op.h>

/* Shrink: y = x - bound where x > bound, x + bound where x < -bound, else 0. */

static const char shrink_c[] =
    "static int32_t shrink(const float *x, const tvmrt_shape *x_shape, float *y,\n"
    "                      const tvmrt_shape *y_shape, float bound) {\n"
    "  (void)y_shape;\n"
    "  for (int64_t i = 0; i < x_shape->size; ++i) {\n"
    "    y[i] = x[i] > bound ? x[i] - bound : x[i] < -bound ? x[i] + bound : 0.0f;\n"
    "  }\n"
    "  return 0;\n"
    "}\n";

static const char shrink_opencl[] =
    "__kernel void shrink(__global const float *x, __global float *y, float bound) {\n"
    "  const size_t i = get_global_id(0);\n"
    "  if (i < SIZE) y[i] = x[i] > bound ? x[i] - bound : x[i] < -bound ? x[i] + bound : 0.0f;\n"
    "}\n";

enum { GROUP = 32 }; /* work items that run together */

static int64_t elements(const tvmrt_op_type* type) {
  int64_t count = 1;
  for (int32_t i = 0; i < type->ndim; ++i) count *= type->shape[i];
  return count;
}

static const char* shrink_function(const tvmrt_op_call* call) {
  (void)call;
  return "shrink";
}

static int32_t shrink_sizes(const tvmrt_op_call* call, int64_t* global_size, int64_t* local_size) {
  global_size[0] = (elements(&call->inputs[0]) + GROUP - 1) / GROUP * GROUP;
  local_size[0] = GROUP;
  return 1;
}

static void shrink_options(const tvmrt_op_call* call, char* out_text, size_t capacity) {
  (void)snprintf(out_text, capacity, "-DSIZE=%lld", (long long)elements(&call->inputs[0]));
}

static const double half = 0.5;
static const tvmrt_op_operand shrink_inputs[] = {{"x", "float32", "any", 0}};
static const tvmrt_op_operand shrink_outputs[] = {{"y", "float32", "any", 0}};
static const tvmrt_op_scalar shrink_scalars[] = {{"bound", "float", &half}};

static const tvmrt_op_kernel kernels[] = {{
    .struct_bytes = sizeof(tvmrt_op_kernel),
    .name = "SoftShrink",
    .domain = "example.library",
    .version = 1,
    .doc = "Numbers move by bound towards 0; those nearer than that become 0.",
    .inputs = shrink_inputs,
    .num_inputs = 1,
    .outputs = shrink_outputs,
    .num_outputs = 1,
    .scalars = shrink_scalars,
    .num_scalars = 1,
    .c_source = shrink_c,
    .c_function = shrink_function,
    .opencl_source = shrink_opencl,
    .opencl_function = shrink_function,
    .opencl_sizes = shrink_sizes,
    .opencl_options = shrink_options,
}};

/* Gated: tanh(x w' + b) * sigmoid(x w' + b) scaled by gain, and what shrinking leaves of it. */

static const char* compose_gated(tvmrt_graph* g, const tvmrt_value* inputs,
                                 const double* attributes, tvmrt_value* outputs) {
  static const int64_t yes = 1;
  const tvmrt_op_attr transposed = {"transB", 1, &yes, NULL, NULL};
  const float gain = (float)attributes[0];
  tvmrt_op_type x;
  tvmrt_value fed, pair[2], product, factors[2];
  if (g->type(g, inputs[0], &x) != 0) return NULL; /* the compiler knows the reason */
  if (x.ndim != 2) return "x must be a matrix";
  g->add(g, "Gemm", inputs, 3, &transposed, 1, &fed, 1);
  g->add(g, "Tanh", &fed, 1, NULL, 0, &pair[0], 1);
  g->add(g, "Sigmoid", &fed, 1, NULL, 0, &pair[1], 1);
  g->add(g, "Mul", pair, 2, NULL, 0, &product, 1);
  factors[0] = product;
  factors[1] = g->constant(g, "float32", &gain, NULL, 0);
  g->add(g, "Mul", factors, 2, NULL, 0, &outputs[0], 1);
  g->add(g, "example.library::SoftShrink", &outputs[0], 1, NULL, 0, &outputs[1], 1);
  return NULL;
}

static const double one = 1.0;
static const tvmrt_op_scalar gated_attributes[] = {{"gain", "float", &one}};

static const tvmrt_op_composed composed[] = {{
    .struct_bytes = sizeof(tvmrt_op_composed),
    .name = "Gated",
    .domain = "example.library",
    .version = 1,
    .doc = "A fully connected layer that gates itself: x [N, I], w [H, I], b [H].",
    .inputs = "x w b?",
    .num_outputs = 2,
    .attributes = gated_attributes,
    .num_attributes = 1,
    .compose = compose_gated,
}};

const tvmrt_operators* tvmrt_get_operators(void) {
  static const tvmrt_operators all = {TVMRT_OPERATORS_ABI, kernels, 1, composed, 1};
  return &all;
}
