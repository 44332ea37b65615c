/*!
 * \file board/conv_mve_i8.h
 * \brief Dense layers of 8-bit tensors by Helium (Cortex-M55, M85), 16 products at a time.
 *
 * Helium multiplies bytes as they are, int8 by int8; uint8 activations are moved by 128 while they
 * are copied, which the folded bias undoes. Packed weights: [pair of output channels][16 elements of
 * the window][channel of the pair][byte]. Values, errors and threads: board/conv_walk_i8.h.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_MVE_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_MVE_I8_H_

#include "i8.h"

#define TVMRT_MICRO_GROUP 16
#define TVMRT_MICRO_UNIT 16
typedef int8_t tvmrt_micro_element;

TVMRT_INLINE tvmrt_micro_element* tvmrt_micro_place_groups(tvmrt_micro_element* to, int32_t step,
                                                           const uint8_t* from, int32_t n,
                                                           int is_signed) {
  const uint8_t flip = is_signed ? 0 : 0x80;
  for (int32_t g = n / TVMRT_MICRO_GROUP; g > 0; g--, from += 16, to += step) {
#if TVMRT_MICRO_CAN_MVE
    vstrbq_u8((uint8_t*)to, veorq_u8(vldrbq_u8(from), vdupq_n_u8(flip)));
#else
    for (int i = 0; i < 16; i++) to[i] = (int8_t)(from[i] ^ flip);
#endif
  }
  return to;
}

TVMRT_INLINE int tvmrt_micro_none(int is_signed) { return is_signed ? 0 : 0x80; }

/*! \brief The sums of pairs of channels of one output pixel, and of two neighbouring ones. */
#if TVMRT_MICRO_CAN_MVE
TVMRT_NOINLINE void tvmrt_micro_mve_1(int32_t* sums, const int32_t* bias, const int8_t* window,
                                      const int8_t* weights, int32_t n, int32_t channels) {
  const int32_t* const end = sums + channels;
  do {
    const int8_t* x = window;
    int32_t a0 = *bias++, a1 = *bias++;
    for (int32_t left = n; left > 0; left -= 16, x += 16, weights += 32) {
      const int8x16_t a = vldrbq_s8(x);
      a0 = vmladavaq_s8(a0, a, vldrbq_s8(weights));
      a1 = vmladavaq_s8(a1, a, vldrbq_s8(weights + 16));
    }
    *sums++ = a0;
    *sums++ = a1;
  } while (sums < end);
}

TVMRT_NOINLINE void tvmrt_micro_mve_2(int32_t* sums, const int32_t* bias, const int8_t* window,
                                      const int8_t* weights, int32_t n, int32_t channels) {
  const int32_t* const end = sums + channels;
  do {
    const int8_t* x = window;
    int32_t a0 = bias[0], a1 = bias[1], b0 = a0, b1 = a1;
    for (int32_t left = n; left > 0; left -= 16, x += 32, weights += 32) {
      const int8x16_t a = vldrbq_s8(x), b = vldrbq_s8(x + 16);
      const int8x16_t w0 = vldrbq_s8(weights), w1 = vldrbq_s8(weights + 16);
      a0 = vmladavaq_s8(a0, a, w0);
      a1 = vmladavaq_s8(a1, a, w1);
      b0 = vmladavaq_s8(b0, b, w0);
      b1 = vmladavaq_s8(b1, b, w1);
    }
    sums[0] = a0;
    sums[1] = a1;
    sums[TVMRT_MICRO_CHUNK] = b0;
    sums[TVMRT_MICRO_CHUNK + 1] = b1;
    bias += 2;
    sums += 2;
  } while (sums < end);
}
#endif

TVMRT_INLINE void tvmrt_micro_conv_sums(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                        int32_t* sums, const tvmrt_micro_element* window,
                                        int32_t pixels, int32_t channel, int32_t channels,
                                        int tile) {
  const int32_t n = c->shape.kept.windows.length;
  const int8_t* const weights = (const int8_t*)data->weights + channel * n;
  const int32_t* const bias = data->bias + channel;
  (void)tile;
#if TVMRT_MICRO_CAN_MVE
  if (pixels == 2) {
    tvmrt_micro_mve_2(sums, bias, window, weights, n, channels);
  } else {
    tvmrt_micro_mve_1(sums, bias, window, weights, n, channels);
  }
#else
  for (int32_t p = 0; p < pixels; p++, sums += TVMRT_MICRO_CHUNK) {
    for (int32_t i = 0; i < channels; i++) {
      const int8_t *w = weights + i / 2 * 2 * n + i % 2 * 16, *x = window + p * 16;
      sums[i] = bias[i];
      for (int32_t k = 0; k < n; k++)
        sums[i] += x[k / 16 * pixels * 16 + k % 16] * w[k / 16 * 32 + k % 16];
    }
  }
#endif
}

#include "conv_walk_i8.h"

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_MVE_I8_H_ */
