/* Arithmetic units: computation in float32, float16 or int8.
 *
 * In float16, operands and results are rounded to float16 and products are summed in float32. In
 * int8, operands of convolutions and matmuls are quantised with the scale largest magnitude / 127,
 * and products are summed in 32-bit integers. */
#include <math.h>
#include <tvm/runtime/kernels/scalar/half.h>

#include "tpu.h"

/* An operand of the multipliers: `bytes` in int8, otherwise `words`. */
typedef struct operand {
  const tpu_tensor* t;
  const float* words;
  const int8_t* bytes; /* instead of words, in int8 */
  float scale;
} operand;

/* Rounded to nearest, as in the units' registers. */
static float to_half(float x) { return tvmrt_float16_to_f32(tvmrt_f32_to_float16(x)); }

/* Includes the padding of rows, which is 0. NaN is ignored. */
static float largest_magnitude(const tpu_tensor* t) {
  float largest = 0.0f;
  int64_t i;
  for (i = 0; i < t->num_words; ++i) {
    if (fabsf(t->words[i]) > largest) largest = fabsf(t->words[i]);
  }
  return largest;
}

/* Reduced once per node. In int8 NaN becomes -127, and infinities the extreme values. Borrows
 * `scratch` until the node is done; float32 is read in place. A tensor of zeros has scale 1. */
static operand make_operand(const tpu_tensor* t, tpu_precision precision, float* scratch) {
  operand o = {t, t->words, NULL, 1.0f};
  int64_t i;
  if (precision == TPU_FLOAT16) {
    for (i = 0; i < t->num_words; ++i) scratch[i] = to_half(t->words[i]);
    o.words = scratch;
  } else if (precision == TPU_INT8) {
    int8_t* bytes = (int8_t*)scratch;
    const float largest = largest_magnitude(t);
    o.scale = largest > 0.0f && isfinite(largest) ? largest / 127.0f : 1.0f;
    for (i = 0; i < t->num_words; ++i) {
      const float q = rintf(t->words[i] / o.scale);
      bytes[i] = (int8_t)(q >= 127.0f ? 127.0f : q >= -127.0f ? q : -127.0f);
    }
    o.bytes = bytes;
  }
  return o;
}

/* An accumulator: products are added to `i` in int8, otherwise to `f`. */
typedef struct sum {
  float f;
  int32_t i;
} sum;

/* In int8 the sum has 32 bits, enough for about 133,000 maximum products. */
static inline void add_product(sum* s, const operand* a, int64_t at_a, const operand* b,
                               int64_t at_b) {
  if (a->bytes != NULL) {
    s->i += (int32_t)a->bytes[at_a] * b->bytes[at_b];
  } else {
    s->f += a->words[at_a] * b->words[at_b];
  }
}

/* The bias is never reduced: it is added to the sum in float32. */
static float finish_sum(const sum* s, const operand* a, const operand* b, float bias,
                        tpu_precision precision) {
  const float value = a->bytes != NULL ? (float)s->i * (a->scale * b->scale) : s->f;
  return precision == TPU_FLOAT16 ? to_half(value + bias) : value + bias;
}

/* Window of a convolution or pooling, along the two spatial axes. */
typedef struct window {
  int64_t kernel[2];
  int64_t stride[2];
  int64_t dilation[2];
  int64_t before[2];
} window;

/* Read both axes; `otherwise` for both if the attribute is missing or has another length. */
static void read_pair(const tvmrt_region_node* node, const char* key, int64_t otherwise,
                      int64_t out[2]) {
  int32_t count;
  const int64_t* values = tvmrt_node_ints(node, key, &count);
  out[0] = count == 2 ? values[0] : otherwise;
  out[1] = count == 2 ? values[1] : otherwise;
}

/* The padding at the end is not read: it follows from the extents of the result. */
static window read_window(const tvmrt_region_node* node) {
  window w = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
  read_pair(node, "kernel", 1, w.kernel);
  read_pair(node, "strides", 1, w.stride);
  read_pair(node, "dilations", 1, w.dilation);
  read_pair(node, "pads_before", 0, w.before);
  return w;
}

/* The input element of tap `k` and output element `o` along an axis; -1 in the padding. The bounds
 * of is_window() avoid overflow. */
static int64_t intersect_window(const window* w, int axis, int64_t o, int64_t k, int64_t extent) {
  const int64_t i = o * w->stride[axis] + k * w->dilation[axis] - w->before[axis];
  return i < 0 || i >= extent ? -1 : i;
}

/* Data shared by all results of a layer. */
typedef struct convolution {
  operand x;
  operand w;
  window window;
  int64_t channels; /* of one group, in and out */
  int64_t out_channels;
} convolution;

/* Sum over one group's channels, which are innermost in both. In float32 and float16 the order of
 * summation is the weights' memory order; taps in the padding are skipped. */
static sum convolve(const convolution* c, int64_t n, int64_t oc, int64_t oy, int64_t ox) {
  const tpu_tensor* x = c->x.t;
  const tpu_tensor* w = c->w.t;
  const int64_t first = oc / c->out_channels * c->channels;
  sum s = {0.0f, 0};
  int64_t ky;
  int64_t kx;
  int64_t ic;
  for (ky = 0; ky < w->extent[2]; ++ky) {
    const int64_t iy = intersect_window(&c->window, 0, oy, ky, x->extent[2]);
    for (kx = 0; iy >= 0 && kx < w->extent[3]; ++kx) {
      const int64_t ix = intersect_window(&c->window, 1, ox, kx, x->extent[3]);
      const int64_t at_x = n * x->stride[0] + first + iy * x->stride[2] + ix * x->stride[3];
      const int64_t at_w = oc * w->stride[0] + ky * w->stride[2] + kx * w->stride[3];
      for (ic = 0; ix >= 0 && ic < c->channels; ++ic) {
        add_product(&s, &c->x, at_x + ic, &c->w, at_w + ic);
      }
    }
  }
  return s;
}

/* Weights are read again for each result, since the simulation does not model speed. */
static void run_conv(tpu_program* p, const tvmrt_region_node* node, tpu_precision precision) {
  const tpu_tensor* y = &p->tensors[node->outputs[0]];
  const tpu_tensor* bias =
      node->num_inputs > 2 && node->inputs[2] >= 0 ? &p->tensors[node->inputs[2]] : NULL;
  convolution c;
  int64_t n;
  int64_t oc;
  int64_t oy;
  int64_t ox;
  c.x = make_operand(&p->tensors[node->inputs[0]], precision, p->scratch[0]);
  /* separate scratch memory, since both are read together */
  c.w = make_operand(&p->tensors[node->inputs[1]], precision, p->scratch[1]);
  c.window = read_window(node);
  c.channels = c.w.t->extent[1];
  /* divisible: checked by fits_conv() */
  c.out_channels = y->extent[1] / tvmrt_node_int(node, "groups", 1);
  for (n = 0; n < y->extent[0]; ++n) {
    for (oy = 0; oy < y->extent[2]; ++oy) {
      for (ox = 0; ox < y->extent[3]; ++ox) {
        for (oc = 0; oc < y->extent[1]; ++oc) {
          const sum s = convolve(&c, n, oc, oy, ox);
          const float b = bias == NULL ? 0.0f : bias->words[oc];
          y->words[n * y->stride[0] + oc + oy * y->stride[2] + ox * y->stride[3]] =
              finish_sum(&s, &c.x, &c.w, b, precision);
        }
      }
    }
  }
}

/* Stride of an axis for broadcasting: 0 if its extent is 1. */
static int64_t step_of(const tpu_tensor* t, int axis) {
  return t->extent[axis] == 1 ? 0 : t->stride[axis];
}

/* In words. */
static int64_t offset_of(const tpu_tensor* t, const int64_t at[TPU_MAX_RANK]) {
  int64_t offset = 0;
  int d;
  for (d = 0; d < TPU_MAX_RANK; ++d) offset += at[d] * step_of(t, d);
  return offset;
}

/* Leading axes and the bias broadcast with strides of 0. Shapes were checked by fits_matmul(). */
static void run_matmul(tpu_program* p, const tvmrt_region_node* node, tpu_precision precision) {
  const tpu_tensor* y = &p->tensors[node->outputs[0]];
  const tpu_tensor* bias =
      node->num_inputs > 2 && node->inputs[2] >= 0 ? &p->tensors[node->inputs[2]] : NULL;
  const operand a = make_operand(&p->tensors[node->inputs[0]], precision, p->scratch[0]);
  const operand b = make_operand(&p->tensors[node->inputs[1]], precision, p->scratch[1]);
  tpu_walk w = {y, {0}, 0};
  do {
    const int64_t row[TPU_MAX_RANK] = {w.at[0], w.at[1], w.at[2], 0};
    const int64_t column[TPU_MAX_RANK] = {w.at[0], w.at[1], 0, w.at[3]};
    const int64_t at_a = offset_of(a.t, row);
    const int64_t at_b = offset_of(b.t, column);
    sum s = {0.0f, 0};
    int64_t k;
    for (k = 0; k < a.t->extent[3]; ++k) {
      add_product(&s, &a, at_a + k * a.t->stride[3], &b, at_b + k * b.t->stride[2]);
    }
    /* lint: the tensors were laid out before */
    y->words[w.word] =
        finish_sum(&s, &a, &b, bias == NULL ? 0.0f : bias->words[offset_of(bias, w.at)], precision);
  } while (tpu_step(&w));
}

/* Padding counts for a mean only if the node says so, never for a maximum. A maximum ignores NaN. A
 * mean of only padding is 0. */
static float pool_window(const tvmrt_region_node* node, const tpu_tensor* x, const window* win,
                         const int64_t at[TPU_MAX_RANK], bool is_max) {
  const bool count_pads = tvmrt_node_int(node, "count_pads", 0) != 0;
  float result = is_max ? -INFINITY : 0.0f;
  int64_t count = 0;
  int64_t ky;
  int64_t kx;
  for (ky = 0; ky < win->kernel[0]; ++ky) {
    for (kx = 0; kx < win->kernel[1]; ++kx) {
      const int64_t iy = intersect_window(win, 0, at[2], ky, x->extent[2]);
      const int64_t ix = intersect_window(win, 1, at[3], kx, x->extent[3]);
      const int64_t where[TPU_MAX_RANK] = {at[0], at[1], iy, ix};
      if (iy >= 0 && ix >= 0) {
        const float value = x->words[offset_of(x, where)];
        result = !is_max ? result + value : value > result ? value : result;
      }
      count += (iy >= 0 && ix >= 0) || count_pads;
    }
  }
  return is_max || count == 0 ? result : result / (float)count;
}

/* Pooling reads float32 in every precision, and rounds its results. */
static void run_pool(tpu_program* p, const tvmrt_region_node* node, tpu_precision precision) {
  const tpu_tensor* x = &p->tensors[node->inputs[0]];
  const tpu_tensor* y = &p->tensors[node->outputs[0]];
  const window win = read_window(node);
  const bool is_max = strcmp(node->op, "max_pool") == 0;
  tpu_walk w = {y, {0}, 0};
  do {
    const float value = pool_window(node, x, &win, w.at, is_max);
    y->words[w.word] = precision == TPU_FLOAT16 ? to_half(value) : value;
  } while (tpu_step(&w));
}

static float add(float a, float b) { return a + b; }
static float subtract(float a, float b) { return a - b; }
static float multiply(float a, float b) { return a * b; }
/* NaN in either operand is propagated. */
static float maximum(float a, float b) { return a > b || isnan(a) ? a : b; }
static float minimum(float a, float b) { return a < b || isnan(a) ? a : b; }

/* Unary functions. NaN is propagated. */
static float relu(float a, float unused) {
  (void)unused;
  return a > 0.0f || isnan(a) ? a : 0.0f;
}
static float negate(float a, float unused) {
  (void)unused;
  return -a;
}
static float sigmoid(float a, float unused) {
  (void)unused;
  return 1.0f / (1.0f + expf(-a));
}
static float tangent(float a, float unused) {
  (void)unused;
  return tanhf(a);
}

/* Function that computes an operator, and function that checks whether it is supported. */
typedef struct unit {
  const char* op;
  int32_t operands; /* number of required operands */
  void (*run)(tpu_program* p, const tvmrt_region_node* node, tpu_precision precision);
  bool (*fits)(const tvmrt_region* region, const tvmrt_region_node* node);
  float (*f)(float a, float b); /* of run_pointwise; the second argument is 0 for unary operators */
} unit;

static const unit* unit_of(const char* op);

/* int8 is computed as float32, since the units have no int8 arithmetic for it. */
static void run_pointwise(tpu_program* p, const tvmrt_region_node* node, tpu_precision precision) {
  const unit* u = unit_of(node->op);
  const tpu_tensor* y = &p->tensors[node->outputs[0]];
  const tpu_tensor* a = &p->tensors[node->inputs[0]];
  /* lint: a node without a unit was refused by tpu_refuses() */
  const tpu_tensor* b = u->operands == 2 ? &p->tensors[node->inputs[1]] : NULL;
  tpu_walk w = {y, {0}, 0};
  do {
    /* an operand of extent 1 is broadcast */
    float left = a->words[offset_of(a, w.at)];
    float right = b == NULL ? 0.0f : b->words[offset_of(b, w.at)];
    if (precision == TPU_FLOAT16) {
      left = to_half(left);
      right = to_half(right);
    }
    /* lint: a node without a unit was refused by tpu_refuses() */
    left = u->f(left, right);
    y->words[w.word] = precision == TPU_FLOAT16 ? to_half(left) : left;
  } while (tpu_step(&w));
}

/* A node's own precision precedes the region's. Unknown values are ignored, so that newer networks
 * use the region's precision. */
static tpu_precision precision_of(const tpu_program* p, const tvmrt_region_node* node) {
  const char* text = tvmrt_node_text(node, "precision", "");
  if (strcmp(text, "float16") == 0) return TPU_FLOAT16;
  if (strcmp(text, "int8") == 0) return TPU_INT8;
  return p->precision;
}

#define MAX_WORDS ((uint64_t)1 << 40)
#define MAX_WINDOW ((int64_t)1 << 12) /* maximum of kernels, strides and padding */

/* Limits the words of a tensor, so that no sum or product of offsets overflows. */
const char* tpu_refuses_tensor(const tvmrt_region_tensor* t) {
  /* rows are padded to this size */
  uint64_t words = TPU_LANES;
  int32_t d;
  if (t->dtype.code != kDLFloat || t->dtype.bits != 32 || t->dtype.lanes != 1) {
    return "its units compute float32 tensors alone.";
  }
  if (t->ndim > TPU_MAX_RANK) return "its tensors have at most 4 dimensions.";
  for (d = 0; d < t->ndim; ++d) {
    if (t->shape[d] == 0) return "its tensors have elements.";
    if ((uint64_t)t->shape[d] > MAX_WORDS / words) return "a tensor is larger than any memory.";
    words *= (uint64_t)t->shape[d];
  }
  return NULL;
}

/* Layout of a node's tensor, without memory. */
static tpu_tensor break_lines(const tvmrt_region* region, int32_t tensor) {
  tpu_tensor t;
  tpu_set_layout(&region->tensors[tensor], &t);
  return t;
}

/* Whether `x` broadcasts to `y`. Axes are right-aligned and missing ones have extent 1, so ranks
 * are not compared. */
static bool broadcasts(const tpu_tensor* x, const tpu_tensor* y) {
  int d;
  for (d = 0; d < TPU_MAX_RANK; ++d) {
    if (x->extent[d] != 1 && x->extent[d] != y->extent[d]) return false;
  }
  return true;
}

/* Bounds that keep the products of meet() within 64 bits. */
static bool is_window(const tvmrt_region_node* node) {
  const window w = read_window(node);
  int d;
  for (d = 0; d < 2; ++d) {
    if (w.kernel[d] < 1 || w.kernel[d] > MAX_WINDOW || w.stride[d] < 1 ||
        w.stride[d] > MAX_WINDOW || w.dilation[d] < 1 || w.dilation[d] > MAX_WINDOW ||
        w.before[d] < 0 || w.before[d] > MAX_WINDOW) {
      return false;
    }
  }
  return true;
}

/* Divisors are checked before their use. The result's height and width are not compared with the
 * windows, since everything past the input is padding. */
static bool fits_conv(const tvmrt_region* region, const tvmrt_region_node* node) {
  const tpu_tensor x = break_lines(region, node->inputs[0]);
  const tpu_tensor w = break_lines(region, node->inputs[1]);
  const tpu_tensor y = break_lines(region, node->outputs[0]);
  const int64_t groups = tvmrt_node_int(node, "groups", 1);
  if (groups < 1 || y.extent[1] % groups != 0 || x.extent[1] % groups != 0) return false;
  if (node->num_inputs > 2 && node->inputs[2] >= 0 &&
      tvmrt_region_size(region, node->inputs[2]) != y.extent[1]) {
    return false;
  }
  return is_window(node) && w.extent[1] == x.extent[1] / groups && w.extent[0] == y.extent[1] &&
         x.extent[0] == y.extent[0] && region->tensors[node->inputs[1]].ndim == 4;
}

/* Channels are unchanged; for height and width see fits_conv(). */
static bool fits_pool(const tvmrt_region* region, const tvmrt_region_node* node) {
  const tpu_tensor x = break_lines(region, node->inputs[0]);
  const tpu_tensor y = break_lines(region, node->outputs[0]);
  return is_window(node) && x.extent[0] == y.extent[0] && x.extent[1] == y.extent[1];
}

/* The result's extents must be those of rows and columns; leading axes broadcast. */
static bool fits_matmul(const tvmrt_region* region, const tvmrt_region_node* node) {
  tpu_tensor a = break_lines(region, node->inputs[0]);
  tpu_tensor b = break_lines(region, node->inputs[1]);
  const tpu_tensor y = break_lines(region, node->outputs[0]);
  if (a.extent[3] != b.extent[2] || a.extent[2] != y.extent[2] || b.extent[3] != y.extent[3]) {
    return false;
  }
  if (node->num_inputs > 2 && node->inputs[2] >= 0) {
    const tpu_tensor bias = break_lines(region, node->inputs[2]);
    if (!broadcasts(&bias, &y)) return false;
  }
  a.extent[3] = 1; /* exclude the summed axis */
  b.extent[2] = 1;
  return broadcasts(&a, &y) && broadcasts(&b, &y);
}

/* Either operand may be broadcast to the result. */
static bool fits_pointwise(const tvmrt_region* region, const tvmrt_region_node* node) {
  const tpu_tensor y = break_lines(region, node->outputs[0]);
  int32_t i;
  /* lint: this unit's operators are those of the table */
  for (i = 0; i < unit_of(node->op)->operands; ++i) {
    const tpu_tensor x = break_lines(region, node->inputs[i]);
    if (!broadcasts(&x, &y)) return false;
  }
  return true;
}

#define POINTWISE run_pointwise, fits_pointwise
#define UNITS(X)                                \
  X("conv", 2, run_conv, fits_conv, NULL)       \
  X("matmul", 2, run_matmul, fits_matmul, NULL) \
  X("max_pool", 1, run_pool, fits_pool, NULL)   \
  X("avg_pool", 1, run_pool, fits_pool, NULL)   \
  X("add", 2, POINTWISE, add)                   \
  X("sub", 2, POINTWISE, subtract)              \
  X("mul", 2, POINTWISE, multiply)              \
  X("max", 2, POINTWISE, maximum)               \
  X("min", 2, POINTWISE, minimum)               \
  X("neg", 1, POINTWISE, negate)                \
  X("relu", 1, POINTWISE, relu)                 \
  X("sigmoid", 1, POINTWISE, sigmoid)           \
  X("tanh", 1, POINTWISE, tangent)
#define ROW(...) {__VA_ARGS__},
#define NAME(op, ...) op,
static const unit units[] = {UNITS(ROW)};
const char* const tpu_ops[] = {UNITS(NAME) NULL};

/* NULL if no unit has the operator. */
static const unit* unit_of(const char* op) {
  size_t i;
  for (i = 0; i < sizeof(units) / sizeof(units[0]); ++i) {
    if (strcmp(units[i].op, op) == 0) return &units[i];
  }
  return NULL;
}

/* Tensors were checked before. Operands must exist before their extents are checked. */
const char* tpu_refuses(const tvmrt_region* region, const tvmrt_region_node* node) {
  const unit* u = unit_of(node->op);
  int32_t i;
  if (u == NULL) return "it has no unit for this operator.";
  for (i = 0; i < u->operands; ++i) {
    if (i >= node->num_inputs || node->inputs[i] < 0) return "it lacks an operand.";
  }
  if (node->num_outputs != 1) return "its units have one result.";
  if ((u->run == run_conv || u->run == run_pool) && region->tensors[node->inputs[0]].ndim != 4) {
    return "its windows have two spatial axes.";
  }
  return u->fits(region, node) ? NULL : "its shapes do not fit together.";
}

/* Cannot fail: evaluation has rejected unsupported nodes. */
void tpu_run_node(tpu_program* program, const tvmrt_region_node* node) {
  /* lint: a node without a unit was refused by tpu_refuses() */
  unit_of(node->op)->run(program, node, precision_of(program, node));
}
