/* Convolution under the name of TVM's DNNL wrapper, so that libraries compiled with -libs=dnnl
 * run without DNNL. Each row of the result is a matmul of the weights and an im2col matrix.
 *
 * Correct for any shape but not fast: libraries of this project's compiler contain their own
 * kernels. Everything is checked before the first write. The scratch memory is one block per
 * call. */
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/kernels/scalar/half.h>

#include "functions.h"
#include "matmul.h"
#include "sdk/tensors.h"
#include "sdk/values.h"

typedef struct {
  const char* callee;
  const DLTensor *in, *weights, *out;
  bool channels_last;
  int64_t batch, groups;
  int64_t channels, height, width;              /* of the input; channels per group */
  int64_t filters, kernel_height, kernel_width; /* of the weights; filters per group */
  int64_t rows, columns;                        /* of the result */
  int64_t pads[4], strides[2];                  /* top, bottom, left, right; vertical, horizontal */
  int64_t im2col;                               /* input elements per output element */
} convolution;

/* Scratch memory of a convolution; one block. */
typedef struct {
  float *weights, *im2col, *row, *output_row;
} scratch;

/* ---- arguments ---- */

/* Code compiled by TVM passes no strides here, so strided tensors are rejected. */
static int take_tensor(const tvmrt_args* in, int i, const DLTensor** out) {
  DLTensor* t;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, i, &t));
  *out = t;
  if (t->ndim != 4 || t->device.device_type != kDLCPU || !tvmrt__is_compact(t)) {
    return tvmrt__fail_value("%s: argument %d must be a compact tensor of 4 dimensions on the CPU.",
                             in->callee, i);
  }
  if (t->dtype.lanes == 1 && ((t->dtype.code == kDLFloat && t->dtype.bits == 32) ||
                              (t->dtype.code == kDLBfloat && t->dtype.bits == 16))) {
    return 0;
  }
  return tvmrt__fail_value("%s: argument %d must be of float32 or bfloat16.", in->callee, i);
}

/* Weights are (filters, channels, rows, columns), or with channels last (rows, columns, channels,
 * filters). */
static void take_shapes(convolution* c) {
  const int64_t *x = c->in->shape, *w = c->weights->shape, *y = c->out->shape;
  const int last = c->channels_last;
  c->batch = x[0];
  c->channels = last ? w[2] : w[1];
  c->height = x[last ? 1 : 2];
  c->width = x[last ? 2 : 3];
  c->filters = (last ? w[3] : w[0]) / c->groups;
  c->kernel_height = w[last ? 0 : 2];
  c->kernel_width = w[last ? 1 : 3];
  c->rows = y[last ? 1 : 2];
  c->columns = y[last ? 2 : 3];
  c->im2col = c->channels * c->kernel_height * c->kernel_width;
}

/* Size of the result along one axis; -1 if there is none. */
static int64_t pixels(int64_t extent, int64_t before, int64_t after, int64_t kernel,
                      int64_t stride) {
  /* pads have 32 bits and extents are those of a tensor, so this does not overflow */
  const int64_t span = extent + before + after - kernel;
  return span < 0 ? -1 : span / stride + 1;
}

/* Check the result's shape, which the caller has chosen. */
static int check_shapes(const convolution* c) {
  const int axis = c->channels_last ? 3 : 1;
  const int64_t* p = c->pads;
  if (c->in->shape[axis] != c->channels * c->groups) {
    return tvmrt__fail_value(
        "%s: %lld input channels are not %lld groups of the weights' %lld channels.", c->callee,
        (long long)c->in->shape[axis], (long long)c->groups, (long long)c->channels);
  }
  if (c->out->shape[0] == c->batch && c->out->shape[axis] == c->filters * c->groups &&
      c->weights->shape[c->channels_last ? 3 : 0] == c->filters * c->groups &&
      c->rows == pixels(c->height, p[0], p[1], c->kernel_height, c->strides[0]) &&
      c->columns == pixels(c->width, p[2], p[3], c->kernel_width, c->strides[1])) {
    return 0;
  }
  return tvmrt__fail_value("%s: the shape of the result does not match the convolution.",
                           c->callee);
}

/* (input, weights, result, padding at top, bottom, left and right, vertical and horizontal stride,
 * groups, whether channels come last[, two conversion flags, which repeat the tensors' types]) */
static int take(const tvmrt_args* in, convolution* c) {
  int64_t last;
  int i;
  c->callee = in->callee;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 11, 13));
  TVMRT_RETURN_IF_ERROR(take_tensor(in, 0, &c->in));
  TVMRT_RETURN_IF_ERROR(take_tensor(in, 1, &c->weights));
  TVMRT_RETURN_IF_ERROR(take_tensor(in, 2, &c->out));
  for (i = 0; i < 4; ++i) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 3 + i, &c->pads[i]));
  for (i = 0; i < 2; ++i) TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 7 + i, &c->strides[i]));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 9, &c->groups));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 10, &last));
  for (i = 0; i < 4; ++i) {
    if (c->pads[i] < 0 || c->pads[i] > INT32_MAX) {
      return tvmrt__fail_value("%s: pads must not be negative.", c->callee);
    }
  }
  if (c->strides[0] < 1 || c->strides[1] < 1 || c->groups < 1) {
    return tvmrt__fail_value("%s: strides and groups must be at least 1.", c->callee);
  }
  c->channels_last = last != 0;
  take_shapes(c);
  TVMRT_RETURN_IF_ERROR(check_shapes(c));
  if (c->columns == 0 || c->im2col <= INT32_MAX / c->columns) return 0;
  return tvmrt__fail_value("%s: a row of the im2col matrix exceeds 2^31 elements.", c->callee);
}

/* ---- elements ---- */

/* Elements are converted one by one; the matmul is in float32. */
static float read_element(const DLTensor* t, int64_t i) {
  const char* data = tvmrt__tensor_data(t);
  if (t->dtype.bits == 32) return ((const float*)(const void*)data)[i];
  return tvmrt_bfloat16_to_f32(((const uint16_t*)(const void*)data)[i]);
}

/* Convert to the element type, rounding to nearest. */
static void write_element(const DLTensor* t, int64_t i, float value) {
  char* data = tvmrt__tensor_data(t);
  if (t->dtype.bits == 32) {
    ((float*)(void*)data)[i] = value;
  } else {
    ((uint16_t*)(void*)data)[i] = tvmrt_f32_to_bfloat16(value);
  }
}

/* Index of an element in NCHW order, or with channels last. */
static int64_t offset_of(const convolution* c, int64_t n, int64_t channel, int64_t channels,
                         int64_t row, int64_t rows, int64_t column, int64_t columns) {
  if (c->channels_last) return ((n * rows + row) * columns + column) * channels + channel;
  return ((n * channels + channel) * rows + row) * columns + column;
}

/* ---- matmul of a row ---- */

/* Copy the weights of one group, filter by filter, in the order (channel, row, column). */
static void copy_weights(const convolution* c, int64_t group, float* out) {
  const int64_t all = c->filters * c->groups;
  int64_t f, i, k;
  for (f = group * c->filters; f < (group + 1) * c->filters; ++f) {
    for (i = 0; i < c->channels; ++i) {
      for (k = 0; k < c->kernel_height * c->kernel_width; ++k) {
        const int64_t at = c->channels_last
                               ? (k * c->channels + i) * all + f
                               : (f * c->channels + i) * c->kernel_height * c->kernel_width + k;
        *out++ = read_element(c->weights, at);
      }
    }
  }
}

/* Fill one im2col row: the input element of each output pixel, 0 in the padding. */
static void copy_im2col(const convolution* c, int64_t n, int64_t channel, int64_t y, int64_t kx,
                        float* out) {
  int64_t x;
  for (x = 0; x < c->columns; ++x) {
    const int64_t at = x * c->strides[1] + kx - c->pads[2];
    const bool inside = y >= 0 && y < c->height && at >= 0 && at < c->width;
    out[x] = inside ? read_element(c->in, offset_of(c, n, channel, c->channels * c->groups, y,
                                                    c->height, at, c->width))
                    : 0.0f;
  }
}

/* Compute a row of the result: the matmul of the group's weights and the row's im2col matrix. */
static void run_row(const convolution* c, int64_t n, int64_t group, int64_t row, const scratch* s) {
  const int64_t first = group * c->filters, all = c->filters * c->groups;
  const float* from = s->row;
  float* im2col = s->im2col;
  int64_t i, ky, kx, f, x;
  for (i = group * c->channels; i < (group + 1) * c->channels; ++i) {
    for (ky = 0; ky < c->kernel_height; ++ky) {
      for (kx = 0; kx < c->kernel_width; ++kx, im2col += c->columns) {
        copy_im2col(c, n, i, row * c->strides[0] + ky - c->pads[0], kx, im2col);
      }
    }
  }
  names_gemm_f32(c->filters, c->im2col, c->columns, s->weights, s->im2col, s->row, s->output_row);
  for (f = first; f < first + c->filters; ++f) {
    for (x = 0; x < c->columns; ++x) {
      write_element(c->out, offset_of(c, n, f, all, row, c->rows, x, c->columns), *from++);
    }
  }
}

/* Weights are converted once per group, not for each row. */
static void run(const convolution* c, const scratch* s) {
  int64_t group, n, row;
  for (group = 0; group < c->groups; ++group) {
    copy_weights(c, group, s->weights);
    for (n = 0; n < c->batch; ++n) {
      for (row = 0; row < c->rows; ++row) run_row(c, n, group, row, s);
    }
  }
}

/* Arguments as in take(). Nothing is written before all arguments are checked. */
TVMRT_PLUGIN_NATIVE(names_conv2d) {
  convolution c;
  scratch s;
  size_t weights, im2col, row;
  TVMRT_GLOBAL_ARGS;
  TVMRT_RETURN_IF_ERROR(take(&in, &c));
  weights = (size_t)(c.filters * c.im2col);
  im2col = (size_t)(c.im2col * c.columns);
  row = (size_t)(c.filters * c.columns);
  /* The sizes are bounded by those of tensors, and by the check of a row in take(). */
  s.output_row = tvmrt__calloc(NAMES_GEMM_SCRATCH_FLOATS + weights + im2col + row, sizeof(float));
  if (s.output_row == NULL) return -1;
  s.weights = s.output_row + NAMES_GEMM_SCRATCH_FLOATS;
  s.im2col = s.weights + weights;
  s.row = s.im2col + im2col;
  run(&c, &s);
  free(s.output_row);
  return 0;
}
