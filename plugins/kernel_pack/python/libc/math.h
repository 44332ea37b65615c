/*!
 * \file math.h
 * \brief Functions of floating-point numbers; see stdint.h.
 */
#ifndef TVMRT_LIBC_MATH_H_
#define TVMRT_LIBC_MATH_H_

#define INFINITY (1e300f * 1e300f)
#define NAN (-(INFINITY * 0.0f))

#define isnan(value) ((value) != (value))
#define isinf(value) ((value) == INFINITY || (value) == -INFINITY)
#define isfinite(value) ((value) - (value) == 0)
#define signbit(value) (copysign(1.0, (value)) < 0)

#define TVMRT_LIBC_UNARY(name) \
  double name(double value);   \
  float name##f(float value);
#define TVMRT_LIBC_BINARY(name)    \
  double name(double a, double b); \
  float name##f(float a, float b);

/* clang-format off */
TVMRT_LIBC_UNARY(acos) TVMRT_LIBC_UNARY(acosh) TVMRT_LIBC_UNARY(asin) TVMRT_LIBC_UNARY(asinh)
TVMRT_LIBC_UNARY(atan) TVMRT_LIBC_UNARY(atanh) TVMRT_LIBC_UNARY(cbrt) TVMRT_LIBC_UNARY(ceil)
TVMRT_LIBC_UNARY(cos) TVMRT_LIBC_UNARY(cosh) TVMRT_LIBC_UNARY(erf) TVMRT_LIBC_UNARY(erfc)
TVMRT_LIBC_UNARY(exp) TVMRT_LIBC_UNARY(exp2) TVMRT_LIBC_UNARY(expm1) TVMRT_LIBC_UNARY(fabs)
TVMRT_LIBC_UNARY(floor) TVMRT_LIBC_UNARY(lgamma) TVMRT_LIBC_UNARY(log) TVMRT_LIBC_UNARY(log10)
TVMRT_LIBC_UNARY(log1p) TVMRT_LIBC_UNARY(log2) TVMRT_LIBC_UNARY(nearbyint) TVMRT_LIBC_UNARY(rint)
TVMRT_LIBC_UNARY(round) TVMRT_LIBC_UNARY(sin) TVMRT_LIBC_UNARY(sinh) TVMRT_LIBC_UNARY(sqrt)
TVMRT_LIBC_UNARY(tan) TVMRT_LIBC_UNARY(tanh) TVMRT_LIBC_UNARY(tgamma) TVMRT_LIBC_UNARY(trunc)
TVMRT_LIBC_BINARY(atan2) TVMRT_LIBC_BINARY(copysign) TVMRT_LIBC_BINARY(fmax) TVMRT_LIBC_BINARY(fmin)
TVMRT_LIBC_BINARY(fmod) TVMRT_LIBC_BINARY(hypot) TVMRT_LIBC_BINARY(pow)
TVMRT_LIBC_BINARY(remainder)
double fma(double a, double b, double c);
float fmaf(float a, float b, float c);
double ldexp(double value, int exponent);
float ldexpf(float value, int exponent);
long lrint(double value);
long lrintf(float value);
/* clang-format on */

#endif /* TVMRT_LIBC_MATH_H_ */
