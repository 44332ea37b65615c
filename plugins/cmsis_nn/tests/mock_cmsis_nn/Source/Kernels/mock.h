/* Arithmetic that the stand-in's functions share: fixed point with two roundings, as the library's
 * documentation takes it over from TensorFlow Lite's. */
#ifndef MOCK_H
#define MOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arm_nnfunctions.h"

/* What a processor has, as the library tells it by the compiler's macros. */
#if defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE
#define HELIUM 1
#else
#define HELIUM 0
#endif
#if defined(MOCK_DSP) || (defined(__ARM_FEATURE_DSP) && !HELIUM)
#define DSP 1
#else
#define DSP 0
#endif

/* Versions that want more than all that came out; tests of a plan that is too small set it. */
#ifndef MOCK_EXTRA_SCRATCH
#define MOCK_EXTRA_SCRATCH 0
#endif

static inline int32_t high_product(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}

static inline int32_t halved(int32_t x, int32_t times) {
  const int32_t mask = (int32_t)((UINT32_C(1) << times) - 1);
  const int32_t rest = x & mask;
  return (x >> times) + (rest > (mask >> 1) + (x < 0));
}

static inline int32_t requantise(int32_t x, int32_t multiplier, int32_t shift) {
  const uint32_t left = shift > 0 ? (uint32_t)shift : 0;
  return halved(high_product((int32_t)((uint32_t)x << left), multiplier), shift < 0 ? -shift : 0);
}

static inline int8_t bounded(int32_t x, int32_t low, int32_t high) {
  return (int8_t)(x < low ? low : x > high ? high : x);
}

/* Scratch memory is written all over, so that what was planned to lie there is lost. */
static inline int lacks_scratch(const cmsis_nn_context* ctx, int32_t size) {
  if (size == 0) return 0;
  if (ctx->buf == NULL || ctx->size < size) return 1;
  memset(ctx->buf, 0x5A, (size_t)size);
  return 0;
}

#endif
