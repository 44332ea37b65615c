/*!
 * \file fft.h
 * \brief Fast Fourier transforms of real signals, in float and in fixed point.
 *
 * Half as many complex numbers are transformed, radix by radix, in the memory of the result; then
 * the even and odd parts of the spectrum are separated. In fixed point each radix divides by
 * itself, so that nothing overflows. The order of the radices and all roundings are those of
 * kissfft, which the signal library of TensorFlow Lite Micro uses: results are bit-identical.
 * Complex numbers are pairs of neighbours, the real part first.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_FFT_H_
#define TVM_RUNTIME_KERNELS_OP_FFT_H_

#include <stdint.h>

enum { TVMRT_FFT_STAGES = 16 };

/*! \brief Parameters of a length; tables hold complex pairs e ^ (-2 pi i k / size). */
typedef struct tvmrt_fft {
  int32_t size; /* complex numbers, half of the length */
  int32_t stages;
  int32_t inverse;
  const uint8_t* radices; /* 2 to 5, outermost first; their product is the size */
  const void* twiddles;   /* size pairs */
  const void* splitting;  /* size / 2 pairs */
} tvmrt_fft;

/* Iterator over the input offsets of the inner transforms: mixed-radix digits, counted up. */
typedef struct tvmrt_fft_iterator {
  int32_t digits[TVMRT_FFT_STAGES];
  int32_t strides[TVMRT_FFT_STAGES];
} tvmrt_fft_iterator;

static inline void tvmrt_fft_begin(const tvmrt_fft* fft, tvmrt_fft_iterator* it) {
  int32_t stride = 1;
  for (int32_t s = 0; s < fft->stages; ++s) {
    it->digits[s] = 0;
    it->strides[s] = stride;
    stride *= fft->radices[s];
  }
}

/* The offset in the input of the next element of the result. */
static inline int32_t tvmrt_fft_next(const tvmrt_fft* fft, tvmrt_fft_iterator* it, int32_t at) {
  for (int32_t s = fft->stages - 1; s >= 0; --s) {
    at += it->strides[s];
    if (++it->digits[s] < fft->radices[s]) break;
    at -= it->digits[s] * it->strides[s];
    it->digits[s] = 0;
  }
  return at;
}

/* Products of fractions, rounded to the nearest, ties upwards; fractions of a sum. */
static inline int16_t tvmrt_fft_round_int16(int32_t x) { return (int16_t)((x + (1 << 14)) >> 15); }
static inline int16_t tvmrt_fft_divide_int16(int16_t x, int32_t parts) {
  return tvmrt_fft_round_int16(x * (INT16_MAX / parts));
}
/* half of a + b, and of a - b */
static inline int16_t tvmrt_fft_half_sum_int16(int16_t a, int16_t b) {
  return (int16_t)((a + b) >> 1);
}
static inline int16_t tvmrt_fft_half_difference_int16(int16_t a, int16_t b) {
  return (int16_t)((a - b) >> 1);
}

static inline int32_t tvmrt_fft_round_int32(int64_t x) {
  return (int32_t)((x + ((int64_t)1 << 30)) >> 31);
}
static inline int32_t tvmrt_fft_divide_int32(int32_t x, int32_t parts) {
  return tvmrt_fft_round_int32((int64_t)x * (INT32_MAX / parts));
}
static inline int32_t tvmrt_fft_half_sum_int32(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a + (uint32_t)b) >> 1;
}

static inline int32_t tvmrt_fft_half_difference_int32(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a - (uint32_t)b) >> 1;
}

static inline float tvmrt_fft_round_float32(float x) { return x; }
static inline float tvmrt_fft_divide_float32(float x, int32_t parts) {
  (void)parts;
  return x;
}
static inline float tvmrt_fft_half_sum_float32(float a, float b) { return 0.5f * (a + b); }
static inline float tvmrt_fft_half_difference_float32(float a, float b) { return 0.5f * (a - b); }

/* TYPE is the element type, WIDE that of products, SUM one in which sums may wrap. */
#define TVMRT_DEFINE_FFT(NAME, TYPE, WIDE, SUM)                                                    \
  typedef struct {                                                                                 \
    TYPE r, i;                                                                                     \
  } tvmrt_fft_##NAME;                                                                              \
                                                                                                   \
  static inline TYPE tvmrt_fft_multiply_##NAME(TYPE a, TYPE b) {                                   \
    return tvmrt_fft_round_##NAME((WIDE)a * b);                                                    \
  }                                                                                                \
  static inline TYPE tvmrt_fft_add_##NAME(TYPE a, TYPE b) { return (TYPE)((SUM)a + (SUM)b); }      \
  static inline TYPE tvmrt_fft_subtract_##NAME(TYPE a, TYPE b) { return (TYPE)((SUM)a - (SUM)b); } \
                                                                                                   \
  static inline tvmrt_fft_##NAME tvmrt_fft_complex_add_##NAME(tvmrt_fft_##NAME a,                  \
                                                              tvmrt_fft_##NAME b) {                \
    const tvmrt_fft_##NAME y = {tvmrt_fft_add_##NAME(a.r, b.r), tvmrt_fft_add_##NAME(a.i, b.i)};   \
    return y;                                                                                      \
  }                                                                                                \
  static inline tvmrt_fft_##NAME tvmrt_fft_complex_subtract_##NAME(tvmrt_fft_##NAME a,             \
                                                                   tvmrt_fft_##NAME b) {           \
    const tvmrt_fft_##NAME y = {tvmrt_fft_subtract_##NAME(a.r, b.r),                               \
                                tvmrt_fft_subtract_##NAME(a.i, b.i)};                              \
    return y;                                                                                      \
  }                                                                                                \
  static inline tvmrt_fft_##NAME tvmrt_fft_complex_multiply_##NAME(tvmrt_fft_##NAME a,             \
                                                                   tvmrt_fft_##NAME b) {           \
    const tvmrt_fft_##NAME y = {tvmrt_fft_round_##NAME((WIDE)a.r * b.r - (WIDE)a.i * b.i),         \
                                tvmrt_fft_round_##NAME((WIDE)a.r * b.i + (WIDE)a.i * b.r)};        \
    return y;                                                                                      \
  }                                                                                                \
  static inline tvmrt_fft_##NAME tvmrt_fft_complex_divide_##NAME(tvmrt_fft_##NAME a,               \
                                                                 int32_t parts) {                  \
    const tvmrt_fft_##NAME y = {tvmrt_fft_divide_##NAME(a.r, parts),                               \
                                tvmrt_fft_divide_##NAME(a.i, parts)};                              \
    return y;                                                                                      \
  }                                                                                                \
  /* a + i b and a - i b */                                                                        \
  static inline void tvmrt_fft_add_rotated_##NAME(                                                 \
      tvmrt_fft_##NAME a, tvmrt_fft_##NAME b, tvmrt_fft_##NAME* plus, tvmrt_fft_##NAME* minus) {   \
    plus->r = tvmrt_fft_subtract_##NAME(a.r, b.i);                                                 \
    plus->i = tvmrt_fft_add_##NAME(a.i, b.r);                                                      \
    minus->r = tvmrt_fft_add_##NAME(a.r, b.i);                                                     \
    minus->i = tvmrt_fft_subtract_##NAME(a.i, b.r);                                                \
  }                                                                                                \
                                                                                                   \
  static inline void tvmrt_fft_radix2_##NAME(tvmrt_fft_##NAME* at, int32_t m,                      \
                                             const tvmrt_fft_##NAME* v) {                          \
    at[0] = tvmrt_fft_complex_add_##NAME(v[0], v[1]);                                              \
    at[m] = tvmrt_fft_complex_subtract_##NAME(v[0], v[1]);                                         \
  }                                                                                                \
  /* third: e ^ (-2 pi i / 3), or of the inverse its conjugate */                                  \
  static inline void tvmrt_fft_radix3_##NAME(tvmrt_fft_##NAME* at, int32_t m,                      \
                                             const tvmrt_fft_##NAME* v, tvmrt_fft_##NAME third) {  \
    const tvmrt_fft_##NAME sum = tvmrt_fft_complex_add_##NAME(v[1], v[2]);                         \
    tvmrt_fft_##NAME rest = tvmrt_fft_complex_subtract_##NAME(v[1], v[2]);                         \
    const tvmrt_fft_##NAME zero = {0, 0};                                                          \
    const tvmrt_fft_##NAME half = {tvmrt_fft_half_sum_##NAME(sum.r, zero.r),                       \
                                   tvmrt_fft_half_sum_##NAME(sum.i, zero.i)};                      \
    rest.r = tvmrt_fft_multiply_##NAME(rest.r, third.i);                                           \
    rest.i = tvmrt_fft_multiply_##NAME(rest.i, third.i);                                           \
    tvmrt_fft_add_rotated_##NAME(tvmrt_fft_complex_subtract_##NAME(v[0], half), rest, &at[m],      \
                                 &at[2 * m]);                                                      \
    at[0] = tvmrt_fft_complex_add_##NAME(v[0], sum);                                               \
  }                                                                                                \
  static inline void tvmrt_fft_radix4_##NAME(tvmrt_fft_##NAME* at, int32_t m,                      \
                                             const tvmrt_fft_##NAME* v, int32_t inverse) {         \
    const tvmrt_fft_##NAME even = tvmrt_fft_complex_add_##NAME(v[0], v[2]);                        \
    const tvmrt_fft_##NAME odd = tvmrt_fft_complex_add_##NAME(v[1], v[3]);                         \
    const tvmrt_fft_##NAME a = tvmrt_fft_complex_subtract_##NAME(v[0], v[2]);                      \
    const tvmrt_fft_##NAME b = tvmrt_fft_complex_subtract_##NAME(v[1], v[3]);                      \
    at[0] = tvmrt_fft_complex_add_##NAME(even, odd);                                               \
    at[2 * m] = tvmrt_fft_complex_subtract_##NAME(even, odd);                                      \
    tvmrt_fft_add_rotated_##NAME(a, b, &at[inverse ? m : 3 * m], &at[inverse ? 3 * m : m]);        \
  }                                                                                                \
  /* fifth, two: e ^ (-2 pi i / 5) and its square */                                               \
  static inline void tvmrt_fft_radix5_##NAME(tvmrt_fft_##NAME* at, int32_t m,                      \
                                             const tvmrt_fft_##NAME* v, tvmrt_fft_##NAME fifth,    \
                                             tvmrt_fft_##NAME two) {                               \
    const tvmrt_fft_##NAME outer = tvmrt_fft_complex_add_##NAME(v[1], v[4]);                       \
    const tvmrt_fft_##NAME inner = tvmrt_fft_complex_add_##NAME(v[2], v[3]);                       \
    const tvmrt_fft_##NAME a = tvmrt_fft_complex_subtract_##NAME(v[1], v[4]);                      \
    const tvmrt_fft_##NAME b = tvmrt_fft_complex_subtract_##NAME(v[2], v[3]);                      \
    for (int32_t far = 0; far < 2; ++far) {                                                        \
      const tvmrt_fft_##NAME c = far ? two : fifth, d = far ? fifth : two;                         \
      tvmrt_fft_##NAME base, twiddle;                                                              \
      base.r = tvmrt_fft_add_##NAME(v[0].r, tvmrt_fft_multiply_##NAME(outer.r, c.r));              \
      base.r = tvmrt_fft_add_##NAME(base.r, tvmrt_fft_multiply_##NAME(inner.r, d.r));              \
      base.i = tvmrt_fft_add_##NAME(v[0].i, tvmrt_fft_multiply_##NAME(outer.i, c.r));              \
      base.i = tvmrt_fft_add_##NAME(base.i, tvmrt_fft_multiply_##NAME(inner.i, d.r));              \
      const TYPE br = tvmrt_fft_multiply_##NAME(b.r, d.i),                                         \
                 bi = tvmrt_fft_multiply_##NAME(b.i, d.i);                                         \
      twiddle.r = tvmrt_fft_multiply_##NAME(a.r, c.i);                                             \
      twiddle.i = tvmrt_fft_multiply_##NAME(a.i, c.i);                                             \
      twiddle.r =                                                                                  \
          far ? tvmrt_fft_subtract_##NAME(twiddle.r, br) : tvmrt_fft_add_##NAME(twiddle.r, br);    \
      twiddle.i =                                                                                  \
          far ? tvmrt_fft_subtract_##NAME(twiddle.i, bi) : tvmrt_fft_add_##NAME(twiddle.i, bi);    \
      tvmrt_fft_add_rotated_##NAME(base, twiddle, &at[(1 + far) * m], &at[(4 - far) * m]);         \
    }                                                                                              \
    at[0] = tvmrt_fft_complex_add_##NAME(v[0], tvmrt_fft_complex_add_##NAME(outer, inner));        \
  }                                                                                                \
                                                                                                   \
  /* One radix over all elements; m are transformed already, `stride` apart in the tables. */      \
  static inline void tvmrt_fft_stage_##NAME(const tvmrt_fft* fft, tvmrt_fft_##NAME* y,             \
                                            int32_t radix, int32_t m) {                            \
    const tvmrt_fft_##NAME* const table = (const tvmrt_fft_##NAME*)fft->twiddles;                  \
    const int32_t stride = fft->size / (radix * m);                                                \
    for (int32_t first = 0; first < fft->size; first += radix * m) {                               \
      for (int32_t k = 0; k < m; ++k) {                                                            \
        tvmrt_fft_##NAME v[5];                                                                     \
        tvmrt_fft_##NAME* const at = y + first + k;                                                \
        v[0] = tvmrt_fft_complex_divide_##NAME(at[0], radix);                                      \
        for (int32_t q = 1; q < radix; ++q) {                                                      \
          v[q] = tvmrt_fft_complex_divide_##NAME(at[q * m], radix);                                \
          v[q] = tvmrt_fft_complex_multiply_##NAME(v[q], table[q * k * stride]);                   \
        }                                                                                          \
        if (radix == 4) {                                                                          \
          tvmrt_fft_radix4_##NAME(at, m, v, fft->inverse);                                         \
        } else if (radix == 2) {                                                                   \
          tvmrt_fft_radix2_##NAME(at, m, v);                                                       \
        } else if (radix == 3) {                                                                   \
          tvmrt_fft_radix3_##NAME(at, m, v, table[m * stride]);                                    \
        } else {                                                                                   \
          tvmrt_fft_radix5_##NAME(at, m, v, table[m * stride], table[2 * m * stride]);             \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static inline void tvmrt_fft_stages_##NAME(const tvmrt_fft* fft, tvmrt_fft_##NAME* y) {          \
    int32_t m = 1;                                                                                 \
    for (int32_t s = fft->stages - 1; s >= 0; --s) {                                               \
      tvmrt_fft_stage_##NAME(fft, y, fft->radices[s], m);                                          \
      m *= fft->radices[s];                                                                        \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  /* Combine the elements k and size - k: half sums, rotated half differences. */                  \
  static inline void tvmrt_fft_halves_##NAME(const tvmrt_fft* fft, const TYPE* x, int32_t k,       \
                                             tvmrt_fft_##NAME* sum, tvmrt_fft_##NAME* rest) {      \
    const tvmrt_fft_##NAME* const table = (const tvmrt_fft_##NAME*)fft->splitting;                 \
    const int32_t other = fft->size - k;                                                           \
    tvmrt_fft_##NAME a = {x[2 * k], x[2 * k + 1]};                                                 \
    tvmrt_fft_##NAME b = {x[2 * other], tvmrt_fft_subtract_##NAME(0, x[2 * other + 1])};           \
    a = tvmrt_fft_complex_divide_##NAME(a, 2);                                                     \
    b = tvmrt_fft_complex_divide_##NAME(b, 2);                                                     \
    *sum = tvmrt_fft_complex_add_##NAME(a, b);                                                     \
    *rest =                                                                                        \
        tvmrt_fft_complex_multiply_##NAME(tvmrt_fft_complex_subtract_##NAME(a, b), table[k - 1]);  \
  }                                                                                                \
                                                                                                   \
  /* The spectrum of count zero-padded samples: size + 1 complex numbers; y is not x. */           \
  static inline void tvmrt_rfft_##NAME(const tvmrt_fft* fft, const TYPE* x, int32_t count,         \
                                       TYPE* y) {                                                  \
    tvmrt_fft_##NAME* const out = (tvmrt_fft_##NAME*)(void*)y;                                     \
    const int32_t size = fft->size;                                                                \
    tvmrt_fft_iterator it;                                                                         \
    tvmrt_fft_begin(fft, &it);                                                                     \
    for (int32_t p = 0, at = 0; p < size; ++p, at = tvmrt_fft_next(fft, &it, at)) {                \
      out[p].r = 2 * at < count ? x[2 * at] : 0;                                                   \
      out[p].i = 2 * at + 1 < count ? x[2 * at + 1] : 0;                                           \
    }                                                                                              \
    tvmrt_fft_stages_##NAME(fft, out);                                                             \
    const tvmrt_fft_##NAME first = tvmrt_fft_complex_divide_##NAME(out[0], 2);                     \
    for (int32_t k = 1; k <= size / 2; ++k) {                                                      \
      tvmrt_fft_##NAME sum, rest;                                                                  \
      tvmrt_fft_halves_##NAME(fft, y, k, &sum, &rest);                                             \
      out[k].r = tvmrt_fft_half_sum_##NAME(sum.r, rest.r);                                         \
      out[k].i = tvmrt_fft_half_sum_##NAME(sum.i, rest.i);                                         \
      out[size - k].r = tvmrt_fft_half_difference_##NAME(sum.r, rest.r);                           \
      out[size - k].i = tvmrt_fft_half_difference_##NAME(rest.i, sum.i);                           \
    }                                                                                              \
    out[0].r = tvmrt_fft_add_##NAME(first.r, first.i);                                             \
    out[size].r = tvmrt_fft_subtract_##NAME(first.r, first.i);                                     \
    out[0].i = out[size].i = 0;                                                                    \
  }                                                                                                \
                                                                                                   \
  /* The samples, 2 * size of them, of a spectrum of size + 1 numbers; y must not be x. In fixed \
   * point they are divided by the length, in floating point they are not. */ \
  static inline void tvmrt_irfft_##NAME(const tvmrt_fft* fft, const TYPE* x, TYPE* y) {            \
    tvmrt_fft_##NAME* const out = (tvmrt_fft_##NAME*)(void*)y;                                     \
    const int32_t size = fft->size;                                                                \
    tvmrt_fft_iterator it;                                                                         \
    tvmrt_fft_begin(fft, &it);                                                                     \
    for (int32_t p = 0, at = 0; p < size; ++p, at = tvmrt_fft_next(fft, &it, at)) {                \
      tvmrt_fft_##NAME sum, rest;                                                                  \
      if (at == 0) {                                                                               \
        sum.r = tvmrt_fft_add_##NAME(x[0], x[2 * size]);                                           \
        sum.i = tvmrt_fft_subtract_##NAME(x[0], x[2 * size]);                                      \
        out[p] = tvmrt_fft_complex_divide_##NAME(sum, 2);                                          \
      } else if (2 * at < size) {                                                                  \
        tvmrt_fft_halves_##NAME(fft, x, at, &sum, &rest);                                          \
        out[p] = tvmrt_fft_complex_add_##NAME(sum, rest);                                          \
      } else {                                                                                     \
        tvmrt_fft_halves_##NAME(fft, x, size - at, &sum, &rest);                                   \
        out[p] = tvmrt_fft_complex_subtract_##NAME(sum, rest);                                     \
        out[p].i = tvmrt_fft_subtract_##NAME(0, out[p].i);                                         \
      }                                                                                            \
    }                                                                                              \
    tvmrt_fft_stages_##NAME(fft, out);                                                             \
  }

TVMRT_DEFINE_FFT(int16, int16_t, int32_t, int32_t)
TVMRT_DEFINE_FFT(int32, int32_t, int64_t, uint32_t)
TVMRT_DEFINE_FFT(float32, float, float, float)

#endif /* TVM_RUNTIME_KERNELS_OP_FFT_H_ */
