/*!
 * \file board/depthwise_i8_8x8_mve.h
 * \brief Depthwise convolution of 8-bit tensors with Helium (Cortex-M55, M85), kernels of up to 8
 * rows and 8 columns, any stride.
 *
 * The line buffer (board/line_buffer.h) holds eight rows as int8: [channel][column][8 rows]. 16
 * neighbouring bytes are two columns of a channel. VMLADAVA accumulates their part of a window,
 * with zero weights for rows outside it; a window takes three or four such instructions. Rows
 * rotate through the line buffer, so weights are loaded rotated. The accumulators of eight channels
 * are in scratch, before the line buffer: [column][8].
 *
 * uint8 activations are shifted by 128 while they are copied; the folded bias compensates.
 *
 * Packed weights: int8 [channel][6 or 8 columns][8 rows], zero-padded. Channels are a multiple of
 * four.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_8X8_MVE_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_8X8_MVE_H_

#include "partial_rows.h"
#include "requantize_i8_4ch_mve.h"

/*! \brief Rows in the line buffer. */
#define TVMRT_MICRO_MVE_ROWS 8

/*! \brief Copy an input row into its slot of the line buffer, between columns of padding. */
TVMRT_NOINLINE void tvmrt_micro_mve_wide_copy(const void* layer, int32_t image, int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int32_t plane = s->layout.line_buffer.plane;
  const uint8_t flip = d->conv->x_signed ? 0 : 0x80;
  uint8_t padding[8];
  memset(padding, d->conv->x_zero, sizeof(padding));
  const tvmrt_micro_source from = tvmrt_micro_find_source(d, image, slot, padding, 8);
  const uint8_t* x = from.x;
  uint8_t* to =
      (uint8_t*)d->line_buffer + (tvmrt_micro_padding(s) * 8 + slot % TVMRT_MICRO_MVE_ROWS);
#if TVMRT_MICRO_CAN_MVE
  const uint16x8_t offsets = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)plane);
  const uint16x8_t flips = vdupq_n_u16(flip);
#endif
  for (int32_t n = s->layout.line_buffer.inside; n > 0; n--, to += 8, x += from.pixel) {
    const uint8_t* in = x;
    uint8_t* out = to;
    for (int32_t left = s->in_c; left > 0; left -= 8, in += from.channels, out += 8 * plane) {
#if TVMRT_MICRO_CAN_MVE
      const mve_pred16_t mask = vctp16q((uint32_t)left);
      const uint16x8_t eight = veorq_u16(vldrbq_z_u16(in, mask), flips);
      vstrbq_scatter_offset_p_u16(out, offsets, eight, mask);
#else
      for (int32_t i = 0; i < 8 && i < left; i++) out[i * plane] = in[i] ^ flip;
#endif
    }
  }
}

/*!
 * \brief Accumulate an output row of one channel, without the bias.
 *
 * \param sums    [out] Of the channel, of the first column.
 * \param x       [in] The channel in the line buffer.
 * \param w       [in] Its packed weights.
 * \param rotation    [in] Index of a window's first row in the line buffer.
 * \param vectors [in] Of a window, 3 or 4.
 */
TVMRT_INLINE void tvmrt_micro_mve_wide_one(const tvmrt_micro_shape* s, int32_t* sums,
                                           const int8_t* x, const int8_t* w, int32_t rotation,
                                           int vectors) {
  const int32_t step = 8 * s->stride[1];
#if TVMRT_MICRO_CAN_MVE
  const uint8x16_t lanes = vidupq_n_u8(0, 1), sixteen = vdupq_n_u8(8), rows = vdupq_n_u8(7);
  const uint8x16_t turned = vandq_u8(vsubq_n_u8(lanes, (uint8_t)rotation), rows);
  const uint8x16_t offsets = vorrq_u8(vandq_u8(lanes, sixteen), turned);
  const int8x16_t w0 = vldrbq_gather_offset_s8(w, offsets);
  const int8x16_t w1 = vldrbq_gather_offset_s8(w + 16, offsets);
  const int8x16_t w2 = vldrbq_gather_offset_s8(w + 32, offsets);
  const int8x16_t w3 = vldrbq_gather_offset_s8(w + 16 * (vectors - 1), offsets);
  for (int32_t n = s->out[1]; n > 0; n--, x += step, sums += 8) {
    int32_t sum = vmladavq_s8(vldrbq_s8(x), w0);
    sum = vmladavaq_s8(sum, vldrbq_s8(x + 16), w1);
    sum = vmladavaq_s8(sum, vldrbq_s8(x + 32), w2);
    if (vectors == 4) sum = vmladavaq_s8(sum, vldrbq_s8(x + 48), w3);
    *sums = sum;
  }
#else
  for (int32_t n = s->out[1]; n > 0; n--, x += step, sums += 8) {
    int32_t sum = 0;
    for (int32_t i = 0; i < 16 * vectors; i++) sum += x[i / 8 * 8 + (i + rotation) % 8] * w[i];
    *sums = sum;
  }
#endif
}

/*! \brief Accumulate an output row of eight channels, or fewer. */
TVMRT_INLINE void tvmrt_micro_mve_wide_eight(const tvmrt_micro_layer* d, int32_t channel,
                                             int32_t channels, int32_t rotation, int vectors) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int8_t* x = (const int8_t*)d->line_buffer + channel * s->layout.line_buffer.plane;
  const int8_t* w = (const int8_t*)d->data->weights + channel * 16 * vectors;
  for (int32_t i = 0; i < channels; i++, x += s->layout.line_buffer.plane, w += 16 * vectors) {
    tvmrt_micro_mve_wide_one(s, d->sums + i, x, w, rotation, vectors);
  }
}

/* tvmrt_micro_mve_wide_row_COLUMNS(): computes one row per step. Each number of vectors has its own
 * function, so that unused ones are not linked. */
#define TVMRT_MICRO_MVE_WIDE_ROWS(COLUMNS)                                               \
  TVMRT_NOINLINE void tvmrt_micro_mve_wide_eight_##COLUMNS(                              \
      const tvmrt_micro_layer* d, int32_t channel, int32_t channels, int32_t rotation) { \
    tvmrt_micro_mve_wide_eight(d, channel, channels, rotation, (COLUMNS) / 2);           \
  }                                                                                      \
  static inline void tvmrt_micro_mve_wide_row_##COLUMNS(const void* layer, int32_t row,  \
                                                        int32_t rows, int32_t slot) {    \
    const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;                  \
    const int32_t rotation = slot % TVMRT_MICRO_MVE_ROWS, out_c = d->conv->shape.out_c;  \
    (void)rows;                                                                          \
    for (int32_t channel = 0; channel < out_c; channel += 8) {                           \
      const int32_t left = out_c - channel, channels = left < 8 ? left : 8;              \
      tvmrt_micro_mve_wide_eight_##COLUMNS(d, channel, channels, rotation);              \
      for (int32_t i = 0; i < channels; i += 4) {                                        \
        tvmrt_micro_mve_finish(d->conv, d->data, d->sums + i, row, 1, channel + i);      \
      }                                                                                  \
    }                                                                                    \
  }
TVMRT_MICRO_MVE_WIDE_ROWS(6)
TVMRT_MICRO_MVE_WIDE_ROWS(8)

/*! \brief Return the kernel's tile; in_c is out_c, at most 8 kernel rows, no dilation. */
TVMRT_INLINE tvmrt_micro_tile tvmrt_micro_mve_wide_tile(const tvmrt_micro_conv_i8* c, int vectors) {
  const tvmrt_micro_tile tile = {
      {tvmrt_micro_mve_wide_copy,
       vectors == 3 ? tvmrt_micro_mve_wide_row_6 : tvmrt_micro_mve_wide_row_8, c->shape.kernel[0],
       c->shape.stride[0], 1},
      1,
      32 * c->shape.out[1],
      tvmrt_micro_int8_padding(c) * 0x01010101u};
  return tile;
}

/* kernels of up to 6 columns, and of up to 8 */
TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_6_mve_i8, tvmrt_micro_mve_wide_tile(c, 3))
TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_8_mve_i8, tvmrt_micro_mve_wide_tile(c, 4))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_8X8_MVE_H_ */
