/*!
 * \file board/conv_i8_2x2_dsp.h
 * \brief Dense int8 layers on microcontrollers with pairs of 16-bit integers: DSP instructions with
 * two multiply-adds each (Cortex-M4, M7, M33), or C with one at a time (Cortex-M0+, M3).
 *
 * Activations are quads (board/common_i8.h). Weights are [pair of output channels][quad of the
 * window][channel of the pair][byte], aligned to 8 bytes; for the tile TVMRT_MICRO_2CH see
 * board/conv_i8_2ch_dsp.h. board/conv_i8_driver.h lists the definitions of a tile.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2X2_DSP_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2X2_DSP_H_

#include "conv_i8_3px_dsp.h"
#include "tiles_2x2_dsp.h"

#define TVMRT_MICRO_GROUP 4
#define TVMRT_MICRO_UNIT 8
#define TVMRT_MICRO_ZERO_BYTE 0
typedef int16_t tvmrt_micro_element;

/*! \brief Storage of the weights of two channels: separately, or joint in 16 bits. */
enum { TVMRT_MICRO_1CH, TVMRT_MICRO_2CH };

#if TVMRT_MICRO_ASM
/* Two quads, loaded into r3 and r5. */
#define TVMRT_MICRO_WIDEN_QUADS(LOADS, WIDEN)                                       \
  LOADS WIDEN " r4, r3, ror #8\n" WIDEN " r3, r3\n" WIDEN " r6, r5, ror #8\n" WIDEN \
              " r5, r5\nstmia %[to]!, {r3-r6}\n"
#define TVMRT_MICRO_WIDEN(LOOP)                                  \
  __asm volatile(LOOP                                            \
                 : [from] "+r"(from), [to] "+r"(to), [n] "+r"(n) \
                 : [second] "r"(second)                          \
                 : "r3", "r4", "r5", "r6", "cc", "memory")
/* n quads of two windows, unrolled twice. */
#define TVMRT_MICRO_WIDEN_TWO(WIDEN) \
  TVMRT_MICRO_WIDEN_QUADS("ldr r5, [%[from], %[second]]\nldr r3, [%[from]], #4\n", WIDEN)
#define TVMRT_MICRO_WIDEN_TWICE(WIDEN)                                                    \
  "tst %[n], #1\nbne 2f\n1:\n" TVMRT_MICRO_WIDEN_TWO(WIDEN) "2:\n" TVMRT_MICRO_WIDEN_TWO( \
      WIDEN) "subs %[n], %[n], #2\nbgt 1b\n"
/* 2 * n quads of one window. */
#define TVMRT_MICRO_WIDEN_ONE(WIDEN)                                                      \
  "1:\n" TVMRT_MICRO_WIDEN_QUADS("ldr r5, [%[from], %[second]]\nldr r3, [%[from]], #8\n", \
                                 WIDEN) "subs %[n], %[n], #1\nbne 1b\n"
#endif

/* Both windows of a pair are copied together if the saved instructions are worth the code size. */
#if TVMRT_MICRO_CAN_DSP || TVMRT_MICRO_UNALIGNED
/*!
 * \brief n quads of two windows, alternating: from contiguous bytes at `from`, and at `second`
 * bytes after it. The bytes may be in the memory of quads that are written later.
 */
TVMRT_NOINLINE int16_t* tvmrt_micro_widen_two(int16_t* to, const uint8_t* from, int32_t second,
                                              int32_t n, int is_signed) {
#if TVMRT_MICRO_ASM
  if (is_signed) {
    TVMRT_MICRO_WIDEN(TVMRT_MICRO_WIDEN_TWICE("sxtb16"));
  } else {
    TVMRT_MICRO_WIDEN(TVMRT_MICRO_WIDEN_TWICE("uxtb16"));
  }
#else
  for (; n > 0; n--, from += 4, to += 8) {
    uint8_t other[4];
    memcpy(other, from + second, 4);
    tvmrt_micro_widen(to, from, is_signed);
    tvmrt_micro_widen(to + 4, other, is_signed);
  }
#endif
  return to;
}
#endif

/*! \brief n quads of contiguous bytes, n even, with a stride of `step` elements. */
TVMRT_NOINLINE void tvmrt_micro_widen_row(int16_t* to, int32_t step, const uint8_t* from, int32_t n,
                                          int is_signed) {
#if TVMRT_MICRO_ASM
  const int32_t second = 4;
  (void)step; /* 4, as two windows are widened together */
  n /= 2;
  if (is_signed) {
    TVMRT_MICRO_WIDEN(TVMRT_MICRO_WIDEN_ONE("sxtb16"));
  } else {
    TVMRT_MICRO_WIDEN(TVMRT_MICRO_WIDEN_ONE("uxtb16"));
  }
#else
  for (; n > 0; n--, from += 4, to += step) tvmrt_micro_widen(to, from, is_signed);
#endif
}

TVMRT_INLINE tvmrt_micro_element* tvmrt_micro_copy_groups(tvmrt_micro_element* to, int32_t step,
                                                          const uint8_t* from, int32_t n,
                                                          int is_signed) {
  const int32_t groups = n / TVMRT_MICRO_GROUP;
  tvmrt_micro_widen_row(to, step, from, groups, is_signed);
  return to + groups * step;
}

#if TVMRT_MICRO_ASM
TVMRT_INLINE int tvmrt_micro_2ch_direct(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                        const int16_t* window, int32_t pixels, int joint,
                                        uint8_t* y) {
  if (!joint || !c->range.fixed_point_only) return 0;
  tvmrt_micro_2ch_pixels(c, data, window, pixels, 0, NULL, c->shape.out_c, y);
  return 1;
}
#define TVMRT_MICRO_DIRECT tvmrt_micro_2ch_direct
/* four pixels are two pairs, because single pixels cost most; windows of three have no sum */
#define TVMRT_MICRO_THREE(c, data, tile, pixel, left, points)                          \
  ((tile) == TVMRT_MICRO_2CH && (left) >= 3 && (left) != 4 && (data)->shift == NULL && \
   tvmrt_micro_holds_three(c, data, pixel, points))
#define TVMRT_MICRO_WIDEN_WINDOWS(to, from, second, n, is_signed, pixels)  \
  ((pixels) == 3 ? tvmrt_micro_widen_three(to, from, second, n, is_signed) \
                 : tvmrt_micro_widen_two(to, from, second, n, is_signed))
#endif

TVMRT_INLINE void tvmrt_micro_conv_accumulate(const tvmrt_micro_conv_i8* c,
                                              const tvmrt_micro_data* data, int32_t* sums,
                                              const tvmrt_micro_element* window, int32_t pixels,
                                              int32_t channel, int32_t channels, int joint) {
  const int32_t n = c->shape.layout.windows.length;
  if (joint) {
    if (pixels >= 2) {
      tvmrt_micro_2ch_pixels(c, data, window, pixels, channel, sums, channels, NULL);
    } else {
      const int16_t* const weights = tvmrt_micro_2ch_weights(c, data, channel);
      tvmrt_micro_2ch_1px(sums, sums + channels, weights, window, n);
    }
    return;
  }
  const int8_t* const weights = (const int8_t*)data->weights + channel * n;
  const int32_t* const bias = data->bias + channel;
  if (pixels == 2) {
    tvmrt_micro_tile_2(sums, bias, window, weights, n, channels);
  } else {
    tvmrt_micro_tile_1(sums, bias, window, weights, n, channels);
  }
}

/*! \brief Position of an element of a channel's window in the packed weights. */
TVMRT_INLINE int32_t tvmrt_micro_packed_at(const tvmrt_micro_conv_i8* c, int32_t channel,
                                           int32_t element) {
  const int32_t pair = channel / 2 * 2 * c->shape.layout.windows.length;
  return pair + element / 4 * 8 + channel % 2 * 4 + element % 4;
}

/* the driver with this tile */
#if TVMRT_MICRO_CAN_DSP || TVMRT_MICRO_UNALIGNED
#include "im2col_i8_2px.h"
#endif

#if TVMRT_MICRO_ASM
/*! \brief Whether the windows of a layer can be copied for three pixels: directly, or as bytes after
 * the quads if they are partly padding. */
TVMRT_INLINE int tvmrt_micro_holds_three(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                         int32_t pixel, int points) {
  const tvmrt_micro_windows* const win = &c->shape.layout.windows;
  const int32_t run = (int32_t)win->columns * c->shape.in_c;
  const int direct = points ? tvmrt_micro_reads_pixels(c, data, pixel, 3)
                            : run % 4 == 0 && run * c->shape.kernel[0] == win->length;
  return direct && (points ? 6 : 7) * win->length <=
                       (c->shape.scratch > 0 ? c->shape.scratch : TVMRT_MICRO_STACK_WINDOWS);
}

/*! \brief Copy the windows of three neighbouring pixels; `points`: of a pointwise layer. */
TVMRT_INLINE void tvmrt_micro_im2col_3px(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                         int32_t pixel, int16_t* window, int points) {
  const int32_t n = c->shape.layout.windows.length;
  const uint8_t* const x = (const uint8_t*)data->x;
  if (points) {
    tvmrt_micro_im2col_2px_pointwise(c, data, pixel, window, 3);
  } else if (!tvmrt_micro_im2col_2px_inside(c, x, pixel, window, 3)) {
    uint8_t* const bytes = (uint8_t*)(window + 3 * n);
    for (int32_t p = 0; p < 3; p++) {
      tvmrt_micro_im2col_bytes(c, x, pixel + p, bytes);
      tvmrt_micro_widen_third(window + 2 * p, bytes, n / TVMRT_MICRO_GROUP, c->x_signed);
    }
  }
}
#define TVMRT_MICRO_IM2COL_3PX tvmrt_micro_im2col_3px
#endif

#include "conv_i8_driver.h"

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2X2_DSP_H_ */
