"""Work partition of units and rows into tasks: complete, disjoint and equal."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#define TVMRT_FREESTANDING
#include <tvm/runtime/kernels/work_partition.h>

enum { MAX_ELEMENTS = 1 << 16 };
static unsigned char visits[MAX_ELEMENTS];

/* Columns times rows of a task; counts the visits of each element. */
static int64_t take(const tvmrt_work_part* share, int64_t n, int64_t block, int64_t rows) {
  const int64_t blocks = (n + block - 1) / block;
  int64_t area = 0;
  if (tvmrt_work_part_is_empty(share)) return 0;
  for (int64_t u = share->begin.unit; u < tvmrt_work_part_end(share); u++) {
    const int64_t left = n - u % blocks * block, columns = left < block ? left : block;
    for (int64_t r = tvmrt_work_first_row(share, u); r < tvmrt_work_end_row(share, u); r++) {
      visits[u * rows + r]++;
      area += columns;
    }
  }
  return area;
}

static int check(int64_t batch, int64_t n, int64_t block, int64_t rows, int64_t width, int tasks) {
  const int64_t units = batch * ((n + block - 1) / block);
  const int64_t slack = block * (width < rows ? width : rows);
  enum { UNITS, ROWS, BATCH, EVENLY };
  for (int kind = UNITS; kind <= EVENLY; kind++) {
    memset(visits, 0, (size_t)(units * rows));
    for (int task = 0; task < tasks; task++) {
      const tvmrt_work_part share =
          kind == BATCH    ? tvmrt_split_batch(batch, units / batch, rows, width, task, tasks)
          : kind == EVENLY ? tvmrt_split_rows_evenly(units, rows, width, task, tasks)
          : kind == ROWS   ? tvmrt_split_rows(units, rows, width, task, tasks)
                           : tvmrt_split_units(batch, n, block, rows, width, task, tasks);
      for (int64_t u = share.begin.unit; u + 2 < tvmrt_work_part_end(&share); u++) {
        const int64_t alike = tvmrt_equal_units(&share, u, 3);
        if (kind != EVENLY) break;
        for (int64_t i = u + 1; i < u + alike; i++) {
          if (tvmrt_work_first_row(&share, i) != tvmrt_work_first_row(&share, u)) return 4;
          if (tvmrt_work_end_row(&share, i) != tvmrt_work_end_row(&share, u)) return 5;
        }
      }
      const int64_t area = take(&share, n, block, rows), most = kind == BATCH ? n * width : slack;
      const int by_area = kind == EVENLY ? rows % width == 0 && n % block == 0 : kind != ROWS;
      if (by_area && area * tasks > batch * n * rows + most * tasks) return 1;
      if (share.begin.row % width != 0) return 2;
    }
    for (int64_t i = 0; i < units * rows; i++) {
      if (visits[i] != 1) return 3;
    }
  }
  return 0;
}

/* Two tasks, three matmuls of 197 rows in 7 blocks, tiles of 14 rows: the first task gets a matmul
   and 98 rows, the second 99 rows and a matmul. */
static int check_batch(void) {
  const tvmrt_work_part one = tvmrt_split_batch(3, 7, 197, 14, 0, 2);
  const tvmrt_work_part two = tvmrt_split_batch(3, 7, 197, 14, 1, 2);
  for (int u = 0; u < 14; u++) {
    if (tvmrt_work_first_row(&one, u) != 0) return 1;
    if (tvmrt_work_end_row(&one, u) != (u < 7 ? 197 : 98)) return 2;
  }
  for (int u = 7; u < 21; u++) {
    if (tvmrt_work_first_row(&two, u) != (u < 14 ? 98 : 0)) return 3;
    if (tvmrt_work_end_row(&two, u) != 197) return 4;
  }
  return one.begin.unit != 0 || tvmrt_work_part_end(&one) != 14 || two.begin.unit != 7 ||
         tvmrt_work_part_end(&two) != 21;
}

/* Two tasks, 7 rows of 8 units: the first gets 3 rows and 4 units of the fourth. Then 13 pixels
   of 2 units in tiles of 4, where the last tile has an extra pixel: the first task gets one tile of
   both units and a second one of unit 0. */
static int check_evenly(void) {
  const tvmrt_work_part one = tvmrt_split_rows_evenly(8, 7, 1, 0, 2);
  const tvmrt_work_part two = tvmrt_split_rows_evenly(8, 7, 1, 1, 2);
  const tvmrt_work_part first = tvmrt_extend_rows(tvmrt_split_rows_evenly(2, 12, 4, 0, 2), 12, 13);
  const tvmrt_work_part rest = tvmrt_extend_rows(tvmrt_split_rows_evenly(2, 12, 4, 1, 2), 12, 13);
  for (int u = 0; u < 8; u++) {
    if (tvmrt_work_first_row(&one, u) != 0 || tvmrt_work_end_row(&two, u) != 7) return 1;
    if (tvmrt_work_end_row(&one, u) != (u < 4 ? 4 : 3)) return 2;
    if (tvmrt_work_first_row(&two, u) != tvmrt_work_end_row(&one, u)) return 3;
  }
  for (int u = 0; u < 2; u++) {
    if (tvmrt_work_end_row(&first, u) != (u < 1 ? 8 : 4)) return 4;
    if (tvmrt_work_first_row(&rest, u) != tvmrt_work_end_row(&first, u)) return 5;
    if (tvmrt_work_end_row(&rest, u) != 13) return 6;
  }
  return tvmrt_equal_units(&one, 0, 8) != 4 || tvmrt_equal_units(&one, 4, 4) != 4;
}

/* One pixel of 240 channels, two tasks: one block each with blocks of 128, two and one with blocks
   of 80. */
static int check_pixel(void) {
  const tvmrt_work_part one = tvmrt_split_units(1, 240, 128, 1, 1, 0, 2);
  const tvmrt_work_part two = tvmrt_split_units(1, 240, 80, 1, 1, 0, 2);
  return tvmrt_work_part_is_empty(&one) || tvmrt_work_part_end(&one) != 1 ||
         tvmrt_work_part_end(&two) != 2;
}

int main(void) {
  if (check_batch() != 0 || check_pixel() != 0 || check_evenly() != 0) {
    puts("batch, pixel or evenly");
    return 1;
  }
  static const int64_t batches[] = {1, 3, 12}, columns[] = {1, 5, 64, 197, 960};
  static const int64_t blocks[] = {8, 48, 64}, rows[] = {1, 7, 49, 197}, widths[] = {1, 6, 14};
  for (int b = 0; b < 3; b++)
    for (int n = 0; n < 5; n++)
      for (int k = 0; k < 3; k++)
        for (int r = 0; r < 4; r++)
          for (int w = 0; w < 3; w++)
            for (int tasks = 1; tasks < 20; tasks += 1 + tasks / 3) {
              const int64_t units = batches[b] * ((columns[n] + blocks[k] - 1) / blocks[k]);
              if (units * rows[r] > MAX_ELEMENTS) continue;
              const int rc = check(batches[b], columns[n], blocks[k], rows[r], widths[w], tasks);
              if (rc == 0) continue;
              printf("%d: %d %d %d %d %d, %d tasks\n", rc, (int)batches[b], (int)columns[n],
                     (int)blocks[k], (int)rows[r], (int)widths[w], tasks);
              return 1;
            }
  return 0;
}
"""


def test_partition_covers_each_row_once_in_equal_parts(tmp_path):
    (tmp_path / "shares.c").write_text(PROGRAM)
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"]
    program = tmp_path / "shares"
    command = ["cc", *warnings, f"-I{ROOT / 'include'}", tmp_path / "shares.c", "-o", program]
    subprocess.run(command, check=True)
    ran = subprocess.run([program], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
