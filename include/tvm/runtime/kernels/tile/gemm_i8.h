/*!
 * \file tile/gemm_i8.h
 * \brief The micro-kernel of all dense integer layers: MR pixels x NR vectors of channels.
 *
 * A tile accumulates, for MR output pixels and NR * LANES output channels, the products of the
 * bytes in a window of the input with packed weights. It stores the sums as int32 or requantised as
 * bytes. The window is a list of segments: runs of `run` contiguous bytes. A convolution without
 * dilation has one run of KW * IC bytes per kernel row. A dilated or grouped one has a run of IC /
 * groups bytes per tap, a matrix product a single run of K bytes. run is at least 4.
 *
 * Packed weights:
 *
 *     [block of NR vectors][segment][quad of the run][vector][quad of weights, see tile/simd_i8.h]
 *
 * A quad is four contiguous bytes, the operands of one dot-product lane. If the length of a run is
 * not a multiple of 4, its last quad starts at run - 4, and bytes that the previous quad has
 * counted have the weight 0 in it. So nothing is read outside a run. Channels past the last have
 * weights of 0; bias, scale and shift have an entry for each of them too.
 *
 * Example: TVMRT_I8_PLAIN (1 lane), NR 2, one segment, run 6, weights a0 .. a5 of one channel and
 * b0 .. b5 of the other are packed as
 *
 *     a0 a1 a2 a3   b0 b1 b2 b3   0 0 a4 a5   0 0 b4 b5
 *
 * where the last two quads are multiplied with the input bytes 2, 3, 4, 5.
 *
 * A multi-versioned library has these weights once, in the order of the widest ISA level, int8
 * [lane][4]: a narrower tile reads its lanes from each quad of the block.
 *
 * Values: x is the input with zero point zx; w, zw the weight and its zero point of a channel; x'
 * is x as the format multiplies it: x, x + 128 or x - 128; zx' likewise.
 *
 *     q    = w - zw - shift                      int8; int16 for AVX2, where shift is 0
 *     bias = bias of the layer - zx' * sum(w - zw) + shift * K * (x' - x)
 *     sum(x' * q) + shift * sum(x) + bias  =  sum((x - zx) * (w - zw)) + bias of the layer
 *
 * Weights minus their zero point may not fit into int8 (uint8 weights, for example). There are two
 * remedies:
 *
 *     overflow quads  The few quads that contain such a weight of any channel are multiplied a
 *                     second time, by the remainder of the weights, and those with 255 a third
 *                     time. These weights follow those of the last segment; shift is 0.
 *     shift           If there are many: a per-channel shift makes q fit int8. The sum of the
 *                     window, computed once per pixel for all channels, compensates.
 *
 * The output is y = clamp(round(float32(sum) * scale) + zero), ties to even: bit-identical to
 * ONNX's QLinearConv with scale = float32(x_scale * w_scale) / y_scale. |sum * scale| must be below
 * 2 ^ 31, which any sensible scale ensures. A tile with one of TVMRT_ROUND_* as its epilogue
 * requantises by fixed-point multipliers instead, see tile/simd_i8.h.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_GEMM_I8_H_
#define TVM_RUNTIME_KERNELS_TILE_GEMM_I8_H_

#include "simd_i8.h"

/*! \brief Maximum vectors of channels and pixels in one tile. */
#define TVMRT_TILE_I8_MAX_NR 8
#define TVMRT_TILE_I8_MAX_MR 16
/*! \brief Maximum accumulator vectors in one tile, limited by the registers. */
#define TVMRT_TILE_I8_MAX_ACCUMULATORS 32
/*! \brief Maximum overflow quads, which are counted twice. */
#define TVMRT_TILE_I8_MAX_OVERFLOW_QUADS 16

/*! \brief Packed weights of a vector of channels; AMX tiles have up to 4. */
typedef struct tvmrt_i8_vector {
  const int8_t* weights;
  int64_t step; /*!< Bytes from quad to quad. */
} tvmrt_i8_vector;

struct tvmrt_fused_add_i8;

/*! \brief State of a task for AMX tiles, see tile/gemm_i8_amx.h. */
typedef struct tvmrt_tile_i8_amx {
  tvmrt_i8_vector vector[4]; /*!< Replaces weights and w_step of the tile's arguments. */
  int32_t words;             /*!< Quads per instruction. */
  int32_t configured;        /*!< Pixels that the registers are configured for, initially 0. */
  int32_t tiles;             /*!< Tiles of a call. */
  int32_t left;        /*!< Tail pixels of a call; an additional tile overlaps preceding pixels. */
  uintptr_t ahead;     /*!< Address of the next weights to prefetch; tiles advance it. */
  uintptr_t ahead_end; /*!< End of the weights to prefetch. */
  int32_t ahead_lines; /*!< Lines to prefetch per product, half as many per stored line; 0: none. */
  int32_t padded_pitch; /*!< If y is pixel 0 of an image: row pitch in pixels. */
  int32_t valid;        /*!< Valid pixels of such a row. */
  int32_t image;        /*!< Index of the image in the padded copy. */
  const struct tvmrt_fused_add_i8* fused_add; /*!< Constants of a quick residual add. */
} tvmrt_tile_i8_amx;

/*! \brief Shared data of the tiles of one block of channels; borrowed for the call. */
typedef struct tvmrt_tile_i8_args {
  const uint8_t* const* segment; /*!< Start of every segment for the pixel at offset 0. */
  int32_t segments;              /*!< Number of segments. */
  int32_t run;                   /*!< Bytes in a segment, at least 4. */
  int64_t x_step;                /*!< Bytes between the windows of neighbouring output pixels. */
  int64_t x_pixel;               /*!< Pixel stride of the input in bytes; for depthwise. */
  const int8_t* weights;         /*!< Packed weights of this block. */
  int64_t w_step;                /*!< Bytes from quad to quad in tiles of shared weights. */
  const int32_t* bias;           /*!< Folded bias of this block's channels. */
  const float* scale;            /*!< Multiplier per channel; not used for int32 output. */
  int64_t fixed_stride; /*!< Entries of an array of fixed-point constants, see tile/simd_i8.h. */
  const int32_t* shift; /*!< Weight shifts, multiplied with sum(x); NULL: all are 0. */
  const int32_t* overflow_quads; /*!< {segment, first byte} of the overflow quads. */
  int32_t num_overflow_quads;    /*!< Number of those quads. */
  const tvmrt_i8_range* range;   /*!< Output in bytes; NULL: int32 sums. */
  int64_t y_step;                /*!< Pixel stride of the output in elements. */
  int32_t channels; /*!< Channels to store; 1 to NR * LANES. Always all for int32 sums. */
  const tvmrt_add_i8* residual_add; /*!< Residual add of `added`; divisor 1. NULL: none. */
  const uint8_t* added;             /*!< First channel of the block in the tile's first pixel. */
  int64_t added_step;               /*!< Pixel stride of `added` in bytes. */
  tvmrt_tile_i8_amx* amx;           /*!< NULL for all other tiles. */
} tvmrt_tile_i8_args;

/*!
 * \brief A tile function.
 * \param a      [in] Shared data of the tiles of the block.
 * \param offset [in] Bytes from the segment pointers to the window of the tile's first pixel.
 * \param y      [out] First channel of the block in the first pixel: uint8_t*, int8_t* or int32_t*.
 * \param sums   [in] sum(x) over the window of each of the MR pixels; NULL if shift is NULL.
 */
typedef void (*tvmrt_tile_i8)(const tvmrt_tile_i8_args* a, int64_t offset, void* y,
                              const int32_t* sums);

/*! \brief One quad of inputs for all pixels times one quad of weights for all channels; is_shared
 * is a literal. */
TVMRT_INLINE void tvmrt_tile_i8_quad(int nr, int mr, int is_signed, int is_shared,
                                     const uint8_t* const* x, int64_t k, int64_t step,
                                     const int8_t* weights,
                                     tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR]) {
  tvmrt_i8_weights w[TVMRT_TILE_I8_MAX_NR];
  TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) w[o] =
      is_shared ? tvmrt_i8_shared_load(weights + o * (4 * TVMRT_I8_LANES))
                : tvmrt_i8_weights_load(weights + o * TVMRT_I8_QUAD_BYTES);
  TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
    tvmrt_i8_quad quad = tvmrt_i8_quad_load(x[t / 3] + (t % 3) * step + k, is_signed);
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) acc[t][o] = tvmrt_i8_dot(acc[t][o], quad, w[o]);
  }
}

/*! \brief Type of a tile's residual. A tile's epilogue, a literal in its functions, is such a type,
 * one of TVMRT_ROUND_*, or both. */
#define TVMRT_RESIDUAL_NONE 0
#define TVMRT_RESIDUAL_U8 1
#define TVMRT_RESIDUAL_S8 2
#define TVMRT_RESIDUAL_TYPE_MASK 3 /* mask of these */
#define TVMRT_HAS_RESIDUAL(epilogue) (((epilogue)&TVMRT_RESIDUAL_TYPE_MASK) != 0)
/*! \brief Residual of AMX tiles with a->amx->fused_add, see tile/requantize_i8_amx.h. */
#define TVMRT_RESIDUAL_FUSED 4
#define TVMRT_RESIDUAL_U8_FUSED (TVMRT_RESIDUAL_U8 | TVMRT_RESIDUAL_FUSED)
#define TVMRT_RESIDUAL_S8_FUSED (TVMRT_RESIDUAL_S8 | TVMRT_RESIDUAL_FUSED)

/*! \brief Store the requantised sums of a tile with fewer than nr * LANES channels. */
TVMRT_RARELY_CALLED void tvmrt_tile_i8_store_some(int nr, int mr, int epilogue,
                                                  const tvmrt_tile_i8_args* a, uint8_t* y,
                                                  tvmrt_i8_acc* q) {
  for (int t = 0; t < mr; t++, q += nr) {
    if (TVMRT_HAS_RESIDUAL(epilogue)) {
      uint8_t added[TVMRT_TILE_I8_MAX_NR * TVMRT_I8_LANES] = {0};
      memcpy(added, a->added + t * a->added_step, (size_t)a->channels);
      for (int o = 0; o < nr; o++) {
        const uint8_t* of = added + o * TVMRT_I8_LANES;
        q[o] = tvmrt_i8_add_residual(q[o], a->range, a->residual_add, of,
                                     (epilogue & TVMRT_RESIDUAL_TYPE_MASK) == TVMRT_RESIDUAL_S8);
      }
    }
    for (int o = 0; o < nr; o += 4) {
      const int max_lanes = (nr - o < 4 ? nr - o : 4) * TVMRT_I8_LANES;
      const int left = a->channels - o * TVMRT_I8_LANES;
      if (left <= 0) break;
      tvmrt_i8_store_packed(y + t * a->y_step + o * TVMRT_I8_LANES, q[o], q[o + 1 < nr ? o + 1 : o],
                            q[o + 2 < nr ? o + 2 : o], q[o + 3 < nr ? o + 3 : o],
                            TVMRT_HAS_RESIDUAL(epilogue) ? &a->residual_add->range : a->range,
                            left < max_lanes ? left : max_lanes);
    }
  }
}

/*! \brief Store a tile as bytes; nr, mr and epilogue are literals. Four vectors are packed at once,
 * from several pixels if one has fewer. */
TVMRT_INLINE void tvmrt_tile_i8_store(int nr, int mr, int epilogue, const tvmrt_tile_i8_args* a,
                                      uint8_t* y,
                                      tvmrt_i8_acc q[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR]) {
  /* Copies: stored bytes might alias *a. */
  const float* scale = a->scale;
  const int64_t step = a->y_step, stride = a->fixed_stride;
  const int pixels = nr == 1 ? 4 : nr == 2 ? 2 : 1;
  const int together = mr / pixels * pixels;
  tvmrt_i8_range range = *a->range;
  TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) q[t][o] =
        tvmrt_i8_requantize(epilogue, q[t][o], scale + o * TVMRT_I8_LANES, stride);
  }
  if (a->channels < nr * TVMRT_I8_LANES) {
    tvmrt_i8_acc partial[TVMRT_TILE_I8_MAX_ACCUMULATORS];
    TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
      TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) partial[t * nr + o] = q[t][o];
    }
    tvmrt_tile_i8_store_some(nr, mr, epilogue, a, y, partial);
    return;
  }
  if (TVMRT_HAS_RESIDUAL(epilogue)) {
    const tvmrt_add_i8 by = *a->residual_add;
    TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
      TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) q[t][o] = tvmrt_i8_add_residual(
          q[t][o], &range, &by, a->added + t * a->added_step + o * TVMRT_I8_LANES,
          (epilogue & TVMRT_RESIDUAL_TYPE_MASK) == TVMRT_RESIDUAL_S8);
    }
    range = by.range;
  }
  if (pixels > 1) {
    TVMRT_UNROLL_ALL for (int t = 0; t < together; t += pixels) {
      tvmrt_i8_store_pixels(y + t * step, step, pixels, q[t][0], nr > 1 ? q[t][1] : q[t + 1][0],
                            nr > 1 ? q[t + 1][0] : q[t + 2][0], nr > 1 ? q[t + 1][1] : q[t + 3][0],
                            &range);
    }
  }
  TVMRT_UNROLL_ALL for (int t = pixels > 1 ? together : 0; t < mr; t++) {
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o += 4) {
      const int vectors = nr - o < 4 ? nr - o : 4;
      tvmrt_i8_store_packed(y + t * step + o * TVMRT_I8_LANES, q[t][o], q[t][o + (vectors > 1)],
                            q[t][vectors > 2 ? o + 2 : o], q[t][vectors > 3 ? o + 3 : o], &range,
                            vectors * TVMRT_I8_LANES);
    }
  }
}

/*! \brief Store the sums of a tile as int32 or bytes, with the shift compensated; nr, mr and epilogue
 * are literals. */
TVMRT_INLINE void tvmrt_tile_i8_finish(
    int nr, int mr, int epilogue, const tvmrt_tile_i8_args* a, void* y, const int32_t* sums,
    tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR]) {
  if (sums != NULL) {
    TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
      TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) {
        acc[t][o] = tvmrt_i8_add_shifted(acc[t][o], a->shift + o * TVMRT_I8_LANES, sums[t]);
      }
    }
  }
  if (a->range != NULL) {
    tvmrt_tile_i8_store(nr, mr, epilogue, a, (uint8_t*)y, acc);
  } else {
    TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
      TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) {
        tvmrt_i8_acc_store((int32_t*)y + t * a->y_step + o * TVMRT_I8_LANES, acc[t][o]);
      }
    }
  }
}

/*! \brief Add the products of all quads to the sums of a tile, which start with the bias; nr, mr,
 * is_signed and is_shared are literals. */
TVMRT_INLINE void tvmrt_tile_i8_add(int nr, int mr, int is_signed, int is_shared,
                                    const tvmrt_tile_i8_args* a, int64_t offset,
                                    tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR]) {
  const int8_t* weights = a->weights;
  const int64_t step = a->x_step, w_step = is_shared ? a->w_step : nr * TVMRT_I8_QUAD_BYTES;
  const int32_t run = a->run;
  /* For small code, the last quad of a run is another iteration of the loop. */
  const int32_t whole = TVMRT_I8_LANES > 1 ? run - 3 : run;
  for (int32_t s = 0; s < a->segments; s++) {
    const uint8_t* x[(TVMRT_TILE_I8_MAX_MR + 2) / 3];
    int32_t k = 0;
    TVMRT_UNROLL_ALL for (int t = 0; t < mr; t += 3) x[t / 3] = a->segment[s] + offset + t * step;
    for (; k < whole; k += 4, weights += w_step) {
      const int32_t at = TVMRT_I8_LANES > 1 || k + 4 <= run ? k : run - 4;
      tvmrt_tile_i8_quad(nr, mr, is_signed, is_shared, x, at, step, weights, acc);
    }
    if (k < run) {
      tvmrt_tile_i8_quad(nr, mr, is_signed, is_shared, x, run - 4, step, weights, acc);
      weights += w_step;
    }
  }
  for (int32_t e = 0; e < a->num_overflow_quads; e++, weights += w_step) {
    const uint8_t* x[(TVMRT_TILE_I8_MAX_MR + 2) / 3];
    const uint8_t* start =
        a->segment[a->overflow_quads[2 * e]] + a->overflow_quads[2 * e + 1] + offset;
    TVMRT_UNROLL_ALL for (int t = 0; t < mr; t += 3) x[t / 3] = start + t * step;
    tvmrt_tile_i8_quad(nr, mr, is_signed, is_shared, x, 0, step, weights, acc);
  }
}

#if TVMRT_I8_FORMAT == TVMRT_I8_NEON_I8MM
#include "gemm_i8_i8mm.h"
#endif

/*! \brief The tile; nr, mr, is_signed, is_shared and epilogue are literals. */
TVMRT_INLINE void tvmrt_tile_i8_body(int nr, int mr, int is_signed, int is_shared, int epilogue,
                                     const tvmrt_tile_i8_args* a, int64_t offset, void* y,
                                     const int32_t* sums) {
  tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR];
  TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) acc[t][o] =
        tvmrt_i8_acc_load(a->bias + o * TVMRT_I8_LANES);
  }
#if TVMRT_I8_FORMAT == TVMRT_I8_NEON_I8MM
  if (mr > 1) {
    tvmrt_i8mm_tile(nr, mr, is_signed, is_shared, a, offset, acc);
  } else {
    tvmrt_tile_i8_add(nr, mr, is_signed, is_shared, a, offset, acc);
  }
#else
  tvmrt_tile_i8_add(nr, mr, is_signed, is_shared, a, offset, acc);
#endif
  tvmrt_tile_i8_finish(nr, mr, epilogue, a, y, sums, acc);
}

/*!
 * \brief Define one tile as a function that is compiled once in this file.
 *
 *     TVMRT_DEFINE_TILE_I8(tile_i8_4x6_u8, 4, 6, 0, 0, TVMRT_RESIDUAL_NONE)
 *
 * \param name      of the function, a tvmrt_tile_i8.
 * \param nr        vectors of output channels, 1 to 8.
 * \param mr        pixels, 1 to 16.
 * \param is_signed 1 if the input is int8, 0 if it is uint8.
 * \param is_shared 1 for weights packed for a wider ISA level: a part of one of its blocks.
 * \param epilogue  type of the residual, TVMRT_RESIDUAL_*, and rounding, TVMRT_ROUND_*.
 */
#define TVMRT_DEFINE_TILE_I8(name, nr, mr, is_signed, is_shared, epilogue)          \
  TVMRT_NOINLINE void name(const tvmrt_tile_i8_args* a, int64_t offset, void* y,    \
                           const int32_t* sums) {                                   \
    tvmrt_tile_i8_body(nr, mr, is_signed, is_shared, epilogue, a, offset, y, sums); \
  }

#if TVMRT_I8_CAN_AVX2
/*! \brief The sum of the four 64-bit lanes, which is small. */
TVMRT_INLINE int32_t tvmrt_i8_sum_lanes(__m256i v) {
  __m128i half = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  return _mm_cvtsi128_si32(_mm_add_epi64(half, _mm_unpackhi_epi64(half, half)));
}
#endif

/*! \brief sum(x) over one run of n bytes. */
TVMRT_INLINE int32_t tvmrt_i8_sum_run(const uint8_t* x, int64_t n, int is_signed) {
  int32_t sum = 0;
  int64_t i = 0;
#if TVMRT_I8_CAN_AVX2
  const __m256i flip = _mm256_set1_epi8((char)(is_signed ? 128 : 0));
  const __m256i none = _mm256_setzero_si256();
  __m256i wide = none;
  for (; i + 32 <= n; i += 32) {
    __m256i v = _mm256_xor_si256(_mm256_loadu_si256((const __m256i*)(x + i)), flip);
    wide = _mm256_add_epi64(wide, _mm256_sad_epu8(v, none));
  }
#if TVMRT_I8_CAN_VNNI
  if (i < n) {
    __mmask32 first = (__mmask32)(((uint64_t)1 << (n - i)) - 1);
    __m256i v = _mm256_maskz_mov_epi8(first, _mm256_maskz_loadu_epi8(first, x + i) ^ flip);
    wide = _mm256_add_epi64(wide, _mm256_sad_epu8(v, none));
    i = n;
  }
#endif
  sum = tvmrt_i8_sum_lanes(wide) - (is_signed ? (int32_t)i * 128 : 0);
#endif
  for (; i < n; i++) sum += is_signed ? (int32_t)((const int8_t*)x)[i] : (int32_t)x[i];
  return sum;
}

/*! \brief sum(x) over the windows of `pixels` neighbouring output pixels. */
static inline void tvmrt_i8_sum_windows(const tvmrt_tile_i8_args* a, int64_t offset, int32_t pixels,
                                        int is_signed, int32_t* sums) {
  for (int32_t p = 0; p < pixels; p++) {
    int32_t sum = 0;
    for (int32_t s = 0; s < a->segments; s++) {
      sum += tvmrt_i8_sum_run(a->segment[s] + offset + p * a->x_step, a->run, is_signed);
    }
    sums[p] = sum;
  }
}

#endif /* TVM_RUNTIME_KERNELS_TILE_GEMM_I8_H_ */
