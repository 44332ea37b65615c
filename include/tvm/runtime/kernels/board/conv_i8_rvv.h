/*!
 * \file board/conv_i8_rvv.h
 * \brief Dense int8 layers with the RISC-V vector extension; vectors hold output channels.
 *
 * Each element of a window is a scalar multiplied with a vector of weights, one for each output
 * channel. Both are int16 and accumulate in 32 bits. uint8 activations are shifted by 128 while
 * they are copied; the folded bias compensates. Two pixels share the loaded weights.
 *
 * Packed weights: int8 [element of the window][output channel], with elements of zeros to a
 * multiple of eight. Values, errors and threads: see board/conv_i8_driver.h.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_RVV_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I8_RVV_H_

#include "common_i8.h"

#define TVMRT_MICRO_GROUP 4
#define TVMRT_MICRO_UNIT 8
typedef int8_t tvmrt_micro_element;

TVMRT_NOINLINE tvmrt_micro_element* tvmrt_micro_copy_groups(tvmrt_micro_element* to, int32_t step,
                                                            const uint8_t* from, int32_t n,
                                                            int is_signed) {
  const int32_t flip = is_signed ? 0 : 0x80;
  int32_t groups = n / TVMRT_MICRO_GROUP;
#if TVMRT_MICRO_RVV
  if (step == TVMRT_MICRO_GROUP) {
    tvmrt_micro_rvv_copy((uint8_t*)to, from, n, flip);
    return to + n;
  }
  int32_t vl, bytes;
  __asm volatile(
      TVMRT_MICRO_RVV_ON
      "1:\nvsetvli %[vl], %[groups], e32, m8, ta, ma\nslli %[bytes], %[vl], 2\n"
      "vsetvli zero, %[bytes], e8, m8, ta, ma\nvle8.v v8, (%[from])\n"
      "add %[from], %[from], %[bytes]\nvxor.vx v8, v8, %[flip]\n"
      "vsetvli zero, %[vl], e32, m8, ta, ma\nsub %[groups], %[groups], %[vl]\n"
      "vsse32.v v8, (%[to]), %[step]\nslli %[bytes], %[vl], 3\nadd %[to], %[to], %[bytes]\n"
      "bnez %[groups], 1b\n" TVMRT_MICRO_RVV_OFF
      :
      [to] "+r"(to), [from] "+r"(from), [groups] "+r"(groups), [vl] "=&r"(vl), [bytes] "=&r"(bytes)
      : [flip] "r"(flip), [step] "r"(step)
      : TVMRT_MICRO_RVV_CHANGES);
#else
  for (; groups > 0; groups--, from += TVMRT_MICRO_GROUP, to += step) {
    for (int i = 0; i < TVMRT_MICRO_GROUP; i++) to[i] = (int8_t)(from[i] ^ flip);
  }
#endif
  return to;
}

#if TVMRT_MICRO_RVV
/* Multiply an element of one pixel, and of two, with the weights of all channels in a vector. */
#define TVMRT_MICRO_RVV_ONE(BYTES, WEIGHTS, AT)                     \
  "vle8.v " BYTES ", (%[w])\nadd %[w], %[w], %[step]\nlb %[a], " AT \
  "(%[x])\n"                                                        \
  "vsext.vf2 " WEIGHTS ", " BYTES "\nvwmacc.vx v8, %[a], " WEIGHTS "\n"
#define TVMRT_MICRO_RVV_TWO(BYTES, WEIGHTS, AT, OTHER)              \
  "vle8.v " BYTES ", (%[w])\nadd %[w], %[w], %[step]\nlb %[a], " AT \
  "(%[x])\n"                                                        \
  "lb %[b], " OTHER "(%[x])\nvsext.vf2 " WEIGHTS ", " BYTES         \
  "\n"                                                              \
  "vwmacc.vx v8, %[a], " WEIGHTS "\nvwmacc.vx v16, %[b], " WEIGHTS "\n"

/* tvmrt_micro_rvv_accumulate_PIXELS(): accumulate some channels of one output pixel, and of two
 * neighbouring ones. BEGIN and END are the additions for the second one: its biases, and the store
 * of its sums. */
#define TVMRT_MICRO_RVV_ACCUMULATE(PIXELS, BEGIN, PRODUCTS, END)                                  \
  TVMRT_NOINLINE void tvmrt_micro_rvv_accumulate_##PIXELS(                                        \
      int32_t* sums, const int32_t* bias, const int8_t* window, const int8_t* weights, int32_t n, \
      int32_t step, int32_t channels) {                                                           \
    const int8_t* const end = window + (PIXELS) * n;                                              \
    while (channels > 0) {                                                                        \
      const int8_t *x = window, *w = weights;                                                     \
      int32_t vl, a, b;                                                                           \
      __asm volatile(TVMRT_MICRO_RVV_ON                                                           \
                     "vsetvli %[vl], %[n], e32, m8, ta, ma\nvle32.v v8, (%[bias])\n" BEGIN        \
                     "vsetvli zero, zero, e16, m4, ta, ma\n1:\n" PRODUCTS                         \
                     "addi %[x], %[x], 4 * " #PIXELS                                              \
                     "\nbne %[x], %[end], 1b\nvsetvli zero, zero, e32, m8, ta, ma\n" END          \
                     "vse32.v v8, (%[sums])\n" TVMRT_MICRO_RVV_OFF                                \
                     : [x] "+r"(x), [w] "+r"(w), [vl] "=&r"(vl), [a] "=&r"(a), [b] "=&r"(b)       \
                     : [n] "r"(channels), [bias] "r"(bias), [sums] "r"(sums), [end] "r"(end),     \
                       [step] "r"(step), [chunk] "i"(TVMRT_MICRO_CHUNK * 4)                       \
                     : TVMRT_MICRO_RVV_CHANGES);                                                  \
      sums += vl;                                                                                 \
      bias += vl;                                                                                 \
      weights += vl;                                                                              \
      channels -= vl;                                                                             \
    }                                                                                             \
  }
TVMRT_MICRO_RVV_ACCUMULATE(1, "",
                           TVMRT_MICRO_RVV_ONE("v0", "v4", "0")
                               TVMRT_MICRO_RVV_ONE("v24", "v28", "1")
                                   TVMRT_MICRO_RVV_ONE("v2", "v4", "2")
                                       TVMRT_MICRO_RVV_ONE("v26", "v28", "3"),
                           "")
TVMRT_MICRO_RVV_ACCUMULATE(2, "vmv.v.v v16, v8\n",
                           TVMRT_MICRO_RVV_TWO("v0", "v4", "0", "4")
                               TVMRT_MICRO_RVV_TWO("v24", "v28", "1", "5")
                                   TVMRT_MICRO_RVV_TWO("v2", "v4", "2", "6")
                                       TVMRT_MICRO_RVV_TWO("v26", "v28", "3", "7"),
                           "addi %[a], %[sums], %[chunk]\nvse32.v v16, (%[a])\n")
#endif

TVMRT_INLINE void tvmrt_micro_conv_accumulate(const tvmrt_micro_conv_i8* c,
                                              const tvmrt_micro_data* data, int32_t* sums,
                                              const tvmrt_micro_element* window, int32_t pixels,
                                              int32_t channel, int32_t channels, int tile) {
  const int32_t n = c->shape.layout.windows.length, step = c->shape.out_c;
  const int8_t* const w = (const int8_t*)data->weights + channel;
  const int32_t* const bias = data->bias + channel;
  (void)tile;
#if TVMRT_MICRO_RVV
  if (pixels == 2) {
    tvmrt_micro_rvv_accumulate_2(sums, bias, window, w, n, step, channels);
  } else {
    tvmrt_micro_rvv_accumulate_1(sums, bias, window, w, n, step, channels);
  }
#else
  for (int32_t p = 0; p < pixels; p++) {
    for (int32_t i = 0; i < channels; i++) {
      const int8_t* x = window + p * TVMRT_MICRO_GROUP;
      int32_t sum = bias[i];
      for (int32_t k = 0; k < n; k += TVMRT_MICRO_GROUP, x += pixels * TVMRT_MICRO_GROUP) {
        for (int32_t j = 0; j < TVMRT_MICRO_GROUP; j++) {
          TVMRT_WRAP_ADD_TO(sum, x[j] * w[(k + j) * step + i]);
        }
      }
      sums[p * TVMRT_MICRO_CHUNK + i] = sum;
    }
  }
#endif
}

/*! \brief Position of an element of a channel's window in the packed weights. */
TVMRT_INLINE int32_t tvmrt_micro_packed_at(const tvmrt_micro_conv_i8* c, int32_t channel,
                                           int32_t element) {
  return element * c->shape.out_c + channel;
}

/* the driver with this tile */
#include "conv_i8_driver.h"

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I8_RVV_H_ */
