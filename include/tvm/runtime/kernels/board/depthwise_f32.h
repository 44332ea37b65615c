/*!
 * \file board/depthwise_f32.h
 * \brief Depthwise 2-D convolution in float32 on microcontrollers.
 *
 * The line buffer (board/line_buffer.h) holds rows in groups of four channels: [four channels][row
 * of the buffer][column][4].
 *
 * Packed weights: [four channels][kernel row][kernel column][4]. bias: of all channels, to a
 * multiple of four.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_F32_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_F32_H_

#include "../scalar/pairs.h"
#include "common_f32.h"
#include "partial_rows.h"

/*! \brief Shared data of the rows of a layer. */
typedef struct tvmrt_micro_layer_f32 {
  const tvmrt_micro_conv_f32* conv;
  const tvmrt_micro_data_f32* data;
  void* line_buffer;
  int32_t* sums; /*!< Unused. */
} tvmrt_micro_layer_f32;

TVMRT_TABLE(float, tvmrt_zero_quad, 4, 0.0f, 0.0f, 0.0f, 0.0f);
#define tvmrt_zero_quad tvmrt_zero_quad

/*! \brief Copy an input row into the line buffer; a slot is a row. */
TVMRT_NOINLINE void tvmrt_micro_copy_row_f32(const void* layer, int32_t image, int32_t slot) {
  const tvmrt_micro_layer_f32* const d = (const tvmrt_micro_layer_f32*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const tvmrt_micro_line_buffer* const line_buffer = &s->layout.line_buffer;
  const int32_t from = tvmrt_micro_row_offset(s, image, slot);
  const float* x = tvmrt_zero_quad[0];
  int32_t pixel = 0, quad = 0;
  if (from >= 0) {
    x = d->data->x + from;
    pixel = s->x_stride;
    quad = 4;
  }
  float* row =
      (float*)d->line_buffer + (tvmrt_micro_line_offset(s, slot) + tvmrt_micro_padding(s)) * 4;
  const int32_t step = 4 * line_buffer->plane;
  for (int32_t channel = 0; channel < s->in_c; channel += 4, x += quad, row += step) {
    const int32_t channels = s->in_c - channel;
    const float* of = x;
    float* to = row;
    for (int32_t n = line_buffer->inside; n > 0; n--, to += 4, of += pixel) {
      to[0] = of[0];
      if (channels > 1) to[1] = of[1];
      if (channels > 2) to[2] = of[2];
      if (channels > 3) to[3] = of[3];
    }
  }
}

/*!
 * \brief acc[channel] += the products of neighbouring taps of one kernel row; returns the weights
 * of the next row.
 */
TVMRT_INLINE const float* tvmrt_micro_taps_f32(float acc[4], const float* x, const float* w,
                                               int32_t taps, int32_t step) {
#if TVMRT_MICRO_F32_MVE
  float32x4_t sum = vldrwq_f32(acc);
  for (; taps > 0; taps--, x += step, w += 4) sum = vfmaq_f32(sum, vldrwq_f32(x), vldrwq_f32(w));
  vstrwq_f32(acc, sum);
#else
  float a = acc[0], b = acc[1], c = acc[2], d = acc[3];
  for (; taps > 0; taps--, x += step, w += 4) {
    a = TVMRT_FMAF(x[0], w[0], a);
    b = TVMRT_FMAF(x[1], w[1], b);
    c = TVMRT_FMAF(x[2], w[2], c);
    d = TVMRT_FMAF(x[3], w[3], d);
  }
  acc[0] = a;
  acc[1] = b;
  acc[2] = c;
  acc[3] = d;
#endif
  return w;
}

/* tvmrt_micro_nine_taps(sums, bias, row, w): four channels of a 3 x 3 kernel without dilation, by
 * its rows in the line buffer. */
#if TVMRT_MICRO_F32_ASM
#define TVMRT_MICRO_THREE_TAPS                                                                 \
  "vldmia %[w]!, {s16-s27}\n"                                                                  \
  "vfma.f32 s0, s4, s16\nvfma.f32 s1, s5, s17\nvfma.f32 s2, s6, s18\nvfma.f32 s3, s7, s19\n"   \
  "vfma.f32 s0, s8, s20\nvfma.f32 s1, s9, s21\nvfma.f32 s2, s10, s22\nvfma.f32 s3, s11, s23\n" \
  "vfma.f32 s0, s12, s24\nvfma.f32 s1, s13, s25\nvfma.f32 s2, s14, s26\nvfma.f32 s3, s15, s27\n"

TVMRT_INLINE void tvmrt_micro_nine_taps(float* sums, const float* bias, const float* const row[3],
                                        const float* w) {
  __asm volatile(
      "vldmia %[b], {s0-s3}\n"
      "vldmia %[x0], {s4-s15}\n" TVMRT_MICRO_THREE_TAPS
      "vldmia %[x1], {s4-s15}\n" TVMRT_MICRO_THREE_TAPS
      "vldmia %[x2], {s4-s15}\n" TVMRT_MICRO_THREE_TAPS "vstmia %[a], {s0-s3}\n"
      : [w] "+r"(w)
      : [a] "r"(sums), [b] "r"(bias), [x0] "r"(row[0]), [x1] "r"(row[1]), [x2] "r"(row[2])
      : "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13",
        "s14", "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26",
        "s27", "memory");
}
#elif TVMRT_MICRO_F32_MVE
TVMRT_INLINE void tvmrt_micro_nine_taps(float* sums, const float* bias, const float* const row[3],
                                        const float* w) {
  float32x4_t sum = vldrwq_f32(bias);
  TVMRT_UNROLL(3) for (int kh = 0; kh < 3; kh++, w += 12) {
    sum = vfmaq_f32(sum, vldrwq_f32(row[kh]), vldrwq_f32(w));
    sum = vfmaq_f32(sum, vldrwq_f32(row[kh] + 4), vldrwq_f32(w + 4));
    sum = vfmaq_f32(sum, vldrwq_f32(row[kh] + 8), vldrwq_f32(w + 8));
  }
  vstrwq_f32(sums, sum);
}
#endif

/*! \brief Accumulate some channels of an output pixel; `top` is its first row in the line
 * buffer. */
TVMRT_NOINLINE void tvmrt_micro_depthwise_accumulate_f32(const tvmrt_micro_layer_f32* d,
                                                         float* sums, int32_t top, int32_t column,
                                                         int32_t channel, int32_t channels) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const float* w = d->data->weights + channel * s->kernel[0] * s->kernel[1];
  const float* bias = d->data->bias + channel;
  const float* const end = sums + channels;
  const int32_t row_size = (int32_t)s->layout.line_buffer.columns * 4;
  const int32_t plane = s->layout.line_buffer.plane;
  const float* x = (const float*)d->line_buffer + channel * plane + column * s->stride[1] * 4;
#if TVMRT_MICRO_F32_ASM || TVMRT_MICRO_F32_MVE
  if (s->kernel[0] == 3 && s->kernel[1] == 3 && s->dilation[0] == 1 && s->dilation[1] == 1) {
    const float* row[3];
    for (int32_t kh = 0; kh < 3; kh++) row[kh] = x + (top + kh) % 3 * row_size;
    for (; sums < end; sums += 4, bias += 4, w += 36) {
      tvmrt_micro_nine_taps(sums, bias, row, w);
      for (int32_t kh = 0; kh < 3; kh++) row[kh] += 4 * plane;
    }
    return;
  }
#endif
  for (; sums < end; sums += 4, bias += 4, x += 4 * plane) {
    memcpy(sums, bias, 16);
    for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
      const int32_t slot = (top + kh * s->dilation[0]) % s->layout.line_buffer.slots;
      w = tvmrt_micro_taps_f32(sums, x + slot * row_size, w, s->kernel[1], s->dilation[1] * 4);
    }
  }
}

/*! \brief Compute an output row, one per step. */
static inline void tvmrt_micro_depthwise_row_f32(const void* layer, int32_t row, int32_t rows,
                                                 int32_t slot) {
  const tvmrt_micro_layer_f32* const d = (const tvmrt_micro_layer_f32*)layer;
  const tvmrt_micro_shape* const s = &d->conv->shape;
  float sums[TVMRT_MICRO_F32_CHUNK];
  (void)rows;
  for (int32_t column = 0; column < s->out[1]; column++) {
    for (int32_t channel = 0; channel < s->out_c; channel += TVMRT_MICRO_F32_CHUNK) {
      const int32_t left = s->out_c - channel;
      const int32_t channels = left < TVMRT_MICRO_F32_CHUNK ? left : TVMRT_MICRO_F32_CHUNK;
      tvmrt_micro_depthwise_accumulate_f32(d, sums, slot, column, channel, channels);
      tvmrt_micro_finish_f32(d->conv, d->data, sums, row * s->out[1] + column, channel, channels);
    }
  }
}

/*! \brief Return the tile of this kernel; in_c is out_c. */
TVMRT_INLINE tvmrt_micro_tile tvmrt_micro_depthwise_f32_tile(const tvmrt_micro_shape* s) {
  const tvmrt_micro_tile tile = {{tvmrt_micro_copy_row_f32, tvmrt_micro_depthwise_row_f32,
                                  s->layout.line_buffer.slots, s->stride[0], 1},
                                 1,
                                 0,
                                 0};
  return tile;
}

TVMRT_MICRO_DEPTHWISE(tvmrt_micro_depthwise_f32, tvmrt_micro_conv_f32, tvmrt_micro_data_f32,
                      tvmrt_micro_layer_f32, tvmrt_micro_depthwise_f32_tile(&c->shape))

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_F32_H_ */
