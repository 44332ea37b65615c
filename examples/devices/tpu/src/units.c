/* Arithmetic units: computation in float32 or float16.
 *
 * In float16, operands and results are rounded to float16 and products are summed in float32. */
#include <math.h>
#include <tvm/runtime/kernels/scalar/half.h>

#include "tpu.h"

#define MAX_WORDS ((uint64_t)1 << 40)
#define MAX_WINDOW ((int64_t)1 << 12) /* maximum of strides, dilations and padding */

/* The value in a unit's register: in float16 rounded to nearest. */
static float rounded(float x, bool is_half) {
  return is_half ? tvmrt_float16_to_f32(tvmrt_f32_to_float16(x)) : x;
}

/* Window of a convolution, along the two spatial axes. */
typedef struct window {
  int64_t stride[2];
  int64_t dilation[2];
  int64_t before[2];
} window;

/* Read both axes; `otherwise` for both if the attribute is missing or has another length. False for
 * values out of range, which keeps the products of intersect_window() within 64 bits. */
static bool read_pair(const tvmrt_region_node* node, const char* key, int64_t otherwise,
                      int64_t out[2]) {
  int32_t count;
  const int64_t* values = tvmrt_node_ints(node, key, &count);
  out[0] = count == 2 ? values[0] : otherwise;
  out[1] = count == 2 ? values[1] : otherwise;
  return out[0] >= otherwise && out[0] <= MAX_WINDOW && out[1] >= otherwise && out[1] <= MAX_WINDOW;
}

/* The padding at the end is not read: it follows from the extents of the result. */
static bool read_window(const tvmrt_region_node* node, window* out) {
  return read_pair(node, "strides", 1, out->stride) &&
         read_pair(node, "dilations", 1, out->dilation) &&
         read_pair(node, "pads_before", 0, out->before);
}

/* The input element of tap `k` and output element `o` along an axis; -1 in the padding. */
static int64_t intersect_window(const window* w, int axis, int64_t o, int64_t k, int64_t extent) {
  const int64_t i = o * w->stride[axis] + k * w->dilation[axis] - w->before[axis];
  return i < 0 || i >= extent ? -1 : i;
}

/* Sum over one group's channels, which are innermost in both; taps in the padding are skipped. */
static float convolve(const tpu_tensor* x, const tpu_tensor* w, const window* window,
                      const int64_t at[TPU_MAX_RANK], int64_t first, bool is_half) {
  float sum = 0.0f;
  int64_t ky, kx, ic;
  for (ky = 0; ky < w->extent[2]; ++ky) {
    const int64_t iy = intersect_window(window, 0, at[2], ky, x->extent[2]);
    for (kx = 0; iy >= 0 && kx < w->extent[3]; ++kx) {
      const int64_t ix = intersect_window(window, 1, at[3], kx, x->extent[3]);
      const int64_t at_x = at[0] * x->stride[0] + first + iy * x->stride[2] + ix * x->stride[3];
      const int64_t at_w = at[1] * w->stride[0] + ky * w->stride[2] + kx * w->stride[3];
      for (ic = 0; ix >= 0 && ic < w->extent[1]; ++ic) {
        sum += rounded(x->words[at_x + ic], is_half) * rounded(w->words[at_w + ic], is_half);
      }
    }
  }
  return sum;
}

/* Weights are read again for each result, since the simulation does not model speed. The bias is
 * added to the sum in float32. */
static void run_conv(tpu_program* p, const tvmrt_region_node* node, bool is_half) {
  const tpu_tensor* y = &p->tensors[node->outputs[0]];
  const tpu_tensor* w = &p->tensors[node->inputs[1]];
  const tpu_tensor* bias =
      node->num_inputs > 2 && node->inputs[2] >= 0 ? &p->tensors[node->inputs[2]] : NULL;
  /* divisible: checked by fits_conv() */
  const int64_t out_channels = y->extent[1] / tvmrt_node_int(node, "groups", 1);
  tpu_walk at = {y, {0}, 0};
  window window;
  (void)read_window(node, &window);
  do {
    const int64_t first = at.at[1] / out_channels * w->extent[1]; /* channel of the group */
    const float sum = convolve(&p->tensors[node->inputs[0]], w, &window, at.at, first, is_half);
    y->words[at.word] = rounded(sum + (bias == NULL ? 0.0f : bias->words[at.at[1]]), is_half);
  } while (tpu_step(&at));
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

static float add(float a, float b) { return a + b; }
static float multiply(float a, float b) { return a * b; }
/* Unary. NaN is propagated. */
static float relu(float a, float unused) {
  (void)unused;
  return a > 0.0f || isnan(a) ? a : 0.0f;
}

/* Function that computes an operator, and function that checks whether it is supported. */
typedef struct unit {
  const char* op;
  int32_t operands; /* number of required operands */
  void (*run)(tpu_program* p, const tvmrt_region_node* node, bool is_half);
  bool (*fits)(const tvmrt_region* region, const tvmrt_region_node* node);
  float (*f)(float a, float b); /* of run_pointwise; the second argument is 0 for unary operators */
} unit;

static const unit* unit_of(const char* op);

static void run_pointwise(tpu_program* p, const tvmrt_region_node* node, bool is_half) {
  const unit* u = unit_of(node->op);
  const tpu_tensor* y = &p->tensors[node->outputs[0]];
  const tpu_tensor* a = &p->tensors[node->inputs[0]];
  /* lint: a node without a unit was refused by tpu_refuses() */
  const tpu_tensor* b = u->operands == 2 ? &p->tensors[node->inputs[1]] : NULL;
  tpu_walk w = {y, {0}, 0};
  do {
    /* an operand of extent 1 is broadcast */
    const float left = rounded(a->words[offset_of(a, w.at)], is_half);
    const float right = b == NULL ? 0.0f : rounded(b->words[offset_of(b, w.at)], is_half);
    /* lint: a node without a unit was refused by tpu_refuses() */
    y->words[w.word] = rounded(u->f(left, right), is_half);
  } while (tpu_step(&w));
}

/* Limits the words of a tensor, so that no sum or product of offsets overflows. */
static const char* refuse_tensor(const tvmrt_region_tensor* t) {
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

/* Divisors are checked before their use. The result's height and width are not compared with the
 * windows, since everything past the input is padding. */
static bool fits_conv(const tvmrt_region* region, const tvmrt_region_node* node) {
  const tpu_tensor x = break_lines(region, node->inputs[0]);
  const tpu_tensor w = break_lines(region, node->inputs[1]);
  const tpu_tensor y = break_lines(region, node->outputs[0]);
  const int64_t groups = tvmrt_node_int(node, "groups", 1);
  window window;
  if (groups < 1 || y.extent[1] % groups != 0 || x.extent[1] % groups != 0) return false;
  if (node->num_inputs > 2 && node->inputs[2] >= 0 &&
      tvmrt_region_size(region, node->inputs[2]) != y.extent[1]) {
    return false;
  }
  return read_window(node, &window) && w.extent[1] == x.extent[1] / groups &&
         w.extent[0] == y.extent[1] && x.extent[0] == y.extent[0] &&
         region->tensors[node->inputs[1]].ndim == 4;
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

static const unit units[] = {
    {"conv", 2, run_conv, fits_conv, NULL},
    {"add", 2, run_pointwise, fits_pointwise, add},
    {"mul", 2, run_pointwise, fits_pointwise, multiply},
    {"relu", 1, run_pointwise, fits_pointwise, relu},
};
const char* const tpu_ops[] = {"conv", "add", "mul", "relu", NULL};

/* NULL if no unit has the operator. */
static const unit* unit_of(const char* op) {
  size_t i;
  for (i = 0; i < sizeof(units) / sizeof(units[0]); ++i) {
    if (strcmp(units[i].op, op) == 0) return &units[i];
  }
  return NULL;
}

/* Operands must exist before their extents are checked. */
const char* tpu_refuses(const tvmrt_region* region, const tvmrt_region_node* node) {
  const unit* u = unit_of(node->op);
  const char* reason = NULL;
  int32_t i;
  for (i = 0; i < node->num_inputs + node->num_outputs && reason == NULL; ++i) {
    const int32_t t = i < node->num_inputs ? node->inputs[i] : node->outputs[i - node->num_inputs];
    if (t >= 0) reason = refuse_tensor(&region->tensors[t]);
  }
  if (reason != NULL) return reason;
  if (u == NULL) return "it has no unit for this operator.";
  for (i = 0; i < u->operands; ++i) {
    if (i >= node->num_inputs || node->inputs[i] < 0) return "it lacks an operand.";
  }
  if (node->num_outputs != 1) return "its units have one result.";
  if (u->run == run_conv && region->tensors[node->inputs[0]].ndim != 4) {
    return "its windows have two spatial axes.";
  }
  return u->fits(region, node) ? NULL : "its shapes do not fit together.";
}

/* Cannot fail: evaluation has rejected unsupported nodes. A node's own precision precedes the
 * region's; unknown values are ignored, so that newer networks use the region's. */
void tpu_run_node(tpu_program* program, const tvmrt_region_node* node) {
  const bool is_half = strcmp(tvmrt_node_text(node, "precision", ""), "float16") == 0;
  /* lint: a node without a unit was refused by tpu_refuses() */
  unit_of(node->op)->run(program, node, is_half || program->is_half);
}
