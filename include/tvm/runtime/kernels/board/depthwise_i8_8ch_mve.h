/*!
 * \file board/depthwise_i8_8ch_mve.h
 * \brief Depthwise convolution of 8-bit tensors with Helium (Cortex-M55, M85), kernels of any
 * shape.
 *
 * Vectors hold eight channels of a pixel, so kernels of one row or one column, dilated and long
 * ones cost the same per multiply-add. The line buffer (board/line_buffer.h) holds rows as int8:
 * [row of the buffer][column][channel, to a multiple of 8]; `plane` is the bytes of a pixel.
 * Two products of a channel are added as int16, which the compiler of the network has checked.
 * The offsets of the window's elements in the line buffer are in scratch, before it.
 *
 * uint8 activations are shifted by 128 while they are copied; the folded bias compensates.
 *
 * Packed weights: int8 [8 channels][element of the window, to an even number][channel]. Weights and
 * bias: to a multiple of eight channels.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_8CH_MVE_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_8CH_MVE_H_

#include "partial_rows.h"

/*! \brief Copy n bytes of activations as int8 or int16. */
TVMRT_INLINE void tvmrt_micro_mve_copy_int8(uint8_t* to, const uint8_t* from, int32_t step,
                                            int32_t n, uint8_t flip) {
#if TVMRT_MICRO_CAN_MVE
  for (; n > 0; n -= 16, to += 16, from += step) {
    const mve_pred16_t mask = vctp8q((uint32_t)n);
    vstrbq_p_u8(to, veorq_u8(vldrbq_z_u8(from, mask), vdupq_n_u8(flip)), mask);
  }
#else
  for (; n > 0; n -= 16, to += 16, from += step) {
    for (int32_t i = 0; i < 16 && i < n; i++) to[i] = from[i] ^ flip;
  }
#endif
}

/*! \brief Copy an input row into its slot of the line buffer, between columns of padding. */
TVMRT_NOINLINE void tvmrt_micro_mve_copy_row(const void* layer, int32_t image, int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int32_t pixel = s->layout.line_buffer.plane;
  const uint8_t flip = d->conv->x_signed ? 0 : 0x80;
  uint8_t padding[16];
  memset(padding, d->conv->x_zero, sizeof(padding));
  const int32_t size = TVMRT_MICRO_BYTES(d->conv);
  const tvmrt_micro_source from = tvmrt_micro_find_source(d, image, slot, padding, 16 / size);
  const uint8_t* x = from.x;
  uint8_t* to = (uint8_t*)d->line_buffer +
                (tvmrt_micro_line_offset(s, slot) + tvmrt_micro_padding(s)) * pixel;
  int32_t columns = s->layout.line_buffer.inside, n = s->in_c * size;
  if (from.pixel == n && n == pixel) { /* the row is contiguous */
    n *= columns;
    columns = 1;
  }
  for (; columns > 0; columns--, to += pixel, x += from.pixel) {
    tvmrt_micro_mve_copy_int8(to, x, from.channels, n, flip);
  }
}

/*! \brief Some channels of one or two neighbouring pixels of an output row. */
typedef struct tvmrt_micro_mve_block {
  const int8_t* x;     /* of the window's first element, of the first channel */
  int32_t step;        /* bytes from the first to the second pixel's window; 0 for one pixel */
  const int8_t* w;     /* of the first channel */
  const int32_t* taps; /* offsets of the window's elements */
  const int32_t* end;
  int32_t size; /* bytes of an activation */
} tvmrt_micro_mve_block;

#if TVMRT_MICRO_CAN_MVE && TVMRT_MICRO_ASM
/* Accumulate two products of eight channels, whose activations are at t and u. */
#define TVMRT_MICRO_MVE_8CH(EVEN, ODD)                                                     \
  "vldrb.s16 q6, [%[t]]\nvldrb.s16 q7, [%[u]]\nvmul.i16 q6, q6, q4\nvmul.i16 q7, q7, q5\n" \
  "vadd.i16 q6, q6, q7\nvmovlb.s16 q7, q6\nvmovlt.s16 q6, q6\n"                            \
  "vadd.i32 " EVEN                                                                         \
  ", q7\n"                                                                                 \
  "vadd.i32 " ODD ", q6\n"
/* As above, of int16. */
#define TVMRT_MICRO_MVE_I16(X, W, EVEN, ODD)                                                     \
  "vldrh.u16 q6, [%[" X "]]\nvmullb.s16 q7, q6, " W "\nvmullt.s16 q6, q6, " W "\nvadd.i32 " EVEN \
  ", q7\nvadd.i32 " ODD ", q6\n"
#define TVMRT_MICRO_MVE_8CH_I16(EVEN, ODD) \
  TVMRT_MICRO_MVE_I16("t", "q4", EVEN, ODD) TVMRT_MICRO_MVE_I16("u", "q5", EVEN, ODD)
#define TVMRT_MICRO_MVE_BLOCK(PRODUCTS) \
  __asm volatile( \
        "vld20.32 {q0, q1}, [%[bias]]\nvld21.32 {q0, q1}, [%[bias]]\nvmov q2, q0\nvmov q3, q1\n" \
        "1:\nldrd %[t], %[u], [%[taps]], #8\nadd %[t], %[t], %[x]\nadd %[u], %[u], %[x]\n" \
        "vldrb.s16 q4, [%[w]], #8\nvldrb.s16 q5, [%[w]], #8\n" \
        PRODUCTS("q0, q0", "q1, q1") \
        "cbz %[step], 2f\nadd %[t], %[t], %[step]\nadd %[u], %[u], %[step]\n" \
        PRODUCTS("q2, q2", "q3, q3") "2:\ncmp %[taps], %[end]\nblo 1b\n" \
        "vst20.32 {q0, q1}, [%[s]]\nvst21.32 {q0, q1}, [%[s]]\nadd %[t], %[s], %[chunk]\n" \
        "vst20.32 {q2, q3}, [%[t]]\nvst21.32 {q2, q3}, [%[t]]\n" \
        : [t] "=&l"(t), [u] "=&l"(u), [w] "+l"(w), [taps] "+r"(taps) \
        : [bias] "r"(bias), [x] "r"(x), [step] "l"(b->step), [end] "r"(b->end), [s] "r"(sums), \
          [chunk] "i"(4 * TVMRT_MICRO_CHUNK) \
        : "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory")
#endif

/*!
 * \brief Accumulate a block.
 *
 * \param sums  [out] Of two pixels, [pixel][TVMRT_MICRO_CHUNK], to a multiple of eight channels.
 */
TVMRT_NOINLINE void tvmrt_micro_mve_8ch_block(int32_t* sums, const tvmrt_micro_mve_block* b,
                                              const int32_t* bias, int32_t channels) {
  const int8_t *x = b->x, *w = b->w;
  const int32_t size = TVMRT_MICRO_INT16 ? b->size : 1;
  for (; channels > 0; channels -= 8, sums += 8, bias += 8, x += 8 * size) {
    const int32_t* taps = b->taps;
#if TVMRT_MICRO_CAN_MVE && TVMRT_MICRO_ASM
    int32_t t, u;
    if (size == 2) {
      TVMRT_MICRO_MVE_BLOCK(TVMRT_MICRO_MVE_8CH_I16);
    } else {
      TVMRT_MICRO_MVE_BLOCK(TVMRT_MICRO_MVE_8CH);
    }
#else
    int32_t* const second = sums + TVMRT_MICRO_CHUNK;
    const int type = size == 2 ? TVMRT_MICRO_X_INT16 : 1;
    for (int32_t i = 0; i < 8; i++) sums[i] = second[i] = bias[i];
    for (; taps < b->end; taps++, w += 8) {
      const uint8_t *const a = (const uint8_t*)x + *taps, *const c = a + b->step;
      for (int32_t i = 0; i < 8; i++) {
        TVMRT_WRAP_ADD_TO(sums[i], tvmrt_micro_activation(a, i, type) * w[i]);
        TVMRT_WRAP_ADD_TO(second[i], tvmrt_micro_activation(c, i, type) * w[i]);
      }
    }
#endif
  }
}

/*! \brief Write the offsets of a window's elements, to an even number; return their end. */
static inline int32_t* tvmrt_micro_mve_find_taps(const tvmrt_micro_shape* s, int32_t* taps,
                                                 int32_t slot) {
  const int32_t pixel = s->layout.line_buffer.plane;
  int32_t* end = taps;
  for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
    int32_t at = tvmrt_micro_line_offset(s, slot + kh * s->dilation[0]) * pixel;
    for (int32_t kw = 0; kw < s->kernel[1]; kw++, at += s->dilation[1] * pixel) *end++ = at;
  }
  if ((end - taps) % 2 != 0) {
    *end = end[-1];
    end++;
  }
  return end;
}

/*! \brief Compute an output row, one per step. */
static inline void tvmrt_micro_mve_8ch_row(const void* layer, int32_t row, int32_t rows,
                                           int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int32_t step = s->stride[1] * s->layout.line_buffer.plane, width = s->out[1];
  int32_t sums[TVMRT_MICRO_ACCUMULATORS];
  tvmrt_micro_mve_block b;
  (void)rows;
  b.size = TVMRT_MICRO_BYTES(d->conv);
  b.taps = d->sums;
  b.end = tvmrt_micro_mve_find_taps(s, d->sums, slot);
  for (int32_t first = 0; first < width; first += 2) {
    const int32_t pixels = width - first < 2 ? 1 : 2;
    b.step = pixels == 2 ? step : 0;
    for (int32_t channel = 0; channel < s->out_c; channel += TVMRT_MICRO_CHUNK) {
      const int32_t left = s->out_c - channel;
      const int32_t channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
      b.x = (const int8_t*)d->line_buffer + first * step + channel * b.size;
      b.w = (const int8_t*)d->data->weights + channel * (int32_t)(b.end - b.taps);
      tvmrt_micro_mve_8ch_block(sums, &b, d->data->bias + channel, channels);
      tvmrt_micro_finish(d->conv, d->data, sums, TVMRT_MICRO_CHUNK, row * width + first, pixels,
                         channel, channels);
    }
  }
}

/*! \brief Return the kernel's tile; in_c is out_c. */
TVMRT_INLINE tvmrt_micro_tile tvmrt_micro_mve_8ch_tile(const tvmrt_micro_conv_i8* c) {
  const tvmrt_micro_tile tile = {{tvmrt_micro_mve_copy_row, tvmrt_micro_mve_8ch_row,
                                  c->shape.layout.line_buffer.slots, c->shape.stride[0], 1},
                                 1,
                                 (c->shape.kernel[0] * c->shape.kernel[1] + 1) / 2 * 8,
                                 tvmrt_micro_int8_padding(c) * 0x01010101u};
  return tile;
}

TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_8ch_mve_i8, tvmrt_micro_mve_8ch_tile(c))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_8CH_MVE_H_ */
