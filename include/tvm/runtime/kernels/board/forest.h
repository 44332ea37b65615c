/*!
 * \file board/forest.h
 * \brief Decision trees on microcontrollers: integer arithmetic on tables in flash that are as
 * narrow as possible.
 *
 * Columns and thresholds are keys as in op/forest.h, so no float is compared. Leaves hold integers
 * in units of a common fraction, and no sum exceeds 32 bits. The result therefore does not depend
 * on the order of the trees and needs no floating-point unit.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_FOREST_H_
#define TVM_RUNTIME_KERNELS_BOARD_FOREST_H_

#include <string.h>

#include "../parallel.h"

/* Integer key of a float that preserves the order; `nan` for NaN. */
static inline int32_t tvmrt_board_key(const float* x, int32_t nan) {
  int32_t bits;
  memcpy(&bits, x, sizeof(bits));
  const int32_t size = bits & INT32_MAX;
  if (size > 0x7F800000) return nan;
  return bits < 0 ? -size : size;
}

/* tvmrt_board_forest_SUFFIX: a forest whose columns are of type COLUMN, steps of type STEP.
 *   keys      [nodes] of thresholds; of a leaf, its row, or its value if there are no rows
 *   columns   [nodes] indices into the keys of a row
 *   steps     [nodes] from a node to its left child, which the right one follows; 0: a leaf
 *   rows      [][width] of integers, or NULL if width is 1
 *   roots     [trees]
 *   targets   [trees] the first output that a tree adds to, or NULL if that is 0
 *   base      [outputs] initial values of the sums
 *   inputs    [features] columns of x that nodes read, or NULL for all in order
 *   unit      value of 1 in y
 *
 * tvmrt_board_forest_run_SUFFIX(forest, x, y, rows): x [rows][x_columns] to y [rows][outputs].
 * Returns 0, or -1 if scratch memory runs out. */
#define TVMRT_DEFINE_BOARD_FOREST(SUFFIX, COLUMN, STEP)                                       \
  typedef struct {                                                                            \
    const int32_t* keys;                                                                      \
    const COLUMN* columns;                                                                    \
    const STEP* steps;                                                                        \
    const int32_t* rows;                                                                      \
    const int32_t* roots;                                                                     \
    const int32_t* targets;                                                                   \
    const int32_t* base;                                                                      \
    const int32_t* inputs;                                                                    \
    int32_t x_columns, features, nan_left, nan_right, trees, width, outputs;                  \
    float unit;                                                                               \
  } tvmrt_board_forest_##SUFFIX;                                                              \
                                                                                              \
  static inline void tvmrt_board_forest_row_##SUFFIX(const tvmrt_board_forest_##SUFFIX* f,    \
                                                     const int32_t* keys, int32_t* sums) {    \
    for (int32_t tree = 0; tree < f->trees; tree++) {                                         \
      int32_t at = f->roots[tree], step;                                                      \
      int32_t* const out = sums + (f->targets ? f->targets[tree] : 0);                        \
      while ((step = f->steps[at]) != 0) at += step + (keys[f->columns[at]] > f->keys[at]);   \
      if (f->rows == NULL) {                                                                  \
        *out += f->keys[at];                                                                  \
      } else {                                                                                \
        const int32_t* const row = f->rows + f->keys[at] * f->width;                          \
        for (int32_t i = 0; i < f->width; i++) out[i] += row[i];                              \
      }                                                                                       \
    }                                                                                         \
  }                                                                                           \
                                                                                              \
  static inline int tvmrt_board_forest_run_##SUFFIX(const tvmrt_board_forest_##SUFFIX* f,     \
                                                    const float* x, float* y, int32_t rows) { \
    const int32_t both = f->nan_left && f->nan_right, features = f->features;                 \
    const int32_t nan = f->nan_left ? INT32_MIN : INT32_MAX;                                  \
    const int32_t count = f->outputs + (both ? 2 * features : features);                      \
    int32_t* const sums = (int32_t*)tvmrt_scratch_alloc(4 * (int64_t)count);                  \
    if (sums == NULL) return -1;                                                              \
    int32_t* const keys = sums + f->outputs;                                                  \
    for (; rows > 0; rows--) {                                                                \
      for (int32_t i = 0; i < features; i++) {                                                \
        keys[i] = tvmrt_board_key(x + (f->inputs ? f->inputs[i] : i), nan);                   \
        if (both) keys[features + i] = keys[i] == INT32_MIN ? INT32_MAX : keys[i];            \
      }                                                                                       \
      for (int32_t i = 0; i < f->outputs; i++) sums[i] = f->base[i];                          \
      tvmrt_board_forest_row_##SUFFIX(f, keys, sums);                                         \
      for (int32_t i = 0; i < f->outputs; i++) y[i] = (float)sums[i] * f->unit;               \
      x += f->x_columns;                                                                      \
      y += f->outputs;                                                                        \
    }                                                                                         \
    return tvmrt_scratch_free(sums);                                                          \
  }

TVMRT_DEFINE_BOARD_FOREST(u8_u8, uint8_t, uint8_t)
TVMRT_DEFINE_BOARD_FOREST(u8_u16, uint8_t, uint16_t)
TVMRT_DEFINE_BOARD_FOREST(u16_u8, uint16_t, uint8_t)
TVMRT_DEFINE_BOARD_FOREST(u16_u16, uint16_t, uint16_t)

#endif /* TVM_RUNTIME_KERNELS_BOARD_FOREST_H_ */
