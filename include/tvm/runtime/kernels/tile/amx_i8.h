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

/* Where the sums of a register's first pixel lie, [pixel][channel]. */
#define TVMRT_AMX_I8_PLACE(number, vector) \
  ((vector)*16 + (wt > TVMRT_AMX_ROWS && (number) > 1 ? TVMRT_AMX_ROWS * ob * 16 : 0))
#define TVMRT_AMX_I8_STORE(number, vector, sums) \
  _tile_stored(number, (sums) + TVMRT_AMX_I8_PLACE(number, vector), ob * TVMRT_AMX_BYTES);

/* Stores the sums of a tile. */
TVMRT_INLINE void tvmrt_amx_i8_sums(int ob, int wt, int32_t* sums) {
  TVMRT_AMX_I8_STORE(0, 0, sums)
  if (ob > 1) {
    TVMRT_AMX_I8_STORE(1, 1, sums)
  }
  if (ob > 2 || wt > TVMRT_AMX_ROWS) {
    TVMRT_AMX_I8_STORE(2, ob > 2 ? 2 : 0, sums)
  }
  if (ob > 3 || (ob == 2 && wt > TVMRT_AMX_ROWS)) {
    TVMRT_AMX_I8_STORE(3, ob > 3 ? 3 : 1, sums)
  }
}

/* Sums begin with the bias, a row of the registers as the other. */
TVMRT_INLINE void tvmrt_amx_i8_begin(int ob, int wt, const int32_t* bias) {
  _tile_loadd(0, bias, 0);
  if (ob > 1) _tile_loadd(1, bias + 16, 0);
  if (ob > 2) _tile_loadd(2, bias + 32, 0);
  if (ob > 3) _tile_loadd(3, bias + 48, 0);
  if (wt > TVMRT_AMX_ROWS) {
    _tile_loadd(2, bias, 0);
    if (ob > 1) _tile_loadd(3, bias + 16, 0);
  }
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

/* The pixels of a tile that are stored, one after the other, and their places in the output. */
typedef struct {
  const int32_t* sums;
  int32_t pixel, end, place;
  int32_t column, valid,
      gap; /* of a row; in images that lie in scratch rows have a gap behind them */
} tvmrt_amx_i8_places;

/* Those of the tile from the call's pixel `first` on, but `skip` ones. */
TVMRT_INLINE tvmrt_amx_i8_places tvmrt_amx_i8_places_of(int wt, int is_plane,
                                                        const tvmrt_tile_i8_args* a, int64_t offset,
                                                        int32_t first, int32_t skip,
                                                        const int32_t* sums) {
  tvmrt_amx_i8_places p = {sums, skip, wt, first + skip, 0, INT32_MAX, 0};
  if (!is_plane) return p;
  const int32_t from = (int32_t)(offset / a->x_step) + first + skip, row = from / a->plane;
  p.column = from % a->plane;
  p.valid = a->valid;
  p.gap = a->plane - a->valid;
  p.place = row * a->valid + p.column;
  if (p.column > a->valid) {
    p.pixel += a->plane - p.column;
    p.column = 0;
    p.place = (row + 1) * a->valid;
  }
  return p;
}

/* Whether there is one more. */
TVMRT_INLINE int tvmrt_amx_i8_more(tvmrt_amx_i8_places* p) {
  if (p->column == p->valid) p->pixel += p->gap, p->column = 0;
  return p->pixel < p->end;
}

TVMRT_INLINE void tvmrt_amx_i8_next(tvmrt_amx_i8_places* p) {
  p->pixel++;
  p->column++;
  p->place++;
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
 * by one. y is that of the call, offset and sums are the tile's. */
TVMRT_INLINE void tvmrt_amx_i8_some(int ob, int wt, int is_signed, int plus, int is_plane,
                                    const tvmrt_tile_i8_args* a, int64_t offset, int rest,
                                    tvmrt_amx_i8_places p, void* y, const int32_t* sums) {
  for (; !is_plane && p.pixel + 4 <= wt; p.pixel += 4, p.place += 4) {
    tvmrt_amx_i8_part(ob, 4, is_signed, plus, a, offset, p.pixel, p.place, rest, p.sums, y, sums);
  }
  for (; tvmrt_amx_i8_more(&p); tvmrt_amx_i8_next(&p)) {
    tvmrt_amx_i8_part(ob, 1, is_signed, plus, a, offset, p.pixel, p.place, rest, p.sums, y, sums);
  }
}

/* What sums become bytes by, ready for all pixels of a call. */
typedef struct {
  __m512 scale[4], lo, hi, fa, fb, zero;
  __m512i order[4];
  int is_signed, is_byte;
  tvmrt_i8_range range;
  uint8_t* y;
  int64_t y_step, added_step;
  const uint8_t* added;
} tvmrt_amx_i8_out;

TVMRT_INLINE tvmrt_amx_i8_out tvmrt_amx_i8_out_of(int ob, int plus, const tvmrt_tile_i8_args* a,
                                                  uint8_t* y) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  tvmrt_amx_i8_out p;
  memset(&p, 0, sizeof(p));
  if (a->range == NULL) return p;
  TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) p.scale[o] = _mm512_loadu_ps(a->scale + 16 * o);
  p.range = plus != TVMRT_PLUS_NONE ? a->plus->range : *a->range;
  p.is_byte = !p.range.is_signed && p.range.lo == 0 && p.range.hi == 255;
  p.y = y;
  p.y_step = a->y_step;
  if (plus == TVMRT_PLUS_NONE) return p;
  p.added = a->added;
  p.added_step = a->added_step;
  p.is_signed = plus == TVMRT_PLUS_S8;
  p.lo = _mm512_set1_ps((float)(a->range->lo - a->range->zero));
  p.hi = _mm512_set1_ps((float)(a->range->hi - a->range->zero));
  p.fa = _mm512_set1_ps(a->plus->fa);
  p.fb = _mm512_set1_ps(a->plus->fb);
  p.zero = _mm512_set1_ps((float)(TVMRT_AMX_I8_FLOAT + 128 * p.is_signed + a->plus->b_zero));
  for (int o = 0; o < 4; o++) p.order[o] = _mm512_add_epi32(lanes, _mm512_set1_epi32(16 * o));
  return p;
}

/* tvmrt_i8_plus() of rescaled sums with vector o of the bytes of a pixel. Integers are the bounds, so
 * that numbers may be rounded behind them: by a sum. While matrices are multiplied, one of the two
 * units for vectors only adds and moves. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_amx_i8_add(__m512 q, const tvmrt_amx_i8_out* p, __m512i bytes,
                                           int o) {
  const __m512 round = _mm512_set1_ps(TVMRT_I8_ROUND);
  __m512 u = _mm512_add_ps(_mm512_min_ps(_mm512_max_ps(q, p->lo), p->hi), round);
  u = _mm512_sub_ps((__m512)tvmrt_i8_floats_product((tvmrt_i8_floats)u), round);
  __m512 v = _mm512_castsi512_ps(tvmrt_amx_i8_floats(bytes, p->order[o], o));
  u = _mm512_mul_ps(u, p->fa);
  v = _mm512_mul_ps(_mm512_sub_ps(v, p->zero), p->fb);
  u = (__m512)tvmrt_i8_floats_product((tvmrt_i8_floats)u);
  v = (__m512)tvmrt_i8_floats_product((tvmrt_i8_floats)v);
  return _mm512_cvtps_epi32(_mm512_add_ps(u, v));
}

/* The bytes of `ob` vectors of channels of a pixel. */
TVMRT_INLINE __m512i tvmrt_amx_i8_bytes(int ob, const tvmrt_amx_i8_out* p, const uint8_t* from) {
  __m512i v = _mm512_setzero_si512();
  if (ob == 1) v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i*)from));
  if (ob == 2) v = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i*)from));
  if (ob == 3) v = _mm512_maskz_loadu_epi32(0xfff, from);
  if (ob == 4) v = _mm512_loadu_si512(from);
  return p->is_signed ? _mm512_xor_si512(v, _mm512_set1_epi8((char)-128)) : v;
}

/* tvmrt_i8_pack(), where most ranges are those of a byte. */
TVMRT_INLINE __m512i tvmrt_amx_i8_pack(tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                       tvmrt_i8_acc d, const tvmrt_amx_i8_out* out) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  if (!out->is_byte) return tvmrt_i8_pack(a, b, c, d, &out->range);
  const __m512i zero = _mm512_set1_epi16((short)out->range.zero);
  const __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero);
  const __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), zero);
  return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(ab, cd));
}

/* Stores whole vectors of the next pixels as bytes, what a tile usually does: of so many that these
 * fill a line, or of fewer behind the last such ones. */
TVMRT_INLINE void tvmrt_amx_i8_store(int ob, int plus, const tvmrt_amx_i8_out* out,
                                     tvmrt_amx_i8_places* p) {
  const int pixels = ob == 1 ? 4 : ob == 2 ? 2 : 1;
  tvmrt_i8_acc q[4];
  uint8_t* y[4];
  /* Pixels that are missing are the last one again: their bytes are stored twice, once all are read. */
  int32_t pixel = 0, place = 0;
  TVMRT_UNROLL_ALL for (int i = 0; i < pixels; i++) {
    if (i == 0 || tvmrt_amx_i8_more(p)) {
      pixel = p->pixel;
      place = p->place;
      tvmrt_amx_i8_next(p);
    }
    const int32_t* sums = p->sums + pixel * ob * 16;
    __m512i bytes = _mm512_setzero_si512();
    y[i] = out->y + place * out->y_step;
    if (plus != TVMRT_PLUS_NONE) {
      bytes = tvmrt_amx_i8_bytes(ob, out, out->added + place * out->added_step);
    }
    TVMRT_UNROLL_ALL for (int o = 0; o < ob; o++) {
      const __m512 sum = _mm512_cvtepi32_ps(tvmrt_i8_acc_load(sums + o * 16));
      const __m512 scaled =
          (__m512)tvmrt_i8_floats_product((tvmrt_i8_floats)_mm512_mul_ps(sum, out->scale[o]));
      q[i * ob + o] = plus != TVMRT_PLUS_NONE ? tvmrt_amx_i8_add(scaled, out, bytes, o)
                                              : _mm512_cvtps_epi32(scaled);
    }
  }
  const __m512i v = tvmrt_amx_i8_pack(q[0], q[1], q[2], ob == 3 ? q[2] : q[3], out);
  if (ob == 1) {
    _mm_storeu_si128((__m128i*)y[0], _mm512_castsi512_si128(v));
    _mm_storeu_si128((__m128i*)y[1], _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i*)y[2], _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i*)y[3], _mm512_extracti32x4_epi32(v, 3));
  } else if (ob == 2) {
    _mm256_storeu_si256((__m256i*)y[0], _mm512_castsi512_si256(v));
    _mm256_storeu_si256((__m256i*)y[1], _mm512_extracti64x4_epi64(v, 1));
  } else if (ob == 3) {
    _mm256_storeu_si256((__m256i*)y[0], _mm512_castsi512_si256(v));
    _mm_storeu_si128((__m128i*)(y[0] + 32), _mm512_extracti32x4_epi32(v, 2));
  } else {
    _mm512_storeu_si512(y[0], v);
  }
}

/* Fetches lines of weights into the second-level cache. */
TVMRT_INLINE const int8_t* tvmrt_amx_i8_fetch(const int8_t* ahead, int32_t lines) {
  for (int32_t l = 0; l < lines; l++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
  return ahead;
}

/*! \brief The tiles of a call; all numbers and is_usual are literals. To finish a tile while the next
 * one is multiplied gains nothing: registers are stored by as many operations as wait for one another,
 * and the two share one of the units for vectors. */
TVMRT_INLINE void tvmrt_amx_i8_tiles(int ob, int wt, int is_signed, int plus, int is_plane,
                                     int is_far, const tvmrt_tile_i8_args* a, int64_t offset,
                                     void* y, const int32_t* sums, int is_usual) {
  int32_t all[2 * TVMRT_AMX_ROWS * 2 * 16] __attribute__((aligned(64)));
  const int32_t words = a->words, bytes = 4 * words, run = a->run, lines = a->ahead_lines;
  const int64_t quads = (run + 3) / 4, x_step = a->x_step;
  const int rest = a->extras > 0 || run % bytes != 0;
  const tvmrt_amx_i8_out out = tvmrt_amx_i8_out_of(ob, plus, a, (uint8_t*)y);
  const int32_t left = a->left < wt ? a->left : 0; /* always less, which compilers cannot know */
  const int8_t* ahead = lines > 0 ? *a->ahead : NULL;
  for (int32_t i = 0; i < a->tiles + (left > 0); i++) {
    const int32_t skip = i < a->tiles ? 0 : wt - left, first = i * wt - skip;
    const int64_t from = offset + first * x_step;
    tvmrt_amx_i8_begin(ob, wt, a->bias);
    for (int32_t s = 0; s < a->segments; s++) {
      const uint8_t* x = a->segment[s] + from;
      int64_t quad = s * quads;
      for (int32_t k = 0; k + bytes <= run; k += bytes, quad += words) {
        ahead = tvmrt_amx_i8_fetch(ahead, lines);
        tvmrt_amx_i8_step(ob, wt, is_signed, is_far, x + k, x_step, a->vector, quad);
      }
    }
    tvmrt_amx_i8_sums(ob, wt, all);
    tvmrt_amx_i8_places places = tvmrt_amx_i8_places_of(wt, is_plane, a, offset, first, skip, all);
    if (is_usual) {
      while (tvmrt_amx_i8_more(&places)) {
        ahead = tvmrt_amx_i8_fetch(ahead, (lines + 1) / 2);
        tvmrt_amx_i8_store(ob, plus, &out, &places);
      }
    } else {
      tvmrt_amx_i8_some(ob, wt, is_signed, plus, is_plane, a, from, rest, places, y,
                        sums != NULL ? sums + first : NULL);
    }
  }
  if (lines > 0) *a->ahead = ahead;
}

/*! \brief As TVMRT_DEFINE_TILE_I8_OF, of 1 to 16 pixels, or for one or two vectors up to 32; is_plane
 * where y and a->added are those of pixel 0 of an image, see a->plane; is_far where weights are more
 * than the first cache holds. */
#define TVMRT_DEFINE_TILE_I8_AMX(name, ob, wt, is_signed, plus, is_plane, is_far)           \
  TVMRT_NOINLINE void name##_unusual(const tvmrt_tile_i8_args* a, int64_t offset, void* y,  \
                                     const int32_t* sums) {                                 \
    tvmrt_amx_i8_tiles(ob, wt, is_signed, plus, is_plane, is_far, a, offset, y, sums, 0);   \
  }                                                                                         \
  TVMRT_NOINLINE void name(const tvmrt_tile_i8_args* a, int64_t offset, void* y,            \
                           const int32_t* sums) {                                           \
    const int rest = a->extras > 0 || a->run % (4 * a->words) != 0;                         \
    tvmrt_amx_i8_ready(wt, a);                                                              \
    if (rest || sums != NULL || a->range == NULL || a->channels < (ob)*TVMRT_I8_LANES) {    \
      name##_unusual(a, offset, y, sums);                                                   \
    } else {                                                                                \
      tvmrt_amx_i8_tiles(ob, wt, is_signed, plus, is_plane, is_far, a, offset, y, NULL, 1); \
    }                                                                                       \
  }

#endif /* TVM_RUNTIME_KERNELS_TILE_AMX_I8_H_ */
