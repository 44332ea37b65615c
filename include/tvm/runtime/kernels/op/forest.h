/*!
 * \file forest.h
 * \brief Decision trees in float32 and float64: branch-free traversal of eight trees at a time.
 *
 * Thresholds and columns are compared as keys: unsigned integers in the order of the floats that
 * they represent; NaN has the minimum or the maximum. A node is a pair: the key of its threshold,
 * and its link, which is the step to its left child << feature_bits | its column. The right child
 * follows the left one. The link of a leaf is a step of 0 and an extra column with key 0, the
 * minimum, so that traversal stays there. The key of a leaf is free for its result. Traversal may
 * therefore take more steps than the depth of a tree, and eight trees take all steps together.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_FOREST_H_
#define TVM_RUNTIME_KERNELS_OP_FOREST_H_

#include <math.h>
#include <string.h>

#include "../parallel.h"
#include "../scalar/compiler.h"

/*! \brief Concurrent traversals, and steps between two checks whether all have ended. */
enum { TVMRT_FOREST_WALKS = 8, TVMRT_FOREST_STEPS = 4 };

/*! \brief How leaf values are aggregated. */
enum { TVMRT_FOREST_SUM, TVMRT_FOREST_MIN, TVMRT_FOREST_MAX, TVMRT_FOREST_FOLDS };

/*! \brief Branch of NaN: right everywhere, left everywhere, or as given by each node. */
enum { TVMRT_FOREST_NAN_RIGHT, TVMRT_FOREST_NAN_LEFT, TVMRT_FOREST_NAN_BOTH, TVMRT_FOREST_NANS };

/*! \brief Order-preserving integer key of a float; both zeros have the same key, NaN has `nan`. */
static inline uint32_t tvmrt_forest_key_f32(float x, uint32_t nan) {
  const uint32_t zero = (uint32_t)1 << 31;
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const uint32_t size = bits & (zero - 1);
  if (size > 0x7F800000) return nan;
  return bits & zero ? zero - size : zero + size;
}

/*! \brief Order-preserving integer key of a double; both zeros have the same key, NaN has `nan`. */
static inline uint64_t tvmrt_forest_key_f64(double x, uint64_t nan) {
  const uint64_t zero = (uint64_t)1 << 63;
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  const uint64_t size = bits & (zero - 1);
  if (size > (uint64_t)0x7FF0000000000000) return nan;
  return bits & zero ? zero - size : zero + size;
}

/* One step of a traversal at node A of a row with these keys. Unsigned comparison in this order
 * lets compilers add the carry flag to the step. */
#define TVMRT_FOREST_STEP(KEY, A, KEYS)   \
  {                                       \
    const KEY link = (A)[1];              \
    const KEY key = (KEYS)[link & mask];  \
    size_t step = (size_t)(link >> bits); \
    step += *(A) < key;                   \
    (A) += 2 * step;                      \
    last |= link;                         \
  }

/* One step of all traversals. Separate variables stay in registers; compilers would gather the
 * elements of an array, which is slower than single loads. */
#define TVMRT_FOREST_ALL(KEY)                 \
  last = 0;                                   \
  TVMRT_FOREST_STEP(KEY, a0, keys)            \
  TVMRT_FOREST_STEP(KEY, a1, keys + next)     \
  TVMRT_FOREST_STEP(KEY, a2, keys + 2 * next) \
  TVMRT_FOREST_STEP(KEY, a3, keys + 3 * next) \
  TVMRT_FOREST_STEP(KEY, a4, keys + 4 * next) \
  TVMRT_FOREST_STEP(KEY, a5, keys + 5 * next) \
  TVMRT_FOREST_STEP(KEY, a6, keys + 6 * next) \
  TVMRT_FOREST_STEP(KEY, a7, keys + 7 * next)

/* tvmrt_forest_NAME: the tables of a forest.
 *   nodes         [nodes][2] keys and links; a leaf's key is the bits of its value if width is 1,
 *                 else its row of values
 *   values        [rows][width], or NULL if width is 1
 *   roots, depths [trees, whole groups of traversals] nodes, steps to the deepest leaf; ascending
 *   targets       [trees] the first output that a tree adds to, or NULL if that is 0
 *   base          [outputs]
 *   inputs        [features] columns of x that nodes read, or NULL for all in order
 *   divisor       of the aggregate: the number of trees for an average, else 1
 *
 * tvmrt_forest_run_NAME(forest, x, y, begin, end): computes rows begin to end of y [rows][outputs]
 * from x [rows][columns], which must not overlap. Returns 0, or -1 if scratch memory runs out;
 * threads may divide the rows. */
#define TVMRT_DEFINE_FOREST(NAME, REAL, KEY, GREATEST)                                             \
  typedef struct {                                                                                 \
    const KEY* nodes;                                                                              \
    const REAL* values;                                                                            \
    const int32_t* roots;                                                                          \
    const int32_t* depths;                                                                         \
    const int32_t* targets;                                                                        \
    const REAL* base;                                                                              \
    const int32_t* inputs;                                                                         \
    int32_t columns, features, feature_bits, nan, trees, width, outputs, fold, divisor;            \
  } tvmrt_forest_##NAME;                                                                           \
                                                                                                   \
  static inline int32_t tvmrt_forest_keys_of_##NAME(const tvmrt_forest_##NAME* forest) {           \
    return 1 + (forest->nan == TVMRT_FOREST_NAN_BOTH ? 2 : 1) * forest->features;                  \
  }                                                                                                \
                                                                                                   \
  static inline void tvmrt_forest_prepare_##NAME(const tvmrt_forest_##NAME* forest, const REAL* x, \
                                                 KEY* keys, double* sums) {                        \
    TVMRT_HANDLES(TVMRT_FOREST_NANS, 3);                                                           \
    const KEY nan = forest->nan == TVMRT_FOREST_NAN_RIGHT ? GREATEST : 0;                          \
    const double start = forest->fold == TVMRT_FOREST_SUM   ? 0.0                                  \
                         : forest->fold == TVMRT_FOREST_MIN ? (double)INFINITY                     \
                                                            : -(double)INFINITY;                   \
    for (int32_t i = 0; i < forest->features; i++) {                                               \
      keys[i] = tvmrt_forest_key_##NAME(x[forest->inputs ? forest->inputs[i] : i], nan);           \
    }                                                                                              \
    if (forest->nan == TVMRT_FOREST_NAN_BOTH) {                                                    \
      for (int32_t i = 0; i < forest->features; i++) {                                             \
        keys[forest->features + i] = keys[i] == 0 ? GREATEST : keys[i];                            \
      }                                                                                            \
    }                                                                                              \
    keys[tvmrt_forest_keys_of_##NAME(forest) - 1] = 0;                                             \
    for (int32_t i = 0; i < forest->outputs; i++) sums[i] = start;                                 \
  }                                                                                                \
                                                                                                   \
  static inline void tvmrt_forest_take_##NAME(const tvmrt_forest_##NAME* forest, int32_t tree,     \
                                              const KEY* leaf, double* sums) {                     \
    const int32_t width = forest->width;                                                           \
    const KEY given = *leaf;                                                                       \
    REAL number;                                                                                   \
    memcpy(&number, &given, sizeof(number));                                                       \
    const REAL* const value = width == 1 ? &number : forest->values + (int64_t)given * width;      \
    if (forest->targets) sums += forest->targets[tree];                                            \
    TVMRT_HANDLES(TVMRT_FOREST_FOLDS, 3);                                                          \
    for (int32_t i = 0; i < width; i++) {                                                          \
      if (forest->fold == TVMRT_FOREST_SUM) {                                                      \
        sums[i] += value[i];                                                                       \
      } else if (forest->fold == TVMRT_FOREST_MIN) {                                               \
        sums[i] = value[i] < sums[i] ? value[i] : sums[i];                                         \
      } else {                                                                                     \
        sums[i] = value[i] > sums[i] ? value[i] : sums[i];                                         \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  /* Eight traversals from these nodes, with keys that are `next` apart, of at most depth \
   * steps. */        \
  static inline void tvmrt_forest_walk_##NAME(const tvmrt_forest_##NAME* forest, const KEY* keys,  \
                                              int64_t next, int32_t depth, const KEY** at) {       \
    const int bits = forest->feature_bits;                                                         \
    const KEY mask = ((KEY)1 << bits) - 1;                                                         \
    const KEY *a0 = at[0], *a1 = at[1], *a2 = at[2], *a3 = at[3];                                  \
    const KEY *a4 = at[4], *a5 = at[5], *a6 = at[6], *a7 = at[7];                                  \
    for (int32_t d = 0; d < depth; d += TVMRT_FOREST_STEPS) {                                      \
      KEY last;                                                                                    \
      TVMRT_FOREST_ALL(KEY)                                                                        \
      TVMRT_FOREST_ALL(KEY)                                                                        \
      TVMRT_FOREST_ALL(KEY)                                                                        \
      TVMRT_FOREST_ALL(KEY)                                                                        \
      if (last >> bits == 0) break;                                                                \
    }                                                                                              \
    at[0] = a0, at[1] = a1, at[2] = a2, at[3] = a3;                                                \
    at[4] = a4, at[5] = a5, at[6] = a6, at[7] = a7;                                                \
  }                                                                                                \
                                                                                                   \
  /* One row, eight trees at a time. */                                                            \
  static inline void tvmrt_forest_row_##NAME(const tvmrt_forest_##NAME* forest, const KEY* keys,   \
                                             double* sums) {                                       \
    for (int32_t tree = 0; tree < forest->trees; tree += TVMRT_FOREST_WALKS) {                     \
      const int32_t depth = forest->depths[tree + TVMRT_FOREST_WALKS - 1];                         \
      const int32_t left = forest->trees - tree;                                                   \
      const KEY* at[TVMRT_FOREST_WALKS];                                                           \
      for (int i = 0; i < TVMRT_FOREST_WALKS; i++)                                                 \
        at[i] = forest->nodes + 2 * (int64_t)forest->roots[tree + i];                              \
      tvmrt_forest_walk_##NAME(forest, keys, 0, depth, at);                                        \
      for (int32_t i = 0; i < TVMRT_FOREST_WALKS && i < left; i++) {                               \
        tvmrt_forest_take_##NAME(forest, tree + i, at[i], sums);                                   \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  /* Eight rows, a tree at a time. */                                                              \
  static inline void tvmrt_forest_rows_##NAME(const tvmrt_forest_##NAME* forest, const KEY* keys,  \
                                              double* sums) {                                      \
    const int32_t next = tvmrt_forest_keys_of_##NAME(forest);                                      \
    for (int32_t tree = 0; tree < forest->trees; tree++) {                                         \
      const KEY* at[TVMRT_FOREST_WALKS];                                                           \
      for (int i = 0; i < TVMRT_FOREST_WALKS; i++)                                                 \
        at[i] = forest->nodes + 2 * (int64_t)forest->roots[tree];                                  \
      tvmrt_forest_walk_##NAME(forest, keys, next, forest->depths[tree], at);                      \
      for (int i = 0; i < TVMRT_FOREST_WALKS; i++) {                                               \
        tvmrt_forest_take_##NAME(forest, tree, at[i], sums + (int64_t)i * forest->outputs);        \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  static inline void tvmrt_forest_finish_##NAME(const tvmrt_forest_##NAME* forest,                 \
                                                const double* sums, REAL* y) {                     \
    for (int32_t i = 0; i < forest->outputs; i++) {                                                \
      const double sum = forest->fold != TVMRT_FOREST_SUM && isinf(sums[i]) ? 0.0 : sums[i];       \
      y[i] = (REAL)(sum / forest->divisor + forest->base[i]);                                      \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  static inline int tvmrt_forest_run_##NAME(const tvmrt_forest_##NAME* forest, const REAL* x,      \
                                            REAL* y, int64_t begin, int64_t end) {                 \
    const int32_t outputs = forest->outputs, next = tvmrt_forest_keys_of_##NAME(forest);           \
    const int64_t num_walks = end - begin < TVMRT_FOREST_WALKS ? 1 : TVMRT_FOREST_WALKS;           \
    if (begin >= end) return 0;                                                                    \
    double* const sums =                                                                           \
        (double*)tvmrt_scratch_alloc(num_walks * ((int64_t)outputs * (int64_t)sizeof(double) +     \
                                                  (int64_t)next * (int64_t)sizeof(KEY)));          \
    if (!sums) return -1;                                                                          \
    KEY* const keys = (KEY*)(void*)(sums + num_walks * outputs);                                   \
    while (begin < end) {                                                                          \
      const int64_t rows = end - begin < num_walks ? 1 : num_walks;                                \
      for (int64_t i = 0; i < rows; i++) {                                                         \
        tvmrt_forest_prepare_##NAME(forest, x + (begin + i) * forest->columns, keys + i * next,    \
                                    sums + i * outputs);                                           \
      }                                                                                            \
      if (rows == 1) {                                                                             \
        tvmrt_forest_row_##NAME(forest, keys, sums);                                               \
      } else {                                                                                     \
        tvmrt_forest_rows_##NAME(forest, keys, sums);                                              \
      }                                                                                            \
      for (int64_t i = 0; i < rows; i++) {                                                         \
        tvmrt_forest_finish_##NAME(forest, sums + i * outputs, y + (begin + i) * outputs);         \
      }                                                                                            \
      begin += rows;                                                                               \
    }                                                                                              \
    return tvmrt_scratch_free(sums);                                                               \
  }

TVMRT_DEFINE_FOREST(f32, float, uint32_t, UINT32_MAX)
TVMRT_DEFINE_FOREST(f64, double, uint64_t, UINT64_MAX)

#endif /* TVM_RUNTIME_KERNELS_OP_FOREST_H_ */
