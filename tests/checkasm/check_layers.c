/* Runs generated layers and compares them with reference.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkasm.h"

/* The arrays of a layer, in the order of the file. */
typedef struct layer_arrays {
  ck_array w, zeros, packed, bias, packed_bias, scale, packed_scale, shift;
} layer_arrays;

/* The tensors of a layer and what its results are compared with. */
typedef struct layer_case {
  const ck_layer* layer;
  layer_arrays arrays;
  ck_buffer x, residual, each, scratch;
  double *right, *bound; /* [pixels][out_c] */
} layer_case;

static const ck_layer* epilogue_layer;

/* out = 2 out + each, where `each` has one element for each element of y. */
static void epilogue(float* out, int64_t pixel, int pixels, int channel, int channels,
                     const void* ctx) {
  const ck_shape* s = &epilogue_layer->shape;
  const float* each = (const float*)ctx + pixel * s->out_c + channel;
  for (int p = 0; p < pixels; p++) {
    for (int c = 0; c < channels; c++) {
      float* y = out + p * s->y_stride + c;
      *y = *y * 2.0f + each[p * s->out_c + c];
    }
  }
}

static int is_float(const ck_layer* layer) { return layer->type != CK_I8; }

static int is_fixed_point(const ck_layer* l) {
  return l->output == CK_TWICE || l->output == CK_ONCE;
}

/* Bytes of an element of y. */
static size_t element(const ck_layer* l) {
  return is_float(l) || l->output == CK_INT32 || l->output == CK_FLOATS ? 4 : 1;
}

/* Alignment of a tensor's address: a board's arena has 16, hosts need only an element's size, so
   that a page ends right after it. */
static size_t alignment(size_t size) {
#ifdef CK_BARE
  return size > 16 ? size : 16;
#else
  return size;
#endif
}

/* Offset of element c of pixel p. */
static size_t place(const ck_shape* s, int p, int c) {
  if (s->planes) return (size_t)c * (size_t)ck_pixels_in(s) + (size_t)p;
  return (size_t)p * (size_t)s->x_stride + (size_t)c;
}

static void read_arrays(layer_arrays* a, const ck_layer* l) {
  const size_t packed = 64; /* as constants of a library are stored */
  a->w = ck_read(is_float(l) ? 4 : 2, 4);
  a->zeros = ck_read(4, 4);
  a->packed = ck_read(1, packed);
  a->bias = ck_read(4, 4);
  a->packed_bias = ck_read(1, packed);
  a->scale = ck_read(4, 4);
  a->packed_scale = ck_read(1, packed);
  a->shift = ck_read(1, packed);
}

static void free_arrays(layer_arrays* a) {
  ck_array* all[] = {&a->w,           &a->zeros, &a->packed,       &a->bias,
                     &a->packed_bias, &a->scale, &a->packed_scale, &a->shift};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) ck_free(&all[i]->buffer);
}

/* A byte of the input for channel c of pixel p. */
static uint8_t random_byte(const layer_case* c, int p, int i) {
  const ck_layer* l = c->layer;
  const ck_shape* s = &l->shape;
  int is_high = (int)(ck_random() % 2);
  if (!l->extremes) return (uint8_t)ck_random();
  if (l->extremes == 2) {
    const int16_t* w = (const int16_t*)(const void*)c->arrays.w.buffer.data;
    const int taps = s->kernel[0] * s->kernel[1] * s->kernel[2], ins = s->in_c / s->groups;
    const int o = i / ins * (s->out_c / s->groups) + p / 2 % (s->out_c / s->groups);
    const int at = (o * ins + i % ins) * taps + p % taps;
    is_high = (w[at] >= 0) ^ (p % 2);
  }
  return (uint8_t)((l->x.is_signed ? 128 : 0) + (is_high ? 255 : 0));
}

static int byte_value(uint8_t byte, int is_signed) { return is_signed ? (int8_t)byte : byte; }

/* Fills the input; returns it as doubles without gaps, less its zero point. */
static double* fill_input(layer_case* c) {
  const ck_layer* l = c->layer;
  const ck_shape* s = &l->shape;
  const int pixels = ck_pixels_in(s);
  const size_t size = is_float(l) ? 4 : 1;
  const size_t elements = pixels ? place(s, pixels - 1, s->in_c - 1) + 1 : 0;
  double* x = (double*)malloc(sizeof(double) * (size_t)(pixels * s->in_c + 1));
  const int nan_at = l->has_nan ? ck_between(0, pixels * s->in_c - 1) : -1;
  c->x = ck_new(elements * size, alignment(size));
  for (int p = 0; p < pixels; p++) {
    for (int i = 0; i < s->in_c; i++) {
      double* to = &x[p * s->in_c + i];
      if (is_float(l)) {
        const float value = p * s->in_c + i == nan_at ? NAN : ck_normal();
        ((float*)(void*)c->x.data)[place(s, p, i)] = value;
        *to = (double)(l->type == CK_BF16 ? ck_bfloat16(value) : value);
      } else {
        const uint8_t value = random_byte(c, p, i);
        c->x.data[place(s, p, i)] = value;
        *to = byte_value(value, l->x.is_signed) - l->x.zero;
      }
    }
  }
  return x;
}

/* The weights as doubles, less their zero points. */
static double* weights(const layer_case* c) {
  const ck_layer* l = c->layer;
  const int n = c->arrays.w.count, each = l->shape.out_c ? n / l->shape.out_c : 0;
  double* w = (double*)malloc(sizeof(double) * (size_t)(n + 1));
  for (int i = 0; i < n; i++) {
    if (is_float(l)) {
      const float value = ((const float*)(const void*)c->arrays.w.buffer.data)[i];
      w[i] = (double)(l->type == CK_BF16 ? ck_bfloat16(value) : value);
    } else {
      const int32_t* zeros = (const int32_t*)(const void*)c->arrays.zeros.buffer.data;
      w[i] = ((const int16_t*)(const void*)c->arrays.w.buffer.data)[i] - zeros[i / each];
    }
  }
  return w;
}

/* Adds bias, residual, bounds and epilogue of a float layer; what an error may be. */
static void finish_floats(layer_case* c) {
  const ck_layer* l = c->layer;
  const float* bias = (const float*)(const void*)c->arrays.bias.buffer.data;
  const float* residual = (const float*)(const void*)c->residual.data;
  const float* each = (const float*)(const void*)c->each.data;
  const int outs = l->shape.out_c, n = ck_pixels_out(&l->shape) * outs;
  for (int i = 0; i < n; i++) {
    double v = c->right[i] + (bias ? (double)bias[i % outs] : 0.0);
    double size = c->bound[i] + (bias ? fabs((double)bias[i % outs]) : 0.0);
    if (residual) {
      const float other = residual[l->has_residual == 2 ? i % outs : i];
      v += (double)other, size += fabs((double)other);
    }
    v = v < (double)l->low ? (double)l->low : v > (double)l->high ? (double)l->high : v;
    if (l->has_epilogue) v = v * 2 + (double)each[i], size = size * 2 + fabs((double)each[i]);
    c->right[i] = v;
    c->bound[i] = (double)l->loss * 3.6e-7 * size;
  }
}

/* Requantised residual add of one element. */
static int with_added(const ck_layer* l, int q, uint8_t other) {
  const float a = ck_times((float)(q - l->y.zero), l->factors[0]);
  const float b =
      ck_times((float)(byte_value(other, l->added.is_signed) - l->added.zero), l->factors[1]);
  const double steps = rint((double)ck_plus(a, b)) + l->sum.zero;
  return (int)(steps < l->sum.low ? l->sum.low : steps > l->sum.high ? l->sum.high : steps);
}

/* Converts accumulators to the results of the layer. */
static void finish_integers(layer_case* c) {
  const ck_layer* l = c->layer;
  const int32_t* bias = (const int32_t*)(const void*)c->arrays.bias.buffer.data;
  const float* scale = (const float*)(const void*)c->arrays.scale.buffer.data;
  const int32_t* fixed = (const int32_t*)(const void*)scale; /* multipliers, then shifts */
  const int outs = l->shape.out_c, n = ck_pixels_out(&l->shape) * outs;
  for (int i = 0; i < n; i++) {
    const double sum = c->right[i] + (bias ? bias[i % outs] : 0);
    c->bound[i] = 0;
    if (l->output == CK_INT32) {
      c->right[i] = sum;
    } else if (l->output == CK_FLOATS) {
      c->right[i] = (double)ck_times((float)sum, scale[i % outs]);
    } else {
      const int q = is_fixed_point(l)
                        ? ck_fixed_point(sum, fixed[i % outs], fixed[outs + i % outs],
                                         l->output == CK_TWICE, l->y.zero, l->y.low, l->y.high)
                        : ck_requantized(sum, scale[i % outs], l->y.zero, l->y.low, l->y.high);
      c->right[i] = l->output == CK_PLUS ? with_added(l, q, c->residual.data[i]) : q;
    }
  }
}

/* An element of y as a number. */
static double found_at(const ck_layer* l, const uint8_t* y, size_t at) {
  float real;
  int32_t whole;
  if (element(l) == 1) {
    return byte_value(y[at], l->output == CK_PLUS ? l->sum.is_signed : l->y.is_signed);
  }
  memcpy(&real, y + 4 * at, 4);
  memcpy(&whole, y + 4 * at, 4);
  return l->type == CK_I8 && l->output == CK_INT32 ? (double)whole : (double)real;
}

/* Compares all of y including its gaps; returns whether it is correct. */
static int compare(const layer_case* c, const ck_buffer* y, const char* how) {
  const ck_shape* s = &c->layer->shape;
  const int pixels = ck_pixels_out(s);
  for (int p = 0; p < pixels; p++) {
    const size_t first = (size_t)p * (size_t)s->y_stride, size = element(c->layer);
    for (int o = 0; o < s->out_c; o++) {
      const double found = found_at(c->layer, y->data, first + (size_t)o);
      const double right = c->right[p * s->out_c + o], bound = c->bound[p * s->out_c + o];
      if (found == right || fabs(found - right) <= bound || (isnan(found) && isnan(right)))
        continue;
      ck_fail("%s: channel %d of pixel %d is %.9g, not %.9g, with a bound of %.3g", how, o, p,
              found, right, bound);
      return 0;
    }
    for (size_t i = (first + (size_t)s->out_c) * size;
         p + 1 < pixels && i < (first + (size_t)s->y_stride) * size; i++) {
      if (y->data[i] == 0xFF) continue;
      ck_fail("%s: an element after pixel %d was written", how, p);
      return 0;
    }
  }
  if (!ck_guards_intact(y)) ck_fail("%s: bytes around the result were written", how);
  return 1;
}

/* Copies the residual to the elements of y. */
static void lay_residual(const layer_case* c, uint8_t* y) {
  const ck_shape* s = &c->layer->shape;
  const size_t size = element(c->layer), row = (size_t)s->out_c * size;
  for (int p = 0; p < ck_pixels_out(s); p++) {
    memcpy(y + (size_t)p * (size_t)s->y_stride * size, c->residual.data + (size_t)p * row, row);
  }
}

static ck_tensors tensors(layer_case* c) {
  const layer_arrays* a = &c->arrays;
  ck_tensors t;
  memset(&t, 0, sizeof(t));
  t.x = c->x.data, t.w = a->packed.buffer.data, t.bias = a->packed_bias.buffer.data;
  t.scale = a->packed_scale.buffer.data, t.shift = a->shift.buffer.data;
  t.scales = (const float*)(const void*)a->scale.buffer.data;
  t.residual = c->residual.data;
  t.scratch = c->scratch.data;
  if (c->layer->has_epilogue) t.epilogue = epilogue, t.ctx = c->each.data;
  return t;
}

/* A depthwise layer with this many kernel rows writes y several times, so y must be empty. */
enum { MANY_ROWS = 16 };

static int residual_may_be_y(const ck_layer* l) {
  const ck_shape* s = &l->shape;
  const int several = s->groups == s->in_c && s->kernel[0] * s->kernel[1] >= MANY_ROWS;
  return l->has_residual == 1 && s->y_stride == s->out_c && !several;
}

/* Runs the layer on some tasks; if supported, y holds the residual for two of them. Returns
   whether the result is correct; `first` is that of one task, which others must equal. */
static int run_on(layer_case* c, int tasks, ck_buffer* first) {
  const ck_layer* l = c->layer;
  const ck_shape* s = &l->shape;
  const int pixels = ck_pixels_out(s);
  const size_t elements =
      pixels ? (size_t)(pixels - 1) * (size_t)s->y_stride + (size_t)s->out_c : 0;
  ck_buffer y = ck_new(elements * element(l), alignment(element(l)));
  ck_tensors t = tensors(c);
  char how[32] = "on 1 task";
  how[3] = (char)('0' + tasks);
  t.y = y.data;
  if (tasks == 2 && residual_may_be_y(l)) {
    lay_residual(c, y.data);
    t.residual = y.data;
  }
  ck_tasks = tasks;
  if (l->run(&t) != 0) {
    ck_fail("%s: an error: %s", how, ck_last_error);
  } else if (compare(c, &y, how) && tasks > 1 && !l->has_nan) {
    (void)ck_same_bytes("another number of tasks", y.data, first->data, y.bytes);
  }
  if (tasks == 1) {
    *first = y;
  } else {
    ck_free(&y);
  }
  return 1;
}

/* Writes the result over the input. */
static void run_in_place(layer_case* c) {
  ck_tensors t = tensors(c);
  t.y = c->x.data;
  if (c->layer->run(&t) != 0) ck_fail("in place: an error");
  (void)compare(c, &c->x, "in place");
}

/* The accumulators of a layer, or of all matmuls of a batch. */
static void reference(const ck_layer* l, const double* x, const double* w, double* sum,
                      double* size) {
  const ck_shape* s = &l->shape;
  const int count = l->products[0], k = s->in_c, n = s->out_c;
  if (count == 0) {
    ck_reference(s, x, w, sum, size);
    return;
  }
  for (int i = 0, m = ck_pixels_out(s) / count; i < count; i++) {
    const double* b = w + (l->products[1] ? 0 : i * k * n);
    ck_reference_matmul(m, n, k, x + i * m * k, b, sum + i * m * n, size + i * m * n);
  }
}

static void check(layer_case* c) {
  const ck_layer* l = c->layer;
  const ck_shape* s = &l->shape;
  const size_t n = (size_t)(ck_pixels_out(s) * s->out_c);
  double *x = fill_input(c), *w = weights(c);
  ck_buffer first;
  memset(&first, 0, sizeof(first));
  c->right = (double*)malloc(sizeof(double) * (n + 1));
  c->bound = (double*)malloc(sizeof(double) * (n + 1));
  if (l->has_residual) {
    const size_t of_row = (size_t)s->out_c, elements = l->has_residual == 2 ? of_row : n;
    c->residual = ck_new(elements * element(l), element(l));
  }
  for (size_t i = 0; i < c->residual.bytes / 4 && is_float(l); i++) {
    ((float*)(void*)c->residual.data)[i] = ck_normal();
  }
  for (size_t i = 0; i < c->residual.bytes && !is_float(l); i++) {
    c->residual.data[i] = (uint8_t)ck_random();
  }
  if (l->has_epilogue) c->each = ck_new(n * 4, 4);
  for (size_t i = 0; i < c->each.bytes / 4; i++) ((float*)(void*)c->each.data)[i] = ck_normal();
  if (l->scratch > 0) c->scratch = ck_new((size_t)l->scratch, 16);
  reference(l, x, w, c->right, c->bound);
  if (is_float(l)) {
    finish_floats(c);
  } else {
    finish_integers(c);
  }
  epilogue_layer = l;
  (void)run_on(c, 1, &first);
#ifndef CK_BARE
  if (l->scratch < 0) {
    for (int tasks = 2; tasks <= 5; tasks += tasks == 3 ? 2 : 1) (void)run_on(c, tasks, &first);
  }
#endif
  if (l->scratch > 0 && !ck_guards_intact(&c->scratch))
    ck_fail("bytes around scratch were written");
  if (l->in_place) run_in_place(c);
  ck_free(&first);
  free(x), free(w), free(c->right), free(c->bound);
}

void ck_check_layer(const ck_layer* layer) {
  layer_case c;
  memset(&c, 0, sizeof(c));
  c.layer = layer;
  read_arrays(&c.arrays, layer);
  if (ck_is_wanted(layer->name)) {
    ck_begin("%s", layer->name);
    check(&c);
    ck_free(&c.x), ck_free(&c.residual), ck_free(&c.each), ck_free(&c.scratch);
  }
  free_arrays(&c.arrays);
}
