/* Shared arithmetic of the mock functions: fixed point with two roundings, as in TensorFlow
   Lite. */
#ifndef MOCK_H
#define MOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arm_nnfunctions.h"

/* Features of the processor, from the macros that CMSIS-NN uses. */
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

/* Scratch sizes above those of all releases; set by tests of too small buffers. */
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

/* Overwrite the scratch memory, so that overlapping tensors are detected. */
static inline int lacks_scratch(const cmsis_nn_context* ctx, int32_t size) {
  if (size == 0) return 0;
  if (ctx->buf == NULL || ctx->size < size) return 1;
  memset(ctx->buf, 0x5A, (size_t)size);
  return 0;
}

#endif
