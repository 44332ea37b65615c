/*!
 * \file tile/gemm_f32.h
 * \brief The float32 micro-kernel: MR pixels times NR vectors of V output channels.
 *
 * Convolutions, matrix products and transposed convolutions are loops around this one function. A
 * tile computes, for t < MR and c < NR * V,
 *
 *   out[t][c] = clamp(bias[c] + sum + residual[t][c], lo, hi)
 *   sum       = sum of  s.x[t * x_stride + k] * w[s.w + k * w_stride + c]  over segments s, k < run
 *
 * and keeps all MR * NR accumulators in registers. It is instantiated once per file for each shape
 * that the file needs; the lines
 *
 *   TVMRT_DEFINE_TILE_F32(16, 2, 14)
 *   TVMRT_DEFINE_TILE_F32(16, 2, 6)
 *
 * define tvmrt_tile_f32_16x2x14 (V = 16 lanes, NR = 2, MR = 14) and, for the tail of rows of 14 n +
 * 6 pixels, tvmrt_tile_f32_16x2x6.
 *
 * A tile with few accumulators splits each sum into several parts, so its order of additions
 * differs from a wide tile's. To avoid this, TVMRT_DEFINE_TAIL_F32(16, 2, 3, 1) defines
 * tvmrt_tail_f32_16x2x3x1, whose sums have one part like those of 16 x 2 x 14.
 *
 * Packed weights: the output channels are divided into blocks of NR * V, the last one zero-padded.
 * A block holds NR * V neighbouring channels for every element of the window, in the order of the
 * segments. Worked example, a 1x2 convolution of 2 input and 3 output channels with V = 2, NR = 1
 * (w[oc][ic][kw] without brackets):
 *
 *   block 0: w000 w100, w010 w110, w001 w101, w011 w111
 *   block 1: w200 0,    w210 0,    w201 0,    w211 0
 *
 * A block may also be a multiple of NR * V. A tile then reads NR * V neighbouring channels of it,
 * and tiles of several vector widths share the weights.
 *
 * The bias is zero-padded likewise: 3 channels take 4 floats. tvmrt.compiler.codegen.window writes
 * both: tiles_f32, packing_f32.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_GEMM_F32_H_
#define TVM_RUNTIME_KERNELS_TILE_GEMM_F32_H_

#include <stddef.h>
#include <tvm/runtime/c_backend_api.h>

#include "simd.h"

/*!
 * \brief One contiguous run of input under the first pixel of a row, and the offset of its weights
 * in a block.
 */
typedef struct tvmrt_segment_f32 {
  /*! \brief First float of the run; tile t of the row reads x + x_offset + t * x_stride. */
  const float* x;
  /*! \brief Offset, in floats, of the run's weights from the start of the block. */
  int64_t w;
} tvmrt_segment_f32;

/*! \brief Shared data of all tiles of a row. Lengths and strides are in floats. */
typedef struct tvmrt_tile_f32 {
  const tvmrt_segment_f32* segments;
  int64_t segment_count;
  /*! \brief Floats in a run: KW * IC, or IC if the window's columns do not touch. */
  int64_t run;
  /*! \brief Stride of neighbouring output pixels' windows in the input. */
  int64_t x_stride;
  /*! \brief Stride of the weights between neighbouring k: the channels of a block if packed. */
  int64_t w_stride;
  int64_t out_stride;
  int64_t residual_stride;
  /*!
   * \brief Prefetch address for weights or pixels: the tile prefetches the line at fetch + k *
   * fetch_step bytes for each k, counted over its segments; 0 for none. The memory need not exist.
   */
  uintptr_t fetch;
  int64_t fetch_step;
  /*! \brief Clamp bounds; -INFINITY and INFINITY for none. NaN passes. */
  float lo;
  float hi;
  /*! \brief Bytes after a tile's weights that it may prefetch: their offset and size; 0 for
   * none. */
  int64_t ahead;
  int64_t ahead_bytes;
} tvmrt_tile_f32;

/*!
 * \brief A tile function, as TVMRT_DEFINE_TILE_F32 defines it.
 * \param tile Shared data of the tiles of this row.
 * \param x_offset Added to the x of each segment: offset of the tile's first pixel in the row.
 * \param w The block's weights.
 * \param bias NR * V floats, or NULL for zeros.
 * \param residual Added before clamping; the tile's first pixel and channel, or NULL. May be out
 * itself.
 * \param out Output of the tile's first pixel and channel. Must not overlap the input.
 * \param channels How many of the NR * V channels exist: no others are read from residual or
 * written to out.
 *
 * Touches exactly the floats named above; any alignment; thread-safe.
 */
typedef void (*tvmrt_tile_f32_fn)(const tvmrt_tile_f32* tile, int64_t x_offset, const float* w,
                                  const float* bias, const float* residual, float* out,
                                  int channels);

/* With fewer than 8 accumulator vectors, multiply-adds wait for each other's latency. Such tiles
 * keep separate sums for every second, fourth or eighth k. */
#if defined(TVMRT_FIXED_ORDER)
#define TVMRT_TILE_F32_CHAINS(sums) 1
#else
#define TVMRT_TILE_F32_CHAINS(sums) ((sums) >= 8 ? 1 : (sums) >= 4 ? 2 : (sums) >= 2 ? 4 : 8)
#endif
/* Unroll factor of the loop over k. Beyond two, GCC needs more address registers than there are,
 * which costs small tiles up to a third of their time. If accumulators and weights leave it one
 * vector register, it schedules two steps such that accumulators are spilled. */
#define TVMRT_TILE_F32_UNROLL(NR, MR)                                                             \
  ((NR) * (MR) < 8 && TVMRT_TILE_F32_CHAINS((NR) * (MR)) > 1 ? TVMRT_TILE_F32_CHAINS((NR) * (MR)) \
   : (NR) * (MR) < 16 && (NR) * (MR) + (NR) + 1 >= TVMRT_SIMD_REGISTERS ? 4                       \
                                                                        : 2)
#define TVMRT_REMAINDER_UNROLL(sums) ((sums) >= 8 ? 2 : TVMRT_TILE_F32_CHAINS(sums))

/* Loops of the tile, fully unrolled so that its arrays of vectors stay in registers. */
#define TVMRT_TILE_F32_EACH(variable, count) \
  TVMRT_UNROLL(64)                           \
  for (int variable = 0; variable < (count); variable++)

/* Pixel t of the tile: every fourth has a pointer, the others use strides from it. */
#define TVMRT_TILE_F32_X(t, u) x[(t) / 4][((t) % 4) * x_stride + (u)]

/* clang-format off */
#define TVMRT_DEFINE_TILE_F32(V, NR, MR)                                                           \
  TVMRT_DEFINE_TILE_F32_NAMED(tvmrt_tile_f32_##V##x##NR##x##MR, tvmrt_f32x##V, V, NR, MR,          \
                              TVMRT_TILE_F32_CHAINS((NR) * (MR)), TVMRT_TILE_F32_UNROLL(NR, MR),   \
                              TVMRT_TILE_F32_FINISH)
/* Tail of wider tiles, summed in their order with CHAINS chains. */
#define TVMRT_DEFINE_TAIL_F32(V, NR, MR, CHAINS)                                                   \
  TVMRT_DEFINE_TILE_F32_NAMED(tvmrt_tail_f32_##V##x##NR##x##MR##x##CHAINS, tvmrt_f32x##V, V, NR,   \
                              MR, CHAINS, (CHAINS) > 1 ? (CHAINS) : 2, TVMRT_TILE_F32_FINISH)
/* Tail of rows of dynamic length: a third of the code. */
#define TVMRT_DEFINE_REMAINDER_F32(V, NR, MR)                                                      \
  TVMRT_DEFINE_TILE_F32_NAMED(tvmrt_remainder_f32_##V##x##NR##x##MR, tvmrt_f32x##V, V, NR, MR,     \
                              TVMRT_TILE_F32_CHAINS((NR) * (MR)),                                  \
                              TVMRT_REMAINDER_UNROLL((NR) * (MR)), TVMRT_TILE_F32_FINISH_IN_TURN)

/* Copies of shared data in registers: stores might alias the struct. */
#define TVMRT_TILE_F32_ENDS(VEC)                                                                   \
  const VEC lo = VEC##_splat(tile->lo), hi = VEC##_splat(tile->hi);                                \
  const intptr_t out_stride = (intptr_t)tile->out_stride;                                          \
  const intptr_t residual_stride = (intptr_t)tile->residual_stride;

/* Epilogue of vector o of pixel t: residual, clamping, store. */
#define TVMRT_TILE_F32_STORE(VEC, V)                                                               \
  const int lanes = channels - o * (V);                                                            \
  const intptr_t at = t * residual_stride + o * (V);                                               \
  float* y = out + t * out_stride;                                                                 \
  TVMRT_OPAQUE(y); /* else GCC reorders the stores, which makes them slower */          \
  y += o * (V);                                                                                    \
  if (TVMRT_LIKELY(lanes >= (V))) {                                                                \
    if (residual) total += VEC##_load(residual + at);                                              \
    VEC##_store(y, VEC##_min(VEC##_max(total, lo), hi));                                           \
  } else if (lanes > 0) {                                                                          \
    if (residual) total += VEC##_load_n(residual + at, lanes);                                     \
    VEC##_store_n(y, VEC##_min(VEC##_max(total, lo), hi), lanes);                                  \
  }

#define TVMRT_TILE_F32_FINISH(VEC, V, NR, MR)                                                      \
  TVMRT_TILE_F32_EACH(t, MR) {                                                                     \
    TVMRT_TILE_F32_EACH(o, NR) {                                                                   \
      VEC total = sum[0][t][o];                                                                    \
      TVMRT_TILE_F32_EACH(u, kChains - 1) total += sum[u + 1][t][o];                               \
      TVMRT_TILE_F32_STORE(VEC, V)                                                                 \
    }                                                                                              \
  }

#define TVMRT_TILE_F32_FINISH_IN_TURN(VEC, V, NR, MR)                                              \
  float all[MR][NR][V];                                                                            \
  TVMRT_TILE_F32_EACH(t, MR) {                                                                     \
    TVMRT_TILE_F32_EACH(o, NR) {                                                                   \
      TVMRT_TILE_F32_EACH(u, kChains - 1) sum[0][t][o] += sum[u + 1][t][o];                        \
      VEC##_store(all[t][o], sum[0][t][o]);                                                        \
    }                                                                                              \
  }                                                                                                \
  TVMRT_UNROLL(1)                                                                                  \
  for (int t = 0; t < (MR); t++) {                                                                 \
    TVMRT_UNROLL(1)                                                                                \
    for (int o = 0; o < (NR); o++) {                                                               \
      VEC total = VEC##_load(all[t][o]);                                                           \
      TVMRT_TILE_F32_STORE(VEC, V)                                                                 \
    }                                                                                              \
  }

#define TVMRT_DEFINE_TILE_F32_NAMED(NAME, VEC, V, NR, MR, CHAINS, UNROLL, FINISH)                  \
  TVMRT_NOINLINE void NAME(const tvmrt_tile_f32* tile, int64_t x_offset, const float* w,           \
                           const float* bias, const float* residual, float* out, int channels) {   \
    enum {                                                                                         \
      kChains = CHAINS,                                                                            \
      kUnroll = UNROLL,                                                                            \
      kPointers = ((MR) + 3) / 4,                                                                  \
      kKeep = (NR) * (MR) + (NR) < TVMRT_SIMD_REGISTERS,                                           \
      kFetch = (NR) > 1 && (NR) * (MR) >= 8                                                        \
    };                                                                                             \
    const intptr_t x_stride = (intptr_t)tile->x_stride, w_stride = (intptr_t)tile->w_stride;       \
    const intptr_t run = (intptr_t)tile->run;                                                      \
    const uintptr_t fetch_step = tile->fetch ? (uintptr_t)tile->fetch_step : 0;                    \
    uintptr_t fetch = tile->fetch ? tile->fetch : (uintptr_t)w;                                    \
    VEC sum[kChains][MR][NR];                                                                      \
    TVMRT_TILE_F32_EACH(t, MR) {                                                                   \
      TVMRT_TILE_F32_EACH(o, NR) {                                                                 \
        sum[0][t][o] = bias ? VEC##_load(bias + o * (V)) : VEC##_splat(0.0f);                      \
        TVMRT_TILE_F32_EACH(u, kChains - 1) sum[u + 1][t][o] = VEC##_splat(0.0f);                  \
      }                                                                                            \
    }                                                                                              \
    for (int64_t s = 0; s < tile->segment_count; s++) {                                            \
      const float* wk = w + tile->segments[s].w;                                                   \
      const float* x[kPointers];                                                                   \
      intptr_t k = run;                                                                            \
      TVMRT_TILE_F32_EACH(p, kPointers)                                                            \
        x[p] = tile->segments[s].x + x_offset + 4 * p * x_stride;                                  \
      for (; k >= kUnroll; k -= kUnroll) {                                                         \
        TVMRT_TILE_F32_EACH(p, kPointers) TVMRT_OPAQUE(x[p]);                                      \
        TVMRT_TILE_F32_EACH(u, kUnroll) {                                                          \
          VEC weight[NR];                                                                          \
          if (kFetch) TVMRT_PREFETCH(fetch + (uintptr_t)u * fetch_step);                           \
          TVMRT_TILE_F32_EACH(o, NR) {                                                             \
            weight[o] = VEC##_load(wk + u * w_stride + o * (V));                                   \
            if (kKeep) weight[o] = VEC##_keep(weight[o]);                                          \
          }                                                                                        \
          TVMRT_TILE_F32_EACH(t, MR) {                                                             \
            VEC pixel = VEC##_splat(TVMRT_TILE_F32_X(t, u));                                       \
            if (kKeep && (NR) > 1) pixel = VEC##_keep(pixel);                                      \
            TVMRT_TILE_F32_EACH(o, NR)                                                             \
              sum[u % kChains][t][o] = VEC##_fma(pixel, weight[o], sum[u % kChains][t][o]);        \
          }                                                                                        \
        }                                                                                          \
        TVMRT_TILE_F32_EACH(p, kPointers) x[p] += kUnroll;                                         \
        wk += kUnroll * w_stride;                                                                  \
        fetch += kUnroll * fetch_step;                                                             \
      }                                                                                            \
      for (; k > 0; k--) {                                                                         \
        TVMRT_TILE_F32_EACH(p, kPointers) TVMRT_OPAQUE(x[p]);                                      \
        TVMRT_TILE_F32_EACH(t, MR) {                                                               \
          const VEC pixel = VEC##_splat(TVMRT_TILE_F32_X(t, 0));                                   \
          TVMRT_TILE_F32_EACH(o, NR)                                                               \
            sum[0][t][o] = VEC##_fma(pixel, VEC##_load(wk + o * (V)), sum[0][t][o]);               \
        }                                                                                          \
        TVMRT_TILE_F32_EACH(p, kPointers) x[p]++;                                                  \
        wk += w_stride;                                                                            \
      }                                                                                            \
    }                                                                                              \
    TVMRT_TILE_F32_ENDS(VEC)                                                                       \
    FINISH(VEC, V, NR, MR)                                                                         \
  }
/* clang-format on */

/*!
 * \brief Epilogue on finished outputs while they are in the cache: any pointwise function, with
 * other operands in ctx.
 * \param out Channel `channel` of pixel `pixel`; neighbouring pixels are the output's pixel stride
 * apart.
 * \param pixel Index of the first of `pixels` pixels, counted over batch, depth, height and width.
 * \param channel First of `channels` channels.
 * \param ctx The driver's context.
 *
 * Called once for every part of the output, on the thread that computed it, in unspecified order.
 */
typedef void (*tvmrt_epilogue_f32)(float* out, int64_t pixel, int pixels, int channel, int channels,
                                   const void* ctx);

enum { TVMRT_TILE_WIDTHS = 4 };

/*! \brief Pixels past the end of a row that tiles with `begin` may read. */
enum { TVMRT_OVERREAD_PIXELS = 15 };

/*! \brief Requirements of tiles of pairs. */
typedef struct tvmrt_pairs_f32 {
  int32_t wide; /*!< 1: a pair of the input is two words. */
  /*! \brief Called on a task's thread before its first tile, with the pixels of the widest tile and
   * the pairs of a run, and after its last; both or neither. Tiles may then read
   * TVMRT_OVERREAD_PIXELS pixels past the end of a row. */
  void (*begin)(int widest, int64_t run);
  void (*end)(void);
} tvmrt_pairs_f32;

/*!
 * \brief The tiles that cover a layer's rows, selected by
 * tvmrt.compiler.codegen.window.tiles_f32.choose_tiles.
 */
typedef struct tvmrt_tiles_f32 {
  /*! \brief Output channels of a tile: NR * V, the same for all widths. */
  int32_t block;
  /*! \brief Blocks whose weights stay in the cache while the pixels stream past. */
  int32_t blocks_per_group;
  /*!
   * \brief Widths in descending order, ending with 0 if fewer than TVMRT_TILE_WIDTHS: each row is
   * covered by the widest that fits.
   */
  int32_t width[TVMRT_TILE_WIDTHS];
  tvmrt_tile_f32_fn run[TVMRT_TILE_WIDTHS];
#ifndef TVMRT_NO_SHARED_TAIL
  /*! \brief Pixels at the end of a row that the second and the third width share, more than the
   * widest: a single pixel would wait for the weights, and few would be summed in another order; 0
   * for none. */
  int32_t last;
#endif
  /*! \brief Requirements of tiles of pairs (tile/gemm_bf16.h); NULL for none. */
  const tvmrt_pairs_f32* pairs;
} tvmrt_tiles_f32;

/*! \brief A row of pixels times a range of channels: the arguments of tvmrt_tile_row_f32. */
typedef struct tvmrt_tile_row_f32_args {
  const tvmrt_tiles_f32* tiles;
  tvmrt_tile_f32 tile;
  /*! \brief Packed weights and bias of the row's channel 0, floats per block; bias may be NULL. */
  const float* w;
  int64_t w_block;
  /*! \brief Channels of a block of packed weights, which no tile crosses; 0: a tile's. */
  int32_t packed;
  const float* bias;
  /*! \brief First pixel, channel 0, of the row in the output and, unless NULL, in the residual. */
  float* out;
  const float* residual;
  /*! \brief Index of the first pixel and of channel 0 in the whole output, for the epilogue. */
  int64_t pixel;
  int channel;
  tvmrt_epilogue_f32 epilogue;
  const void* ctx;
} tvmrt_tile_row_f32_args;

/* Number of tiles for `pixels` pixels of a row. */
static inline int64_t tvmrt_tile_count_f32(const tvmrt_tiles_f32* tiles, int64_t pixels) {
  const int64_t width = tiles->width[0] > 0 ? tiles->width[0] : 1;
  return (pixels + width - 1) / width;
}

/* Whether two narrower tiles share these last `pixels` pixels of a row. */
static inline int tvmrt_is_last_f32(const tvmrt_tiles_f32* tiles, int64_t pixels) {
#ifndef TVMRT_NO_SHARED_TAIL
  return pixels == tiles->last;
#else
  return (void)tiles, (void)pixels, 0;
#endif
}

/*! \brief Whether the tiles cover rows of any length: the narrowest has one pixel. */
static inline int tvmrt_covers_any_f32(const tvmrt_tiles_f32* tiles) {
  int narrowest = TVMRT_TILE_WIDTHS - 1;
  while (narrowest > 0 && tiles->width[narrowest] == 0) narrowest--;
  return tiles->width[narrowest] == 1;
}

/*! \brief Pixels of a row that tasks may divide by the widest tile. The excess of a shared tail
 * over the widest tile is not counted, so that the tail stays together. */
static inline int64_t tvmrt_pixels_to_cut_f32(const tvmrt_tiles_f32* tiles, int64_t pixels) {
#ifndef TVMRT_NO_SHARED_TAIL
  return tiles->last > 0 ? pixels - (tiles->last - tiles->width[0]) : pixels;
#else
  return (void)tiles, pixels;
#endif
}

enum { TVMRT_LINE_BYTES = 64 }; /* of a cache line */

/*!
 * \brief Make a row's tiles prefetch `floats` floats from `from` on during `steps` steps of k, so
 * that memory transfers overlap with arithmetic. The hardware prefetcher follows slowly rising
 * addresses and handles most lines. Small tiles and those of one vector of channels do not
 * prefetch: they are load-bound.
 */
static inline void tvmrt_set_prefetch_f32(tvmrt_tile_f32* tile, const float* from, int64_t floats,
                                          int64_t steps) {
#if TVMRT_SIMD_LANES_F32 > 1
  const int64_t bytes = floats * (int64_t)sizeof(float);
  if (bytes > steps * TVMRT_LINE_BYTES) return; /* too few products to hide the prefetch */
  tile->fetch = (uintptr_t)from;
  tile->fetch_step = (bytes + steps - 1) / steps;
#else
  (void)tile, (void)from, (void)floats, (void)steps;
#endif
}

/* Advance to the next tile's prefetch address. */
static inline void tvmrt_prefetched_f32(tvmrt_tile_f32* tile) {
#if TVMRT_SIMD_LANES_F32 > 1
  if (tile->fetch) tile->fetch += (uintptr_t)(tile->segment_count * tile->run * tile->fetch_step);
#else
  (void)tile;
#endif
}

/*!
 * \brief Compute pixels [begin, end) of a row for channels [c_begin, c_end); c_begin is a multiple
 * of the block. \return 0, or -1 if the widths cannot cover the row.
 */
TVMRT_SHARED int tvmrt_tile_row_f32(tvmrt_tile_row_f32_args* row, int64_t begin, int64_t end,
                                    int c_begin, int c_end) {
  const tvmrt_tiles_f32* tiles = row->tiles;
  const int block = tiles->block, packed = row->packed > 0 ? row->packed : block;
  int choice = 0;
  for (int64_t t = begin; t < end; t += tiles->width[choice]) {
    if (tvmrt_is_last_f32(tiles, end - t)) choice = 1;
    while (choice < TVMRT_TILE_WIDTHS && tiles->width[choice] > end - t) choice++;
    if (choice == TVMRT_TILE_WIDTHS || tiles->width[choice] <= 0) {
#ifndef TVMRT_FREESTANDING
      TVMAPISetLastError(/* the name that every runtime of this ABI exports */
                         "float kernel: the tile widths do not cover a row; choose them with "
                         "choose_tiles()");
#endif
      return -1;
    }
    float* out = row->out + t * row->tile.out_stride;
    const float* residual = row->residual ? row->residual + t * row->tile.residual_stride : NULL;
    for (int c = c_begin; c < c_end; c += block) {
      tiles->run[choice](
          &row->tile, t * row->tile.x_stride, row->w + (c / packed) * row->w_block + c % packed,
          row->bias ? row->bias + c : NULL, residual ? residual + c : NULL, out + c, c_end - c);
      tvmrt_prefetched_f32(&row->tile);
    }
    if (row->epilogue) {
      row->epilogue(out + c_begin, row->pixel + t, tiles->width[choice], row->channel + c_begin,
                    c_end - c_begin, row->ctx);
    }
  }
  return 0;
}

#endif /* TVM_RUNTIME_KERNELS_TILE_GEMM_F32_H_ */
