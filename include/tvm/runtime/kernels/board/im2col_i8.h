/*!
 * \file board/im2col_i8.h
 * \brief Window copies of dense layers as bytes, and pixel addresses; a part of
 * board/conv_i8_driver.h, which lists the definitions that the header of a tile makes first.
 *
 * Without a tile, this file is empty.
 */
#if defined(TVMRT_MICRO_UNIT) && !defined(TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_H_)
#define TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_H_

#ifndef TVMRT_MICRO_ZERO_BYTE
#define TVMRT_MICRO_ZERO_BYTE 0x80
#endif

/*! \brief The value of bytes past the end of a window that becomes 0. */
TVMRT_INLINE uint8_t tvmrt_micro_zero_byte(const tvmrt_micro_conv_i8* c) {
  return c->x_signed ? 0 : TVMRT_MICRO_ZERO_BYTE;
}

/*! \brief Copy bytes of contiguous columns. */
#if TVMRT_MICRO_UNALIGNED
TVMRT_NOINLINE
#else
TVMRT_INLINE
#endif
void tvmrt_micro_copy_run(uint8_t* to, const uint8_t* from, int32_t n) {
  tvmrt_micro_copy(to, from, n);
}

/*! \brief Copy a window that is partly padding, as bytes. */
static inline void tvmrt_micro_copy_padded(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                           const tvmrt_micro_position* at, uint8_t* to) {
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_windows* const win = &s->layout.windows;
  const int32_t channels = s->in_c, bytes = win->columns * channels;
  const uint32_t zeros = (uint8_t)c->x_zero * 0x01010101u;
  uint8_t* last = to + win->length;
  while (last != to) { /* a multiple of 8 */
    last -= 8;
    memcpy(TVMRT_ALIGNED(last, 4), &zeros, 4);
    memcpy(TVMRT_ALIGNED(last + 4, 4), &zeros, 4);
  }
  for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
    for (int32_t kw = 0; kw < s->kernel[1]; kw += win->columns, to += bytes) {
      const tvmrt_micro_run run = tvmrt_micro_find_run(s, at, kh, kw);
      const int32_t n = (run.end - run.begin) * channels;
      if (n > 0) tvmrt_micro_copy_run(to + run.begin * channels, x + run.from, n);
    }
  }
}

/*! \brief Write bytes that become 0 to the last unit of a window, before the window is copied. */
TVMRT_INLINE void tvmrt_micro_end_window(const tvmrt_micro_conv_i8* c, uint8_t* end) {
  const uint8_t none = tvmrt_micro_zero_byte(c);
#if TVMRT_MICRO_CAN_MVE
  if (TVMRT_MICRO_UNIT == 16) { /* compilers would call memset() */
    vstrbq_u8(end - 16, vdupq_n_u8(none));
    return;
  }
#endif
  memset(TVMRT_ALIGNED(end - TVMRT_MICRO_UNIT, 4), none, TVMRT_MICRO_UNIT);
}

/*! \brief Copy the window of an output pixel as bytes, followed by bytes that become 0. */
TVMRT_INLINE void tvmrt_micro_copy_window(const tvmrt_micro_conv_i8* c, const uint8_t* x,
                                          const tvmrt_micro_position* at, uint8_t* to) {
  const tvmrt_micro_shape* const s = &c->shape;
  tvmrt_micro_copy_padded(c, x, at, to);
  int32_t i = (int32_t)s->kernel[0] * s->kernel[1] * s->in_c;
  for (; i < s->layout.windows.length; i++) {
    to[i] = tvmrt_micro_zero_byte(c);
  }
}

/*! \brief Copy the window of an output pixel of a pointwise layer as bytes. */
TVMRT_INLINE void tvmrt_micro_copy_pixel(const tvmrt_micro_conv_i8* c, const uint8_t* from,
                                         uint8_t* to) {
  tvmrt_micro_end_window(c, to + c->shape.layout.windows.length);
  tvmrt_micro_copy_run(to, from, c->shape.in_c);
}

/*!
 * \brief Whether the windows of some pixels of a pointwise layer can be read from x to their end.
 * Elements past the channels are those of later pixels, and their weights are 0.
 */
TVMRT_INLINE int tvmrt_micro_reads_pixels(const tvmrt_micro_conv_i8* c,
                                          const tvmrt_micro_data* data, int32_t pixel,
                                          int32_t pixels) {
  const tvmrt_micro_windows* const win = &c->shape.layout.windows;
  const int32_t more = win->length - c->shape.in_c;
  const int32_t later = (win->pixels - pixel - pixels) * c->shape.x_stride;
  /* shifts multiply the sum of a window */
  return more == 0 || (TVMRT_MICRO_UNALIGNED && more <= later && data->shift == NULL);
}

/*! \brief tvmrt_micro_im2col() of a pointwise layer. */
TVMRT_NOINLINE void tvmrt_micro_im2col_pointwise(const tvmrt_micro_conv_i8* c,
                                                 const tvmrt_micro_data* data, int32_t pixel,
                                                 tvmrt_micro_element* to, int32_t step,
                                                 uint8_t* bytes) {
  const int32_t n = c->shape.layout.windows.length;
  const uint8_t* from = (const uint8_t*)data->x + pixel * c->shape.x_stride;
  if (!tvmrt_micro_reads_pixels(c, data, pixel, 1)) {
    tvmrt_micro_copy_pixel(c, from, bytes);
    from = bytes;
  }
  tvmrt_micro_copy_groups(to, step, from, n, c->x_signed);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_IM2COL_I8_H_ */
