/*!
 * \file board/depthwise_i8_rvv.h
 * \brief Depthwise 2-D convolution of 8-bit tensors with RISC-V vectors of channels, for kernels of
 * any shape.
 *
 * The line buffer (board/line_buffer.h) holds rows as in the input, but without gaps between
 * pixels: [row of the buffer][column][channel]; `plane` is the size of a row in bytes. uint8
 * activations are shifted by 128 while they are copied; the folded bias compensates. Two pixels
 * share the weights.
 *
 * Packed weights: int16 [kernel row][kernel column][channel].
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_RVV_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_RVV_H_

#include "partial_rows.h"
#include "rvv.h"

/*! \brief Copy an input row into its slot of the line buffer, between columns of padding. */
TVMRT_NOINLINE void tvmrt_micro_rvv_copy_row(const void* layer, int32_t image, int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int32_t at = tvmrt_micro_row_offset(s, image, slot), flip = d->conv->x_signed ? 0 : 0x80;
  uint8_t* to = (uint8_t*)d->line_buffer +
                (tvmrt_micro_line_offset(s, slot) + tvmrt_micro_padding(s)) * s->in_c;
  int32_t pixels = s->layout.line_buffer.inside, bytes = s->in_c;
  if (at < 0) {
    memset(to, tvmrt_micro_int8_padding(d->conv), (size_t)(pixels * bytes));
    return;
  }
  if (s->x_stride == bytes) { /* contiguous */
    bytes *= pixels;
    pixels = pixels > 0;
  }
  for (const uint8_t* x = (const uint8_t*)d->data->x + at; pixels > 0; pixels--) {
    tvmrt_micro_rvv_copy(to, x, bytes, flip);
    to += bytes;
    x += s->x_stride;
  }
}

/*! \brief Some channels of one or two neighbouring pixels of an output row; words at the offsets of
 * the assembly. */
typedef struct tvmrt_micro_rvv_block {
  int32_t channels;    /* 0: of the pixels; the number done per call is written here */
  const int32_t* bias; /* 4: of the first channel */
  int32_t* sums;       /* 8: of the first pixel, and of the second one */
  int32_t* second;     /* 12 */
  int32_t taps;        /* 16: of a kernel row */
  int32_t at;          /* 20: bytes from the start of the rows to the first pixel's window */
  int32_t next;        /* 24: from there to the second pixel's */
  int32_t step;        /* 28: from a tap to the next one */
  int32_t out_c;       /* 32: weights of a tap */
  const int16_t* w;    /* 36: of the first channel */
} tvmrt_micro_rvv_block;

/*! \brief Accumulate as many of a block's channels as vectors hold; return their number. */
TVMRT_NOINLINE int32_t tvmrt_micro_rvv_taps(const tvmrt_micro_rvv_block* b,
                                            const int8_t* const* rows, int32_t n) {
#if TVMRT_MICRO_RVV
  const int8_t* const* const end = rows + n;
  int32_t vl, w, other, x, step, row, taps;
  __asm volatile(TVMRT_MICRO_RVV_ON
                 "lw %[vl], 0(%[b])\nlw %[x], 4(%[b])\nvsetvli %[vl], %[vl], e32, m8, ta, ma\n"
                 "vle32.v v8, (%[x])\nlw %[w], 36(%[b])\nvmv.v.v v16, v8\n"
                 "vsetvli zero, zero, e16, m4, ta, ma\nlw %[step], 28(%[b])\nlw %[row], 32(%[b])\n"
                 "slli %[row], %[row], 1\n"
                 "1:\nlw %[other], 20(%[b])\nlw %[x], 0(%[rows])\nlw %[taps], 16(%[b])\n"
                 "addi %[rows], %[rows], 4\nadd %[x], %[x], %[other]\nlw %[other], 24(%[b])\n"
                 "add %[other], %[other], %[x]\n"
                 "2:\nvle8.v v24, (%[x])\nadd %[x], %[x], %[step]\nvle8.v v26, (%[other])\n"
                 "add %[other], %[other], %[step]\nvle16.v v0, (%[w])\nadd %[w], %[w], %[row]\n"
                 "vsext.vf2 v4, v24\naddi %[taps], %[taps], -1\nvsext.vf2 v28, v26\n"
                 "vwmacc.vv v8, v4, v0\nvwmacc.vv v16, v28, v0\nbnez %[taps], 2b\n"
                 "bne %[rows], %[end], 1b\n"
                 "vsetvli zero, zero, e32, m8, ta, ma\nlw %[x], 12(%[b])\nlw %[w], 8(%[b])\n"
                 "vse32.v v16, (%[x])\nvse32.v v8, (%[w])\n" TVMRT_MICRO_RVV_OFF
                 : [rows] "+r"(rows), [vl] "=&r"(vl), [w] "=&r"(w), [other] "=&r"(other),
                   [x] "=&r"(x), [step] "=&r"(step), [row] "=&r"(row), [taps] "=&r"(taps)
                 : [b] "r"(b), [end] "r"(end)
                 : TVMRT_MICRO_RVV_CHANGES);
  return vl;
#else
  for (int32_t i = 0; i < b->channels; i++) {
    const int16_t* w = b->w + i;
    int32_t first = b->bias[i], second = first;
    for (int32_t kh = 0; kh < n; kh++) {
      const int8_t* x = rows[kh] + b->at + i;
      for (int32_t kw = 0; kw < b->taps; kw++, x += b->step, w += b->out_c) {
        TVMRT_WRAP_ADD_TO(first, x[0] * *w);
        TVMRT_WRAP_ADD_TO(second, x[b->next] * *w);
      }
    }
    b->sums[i] = first;
    b->second[i] = second;
  }
  return b->channels;
#endif
}

/*! \brief All channels of a block. */
TVMRT_INLINE void tvmrt_micro_rvv_accumulate(tvmrt_micro_rvv_block b, const int8_t* const* rows,
                                             int32_t n) {
  while (b.channels > 0) {
    const int32_t vl = tvmrt_micro_rvv_taps(&b, rows, n);
    b.channels -= vl;
    b.bias += vl;
    b.sums += vl;
    b.second += vl;
    b.at += vl;
    b.w += vl;
  }
}

/*! \brief Compute an output row, one per step. */
static inline void tvmrt_micro_rvv_make_row(const void* layer, int32_t row, int32_t rows,
                                            int32_t slot) {
  const tvmrt_micro_layer* const d = (const tvmrt_micro_layer*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int8_t* at[TVMRT_MICRO_MAX_ROWS];
  int32_t sums[TVMRT_MICRO_ACCUMULATORS];
  (void)rows;
  for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
    at[kh] =
        (int8_t*)d->line_buffer + tvmrt_micro_line_offset(s, slot + kh * s->dilation[0]) * s->in_c;
  }
  for (int32_t first = 0; first < s->out[1]; first += 2) {
    const int32_t pixel = row * s->out[1] + first, pixels = s->out[1] - first > 1 ? 2 : 1;
    for (int32_t channel = 0; channel < s->out_c; channel += TVMRT_MICRO_CHUNK) {
      const int32_t left = s->out_c - channel;
      const int32_t channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
      const tvmrt_micro_rvv_block b = {
          channels,
          d->data->bias + channel,
          sums,
          sums + (pixels - 1) * TVMRT_MICRO_CHUNK,
          s->kernel[1],
          first * s->stride[1] * s->in_c + channel,
          (pixels - 1) * s->stride[1] * s->in_c,
          s->dilation[1] * s->in_c,
          s->out_c,
          (const int16_t*)d->data->weights + channel,
      };
      tvmrt_micro_rvv_accumulate(b, at, s->kernel[0]);
      tvmrt_micro_finish(d->conv, d->data, sums, TVMRT_MICRO_CHUNK, pixel, pixels, channel,
                         channels);
    }
  }
}

/*! \brief Return the tile of this kernel; in_c is out_c. */
TVMRT_INLINE tvmrt_micro_tile tvmrt_micro_rvv_tile(const tvmrt_micro_conv_i8* c) {
  const tvmrt_micro_tile tile = {{tvmrt_micro_rvv_copy_row, tvmrt_micro_rvv_make_row,
                                  c->shape.layout.line_buffer.slots, c->shape.stride[0], 1},
                                 1,
                                 0,
                                 tvmrt_micro_int8_padding(c) * 0x01010101u};
  return tile;
}

TVMRT_MICRO_DEPTHWISE_I8(tvmrt_micro_depthwise_rvv_i8, tvmrt_micro_rvv_tile(c))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_RVV_H_ */
