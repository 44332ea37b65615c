/*!
 * \file micro_conv_i8.h
 * \brief Dense 2-D convolution and matrix product of 8-bit tensors on microcontrollers.
 *
 * Memory is channels-last with one stride between neighbouring pixels, over all rows and images. A
 * matrix product is a 1 x 1 convolution whose pixels are the rows. The windows of two neighbouring
 * output pixels are copied into scratch, in the form in which the products want them (micro_i8.h),
 * and multiplied with the weights of two output channels at a time. As the output is written when
 * the windows have been copied, y may be x where a window is its own output pixel: 1 x 1, stride 1,
 * no padding.
 *
 * A window is [kernel row][kernel column][input channel], see micro_products_i8.h.
 *
 * Packed weights: [pair of output channels][group of the window][channel of the pair][byte],
 * aligned to 8 bytes.
 */
#ifndef TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_
#define TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_

#include "micro_products_i8.h"

/*! \brief Bytes of windows that lie on the stack; longer ones lie in scratch. */
#define TVMRT_MICRO_STACK_WINDOWS 160

/*! \brief Where the window of an output pixel is in the input. */
typedef struct tvmrt_micro_place {
  const uint8_t* image; /* its first pixel */
  int32_t top, left;    /* negative in padding */
  int32_t columns;      /* of the window that are copied together */
  int32_t inside;       /* 1: nothing of it is padding, and its rows are copied together */
} tvmrt_micro_place;

static inline tvmrt_micro_place tvmrt_micro_find(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                                 int32_t pixel) {
  int32_t row = pixel / c->out[1], image = row / c->out[0];
  /* neighbouring columns that are neighbours in memory are copied together */
  const int together = c->x_stride == c->in_c && c->dilation[1] == 1;
  tvmrt_micro_place at;
  TVMRT_OPAQUE(row); /* or the remainders are divisions again */
  TVMRT_OPAQUE(image);
  at.image = x + image * c->in[0] * c->in[1] * c->x_stride;
  at.left = (pixel - row * c->out[1]) * c->stride[1] - c->pad[1];
  at.top = (row - image * c->out[0]) * c->stride[0] - c->pad[0];
  at.columns = together ? c->kernel[1] : 1;
  at.inside = together && at.left >= 0 && at.left + at.columns <= c->in[1] && at.top >= 0 &&
              at.top + (c->kernel[0] - 1) * c->dilation[0] < c->in[0];
  return at;
}

/*! \brief Copies a window that is partly padding, as bytes. */
static inline void tvmrt_micro_copy_padded(const tvmrt_micro_conv_i8* c,
                                           const tvmrt_micro_place* at, uint8_t* to) {
  const int32_t channels = c->in_c;
  for (int32_t kh = 0; kh < c->kernel[0]; kh++) {
    const int32_t h = at->top + kh * c->dilation[0];
    for (int32_t kw = 0; kw < c->kernel[1]; kw += at->columns) {
      const int32_t w = at->left + kw * c->dilation[1];
      int32_t begin = w < 0 ? -w : 0;
      int32_t end = c->in[1] - w < at->columns ? c->in[1] - w : at->columns;
      if (h < 0 || h >= c->in[0] || end <= begin) begin = end = at->columns;
      memset(to, c->x_zero, (size_t)(begin * channels));
      if (end > begin) {
        const uint8_t* from = at->image + (h * c->in[1] + w + begin) * c->x_stride;
        tvmrt_micro_copy(to + begin * channels, from, (end - begin) * channels);
      }
      to += at->columns * channels;
      end = at->columns - end;
      memset(to - end * channels, c->x_zero, (size_t)(end * channels));
    }
  }
}

/*!
 * \brief Copies n elements, whole groups, of a window as the products want them, and returns where
 * the next ones go.
 */
TVMRT_INLINE tvmrt_micro_element* tvmrt_micro_place_groups(tvmrt_micro_element* to, int32_t step,
                                                           const uint8_t* from, int32_t n,
                                                           int is_signed) {
  const int32_t groups = n / TVMRT_MICRO_GROUP;
#if TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE
  const uint8_t flip = is_signed ? 0 : 0x80;
  for (int32_t g = 0; g < groups; g++, from += 16, to += step) {
#if TVMRT_MICRO_CAN_MVE
    vstrbq_u8((uint8_t*)to, veorq_u8(vldrbq_u8(from), vdupq_n_u8(flip)));
#else
    for (int i = 0; i < 16; i++) to[i] = (int8_t)(from[i] ^ flip);
#endif
  }
  return to;
#else
  tvmrt_micro_widen_row(to, step, from, groups, is_signed);
  return to + groups * step;
#endif
}

/*!
 * \brief The window of an output pixel as the products want it.
 *
 * \param to      [out] Its first group, aligned to 8 bytes.
 * \param pixels  [in] 1, or 2 where groups of two pixels alternate.
 * \param bytes   [out] Scratch for the window as bytes.
 */
TVMRT_NOINLINE void tvmrt_micro_window(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                       int32_t pixel, tvmrt_micro_element* to, int32_t pixels,
                                       uint8_t* bytes) {
  const int32_t step = pixels * TVMRT_MICRO_GROUP, is_signed = c->x_signed;
  const int32_t rest = c->window - TVMRT_MICRO_UNIT;
  const int none = TVMRT_MICRO_FORMAT == TVMRT_MICRO_MVE && !is_signed ? 0x80 : 0; /* becomes 0 */
  if (c->pointwise) {
    const uint8_t* from = x + pixel * c->x_stride;
    if (c->window != c->in_c) {
      memset(bytes + rest, none, TVMRT_MICRO_UNIT);
      tvmrt_micro_copy(bytes, from, c->in_c);
      from = bytes;
    }
    tvmrt_micro_place_groups(to, step, from, c->window, is_signed);
    return;
  }
  const tvmrt_micro_place at = tvmrt_micro_find(c, x, pixel);
  const int32_t run = at.columns * c->in_c;
  memset(bytes + rest, none, TVMRT_MICRO_UNIT);
  if (at.inside) {
    const uint8_t* from = at.image + (at.top * c->in[1] + at.left) * c->x_stride;
    const int32_t row = c->dilation[0] * c->in[1] * c->x_stride;
    const int whole = run * c->kernel[0] == c->window && run % TVMRT_MICRO_GROUP == 0;
    uint8_t* end = bytes;
    for (int32_t kh = 0; kh < c->kernel[0]; kh++, from += row) {
      if (whole) {
        to = tvmrt_micro_place_groups(to, step, from, run, is_signed);
      } else {
        tvmrt_micro_copy(end, from, run);
        end += run;
      }
    }
    if (whole) return;
  } else {
    tvmrt_micro_copy_padded(c, &at, bytes);
  }
  tvmrt_micro_place_groups(to, step, bytes, c->window, is_signed);
}

/*! \brief The sum of the elements of one of the copied windows. */
static inline int32_t tvmrt_micro_window_sum(const tvmrt_micro_element* window, int pixels,
                                             int32_t n) {
  int32_t sum = 0;
  for (int32_t i = 0; i < n; i++) {
    sum += window[i];
    if ((i + 1) % TVMRT_MICRO_GROUP == 0) window += (pixels - 1) * TVMRT_MICRO_GROUP;
  }
  return sum;
}

/*!
 * \brief The sums of some channels of one output pixel, and of two neighbouring ones.
 *
 * \param sums     [out] [pixel][TVMRT_MICRO_CHUNK].
 * \param bias     [in] Of the first of the channels.
 * \param weights  [in] Of the first of the channels; those of n elements of the window each.
 */
TVMRT_NOINLINE void tvmrt_micro_tile_1(int32_t* sums, const int32_t* bias,
                                       const tvmrt_micro_element* window, const int8_t* weights,
                                       int32_t n, int32_t channels) {
  const int32_t* const end = sums + channels;
  do {
    weights = tvmrt_micro_products_1(sums, bias, window, weights, n);
    bias += 2;
    sums += 2;
  } while (sums < end);
}

TVMRT_NOINLINE void tvmrt_micro_tile_2(int32_t* sums, const int32_t* bias,
                                       const tvmrt_micro_element* window, const int8_t* weights,
                                       int32_t n, int32_t channels) {
  const int32_t* const end = sums + channels;
  do {
    weights = tvmrt_micro_products_2(sums, bias, window, weights, n);
    bias += 2;
    sums += 2;
  } while (sums < end);
}

/*! \brief Adds to the sums what the weights lack: shift[channel] times the sum of the window. */
static inline void tvmrt_micro_add_shifts(int32_t* sums, const tvmrt_micro_element* window,
                                          const int32_t* shift, int32_t n, int32_t pixels,
                                          int32_t channels) {
  for (int32_t p = 0; p < pixels; p++, sums += TVMRT_MICRO_CHUNK) {
    const int32_t sum = tvmrt_micro_window_sum(window + p * TVMRT_MICRO_GROUP, pixels, n);
    for (int32_t i = 0; i < channels; i++) sums[i] += shift[i] * sum;
  }
}

/*! \brief All channels of one or two neighbouring output pixels. */
static inline void tvmrt_micro_conv_pixels(const tvmrt_micro_conv_i8* c,
                                           const tvmrt_micro_data* data,
                                           tvmrt_micro_element* window, int32_t pixel,
                                           int32_t pixels) {
  int32_t sums[TVMRT_MICRO_SUMS];
  const int32_t n = c->window;
  uint8_t* const bytes = (uint8_t*)(window + 2 * n);
  for (int32_t p = 0; p < pixels; p++) {
    tvmrt_micro_window(c, (const uint8_t*)data->x, pixel + p, window + p * TVMRT_MICRO_GROUP,
                       pixels, bytes);
  }
  for (int32_t channel = 0; channel < c->out_c; channel += TVMRT_MICRO_CHUNK) {
    const int32_t left = c->out_c - channel;
    const int32_t channels = left < TVMRT_MICRO_CHUNK ? left : TVMRT_MICRO_CHUNK;
    const int8_t* const weights = (const int8_t*)data->weights + channel * n;
    const int32_t* const bias = data->bias + channel;
    if (pixels == 2) {
      tvmrt_micro_tile_2(sums, bias, window, weights, n, channels);
    } else {
      tvmrt_micro_tile_1(sums, bias, window, weights, n, channels);
    }
    if (data->shift != NULL) {
      tvmrt_micro_add_shifts(sums, window, data->shift + channel, n, pixels, channels);
    }
    tvmrt_micro_finish(c, data, sums, TVMRT_MICRO_CHUNK, pixel, pixels, channel, channels);
  }
}

/*!
 * \brief y = convolution of x.
 *
 * \param c    [in] Shape.
 * \param data [in] The tensors. y may be x only as the head of this file says.
 *
 * Values:  exact int32 sums (they must fit), times scale as floats, rounded to the nearest integer,
 *          ties to even; or what the epilogue makes of the sums.
 * Errors:  0, or -1 where there is no scratch.
 * Threads: on the caller alone.
 */
static inline int tvmrt_micro_conv_i8_run(const tvmrt_micro_conv_i8* c,
                                          const tvmrt_micro_data* data) {
  uint64_t few[TVMRT_MICRO_STACK_WINDOWS / 8];
  void *scratch = NULL, *window = few;
  int32_t pixel = 0;
  if (c->scratch > 0) {
    scratch = window = tvmrt_scratch_alloc(c->scratch);
    if (scratch == NULL) return -1;
  }
  for (; pixel + 1 < c->pixels; pixel += 2) {
    tvmrt_micro_conv_pixels(c, data, (tvmrt_micro_element*)window, pixel, 2);
  }
  if (pixel < c->pixels) {
    tvmrt_micro_conv_pixels(c, data, (tvmrt_micro_element*)window, pixel, 1);
  }
  return tvmrt_scratch_free(scratch);
}

#endif /* TVM_RUNTIME_KERNELS_MICRO_CONV_I8_H_ */
