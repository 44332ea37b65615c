/* Checks of the kernels against plain C: declarations shared by the program, its checks and its
   generated layers. One program is built for each instruction set: checkasm.c and reference.c,
   which include no kernel, and the generated layers.c, which includes the kernels, check_rows.h
   and check_layers.h (see layers.py). A failed check prints the layer, the element and both
   values, and the program ends with 1. */
#ifndef CHECKASM_H_
#define CHECKASM_H_

#include <stddef.h>
#include <stdint.h>

/* ---- memory with guards ---- */

/* Bytes of a tensor. On hosts a protected page begins right after them; elsewhere, and before
   them, bytes are filled with 0xFF, which is NaN in floats. */
typedef struct ck_buffer {
  uint8_t* data;
  size_t bytes;
  uint8_t* begin; /* of the guard in front */
  uint8_t* end;   /* of the guard after the bytes */
  void* mapped;
  size_t mapped_bytes;
} ck_buffer;

/* `align` is a power of two: the bytes end as close to the page as it allows. */
ck_buffer ck_new(size_t bytes, size_t align);
void ck_free(ck_buffer* buffer);
int ck_guards_intact(const ck_buffer* buffer);

/* ---- random numbers, the same on every machine ---- */

void ck_seed(uint32_t seed);
uint32_t ck_random(void);
int ck_between(int least, int most); /* both included */
float ck_normal(void);               /* of a bell with variance 1 */

/* ---- results ---- */

/* Names the current check, for reports of failures and crashes; printf's arguments. */
void ck_begin(const char* format, ...);
/* Reports a failure of the current check. */
void ck_fail(const char* format, ...);
int ck_is_wanted(const char* name); /* by --test */

/* ---- the runtime called by kernels: tasks run one after the other, so that any work partition
   is checked without threads ---- */

extern int ck_tasks;
extern const char* ck_last_error;

/* ---- layers ---- */

/* A convolution, transposed or not; triples are depth, height, width. Pixels are x_stride and
 * y_stride elements apart. A matrix product is a 1x1 convolution. */
typedef struct ck_shape {
  int batch, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  int in_c, out_c, groups, x_stride, y_stride, transposed;
  int planes; /* 1: NCHW input */
} ck_shape;

/* Accumulators and sums of magnitudes of a layer in doubles, which are exact for integers: x
   [pixels][in_c], w [out_c][in_c / groups][taps], or of a transposed layer [in_c][out_c /
   groups][taps]. */
void ck_reference(const ck_shape* shape, const double* x, const double* w, double* sum,
                  double* size);
int ck_pixels_in(const ck_shape* shape);
int ck_pixels_out(const ck_shape* shape);

/* A matmul [batch][m][k] * [batch][k][n]; b_k and b_n are the strides of b. */
void ck_reference_matmul(int m, int n, int k, const double* a, const double* b, double* sum,
                         double* size);

/* Compares n floats: |found - right| <= bound; reports the first one outside. NaN equals NaN.
   Returns whether all are within. */
int ck_near(const char* what, const float* found, const double* right, const double* bound, int n);
int ck_same_bytes(const char* what, const void* found, const void* right, size_t bytes);
/* Distance of two floats in units in the last place of the right one. */
double ck_ulps(float found, double right);

/* x * scale in one float rounding, rounded to the nearest integer, ties to even, plus zero, in
 * [low, high]. */
int ck_requantized(double sum, float scale, int zero, int low, int high);

/* sum * m / 2^(31 + n) rounded to an integer, plus zero, in bounds. Rounded once: ties upwards;
   twice: first to a multiple of 2^-n, ties upwards, then ties away from zero. */
int ck_fixed_point(double sum, int32_t m, int n, int twice, int zero, int low, int high);
/* The nearest bfloat16, ties to even. */
float ck_bfloat16(float value);

/* One float operation each, rounded at once even if the compiler would contract them. */
float ck_times(float a, float b);
float ck_plus(float a, float b);
float ck_over(float a, float b);

/* ---- the file of arrays that layers.py writes next to layers.c ---- */

typedef struct ck_array {
  ck_buffer buffer;
  int count; /* elements */
} ck_array;

/* The next array of the file, elements of `size` bytes; without data where it has none. */
ck_array ck_read(size_t size, size_t align);

/* ---- generated layers ---- */

typedef enum { CK_F32, CK_BF16, CK_I8 } ck_type;

/* Use of integer accumulators: int8; int8 with a residual add; themselves; floats; int8 by an
   epilogue; int8 by fixed-point multipliers, rounded twice or once. */
typedef enum { CK_BYTES, CK_PLUS, CK_INT32, CK_FLOATS, CK_REQUANTIZE, CK_TWICE, CK_ONCE } ck_output;

/* The range of quantised numbers. */
typedef struct ck_range {
  int zero, low, high, is_signed;
} ck_range;

/* Arguments of a layer's function. */
typedef struct ck_tensors {
  const void *x, *w, *bias, *residual, *scale, *shift; /* as the kernel reads them */
  const float* scales;                                 /* one for each channel */
  void *y, *scratch;
  void (*epilogue)(float* out, int64_t pixel, int pixels, int channel, int channels,
                   const void* ctx);
  const void* ctx;
} ck_tensors;

typedef struct ck_layer {
  const char* name;
  int (*run)(const ck_tensors* t);
  ck_shape shape;
  ck_type type;
  int has_residual;          /* 2: one row of it for all rows of a product */
  int has_epilogue, has_nan; /* of float layers */
  float low, high, loss;     /* bounds; how many times the usual bound errors may be */
  ck_output output;          /* of integer layers, with the following members */
  ck_range x, y, added, sum; /* the last two of CK_PLUS */
  float factors[2];
  int products[2]; /* of a batch of matrix products: how many, and whether all share one factor */
  int extremes;    /* 1: inputs are extremes; 2: accumulators are */
  int in_place;    /* whether the result may overwrite the input, which is checked, too */
  int scratch;     /* bytes of scratch memory for layers of boards */
} ck_layer;

/* Reads the layer's arrays, runs it on 1, 2, 3 and 5 tasks and compares the results. */
void ck_check_layer(const ck_layer* layer);

/* What generated layers.c defines: all checks of the instruction set. */
void ck_all(void);

#endif
