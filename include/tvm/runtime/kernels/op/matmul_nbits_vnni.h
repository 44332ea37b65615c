/*!
 * \file matmul_nbits_vnni.h
 * \brief The matmul of matmul_nbits.h for many rows in integer arithmetic, with instructions that
 * multiply four pairs of bytes (AVX-512 VNNI, AVX-VNNI).
 *
 * Elements of a row are quantised to multiples of a unit, a power of two for each 128 of them, with
 * 8, 16 or 24 bits: one to three bytes, here called digits. Weights of 2, 4 or 8 bits are unpacked
 * to bytes once for all rows, a panel of columns at a time. Sums of products within a block are
 * exact until they are multiplied by the block's scale. With 24 bits, results are as accurate as
 * those of float32 arithmetic. With 8 bits, the unit is the largest element divided by 127.
 *
 * Digits are unsigned, the highest shifted by 128: each panel has the sums that compensate.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_VNNI_H_
#define TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_VNNI_H_

#include "matmul_nbits.h"

#if TVMRT_HAS_INT4_VNNI
enum {
  TVMRT_DIGIT_LANES = 16,
  TVMRT_DIGIT_MR = 6, /*!< Rows of a tile. */
  TVMRT_DIGIT_NR = 2, /*!< Vectors of columns of a tile. */
  TVMRT_DIGIT_COLUMNS = TVMRT_DIGIT_NR * TVMRT_DIGIT_LANES,
  TVMRT_DIGIT_UNIT = 128, /*!< Minimum elements with a unit. */
  TVMRT_DIGIT_ROWS = 192, /*!< Rows that are quantised at a time, to limit memory. */
  TVMRT_DIGIT_CHUNK = 8,  /*!< Units that are multiplied at a time: their panel fits into L1. */
  TVMRT_DIGIT_WORDS = 16  /*!< Words of a column that are unpacked at a time: a cache line. */
};
typedef int32_t tvmrt_digit_ints __attribute__((vector_size(4 * TVMRT_DIGIT_LANES)));
typedef float tvmrt_digit_floats __attribute__((vector_size(4 * TVMRT_DIGIT_LANES)));
typedef uint8_t tvmrt_digit_bytes __attribute__((vector_size(TVMRT_DIGIT_LANES)));

/*! \brief Add products of four unsigned bytes of x and four signed bytes of w to each lane. */
TVMRT_INLINE tvmrt_digit_ints tvmrt_digit_dot(tvmrt_digit_ints sum, tvmrt_digit_ints x,
                                              tvmrt_digit_ints w) {
  return (tvmrt_digit_ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
}

TVMRT_INLINE tvmrt_digit_ints tvmrt_digit_load(const void* p) {
  return (tvmrt_digit_ints)_mm512_loadu_si512(p);
}

/*! \brief Blocks of weights: of a column, and with a common unit. */
typedef struct tvmrt_digit_blocks {
  int32_t count;
  int32_t per_unit;
  int32_t units;
} tvmrt_digit_blocks;

typedef struct tvmrt_digit_job {
  tvmrt_matmul_nbits_job blocks;
  int digits;
  int64_t row; /*!< The first of the rows that are quantised. */
  int64_t rows;
  uint8_t* packed; /*!< [tile][block][digit][quad][row][4] */
  float* units;    /*!< [tile][unit][row] */
} tvmrt_digit_job;

TVMRT_INLINE tvmrt_digit_blocks tvmrt_digit_count_blocks(int32_t k, int block) {
  tvmrt_digit_blocks of;
  of.count = (k + block - 1) / block;
  of.per_unit = TVMRT_DIGIT_UNIT % block == 0 ? TVMRT_DIGIT_UNIT / block : 1;
  of.units = (of.count + of.per_unit - 1) / of.per_unit;
  return of;
}

/*! \brief The unit of finite elements, for a number of digits. */
TVMRT_INLINE float tvmrt_digit_unit(const float* x, int32_t count, int digits) {
  if (digits > 1) return tvmrt_unit_24_bits(x, count) * (float)(1 << (8 * (3 - digits)));
  const float unit = tvmrt_from_bits_f32(tvmrt_largest_bits(x, count)) * (1.0f / 127);
  return unit < 0x1p-120f ? 0x1p-120f : unit; /* its reciprocal is finite */
}

/*! \brief Quantise the elements of one unit of a row: `left` of them exist, and `blocks` blocks are
 * written from the row's first byte in the unit's first quad on. \return The unit. */
TVMRT_INLINE float tvmrt_digit_pack_unit(const float* x, int32_t left, int32_t blocks, int block,
                                         int digits, uint8_t* to) {
  const int64_t step = (int64_t)block * TVMRT_DIGIT_MR;
  const int drop = 8 * (3 - digits);
  const int32_t count = left < blocks * block ? left : blocks * block;
  const float unit = tvmrt_digit_unit(x, count, digits), times = 1.0f / unit;
  for (int i = 0; i < blocks * block; i += TVMRT_DIGIT_LANES) {
    const __mmask16 valid = count - i >= 16 ? 0xffff : count > i ? (1u << (count - i)) - 1 : 0;
    const __m512 from = _mm512_mul_ps(_mm512_maskz_loadu_ps(valid, x + i), _mm512_set1_ps(times));
    const tvmrt_digit_ints whole = (tvmrt_digit_ints)_mm512_cvtps_epi32(from) + (0x800000 >> drop);
    uint8_t* quad = to + i / block * digits * step + i % block * TVMRT_DIGIT_MR;
    for (int d = 0; d < digits; d++, quad += step) {
      const tvmrt_digit_bytes some =
          __builtin_convertvector((whole >> (8 * (digits - 1 - d))) & 255, tvmrt_digit_bytes);
      for (int q = 0; q < TVMRT_DIGIT_LANES / 4; q++) {
        memcpy(quad + q * 4 * TVMRT_DIGIT_MR, (const uint8_t*)&some + 4 * q, 4);
      }
    }
  }
  return unit;
}

/*! \brief Quantise some tiles of rows; the last row fills its tile. */
static inline int tvmrt_digit_pack_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_digit_job* job = (const tvmrt_digit_job*)closure;
  const tvmrt_matmul_nbits_layer* layer = job->blocks.layer;
  const tvmrt_digit_blocks of = tvmrt_digit_count_blocks(layer->k, layer->block);
  const int64_t tile = (int64_t)of.count * job->digits * layer->block * TVMRT_DIGIT_MR;
  const int64_t rows = (job->rows + TVMRT_DIGIT_MR - 1) / TVMRT_DIGIT_MR * TVMRT_DIGIT_MR;
  const int64_t end = tvmrt_task_begin(rows, TVMRT_DIGIT_MR, task + 1, env->num_task);
  const int64_t unit = (int64_t)of.per_unit * layer->block;
  int64_t r = tvmrt_task_begin(rows, TVMRT_DIGIT_MR, task, env->num_task);
  for (; r < end; r += TVMRT_DIGIT_MR) {
    float* units = job->units + r * of.units;
    uint8_t* to = job->packed + r / TVMRT_DIGIT_MR * tile;
    for (int32_t u = 0; u < of.units; u++, to += unit * job->digits * TVMRT_DIGIT_MR) {
      const int32_t left = of.count - u * of.per_unit;
      for (int inside = 0; inside < TVMRT_DIGIT_MR; inside++) {
        const int64_t from = r + inside < job->rows ? r + inside : job->rows - 1;
        *units++ = tvmrt_digit_pack_unit(
            job->blocks.x + (job->row + from) * layer->k + u * unit, (int32_t)(layer->k - u * unit),
            left < of.per_unit ? left : of.per_unit, layer->block, job->digits, to + 4 * inside);
      }
    }
  }
  return 0;
}

/*! \brief Parameters of a block in a panel; its weights [quad][column][4] follow. */
typedef struct tvmrt_digit_panel {
  int32_t offsets[TVMRT_DIGIT_COLUMNS];
  float scales[TVMRT_DIGIT_COLUMNS];
} tvmrt_digit_panel;

TVMRT_INLINE int64_t tvmrt_digit_block_bytes(int quads) {
  return (int64_t)sizeof(tvmrt_digit_panel) + (int64_t)quads * TVMRT_DIGIT_COLUMNS * 4;
}

/*! \brief Set the scales of a block, and the zero point per column in each byte of `points`. */
TVMRT_INLINE void tvmrt_digit_load_scales(const tvmrt_matmul_nbits_job* job, int bits, int g,
                                          int blocks, int32_t c, int columns, tvmrt_digit_panel* to,
                                          int32_t* points) {
  for (int j = 0; j < columns; j++) {
    const int64_t at = (int64_t)(c + j) * blocks + g;
    to->scales[j] = job->scales[at];
    points[j] = 0x01010101 * (job->points != NULL ? (int)job->points[at] : 1 << (bits - 1));
  }
}

/*! \brief a - b for each of the four bytes, each at most 128 apart. */
TVMRT_INLINE tvmrt_digit_ints tvmrt_digit_subtract(tvmrt_digit_ints a, tvmrt_digit_ints b) {
  return (tvmrt_digit_ints)_mm512_sub_epi8((__m512i)a, (__m512i)b);
}

/*! \brief Unpack block g of some columns from c on, minus their zero points. */
TVMRT_INLINE void tvmrt_digit_unpack_block(const tvmrt_matmul_nbits_job* job, int bits, int block,
                                           int g, int blocks, int32_t c, int columns,
                                           tvmrt_digit_panel* to) {
  enum { kLanes = TVMRT_DIGIT_LANES };
  const int words = block * bits / 32;
  const int mask = 0x01010101 * ((1 << bits) - 1);
  const uint8_t* w = job->w + ((int64_t)c * blocks + g) * words * 4;
  int8_t* weights = (int8_t*)(to + 1);
  int32_t some[TVMRT_DIGIT_WORDS][TVMRT_DIGIT_COLUMNS], points[TVMRT_DIGIT_COLUMNS];
  tvmrt_digit_ints sums[TVMRT_DIGIT_NR];
  memset(sums, 0, sizeof sums);
  if (columns < TVMRT_DIGIT_COLUMNS) {
    memset(some, 0, sizeof some);
    memset(points, 0, sizeof points);
    memset(to, 0, sizeof *to);
  }
  tvmrt_digit_load_scales(job, bits, g, blocks, c, columns, to, points);
  for (int first = 0; first < words; first += TVMRT_DIGIT_WORDS) {
    const int count = words - first < TVMRT_DIGIT_WORDS ? words - first : TVMRT_DIGIT_WORDS;
    for (int j = 0; j < columns; j++) {
      const uint8_t* from = w + ((int64_t)j * blocks * words + first) * 4;
      TVMRT_PREFETCH_L1((uintptr_t)(from + 128));
      for (int i = 0; i < count; i++) memcpy(&some[i][j], from + 4 * i, 4);
    }
    for (int i = 0; i < count; i++) {
      for (int low = 0; low < 8; low += bits) {
        const int quad = low / bits * words + first + i;
        for (int v = 0; v < TVMRT_DIGIT_NR; v++) {
          tvmrt_digit_ints word, point;
          memcpy(&word, some[i] + v * kLanes, sizeof word);
          memcpy(&point, points + v * kLanes, sizeof point);
          word = tvmrt_digit_subtract((word >> low) & mask, point);
          sums[v] = tvmrt_digit_dot(sums[v], (tvmrt_digit_ints){0} + (int)0x80808080, word);
          memcpy(weights + ((int64_t)quad * TVMRT_DIGIT_NR + v) * 4 * kLanes, &word, sizeof word);
        }
      }
    }
  }
  for (int v = 0; v < TVMRT_DIGIT_NR; v++) {
    sums[v] = -sums[v];
    memcpy(to->offsets + v * kLanes, &sums[v], sizeof sums[v]);
  }
}

/*! \brief Add the products of one digit of a block to sums. */
TVMRT_INLINE void tvmrt_digit_multiply(int quads, const uint8_t* x, const int8_t* w,
                                       tvmrt_digit_ints sums[TVMRT_DIGIT_MR][TVMRT_DIGIT_NR]) {
  for (int q = 0; q < quads; q++, x += 4 * TVMRT_DIGIT_MR, w += 4 * TVMRT_DIGIT_COLUMNS) {
    tvmrt_digit_ints weights[TVMRT_DIGIT_NR];
    TVMRT_UNROLL(2)
    for (int v = 0; v < TVMRT_DIGIT_NR; v++) weights[v] = tvmrt_digit_load(w + 64 * v);
    TVMRT_UNROLL(8)
    for (int r = 0; r < TVMRT_DIGIT_MR; r++) {
      int32_t four;
      memcpy(&four, x + 4 * r, 4);
      const tvmrt_digit_ints quad = (tvmrt_digit_ints){0} + four;
      TVMRT_UNROLL(2)
      for (int v = 0; v < TVMRT_DIGIT_NR; v++) {
        sums[r][v] = tvmrt_digit_dot(sums[r][v], quad, weights[v]);
      }
    }
  }
}

/*! \brief part += sums * scales * factor, for a tile. */
TVMRT_INLINE void tvmrt_digit_scale(tvmrt_digit_ints sums[TVMRT_DIGIT_MR][TVMRT_DIGIT_NR],
                                    const float* scales, float factor,
                                    tvmrt_digit_floats part[TVMRT_DIGIT_MR][TVMRT_DIGIT_NR]) {
  TVMRT_UNROLL(2)
  for (int v = 0; v < TVMRT_DIGIT_NR; v++) {
    tvmrt_digit_floats scale;
    memcpy(&scale, scales + v * TVMRT_DIGIT_LANES, sizeof scale);
    scale *= factor;
    TVMRT_UNROLL(8)
    for (int r = 0; r < TVMRT_DIGIT_MR; r++) {
      part[r][v] += __builtin_convertvector(sums[r][v], tvmrt_digit_floats) * scale;
    }
  }
}

/*! \brief One block of a tile: the low digit, then the others. */
TVMRT_INLINE void tvmrt_digit_block(int digits, int quads, const uint8_t* x,
                                    const tvmrt_digit_panel* panel,
                                    tvmrt_digit_floats part[TVMRT_DIGIT_MR][TVMRT_DIGIT_NR]) {
  const int8_t* w = (const int8_t*)(panel + 1);
  const int step = quads * TVMRT_DIGIT_MR * 4;
  tvmrt_digit_ints sums[TVMRT_DIGIT_MR][TVMRT_DIGIT_NR], offsets[TVMRT_DIGIT_NR];
  if (digits == 3) {
    TVMRT_UNROLL(8)
    for (int r = 0; r < TVMRT_DIGIT_MR; r++) {
      TVMRT_UNROLL(2)
      for (int v = 0; v < TVMRT_DIGIT_NR; v++) sums[r][v] = (tvmrt_digit_ints){0};
    }
    tvmrt_digit_multiply(quads, x + 2 * step, w, sums);
    tvmrt_digit_scale(sums, panel->scales, 1.0f, part);
  }
  TVMRT_UNROLL(2)
  for (int v = 0; v < TVMRT_DIGIT_NR; v++) {
    offsets[v] = tvmrt_digit_load(panel->offsets + v * TVMRT_DIGIT_LANES);
  }
  TVMRT_UNROLL(8)
  for (int r = 0; r < TVMRT_DIGIT_MR; r++) {
    TVMRT_UNROLL(2)
    for (int v = 0; v < TVMRT_DIGIT_NR; v++) sums[r][v] = offsets[v];
  }
  tvmrt_digit_multiply(quads, x, w, sums);
  if (digits > 1) {
    TVMRT_UNROLL(8)
    for (int r = 0; r < TVMRT_DIGIT_MR; r++) {
      TVMRT_UNROLL(2)
      for (int v = 0; v < TVMRT_DIGIT_NR; v++) sums[r][v] <<= 8;
    }
    tvmrt_digit_multiply(quads, x + step, w, sums);
  }
  tvmrt_digit_scale(sums, panel->scales, digits == 3 ? 256.0f : 1.0f, part);
}

/*! \brief Add blocks g to last to a tile of y, of `rows` rows and `columns` columns. */
TVMRT_INLINE void tvmrt_digit_tile(int digits, int quads, int per_unit, int32_t g, int32_t last,
                                   const uint8_t* x, const float* units, const uint8_t* panel,
                                   float* y, int64_t y_step, int rows, int columns) {
  tvmrt_digit_floats total[TVMRT_DIGIT_MR][TVMRT_DIGIT_NR];
  const int is_first = g == 0;
  memset(total, 0, sizeof total);
  for (; g < last; units += TVMRT_DIGIT_MR) {
    const int32_t end = last - g < per_unit ? last : g + per_unit;
    tvmrt_digit_floats part[TVMRT_DIGIT_MR][TVMRT_DIGIT_NR];
    TVMRT_UNROLL(8)
    for (int r = 0; r < TVMRT_DIGIT_MR; r++) {
      TVMRT_UNROLL(2)
      for (int v = 0; v < TVMRT_DIGIT_NR; v++) part[r][v] = (tvmrt_digit_floats){0};
    }
    for (; g < end; g++, panel += tvmrt_digit_block_bytes(quads)) {
      tvmrt_digit_block(digits, quads, x, (const tvmrt_digit_panel*)panel, part);
      x += (int64_t)digits * quads * TVMRT_DIGIT_MR * 4;
    }
    TVMRT_UNROLL(8)
    for (int r = 0; r < TVMRT_DIGIT_MR; r++) {
      TVMRT_UNROLL(2)
      for (int v = 0; v < TVMRT_DIGIT_NR; v++) total[r][v] += part[r][v] * units[r];
    }
  }
  for (int r = 0; r < rows; r++, y += y_step) {
    tvmrt_digit_floats before[TVMRT_DIGIT_NR];
    const size_t bytes = columns == TVMRT_DIGIT_COLUMNS ? sizeof before : (size_t)columns * 4;
    if (!is_first) {
      memset(before, 0, sizeof before);
      memcpy(before, y, bytes);
      TVMRT_UNROLL(2)
      for (int v = 0; v < TVMRT_DIGIT_NR; v++) total[r][v] += before[v];
    }
    memcpy(y, total[r], bytes);
  }
}

/*! \brief All rows of y, for some columns; digits, bits and block are literals. */
TVMRT_INLINE int tvmrt_digit_part(int task, const TVMParallelGroupEnv* env,
                                  const tvmrt_digit_job* job, int digits, int bits, int block) {
  const tvmrt_matmul_nbits_layer* layer = job->blocks.layer;
  const tvmrt_digit_blocks of = tvmrt_digit_count_blocks(layer->k, block);
  const int64_t tile = (int64_t)of.count * digits * block * TVMRT_DIGIT_MR;
  const int32_t first =
      (int32_t)tvmrt_task_begin(layer->n, TVMRT_DIGIT_COLUMNS, task, env->num_task);
  const int32_t end =
      (int32_t)tvmrt_task_begin(layer->n, TVMRT_DIGIT_COLUMNS, task + 1, env->num_task);
  if (first >= end) return 0;
  const int chunk = TVMRT_DIGIT_CHUNK * of.per_unit;
  uint8_t* panel = (uint8_t*)tvmrt_scratch_alloc(chunk * tvmrt_digit_block_bytes(block / 4));
  if (panel == NULL) return -1;
  for (int32_t g = 0; g < of.count; g += chunk) {
    const int32_t last = of.count - g < chunk ? of.count : g + chunk;
    for (int32_t c = first; c < end; c += TVMRT_DIGIT_COLUMNS) {
      const int columns = end - c < TVMRT_DIGIT_COLUMNS ? (int)(end - c) : TVMRT_DIGIT_COLUMNS;
      for (int i = g; i < last; i++) {
        tvmrt_digit_unpack_block(
            &job->blocks, bits, block, i, of.count, c, columns,
            (tvmrt_digit_panel*)(panel + (i - g) * tvmrt_digit_block_bytes(block / 4)));
      }
      for (int64_t r = 0; r < job->rows; r += TVMRT_DIGIT_MR) {
        const int64_t t = r / TVMRT_DIGIT_MR, left = job->rows - r;
        tvmrt_digit_tile(digits, block / 4, of.per_unit, g, last,
                         job->packed + t * tile + g * digits * block * TVMRT_DIGIT_MR,
                         job->units + (t * of.units + g / of.per_unit) * TVMRT_DIGIT_MR, panel,
                         job->blocks.y + (job->row + r) * layer->n + c, layer->n,
                         left < TVMRT_DIGIT_MR ? (int)left : TVMRT_DIGIT_MR, columns);
      }
    }
  }
  return tvmrt_scratch_free(panel);
}

/* Tasks for one number of digits, and their choice by the layer's blocks. */
#define TVMRT_DIGIT_TASKS(DIGITS)                                                                  \
  typedef tvmrt_digit_job tvmrt_matmul_digits##DIGITS##_job;                                       \
  TVMRT_INLINE int tvmrt_matmul_digits##DIGITS##_part(                                             \
      int task, const TVMParallelGroupEnv* env, const tvmrt_digit_job* job, int bits, int block) { \
    return tvmrt_digit_part(task, env, job, DIGITS, bits, block);                                  \
  }                                                                                                \
  TVMRT_BLOCK_KINDS(TVMRT_BLOCK_TASK, tvmrt_matmul_digits##DIGITS)                                 \
  static inline int tvmrt_matmul_digits##DIGITS##_task(int task, TVMParallelGroupEnv* env,         \
                                                       void* closure) {                            \
    const tvmrt_digit_job* job = (const tvmrt_digit_job*)closure;                                  \
    const tvmrt_matmul_nbits_layer* layer = job->blocks.layer;                                     \
    return tvmrt_digit_part(task, env, job, DIGITS, layer->bits, layer->block);                    \
  }                                                                                                \
  TVMRT_INLINE FTVMParallelLambda tvmrt_matmul_digits##DIGITS##_choose(int bits, int block) {      \
    TVMRT_BLOCK_KINDS(TVMRT_BLOCK_CHOICE, tvmrt_matmul_digits##DIGITS)                             \
    return tvmrt_matmul_digits##DIGITS##_task;                                                     \
  }

TVMRT_DIGIT_TASKS(1)
TVMRT_DIGIT_TASKS(2)
TVMRT_DIGIT_TASKS(3)

/*!
 * \brief The matmul that the layer describes, with 8 * digits bits for the elements of x.
 * \param digits [in] 3 for the accuracy of float32, 2 or 1.
 * \param w      [in] bytes of the weights, contiguous.
 * \param scales [in] one per block, [n][blocks].
 * \param points [in] one integer per block, with less than 8 bits; or NULL for the middle.
 * \return 0, or -1 if scratch memory runs out or a thread failed.
 */
TVMRT_INLINE int tvmrt_matmul_digits_f32(const tvmrt_matmul_nbits_layer* layer, int digits,
                                         const float* x, const uint8_t* w, const float* scales,
                                         const float* points, float* y) {
  const tvmrt_digit_blocks of = tvmrt_digit_count_blocks(layer->k, layer->block);
  const int64_t most = TVMRT_DIGIT_ROWS, together = layer->m < most ? layer->m : most;
  const int64_t rows = (together + TVMRT_DIGIT_MR - 1) / TVMRT_DIGIT_MR * TVMRT_DIGIT_MR;
  const int64_t unit_bytes = rows * of.units * (int64_t)sizeof(float);
  const FTVMParallelLambda task =
      digits == 1   ? tvmrt_matmul_digits1_choose(layer->bits, layer->block)
      : digits == 2 ? tvmrt_matmul_digits2_choose(layer->bits, layer->block)
                    : tvmrt_matmul_digits3_choose(layer->bits, layer->block);
  tvmrt_digit_job job = {{layer, x, w, scales, points, y}, digits, 0, 0, NULL, NULL};
  int rc = 0;
  /* Infinite and huge elements have no unit. */
  for (int64_t r = 0; r < layer->m; r++) {
    if (tvmrt_largest_bits(x + r * layer->k, layer->k) >= 0x77800000u) {
      return tvmrt_matmul_nbits_f32(layer, x, w, scales, points, y);
    }
  }
  job.units = (float*)tvmrt_scratch_alloc(unit_bytes + rows * of.count * digits * layer->block);
  if (job.units == NULL) return -1;
  job.packed = (uint8_t*)job.units + unit_bytes;
  for (; job.row < layer->m && rc == 0; job.row += job.rows) {
    job.rows = layer->m - job.row < together ? layer->m - job.row : together;
    const int64_t work = job.rows * layer->k;
    rc = tvmrt_launch(tvmrt_digit_pack_task, &job, 16 * work, TVMRT_PARALLEL_MIN_MACS);
    if (rc == 0) rc = tvmrt_launch(task, &job, work * layer->n, TVMRT_PARALLEL_MIN_MACS);
  }
  return tvmrt_scratch_free(job.units) != 0 ? -1 : rc;
}
#endif

#endif /* TVM_RUNTIME_KERNELS_OP_MATMUL_NBITS_VNNI_H_ */
