/*!
 * \file board/common_f32.h
 * \brief Shared parts of the float kernels of microcontrollers: inner loops, clamping, results.
 *
 * The inner loops compute four output channels of one pixel or of four neighbouring ones at once,
 * with the instructions of Cortex-M's floating-point unit, with Helium, or in C. The loops for the
 * floating-point unit are assembly, because compilers do not load several registers at once. Define
 * TVMRT_MICRO_ASM as 0 for code without inline assembly.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_COMMON_F32_H_
#define TVM_RUNTIME_KERNELS_BOARD_COMMON_F32_H_

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "../parallel.h"
#include "../tile/simd.h"
#include "layer_f32.h"

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
#define TVMRT_MICRO_F32_MVE 1
#include <arm_mve.h>
#else
#define TVMRT_MICRO_F32_MVE 0
#endif

#if !TVMRT_MICRO_F32_MVE && defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && \
    defined(__ARM_FEATURE_FMA) && (!defined(TVMRT_MICRO_ASM) || TVMRT_MICRO_ASM)
#define TVMRT_MICRO_F32_ASM 1
#else
#define TVMRT_MICRO_F32_ASM 0
#endif

/*! \brief Channels whose sums are kept before they become results. */
#define TVMRT_MICRO_F32_CHUNK 16
/*! \brief Pixels of a tile (MR). */
#define TVMRT_MICRO_F32_PIXELS 4

/* tvmrt_micro_tile_f32_1(sums, x, w, bias, n) and tvmrt_micro_tile_f32_4(): four channels' biases
 * plus the sums of x[i] * w[i][channel], for one pixel to sums[channel], for four, with
 * x[i][pixel], to sums[pixel * TVMRT_MICRO_F32_CHUNK + channel]. */
#if TVMRT_MICRO_F32_MVE

TVMRT_NOINLINE void tvmrt_micro_tile_f32_1(float* sums, const float* x, const float* w,
                                           const float* bias, int32_t n) {
  float32x4_t acc = vldrwq_f32(bias);
  do {
    acc = vfmaq_n_f32(acc, vldrwq_f32(w), *x++);
    w += 4;
  } while (--n > 0);
  vstrwq_f32(sums, acc);
}

TVMRT_NOINLINE void tvmrt_micro_tile_f32_4(float* sums, const float* x, const float* w,
                                           const float* bias, int32_t n) {
  float32x4_t a = vldrwq_f32(bias), b = a, c = a, d = a;
  do {
    const float32x4_t weights = vldrwq_f32(w);
    float of[4]; /* pixels; loaded two at a time */
    uint64_t first, second;
    memcpy(&first, TVMRT_ALIGNED(x, 8), 8);
    memcpy(&second, TVMRT_ALIGNED(x + 2, 8), 8);
    memcpy(of, &first, 8);
    memcpy(of + 2, &second, 8);
    a = vfmaq_n_f32(a, weights, of[0]);
    b = vfmaq_n_f32(b, weights, of[1]);
    c = vfmaq_n_f32(c, weights, of[2]);
    d = vfmaq_n_f32(d, weights, of[3]);
    x += 4;
    w += 4;
  } while (--n > 0);
  vstrwq_f32(sums, a);
  vstrwq_f32(sums + TVMRT_MICRO_F32_CHUNK, b);
  vstrwq_f32(sums + 2 * TVMRT_MICRO_F32_CHUNK, c);
  vstrwq_f32(sums + 3 * TVMRT_MICRO_F32_CHUNK, d);
}

#elif TVMRT_MICRO_F32_ASM

/* Add the weights in s20 to s23 times X to four channels of one pixel in the registers A to D. */
#define TVMRT_MICRO_F32_FMA(A, B, C, D, X) \
  "vfma.f32 " A ", s20, " X                \
  "\n"                                     \
  "vfma.f32 " B ", s21, " X                \
  "\n"                                     \
  "vfma.f32 " C ", s22, " X                \
  "\n"                                     \
  "vfma.f32 " D ", s23, " X "\n"

TVMRT_NOINLINE void tvmrt_micro_tile_f32_1(float* sums, const float* x, const float* w,
                                           const float* bias, int32_t n) {
  __asm volatile(
      "vldmia %[b], {s0-s3}\n"
      "1:\nsubs %[n], %[n], #4\nblt 2f\n"
      "vldmia %[x]!, {s16-s19}\n"
      "vldmia %[w]!, {s20-s23}\n" TVMRT_MICRO_F32_FMA("s0", "s1", "s2", "s3", "s16")
      "vldmia %[w]!, {s20-s23}\n" TVMRT_MICRO_F32_FMA("s0", "s1", "s2", "s3", "s17")
      "vldmia %[w]!, {s20-s23}\n" TVMRT_MICRO_F32_FMA("s0", "s1", "s2", "s3", "s18")
      "vldmia %[w]!, {s20-s23}\n" TVMRT_MICRO_F32_FMA("s0", "s1", "s2", "s3", "s19")
      "b 1b\n2:\nadds %[n], %[n], #4\nble 4f\n"
      "3:\nvldmia %[x]!, {s16}\n"
      "vldmia %[w]!, {s20-s23}\n" TVMRT_MICRO_F32_FMA("s0", "s1", "s2", "s3", "s16")
      "subs %[n], %[n], #1\nbgt 3b\n4:\n"
      "vstmia %[s], {s0-s3}\n"
      : [x] "+r"(x), [w] "+r"(w), [n] "+r"(n)
      : [b] "r"(bias), [s] "r"(sums)
      : "s0", "s1", "s2", "s3", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "cc",
        "memory");
}

TVMRT_NOINLINE void tvmrt_micro_tile_f32_4(float* sums, const float* x, const float* w,
                                           const float* bias, int32_t n) {
  __asm volatile(
      "vldmia %[b], {s0-s3}\nvldmia %[b], {s4-s7}\n"
      "vldmia %[b], {s8-s11}\nvldmia %[b], {s12-s15}\n"
      "1:\nvldmia %[x]!, {s16-s19}\nvldmia %[w]!, {s20-s23}\n"
      TVMRT_MICRO_F32_FMA("s0", "s1", "s2", "s3", "s16")
      TVMRT_MICRO_F32_FMA("s4", "s5", "s6", "s7", "s17")
      TVMRT_MICRO_F32_FMA("s8", "s9", "s10", "s11", "s18")
      TVMRT_MICRO_F32_FMA("s12", "s13", "s14", "s15", "s19")
      "subs %[n], %[n], #1\nbgt 1b\n"
      "vstmia %[s], {s0-s3}\nadd %[s], %[s], #64\nvstmia %[s], {s4-s7}\nadd %[s], %[s], #64\n"
      "vstmia %[s], {s8-s11}\nadd %[s], %[s], #64\nvstmia %[s], {s12-s15}\n"
      : [x] "+r"(x), [w] "+r"(w), [n] "+r"(n), [s] "+r"(sums)
      : [b] "r"(bias)
      : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13",
        "s14", "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "cc", "memory");
}

#else

TVMRT_NOINLINE void tvmrt_micro_tile_f32_1(float* sums, const float* x, const float* w,
                                           const float* bias, int32_t n) {
  memcpy(sums, bias, 4 * sizeof(*sums));
  for (; n > 0; n--, x++, w += 4) {
    for (int c = 0; c < 4; c++) sums[c] = TVMRT_FMAF(x[0], w[c], sums[c]);
  }
}

TVMRT_NOINLINE void tvmrt_micro_tile_f32_4(float* sums, const float* x, const float* w,
                                           const float* bias, int32_t n) {
  for (int p = 0; p < 4; p++, x++, sums += TVMRT_MICRO_F32_CHUNK) {
    memcpy(sums, bias, 4 * sizeof(*sums));
    for (int32_t i = 0; i < n; i++) {
      for (int c = 0; c < 4; c++) sums[c] = TVMRT_FMAF(x[4 * i], w[4 * i + c], sums[c]);
    }
  }
}

#endif

/*! \brief Clamp v to [lo, hi]; NaN stays. */
TVMRT_INLINE float tvmrt_micro_clamp(float v, float lo, float hi) {
  v = v < lo ? lo : v;
  return v > hi ? hi : v;
}

/*! \brief ReLU of v, by the bits of the floats. */
TVMRT_INLINE void tvmrt_micro_relu(float* y, const float* v, int32_t n) {
  for (; n > 0; n--) {
    int32_t bits;
    memcpy(&bits, v++, sizeof(bits));
    bits &= ~(bits >> 31);
    memcpy(y++, &bits, sizeof(bits));
  }
}

/*! \brief Finish the sums of some channels of a pixel: residual, clamping, store, epilogue. */
TVMRT_NOINLINE void tvmrt_micro_finish_f32(const tvmrt_micro_conv_f32* c,
                                           const tvmrt_micro_data_f32* data, float* sums,
                                           int32_t pixel, int32_t channel, int32_t channels) {
  float* const y = data->y + pixel * c->shape.y_stride + channel;
  if (data->residual != NULL) {
    const float* const other = data->residual + pixel * c->residual_stride + channel;
    for (int32_t i = 0; i < channels; i++) sums[i] += other[i];
  }
#if TVMRT_MICRO_F32_MVE
  if (channels % 4 == 0) {
    for (int32_t i = 0; i < channels; i += 4) {
      float32x4_t v = vldrwq_f32(sums + i);
      /* not vcmpltq, which is true for NaN */
      v = vpselq_f32(vdupq_n_f32(c->lo), v, vcmpgtq_f32(vdupq_n_f32(c->lo), v));
      vstrwq_f32(y + i, vpselq_f32(vdupq_n_f32(c->hi), v, vcmpgtq_n_f32(v, c->hi)));
    }
  } else
#endif
      if (c->lo == 0.0f && c->hi == INFINITY) {
    tvmrt_micro_relu(y, sums, channels);
  } else {
    for (int32_t i = 0; i < channels; i++) y[i] = tvmrt_micro_clamp(sums[i], c->lo, c->hi);
  }
  if (data->epilogue != NULL) data->epilogue(y, pixel, 1, channel, channels, data->ctx);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_COMMON_F32_H_ */
