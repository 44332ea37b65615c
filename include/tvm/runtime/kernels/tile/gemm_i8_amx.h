/*!
 * \file tile/gemm_i8_amx.h
 * \brief int8 micro-kernel with AMX: up to 32 pixels times two vectors of 16 output channels, or 16
 * pixels times up to four.
 *
 * A register has 64 bytes of 16 pixels, or the matching weights of 16 output channels, in the
 * memory order of AVX-512 VNNI. One instruction multiplies as many quads as divide a run into equal
 * parts, or 16. VNNI adds the tail of a run, and the overflow quads, to the finished accumulators.
 * tile/amx.h numbers the registers; with three and four vectors the third accumulates in register
 * 2, the fourth in 3, and both use the weight registers again.
 *
 * Bytes are multiplied as stored, signed or unsigned: signed bytes are not shifted.
 *
 * A higher rate of matrix products is not faster in a network. If they take more than about half of
 * the cycles for some 50 us, the processor lowers its clock by an eighth for a millisecond, for all
 * layers (Sapphire Rapids; measured with a chain of multiplications after each layer of ResNet-50).
 * Contiguous weights of a vector, or stores between the products of a tile, save a layer up to 9 %,
 * and cost the network as much.
 *
 * Before: the compiler's __AVX512VNNI__, __AVX512BW__ and __AVX512VL__; TVMRT_I8_FORMAT is
 * TVMRT_I8_X86_VNNI or not defined.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_GEMM_I8_AMX_H_
#define TVM_RUNTIME_KERNELS_TILE_GEMM_I8_AMX_H_

#if !defined(__AVX512VNNI__) || !defined(__AVX512BW__) || !defined(__AVX512VL__)
#error \
    "tile/gemm_i8_amx.h reads what TVMRT_I8_X86_VNNI does: compile with -march of a processor with __AVX512VNNI__"
#else

#include "amx.h"
#include "requantize_i8_amx.h"

enum {
  TVMRT_AMX_I8_FEW_STEPS = 7, /* maximum products per window to finish a tile during the next one */
  TVMRT_AMX_I8_SINGLES = 64,  /* offset of `configured` for single products */
};

/*! \brief Release the registers, so that the system need not save them. */
static inline void tvmrt_amx_i8_end(void) { _tile_release(); }

/* Configure the registers for a tile, unless they are from the previous one. For single products,
 * see below, they are pixels and sums, and weights. */
TVMRT_INLINE void tvmrt_amx_i8_ready(int mr, int is_single, const tvmrt_tile_i8_args* a) {
  const int ready = mr + (is_single ? TVMRT_AMX_I8_SINGLES : 0);
  if (a->amx->configured == ready) return;
  const int first = mr < TVMRT_AMX_ROWS ? mr : TVMRT_AMX_ROWS;
  const int more = mr > TVMRT_AMX_ROWS ? mr - TVMRT_AMX_ROWS : first;
  const int four = is_single ? TVMRT_AMX_ROWS : first, five = is_single ? TVMRT_AMX_ROWS : more;
  tvmrt_amx_configure(first, more, four, five, a->amx->words);
  a->amx->configured = ready;
}

/* sums += x * w, by register numbers */
#define TVMRT_AMX_I8_DOT(sums, x, w) \
  if (is_signed) {                   \
    _tile_dpbssd(sums, x, w);        \
  } else {                           \
    _tile_dpbusd(sums, x, w);        \
  }

/* Load weights, bypassing the cache if they are many, so that pixels stay cached. */
#define TVMRT_AMX_I8_WEIGHTS(number, vector, quad)                                        \
  if (exceeds_l1) {                                                                       \
    _tile_stream_loadd(number, (vector).weights + (quad) * (vector).step, (vector).step); \
  } else {                                                                                \
    _tile_loadd(number, (vector).weights + (quad) * (vector).step, (vector).step);        \
  }

/* Offset of the sums of a register's first pixel, [pixel][channel]. */
#define TVMRT_AMX_I8_ROW_OFFSET(number, vector) \
  ((vector)*16 + (mr > TVMRT_AMX_ROWS && (number) > 1 ? TVMRT_AMX_ROWS * nr * 16 : 0))
#define TVMRT_AMX_I8_STORE(number, vector, sums) \
  _tile_stored(number, (sums) + TVMRT_AMX_I8_ROW_OFFSET(number, vector), nr * TVMRT_AMX_BYTES);

/* Store the sums of a tile. */
TVMRT_INLINE void tvmrt_amx_i8_store_accumulators(int nr, int mr, int32_t* sums) {
  TVMRT_AMX_I8_STORE(0, 0, sums)
  if (nr > 1) {
    TVMRT_AMX_I8_STORE(1, 1, sums)
  }
  if (nr > 2 || mr > TVMRT_AMX_ROWS) {
    TVMRT_AMX_I8_STORE(2, nr > 2 ? 2 : 0, sums)
  }
  if (nr > 3 || (nr == 2 && mr > TVMRT_AMX_ROWS)) {
    TVMRT_AMX_I8_STORE(3, nr > 3 ? 3 : 1, sums)
  }
}

/* Initialise the sums with the bias, the same for all rows of the registers. */
TVMRT_INLINE void tvmrt_amx_i8_begin(int nr, int mr, const int32_t* bias) {
  _tile_loadd(0, bias, 0);
  if (nr > 1) _tile_loadd(1, bias + 16, 0);
  if (nr > 2) _tile_loadd(2, bias + 32, 0);
  if (nr > 3) _tile_loadd(3, bias + 48, 0);
  if (mr > TVMRT_AMX_ROWS) {
    _tile_loadd(2, bias, 0);
    if (nr > 1) _tile_loadd(3, bias + 16, 0);
  }
}

/* Multiply the quads from `quad` on of all pixels and channels; nr, mr, is_signed and exceeds_l1 are
 * literals. */
TVMRT_INLINE void tvmrt_amx_i8_step(int nr, int mr, int is_signed, int exceeds_l1, const uint8_t* x,
                                    int64_t step, const tvmrt_i8_vector* w, int64_t quad) {
  _tile_loadd(4, x, step);
  TVMRT_AMX_I8_WEIGHTS(6, w[0], quad)
  TVMRT_AMX_I8_DOT(0, 4, 6)
  if (mr > TVMRT_AMX_ROWS) {
    _tile_loadd(5, x + TVMRT_AMX_ROWS * step, step);
    TVMRT_AMX_I8_DOT(2, 5, 6)
  }
  if (nr > 1) {
    TVMRT_AMX_I8_WEIGHTS(7, w[1], quad)
    TVMRT_AMX_I8_DOT(1, 4, 7)
    if (mr > TVMRT_AMX_ROWS) {
      TVMRT_AMX_I8_DOT(3, 5, 7)
    }
  }
  if (nr > 2) {
    TVMRT_AMX_I8_WEIGHTS(6, w[2], quad)
    TVMRT_AMX_I8_DOT(2, 4, 6)
  }
  if (nr > 3) {
    TVMRT_AMX_I8_WEIGHTS(7, w[3], quad)
    TVMRT_AMX_I8_DOT(3, 4, 7)
  }
}

/* One quad of some pixels with VNNI. Signed bytes are multiplied 128 higher and corrected. */
TVMRT_INLINE void tvmrt_amx_i8_quad(int nr, int mr, int is_signed, const uint8_t* x, int64_t step,
                                    const tvmrt_i8_vector* w,
                                    tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR]) {
  tvmrt_i8_weights weights[4];
  TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) weights[o] = tvmrt_i8_weights_load(w[o].weights);
  TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
    const tvmrt_i8_quad bytes = tvmrt_i8_quad_load(x + t * step, is_signed);
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) {
      acc[t][o] = tvmrt_i8_dot(acc[t][o], bytes, weights[o]);
    }
  }
  if (is_signed) {
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) {
      const tvmrt_i8_acc high =
          tvmrt_i8_dot(_mm512_setzero_si512(), _mm512_set1_epi8((char)-128), weights[o]);
      TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
        acc[t][o] = _mm512_sub_epi32(acc[t][o], high);
      }
    }
  }
}

/* Add the tails of runs after whole steps, and the overflow quads. */
TVMRT_INLINE void tvmrt_amx_i8_add_tails(
    int nr, int mr, int is_signed, const tvmrt_tile_i8_args* a, int64_t offset,
    tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR]) {
  const int32_t bytes = 4 * a->amx->words, run = a->run, whole = run / bytes * bytes;
  const int64_t step = a->x_step;
  tvmrt_i8_vector w[4];
  TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) w[o] = a->amx->vector[o];
  for (int32_t s = 0; s < a->segments; s++) {
    const uint8_t* x = a->segment[s] + offset;
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) w[o].weights += whole / 4 * w[o].step;
    for (int32_t k = whole; k < run; k += 4) {
      tvmrt_amx_i8_quad(nr, mr, is_signed, x + (k + 4 <= run ? k : run - 4), step, w, acc);
      TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) w[o].weights += w[o].step;
    }
  }
  for (int32_t e = 0; e < a->num_overflow_quads; e++) {
    const uint8_t* x = a->segment[a->overflow_quads[2 * e]] + a->overflow_quads[2 * e + 1] + offset;
    tvmrt_amx_i8_quad(nr, mr, is_signed, x, step, w, acc);
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) w[o].weights += w[o].step;
  }
}

/* Finish `mr` pixels, few enough for the vector registers. */
TVMRT_INLINE void tvmrt_amx_i8_finish(int nr, int mr, int is_signed, int epilogue,
                                      const tvmrt_tile_i8_args* a, int64_t offset, int has_tail,
                                      const int32_t* from, void* y, const int32_t* sums) {
  tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_MR][TVMRT_TILE_I8_MAX_NR];
  TVMRT_UNROLL_ALL for (int t = 0; t < mr; t++) {
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) acc[t][o] =
        tvmrt_i8_acc_load(from + (t * nr + o) * TVMRT_I8_LANES);
  }
  if (has_tail) tvmrt_amx_i8_add_tails(nr, mr, is_signed, a, offset, acc);
  tvmrt_tile_i8_finish(nr, mr, epilogue, a, y, sums, acc);
}

/* Finish `mr` pixels from pixel t of a tile on; `at` is their index in the output. */
TVMRT_INLINE void tvmrt_amx_i8_part(int nr, int mr, int is_signed, int epilogue,
                                    const tvmrt_tile_i8_args* a, int64_t offset, int t, int at,
                                    int has_tail, const int32_t* from, void* y,
                                    const int32_t* sums) {
  tvmrt_tile_i8_args part = *a;
  const int64_t y_bytes = a->y_step * (a->range != NULL ? 1 : 4);
  if (TVMRT_HAS_RESIDUAL(epilogue)) part.added = a->added + at * a->added_step;
  tvmrt_amx_i8_finish(nr, mr, is_signed, epilogue, &part, offset + t * a->x_step, has_tail,
                      from + t * nr * TVMRT_I8_LANES, (uint8_t*)y + at * y_bytes,
                      sums != NULL ? sums + t : NULL);
}

/* Finish an unusual tile: four pixels at a time, or one by one for a padded image copy. y is that
 * of the call, offset and sums are the tile's. */
TVMRT_INLINE void tvmrt_amx_i8_some(int nr, int mr, int is_signed, int epilogue, int is_padded_copy,
                                    const tvmrt_tile_i8_args* a, int64_t offset, int has_tail,
                                    tvmrt_amx_i8_cursor p, void* y, const int32_t* sums) {
  for (; !is_padded_copy && p.pixel + 4 <= mr; p.pixel += 4, p.pixel_index += 4) {
    tvmrt_amx_i8_part(nr, 4, is_signed, epilogue, a, offset, p.pixel, p.pixel_index, has_tail,
                      p.sums, y, sums);
  }
  for (; tvmrt_amx_i8_more(&p); tvmrt_amx_i8_next(&p)) {
    tvmrt_amx_i8_part(nr, 1, is_signed, epilogue, a, offset, p.pixel, p.pixel_index, has_tail,
                      p.sums, y, sums);
  }
}

/* Prefetch lines of weights into the L2 cache. */
TVMRT_INLINE uintptr_t tvmrt_amx_i8_fetch(uintptr_t ahead, int32_t lines) {
  for (int32_t l = 0; l < lines; l++, ahead += TVMRT_AMX_BYTES) TVMRT_PREFETCH(ahead);
  return ahead;
}

/* Accumulate a tile of a call in registers; `from` is the offset of its first pixel, `ahead` the
 * prefetch address. */
TVMRT_INLINE void tvmrt_amx_i8_multiply(int nr, int mr, int is_signed, int exceeds_l1,
                                        const tvmrt_tile_i8_args* a, int64_t from,
                                        uintptr_t* ahead) {
  const int32_t words = a->amx->words, bytes = 4 * words, run = a->run, lines = a->amx->ahead_lines;
  const int64_t quads = (run + 3) / 4;
  uintptr_t line = *ahead;
  tvmrt_amx_i8_begin(nr, mr, a->bias);
  for (int32_t s = 0; s < a->segments; s++) {
    const uint8_t* x = a->segment[s] + from;
    int64_t quad = s * quads;
    for (int32_t k = 0; k + bytes <= run; k += bytes, quad += words) {
      line = tvmrt_amx_i8_fetch(line, lines);
      tvmrt_amx_i8_step(nr, mr, is_signed, exceeds_l1, x + k, a->x_step, a->amx->vector, quad);
    }
  }
  *ahead = line;
}

/* The unusual tiles of a call; all integers are literals. */
TVMRT_INLINE void tvmrt_amx_i8_general(int nr, int mr, int is_signed, int epilogue,
                                       int is_padded_copy, int exceeds_l1,
                                       const tvmrt_tile_i8_args* a, int64_t offset, void* y,
                                       const int32_t* sums, uintptr_t* ahead) {
  int32_t all[2 * TVMRT_AMX_ROWS * 2 * 16] __attribute__((aligned(64)));
  const int has_tail = a->num_overflow_quads > 0 || a->run % (4 * a->amx->words) != 0;
  const int32_t left = a->amx->left < mr ? a->amx->left : 0; /* always less, for the compiler */
  tvmrt_amx_i8_ready(mr, 0, a);
  for (int32_t i = 0; i < a->amx->tiles + (left > 0); i++) {
    const int32_t skip = i < a->amx->tiles ? 0 : mr - left, first = i * mr - skip;
    const int64_t from = offset + first * a->x_step;
    tvmrt_amx_i8_multiply(nr, mr, is_signed, exceeds_l1, a, from, ahead);
    tvmrt_amx_i8_store_accumulators(nr, mr, all);
    tvmrt_amx_i8_cursor cursor =
        tvmrt_amx_i8_cursor_of(mr, is_padded_copy, a, offset, first, skip, all);
    tvmrt_amx_i8_some(nr, mr, is_signed, epilogue & ~TVMRT_RESIDUAL_FUSED, is_padded_copy, a, from,
                      has_tail, cursor, y, sums != NULL ? sums + first : NULL);
  }
}

/* Store up to `max_lines` lines of bytes, and prefetch weights. */
#define TVMRT_AMX_I8_LINES(max_lines, with_bias)                        \
  for (int n = 0; n < (max_lines) && tvmrt_amx_i8_more(&last); n++) {   \
    *ahead = tvmrt_amx_i8_fetch(*ahead, (lines + 1) / 2);               \
    tvmrt_amx_i8_store(nr, epilogue, is_plain, with_bias, &out, &last); \
  }

/* Usual tiles; all integers and is_plain are literals. A tile of few products is finished while the
 * next one is multiplied. With many products this gains nothing, as both share one of the vector
 * units; the same holds with a residual add. */
TVMRT_INLINE void tvmrt_amx_i8_tiles(int nr, int mr, int is_signed, int epilogue,
                                     int is_padded_copy, int exceeds_l1, int is_plain,
                                     const tvmrt_tile_i8_args* a, int64_t offset, uint8_t* y,
                                     uintptr_t* ahead) {
  int32_t both[2][2 * TVMRT_AMX_ROWS * 2 * 16] __attribute__((aligned(64)));
  const tvmrt_amx_i8_out out = tvmrt_amx_i8_make_out(nr, epilogue, a, y);
  const int32_t left = a->amx->left < mr ? a->amx->left : 0;
  const int32_t lines = a->amx->ahead_lines;
  const int32_t tiles = a->amx->tiles + (left > 0),
                steps = a->segments * (a->run / (4 * a->amx->words));
  const int is_late = !TVMRT_HAS_RESIDUAL(epilogue) && !is_padded_copy &&
                      steps <= TVMRT_AMX_I8_FEW_STEPS && tiles > 2;
  tvmrt_amx_i8_cursor last = {both[0], 0, 0, 0, 0, INT32_MAX, 0};
  tvmrt_amx_i8_ready(mr, 0, a);
  for (int32_t i = 0; i < tiles + is_late; i++) {
    const int32_t skip = i < a->amx->tiles ? 0 : mr - left, first = i * mr - skip;
    if (i < tiles) {
      tvmrt_amx_i8_multiply(nr, mr, is_signed, exceeds_l1, a, offset + first * a->x_step, ahead);
    }
    if (!is_late) {
      tvmrt_amx_i8_store_accumulators(nr, mr, both[0]);
      last = tvmrt_amx_i8_cursor_of(mr, is_padded_copy, a, offset, first, skip, both[0]);
    }
    TVMRT_AMX_I8_LINES(INT32_MAX, 0)
    if (is_late && i < tiles) {
      tvmrt_amx_i8_store_accumulators(nr, mr, both[i & 1]);
      last = tvmrt_amx_i8_cursor_of(mr, is_padded_copy, a, offset, first, skip, both[i & 1]);
    }
  }
}

/* Whether a window is a single product of whole registers, whose weights stay in registers. */
TVMRT_INLINE int tvmrt_amx_i8_is_single(int nr, int is_padded_copy, const tvmrt_tile_i8_args* a) {
  return nr == 4 && !is_padded_copy && a->segments == 1 && a->run == TVMRT_AMX_BYTES;
}

/* sums = x * w */
#define TVMRT_AMX_I8_PRODUCT(sums, w) \
  _tile_zero(sums);                   \
  TVMRT_AMX_I8_DOT(sums, 3, w)
#define TVMRT_AMX_I8_TILE(number, vector) \
  _tile_stored(number, all + (vector)*16, 4 * TVMRT_AMX_BYTES);

/* Usual tiles of four vectors and single products: pixels in register 3, weights from 4 on, sums in
 * the others, without the bias. Storing a sum register takes as long as five lines, so it
 * alternates with storing lines of the previous tile. */
TVMRT_INLINE void tvmrt_amx_i8_singles(int mr, int is_signed, int epilogue, int is_plain,
                                       const tvmrt_tile_i8_args* a, int64_t offset, uint8_t* y,
                                       uintptr_t* ahead) {
  enum { nr = 4 };
  int32_t both[2][TVMRT_AMX_ROWS * nr * 16] __attribute__((aligned(64)));
  const tvmrt_amx_i8_out out = tvmrt_amx_i8_make_out(nr, epilogue, a, y);
  const int32_t left = a->amx->left < mr ? a->amx->left : 0;
  const int32_t tiles = a->amx->tiles + (left > 0), lines = a->amx->ahead_lines;
  tvmrt_amx_i8_cursor last = {both[0], 0, 0, 0, 0, INT32_MAX, 0};
  tvmrt_amx_i8_ready(mr, 1, a);
  _tile_loadd(4, a->amx->vector[0].weights, a->amx->vector[0].step);
  _tile_loadd(5, a->amx->vector[1].weights, a->amx->vector[1].step);
  _tile_loadd(6, a->amx->vector[2].weights, a->amx->vector[2].step);
  _tile_loadd(7, a->amx->vector[3].weights, a->amx->vector[3].step);
  for (int32_t i = 0; i < tiles; i++) {
    const int32_t skip = i < a->amx->tiles ? 0 : mr - left, first = i * mr - skip;
    int32_t* all = both[i & 1];
    *ahead = tvmrt_amx_i8_fetch(*ahead, lines);
    _tile_loadd(3, a->segment[0] + offset + first * a->x_step, a->x_step);
    TVMRT_AMX_I8_PRODUCT(0, 4)
    TVMRT_AMX_I8_PRODUCT(1, 5)
    TVMRT_AMX_I8_PRODUCT(2, 6)
    TVMRT_AMX_I8_TILE(0, 0)
    TVMRT_AMX_I8_PRODUCT(0, 7)
    TVMRT_AMX_I8_LINES(mr / 3, 1)
    TVMRT_AMX_I8_TILE(1, 1)
    TVMRT_AMX_I8_LINES(mr / 3, 1)
    TVMRT_AMX_I8_TILE(2, 2)
    TVMRT_AMX_I8_LINES(INT32_MAX, 1)
    TVMRT_AMX_I8_TILE(0, 3)
    last = tvmrt_amx_i8_cursor_of(mr, 0, a, offset, first, skip, all);
  }
  TVMRT_AMX_I8_LINES(INT32_MAX, 1)
}

/* Whether a call computes bytes of whole vectors, from whole products only. */
TVMRT_INLINE int tvmrt_amx_i8_is_fast(int nr, const tvmrt_tile_i8_args* a, const int32_t* sums) {
  const int has_tail = a->num_overflow_quads > 0 || a->run % (4 * a->amx->words) != 0;
  return !has_tail && sums == NULL && a->range != NULL && a->channels >= nr * TVMRT_I8_LANES;
}

/* A call in one of three ways, a literal like the other integers: unusual tiles, usual tiles, or
 * usual plain tiles. */
enum { TVMRT_AMX_I8_GENERAL, TVMRT_AMX_I8_FAST, TVMRT_AMX_I8_PLAIN };
TVMRT_INLINE void tvmrt_amx_i8_call(int nr, int mr, int is_signed, int epilogue, int is_padded_copy,
                                    int exceeds_l1, int mode, const tvmrt_tile_i8_args* a,
                                    int64_t offset, void* y, const int32_t* sums) {
  const int is_plain = mode == TVMRT_AMX_I8_PLAIN;
  uintptr_t ahead = a->amx->ahead;
  if (mode == TVMRT_AMX_I8_GENERAL) {
    tvmrt_amx_i8_general(nr, mr, is_signed, epilogue, is_padded_copy, exceeds_l1, a, offset, y,
                         sums, &ahead);
  } else if (tvmrt_amx_i8_is_single(nr, is_padded_copy, a)) {
    tvmrt_amx_i8_singles(mr, is_signed, epilogue, is_plain, a, offset, (uint8_t*)y, &ahead);
  } else {
    tvmrt_amx_i8_tiles(nr, mr, is_signed, epilogue, is_padded_copy, exceeds_l1, is_plain, a, offset,
                       (uint8_t*)y, &ahead);
  }
  a->amx->ahead = ahead;
}

/*! \brief Like TVMRT_DEFINE_TILE_I8, for 1 to 16 pixels, or up to 32 with one or two vectors.
 * is_padded_copy: y and a->added are those of pixel 0 of an image, see a->amx->padded_pitch. exceeds_l1: the weights
 * exceed the L1 cache. */
#define TVMRT_DEFINE_TILE_I8_AMX(name, nr, mr, is_signed, epilogue, is_padded_copy, exceeds_l1)    \
  TVMRT_NOINLINE void name##_general(const tvmrt_tile_i8_args* a, int64_t offset, void* y,         \
                                     const int32_t* sums) {                                        \
    tvmrt_amx_i8_call(nr, mr, is_signed, epilogue, is_padded_copy, exceeds_l1,                     \
                      TVMRT_AMX_I8_GENERAL, a, offset, y, sums);                                   \
  }                                                                                                \
  TVMRT_NOINLINE void name##_plain(const tvmrt_tile_i8_args* a, int64_t offset, void* y) {         \
    tvmrt_amx_i8_call(nr, mr, is_signed, epilogue, is_padded_copy, exceeds_l1, TVMRT_AMX_I8_PLAIN, \
                      a, offset, y, NULL);                                                         \
  }                                                                                                \
  TVMRT_NOINLINE void name(const tvmrt_tile_i8_args* a, int64_t offset, void* y,                   \
                           const int32_t* sums) {                                                  \
    if (!tvmrt_amx_i8_is_fast(nr, a, sums)) {                                                      \
      name##_general(a, offset, y, sums);                                                          \
    } else if (tvmrt_amx_i8_is_plain(epilogue, a)) {                                               \
      name##_plain(a, offset, y);                                                                  \
    } else {                                                                                       \
      tvmrt_amx_i8_call(nr, mr, is_signed, epilogue, is_padded_copy, exceeds_l1,                   \
                        TVMRT_AMX_I8_FAST, a, offset, y, NULL);                                    \
    }                                                                                              \
  }

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_GEMM_I8_AMX_H_ */
