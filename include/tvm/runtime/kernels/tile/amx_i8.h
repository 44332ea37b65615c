/*!
 * \file tile/amx_i8.h
 * \brief The register tile over bytes by AMX: up to 32 pixels times two vectors of 16 output
 * channels, or 16 pixels times up to four.
 *
 * A register has 64 bytes of 16 pixels, or of 16 channels the weights that these meet, which lie in
 * memory as AVX-512 VNNI reads them. So many quads are multiplied at once as divide a run into equal
 * parts, or 16; what is left of a run, and the quads that are counted twice, is multiplied by VNNI when
 * the sums are there. The numbers of the registers are those of tile/amx.h; of three and four vectors
 * the third has the sums 2, the fourth 3, and both take the weights' registers once more.
 *
 * Bytes are multiplied as they are, signed or unsigned: nothing is added to those that are signed.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_AMX_I8_H_
#define TVM_RUNTIME_KERNELS_TILE_AMX_I8_H_

#include "amx.h"
#include "i8.h"

/*! \brief Gives the registers back, so that the system need not save them. */
static inline void tvmrt_amx_i8_end(void) { _tile_release(); }

/* Registers for a tile, where they are not there from the one before. */
TVMRT_INLINE void tvmrt_amx_i8_ready(int wt, const tvmrt_tile_i8_args* a) {
  if (*a->configured == wt) return;
  const int first = wt < TVMRT_AMX_ROWS ? wt : TVMRT_AMX_ROWS;
  tvmrt_amx_configure(first, wt > TVMRT_AMX_ROWS ? wt - TVMRT_AMX_ROWS : first, a->words);
  *a->configured = wt;
}

/* sums += x * w by registers of these numbers */
#define TVMRT_AMX_I8_DOT(sums, x, w) \
  if (is_signed) {                   \
    _tile_dpbssd(sums, x, w);        \
  } else {                           \
    _tile_dpbusd(sums, x, w);        \
  }

/* The products of the quads from `quad` on of all pixels and channels; ob, wt and is_signed are
 * literals. Weights go by the cache, where the pixels are to stay. */
TVMRT_INLINE void tvmrt_amx_i8_step(int ob, int wt, int is_signed, const uint8_t* x, int64_t step,
                                    const tvmrt_i8_vector* w, int64_t quad) {
  _tile_loadd(4, x, step);
  _tile_stream_loadd(6, w[0].weights + quad * w[0].step, w[0].step);
  TVMRT_AMX_I8_DOT(0, 4, 6)
  if (wt > TVMRT_AMX_ROWS) {
    _tile_loadd(5, x + TVMRT_AMX_ROWS * step, step);
    TVMRT_AMX_I8_DOT(2, 5, 6)
  }
  if (ob > 1) {
    _tile_stream_loadd(7, w[1].weights + quad * w[1].step, w[1].step);
    TVMRT_AMX_I8_DOT(1, 4, 7)
    if (wt > TVMRT_AMX_ROWS) {
      TVMRT_AMX_I8_DOT(3, 5, 7)
    }
  }
  if (ob > 2) {
    _tile_stream_loadd(6, w[2].weights + quad * w[2].step, w[2].step);
    TVMRT_AMX_I8_DOT(2, 4, 6)
  }
  if (ob > 3) {
    _tile_stream_loadd(7, w[3].weights + quad * w[3].step, w[3].step);
    TVMRT_AMX_I8_DOT(3, 4, 7)
  }
}

/* Sums of whole steps of all runs, [pixel][channel]. */
TVMRT_INLINE void tvmrt_amx_i8_sum(int ob, int wt, int is_signed, const tvmrt_tile_i8_args* a,
                                   int64_t offset, int32_t* sums) {
  const int64_t step = a->x_step;
  const int32_t words = a->words, bytes = 4 * words, run = a->run;
  const int64_t quads = (run + 3) / 4;
  const intptr_t row = ob * TVMRT_AMX_BYTES;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int32_t s = 0; s < a->segments; s++) {
    const uint8_t* x = a->segment[s] + offset;
    int64_t quad = s * quads;
    for (int32_t k = 0; k + bytes <= run; k += bytes, quad += words) {
      tvmrt_amx_i8_step(ob, wt, is_signed, x + k, step, a->vector, quad);
    }
  }
  _tile_stored(0, sums, row);
  if (ob > 1) _tile_stored(1, sums + 16, row);
  if (ob > 2) _tile_stored(2, sums + 32, row);
  if (ob > 3) _tile_stored(3, sums + 48, row);
  if (wt > TVMRT_AMX_ROWS) {
    int32_t* behind = sums + TVMRT_AMX_ROWS * ob * 16;
    _tile_stored(2, behind, row);
    if (ob > 1) _tile_stored(3, behind + 16, row);
  }
}

/* One quad of some pixels, by VNNI. Signed bytes are multiplied 128 higher, which is taken off. */
TVMRT_INLINE void tvmrt_amx_i8_quad(int ob, int wt, int is_signed, const uint8_t* x, int64_t step,
                                    const tvmrt_i8_vector* w, int64_t quad,
                                    tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_WT][TVMRT_TILE_I8_MAX_OB]) {
  TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) {
    const tvmrt_i8_weights weights = tvmrt_i8_weights_load(w[o].weights + quad * w[o].step);
    const tvmrt_i8_acc high = _mm512_dpbusd_epi32(
        _mm512_setzero_si512(), _mm512_set1_epi8((char)(is_signed ? 128 : 0)), weights);
    TVMRT_UNROLL_ALL for (int t = 0; t < wt; t++) {
      const tvmrt_i8_quad bytes = tvmrt_i8_quad_load(x + t * step, is_signed);
      acc[t][o] = tvmrt_i8_dot(acc[t][o], bytes, weights);
      if (is_signed) acc[t][o] = _mm512_sub_epi32(acc[t][o], high);
    }
  }
}

/* What whole steps leave over of runs, and the quads that are counted twice. */
TVMRT_INLINE void tvmrt_amx_i8_rest(int ob, int wt, int is_signed, const tvmrt_tile_i8_args* a,
                                    int64_t offset,
                                    tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_WT][TVMRT_TILE_I8_MAX_OB]) {
  const int32_t bytes = 4 * a->words, run = a->run, whole = run / bytes * bytes;
  int64_t quad = 0;
  for (int32_t s = 0; s < a->segments; s++) {
    quad += whole / 4;
    for (int32_t k = whole; k < run; k += 4, quad++) {
      const uint8_t* x = a->segment[s] + offset + (k + 4 <= run ? k : run - 4);
      tvmrt_amx_i8_quad(ob, wt, is_signed, x, a->x_step, a->vector, quad, acc);
    }
  }
  for (int32_t e = 0; e < a->extras; e++, quad++) {
    const uint8_t* x = a->segment[a->extra[2 * e]] + a->extra[2 * e + 1] + offset;
    tvmrt_amx_i8_quad(ob, wt, is_signed, x, a->x_step, a->vector, quad, acc);
  }
}

/* Finishes `wt` pixels, few enough for the processor's other registers. */
TVMRT_INLINE void tvmrt_amx_i8_finish(int ob, int wt, int is_signed, int plus,
                                      const tvmrt_tile_i8_args* a, int64_t offset, int rest,
                                      const int32_t* from, void* y, const int32_t* sums) {
  tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_WT][TVMRT_TILE_I8_MAX_OB];
  TVMRT_UNROLL_ALL for (int t = 0; t < wt; t++) {
    TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) acc[t][o] =
        _mm512_add_epi32(tvmrt_i8_acc_load(from + (t * ob + o) * TVMRT_I8_LANES),
                         tvmrt_i8_acc_load(a->bias + o * TVMRT_I8_LANES));
  }
  if (rest) tvmrt_amx_i8_rest(ob, wt, is_signed, a, offset, acc);
  tvmrt_tile_i8_finish(ob, wt, plus, a, y, sums, acc);
}

/*! \brief The tile; ob, wt, is_signed and plus are literals. */
TVMRT_INLINE void tvmrt_tile_i8_amx(int ob, int wt, int is_signed, int plus,
                                    const tvmrt_tile_i8_args* a, int64_t offset, void* y,
                                    const int32_t* sums) {
  enum { kAtOnce = 4 };
  int32_t all[2 * TVMRT_AMX_ROWS * 2 * 16] __attribute__((aligned(64)));
  tvmrt_tile_i8_args part = *a;
  const int rest = a->extras > 0 || a->run % (4 * a->words) != 0;
  const int64_t y_bytes = a->y_step * (a->range != NULL ? 1 : 4);
  int t = 0;
  tvmrt_amx_i8_ready(wt, a);
  tvmrt_amx_i8_sum(ob, wt, is_signed, a, offset, all);
  for (; t + kAtOnce <= wt; t += kAtOnce) {
    if (plus != TVMRT_PLUS_NONE) part.added = a->added + t * a->added_step;
    tvmrt_amx_i8_finish(ob, kAtOnce, is_signed, plus, &part, offset + t * a->x_step, rest,
                        all + t * ob * TVMRT_I8_LANES, (uint8_t*)y + t * y_bytes,
                        sums != NULL ? sums + t : NULL);
  }
  if (wt % kAtOnce != 0) {
    if (plus != TVMRT_PLUS_NONE) part.added = a->added + t * a->added_step;
    tvmrt_amx_i8_finish(ob, wt % kAtOnce, is_signed, plus, &part, offset + t * a->x_step, rest,
                        all + t * ob * TVMRT_I8_LANES, (uint8_t*)y + t * y_bytes,
                        sums != NULL ? sums + t : NULL);
  }
}

/*! \brief As TVMRT_DEFINE_TILE_I8_OF, of 1 to 16 pixels, or for one or two vectors up to 32. */
#define TVMRT_DEFINE_TILE_I8_AMX(name, ob, wt, is_signed, plus)                  \
  TVMRT_NOINLINE void name(const tvmrt_tile_i8_args* a, int64_t offset, void* y, \
                           const int32_t* sums) {                                \
    tvmrt_tile_i8_amx(ob, wt, is_signed, plus, a, offset, y, sums);              \
  }

#endif /* TVM_RUNTIME_KERNELS_TILE_AMX_I8_H_ */
