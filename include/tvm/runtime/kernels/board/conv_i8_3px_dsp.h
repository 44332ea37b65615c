/*!
 * \file board/conv_i8_3px_dsp.h
 * \brief Two output channels of three neighbouring pixels at a time, with the weights of
 * board/conv_i8_2ch_dsp.h.
 *
 * Weights that lie in slow flash are read once for three pixels. The kernel uses all 14 registers;
 * it therefore names them, and keeps r7, which compilers reserve for frames in some builds, in its
 * arguments.
 *
 * Three windows are [quad][half][pixel]: elements 0 and 2 of the quad of each pixel, then 1 and 3.
 *
 * TVMRT_MICRO_DUAL_ISSUE: the processor loads a word while it multiplies, so that loads stand
 * between multiplications. Else one instruction loads the elements of three pixels.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CONV_I8_3PX_DSP_H_
#define TVM_RUNTIME_KERNELS_BOARD_CONV_I8_3PX_DSP_H_

#include "conv_i8_2ch_dsp.h"

/*! \brief Whether the processor issues a load and a multiplication together. */
#ifndef TVMRT_MICRO_DUAL_ISSUE
#define TVMRT_MICRO_DUAL_ISSUE 0
#endif

#if TVMRT_MICRO_ASM

/* Channels of three pixels whose sums are kept, a multiple of four. */
#define TVMRT_MICRO_3PX_CHUNK (TVMRT_MICRO_ACCUMULATORS / 3 & ~3)

/* n quads of three windows; r3 to r5 have the bytes of a quad. */
#define TVMRT_MICRO_WIDEN_THREE(WIDEN)                                              \
  "1:\nldr r5, [%[from], %[second], lsl #1]\n"                                      \
  "ldr r4, [%[from], %[second]]\nldr r3, [%[from]], #4\n"                           \
  "subs %[n], %[n], #1\n" WIDEN " r6, r3, ror #8\n" WIDEN " r8, r4, ror #8\n" WIDEN \
  " r9, r5, ror #8\n" WIDEN " r3, r3\n" WIDEN " r4, r4\n" WIDEN                     \
  " r5, r5\nstmia %[to]!, {r3-r6, r8, r9}\nbne 1b\n"
#define TVMRT_MICRO_WIDEN_THREE_BY(LOOP)                         \
  __asm volatile(LOOP                                            \
                 : [from] "+r"(from), [to] "+r"(to), [n] "+r"(n) \
                 : [second] "r"(second)                          \
                 : "r3", "r4", "r5", "r6", "r8", "r9", "cc", "memory")

/*!
 * \brief n quads of three windows: from contiguous bytes at `from`, and at `second` and twice
 * `second` bytes after it. The bytes may be in the memory of quads that are written later.
 */
TVMRT_NOINLINE int16_t* tvmrt_micro_widen_three(int16_t* to, const uint8_t* from, int32_t second,
                                                int32_t n, int is_signed) {
  if (is_signed) {
    TVMRT_MICRO_WIDEN_THREE_BY(TVMRT_MICRO_WIDEN_THREE("sxtb16"));
  } else {
    TVMRT_MICRO_WIDEN_THREE_BY(TVMRT_MICRO_WIDEN_THREE("uxtb16"));
  }
  return to;
}

/* n quads of one of three windows, two at a time. */
#define TVMRT_MICRO_WIDEN_THIRD(WIDEN)                                                 \
  "1:\nldr r3, [%[from]], #4\nldr r4, [%[from]], #4\n" WIDEN " r5, r3, ror #8\n" WIDEN \
  " r3, r3\n"                                                                          \
  "str r3, [%[to]]\nstr r5, [%[to], #12]\n" WIDEN " r5, r4, ror #8\n" WIDEN            \
  " r4, r4\n"                                                                          \
  "str r4, [%[to], #24]\nstr r5, [%[to], #36]\n"                                       \
  "add %[to], %[to], #48\nsubs %[n], %[n], #2\nbgt 1b\n"

/*! \brief n quads of one of three windows, n even; `to` is the first of its pixel. */
TVMRT_NOINLINE void tvmrt_micro_widen_third(int16_t* to, const uint8_t* from, int32_t n,
                                            int is_signed) {
  const int32_t second = 0;
  if (is_signed) {
    TVMRT_MICRO_WIDEN_THREE_BY(TVMRT_MICRO_WIDEN_THIRD("sxtb16"));
  } else {
    TVMRT_MICRO_WIDEN_THREE_BY(TVMRT_MICRO_WIDEN_THIRD("uxtb16"));
  }
}

/* Registers: r0 arguments, r1 weights, r2 windows, r3 to r5 their elements, r6 and r7 weights, r8
 * to r10 sums of u by pixel, r11, r12 and lr joint sums. */
#define TVMRT_MICRO_3PX_MULTIPLY(W) \
  "smlad r11, r3, " W               \
  ", r11\n"                         \
  "smlad r12, r4, " W               \
  ", r12\n"                         \
  "smlad lr, r5, " W                \
  ", lr\n"                          \
  "sxtb16 " W ", " W                \
  "\n"                              \
  "smlad r8, r3, " W                \
  ", r8\n"                          \
  "smlad r9, r4, " W                \
  ", r9\n"                          \
  "smlad r10, r5, " W ", r10\n"
/* clang-format off */
#if TVMRT_MICRO_DUAL_ISSUE
/* Half a quad; loads the other weight, and the elements of the next half. */
#define TVMRT_MICRO_3PX_HALF(W, OTHER)            \
  "smlad r11, r3, " W ", r11\n"                   \
  "ldr " OTHER ", [r1], #4\n"                     \
  "smlad r12, r4, " W ", r12\n"                   \
  "smlad lr, r5, " W ", lr\n"                     \
  "sxtb16 " W ", " W "\n"                         \
  "smlad r8, r3, " W ", r8\nldr r3, [r2], #4\n"   \
  "smlad r9, r4, " W ", r9\nldr r4, [r2], #4\n"   \
  "smlad r10, r5, " W ", r10\nldr r5, [r2], #4\n"
#define TVMRT_MICRO_3PX_TWO_QUADS                                         \
  "ldr r6, [r1], #4\nldrd r3, r4, [r2], #8\nldr r5, [r2], #4\n"           \
  TVMRT_MICRO_3PX_HALF("r6", "r7") TVMRT_MICRO_3PX_HALF("r7", "r6")       \
  TVMRT_MICRO_3PX_HALF("r6", "r7") TVMRT_MICRO_3PX_MULTIPLY("r7")
#define TVMRT_MICRO_3PX_JUMP                 \
  "tbh [pc, r6, lsl #1]\n"                   \
  "2:\n.hword (3f-2b)/2, (6f-2b)/2, (5f-2b)/2, (4f-2b)/2\n"
#else
#define TVMRT_MICRO_3PX_QUAD                     \
  "ldrd r6, r7, [r1], #8\n"                      \
  "ldmia r2!, {r3-r5}\n"                         \
  TVMRT_MICRO_3PX_MULTIPLY("r6")                 \
  "ldmia r2!, {r3-r5}\n"                         \
  TVMRT_MICRO_3PX_MULTIPLY("r7")
#define TVMRT_MICRO_3PX_TWO_QUADS TVMRT_MICRO_3PX_QUAD TVMRT_MICRO_3PX_QUAD
#define TVMRT_MICRO_3PX_JUMP \
  "tbb [pc, r6]\n2:\n.byte (3f-2b)/2, (6f-2b)/2, (5f-2b)/2, (4f-2b)/2\n"
#endif
/* clang-format on */

/* Multiply two channels and three windows, eight quads per iteration; the first iteration handles
 * the remainder. The table has halves of the distances from itself. */
#define TVMRT_MICRO_3PX_DOT_PRODUCTS                                          \
  "str r7, [r0, #36]\nldr r1, [r0, #40]\n"                                    \
  "1:\nldrd r8, r11, [r1], #8\nldrd r2, r6, [r0, #24]\n"                      \
  "mov r9, r8\nmov r10, r8\nmov r12, r11\nmov lr, r11\n" TVMRT_MICRO_3PX_JUMP \
  "3:\n" TVMRT_MICRO_3PX_TWO_QUADS "4:\n" TVMRT_MICRO_3PX_TWO_QUADS           \
  "5:\n" TVMRT_MICRO_3PX_TWO_QUADS "6:\n" TVMRT_MICRO_3PX_TWO_QUADS           \
  "ldr r3, [r0, #32]\ncmp r2, r3\nblo 3b\n"                                   \
  "sub r11, r11, r8\nsub r12, r12, r9\nsub lr, lr, r10\n"

/* Requantise the sums as TVMRT_MICRO_2CH_REQUANTIZE; r3 is the address of the first pixel's byte,
 * r4 of the multipliers, r5 and r6 have the rounding offsets. */
#define TVMRT_MICRO_3PX_REQUANTIZE                                                \
  "ldrd r2, r7, [r4], #8\n"                                                       \
  "smmls r8, r8, r2, r5\nsmmls r9, r9, r2, r5\nsmmls r10, r10, r2, r5\n"          \
  "smmls r11, r11, r7, r6\nsmmls r12, r12, r7, r6\nsmmls lr, lr, r7, r6\n"        \
  "ssat r8, #8, r8, asr #4\nssat r9, #8, r9, asr #4\nssat r10, #8, r10, asr #4\n" \
  "ssat r11, #8, r11, asr #12\nssat r12, #8, r12, asr #12\nssat lr, #8, lr, asr #12\n"
#define TVMRT_MICRO_3PX_STORE                                           \
  "10:\nldrd r2, r5, [r0, #16]\n"                                       \
  "strb r10, [r3, r2, lsl #1]\nstrb r9, [r3, r2]\nstrb r8, [r3], #1\n"  \
  "strb lr, [r3, r2, lsl #1]\nstrb r12, [r3, r2]\nstrb r11, [r3], #1\n" \
  "strd r3, r4, [r0]\ncmp r3, r5\nblo 1b\n"

/* Store sums instead; r3 is the address of those of the first pixel. */
#define TVMRT_MICRO_3PX_STORE_SUMS                                           \
  "b 8f\n7:\nldrd r2, r5, [r0, #16]\n"                                       \
  "asr r11, r11, #8\nasr r12, r12, #8\nasr lr, lr, #8\n"                     \
  "add r6, r3, r2\nstrd r9, r12, [r6]\nadd r6, r6, r2\nstrd r10, lr, [r6]\n" \
  "strd r8, r11, [r3], #8\nstr r3, [r0]\ncmp r3, r5\nblo 1b\n"

/* Choose by r4 and r6. In files with layers that round twice, most layers do. */
#if TVMRT_MICRO_ROUNDS_TWICE
/* clang-format off */
#define TVMRT_MICRO_3PX_SUM(R)          \
  "smmlar " R ", " R ", r2, " R "\n"    \
  "add " R ", " R ", " R ", asr #31\n"  \
  "asr " R ", " R ", r7\n"              \
  "add " R ", " R ", r5\n"              \
  "ssat " R ", #8, " R ", asr #1\n"
#define TVMRT_MICRO_3PX_TWICE(R0, R1, R2) \
  "ldrd r2, r7, [r4], #8\n"               \
  TVMRT_MICRO_3PX_SUM(R0)                 \
  TVMRT_MICRO_3PX_SUM(R1)                 \
  TVMRT_MICRO_3PX_SUM(R2)
#define TVMRT_MICRO_3PX_FINISH                               \
  "cmp r4, #0\nbeq 7f\ncmp r6, #0\nbne 9f\n"                 \
  "asr r11, r11, #8\nasr r12, r12, #8\nasr lr, lr, #8\n"     \
  TVMRT_MICRO_3PX_TWICE("r8", "r9", "r10")                   \
  TVMRT_MICRO_3PX_TWICE("r11", "r12", "lr")                  \
  TVMRT_MICRO_3PX_STORE TVMRT_MICRO_3PX_STORE_SUMS           \
  "b 8f\n9:\n" TVMRT_MICRO_3PX_REQUANTIZE "b 10b\n"
/* clang-format on */
#else
#define TVMRT_MICRO_3PX_FINISH \
  "cbz r4, 7f\n" TVMRT_MICRO_3PX_REQUANTIZE TVMRT_MICRO_3PX_STORE TVMRT_MICRO_3PX_STORE_SUMS
#endif

/*! \brief Two channels of three pixels at a time. */
TVMRT_INLINE void tvmrt_micro_2ch_3px(tvmrt_micro_2ch_args* run) {
  register tvmrt_micro_2ch_args* args __asm("r0") = run;
  __asm volatile(TVMRT_MICRO_3PX_DOT_PRODUCTS "ldmia r0, {r3-r6}\n" TVMRT_MICRO_3PX_FINISH
                                              "8:\nldr r7, [r0, #36]\n"
                 : "+r"(args)
                 :
                 : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc",
                   "memory");
}

/*!
 * \brief Accumulate channels of two pixels, [pixel][TVMRT_MICRO_CHUNK], or of three,
 * [pixel][TVMRT_MICRO_3PX_CHUNK]; if y is not NULL, requantise all channels, y being the bytes of
 * the first pixel.
 */
TVMRT_NOINLINE void tvmrt_micro_2ch_pixels(const tvmrt_micro_conv_i8* c,
                                           const tvmrt_micro_data* data, const int16_t* window,
                                           int32_t pixels, int32_t channel, int32_t* sums,
                                           int32_t channels, uint8_t* y) {
  const int32_t twice = TVMRT_MICRO_IS_TWICE(&c->range);
  const int32_t half = twice ? c->range.zero * 2 + 1 : c->range.zero * 16 + 8;
  const int32_t n = c->shape.layout.windows.length;
  tvmrt_micro_2ch_args run = {
      .at = sums,
      .multipliers = NULL,
      .half = half,
      .half_upper = twice ? 0 : half * 256,
      .stride = 4 * TVMRT_MICRO_3PX_CHUNK,
      .end = sums + channels,
      .window = window,
      .rest = (n >> 3) & 3,
      .window_end = window + pixels * n,
      .frame = 0,
      .weights = tvmrt_micro_2ch_weights(c, data, channel),
  };
  if (y != NULL) {
    run.at = y;
    run.multipliers = data->multipliers;
    run.stride = c->shape.y_stride;
    run.end = y + channels;
  }
  if (pixels == 3) {
    tvmrt_micro_2ch_3px(&run);
  } else {
    tvmrt_micro_2ch_2px(&run);
  }
}

#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_CONV_I8_3PX_DSP_H_ */
