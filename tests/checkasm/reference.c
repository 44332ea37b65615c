/* Plain C reference of the kernels: loops over the definition, in doubles. Compiled without the
   instruction set's flags and without contraction. */
#include <math.h>
#include <string.h>

#include "checkasm.h"

int ck_pixels_in(const ck_shape* s) { return s->batch * s->in[0] * s->in[1] * s->in[2]; }
int ck_pixels_out(const ck_shape* s) { return s->batch * s->out[0] * s->out[1] * s->out[2]; }

/* The input pixel of window element `tap` of an output pixel, -1 in padding. */
static int source(const ck_shape* s, int pixel, int tap) {
  int at = 0, unit = 1, position[3];
  for (int d = 2; d >= 0; d--) {
    const int o = pixel % s->out[d], k = tap % s->kernel[d];
    pixel /= s->out[d], tap /= s->kernel[d];
    if (s->transposed) {
      const int from = o + s->pad[d] - k * s->dilation[d];
      position[d] = from < 0 || from % s->stride[d] != 0 ? -1 : from / s->stride[d];
    } else {
      position[d] = o * s->stride[d] - s->pad[d] + k * s->dilation[d];
    }
    if (position[d] < 0 || position[d] >= s->in[d]) return -1;
    at += position[d] * unit, unit *= s->in[d];
  }
  return pixel * unit + at;
}

void ck_reference(const ck_shape* s, const double* x, const double* w, double* sum, double* size) {
  const int taps = s->kernel[0] * s->kernel[1] * s->kernel[2], pixels = ck_pixels_out(s);
  const int ins = s->in_c / s->groups, outs = s->out_c / s->groups;
  memset(sum, 0, sizeof(*sum) * (size_t)(pixels * s->out_c));
  memset(size, 0, sizeof(*size) * (size_t)(pixels * s->out_c));
  for (int p = 0; p < pixels; p++) {
    for (int tap = 0; tap < taps; tap++) {
      const int from = source(s, p, tap);
      if (from < 0) continue;
      for (int o = 0; o < s->out_c; o++) {
        const double* of = x + (size_t)from * (size_t)s->in_c + (size_t)(o / outs * ins);
        double total = 0, absolute = 0;
        for (int i = 0; i < ins; i++) {
          const int row = s->transposed ? (o / outs * ins + i) * outs + o % outs : o * ins + i;
          const double product = of[i] * w[row * taps + tap];
          total += product, absolute += fabs(product);
        }
        sum[p * s->out_c + o] += total;
        size[p * s->out_c + o] += absolute;
      }
    }
  }
}

void ck_reference_matmul(int m, int n, int k, const double* a, const double* b, double* sum,
                         double* size) {
  for (int i = 0; i < m; i++) {
    for (int j = 0; j < n; j++) {
      double total = 0, absolute = 0;
      for (int l = 0; l < k; l++) {
        const double product = a[i * k + l] * b[l * n + j];
        total += product, absolute += fabs(product);
      }
      sum[i * n + j] = total;
      size[i * n + j] = absolute;
    }
  }
}

int ck_near(const char* what, const float* found, const double* right, const double* bound, int n) {
  for (int i = 0; i < n; i++) {
    if (isnan(found[i]) && isnan(right[i])) continue;
    if ((double)found[i] == right[i] || fabs((double)found[i] - right[i]) <= bound[i]) continue;
    ck_fail("%s: element %d of %d is %.9g, not %.9g, with a bound of %.3g", what, i, n,
            (double)found[i], right[i], bound[i]);
    return 0;
  }
  return 1;
}

int ck_same_bytes(const char* what, const void* found, const void* right, size_t bytes) {
  const uint8_t *a = (const uint8_t*)found, *b = (const uint8_t*)right;
  for (size_t i = 0; i < bytes; i++) {
    if (a[i] == b[i]) continue;
    ck_fail("%s: byte %d of %d is %d, not %d", what, (int)i, (int)bytes, a[i], b[i]);
    return 0;
  }
  return 1;
}

double ck_ulps(float found, double right) {
  const float nearest = fabsf((float)right);
  const double unit = (double)nextafterf(nearest < 3.4e38f ? nearest : 3.4e38f, INFINITY) -
                      (double)(nearest < 3.4e38f ? nearest : 3.4e38f);
  return fabs((double)found - right) / unit;
}

float ck_times(float a, float b) {
  const volatile float product = a * b;
  return product;
}
float ck_plus(float a, float b) {
  const volatile float sum = a + b;
  return sum;
}
float ck_over(float a, float b) {
  const volatile float quotient = a / b;
  return quotient;
}

int ck_requantized(double sum, float scale, int zero, int low, int high) {
  const double steps = rint((double)ck_times((float)sum, scale)) + zero;
  return (int)(steps < low ? low : steps > high ? high : steps);
}

/* The dividend by a power of two, rounded down. */
static double floor_divided(int64_t dividend, int power) {
  const int64_t rest = dividend & (((int64_t)1 << power) - 1);
  return (double)((dividend - rest) / ((int64_t)1 << power));
}

int ck_fixed_point(double sum, int32_t m, int n, int twice, int zero, int low, int high) {
  const int64_t product = (int64_t)sum * m, half = (int64_t)1 << 30;
  double q;
  if (twice) {
    const double x = floor_divided(product + half, 31) / (double)((int64_t)1 << n);
    q = x < 0 ? -floor(0.5 - x) : floor(x + 0.5);
  } else {
    q = floor_divided(product + (half << n), 31 + n);
  }
  q += zero;
  return q < low ? low : q > high ? high : (int)q;
}

float ck_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
  memcpy(&value, &bits, sizeof(bits));
  return value;
}
