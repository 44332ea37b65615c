/*!
 * \file tile/requantize_i8_amx.h
 * \brief Epilogue of AMX tiles, whose accumulators are in memory: requantise to bytes, with an
 * optional residual add.
 *
 * While AMX multiplies, one of the two vector units only adds and moves. The usual layers need
 * fewer operations than tvmrt_tile_i8_finish() has, with the same bytes. They are "plain": their
 * range is 0 to 255 with the zero point 0, as after a ReLU, and a residual, if any, has the zero
 * point 0.
 *
 * Before: the compiler's __AVX512VNNI__, __AVX512BW__ and __AVX512VL__; TVMRT_I8_FORMAT is
 * TVMRT_I8_X86_VNNI or not defined.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_REQUANTIZE_I8_AMX_H_
#define TVM_RUNTIME_KERNELS_TILE_REQUANTIZE_I8_AMX_H_

#if !defined(__AVX512VNNI__) || !defined(__AVX512BW__) || !defined(__AVX512VL__)
#error \
    "tile/requantize_i8_amx.h reads what TVMRT_I8_X86_VNNI does: compile with -march of a processor with __AVX512VNNI__"
#else

#include "amx.h"
#include "gemm_i8.h"

/* Value of a float 2 ^ 23 + q with the byte q in its lowest bits. */
#define TVMRT_AMX_I8_FLOAT 8388608

/*!
 * \brief Constants of tvmrt_i8_add_residual() in fewer operations, for two scales, a range and zero points;
 * a compiler has tried all pairs of bytes (tvmrt.compiler.codegen.window.fused_requant_add).
 *
 *     u = (q + round) * fa - fa_round    the addition rounds q; clamped to +-most
 *     v = (b + high) * fb - fb_high      b is a byte as uint8, 128 higher if it is int8
 *     y = u + v + last                   the lower 16 bits, clamped to the range of uint8
 *
 * Multiplications are fused with additions. The subtracted terms include the zero points and the
 * offset that makes the range of u symmetric; round and high are chosen for minimal rounding
 * errors. The result is uint8, or int8 plus 128, and has its type's range.
 */
typedef struct tvmrt_fused_add_i8 {
  float round, fa, fa_round, max_sum, fb, fb_high, last;
  int32_t high; /*!< Bit pattern of the float. */
} tvmrt_fused_add_i8;

/* Convert vector o of bytes to such floats; `order`: byte indices, `high`: upper bytes. */
TVMRT_INLINE __m512i tvmrt_amx_i8_floats(__m512i bytes, __m512i order, __m512i high, int o) {
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

/* Iterator over the pixels of a tile to store and their output indices. */
typedef struct tvmrt_amx_i8_cursor {
  const int32_t* sums;
  int32_t pixel, end, pixel_index;
  int32_t column, valid, gap; /* of a row; rows of padded image copies end with a gap */
} tvmrt_amx_i8_cursor;

/* Start at the tile's first pixel, `first` in the call, and skip `skip` pixels. */
TVMRT_INLINE tvmrt_amx_i8_cursor tvmrt_amx_i8_cursor_of(int mr, int is_padded_copy,
                                                        const tvmrt_tile_i8_args* a, int64_t offset,
                                                        int32_t first, int32_t skip,
                                                        const int32_t* sums) {
  tvmrt_amx_i8_cursor p = {sums, skip, mr, first + skip, 0, INT32_MAX, 0};
  if (!is_padded_copy) return p;
  const int32_t pitch = a->amx->padded_pitch, valid = a->amx->valid;
  const int32_t from = (int32_t)(offset / a->x_step) + first + skip, row = from / pitch;
  p.column = from % pitch;
  p.valid = valid;
  p.gap = pitch - valid;
  p.pixel_index = row * valid + p.column;
  if (p.column > valid) {
    p.pixel += pitch - p.column;
    p.column = 0;
    p.pixel_index = (row + 1) * valid;
  }
  return p;
}

/* Whether there is another pixel. */
TVMRT_INLINE int tvmrt_amx_i8_more(tvmrt_amx_i8_cursor* p) {
  if (p->column == p->valid) p->pixel += p->gap, p->column = 0;
  return p->pixel < p->end;
}

TVMRT_INLINE void tvmrt_amx_i8_next(tvmrt_amx_i8_cursor* p) {
  p->pixel++;
  p->column++;
  p->pixel_index++;
}

/* Requantisation constants, prepared for all pixels of a call. */
typedef struct tvmrt_amx_i8_out {
  __m512 scale[4], lo, hi, fa, fb, zero, low;
  __m512 round, max_sum, last; /* of quick sums */
  __m512i order[4], bias[4], high;
  const float* constants; /* for fixed-point multipliers */
  int64_t fixed_stride;
  int is_signed, is_byte;
  tvmrt_i8_range range;
  uint8_t* y;
  int64_t y_step, added_step;
  const uint8_t* added;
} tvmrt_amx_i8_out;

/* Whether a call is plain; epilogue is a literal. The sum then fits into 16 bits. So does any quick
 * sum. */
TVMRT_INLINE int tvmrt_amx_i8_is_plain(int epilogue, const tvmrt_tile_i8_args* a) {
  if (epilogue & TVMRT_RESIDUAL_FUSED) return 1;
  const tvmrt_i8_range* range = TVMRT_HAS_RESIDUAL(epilogue) ? &a->residual_add->range : a->range;
  if (range->is_signed || range->lo != 0 || range->hi != 255 || range->zero != 0) return 0;
  if (!TVMRT_HAS_RESIDUAL(epilogue)) return 1;
  const float max_sum =
      255.0f * (__builtin_fabsf(a->residual_add->fa) + __builtin_fabsf(a->residual_add->fb));
  return a->residual_add->b_zero +
                 ((epilogue & TVMRT_RESIDUAL_TYPE_MASK) == TVMRT_RESIDUAL_S8 ? 128 : 0) ==
             0 &&
         max_sum < 32000.0f;
}

TVMRT_INLINE void tvmrt_amx_i8_set_fused_add(tvmrt_amx_i8_out* p, const tvmrt_fused_add_i8* by) {
  p->round = _mm512_set1_ps(by->round);
  p->fa = _mm512_set1_ps(by->fa);
  p->lo = _mm512_set1_ps(-by->fa_round);
  p->max_sum = _mm512_set1_ps(by->max_sum);
  p->fb = _mm512_set1_ps(by->fb);
  p->low = _mm512_set1_ps(-by->fb_high);
  p->last = _mm512_set1_ps(by->last);
  p->high = _mm512_set1_epi32(by->high);
}

TVMRT_INLINE tvmrt_amx_i8_out tvmrt_amx_i8_make_out(int nr, int epilogue,
                                                    const tvmrt_tile_i8_args* a, uint8_t* y) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 none = _mm512_setzero_ps();
  /* Member by member: memset() of so many bytes takes longer than a tile. */
  tvmrt_amx_i8_out p;
  TVMRT_UNROLL_ALL for (int o = 0; o < 4; o++) {
    p.scale[o] = o < nr ? _mm512_loadu_ps(a->scale + 16 * o) : none;
    p.bias[o] = o < nr ? _mm512_loadu_si512(a->bias + 16 * o) : _mm512_setzero_si512();
    p.order[o] = _mm512_add_epi32(lanes, _mm512_set1_epi32(16 * o));
  }
  p.lo = p.hi = p.fa = p.fb = p.zero = p.low = p.round = p.max_sum = p.last = none;
  p.high = _mm512_set1_epi32(0x4B000000);
  p.range = TVMRT_HAS_RESIDUAL(epilogue) ? a->residual_add->range : *a->range;
  p.is_byte = !p.range.is_signed && p.range.lo == 0 && p.range.hi == 255;
  p.constants = a->scale;
  p.fixed_stride = a->fixed_stride;
  p.y = y;
  p.y_step = a->y_step;
  p.added = a->added;
  p.added_step = a->added_step;
  p.is_signed = (epilogue & TVMRT_RESIDUAL_TYPE_MASK) == TVMRT_RESIDUAL_S8;
  if (!TVMRT_HAS_RESIDUAL(epilogue)) return p;
  if (epilogue & TVMRT_RESIDUAL_FUSED) {
    tvmrt_amx_i8_set_fused_add(&p, a->amx->fused_add);
    return p;
  }
  p.lo = _mm512_set1_ps((float)(a->range->lo - a->range->zero));
  p.hi = _mm512_set1_ps((float)(a->range->hi - a->range->zero));
  p.fa = _mm512_set1_ps(a->residual_add->fa);
  p.fb = _mm512_set1_ps(a->residual_add->fb);
  p.zero =
      _mm512_set1_ps((float)(TVMRT_AMX_I8_FLOAT + 128 * p.is_signed + a->residual_add->b_zero));
  p.low = _mm512_set1_ps(-(float)TVMRT_AMX_I8_FLOAT * a->residual_add->fb);
  return p;
}

/* tvmrt_i8_add_residual() of requantised sums with vector o of the bytes of a pixel. The bounds are
 * integers, so rounding may follow clamping, by an addition. Plain bytes are multiplied together
 * with 2 ^ 23, whose product is exact and subtracted before rounding; plain results stay floats
 * with the value in the lower 16 bits. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_amx_i8_add(int is_plain, __m512 q, const tvmrt_amx_i8_out* p,
                                           __m512i bytes, int o) {
  const __m512 round = _mm512_set1_ps(TVMRT_I8_ROUND);
  __m512 u = _mm512_add_ps(_mm512_min_ps(_mm512_max_ps(q, p->lo), p->hi), round);
  u = _mm512_sub_ps((__m512)tvmrt_i8_floats_unfused_product((tvmrt_i8_floats)u), round);
  __m512 v = _mm512_castsi512_ps(tvmrt_amx_i8_floats(bytes, p->order[o], p->high, o));
  u = _mm512_mul_ps(u, p->fa);
  u = (__m512)tvmrt_i8_floats_unfused_product((tvmrt_i8_floats)u);
  v = is_plain ? _mm512_fmadd_ps(v, p->fb, p->low)
               : _mm512_mul_ps(_mm512_sub_ps(v, p->zero), p->fb);
  v = (__m512)tvmrt_i8_floats_unfused_product((tvmrt_i8_floats)v);
  u = _mm512_add_ps(u, v);
  return is_plain ? _mm512_castps_si512(_mm512_add_ps(u, round)) : _mm512_cvtps_epi32(u);
}

/* tvmrt_amx_i8_add() with a->amx->fused_add. */
TVMRT_INLINE tvmrt_i8_acc tvmrt_amx_i8_fused_add(__m512 q, const tvmrt_amx_i8_out* p, __m512i bytes,
                                                 int o) {
  enum { LEAST_WITH_SIGN = 2 }; /* the smaller absolute value, with the sign of the first */
  __m512 v = _mm512_castsi512_ps(tvmrt_amx_i8_floats(bytes, p->order[o], p->high, o));
  __m512 u = _mm512_fmadd_ps(_mm512_add_ps(q, p->round), p->fa, p->lo);
  u = _mm512_range_ps(u, p->max_sum, LEAST_WITH_SIGN);
  v = _mm512_fmadd_ps(v, p->fb, p->low);
  return _mm512_castps_si512(_mm512_add_ps(_mm512_add_ps(u, v), p->last));
}

/* Load the bytes of `nr` vectors of channels of a pixel. */
TVMRT_INLINE __m512i tvmrt_amx_i8_requantize(int nr, const tvmrt_amx_i8_out* p,
                                             const uint8_t* from) {
  __m512i v = _mm512_setzero_si512();
  if (nr == 1) v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i*)from));
  if (nr == 2) v = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i*)from));
  if (nr == 3) v = _mm512_maskz_loadu_epi32(0xfff, from);
  if (nr == 4) v = _mm512_loadu_si512(from);
  return p->is_signed ? _mm512_xor_si512(v, _mm512_set1_epi8((char)-128)) : v;
}

/* Saturate 16-bit values to bytes and select every other one, in order. */
TVMRT_INLINE __m512i tvmrt_amx_i8_pack_words(tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                             tvmrt_i8_acc d) {
  const __m512i ab = _mm512_packus_epi16(a, b), cd = _mm512_packus_epi16(c, d);
#if defined(__AVX512VBMI__)
  const __m512i even = _mm512_broadcast_i64x4(
      _mm256_setr_epi8(0, 2, 4, 6, 16, 18, 20, 22, 32, 34, 36, 38, 48, 50, 52, 54, 8, 10, 12, 14,
                       24, 26, 28, 30, 40, 42, 44, 46, 56, 58, 60, 62));
  const __m512i first = _mm512_permutexvar_epi8(even, ab);
  return _mm512_mask_permutexvar_epi8(first, 0xFFFFFFFF00000000u, even, cd);
#else
  const __m512i low = _mm512_set1_epi16(255);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i v = _mm512_packus_epi16(_mm512_and_si512(ab, low), _mm512_and_si512(cd, low));
  return _mm512_permutexvar_epi32(order, v);
#endif
}

/* tvmrt_i8_pack(), optimised for the range of a byte. */
TVMRT_INLINE __m512i tvmrt_amx_i8_pack(int is_plain, tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c,
                                       tvmrt_i8_acc d, const tvmrt_amx_i8_out* out) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  if (!is_plain && !out->is_byte) return tvmrt_i8_pack(a, b, c, d, &out->range);
  __m512i ab = _mm512_packs_epi32(a, b), cd = _mm512_packs_epi32(c, d);
  if (!is_plain) {
    const __m512i zero = _mm512_set1_epi16((short)out->range.zero);
    ab = _mm512_adds_epi16(ab, zero);
    cd = _mm512_adds_epi16(cd, zero);
  }
  return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(ab, cd));
}

/* Store a line of bytes, of up to four pixels. */
TVMRT_INLINE void tvmrt_amx_i8_store_line(int nr, uint8_t* const* y, __m512i v) {
  if (nr == 1) {
    _mm_storeu_si128((__m128i*)y[0], _mm512_castsi512_si128(v));
    _mm_storeu_si128((__m128i*)y[1], _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i*)y[2], _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i*)y[3], _mm512_extracti32x4_epi32(v, 3));
  } else if (nr == 2) {
    _mm256_storeu_si256((__m256i*)y[0], _mm512_castsi512_si256(v));
    _mm256_storeu_si256((__m256i*)y[1], _mm512_extracti64x4_epi64(v, 1));
  } else if (nr == 3) {
    _mm256_storeu_si256((__m256i*)y[0], _mm512_castsi512_si256(v));
    _mm_storeu_si128((__m128i*)(y[0] + 32), _mm512_extracti32x4_epi32(v, 2));
  } else {
    _mm512_storeu_si512(y[0], v);
  }
}

/* Store whole vectors of the next pixels as bytes: enough pixels to fill a line, or the tail.
 * with_bias: the bias is not in the sums yet; both that and is_plain are literals. */
TVMRT_INLINE void tvmrt_amx_i8_store(int nr, int epilogue, int is_plain, int with_bias,
                                     const tvmrt_amx_i8_out* out, tvmrt_amx_i8_cursor* p) {
  const int pixels = nr == 1 ? 4 : nr == 2 ? 2 : 1;
  tvmrt_i8_acc q[4];
  uint8_t* y[4];
  /* Missing pixels repeat the last one: its bytes are stored twice, after all reads. */
  int32_t pixel = 0, pixel_index = 0;
  TVMRT_UNROLL_ALL for (int i = 0; i < pixels; i++) {
    if (i == 0 || tvmrt_amx_i8_more(p)) {
      pixel = p->pixel;
      pixel_index = p->pixel_index;
      tvmrt_amx_i8_next(p);
    }
    const int32_t* sums = p->sums + pixel * nr * 16;
    __m512i bytes = _mm512_setzero_si512();
    y[i] = out->y + pixel_index * out->y_step;
    if (TVMRT_HAS_RESIDUAL(epilogue)) {
      bytes = tvmrt_amx_i8_requantize(nr, out, out->added + pixel_index * out->added_step);
    }
    TVMRT_UNROLL_ALL for (int o = 0; o < nr; o++) {
      tvmrt_i8_acc whole = tvmrt_i8_acc_load(sums + o * 16);
      if (with_bias) whole = _mm512_add_epi32(whole, out->bias[o]);
      __m512 scaled;
      if (epilogue & TVMRT_ROUND_MASK) {
        const __m512i rounded =
            tvmrt_i8_requantize(epilogue, whole, out->constants + 16 * o, out->fixed_stride);
        q[i * nr + o] = rounded;
        if (!TVMRT_HAS_RESIDUAL(epilogue)) continue;
        scaled = _mm512_cvtepi32_ps(rounded);
      } else {
        scaled = (__m512)tvmrt_i8_floats_unfused_product(
            (tvmrt_i8_floats)_mm512_mul_ps(_mm512_cvtepi32_ps(whole), out->scale[o]));
      }
      q[i * nr + o] =
          epilogue & TVMRT_RESIDUAL_FUSED ? tvmrt_amx_i8_fused_add(scaled, out, bytes, o)
          : TVMRT_HAS_RESIDUAL(epilogue)  ? tvmrt_amx_i8_add(is_plain, scaled, out, bytes, o)
                                          : _mm512_cvtps_epi32(scaled);
    }
  }
  const tvmrt_i8_acc last = nr == 3 ? q[2] : q[3];
  __m512i line = is_plain && TVMRT_HAS_RESIDUAL(epilogue)
                     ? tvmrt_amx_i8_pack_words(q[0], q[1], q[2], last)
                     : tvmrt_amx_i8_pack(is_plain, q[0], q[1], q[2], last, out);
  if (epilogue & TVMRT_RESIDUAL_FUSED && out->range.is_signed) {
    line = _mm512_xor_si512(line, _mm512_set1_epi8((char)-128));
  }
  tvmrt_amx_i8_store_line(nr, y, line);
}

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_REQUANTIZE_I8_AMX_H_ */
