/*!
 * \file board/depthwise_i8_3x3_mve.h
 * \brief Depthwise 3 x 3 convolution of 8-bit tensors with Helium (Cortex-M55, M85), stride 1 or 2.
 *
 * The line buffer (board/line_buffer.h) holds two pairs of rows as int8: [channel][column][4 rows]. 16
 * neighbouring bytes are four columns of a channel. One VMLADAVA instruction multiplies and
 * accumulates the window of an output, with zero weights for columns and rows outside the window.
 * With stride 1 the same 16 bytes serve two output columns of two output rows, with stride 2 one. A
 * step uses the previous step's pair and a new one. The accumulators of four channels are in
 * scratch, before the line buffer: [column, to an even number][2 output rows][4].
 *
 * uint8 activations are shifted by 128 while they are copied; the folded bias compensates.
 *
 * Packed weights: int8 [channel][16], then four zeros: four zeros, then three columns of three rows
 * and a zero each. Weights, bias and scales: per channel, to a multiple of four channels.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_MVE_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_MVE_H_

#include "partial_rows.h"
#include "requantize_i8_4ch_mve.h"

/*! \brief Copy all channels of n columns of two rows into the line buffer. */
TVMRT_NOINLINE void tvmrt_micro_mve_3x3_copy(const tvmrt_micro_layer* d, uint8_t* to,
                                             tvmrt_micro_source above, tvmrt_micro_source below,
                                             int32_t n) {
  const uint8_t flip = d->conv->x_signed ? 0 : 0x80;
  const int32_t plane = d->conv->shape.layout.line_buffer.plane;
#if TVMRT_MICRO_CAN_MVE
  const uint16x8_t offsets = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)(plane / 2));
  const uint16x8_t flips = vdupq_n_u16((uint16_t)(flip * 0x101));
#endif
  for (; n > 0; n--, to += 4, above.x += above.pixel, below.x += below.pixel) {
    const uint8_t *first = above.x, *second = below.x;
    uint8_t* at = to;
    int32_t left = d->conv->shape.in_c;
#if TVMRT_MICRO_CAN_MVE && TVMRT_MICRO_ASM
    __asm volatile(
        "1:\nvctp.16 %[left]\nvpstt\nvldrbt.u16 q0, [%[first]]\nvldrbt.u16 q1, [%[second]]\n"
        "vsli.16 q0, q1, #8\nveor q0, q0, %q[flips]\nvpst\n"
        "vstrht.16 q0, [%[at], %q[offsets], uxtw #1]\nadd %[first], %[first], %[above]\n"
        "add %[second], %[second], %[below]\nadd %[at], %[at], %[planes]\n"
        "subs %[left], %[left], #8\nbgt 1b\n"
        : [left] "+r"(left), [first] "+l"(first), [second] "+l"(second), [at] "+r"(at)
        : [above] "r"(above.channels), [below] "r"(below.channels), [planes] "r"(8 * plane),
          [offsets] "w"(offsets), [flips] "w"(flips)
        : "q0", "q1", "cc", "memory" TVMRT_MICRO_CHANGES_P0);
#else
    for (; left > 0; left -= 8, at += 8 * plane) {
#if TVMRT_MICRO_CAN_MVE
      const mve_pred16_t mask = vctp16q((uint32_t)left);
      const uint16x8_t low = vldrbq_z_u16(first, mask), high = vldrbq_z_u16(second, mask);
      const uint16x8_t pair = veorq_u16(vsliq_n_u16(low, high, 8), flips);
      vstrhq_scatter_shifted_offset_p_u16((uint16_t*)(void*)at, offsets, pair, mask);
#else
      for (int32_t i = 0; i < 8 && i < left; i++) {
        at[i * plane] = first[i] ^ flip;
        at[i * plane + 1] = second[i] ^ flip;
      }
#endif
      first += above.channels;
      second += below.channels;
    }
#endif
  }
}

/*! \brief Copy a pair of input rows into the line buffer, between columns of padding. */
TVMRT_NOINLINE void tvmrt_micro_mve_3x3_copy_pair(const void* layer, int32_t image, int32_t pair) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  uint8_t padding[8];
  memset(padding, d->conv->x_zero, sizeof(padding));
  const tvmrt_micro_source above = tvmrt_micro_find_source(d, image, 2 * pair, padding, 8);
  const tvmrt_micro_source below = tvmrt_micro_find_source(d, image, 2 * pair + 1, padding, 8);
  uint8_t* const to = (uint8_t*)d->line_buffer + tvmrt_micro_padding(s) * 4 + pair % 2 * 2;
  tvmrt_micro_mve_3x3_copy(d, to, above, below, s->layout.line_buffer.inside);
}

#if TVMRT_MICRO_CAN_MVE && TVMRT_MICRO_ASM
/* Two columns of two output rows, and one column of one. */
#define TVMRT_MICRO_MVE_3X3_FOUR                                         \
  "1:\nvldrb.8 q0, [%[x]], #8\n"                                         \
  "vmladav.s8 %[t], q0, %q[a0]\nvmladav.s8 %[u], q0, %q[b0]\n"           \
  "str %[t], [%[s]]\nstr %[u], [%[s], #16]\n"                            \
  "vmladav.s8 %[t], q0, %q[a1]\nvmladav.s8 %[u], q0, %q[b1]\n"           \
  "str %[t], [%[s], #32]\nstr %[u], [%[s], #48]\nadds %[s], %[s], #64\n" \
  "cmp %[x], %[end]\nblo 1b\n"
#define TVMRT_MICRO_MVE_3X3_ONE                                                 \
  "1:\nvldrb.8 q0, [%[x]], #8\nvmladav.s8 %[t], q0, %q[a0]\ncmp %[x], %[end]\n" \
  "str %[t], [%[s]], #32\nblo 1b\n"
#endif

/*!
 * \brief Accumulate one channel of a step's output rows, without the bias.
 *
 * \param sums  [out] Of the channel, of the first column.
 * \param x     [in] The channel in the line buffer.
 * \param w     [in] Its packed weights.
 * \param rotation  [in] Index of a window's first row among the four rows in the line buffer: 0 or 2.
 */
TVMRT_INLINE void tvmrt_micro_mve_3x3_one(const tvmrt_micro_shape* s, int32_t* sums,
                                          const int8_t* x, const int8_t* w, int32_t rotation) {
  const int8_t* const end = x + s->layout.line_buffer.plane - 8;
#if TVMRT_MICRO_CAN_MVE
  uint32x4_t a0 = vreinterpretq_u32_s8(vldrbq_s8(w + 4)), a1 = vreinterpretq_u32_s8(vldrbq_s8(w));
  uint32x4_t b0 = vshlq_n_u32(a0, 8), b1 = vshlq_n_u32(a1, 8);
  if (rotation != 0) {
    a0 = vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(a0)));
    a1 = vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(a1)));
    b0 = vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(b0)));
    b1 = vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(b1)));
  }
#if TVMRT_MICRO_ASM
  int32_t t, u;
  if (s->stride[0] == 2) {
    __asm volatile(TVMRT_MICRO_MVE_3X3_ONE
                   : [x] "+r"(x), [s] "+r"(sums), [t] "=&Te"(t)
                   : [end] "r"(end), [a0] "w"(a0)
                   : "q0", "cc", "memory");
  } else {
    __asm volatile(TVMRT_MICRO_MVE_3X3_FOUR
                   : [x] "+r"(x), [s] "+r"(sums), [t] "=&Te"(t), [u] "=&Te"(u)
                   : [end] "r"(end), [a0] "w"(a0), [b0] "w"(b0), [a1] "w"(a1), [b1] "w"(b1)
                   : "q0", "cc", "memory");
  }
#else
  if (s->stride[0] == 2) {
    for (; x < end; x += 8, sums += 8) {
      sums[0] = vmladavq_s8(vldrbq_s8(x), vreinterpretq_s8_u32(a0));
    }
    return;
  }
  for (; x < end; x += 8, sums += 16) {
    const int8x16_t v = vldrbq_s8(x);
    sums[0] = vmladavq_s8(v, vreinterpretq_s8_u32(a0));
    sums[4] = vmladavq_s8(v, vreinterpretq_s8_u32(b0));
    sums[8] = vmladavq_s8(v, vreinterpretq_s8_u32(a1));
    sums[12] = vmladavq_s8(v, vreinterpretq_s8_u32(b1));
  }
#endif
#else
  for (; x < end; x += 4 * s->stride[1], sums += 8) {
    int32_t a = 0, b = 0;
    for (int i = 0; i < 12; i++) {
      a += x[i / 4 * 4 + (i + rotation) % 4] * w[4 + i];
      b += x[i / 4 * 4 + (i + rotation + 1) % 4] * w[4 + i];
    }
    sums[0] = a;
    sums[4] = b;
  }
#endif
}

/*! \brief Accumulate four channels of a step's rows, without their biases. */
TVMRT_NOINLINE void tvmrt_micro_mve_3x3_quad(const tvmrt_micro_layer* d, int32_t channel,
                                             int32_t rotation) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int8_t* x = (const int8_t*)d->line_buffer + channel * s->layout.line_buffer.plane;
  const int8_t* w = (const int8_t*)d->data->weights + channel * 16;
  for (int32_t i = 0; i < 4; i++, x += s->layout.line_buffer.plane, w += 16) {
    tvmrt_micro_mve_3x3_one(s, d->sums + i, x, w, rotation);
  }
}

/*! \brief Compute the output rows of a step; a slot is a pair. */
static inline void tvmrt_micro_mve_3x3_step(const void* layer, int32_t top, int32_t rows,
                                            int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  for (int32_t channel = 0; channel < d->conv->shape.out_c; channel += 4) {
    tvmrt_micro_mve_3x3_quad(d, channel, slot % 2 * 2);
    tvmrt_micro_mve_finish(d->conv, d->data, d->sums, top, rows, channel);
  }
}

/*! \brief Return the kernel's tile; in_c is out_c, dilation is 1, strides are both 1 or 2. */
TVMRT_INLINE tvmrt_micro_tile tvmrt_micro_mve_3x3_tile(const tvmrt_micro_conv_i8* c) {
  const tvmrt_micro_tile tile = {
      {tvmrt_micro_mve_3x3_copy_pair, tvmrt_micro_mve_3x3_step, 2, 1, 3 - c->shape.stride[0]},
      2,
      (c->shape.out[1] + 1) / 2 * 64,
      tvmrt_micro_int8_padding(c) * 0x01010101u};
  return tile;
}

TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_3x3_mve_i8, tvmrt_micro_mve_3x3_tile(c))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_3X3_MVE_H_ */
