/* Placement of buffers in one workspace.
 *
 * Optimal placement is NP-hard, but networks are easy in practice: two orders are tried. One is
 * that of the addresses that the compiler found for typical sizes; with each buffer at the lowest
 * free offset, no address is above the compiler's at these sizes. The other is the order of
 * decreasing sizes, with each buffer in the smallest gap that fits. Which buffers are live together
 * does not depend on sizes and is determined once, so that a placement takes time in proportion to
 * the pairs of these. */
#include "run_plan.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"

/* Shell sort by `begin`: few ranges are sorted often, without the calls of qsort(). */
static void sort(tvmrt_range* ranges, int32_t count) {
  int32_t gap = 1;
  int32_t i;
  while (gap < count / 3) gap = 3 * gap + 1;
  for (; gap > 0; gap /= 3) {
    for (i = gap; i < count; ++i) {
      const tvmrt_range range = ranges[i];
      int32_t k = i;
      for (; k >= gap && range.begin < ranges[k - gap].begin; k -= gap) ranges[k] = ranges[k - gap];
      ranges[k] = range;
    }
  }
}

/* Visit the buffers that are live at a common step with each buffer; return their number, and store
 * their indices if there is memory for these. */
static size_t visit_neighbours(tvmrt_buffers* b) {
  const tvmrt_plan_buffer* items = b->items;
  size_t total = 0;
  int32_t i;
  int32_t j;
  for (i = 0; i < b->count; ++i) {
    for (j = 0; j < b->count; ++j) {
      if (i == j || items[i].first > items[j].last || items[j].first > items[i].last) continue;
      if (b->neighbours != NULL) b->neighbours[total] = j;
      ++total;
    }
    b->begins[i + 1] = total;
  }
  return total;
}

int tvmrt__buffers_init(tvmrt_buffers* b, const tvmrt_plan_buffer* items, int32_t count) {
  const size_t length = (size_t)count;
  b->items = items;
  b->count = count;
  b->ordered =
      tvmrt__calloc(length + 1, 2 * sizeof(*b->ordered) + sizeof(*b->trial) + sizeof(*b->begins));
  if (b->ordered == NULL) return -1;
  b->taken = b->ordered + length;
  b->trial = (int64_t*)(b->taken + length);
  b->begins = (size_t*)(b->trial + length);
  b->neighbours = tvmrt__calloc(visit_neighbours(b), sizeof(*b->neighbours));
  if (b->neighbours == NULL) return -1;
  (void)visit_neighbours(b);
  return 0;
}

void tvmrt__buffers_free(tvmrt_buffers* b) {
  free(b->neighbours);
  free(b->ordered);
}

/* The offset for `bytes` among sorted ranges in use: the first or the smallest gap that fits, else
 * after all. */
static int64_t find_gap(const tvmrt_range* taken, int32_t count, int64_t bytes, bool first) {
  int64_t cursor = 0;
  int64_t best = -1;
  int64_t best_gap = INT64_MAX;
  int32_t i;
  for (i = 0; i < count && !(first && best >= 0); ++i) {
    const int64_t gap = taken[i].begin - cursor;
    if (gap >= bytes && gap < best_gap) {
      best = cursor;
      best_gap = gap;
    }
    if (taken[i].end > cursor) cursor = taken[i].end;
  }
  return best < 0 ? cursor : best;
}

/* `order` has the indices of the buffers; NULL: the given order, at the lowest free offsets. */
static int64_t place_in_order(const tvmrt_buffers* b, const int64_t* bytes,
                              const tvmrt_range* order, int64_t* offsets) {
  int64_t top = 0;
  int32_t k;
  for (k = 0; k < b->count; ++k) offsets[k] = -1;
  for (k = 0; k < b->count; ++k) {
    const int32_t i = order == NULL ? k : (int32_t)order[k].end;
    int32_t count = 0;
    size_t n;
    for (n = b->begins[i]; n < b->begins[i + 1]; ++n) {
      const int32_t j = b->neighbours[n];
      if (offsets[j] < 0 || bytes[j] == 0) continue;
      b->taken[count].begin = offsets[j];
      b->taken[count++].end = offsets[j] + bytes[j];
    }
    sort(b->taken, count);
    offsets[i] = find_gap(b->taken, count, bytes[i], order == NULL);
    if (offsets[i] + bytes[i] > top) top = offsets[i] + bytes[i];
  }
  return top;
}

int64_t tvmrt__buffers_place(const tvmrt_buffers* b, const int64_t* bytes, int64_t* offsets) {
  const int64_t top = place_in_order(b, bytes, NULL, offsets);
  int64_t other;
  int32_t i;
  for (i = 0; i < b->count; ++i) {
    b->ordered[i].begin = i - bytes[i] * b->count; /* equal sizes in the given order */
    b->ordered[i].end = i;
  }
  sort(b->ordered, b->count);
  other = place_in_order(b, bytes, b->ordered, b->trial);
  if (other >= top) return top;
  memcpy(offsets, b->trial, (size_t)b->count * sizeof(*offsets));
  return other;
}
