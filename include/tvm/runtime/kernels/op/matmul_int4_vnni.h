/*!
 * \file matmul_int4_vnni.h
 * \brief Matmul of one float32 row with 4-bit weights in integer arithmetic, on processors with
 * AVX-512 VNNI.
 *
 * 128 elements of the row are quantised to multiples of a unit with 23 bits for the largest of
 * them, in three bytes each. Their sums of products with the weights are exact until a block's
 * scale is applied. A vector of bytes takes six dot-product instructions; the equivalent eight
 * vectors of floats take three instructions each.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_MATMUL_INT4_VNNI_H_
#define TVM_RUNTIME_KERNELS_OP_MATMUL_INT4_VNNI_H_

#include "../scalar/math.h"
#include "../tile/intrinsics.h"

#if defined(__GNUC__) && defined(__AVX512F__) && defined(__AVX512VNNI__)
#define TVMRT_HAS_INT4_VNNI 1
#else
#define TVMRT_HAS_INT4_VNNI 0
#endif

/*!
 * \brief Blocks of weights from the current ones of some columns to those to prefetch.
 *
 * They belong to later columns, which are read in the same order: memory answers too late for the
 * next columns if these have few bytes.
 */
TVMRT_INLINE uintptr_t tvmrt_blocks_ahead(int columns, int blocks, int bytes) {
  const uintptr_t together = (uintptr_t)columns * (uintptr_t)blocks;
  return (8192 / (together * (uintptr_t)bytes) + 1) * together;
}

/*! \brief The bits of the largest absolute value; they order like floats. */
TVMRT_INLINE uint32_t tvmrt_largest_bits(const float* x, int32_t count) {
  uint32_t max_bits = 0;
  for (int32_t i = 0; i < count; i++) {
    const uint32_t size = tvmrt_bits_f32(x[i]) & 0x7fffffffu;
    max_bits = size > max_bits ? size : max_bits;
  }
  return max_bits;
}

/*! \brief The unit of some finite floats, a power of 2: the largest has 23 bits and a sign. */
TVMRT_INLINE float tvmrt_unit_24_bits(const float* x, int32_t count) {
  const uint32_t max_bits = tvmrt_largest_bits(x, count);
  /* Three signed bytes hold 0.996 * 2^23: larger values take the next larger unit. */
  const uint32_t power = (max_bits + 0x10200u) >> 23;
  return tvmrt_from_bits_f32((power > 23 ? power - 22 : 1u) << 23);
}

#if TVMRT_HAS_INT4_VNNI
enum {
  TVMRT_INT4_VNNI_BYTES =
      64,                   /*!< Bytes of weights per vector, for as many pairs of row elements. */
  TVMRT_INT4_VNNI_MAX = 64, /*!< Vectors that are reordered at a time. */
  TVMRT_INT4_VNNI_COLUMNS = 4 /*!< Maximum columns that are computed together. */
};

typedef struct tvmrt_int4_vnni_block {
  int32_t offset[16]; /*!< Per lane: the sum of its elements times the zero point, negated. */
  /*! \brief Highest first; for the elements of the low bits, and of the high bits. */
  int8_t digit[3][2][TVMRT_INT4_VNNI_BYTES];
  float unit;
} __attribute__((aligned(64)))
tvmrt_int4_vnni_block; /* loads that cross lines take twice as long */

/*! \brief Part of a reordered row. */
typedef struct tvmrt_int4_vnni_row {
  tvmrt_int4_vnni_block at[TVMRT_INT4_VNNI_MAX];
} tvmrt_int4_vnni_row;

/*! \brief Split 128 integers into bytes. */
TVMRT_INLINE void tvmrt_int4_vnni_split_bytes(int32_t whole[2][TVMRT_INT4_VNNI_BYTES],
                                              tvmrt_int4_vnni_block* to) {
  for (int high = 0; high < 2; high++) {
    for (int i = 0; i < TVMRT_INT4_VNNI_BYTES; i++) {
      const int32_t number = whole[high][i], middle = (number + 128) >> 8;
      to->digit[2][high][i] = (int8_t)number;
      to->digit[1][high][i] = (int8_t)middle;
      to->digit[0][high][i] = (int8_t)((middle + 128) >> 8);
    }
  }
  for (int lane = 0; lane < 16; lane++) {
    int32_t sum = 0;
    for (int i = 4 * lane; i < 4 * lane + 4; i++) sum += whole[0][i] + whole[1][i];
    to->offset[lane] = -8 * sum;
  }
}

/*!
 * \brief Reorder 128 elements for each of `vectors` vectors.
 * \param bytes [in] of a block of weights.
 */
TVMRT_INLINE void tvmrt_int4_vnni_pack_row(int bytes, int vectors, const float* x,
                                           tvmrt_int4_vnni_row* row) {
  const int together = bytes < TVMRT_INT4_VNNI_BYTES ? bytes : TVMRT_INT4_VNNI_BYTES;
  for (int v = 0; v < vectors; v++) {
    float some[2][TVMRT_INT4_VNNI_BYTES];
    int32_t whole[2][TVMRT_INT4_VNNI_BYTES];
    for (int first = 0; first < TVMRT_INT4_VNNI_BYTES; first += together) {
      const int at = v * TVMRT_INT4_VNNI_BYTES + first;
      const float* from = x + at / bytes * 2 * bytes + at % bytes;
      memcpy(some[0] + first, from, (size_t)together * sizeof *from);
      memcpy(some[1] + first, from + bytes, (size_t)together * sizeof *from);
    }
    const float unit = tvmrt_unit_24_bits(some[0], 2 * TVMRT_INT4_VNNI_BYTES), times = 1.0f / unit;
    for (int high = 0; high < 2; high++) {
      for (int i = 0; i < TVMRT_INT4_VNNI_BYTES; i++) {
        whole[high][i] = (int32_t)rintf(some[high][i] * times);
      }
    }
    tvmrt_int4_vnni_split_bytes(whole, &row->at[v]);
    row->at[v].unit = unit;
  }
}

/*! \brief Load into a register: compilers would load again for each instruction. */
TVMRT_INLINE __m512i tvmrt_int4_vnni_load(const void* p) {
  __m512i v = _mm512_loadu_si512(p);
  __asm__("" : "+v"(v));
  return v;
}

/*! \brief The scales of a vector's lanes, each times the unit of the row's elements. */
TVMRT_INLINE __m512 tvmrt_int4_vnni_scales(const float* scales, int bytes, float unit) {
  if (bytes == 16) {
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m128 four = _mm_mul_ps(_mm_loadu_ps(scales), _mm_set1_ps(unit));
    return _mm512_permutexvar_ps(places, _mm512_castps128_ps512(four));
  }
  return _mm512_set1_ps(*scales * unit);
}

/*!
 * \brief Add the products of a reordered row and `vectors` vectors of some columns to their sums.
 * \param bytes  [in] of a block: 16, or a multiple of a vector.
 * \param w      [in] the first vector's bytes; the next column's are `blocks` blocks further.
 * \param scales [in] the scale of its first block; those of the next column are `blocks` further.
 */
TVMRT_INLINE void tvmrt_int4_vnni_accumulate(const uint8_t* w, const float* scales, int bytes,
                                             int blocks, int vectors, int columns,
                                             const tvmrt_int4_vnni_row* row, __m512* sums) {
  const __m512i mask = _mm512_set1_epi8(15);
  const uintptr_t ahead = tvmrt_blocks_ahead(columns, blocks, bytes);
  for (int v = 0; v < vectors; v++, w += TVMRT_INT4_VNNI_BYTES) {
    const tvmrt_int4_vnni_block* x = &row->at[v];
    __m512i low[TVMRT_INT4_VNNI_COLUMNS], high[TVMRT_INT4_VNNI_COLUMNS],
        found[TVMRT_INT4_VNNI_COLUMNS];
    TVMRT_UNROLL(4)
    for (int j = 0; j < columns; j++) {
      const uint8_t* from = w + (int64_t)j * blocks * bytes;
      TVMRT_PREFETCH_L1((uintptr_t)from + ahead * (uintptr_t)bytes);
      const __m512i word = tvmrt_int4_vnni_load(from);
      low[j] = _mm512_and_si512(word, mask);
      high[j] = _mm512_and_si512(_mm512_srli_epi32(word, 4), mask);
      found[j] = _mm512_setzero_si512();
    }
    TVMRT_UNROLL(4)
    for (int i = 0; i < 3; i++) {
      const __m512i a = tvmrt_int4_vnni_load(x->digit[i][0]);
      const __m512i b = tvmrt_int4_vnni_load(x->digit[i][1]);
      TVMRT_UNROLL(4)
      for (int j = 0; j < columns; j++) {
        if (i > 0) found[j] = _mm512_slli_epi32(found[j], 8);
        found[j] = _mm512_dpbusd_epi32(found[j], low[j], a);
        found[j] = _mm512_dpbusd_epi32(found[j], high[j], b);
      }
    }
    const __m512i offset = _mm512_loadu_si512(x->offset);
    TVMRT_UNROLL(4)
    for (int j = 0; j < columns; j++) {
      const float* own = scales + (int64_t)j * blocks + v * TVMRT_INT4_VNNI_BYTES / bytes;
      if (bytes != 16 || v % 4 == 0) TVMRT_PREFETCH_L1((uintptr_t)own + ahead * sizeof(*own));
      const __m512 whole = _mm512_cvtepi32_ps(_mm512_add_epi32(found[j], offset));
      sums[j] = _mm512_fmadd_ps(whole, tvmrt_int4_vnni_scales(own, bytes, x->unit), sums[j]);
    }
  }
}
#endif

#endif /* TVM_RUNTIME_KERNELS_OP_MATMUL_INT4_VNNI_H_ */
