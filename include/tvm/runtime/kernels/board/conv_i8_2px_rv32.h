/*!
 * \file board/conv_i8_2px_rv32.h
 * \brief Dense int8 layers on processors that only multiply 32-bit words (RV32): two pixels packed
 * in one register.
 *
 * An element p of one pixel and q of the next form the word p + 2 ^ 16 * q, both as int8 (uint8 is
 * shifted by 128; the folded bias compensates). One multiplication by a weight gives two products.
 * Accumulators hold p's sum + 2 ^ 16 * q's sum as long as 16 bits hold p's sum. The compiler of the
 * network knows the weights: sums of two products always fit, sums of four (a block) mostly do.
 * Where they do not, a flag makes the kernel split the block.
 *
 * Packed weights: [quad of output channels][128 elements of the window: a word of flags, the first
 * block's in the highest bit, then [element][channel of the quad] as int8], aligned to 4 bytes; the
 * last group has only the remaining elements. Biases: of whole quads. board/conv_i8_driver.h
 * lists the definitions of a tile.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2PX_RV32_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2PX_RV32_H_

#include "common_i8.h"

#define TVMRT_MICRO_GROUP 1
#define TVMRT_MICRO_UNIT 8
typedef int16_t tvmrt_micro_element;

/*! \brief Elements per word of flags. */
#define TVMRT_MICRO_FLAG_SPAN 128
/*! \brief Offset added to two sums of -32767 to 32768: the lower one becomes non-negative, the
 * upper one is 1 less, because its sign is kept. */
#define TVMRT_MICRO_2PX_OFFSET (uint32_t)(0x7FFF - 0x10000)

/* Store the first pixel's elements sign-extended as words, then add the second pixel's. For the
 * second pixel `to` is in the middle of a word. */
TVMRT_NOINLINE tvmrt_micro_element* tvmrt_micro_copy_groups(tvmrt_micro_element* to, int32_t step,
                                                            const uint8_t* from, int32_t n,
                                                            int is_signed) {
  const int32_t flip = is_signed ? 0x80 : 0; /* (v ^ 0x80) - 0x80 extends the sign */
  const uint8_t* const end = from + n;
  if (TVMRT_ADDRESS(to) % 4 != 0 && step == 2) {
    for (; from != end; to += 2) *to = (int16_t)(*to + (*from++ ^ flip) - 0x80);
    return to;
  }
  for (; from != end; to += step) {
    const int32_t v = (*from++ ^ flip) - 0x80;
    to[step - 1] = (int16_t)(v >> 8);
    to[0] = (int16_t)v;
  }
  return to;
}

/* Correct the second pixel's element: the sign of the first one's subtracted 1 from it. */
#define TVMRT_MICRO_WINDOW_VALUE(at, pixels) \
  (*(at) + ((pixels) == 2 && TVMRT_ADDRESS(at) % 4 != 0 && (at)[-1] < 0))

/*! \brief Words of the flags and weights of a quad of channels. */
TVMRT_INLINE int32_t tvmrt_micro_quad_words(const tvmrt_micro_conv_i8* c) {
  const int32_t n = c->shape.layout.windows.length;
  return n + (n + TVMRT_MICRO_FLAG_SPAN - 1) / TVMRT_MICRO_FLAG_SPAN;
}

/*! \brief End of the weights after these flags; `left` elements remain. */
TVMRT_INLINE const int8_t* tvmrt_micro_2px_weights_end(const int8_t* w, int32_t left) {
  return w + 4 + 4 * (left < TVMRT_MICRO_FLAG_SPAN ? left : TVMRT_MICRO_FLAG_SPAN);
}

/*! \brief Add the sums of a block or half a block to the total, and the upper one minus 1 to the
 * second pixel's. */
#define TVMRT_MICRO_2PX_SPLIT(S, ALL, UPPER)                  \
  do {                                                        \
    (ALL) += (S);                                             \
    (UPPER) += (int32_t)((S) + TVMRT_MICRO_2PX_OFFSET) >> 16; \
  } while (0)

/*! \brief Accumulate a quad of channels of two pixels, [pixel][TVMRT_MICRO_CHUNK]; return the
 * next quad. */
TVMRT_INLINE const int8_t* tvmrt_micro_2px_quad(int32_t* sums, const int32_t* bias,
                                                const uint32_t* x, const int8_t* w, int32_t n) {
  uint32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;       /* both pixels */
  int32_t u0 = n / 4, u1 = u0, u2 = u0, u3 = u0; /* the second pixel's */
  for (int32_t left = n; left > 0; left -= TVMRT_MICRO_FLAG_SPAN) {
    const int8_t* const end = tvmrt_micro_2px_weights_end(w, left);
    uint32_t flags;
    memcpy(&flags, TVMRT_ALIGNED(w, 4), sizeof(flags));
    w += 4;
    do {
      uint32_t s0 = x[0] * (uint32_t)w[0] + x[1] * (uint32_t)w[4];
      uint32_t s1 = x[0] * (uint32_t)w[1] + x[1] * (uint32_t)w[5];
      uint32_t s2 = x[0] * (uint32_t)w[2] + x[1] * (uint32_t)w[6];
      uint32_t s3 = x[0] * (uint32_t)w[3] + x[1] * (uint32_t)w[7];
      if ((int32_t)flags < 0) {
        TVMRT_MICRO_2PX_SPLIT(s0, a0, u0);
        TVMRT_MICRO_2PX_SPLIT(s1, a1, u1);
        TVMRT_MICRO_2PX_SPLIT(s2, a2, u2);
        TVMRT_MICRO_2PX_SPLIT(s3, a3, u3);
        s0 = s1 = s2 = s3 = 0;
        u0++;
        u1++;
        u2++;
        u3++;
      }
      s0 += x[2] * (uint32_t)w[8] + x[3] * (uint32_t)w[12];
      s1 += x[2] * (uint32_t)w[9] + x[3] * (uint32_t)w[13];
      s2 += x[2] * (uint32_t)w[10] + x[3] * (uint32_t)w[14];
      s3 += x[2] * (uint32_t)w[11] + x[3] * (uint32_t)w[15];
      TVMRT_MICRO_2PX_SPLIT(s0, a0, u0);
      TVMRT_MICRO_2PX_SPLIT(s1, a1, u1);
      TVMRT_MICRO_2PX_SPLIT(s2, a2, u2);
      TVMRT_MICRO_2PX_SPLIT(s3, a3, u3);
      flags <<= 1;
      w += 16;
      x += 4;
    } while (w != end);
  }
  const uint32_t all[4] = {a0, a1, a2, a3};
  const int32_t upper[4] = {u0, u1, u2, u3};
  TVMRT_UNROLL(4) for (int i = 0; i < 4; i++) {
    sums[i] = (int32_t)((uint32_t)bias[i] + all[i] - ((uint32_t)upper[i] << 16));
    sums[TVMRT_MICRO_CHUNK + i] = TVMRT_WRAP_ADD(bias[i], upper[i]);
  }
  return w;
}

/*! \brief Accumulate a quad of channels of one pixel, whose elements are contiguous. */
TVMRT_INLINE const int8_t* tvmrt_micro_1px_quad(int32_t* sums, const int32_t* bias,
                                                const tvmrt_micro_element* x, const int8_t* w,
                                                int32_t n) {
  int32_t a0 = bias[0], a1 = bias[1], a2 = bias[2], a3 = bias[3];
  for (int32_t left = n; left > 0; left -= TVMRT_MICRO_FLAG_SPAN) {
    const int8_t* const end = tvmrt_micro_2px_weights_end(w, left);
    w += 4;
    do {
      TVMRT_WRAP_ADD_TO(a0, x[0] * w[0] + x[1] * w[4]);
      TVMRT_WRAP_ADD_TO(a1, x[0] * w[1] + x[1] * w[5]);
      TVMRT_WRAP_ADD_TO(a2, x[0] * w[2] + x[1] * w[6]);
      TVMRT_WRAP_ADD_TO(a3, x[0] * w[3] + x[1] * w[7]);
      w += 8;
      x += 2;
    } while (w != end);
  }
  sums[0] = a0;
  sums[1] = a1;
  sums[2] = a2;
  sums[3] = a3;
  return w;
}

/*! \brief Accumulate quads of channels of two neighbouring output pixels, and of one. */
TVMRT_NOINLINE void tvmrt_micro_2px_accumulate(int32_t* sums, const int32_t* bias,
                                               const uint32_t* window, const int8_t* w, int32_t n,
                                               int32_t channels) {
  for (; channels > 0; channels -= 4, sums += 4, bias += 4) {
    w = tvmrt_micro_2px_quad(sums, bias, window, w, n);
  }
}

TVMRT_NOINLINE void tvmrt_micro_1px_accumulate(int32_t* sums, const int32_t* bias,
                                               const tvmrt_micro_element* window, const int8_t* w,
                                               int32_t n, int32_t channels) {
  for (; channels > 0; channels -= 4, sums += 4, bias += 4) {
    w = tvmrt_micro_1px_quad(sums, bias, window, w, n);
  }
}

TVMRT_INLINE void tvmrt_micro_conv_accumulate(const tvmrt_micro_conv_i8* c,
                                              const tvmrt_micro_data* data, int32_t* sums,
                                              const tvmrt_micro_element* window, int32_t pixels,
                                              int32_t channel, int32_t channels, int tile) {
  const int32_t n = c->shape.layout.windows.length;
  const int8_t* const w = (const int8_t*)data->weights + channel * tvmrt_micro_quad_words(c);
  const int32_t* const bias = data->bias + channel;
  (void)tile;
  if (pixels == 2) {
    const uint32_t* const words = (const uint32_t*)(const void*)window;
    tvmrt_micro_2px_accumulate(sums, bias, words, w, n, channels);
  } else {
    tvmrt_micro_1px_accumulate(sums, bias, window, w, n, channels);
  }
}

/*! \brief Position of an element of a channel's window in the packed weights. */
TVMRT_INLINE int32_t tvmrt_micro_packed_at(const tvmrt_micro_conv_i8* c, int32_t channel,
                                           int32_t element) {
  const int32_t quad = channel / 4 * tvmrt_micro_quad_words(c);
  return 4 * (quad + element / TVMRT_MICRO_FLAG_SPAN + 1 + element) + channel % 4;
}

/* the driver with this tile */
#include "conv_i8_driver.h"

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I8_2PX_RV32_H_ */
