/*!
 * \file work_partition.h
 * \brief Work partition of a layer among tasks: by columns, by rows of all columns, or by matrices
 * of a batch.
 *
 * Columns come in blocks, the units of work, of some rows each. If tasks divide columns, a block
 * may extend over the boundary of two tasks; it is then divided by rows. Example: 960 channels in
 * blocks of 64 and 49 pixels in tiles of 7: the first of two tasks has 7 of the 15 blocks, and 28
 * pixels of the eighth.
 */
#ifndef TVM_RUNTIME_KERNELS_WORK_PARTITION_H_
#define TVM_RUNTIME_KERNELS_WORK_PARTITION_H_

#include "parallel.h"

/*! \brief A position in work: after all units before `unit`, and its rows before `row`. */
typedef struct tvmrt_work_cut {
  int64_t unit, row;
} tvmrt_work_cut;

/*!
 * \brief Start of a task's part; task + 1 gives its end.
 * \param batch Number of matrices of n columns; blocks make them units, the last of which may be
 * narrower.
 * \param rows Rows per column. A unit that is divided is cut at a multiple of `width`.
 */
static inline tvmrt_work_cut tvmrt_task_work_cut(int64_t batch, int64_t n, int64_t block,
                                                 int64_t rows, int64_t width, int task,
                                                 int num_task) {
  const int64_t blocks = (n + block - 1) / block, area = n * rows;
  const int64_t place = batch * area * task / num_task;
  const int64_t image = area > 0 ? place / area : 0, inside = place - image * area;
  const int64_t number = inside / (block * (rows > 0 ? rows : 1));
  const int64_t left = n - number * block, columns = left < block ? left : block;
  const int64_t over = inside - number * block * rows;
  const int64_t distance = width < rows ? width : rows; /* distance of cuts; the nearest is used */
  const int64_t step = columns * distance, row = step > 0 ? (over + step / 2) / step * distance : 0;
  const int after = row > 0 && row >= rows;
  const tvmrt_work_cut cut = {image * blocks + number + after, after ? 0 : row};
  return cut;
}

/*! \brief A task's part of such work: rows [first, last) of the units between two cuts. A cut with
 * a row divides `together` units at that row. If rows do not divide evenly, the first units begin
 * and end some rows later. */
typedef struct tvmrt_work_part {
  tvmrt_work_cut begin, end;
  int64_t first, last;
  int64_t together;
  int64_t first_later, last_later; /* units before these begin, and end, `distance` later */
  int64_t distance;
  int64_t rows, longer; /* of a unit: distributed rows, and all rows */
} tvmrt_work_part;

/* Rows [first, last) of units of `rows` rows. */
static inline tvmrt_work_part tvmrt_work_part_between(tvmrt_work_cut begin, tvmrt_work_cut end,
                                                      int64_t first, int64_t last, int64_t rows) {
  const tvmrt_work_part share = {begin, end, first, last, 1, 0, 0, 0, rows, rows};
  return share;
}

/*! \brief Some of all units; the first and the last may be shared with other tasks. */
static inline tvmrt_work_part tvmrt_split_units(int64_t batch, int64_t n, int64_t block,
                                                int64_t rows, int64_t width, int task,
                                                int num_task) {
  return tvmrt_work_part_between(
      tvmrt_task_work_cut(batch, n, block, rows, width, task, num_task),
      tvmrt_task_work_cut(batch, n, block, rows, width, task + 1, num_task), 0, rows, rows);
}

/*! \brief Some rows of all units. */
static inline tvmrt_work_part tvmrt_split_rows(int64_t units, int64_t rows, int64_t width, int task,
                                               int num_task) {
  const tvmrt_work_cut begin = {0, 0}, end = {units, 0};
  return tvmrt_work_part_between(begin, end, tvmrt_task_begin(rows, width, task, num_task),
                                 tvmrt_task_begin(rows, width, task + 1, num_task), rows);
}

/*!
 * \brief Some rows of all units in equal parts, as if the rows of all units were concatenated. If a
 * cut falls inside rows that are computed together, some units have them before the cut, the others
 * after it.
 *
 * Example: 7 rows of 8 units: the first of two tasks has 3 rows of all, and the fourth of 4 units.
 */
static inline tvmrt_work_part tvmrt_split_rows_evenly(int64_t units, int64_t rows, int64_t width,
                                                      int task, int num_task) {
  const int64_t all = (rows + width - 1) / width * units;
  const int64_t begin = all * task / num_task, end = all * (task + 1) / num_task;
  const int64_t each = units > 0 ? units : 1;
  tvmrt_work_part share = tvmrt_split_rows(units, rows, width, 0, 1);
  const int64_t first = begin / each * width, last = end / each * width;
  share.first = first < rows ? first : rows;
  share.last = last < rows ? last : rows;
  share.first_later = begin % each;
  share.last_later = end % each;
  share.distance = width;
  return share;
}

/*!
 * \brief Some rows of all matrices of a batch, one matrix after the other, each of `units` units.
 * If a matrix extends over the boundary of two tasks, each has some rows of all its units.
 *
 * Example: 3 matrices of 197 rows in tiles of 14: the first of two tasks has the first matrix and
 * 98 rows of the second.
 */
static inline tvmrt_work_part tvmrt_split_batch(int64_t batch, int64_t units, int64_t rows,
                                                int64_t width, int task, int num_task) {
  tvmrt_work_part share = tvmrt_split_units(batch, 1, 1, rows, width, task, num_task);
  share.begin.unit *= units;
  share.end.unit *= units;
  share.together = units;
  return share;
}

/*! \brief Extend units to `longer` rows; the task of a unit's last rows adds them. */
static inline tvmrt_work_part tvmrt_extend_rows(tvmrt_work_part share, int64_t rows,
                                                int64_t longer) {
  if (share.first == rows) share.first = longer;
  if (share.last == rows) share.last = longer;
  share.longer = longer;
  return share;
}

/*! \brief End of the part's units. */
static inline int64_t tvmrt_work_part_end(const tvmrt_work_part* share) {
  return share->end.unit + (share->end.row > 0 ? share->together : 0);
}

/* A row bound of a unit that begins or ends later than others. */
static inline int64_t tvmrt_work_part_cut_row(const tvmrt_work_part* share, int64_t row) {
  return row + share->distance < share->rows ? row + share->distance : share->longer;
}

/*! \brief First row of the part in a unit. */
static inline int64_t tvmrt_work_first_row(const tvmrt_work_part* share, int64_t unit) {
  const int is_cut = share->begin.row > 0 && unit < share->begin.unit + share->together;
  if (is_cut) return share->begin.row;
  return unit < share->first_later ? tvmrt_work_part_cut_row(share, share->first) : share->first;
}

/*! \brief End of the part's rows in a unit. */
static inline int64_t tvmrt_work_end_row(const tvmrt_work_part* share, int64_t unit) {
  if (unit >= share->end.unit) return share->end.row;
  return unit < share->last_later ? tvmrt_work_part_cut_row(share, share->last) : share->last;
}

/*! \brief How many of `count` units from `unit` on have equal rows. */
static inline int64_t tvmrt_equal_units(const tvmrt_work_part* share, int64_t unit, int64_t count) {
  const int64_t first = share->first_later - unit, last = share->last_later - unit;
  if (first > 0 && first < count) count = first;
  return last > 0 && last < count ? last : count;
}

/*! \brief Whether the part is empty. */
static inline int tvmrt_work_part_is_empty(const tvmrt_work_part* share) {
  return (share->first == share->last && share->first_later >= share->last_later) ||
         share->begin.unit > share->end.unit ||
         (share->begin.unit == share->end.unit && share->begin.row >= share->end.row);
}

#endif /* TVM_RUNTIME_KERNELS_WORK_PARTITION_H_ */
