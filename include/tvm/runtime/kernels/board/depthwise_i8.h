/*!
 * \file board/depthwise_i8.h
 * \brief Depthwise 2-D convolution of 8-bit tensors on microcontrollers, for kernels of any shape.
 *
 * The line buffer (board/line_buffer.h) holds rows as quads of four channels (board/common_i8.h):
 * [quad of channels][row of the buffer][column][4].
 *
 * Packed weights: int16 [quad of channels][kernel row][kernel column][4] in the order of quads.
 * bias and scales: per channel, to a whole quad.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_H_

#include "copy_quad.h"

/*! \brief Copy an input row into the line buffer; a slot is a row. */
TVMRT_NOINLINE void tvmrt_micro_copy_row(const void* layer, int32_t image, int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_conv_i8* const c = d->conv;
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_line_buffer* const line_buffer = &s->layout.line_buffer;
  const uint8_t zero = (uint8_t)c->x_zero, padding[8] = {zero, zero, zero, zero};
  const tvmrt_micro_quad_layout at = {4, 2, 1};
  tvmrt_micro_source from = tvmrt_micro_find_source(d, image, slot, padding, 4);
  int16_t* to =
      (int16_t*)d->line_buffer + (tvmrt_micro_line_offset(s, slot) + tvmrt_micro_padding(s)) * 4;
  for (int32_t channel = 0; channel < s->in_c;
       channel += 4, from.x += from.channels, to += 4 * line_buffer->plane) {
    tvmrt_micro_copy_quad(c, to, at, from, line_buffer->inside, s->in_c - channel);
  }
}

/*! \brief Store the sums of a quad in the channels' order. */
TVMRT_INLINE void tvmrt_micro_store_quad(int32_t* sums, const int32_t acc[4]) {
  sums[0] = acc[0];
  sums[1] = acc[2];
  sums[2] = acc[1];
  sums[3] = acc[3];
}

/*! \brief Accumulate n columns of a quad, `step` elements apart, in the quad's order. */
TVMRT_INLINE void tvmrt_micro_accumulate_quad(int32_t acc[4], const int16_t* x, int32_t step,
                                              const int16_t* w, int32_t n) {
  int32_t a = acc[0], b = acc[1], c = acc[2], d = acc[3];
#if TVMRT_MICRO_CAN_DSP && TVMRT_MICRO_ASM
  uint32_t x0, x1, w0, w1;
  __asm volatile(
      "1:\nldr %[x1], [%[x], #4]\nldr %[w1], [%[w], #4]\nldr %[x0], [%[x]]\n"
      "ldr %[w0], [%[w]], #8\nadd %[x], %[x], %[step]\nsmlabb %[a], %[x0], %[w0], %[a]\n"
      "smlatt %[b], %[x0], %[w0], %[b]\nsmlabb %[c], %[x1], %[w1], %[c]\n"
      "smlatt %[d], %[x1], %[w1], %[d]\nsubs %[n], %[n], #1\nbgt 1b\n"
      : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [x] "+r"(x), [w] "+r"(w), [n] "+r"(n),
        [x0] "=&r"(x0), [x1] "=&r"(x1), [w0] "=&r"(w0), [w1] "=&r"(w1)
      : [step] "r"(2 * step)
      : "cc", "memory");
#else
  for (; n > 0; n--, x += step, w += 4) {
    TVMRT_WRAP_ADD_TO(a, x[0] * w[0]);
    TVMRT_WRAP_ADD_TO(b, x[1] * w[1]);
    TVMRT_WRAP_ADD_TO(c, x[2] * w[2]);
    TVMRT_WRAP_ADD_TO(d, x[3] * w[3]);
  }
#endif
  acc[0] = a;
  acc[1] = b;
  acc[2] = c;
  acc[3] = d;
}

/*! \brief Some quads of channels of some neighbouring pixels of an output row. */
typedef struct tvmrt_micro_block {
  const int16_t* row[TVMRT_MICRO_MAX_ROWS]; /* of the kernel, in the line buffer */
  int32_t* sums;                            /* [pixel][stride] */
  const int16_t* w;                         /* of the first channel */
  const int32_t* bias;                      /* of the first channel */
  int32_t at;                               /* elements from row start to the first pixel */
  int32_t pixels, channels, stride;
} tvmrt_micro_block;

/*! \brief Accumulate a block. */
TVMRT_NOINLINE void tvmrt_micro_depthwise_block(const tvmrt_micro_shape* s,
                                                const tvmrt_micro_block* b) {
  for (int32_t p = 0; p < b->pixels; p++) {
    const int16_t* w = b->w;
    int32_t at = b->at + p * s->stride[1] * 4;
    for (int32_t channel = 0; channel < b->channels;
         channel += 4, at += 4 * s->layout.line_buffer.plane) {
      const int32_t* const bias = b->bias + channel;
      int32_t acc[4] = {bias[0], bias[2], bias[1], bias[3]};
      for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
        const int32_t columns = s->kernel[1], step = (int32_t)s->dilation[1] * 4;
        tvmrt_micro_accumulate_quad(acc, b->row[kh] + at, step, w, columns);
        w += 4 * columns;
      }
      tvmrt_micro_store_quad(b->sums + p * b->stride + channel, acc);
    }
  }
}

/*! \brief Compute an output row, one per step. */
static inline void tvmrt_micro_depthwise_row(const void* layer, int32_t row, int32_t rows,
                                             int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int32_t taps = (int32_t)s->kernel[0] * s->kernel[1], whole = (s->out_c + 3) / 4 * 4;
  int32_t sums[TVMRT_MICRO_ACCUMULATORS];
  tvmrt_micro_block b;
  (void)rows;
  for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
    b.row[kh] =
        (int16_t*)d->line_buffer + tvmrt_micro_line_offset(s, slot + kh * s->dilation[0]) * 4;
  }
  b.sums = sums;
  b.stride = whole < TVMRT_MICRO_CHUNK ? whole : TVMRT_MICRO_CHUNK;
  for (int32_t first = 0; first < s->out[1]; first += b.pixels) {
    const int32_t pixel = row * s->out[1] + first,
                  whole_tiles = TVMRT_MICRO_ACCUMULATORS / b.stride;
    b.pixels = s->out[1] - first < whole_tiles ? s->out[1] - first : whole_tiles;
    for (int32_t channel = 0; channel < s->out_c; channel += TVMRT_MICRO_CHUNK) {
      const int32_t left = s->out_c - channel;
      b.channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
      b.w = (const int16_t*)d->data->weights + channel * taps;
      b.bias = d->data->bias + channel;
      b.at = channel * s->layout.line_buffer.plane + first * s->stride[1] * 4;
      tvmrt_micro_depthwise_block(s, &b);
      tvmrt_micro_finish(d->conv, d->data, sums, b.stride, pixel, b.pixels, channel, b.channels);
    }
  }
}

/*! \brief Return the tile of this kernel; in_c is out_c. */
TVMRT_INLINE tvmrt_micro_tile tvmrt_micro_depthwise_tile(const tvmrt_micro_conv_i8* c) {
  const tvmrt_micro_tile tile = {{tvmrt_micro_copy_row, tvmrt_micro_depthwise_row,
                                  c->shape.layout.line_buffer.slots, c->shape.stride[0], 1},
                                 1,
                                 0,
                                 (uint16_t)c->x_zero * 0x00010001u};
  return tile;
}

TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_i8, tvmrt_micro_depthwise_tile(c))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_H_ */
