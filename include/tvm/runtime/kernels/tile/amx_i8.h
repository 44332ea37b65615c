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

/* Where the last byte of a float is a number's, the float is that much more than 2 ^ 23. */
#define TVMRT_AMX_I8_FLOAT 8388608

/* Vector o of bytes as such floats, of which `order` has the places. */
TVMRT_INLINE __m512i tvmrt_amx_i8_floats(__m512i bytes, __m512i order, int o) {
  const __m512i high = _mm512_set1_epi32(0x4B000000);
#if defined(__AVX512VBMI__)
  (void)o;
  return _mm512_mask_permutexvar_epi8(high, 0x1111111111111111u, order, bytes);
#else
  (void)order;
  const __m128i own = o == 0   ? _mm512_extracti32x4_epi32(bytes, 0)
                      : o == 1 ? _mm512_extracti32x4_epi32(bytes, 1)
                      : o == 2 ? _mm512_extracti32x4_epi32(bytes, 2)
                               : _mm512_extracti32x4_epi32(bytes, 3);
  return _mm512_or_si512(_mm512_cvtepu8_epi32(own), high);
#endif
}

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

/* Loads weights, by the cache where they are many, so that pixels stay there. */
#define TVMRT_AMX_I8_WEIGHTS(number, vector, quad)                                        \
  if (is_far) {                                                                           \
    _tile_stream_loadd(number, (vector).weights + (quad) * (vector).step, (vector).step); \
  } else {                                                                                \
    _tile_loadd(number, (vector).weights + (quad) * (vector).step, (vector).step);        \
  }

/* The products of the quads from `quad` on of all pixels and channels; ob, wt, is_signed
 * and is_far are literals. */
TVMRT_INLINE void tvmrt_amx_i8_step(int ob, int wt, int is_signed, int is_far, const uint8_t* x,
                                    int64_t step, const tvmrt_i8_vector* w, int64_t quad) {
  _tile_loadd(4, x, step);
  TVMRT_AMX_I8_WEIGHTS(6, w[0], quad)
  TVMRT_AMX_I8_DOT(0, 4, 6)
  if (wt > TVMRT_AMX_ROWS) {
    _tile_loadd(5, x + TVMRT_AMX_ROWS * step, step);
    TVMRT_AMX_I8_DOT(2, 5, 6)
  }
  if (ob > 1) {
    TVMRT_AMX_I8_WEIGHTS(7, w[1], quad)
    TVMRT_AMX_I8_DOT(1, 4, 7)
    if (wt > TVMRT_AMX_ROWS) {
      TVMRT_AMX_I8_DOT(3, 5, 7)
    }
  }
  if (ob > 2) {
    TVMRT_AMX_I8_WEIGHTS(6, w[2], quad)
    TVMRT_AMX_I8_DOT(2, 4, 6)
  }
  if (ob > 3) {
    TVMRT_AMX_I8_WEIGHTS(7, w[3], quad)
    TVMRT_AMX_I8_DOT(3, 4, 7)
  }
}

/* Sums of whole steps of all runs, [pixel][channel]. */
TVMRT_INLINE void tvmrt_amx_i8_sum(int ob, int wt, int is_signed, int is_far,
                                   const tvmrt_tile_i8_args* a, int64_t offset, int32_t* sums) {
  const int64_t step = a->x_step;
  const int32_t words = a->words, bytes = 4 * words, run = a->run;
  const int64_t quads = (run + 3) / 4, lines = a->ahead_lines;
  const intptr_t row = ob * TVMRT_AMX_BYTES;
  /* sums begin with the bias, a row of the registers as the other */
  _tile_loadd(0, a->bias, 0);
  if (ob > 1) _tile_loadd(1, a->bias + 16, 0);
  if (ob > 2) _tile_loadd(2, a->bias + 32, 0);
  if (ob > 3) _tile_loadd(3, a->bias + 48, 0);
  if (wt > TVMRT_AMX_ROWS) {
    _tile_loadd(2, a->bias, 0);
    if (ob > 1) _tile_loadd(3, a->bias + 16, 0);
  }
  /* each tile fetches what is behind the part of the one before */
  const int8_t* ahead = a->ahead;
  if (a->ahead_lines > 0) ahead += offset / step / wt * (run / bytes * a->segments) * lines * 64;
  for (int32_t s = 0; s < a->segments; s++) {
    const uint8_t* x = a->segment[s] + offset;
    int64_t quad = s * quads;
    for (int32_t k = 0; k + bytes <= run; k += bytes, quad += words) {
      for (int32_t i = 0; i < lines; i++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
      tvmrt_amx_i8_step(ob, wt, is_signed, is_far, x + k, step, a->vector, quad);
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
                                    const tvmrt_i8_vector* w,
                                    tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_WT][TVMRT_TILE_I8_MAX_OB]) {
  tvmrt_i8_weights weights[4];
  TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) weights[o] = tvmrt_i8_weights_load(w[o].weights);
  TVMRT_UNROLL_ALL for (int t = 0; t < wt; t++) {
    const tvmrt_i8_quad bytes = tvmrt_i8_quad_load(x + t * step, is_signed);
    TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) {
      acc[t][o] = tvmrt_i8_dot(acc[t][o], bytes, weights[o]);
    }
  }
  if (is_signed) {
    TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) {
      const tvmrt_i8_acc high =
          tvmrt_i8_dot(_mm512_setzero_si512(), _mm512_set1_epi8((char)-128), weights[o]);
      TVMRT_UNROLL_ALL for (int t = 0; t < wt; t++) {
        acc[t][o] = _mm512_sub_epi32(acc[t][o], high);
      }
    }
  }
}

/* What whole steps leave over of runs, and the quads that are counted twice. */
TVMRT_INLINE void tvmrt_amx_i8_rest(int ob, int wt, int is_signed, const tvmrt_tile_i8_args* a,
                                    int64_t offset,
                                    tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_WT][TVMRT_TILE_I8_MAX_OB]) {
  const int32_t bytes = 4 * a->words, run = a->run, whole = run / bytes * bytes;
  const int64_t step = a->x_step;
  tvmrt_i8_vector w[4];
  TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) w[o] = a->vector[o];
  for (int32_t s = 0; s < a->segments; s++) {
    const uint8_t* x = a->segment[s] + offset;
    TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) w[o].weights += whole / 4 * w[o].step;
    for (int32_t k = whole; k < run; k += 4) {
      tvmrt_amx_i8_quad(ob, wt, is_signed, x + (k + 4 <= run ? k : run - 4), step, w, acc);
      TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) w[o].weights += w[o].step;
    }
  }
  for (int32_t e = 0; e < a->extras; e++) {
    const uint8_t* x = a->segment[a->extra[2 * e]] + a->extra[2 * e + 1] + offset;
    tvmrt_amx_i8_quad(ob, wt, is_signed, x, step, w, acc);
    TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) w[o].weights += w[o].step;
  }
}

/* Finishes `wt` pixels, few enough for the processor's other registers. */
TVMRT_INLINE void tvmrt_amx_i8_finish(int ob, int wt, int is_signed, int plus,
                                      const tvmrt_tile_i8_args* a, int64_t offset, int rest,
                                      const int32_t* from, void* y, const int32_t* sums) {
  tvmrt_i8_acc acc[TVMRT_TILE_I8_MAX_WT][TVMRT_TILE_I8_MAX_OB];
  TVMRT_UNROLL_ALL for (int t = 0; t < wt; t++) {
    TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) acc[t][o] =
        tvmrt_i8_acc_load(from + (t * ob + o) * TVMRT_I8_LANES);
  }
  if (rest) tvmrt_amx_i8_rest(ob, wt, is_signed, a, offset, acc);
  tvmrt_tile_i8_finish(ob, wt, plus, a, y, sums, acc);
}

/* Which pixels of a tile are stored, and where in the output; returns how many. */
TVMRT_INLINE int tvmrt_amx_i8_places(int wt, int is_plane, const tvmrt_tile_i8_args* a,
                                     int64_t offset, int32_t pixel[32], int32_t place[32]) {
  int count = 0;
  if (is_plane) {
    const int32_t first = (int32_t)(offset / a->x_step);
    int32_t row = first / a->plane, column = first % a->plane;
    for (int t = 0; t < wt; t++) {
      pixel[count] = t;
      place[count] = row * a->valid + column;
      count += column < a->valid;
      if (++column == a->plane) column = 0, row++;
    }
  }
  return is_plane ? count : wt;
}

/* Finishes `wt` pixels from pixel t of a tile on, whose place in the output is `at`. */
TVMRT_INLINE void tvmrt_amx_i8_part(int ob, int wt, int is_signed, int plus,
                                    const tvmrt_tile_i8_args* a, int64_t offset, int t, int at,
                                    int rest, const int32_t* from, void* y, const int32_t* sums) {
  tvmrt_tile_i8_args part = *a;
  const int64_t y_bytes = a->y_step * (a->range != NULL ? 1 : 4);
  if (plus != TVMRT_PLUS_NONE) part.added = a->added + at * a->added_step;
  tvmrt_amx_i8_finish(ob, wt, is_signed, plus, &part, offset + t * a->x_step, rest,
                      from + t * ob * TVMRT_I8_LANES, (uint8_t*)y + at * y_bytes,
                      sums != NULL ? sums + t : NULL);
}

/* The same for a tile of which something is unusual: four pixels at a time, or those of a plane one
 * by one. */
TVMRT_INLINE void tvmrt_amx_i8_some(int ob, int wt, int is_signed, int plus, int is_plane,
                                    const tvmrt_tile_i8_args* a, int64_t offset, int rest,
                                    const int32_t* from, void* y, const int32_t* sums) {
  int32_t pixel[32], place[32];
  const int count = tvmrt_amx_i8_places(wt, is_plane, a, offset, pixel, place);
  const int whole = is_plane ? 0 : wt / 4 * 4;
  for (int t = 0; t < whole; t += 4) {
    tvmrt_amx_i8_part(ob, 4, is_signed, plus, a, offset, t, t, rest, from, y, sums);
  }
  for (int i = whole; i < count; i++) {
    const int t = is_plane ? pixel[i] : i, at = is_plane ? place[i] : i;
    tvmrt_amx_i8_part(ob, 1, is_signed, plus, a, offset, t, at, rest, from, y, sums);
  }
}

/* What a tile adds, ready for all of its pixels. */
typedef struct {
  __m512 lo, hi, fa, fb, zero;
  __m512i order[4];
  int is_signed;
} tvmrt_amx_i8_plus;

TVMRT_INLINE tvmrt_amx_i8_plus tvmrt_amx_i8_plus_of(int plus, const tvmrt_tile_i8_args* a) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  tvmrt_amx_i8_plus p;
  memset(&p, 0, sizeof(p));
  if (plus == TVMRT_PLUS_NONE) return p;
  p.is_signed = plus == TVMRT_PLUS_S8;
  p.lo = _mm512_set1_ps((float)(a->range->lo - a->range->zero));
  p.hi = _mm512_set1_ps((float)(a->range->hi - a->range->zero));
  p.fa = _mm512_set1_ps(a->plus->fa);
  p.fb = _mm512_set1_ps(a->plus->fb);
  p.zero = _mm512_set1_ps((float)(TVMRT_AMX_I8_FLOAT + 128 * p.is_signed + a->plus->b_zero));
  for (int o = 0; o < 4; o++) p.order[o] = _mm512_add_epi32(lanes, _mm512_set1_epi32(16 * o));
  return p;
}

/* tvmrt_i8_plus() with vector o of the bytes of a pixel. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_amx_i8_add(tvmrt_i8_acc q, const tvmrt_amx_i8_plus* p,
                                           __m512i bytes, int o) {
  __m512 u = _mm512_min_ps(_mm512_max_ps(_mm512_cvtepi32_ps(q), p->lo), p->hi);
  __m512 v = _mm512_castsi512_ps(tvmrt_amx_i8_floats(bytes, p->order[o], o));
  u = _mm512_mul_ps(u, p->fa);
  v = _mm512_mul_ps(_mm512_sub_ps(v, p->zero), p->fb);
  u = (__m512)tvmrt_i8_floats_product((tvmrt_i8_floats)u);
  v = (__m512)tvmrt_i8_floats_product((tvmrt_i8_floats)v);
  return _mm512_cvtps_epi32(_mm512_add_ps(u, v));
}

/* The bytes of `ob` vectors of channels of a pixel. */
TVMRT_INLINE __m512i tvmrt_amx_i8_bytes(int ob, const tvmrt_amx_i8_plus* p, const uint8_t* from) {
  __m512i v = _mm512_setzero_si512();
  if (ob == 1) v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i*)from));
  if (ob == 2) v = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i*)from));
  if (ob == 3) v = _mm512_maskz_loadu_epi32(0xfff, from);
  if (ob == 4) v = _mm512_loadu_si512(from);
  return p->is_signed ? _mm512_xor_si512(v, _mm512_set1_epi8((char)-128)) : v;
}

/* Stores whole vectors of all pixels as bytes: what a tile usually does. */
TVMRT_INLINE void tvmrt_amx_i8_store(int ob, int wt, int plus, int is_plane,
                                     const tvmrt_tile_i8_args* a, int64_t offset,
                                     const int32_t* from, uint8_t* y) {
  const int pixels = ob == 1 ? 4 : ob == 2 ? 2 : 1;
  const int64_t step = a->y_step, added_step = a->added_step;
  const uint8_t* added = a->added;
  const tvmrt_i8_range range = plus != TVMRT_PLUS_NONE ? a->plus->range : *a->range;
  const tvmrt_amx_i8_plus p = tvmrt_amx_i8_plus_of(plus, a);
  int32_t pixel[32], place[32];
  const int all = tvmrt_amx_i8_places(wt, is_plane, a, offset, pixel, place);
  __m512 scale[4];
  TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) { scale[o] = _mm512_loadu_ps(a->scale + 16 * o); }
  for (int t = 0, count = pixels; t < all; t += count) {
    tvmrt_i8_acc q[4];
    int64_t at[4];
    if (t + pixels > all) count = 1;
    TVMRT_UNROLL_ALL for (int i = 0; i < pixels; i++) {
      /* behind the last whole ones pixels go one by one: the others of these are not stored */
      const int one = t + i < all ? t + i : t, own = is_plane ? pixel[one] : one;
      __m512i bytes = _mm512_setzero_si512();
      at[i] = is_plane ? place[one] : one;
      if (plus != TVMRT_PLUS_NONE) bytes = tvmrt_amx_i8_bytes(ob, &p, added + at[i] * added_step);
      TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) {
        const __m512 sum = _mm512_cvtepi32_ps(tvmrt_i8_acc_load(from + (own * ob + o) * 16));
        tvmrt_i8_acc* to = &q[i * ob + o];
        *to = _mm512_cvtps_epi32(_mm512_mul_ps(sum, scale[o]));
        if (plus != TVMRT_PLUS_NONE) *to = tvmrt_amx_i8_add(*to, &p, bytes, o);
      }
    }
    if (pixels == 1) {
      tvmrt_i8_store_bytes(y + at[0] * step, q[0], q[1], q[2], q[ob - 1], &range, 16 * ob);
    } else if (count == 1) {
      tvmrt_i8_store_bytes(y + at[0] * step, q[0], q[ob - 1], q[0], q[0], &range, 16 * ob);
    } else if (is_plane && pixels == 2) {
      tvmrt_i8_store_pixels(y + at[0] * step, (at[1] - at[0]) * step, 2, q[0], q[1], q[2], q[3],
                            &range);
    } else if (is_plane) {
      TVMRT_UNROLL_ALL for (int i = 0; i < pixels; i++) {
        tvmrt_i8_store_bytes(y + at[i] * step, q[i], q[i], q[i], q[i], &range, 16);
      }
    } else {
      tvmrt_i8_store_pixels(y + t * step, step, pixels, q[0], q[1], q[2], q[3], &range);
    }
  }
}

/*! \brief The tile; all numbers are literals. */
TVMRT_INLINE void tvmrt_tile_i8_amx(int ob, int wt, int is_signed, int plus, int is_plane,
                                    int is_far, const tvmrt_tile_i8_args* a, int64_t offset,
                                    void* y, const int32_t* sums) {
  int32_t all[2 * TVMRT_AMX_ROWS * 2 * 16] __attribute__((aligned(64)));
  const int rest = a->extras > 0 || a->run % (4 * a->words) != 0;
  tvmrt_amx_i8_ready(wt, a);
  tvmrt_amx_i8_sum(ob, wt, is_signed, is_far, a, offset, all);
  if (rest || sums != NULL || a->range == NULL || a->channels < ob * TVMRT_I8_LANES) {
    tvmrt_amx_i8_some(ob, wt, is_signed, plus, is_plane, a, offset, rest, all, y, sums);
  } else {
    tvmrt_amx_i8_store(ob, wt, plus, is_plane, a, offset, all, (uint8_t*)y);
  }
}

/*! \brief As TVMRT_DEFINE_TILE_I8_OF, of 1 to 16 pixels, or for one or two vectors up to 32; is_plane
 * where y and a->added are those of pixel 0 of an image, see a->plane; is_far where weights are more
 * than the first cache holds. */
#define TVMRT_DEFINE_TILE_I8_AMX(name, ob, wt, is_signed, plus, is_plane, is_far)     \
  TVMRT_NOINLINE void name(const tvmrt_tile_i8_args* a, int64_t offset, void* y,      \
                           const int32_t* sums) {                                     \
    tvmrt_tile_i8_amx(ob, wt, is_signed, plus, is_plane, is_far, a, offset, y, sums); \
  }

#endif /* TVM_RUNTIME_KERNELS_TILE_AMX_I8_H_ */
