/* Matmul under the names of TVM's library wrappers, so that libraries compiled with -libs=cblas,
 * mkl or dnnl run without those libraries.
 *
 * Correct for any strides, and fast enough for small networks: libraries of this project's compiler
 * contain their own kernels. A call runs on its own thread only.
 *
 * The right matrix is copied in blocks of BLOCK_DEPTH rows and BLOCK_WIDTH columns, which makes its
 * rows contiguous for any strides. All rows of the left matrix use the block before the next one is
 * copied. Columns past the end of a narrow block are computed from stale data and discarded. */
#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "sdk/tensors.h"
#include "sdk/values.h"

/* Block size of the right matrix, which fits a core's own cache. */
enum { BLOCK_DEPTH = 128, BLOCK_WIDTH = 256, LANES = 16 };

/* A matrix of a batch: element (i, j) is at i * rows + j * columns. */
typedef struct {
  const DLTensor* tensor;
  int64_t height, width;
  int64_t rows, columns; /* strides in elements */
  int64_t batches, step; /* elements from one matrix to the next; 0: one for all */
} matrix;

/* Checked arguments of a call; the tensors are borrowed from them. */
typedef struct {
  const char* callee;
  matrix a, b, c;
  double alpha, beta;
  int64_t batches;
} matmul;

/* ---- arguments ---- */

/* Tensors without strides are compact. */
static int64_t stride_of(const DLTensor* t, int axis) {
  int64_t step = 1;
  int i;
  if (t->strides != NULL) return t->strides[axis];
  for (i = axis + 1; i < t->ndim; ++i) step *= t->shape[i];
  return step;
}

/* Operands may be views with any strides; a transposed one is read with swapped strides. */
static int take_matrix(const tvmrt_args* in, int i, int ndim, bool transposed, matrix* out) {
  DLTensor* t;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_tensor(in, i, &t));
  if (t->ndim != ndim || t->device.device_type != kDLCPU) {
    return tvmrt__fail_value("%s: argument %d must be a tensor of %d dimensions on the CPU.",
                             in->callee, i, ndim);
  }
  out->tensor = t;
  out->height = t->shape[ndim - (transposed ? 1 : 2)];
  out->width = t->shape[ndim - (transposed ? 2 : 1)];
  out->rows = stride_of(t, ndim - (transposed ? 1 : 2));
  out->columns = stride_of(t, ndim - (transposed ? 2 : 1));
  out->batches = ndim == 3 ? t->shape[0] : 1;
  /* so that one matrix serves a whole batch */
  out->step = out->batches == 1 ? 0 : stride_of(t, 0);
  return 0;
}

/* alpha and beta are optional: only some releases pass them. */
static int take_scale(const tvmrt_args* in, int i, double missing, double* out) {
  *out = missing;
  return i < in->count ? tvmrt__arg_number(in, i, out) : 0;
}

/* A single matrix may be used for the whole batch. */
static int check_shapes(matmul* p) {
  const matrix *a = &p->a, *b = &p->b, *c = &p->c;
  const int64_t max_batches = a->batches > b->batches ? a->batches : b->batches;
  p->batches = c->batches;
  if (a->width != b->height || a->height != c->height || b->width != c->width) {
    return tvmrt__fail_value("%s: %lld x %lld times %lld x %lld does not give %lld x %lld.",
                             p->callee, (long long)a->height, (long long)a->width,
                             (long long)b->height, (long long)b->width, (long long)c->height,
                             (long long)c->width);
  }
  if (c->batches != max_batches || (a->batches != max_batches && a->batches != 1) ||
      (b->batches != max_batches && b->batches != 1)) {
    return tvmrt__fail_value("%s: batch sizes %lld and %lld do not give %lld.", p->callee,
                             (long long)a->batches, (long long)b->batches, (long long)c->batches);
  }
  if (tvmrt__is_compact(c->tensor)) return 0;
  return tvmrt__fail_value("%s: the result must be compact.", p->callee);
}

/* (A, B, C, whether A is transposed, whether B is transposed[, alpha[, beta]]) */
static int take(const tvmrt_args* in, int ndim, matmul* p) {
  int64_t transposed[2];
  p->callee = in->callee;
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_count(in, 5, 7));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 3, &transposed[0]));
  TVMRT_RETURN_IF_ERROR(tvmrt__arg_int(in, 4, &transposed[1]));
  TVMRT_RETURN_IF_ERROR(take_matrix(in, 0, ndim, transposed[0] != 0, &p->a));
  TVMRT_RETURN_IF_ERROR(take_matrix(in, 1, ndim, transposed[1] != 0, &p->b));
  TVMRT_RETURN_IF_ERROR(take_matrix(in, 2, ndim, false, &p->c));
  TVMRT_RETURN_IF_ERROR(take_scale(in, 5, 1, &p->alpha));
  TVMRT_RETURN_IF_ERROR(take_scale(in, 6, 0, &p->beta));
  return check_shapes(p);
}

/* Vector types (lanes > 1) are not supported. */
static bool is_float(const matrix* m, int bits) {
  const DLDataType type = m->tensor->dtype;
  return type.code == kDLFloat && type.bits == bits && type.lanes == 1;
}

/* ---- the product ---- */

/* For float and double: c = alpha * a * b + beta * c, block by block of b. The innermost loop has a
 * constant trip count, so compilers vectorise it. */
#define FLOAT_GEMM(T, name)                                                                      \
  static void name##_begin(const matmul* p, T* c) {                                              \
    const int64_t size = p->c.height * p->c.width;                                               \
    int64_t i;                                                                                   \
    for (i = 0; i < size; ++i) c[i] = p->beta == 0 ? (T)0 : (T)p->beta * c[i];                   \
  }                                                                                              \
  static void name##_copy(const matmul* p, const T* b, int64_t depth, int64_t width, T* block) { \
    int64_t k, j;                                                                                \
    for (k = 0; k < depth; ++k) {                                                                \
      for (j = 0; j < width; ++j)                                                                \
        block[k * BLOCK_WIDTH + j] = b[k * p->b.rows + j * p->b.columns];                        \
    }                                                                                            \
  }                                                                                              \
  static void name##_row(const matmul* p, const T* a, const T* block, int64_t depth,             \
                         int64_t width, T* c) {                                                  \
    T sums[BLOCK_WIDTH];                                                                         \
    int64_t k, j, l;                                                                             \
    memset(sums, 0, sizeof(sums));                                                               \
    for (k = 0; k < depth; ++k, block += BLOCK_WIDTH) {                                          \
      const T x = (T)p->alpha * a[k * p->a.columns];                                             \
      for (j = 0; j < width; j += LANES) {                                                       \
        for (l = 0; l < LANES; ++l) sums[j + l] += x * block[j + l];                             \
      }                                                                                          \
    }                                                                                            \
    for (j = 0; j < width; ++j) c[j] += sums[j];                                                 \
  }                                                                                              \
  static void name(const matmul* p, const T* a, const T* b, T* c, T* block) {                    \
    int64_t i, j, k;                                                                             \
    name##_begin(p, c);                                                                          \
    for (j = 0; j < p->c.width; j += BLOCK_WIDTH) {                                              \
      const int64_t width = p->c.width - j < BLOCK_WIDTH ? p->c.width - j : BLOCK_WIDTH;         \
      for (k = 0; k < p->b.height; k += BLOCK_DEPTH) {                                           \
        const int64_t depth = p->b.height - k < BLOCK_DEPTH ? p->b.height - k : BLOCK_DEPTH;     \
        name##_copy(p, b + k * p->b.rows + j * p->b.columns, depth, width, block);               \
        for (i = 0; i < p->c.height; ++i) {                                                      \
          name##_row(p, a + i * p->a.rows + k * p->a.columns, block, depth, width,               \
                     c + i * p->c.width + j);                                                    \
        }                                                                                        \
      }                                                                                          \
    }                                                                                            \
  }

FLOAT_GEMM(float, gemm_f32)
FLOAT_GEMM(double, gemm_f64)

/* One block for the copied part of the right matrix, shared by the batch. */
static int run_floats(const matmul* p) {
  const bool wide = p->c.tensor->dtype.bits == 64;
  const char* a = tvmrt__tensor_data(p->a.tensor);
  const char* b = tvmrt__tensor_data(p->b.tensor);
  char* c = tvmrt__tensor_data(p->c.tensor);
  const int64_t size = wide ? 8 : 4;
  void* block = tvmrt__calloc(BLOCK_DEPTH * BLOCK_WIDTH, (size_t)size);
  int64_t i;
  if (block == NULL) return -1;
  for (i = 0; i < p->batches; ++i) {
    if (wide) {
      gemm_f64(p, (const double*)(const void*)a, (const double*)(const void*)b, (double*)(void*)c,
               block);
    } else {
      gemm_f32(p, (const float*)(const void*)a, (const float*)(const void*)b, (float*)(void*)c,
               block);
    }
    a += p->a.step * size;
    b += p->b.step * size;
    c += p->c.step * size;
  }
  free(block);
  return 0;
}

/* All three matrices have one type; nothing is converted. */
static int float_matmul(const tvmrt_args* in, int ndim) {
  matmul p;
  int bits;
  TVMRT_RETURN_IF_ERROR(take(in, ndim, &p));
  bits = p.c.tensor->dtype.bits == 64 ? 64 : 32;
  if (!is_float(&p.a, bits) || !is_float(&p.b, bits) || !is_float(&p.c, bits)) {
    return tvmrt__fail_value("%s: all three tensors must be float32, or all float64.", p.callee);
  }
  return run_floats(&p);
}

/* Arguments as in take(). */
TVMRT_PLUGIN_NATIVE(names_matmul) {
  TVMRT_GLOBAL_ARGS;
  return float_matmul(&in, 2);
}

/* Batched matmul of three-dimensional tensors; arguments as in take(). */
TVMRT_PLUGIN_NATIVE(names_batch_matmul) {
  TVMRT_GLOBAL_ARGS;
  return float_matmul(&in, 3);
}
