/*!
 * \file board/depthwise_i8.h
 * \brief Depthwise 2-D convolution of 8-bit tensors on microcontrollers, for kernels of any shape.
 *
 * The input rows that an output row needs are kept in scratch as quads of four channels
 * (board/i8.h), padding included: [row of the ring][quad of channels][column][4]. A row is copied
 * before the output row that may lie in its place is written: y may be x where stride is 1, both
 * have the same extents, and the rows in the ring reach as far as the output row.
 *
 * Packed weights: int16 [quad of channels][kernel row][kernel column][4] in the order of quads.
 * bias and factors: per channel, to a whole quad.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_H_

#include "i8.h"

/*! \brief Most rows of a kernel. */
#define TVMRT_MICRO_MAX_ROWS 16

/*! \brief What the rows of a layer share. */
typedef struct tvmrt_micro_depthwise {
  const tvmrt_micro_conv_i8* conv;
  const tvmrt_micro_data* data;
  int16_t* ring;
  const int16_t* row[TVMRT_MICRO_MAX_ROWS]; /* of the kernel, in the ring */
  int32_t span;                             /* rows of the ring */
  int32_t columns;                          /* of a row of the ring */
  int32_t quads;                            /* of channels */
} tvmrt_micro_depthwise;

/*! \brief Quads of padding in neighbouring columns; returns the column behind them. */
static inline int16_t* tvmrt_micro_pad_columns(int16_t* to, int32_t columns, int16_t zero) {
  for (int32_t i = 0; i < 4 * columns; i++) *to++ = zero;
  return to;
}

/*! \brief Quads of one place in neighbouring pixels; returns the column behind them. */
TVMRT_INLINE int16_t* tvmrt_micro_copy_columns(int16_t* to, const uint8_t* x, int32_t x_stride,
                                               int32_t columns, int is_signed) {
  for (; columns > 0; columns--, to += 4, x += x_stride) tvmrt_micro_widen(to, x, is_signed);
  return to;
}

/*! \brief The same of the last channels, of which there are fewer than four. */
static inline int16_t* tvmrt_micro_copy_rest(int16_t* to, const uint8_t* x, int32_t x_stride,
                                             int32_t columns, int32_t channels, int is_signed) {
  for (; columns > 0; columns--, to += 4, x += x_stride) {
    uint8_t four[4] = {0, 0, 0, 0};
    for (int32_t i = 0; i < channels; i++) four[i] = x[i];
    tvmrt_micro_widen(to, four, is_signed);
  }
  return to;
}

/*! \brief Copies an input row into the ring; h counts from the first row of padding on. */
static inline void tvmrt_micro_copy_row(const tvmrt_micro_depthwise* d, int32_t image, int32_t h) {
  const tvmrt_micro_conv_i8* const c = d->conv;
  const tvmrt_micro_shape* const s = &c->shape;
  int16_t* to = d->ring + h % d->span * d->quads * d->columns * 4;
  const tvmrt_micro_row row = tvmrt_micro_find_row(s, d->columns, image, h);
  const uint8_t* x = (const uint8_t*)d->data->x + row.from;
  for (int32_t channel = 0; channel < s->in_c; channel += 4, x += 4) {
    to = tvmrt_micro_pad_columns(to, row.left, c->x_zero);
    if (channel + 4 > s->in_c) {
      to = tvmrt_micro_copy_rest(to, x, s->x_stride, row.inside, s->in_c - channel, c->x_signed);
    } else if (c->x_signed) {
      to = tvmrt_micro_copy_columns(to, x, s->x_stride, row.inside, 1);
    } else {
      to = tvmrt_micro_copy_columns(to, x, s->x_stride, row.inside, 0);
    }
    to = tvmrt_micro_pad_columns(to, d->columns - row.left - row.inside, c->x_zero);
  }
}

/*! \brief Stores the sums of a quad in the channels' order. */
TVMRT_INLINE void tvmrt_micro_store_quad(int32_t* sums, const int32_t acc[4]) {
  sums[0] = acc[0];
  sums[1] = acc[2];
  sums[2] = acc[1];
  sums[3] = acc[3];
}

/*! \brief Some quads of channels of some neighbouring pixels of an output row. */
typedef struct tvmrt_micro_block {
  int32_t* sums;       /* [pixel][stride] */
  const int16_t* w;    /* of the first channel */
  const int32_t* bias; /* of the first channel */
  int32_t at;          /* elements from the rows' starts to the first pixel */
  int32_t pixels, channels, stride;
} tvmrt_micro_block;

/*! \brief The sums of a block. */
TVMRT_NOINLINE void tvmrt_micro_depthwise_block(const tvmrt_micro_depthwise* d,
                                                const tvmrt_micro_block* b) {
  const tvmrt_micro_conv_i8* const c = d->conv;
  const tvmrt_micro_shape* const s = &c->shape;
  for (int32_t p = 0; p < b->pixels; p++) {
    const int16_t* w = b->w;
    int32_t at = b->at + p * s->stride[1] * 4;
    for (int32_t channel = 0; channel < b->channels; channel += 4, at += d->columns * 4) {
      const int32_t* const bias = b->bias + channel;
      int32_t acc[4] = {bias[0], bias[2], bias[1], bias[3]};
      for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
        const int16_t* x = d->row[kh] + at;
        for (int32_t kw = 0; kw < s->kernel[1]; kw++, x += s->dilation[1] * 4, w += 4) {
          TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) acc[i] += x[i] * w[i];
        }
      }
      tvmrt_micro_store_quad(b->sums + p * b->stride + channel, acc);
    }
  }
}

/*! \brief Some neighbouring pixels of an output row, whose kernel rows are in the ring. */
static inline void tvmrt_micro_depthwise_pixels(const tvmrt_micro_depthwise* d, int32_t row,
                                                int32_t first, int32_t pixels) {
  const tvmrt_micro_conv_i8* const c = d->conv;
  const tvmrt_micro_shape* const s = &c->shape;
  const int32_t taps = s->kernel[0] * s->kernel[1];
  int32_t sums[TVMRT_MICRO_SUMS];
  tvmrt_micro_block b;
  b.sums = sums;
  b.pixels = pixels;
  b.stride = d->quads * 4 < TVMRT_MICRO_CHUNK ? d->quads * 4 : TVMRT_MICRO_CHUNK;
  for (int32_t channel = 0; channel < s->out_c; channel += TVMRT_MICRO_CHUNK) {
    const int32_t left = s->out_c - channel;
    b.channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
    b.w = (const int16_t*)d->data->weights + channel * taps;
    b.bias = d->data->bias + channel;
    b.at = channel * d->columns + first * s->stride[1] * 4;
    tvmrt_micro_depthwise_block(d, &b);
    const int32_t pixel = row * s->out[1] + first;
    tvmrt_micro_finish(c, d->data, sums, b.stride, pixel, pixels, channel, b.channels);
  }
}

/*!
 * \brief y = depthwise convolution of x.
 *
 * \param c    [in] Shape; in_c is out_c.
 * \param data [in] The tensors; shift is not used. y may be x only as the head of this file says.
 *
 * Values and threads as tvmrt_micro_conv_i8_run(). Errors: 0, or -1 where there is no scratch.
 */
static inline int tvmrt_micro_depthwise_i8_run(const tvmrt_micro_conv_i8* c,
                                               const tvmrt_micro_data* data) {
  const tvmrt_micro_shape* const s = &c->shape;
  tvmrt_micro_depthwise d;
  const int32_t rows = s->pixels / s->out[1];
  int32_t next = 0;
  d.conv = c;
  d.data = data;
  d.span = (s->kernel[0] - 1) * s->dilation[0] + 1;
  d.columns = (s->out[1] - 1) * s->stride[1] + (s->kernel[1] - 1) * s->dilation[1] + 1;
  d.quads = (s->in_c + 3) / 4;
  d.ring = (int16_t*)tvmrt_scratch_alloc(s->scratch);
  if (d.ring == NULL) return -1;
  /* pixels whose sums are kept together */
  const int32_t most = d.quads * 4 < TVMRT_MICRO_CHUNK ? TVMRT_MICRO_SUMS / 4 / d.quads : 2;
  for (int32_t row = 0; row < rows; row++) {
    const int32_t image = row / s->out[0], top = (row - image * s->out[0]) * s->stride[0];
    if (next < top || top == 0) next = top;
    for (; next < top + d.span; next++) tvmrt_micro_copy_row(&d, image, next);
    for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
      d.row[kh] = d.ring + (top + kh * s->dilation[0]) % d.span * d.quads * d.columns * 4;
    }
    for (int32_t first = 0; first < s->out[1]; first += most) {
      const int32_t left = s->out[1] - first;
      tvmrt_micro_depthwise_pixels(&d, row, first, left < most ? left : most);
    }
  }
  return tvmrt_scratch_free(d.ring);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_I8_H_ */
