/*!
 * \file matmul_nbits.h
 * \brief Matmul of float32 rows with block-quantised weights of 2, 4 or 8 bits; each block of
 * consecutive weights has a scale and a zero point.
 *
 * Weights are read from memory as stored and widened one block at a time, for several rows
 * together.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_H_
#define TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_H_

#include "../parallel.h"
#include "../tile/intrinsics.h"
#include "../tile/simd.h"
#include "matmul_int4_vnni.h"
#include "softmax.h"

enum {
  /*! \brief Maximum weights in a block. */
  TVMRT_BLOCK_MAX = 256,
  /*! \brief Rows that share a widened block, and columns that are computed together: one without
   * vectors, because the stack is small. */
  TVMRT_BLOCK_ROWS = 4,
  /*! \brief Minimum rows for which panels pay: matmul_nbits_vnni.h, matmul_nbits_panels.h. */
  TVMRT_PANEL_ROWS = 16,
  TVMRT_BLOCK_COLUMNS = TVMRT_SIMD_LANES_F32 > 1 ? 4 : 1
};

/*!
 * \brief y [m][n] = x [m][k] times weights [n][blocks][bytes], all contiguous.
 *
 * Byte i of a block holds the weights i, i + bytes, ... of the block, the first in its lowest bits.
 */
typedef struct tvmrt_matmul_nbits_layer {
  int64_t m;
  int32_t n;
  int32_t k;
  /*! \brief Weights per block; the last block of a row may be padded. */
  int32_t block;
  int32_t bits;
  /*! \brief The zero point of all blocks, unless each has its own. */
  float point;
} tvmrt_matmul_nbits_layer;

typedef struct tvmrt_matmul_nbits_job {
  const tvmrt_matmul_nbits_layer* layer;
  const float* x;
  const uint8_t* w;
  const float* scales;
  const float* points;
  float* y;
} tvmrt_matmul_nbits_job;

#if defined(__GNUC__) && TVMRT_SIMD_LANES_F32 > 1
typedef uint8_t tvmrt_block_bytes __attribute__((vector_size(TVMRT_SIMD_LANES_F32)));
typedef int32_t tvmrt_block_ints __attribute__((vector_size(4 * TVMRT_SIMD_LANES_F32)));

/* Load bytes as 32-bit integers in one instruction; compilers use a dozen. */
TVMRT_INLINE tvmrt_block_ints tvmrt_load_block_bytes(const uint8_t* w) {
#if defined(__AVX512F__)
  return (tvmrt_block_ints)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)w));
#elif defined(__AVX2__)
  return (tvmrt_block_ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)w));
#else
  tvmrt_block_bytes some;
  memcpy(&some, w, sizeof some);
  return __builtin_convertvector(some, tvmrt_block_ints);
#endif
}
#endif

/*! \brief Widen one weight of each of `bytes` bytes to float: q[i] = weight * scale - shift. */
TVMRT_INLINE void tvmrt_widen_part(const uint8_t* w, int bytes, int low, int mask, float scale,
                                   float shift, float* q) {
  int i = 0;
#if defined(__GNUC__) && TVMRT_SIMD_LANES_F32 > 1
  const tvmrt_f32v factor = TVMRT_F32V(splat)(scale), offset = TVMRT_F32V(splat)(-shift);
  for (; i + TVMRT_SIMD_LANES_F32 <= bytes; i += TVMRT_SIMD_LANES_F32) {
    const tvmrt_block_ints wide = tvmrt_load_block_bytes(w + i);
    const tvmrt_f32v numbers = __builtin_convertvector((wide >> low) & mask, tvmrt_f32v);
    TVMRT_F32V(store)(q + i, TVMRT_F32V(fma)(numbers, factor, offset));
  }
#endif
  for (; i < bytes; i++) {
    q[i] = TVMRT_FMAF((float)((w[i] >> low) & mask), scale, -shift);
  }
}

/*! \brief Widen the weights of a block to floats. */
TVMRT_INLINE void tvmrt_widen_block(const uint8_t* w, int bits, int block, float scale, float shift,
                                    float* q) {
  const int bytes = block * bits / 8, mask = (1 << bits) - 1;
  for (int low = 0; low < 8; low += bits) {
    tvmrt_widen_part(w, bytes, low, mask, scale, shift, q + low / bits * bytes);
  }
}

/*! \brief Accumulators of some columns and rows. */
typedef struct tvmrt_block_accumulators {
  tvmrt_sum_f32 at[TVMRT_BLOCK_COLUMNS][TVMRT_BLOCK_ROWS];
} tvmrt_block_accumulators;

/*! \brief Add `count` products of block g, for columns from c on and rows of x. */
TVMRT_INLINE void tvmrt_add_block(const tvmrt_matmul_nbits_job* job, int bits, int block, int g,
                                  int blocks, int32_t c, int columns, const float* x, int rows,
                                  int count, float (*q)[TVMRT_BLOCK_MAX],
                                  tvmrt_block_accumulators* sums) {
  enum { kLanes = TVMRT_SUM_LANES };
  const int bytes = block * bits / 8, k = job->layer->k;
  for (int j = 0; j < columns; j++) {
    const int64_t at = (int64_t)(c + j) * blocks + g;
    const float point = job->points != NULL ? job->points[at] : job->layer->point;
    const float scale = job->scales[at];
    tvmrt_widen_block(job->w + at * bytes, bits, block, scale, scale * point, q[j]);
  }
  x += (int64_t)g * block;
  for (int i = 0; i < count; i += kLanes) {
    const int left = count - i;
    tvmrt_sum_f32 from[TVMRT_BLOCK_ROWS];
    TVMRT_UNROLL(4)
    for (int r = 0; r < rows; r++) {
      const float* p = x + (int64_t)r * k + i;
      from[r] = left >= kLanes ? TVMRT_SUM_F32(load)(p) : TVMRT_SUM_F32(load_n)(p, left);
    }
    TVMRT_UNROLL(4)
    for (int j = 0; j < columns; j++) {
      const tvmrt_sum_f32 some = TVMRT_SUM_F32(load)(q[j] + i);
      TVMRT_UNROLL(4)
      for (int r = 0; r < rows; r++) {
        sums->at[j][r] = TVMRT_SUM_F32(fma)(some, from[r], sums->at[j][r]);
      }
    }
  }
}

/*! \brief Load a vector of weights from byte ``w`` on, minus the zero point. */
TVMRT_INLINE tvmrt_f32v tvmrt_block_lanes(const uint8_t* w, int bits, int low, tvmrt_f32v point) {
#if defined(__GNUC__) && TVMRT_SIMD_LANES_F32 > 1
  const tvmrt_block_ints wide = tvmrt_load_block_bytes(w);
#ifdef __AVX512F__
  if (bits == 4) { /* a table of all sixteen, indexed by the lowest bits */
    const tvmrt_f32v all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (tvmrt_f32v)_mm512_permutexvar_ps((__m512i)(wide >> low), (__m512)(all - point));
  }
#endif
  const tvmrt_block_ints numbers = bits == 8 ? wide : (wide >> low) & ((1 << bits) - 1);
  return __builtin_convertvector(numbers, tvmrt_f32v) - point;
#else
  return (float)((*w >> low) & ((1 << bits) - 1)) - point;
#endif
}

/*! \brief Add block g of `columns` columns for one row: weights are widened and multiplied in
 * registers, and the scale of a block is applied to its sum only. */
TVMRT_INLINE void tvmrt_add_row_block(const tvmrt_matmul_nbits_job* job, const float* points,
                                      int bits, int block, int g, int blocks, int32_t c,
                                      int columns, const float* x, tvmrt_f32v* sums) {
  enum { kLanes = TVMRT_SIMD_LANES_F32 };
  const int bytes = block * bits / 8;
  const int64_t first = (int64_t)c * blocks + g;
  const uintptr_t next_columns = (uintptr_t)columns * (uintptr_t)blocks; /* the next columns */
  tvmrt_f32v found[TVMRT_BLOCK_COLUMNS], point[TVMRT_BLOCK_COLUMNS];
  x += (int64_t)g * block;
  TVMRT_UNROLL(4)
  for (int j = 0; j < columns; j++) {
    found[j] = TVMRT_F32V(splat)(0.0f);
    point[j] = TVMRT_F32V(splat)(points ? points[first + j * blocks] : (float)(1 << (bits - 1)));
  }
  TVMRT_UNROLL(4)
  for (int i = 0; i < bytes; i += kLanes) {
    TVMRT_UNROLL(4)
    for (int low = 0; low < 8; low += bits) {
      const tvmrt_f32v from = TVMRT_F32V(load)(x + low / bits * bytes + i);
      TVMRT_UNROLL(4)
      for (int j = 0; j < columns; j++) {
        const uint8_t* w = job->w + (first + j * blocks) * bytes + i;
        /* Rows are too short for the hardware prefetcher to detect the streams. */
        if (i % 64 == 0 && low == 0)
          TVMRT_PREFETCH_L1((uintptr_t)w + next_columns * (uintptr_t)bytes);
        found[j] = TVMRT_F32V(fma)(tvmrt_block_lanes(w, bits, low, point[j]), from, found[j]);
      }
    }
  }
  TVMRT_UNROLL(4)
  for (int j = 0; j < columns; j++) {
    const tvmrt_f32v scale = TVMRT_F32V(splat)(job->scales[first + j * blocks]);
    sums[j] = TVMRT_F32V(fma)(found[j], scale, sums[j]);
  }
}

/* One row of wide vectors with weights as stored: a lane is a word of four bytes. Its weights
 * become floats in place, 2 ^ (bits * j) times too large, and x is scaled down to match. This takes
 * no shuffles, which have half the throughput of other instructions. */
#if defined(__GNUC__) && (defined(__AVX512F__) || defined(__AVX2__)) && TVMRT_SIMD_LANES_F32 >= 8
#define TVMRT_BLOCK_WORDS 1
#else
#define TVMRT_BLOCK_WORDS 0
#endif

#if TVMRT_BLOCK_WORDS
enum {
  TVMRT_WORD_BYTES = 4 * TVMRT_SIMD_LANES_F32, /*!< Size of a vector of words. */
  TVMRT_WORDS_MAX = 8192                       /*!< Elements of x that are reordered at a time. */
};
typedef uint32_t tvmrt_block_word __attribute__((vector_size(TVMRT_WORD_BYTES)));

/*! \brief x in the order of the words' weights: for each vector of words the negative product of
 * its sum and the zero point, then vectors for the weights in the lowest bits and so on */
typedef struct tvmrt_block_row {
  float at[TVMRT_WORDS_MAX + TVMRT_WORDS_MAX / 4];
} tvmrt_block_row;

/*! \brief Reorder the elements for `vectors` vectors. */
TVMRT_INLINE void tvmrt_reorder_row_words(int bits, int block, int vectors, const float* x,
                                          tvmrt_block_row* row) {
  const int bytes = block * bits / 8, each = 32 / bits;
  float* to = row->at;
  for (int v = 0; v < vectors; v++, to += (each + 1) * TVMRT_SIMD_LANES_F32) {
    for (int lane = 0; lane < TVMRT_SIMD_LANES_F32; lane++) {
      float sum = 0.0f;
      for (int j = 0; j < each; j++) {
        const int at = v * TVMRT_WORD_BYTES + 4 * lane + j * bits / 8;
        const float number = x[at / bytes * block + j * bits % 8 / bits * bytes + at % bytes];
        const int shift = j == each - 1 ? 0 : j * bits;
        sum += number;
        to[(j + 1) * TVMRT_SIMD_LANES_F32 + lane] = number / (float)(1u << shift);
      }
      to[lane] = sum * -(float)(1 << (bits - 1));
    }
  }
}

/*! \brief Whether a vector of words belongs to one block, or four with scales in a vector. */
TVMRT_INLINE int tvmrt_fits_words(int bytes) {
  return bytes % TVMRT_WORD_BYTES == 0 || (TVMRT_SIMD_LANES_F32 == 16 && bytes == 16);
}

/*! \brief The scales of a vector's lanes. */
TVMRT_INLINE tvmrt_f32v tvmrt_word_scales(const float* scales, int bytes) {
#ifdef __AVX512F__
  if (bytes == 16) {
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return (tvmrt_f32v)_mm512_permutexvar_ps(places, _mm512_castps128_ps512(_mm_loadu_ps(scales)));
  }
#endif
  (void)bytes;
  return TVMRT_F32V(splat)(*scales);
}

/*! \brief Add vectors of words of some columns, from block g on, for a reordered row. */
TVMRT_INLINE void tvmrt_add_words(const tvmrt_matmul_nbits_job* job, int bits, int block, int g,
                                  int vectors, int blocks, int32_t c, int columns,
                                  const tvmrt_block_row* row, tvmrt_f32v* sums) {
  const int bytes = block * bits / 8, each = 32 / bits;
  const uintptr_t ahead = tvmrt_blocks_ahead(columns, blocks, bytes);
  const float* x = row->at;
  const uint8_t* w = job->w + ((int64_t)c * blocks + g) * bytes;
  const float* scales = job->scales + (int64_t)c * blocks + g;
  for (int v = 0; v < vectors; v++, w += TVMRT_WORD_BYTES) {
    tvmrt_block_word word[TVMRT_BLOCK_COLUMNS];
    tvmrt_f32v found[TVMRT_BLOCK_COLUMNS];
    TVMRT_UNROLL(4)
    for (int j = 0; j < columns; j++) {
      const uint8_t* from = w + (int64_t)j * blocks * bytes;
      TVMRT_PREFETCH_L1((uintptr_t)from + ahead * (uintptr_t)bytes);
      memcpy(&word[j], from, sizeof word[j]);
      found[j] = TVMRT_F32V(load)(x);
    }
    x += TVMRT_SIMD_LANES_F32;
    TVMRT_UNROLL(8)
    for (int i = 0; i < each; i++, x += TVMRT_SIMD_LANES_F32) {
      const tvmrt_f32v from = TVMRT_F32V(load)(x);
      TVMRT_UNROLL(4)
      for (int j = 0; j < columns; j++) {
        const tvmrt_block_word numbers =
            i == each - 1 ? word[j] >> (32 - bits) : word[j] & ((1u << bits) - 1) << bits * i;
        /* below 2 ^ 31, so that processors without unsigned conversion convert them too */
        const tvmrt_f32v some = __builtin_convertvector((tvmrt_block_ints)numbers, tvmrt_f32v);
        found[j] = TVMRT_F32V(fma)(some, from, found[j]);
      }
    }
    TVMRT_UNROLL(4)
    for (int j = 0; j < columns; j++) {
      const float* own = scales + (int64_t)j * blocks + v * TVMRT_WORD_BYTES / bytes;
      TVMRT_PREFETCH_L1((uintptr_t)own + ahead * sizeof(*own));
      sums[j] = TVMRT_F32V(fma)(found[j], tvmrt_word_scales(own, bytes), sums[j]);
    }
  }
}

/*! \brief Part of a reordered row, in the format for the weights. */
typedef union tvmrt_ordered_row {
  tvmrt_block_row floats;
#if TVMRT_HAS_INT4_VNNI
  tvmrt_int4_vnni_row digits;
#endif
} tvmrt_ordered_row;

/*! \brief Reorder the elements for `vectors` vectors. */
TVMRT_INLINE void tvmrt_reorder_row(int bits, int block, int vectors, const float* x,
                                    tvmrt_ordered_row* row) {
#if TVMRT_HAS_INT4_VNNI
  if (bits == 4) {
    tvmrt_int4_vnni_pack_row(block / 2, vectors, x, &row->digits);
    return;
  }
#endif
  tvmrt_reorder_row_words(bits, block, vectors, x, &row->floats);
}

/*! \brief Add `vectors` vectors of some columns, from block g on. */
TVMRT_INLINE void tvmrt_add_ordered(const tvmrt_matmul_nbits_job* job, int bits, int block, int g,
                                    int vectors, int blocks, int32_t c, int columns,
                                    const tvmrt_ordered_row* row, tvmrt_f32v* sums) {
#if TVMRT_HAS_INT4_VNNI
  if (bits == 4) {
    const int64_t first = (int64_t)c * blocks + g;
    tvmrt_int4_vnni_accumulate(job->w + first * (block / 2), job->scales + first, block / 2, blocks,
                               vectors, columns, &row->digits, (__m512*)sums);
    return;
  }
#endif
  tvmrt_add_words(job, bits, block, g, vectors, blocks, c, columns, &row->floats, sums);
}

/*! \brief y for one row, columns from first to end, for the blocks that fill whole vectors of
 * words. \return Their number. */
TVMRT_INLINE int tvmrt_matmul_words(const tvmrt_matmul_nbits_job* job, int bits, int block,
                                    int32_t first, int32_t end, const float* x, float* y) {
  const tvmrt_matmul_nbits_layer* layer = job->layer;
  const int bytes = block * bits / 8, whole = layer->k / block;
  const int blocks = whole + (layer->k % block > 0);
  const int max_words = TVMRT_WORDS_MAX / (TVMRT_SIMD_LANES_F32 * 32 / bits);
  tvmrt_ordered_row row;
  int done = 0;
  if (job->points != NULL || !tvmrt_fits_words(bytes)) return 0;
  for (;;) {
    const int left = (whole - done) * bytes / TVMRT_WORD_BYTES;
    const int vectors = left < max_words ? left : max_words;
    if (vectors == 0) return done;
    tvmrt_reorder_row(bits, block, vectors, x + (int64_t)done * block, &row);
    for (int32_t c = first, columns = 0; c < end; c += columns) {
      tvmrt_f32v sums[TVMRT_BLOCK_COLUMNS];
      columns = end - c < TVMRT_BLOCK_COLUMNS ? 1 : TVMRT_BLOCK_COLUMNS;
      TVMRT_UNROLL(4)
      for (int j = 0; j < TVMRT_BLOCK_COLUMNS; j++) sums[j] = TVMRT_F32V(splat)(0.0f);
      if (columns > 1) {
        tvmrt_add_ordered(job, bits, block, done, vectors, blocks, c, TVMRT_BLOCK_COLUMNS, &row,
                          sums);
      } else {
        tvmrt_add_ordered(job, bits, block, done, vectors, blocks, c, 1, &row, sums);
      }
      for (int j = 0; j < columns; j++) {
        y[c + j] = (done > 0 ? y[c + j] : 0.0f) + TVMRT_F32V(sum)(sums[j]);
      }
    }
    done += vectors * TVMRT_WORD_BYTES / bytes;
  }
}
#else
TVMRT_INLINE int tvmrt_matmul_words(const tvmrt_matmul_nbits_job* job, int bits, int block,
                                    int32_t first, int32_t end, const float* x, float* y) {
  (void)job, (void)bits, (void)block, (void)first, (void)end, (void)x, (void)y;
  return 0;
}
#endif

/*! \brief Add blocks ``from`` to ``count`` of `columns` columns for one row, in the processor's
 * order: not with TVMRT_ONE_ORDER. */
TVMRT_INLINE void tvmrt_add_row_blocks(const tvmrt_matmul_nbits_job* job, int bits, int block,
                                       int from, int count, int blocks, int32_t c, int columns,
                                       const float* x, tvmrt_block_accumulators* sums) {
  tvmrt_f32v found[TVMRT_BLOCK_COLUMNS];
  TVMRT_UNROLL(4)
  for (int j = 0; j < columns; j++) found[j] = TVMRT_F32V(splat)(0.0f);
  if (job->points != NULL) {
    for (int g = from; g < count; g++) {
      tvmrt_add_row_block(job, job->points, bits, block, g, blocks, c, columns, x, found);
    }
  } else {
    for (int g = from; g < count; g++) {
      tvmrt_add_row_block(job, NULL, bits, block, g, blocks, c, columns, x, found);
    }
  }
  TVMRT_UNROLL(4)
  for (int j = 0; j < columns; j++) memcpy(&sums->at[j][0], &found[j], sizeof found[j]);
}

/*! \brief Add the blocks from g0 on to y, for some columns from c on, and some rows from x and y
 * on; y is uninitialised if g0 is 0. \param scaled_last Whether to scale sums. */
TVMRT_INLINE void tvmrt_matmul_nbits_tile(const tvmrt_matmul_nbits_job* job, int bits, int block,
                                          int g0, int32_t c, int columns, const float* x, int rows,
                                          int scaled_last, float* y) {
  const tvmrt_matmul_nbits_layer* layer = job->layer;
  const int whole = layer->k / block, tail = layer->k % block, blocks = whole + (tail > 0);
  float q[TVMRT_BLOCK_COLUMNS][TVMRT_BLOCK_MAX];
  tvmrt_block_accumulators sums;
  TVMRT_UNROLL(4)
  for (int j = 0; j < columns; j++) {
    TVMRT_UNROLL(4)
    for (int r = 0; r < rows; r++) sums.at[j][r] = TVMRT_SUM_F32(splat)(0.0f);
  }
  if (scaled_last && block * bits / 8 % TVMRT_SIMD_LANES_F32 == 0) {
    tvmrt_add_row_blocks(job, bits, block, g0, whole, blocks, c, columns, x, &sums);
  } else {
    for (int g = g0; g < whole; g++) {
      tvmrt_add_block(job, bits, block, g, blocks, c, columns, x, rows, block, q, &sums);
    }
  }
  if (tail > 0) {
    tvmrt_add_block(job, bits, block, whole, blocks, c, columns, x, rows, tail, q, &sums);
  }
  TVMRT_UNROLL(4)
  for (int j = 0; j < columns; j++) {
    TVMRT_UNROLL(4)
    for (int r = 0; r < rows; r++) {
      float* to = y + (int64_t)r * layer->n + c + j;
      *to = (g0 > 0 ? *to : 0.0f) + TVMRT_SUM_F32(sum)(sums.at[j][r]);
    }
  }
}

/*! \brief Some rows of y, columns from first to end. */
TVMRT_INLINE void tvmrt_matmul_nbits_rows(const tvmrt_matmul_nbits_job* job, int bits, int block,
                                          int64_t row, int rows, int32_t first, int32_t end) {
  const float* x = job->x + row * job->layer->k;
  float* y = job->y + row * job->layer->n;
  int32_t c = first;
  /* below 2 ^ 112 the sums of 256 products with 8 bits are finite before scaling */
  const int alone =
      !TVMRT_ONE_ORDER && rows == 1 && tvmrt_largest_bits(x, job->layer->k) < 0x77800000u;
  const int g0 = alone ? tvmrt_matmul_words(job, bits, block, first, end, x, y) : 0;
  if (g0 > 0 && (int64_t)g0 * block >= job->layer->k) return;
  for (; c + TVMRT_BLOCK_COLUMNS <= end; c += TVMRT_BLOCK_COLUMNS) {
    tvmrt_matmul_nbits_tile(job, bits, block, g0, c, TVMRT_BLOCK_COLUMNS, x, rows, alone, y);
  }
  for (; c < end; c++) tvmrt_matmul_nbits_tile(job, bits, block, g0, c, 1, x, rows, alone, y);
}

TVMRT_INLINE int tvmrt_matmul_nbits_part(int task, const TVMParallelGroupEnv* env,
                                         const tvmrt_matmul_nbits_job* job, int bits, int block) {
  const tvmrt_matmul_nbits_layer* layer = job->layer;
  const int32_t first = (int32_t)tvmrt_task_begin(layer->n, 16, task, env->num_task);
  const int32_t end = (int32_t)tvmrt_task_begin(layer->n, 16, task + 1, env->num_task);
  int64_t row = 0;
  for (; row + TVMRT_BLOCK_ROWS <= layer->m; row += TVMRT_BLOCK_ROWS) {
    tvmrt_matmul_nbits_rows(job, bits, block, row, TVMRT_BLOCK_ROWS, first, end);
  }
  for (; row < layer->m; row++) tvmrt_matmul_nbits_rows(job, bits, block, row, 1, first, end);
  return 0;
}

static inline int tvmrt_matmul_nbits_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_matmul_nbits_job* job = (const tvmrt_matmul_nbits_job*)closure;
  return tvmrt_matmul_nbits_part(task, env, job, job->layer->bits, job->layer->block);
}

/* F(NAME, bits, block) for usual block sizes, whose loops the compiler unrolls. */
#define TVMRT_BLOCK_KINDS(F, NAME) \
  F(NAME, 4, 16) F(NAME, 4, 32) F(NAME, 4, 64) F(NAME, 4, 128) F(NAME, 8, 32) F(NAME, 8, 128)

/* Define the task for one block size. */
#define TVMRT_BLOCK_TASK(NAME, BITS, BLOCK)                                                      \
  static inline int NAME##_##BITS##_##BLOCK(int task, TVMParallelGroupEnv* env, void* closure) { \
    return NAME##_part(task, env, (const NAME##_job*)closure, BITS, BLOCK);                      \
  }

/* Return the task if the layer's blocks match; with a literal layer only one remains. */
#define TVMRT_BLOCK_CHOICE(NAME, BITS, BLOCK) \
  if (bits == BITS && block == BLOCK) return NAME##_##BITS##_##BLOCK;

TVMRT_BLOCK_KINDS(TVMRT_BLOCK_TASK, tvmrt_matmul_nbits)

/*! \brief Return the task function for a layer's blocks. */
TVMRT_INLINE FTVMParallelLambda tvmrt_matmul_nbits_choose(int bits, int block) {
  TVMRT_BLOCK_KINDS(TVMRT_BLOCK_CHOICE, tvmrt_matmul_nbits)
  return tvmrt_matmul_nbits_task;
}

/*!
 * \brief The matmul that the layer describes.
 * \param w      [in] bytes of the weights, contiguous.
 * \param scales [in] one per block, [n][blocks].
 * \param points [in] one zero point per block, or NULL for layer->point everywhere.
 * \return 0, or -1 if no thread could be started.
 */
TVMRT_INLINE int tvmrt_matmul_nbits_f32(const tvmrt_matmul_nbits_layer* layer, const float* x,
                                        const uint8_t* w, const float* scales, const float* points,
                                        float* y) {
  tvmrt_matmul_nbits_job job = {layer, x, w, scales, points, y};
  const int64_t macs = layer->m * layer->n * layer->k;
  const FTVMParallelLambda task = tvmrt_matmul_nbits_choose(layer->bits, layer->block);
  return tvmrt_launch(task, &job, macs, TVMRT_PARALLEL_MIN_MACS);
}

#endif  // TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_H_
