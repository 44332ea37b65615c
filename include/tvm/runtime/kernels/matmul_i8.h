/*!
 * \file matmul_i8.h
 * \brief Matrix multiplication of 8-bit tensors whose right operand is computed at run time.
 *
 * A matmul with a constant right operand is a 1 x 1 convolution of M pixels: see conv_i8.h, with an
 * epilogue of tile/requantize.h for int32 (MatMulInteger) or float output. Here the right operand
 * is packed at run time.
 */
#ifndef TVM_RUNTIME_KERNELS_MATMUL_I8_H_
#define TVM_RUNTIME_KERNELS_MATMUL_I8_H_

#include "conv_i8.h"
#include "tile/requantize.h"
#include "tile/transpose.h"

/*! \brief A right operand computed at run time. */
typedef struct tvmrt_matmul_i8_b {
  const void* b;
  int64_t k_stride; /*!< Bytes from b[k][n] to b[k + 1][n]; one of the strides is 1. */
  int64_t n_stride; /*!< Bytes from b[k][n] to b[k][n + 1]. */
  int32_t b_signed; /*!< 1: int8, 0: uint8. */
  int32_t b_zero;   /*!< Zero point. */
  /*! \brief Scratch bytes for an integer per padded channel, and for the packed operand. */
  int64_t table, packed;
} tvmrt_matmul_i8_b;

/* Offset that the kernel adds to int8 and to uint8 inputs, as WeightFormat.offset in Python. */
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI || TVMRT_I8_X86_256 || \
    TVMRT_I8_FORMAT == TVMRT_I8_X86_SSE41 || TVMRT_I8_FORMAT == TVMRT_I8_WASM
#define TVMRT_I8_X_OFFSET(is_signed) ((is_signed) ? 128 : 0)
#elif TVMRT_I8_ANY_NEON
#define TVMRT_I8_X_OFFSET(is_signed) ((is_signed) ? 0 : -128)
#elif TVMRT_I8_FORMAT == TVMRT_I8_PLAIN || TVMRT_I8_FORMAT == TVMRT_I8_RVV
#define TVMRT_I8_X_OFFSET(is_signed) 0
#else
#error "matmul_i8.h lacks this TVMRT_I8_FORMAT: define the offset of its inputs."
#endif

/*! \brief Write one weight minus the zero point into a quad of LANES channels. */
TVMRT_INLINE void tvmrt_i8_put(int8_t* quad, int lane, int i, int32_t value) {
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX2
  int16_t wide = (int16_t)value;
  memcpy(quad + 32 * (i & 1) + 4 * lane + 2 * (i >> 1), &wide, 2);
#elif TVMRT_I8_FORMAT == TVMRT_I8_NEON
  quad[8 * (i >> 1) + 2 * lane + (i & 1)] = (int8_t)value;
#elif TVMRT_I8_QUAD_BYTES == 4 * TVMRT_I8_LANES
  quad[4 * lane + i] = (int8_t)value;
#else
#error "matmul_i8.h lacks this TVMRT_I8_FORMAT: write its order of a quad of weights."
#endif
}

/*! \brief Offset subtracted from b to make it a packed weight; the shift corrects the remainder. */
TVMRT_INLINE int32_t tvmrt_i8_b_offset(const tvmrt_matmul_i8_b* b) {
  if (TVMRT_I8_QUAD_BYTES > 4 * TVMRT_I8_LANES) return b->b_zero; /* int16 */
  return b->b_signed ? 0 : 128;
}

/*! \brief Pack one quad of up to LANES channels and add it to the column sums of b. */
TVMRT_INLINE void tvmrt_i8_pack_quad(const tvmrt_matmul_i8_b* b, int64_t k, int from, int to,
                                     int32_t n, int32_t lanes, int8_t* quad, int32_t* sums) {
  const int32_t offset = tvmrt_i8_b_offset(b);
  memset(quad, 0, TVMRT_I8_QUAD_BYTES);
  for (int i = from; i < to; i++) {
    const uint8_t* p = (const uint8_t*)b->b + (k + i) * b->k_stride + n * b->n_stride;
    for (int32_t lane = 0; lane < lanes; lane++, p += b->n_stride) {
      int32_t v = b->b_signed ? (int32_t) * (const int8_t*)p : (int32_t)*p;
      tvmrt_i8_put(quad, lane, i, v - offset);
      sums[lane] += v - b->b_zero;
    }
  }
}

#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI
/*! \brief Add a quad of 16 channels minus their offset to the column sums of b. */
TVMRT_INLINE __m512i tvmrt_i8_add_quad(const tvmrt_matmul_i8_b* b, __m512i sums, __m512i quad) {
  /* 1 * quad, so that the sums are those of b minus its offset; the remainder of the zero point is
   * the same for all quads */
  __m512i zero = _mm512_set1_epi32(4 * (tvmrt_i8_b_offset(b) - b->b_zero));
  return _mm512_dpbusd_epi32(_mm512_add_epi32(sums, zero), _mm512_set1_epi8(1), quad);
}

/*! \brief Pack eight quads of 16 channels whose elements are neighbours: a transposition of words.
 * `step` is the distance of quads in bytes. */
TVMRT_INLINE void tvmrt_i8_pack_columns(const tvmrt_matmul_i8_b* b, int64_t k, int32_t n,
                                        int8_t* quad, int64_t step, int32_t* sums) {
  const __m512i flip = _mm512_set1_epi8((char)(b->b_signed ? 0 : 128));
  const char* p = (const char*)b->b + k + n * b->n_stride;
  float words[8][16];
  tvmrt_transpose_block_32(p, b->n_stride / 4, words[0], 16);
  tvmrt_transpose_block_32(p + 8 * b->n_stride, b->n_stride / 4, words[0] + 8, 16);
  __m512i sum = _mm512_loadu_si512(sums);
  for (int i = 0; i < 8; i++) {
    const __m512i v = _mm512_xor_si512(_mm512_loadu_si512(words[i]), flip);
    _mm512_storeu_si512(quad + i * step, v);
    sum = tvmrt_i8_add_quad(b, sum, v);
  }
  _mm512_storeu_si512(sums, sum);
}

/*! \brief tvmrt_i8_pack_quad for four whole rows of 16 neighbouring channels. */
TVMRT_INLINE void tvmrt_i8_pack_rows(const tvmrt_matmul_i8_b* b, int64_t k, int32_t n, int8_t* quad,
                                     int32_t* sums) {
  const __m128i flip = _mm_set1_epi8((char)(b->b_signed ? 0 : 128));
  const uint8_t* p = (const uint8_t*)b->b + k * b->k_stride + n;
  __m128i x[4];
  for (int i = 0; i < 4; i++, p += b->k_stride) {
    x[i] = _mm_xor_si128(_mm_loadu_si128((const __m128i*)p), flip);
  }
  __m128i lo01 = _mm_unpacklo_epi8(x[0], x[1]), hi01 = _mm_unpackhi_epi8(x[0], x[1]);
  __m128i lo23 = _mm_unpacklo_epi8(x[2], x[3]), hi23 = _mm_unpackhi_epi8(x[2], x[3]);
  __m512i v = _mm512_castsi128_si512(_mm_unpacklo_epi16(lo01, lo23));
  v = _mm512_inserti32x4(v, _mm_unpackhi_epi16(lo01, lo23), 1);
  v = _mm512_inserti32x4(v, _mm_unpacklo_epi16(hi01, hi23), 2);
  v = _mm512_inserti32x4(v, _mm_unpackhi_epi16(hi01, hi23), 3);
  _mm512_storeu_si512(quad, v);
  _mm512_storeu_si512(sums, tvmrt_i8_add_quad(b, _mm512_loadu_si512(sums), v));
}
#endif

/*! \brief Pack all of b for the matmul `c`; sums has an entry per padded channel. */
static inline void tvmrt_i8_pack_b(const tvmrt_conv_i8* c, const tvmrt_matmul_i8_b* b,
                                   int8_t* packed, int32_t* sums) {
  const int32_t depth = c->in_c, block = c->block, padded = c->padded;
  memset(sums, 0, (size_t)padded * sizeof(*sums));
  for (int32_t first = 0; first < padded; first += block) {
    const int32_t end = first + block < padded ? first + block : padded;
    for (int32_t q = 0; 4 * q < depth; q++) {
      const int64_t k = 4 * q + 4 > depth && depth >= 4 ? depth - 4 : 4 * q;
      const int from = (int)(4 * q - k);
      const int to = depth < 4 ? depth : 4;
      for (int32_t n = first; n < end; n += TVMRT_I8_LANES, packed += TVMRT_I8_QUAD_BYTES) {
        const int32_t lanes = c->out_c - n < TVMRT_I8_LANES ? c->out_c - n : TVMRT_I8_LANES;
#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI
        if (lanes == 16 && from == 0 && to == 4 && b->n_stride == 1) {
          tvmrt_i8_pack_rows(b, k, n, packed, sums + n);
          continue;
        }
        if (lanes == 16 && depth % 32 == 0 && b->k_stride == 1 && b->n_stride % 4 == 0) {
          if (k % 32 == 0) tvmrt_i8_pack_columns(b, k, n, packed, (end - first) * 4, sums + n);
          continue;
        }
#endif
        tvmrt_i8_pack_quad(b, k, from, to, n, lanes, packed, sums + n);
      }
    }
  }
}

/*!
 * \brief y = x * b with both operands computed at run time.
 *
 * \param c       [in] The matmul as a convolution (LayerI8.matmul in Python), without its x_zero.
 * \param data    [in] The tensors. weights, bias and shift are set here; scale is an array of one
 * scale per padded channel, or NULL with an epilogue that needs none.
 * \param b       [in] The right operand.
 * \param x_zero  [in] Zero point of x.
 *
 * Errors:  0, or -1 with a text if memory runs out for the packed operand.
 * Threads: as tvmrt_conv_i8_run().
 */
static inline int tvmrt_matmul_i8_dynamic(const tvmrt_conv_i8* c, const tvmrt_conv_i8_data* data,
                                          const tvmrt_matmul_i8_b* b, int32_t x_zero) {
  const int32_t shift = tvmrt_i8_b_offset(b) - b->b_zero;
  /* AMX multiplies bytes as stored */
  const int32_t offset = c->amx != NULL ? 0 : TVMRT_I8_X_OFFSET(c->x_signed);
  tvmrt_conv_i8_data own = *data;
  uint8_t* scratch = (uint8_t*)tvmrt_scratch_alloc(2 * b->table + b->packed);
  int rc;
  if (scratch == NULL) return -1;
  int32_t* bias = (int32_t*)(void*)scratch;
  int32_t* shifts = (int32_t*)(void*)(scratch + b->table);
  tvmrt_i8_pack_b(c, b, (int8_t*)scratch + 2 * b->table, bias);
  for (int32_t i = 0; i < c->padded; i++) {
    bias[i] = shift * c->in_c * offset - (x_zero + offset) * bias[i];
    shifts[i] = shift;
  }
  own.weights = (const int8_t*)scratch + 2 * b->table;
  own.bias = bias;
  own.shift = shift != 0 ? shifts : NULL;
  rc = tvmrt_conv_i8_run(c, &own);
  if (tvmrt_scratch_free(scratch) != 0) return -1;
  return rc;
}

#endif /* TVM_RUNTIME_KERNELS_MATMUL_I8_H_ */
