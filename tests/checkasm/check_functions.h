/* Functions of one float, and elements that are quantised and dequantised. Included by the
   generated layers.c after the headers of its kernels. */
#ifndef CHECK_FUNCTIONS_H_
#define CHECK_FUNCTIONS_H_

#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/kernels/scalar/math.h>
#include <tvm/runtime/kernels/scalar/quant.h>

#if defined(__arm__) && defined(__ARM_NEON)
#define CK_TINY 1.2e-38 /* denormals are zeros in vectors */
#else
#define CK_TINY 0.0
#endif

/* ---- functions of a float: their errors in units in the last place ---- */

/* clang-format off */
#define CK_FUNCTIONS(F)                              \
  F(exp, exp(v), 110.0, 2.0, 0.0)                    \
  F(log, log(v), 3e38, 2.0, 0.0)                     \
  F(expm1, expm1(v), 110.0, 4.0, 0.0)                \
  F(log1p, log1p(v), 3e38, 4.0, 0.0)                 \
  F(tanh, tanh(v), 30.0, 4.0, 0.0)                   \
  F(sigmoid, ck_sigmoid(v), 110.0, 4.0, 1.2e-38)     \
  F(silu, v * ck_sigmoid(v), 3e38, 4.0, 1.5e-36)     \
  F(erf, erf(v), 10.0, 2.0, 0.0)                     \
  F(softplus, ck_softplus(v), 110.0, 4.0, 1.2e-38)   \
  F(sin, sin(v), 3.4e38, 2.0, 0.0)                   \
  F(cos, cos(v), 3.4e38, 2.0, 0.0)                   \
  F(tan, tan(v), 3.4e38, 4.0, 0.0)                   \
  F(small_angle_sin, sin(v), 1048576.0, 2.0, 0.0)           \
  F(small_angle_cos, cos(v), 1048576.0, 2.0, 0.0)           \
  F(small_angle_tan, tan(v), 1048576.0, 4.0, 0.0)           \
  F(floor, floor(v), 1e8, 0.0, 0.0)                  \
  F(ceil, ceil(v), 1e8, 0.0, 0.0)                    \
  F(sign, isnan(v) ? v : (v > 0) - (v < 0), 10.0, 0.0, 0.0)
/* clang-format on */

static double ck_sigmoid(double v) { return v < 0 ? exp(v) / (1 + exp(v)) : 1 / (1 + exp(-v)); }
static double ck_softplus(double v) { return (v > 0 ? v : 0) + log1p(exp(-fabs(v))); }

enum { CK_ARGUMENTS = 4096 };
/* Values of all sizes and both signs, halves, zeros, denormals and the largest; then infinities and
 * NaN. */
static void ck_arguments(float* x, double largest) {
  const double special[] = {0.0,     -0.0,     1.0,      -1.0,      1e-45, 1.17549435e-38,
                            largest, -largest, INFINITY, -INFINITY, NAN};
  for (int i = 0; i < CK_ARGUMENTS; i++) {
    const double unit = (double)ck_random() / 4294967296.0, sign = ck_between(0, 1) ? 1.0 : -1.0;
    const double size = exp(log(1e-44) + unit * (log(largest) - log(1e-44)));
    const double dense = largest < 20.0 ? largest : 20.0;
    x[i] = (float)(sign * (i % 2 ? size : dense * unit));
    if (i % 32 == 0) x[i] = (float)(i / 32 % 41 - 20) / 2.0f;
    if (CK_TINY > 0.0 && fabsf(x[i]) < 1.2e-38f) x[i] = 0.0f;
  }
  memset(x, 0, 8);
  for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) x[i] = (float)special[i];
  if (CK_TINY > 0.0) x[4] = 0.0f;
}

static void ck_compare_function(const char* name, const float* x, const float* y,
                                const double* right, double allowed, double absolute) {
  ck_begin("%s_f32", name);
  for (int i = 0; i < CK_ARGUMENTS; i++) {
    const float nearest = (float)right[i];
    if (isnan(right[i]) ? isnan(y[i]) : y[i] == nearest) continue;
    if (isfinite(nearest) && isfinite(y[i])) {
      const double error = fabs((double)y[i] - right[i]);
      if (ck_ulps(y[i], right[i]) <= allowed || error <= absolute + CK_TINY) continue;
    }
    ck_fail("of %.9g is %.9g, not %.9g", (double)x[i], (double)y[i], right[i]);
    break;
  }
}

#define CK_FUNCTION(NAME, RIGHT, LARGEST, ULPS, ABSOLUTE)                   \
  static void ck_check_##NAME(float* x, float* y, double* right) {          \
    if (!ck_is_wanted(#NAME "_f32")) return;                                \
    ck_arguments(x, LARGEST);                                               \
    for (int i = 0; i < CK_ARGUMENTS; i++) y[i] = tvmrt_##NAME##_f32(x[i]); \
    for (int i = 0; i < CK_ARGUMENTS; i++) {                                \
      const double v = (double)x[i];                                        \
      right[i] = RIGHT;                                                     \
    }                                                                       \
    ck_compare_function(#NAME, x, y, right, ULPS, ABSOLUTE);                \
  }
CK_FUNCTIONS(CK_FUNCTION)
#define CK_CALL(NAME, RIGHT, LARGEST, ULPS, ABSOLUTE) ck_check_##NAME(x, y, right);

static void ck_check_zeros(void) {
  float x[40], y[6][40];
  for (int i = 0; i < 40; i++) x[i] = i % 2 ? 0.0f : -0.0f;
  for (int i = 0; i < 40; i++) {
    y[0][i] = tvmrt_sin_f32(x[i]), y[1][i] = tvmrt_small_angle_sin_f32(x[i]);
    y[2][i] = tvmrt_tan_f32(x[i]), y[3][i] = tvmrt_tanh_f32(x[i]);
    y[4][i] = tvmrt_erf_f32(x[i]), y[5][i] = tvmrt_floor_f32(x[i]);
  }
  ck_begin("the sign of zero: sin, near_reference_sin, tan, tanh, erf, floor");
  for (int i = 0; i < 240; i++) {
    if (!signbit(y[i / 40][i % 40]) != !signbit(x[i % 40])) ck_fail("function %d", i / 40);
  }
}

static void ck_check_pow(float* x, float* y, double* right) {
  const float special[] = {0.0f, -0.0f, 1.0f,  -1.0f,    2.0f,      -2.0f, 0.5f,
                           3.0f, -3.0f, 3e38f, INFINITY, -INFINITY, NAN,   -0.5f};
  enum { MANY = sizeof(special) / sizeof(special[0]) };
  float* p = (float*)malloc(sizeof(float) * CK_ARGUMENTS);
  for (int i = 0; i < CK_ARGUMENTS; i++) {
    x[i] = expf(ck_normal() * 30.0f), p[i] = ck_normal() * 8.0f;
    if (i % 4 == 0) x[i] = ck_normal() * 5.0f, p[i] = rintf(ck_normal() * 5.0f);
    if (i < MANY * MANY) x[i] = special[i / MANY], p[i] = special[i % MANY];
  }
  for (int i = 0; i < CK_ARGUMENTS; i++) y[i] = tvmrt_pow_f32(x[i], p[i]);
  for (int i = 0; i < CK_ARGUMENTS; i++) right[i] = pow((double)x[i], (double)p[i]);
  ck_compare_function("pow", x, y, right, 1.1, 1.5e-45);
  free(p);
}

/* ---- single elements quantised and dequantised ---- */

static void ck_check_scalars(float* x, float* y) {
  const float scales[] = {0.1f, -3.7f, 1e-40f, 3e37f, 0.0f, INFINITY, -INFINITY, NAN};
  const float ends[] = {NAN, INFINITY, -INFINITY, 0.5f, 1.5f, -0.5f, 126.4f, 1e30f, -1e30f, 0.0f};
  int8_t q[CK_ARGUMENTS];
  for (int k = 0; k < 8; k++) {
    int32_t a[64], b[64];
    const volatile float scale = scales[k];
    const float s = scale;
    if (CK_TINY > 0.0 && k == 2) continue;
    ck_begin("dequantize and quantize by %g", (double)s);
    for (int i = 0; i < 64; i++)
      a[i] = i < 2 ? 0 : ck_between(-300, 300), b[i] = ck_between(-300, 300);
    for (int i = 0; i < 64; i++) y[i] = tvmrt_dequantize(a[i], s) + tvmrt_dequantize(b[i], 0.037f);
    for (int i = 0; i < 64; i++) {
      const float right = ck_plus(ck_times((float)a[i], s), ck_times((float)b[i], 0.037f));
      if (y[i] != right && !(isnan(y[i]) && isnan(right)))
        ck_fail("%g, not %g", (double)y[i], (double)right);
    }
    if (isnan(s) || s == -INFINITY) continue;
    for (int i = 0; i < 256; i++) x[i] = i < 10 ? ends[i] : ck_normal() * 60.0f;
    for (int i = 0; i < 256; i++) q[i] = tvmrt_quantize_int8(x[i], s, 3);
    for (int i = 0; i < 256; i++) {
      const double steps = rint((double)ck_over(x[i], s)) + 3;
      const int right = isnan(steps) || steps < -128 ? -128 : steps > 127 ? 127 : (int)steps;
      if (q[i] != right) ck_fail("%g becomes %d, not %d", (double)x[i], q[i], right);
    }
  }
}

/* All checks of this file. */
static void ck_check_functions(void) {
  float* x = (float*)malloc(sizeof(float) * CK_ARGUMENTS);
  float* y = (float*)malloc(sizeof(float) * CK_ARGUMENTS);
  double* right = (double*)malloc(sizeof(double) * CK_ARGUMENTS);
  CK_FUNCTIONS(CK_CALL)
  if (ck_is_wanted("functions"))
    ck_check_zeros(), ck_check_pow(x, y, right), ck_check_scalars(x, y);
  free(x), free(y), free(right);
}

#endif
