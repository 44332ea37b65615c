/* Placement of buffers for the sizes of a run: buffers that are live together do not overlap, and
 * little more memory is used than is live at one step. */
#include <time.h>

#include "../../src_runtime/executors/run_plan.h"
#include "support.h"

enum { MOST = 400 };

static tvmrt_plan_buffer items[MOST];
static int64_t bytes[MOST];
static int64_t offsets[MOST];

/* Numbers that are the same on all systems. */
static uint32_t seed;
static uint32_t below(uint32_t end) {
  seed = seed * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)seed * end) >> 32);
}

static void set(int i, int first, int last, int64_t size) {
  items[i].bits = 32;
  items[i].first = first;
  items[i].last = last;
  bytes[i] = size;
}

static int64_t maximum_live(int count) {
  int64_t most = 0;
  for (int step = -1; step <= MOST; ++step) {
    int64_t live = 0;
    for (int i = 0; i < count; ++i) {
      if (items[i].first <= step && step <= items[i].last) live += bytes[i];
    }
    if (live > most) most = live;
  }
  return most;
}

static void assert_disjoint(int count, int64_t top) {
  for (int i = 0; i < count; ++i) {
    assert_true(offsets[i] >= 0 && offsets[i] % 64 == 0 && offsets[i] + bytes[i] <= top);
    for (int k = 0; k < i; ++k) {
      if (items[i].first > items[k].last || items[k].first > items[i].last) continue;
      assert_true(offsets[i] + bytes[i] <= offsets[k] || offsets[k] + bytes[k] <= offsets[i]);
    }
  }
}

/* Place the buffers, and return the bytes of all in percent of the maximum that is live. */
static double place(int count) {
  tvmrt_buffers buffers = {0};
  const int64_t live = maximum_live(count);
  int64_t top;
  assert_ok(tvmrt__buffers_init(&buffers, items, count));
  for (int repeat = 0; repeat < 2; ++repeat) {
    top = tvmrt__buffers_place(&buffers, bytes, offsets);
    assert_disjoint(count, top);
    assert_true(top >= live);
  }
  tvmrt__buffers_free(&buffers);
  return live == 0 ? 100 : 100.0 * (double)top / (double)live;
}

static void test_random_buffers_do_not_overlap(void** state) {
  (void)state;
  for (uint32_t run = 1; run < 150; ++run) {
    seed = run;
    const int count = (int)below(60);
    for (int i = 0; i < count; ++i) {
      const int first = (int)below(50) - 1;
      set(i, first, first + (int)below(below(2) ? 4 : 50), 64 * below(below(5) ? 1000 : 1));
    }
    (void)place(count);
  }
}

static void test_no_buffers_and_empty_buffers(void** state) {
  (void)state;
  assert_true(place(0) == 100);
  set(0, 0, 3, 0);
  set(1, 0, 3, 0);
  assert_true(place(2) == 100);
  set(2, 1, 2, 64);
  assert_true(place(3) == 100);
}

/* As in a network for pictures: each buffer is read by the next step, some by a later one, and sizes
 * change at some steps. */
static void make_chain(int count) {
  int64_t size = 64 * (1000 + below(4000));
  for (int i = 0; i < count; ++i) {
    if (below(6) == 0) size = 64 * (100 + below(5000));
    set(i, i, i + 1 + (below(8) == 0 ? (int)below(6) : 0), size);
  }
}

static void test_chains_need_little_more_than_is_live(void** state) {
  double sum = 0;
  (void)state;
  for (uint32_t run = 1; run <= 50; ++run) {
    seed = run;
    make_chain(200);
    const double percent = place(200);
    sum += percent;
    assert_true(percent <= 125);
  }
  print_message("chains use %.1f %% of the maximum that is live\n", sum / 50);
  assert_true(sum / 50 <= 105);
}

/* The order of the compiler is not optimal for all sizes. */
static void test_decreasing_sizes_are_tried(void** state) {
  (void)state;
  set(0, 0, 1, 64); /* first at 0, so that the next two have gaps around it */
  set(1, 2, 3, 128);
  set(2, 1, 2, 192);
  set(3, 3, 4, 192);
  assert_true(place(4) == 100);
}

/* Buffers at low addresses that do not overlap, in the order of these. Return their end. */
static int64_t scatter(int count) {
  int64_t end = 0;
  for (int i = 0; i < count; ++i) {
    int64_t address = 0;
    for (int k = 0; k < i; ++k) {
      const bool is_live = items[i].first <= items[k].last && items[k].first <= items[i].last;
      if (!is_live || address + bytes[i] <= offsets[k] || offsets[k] + bytes[k] <= address)
        continue;
      address = offsets[k] + bytes[k];
      k = -1; /* it may overlap one before */
    }
    offsets[i] = address;
    if (address + bytes[i] > end) end = address + bytes[i];
  }
  for (int i = 1; i < count; ++i) {
    for (int k = i; k > 0 && offsets[k] < offsets[k - 1]; --k) {
      const tvmrt_plan_buffer item = items[k];
      const int64_t size = bytes[k];
      const int64_t offset = offsets[k];
      items[k] = items[k - 1], bytes[k] = bytes[k - 1], offsets[k] = offsets[k - 1];
      items[k - 1] = item, bytes[k - 1] = size, offsets[k - 1] = offset;
    }
  }
  return end;
}

/* At the sizes of the compiler's plan, whose addresses give the order, a run needs no more memory
 * than that plan. */
static void test_no_more_memory_than_the_plan_of_the_compiler(void** state) {
  (void)state;
  for (uint32_t run = 1; run < 2000; ++run) {
    tvmrt_buffers buffers = {0};
    seed = run;
    const int count = 2 + (int)below(60);
    for (int i = 0; i < count; ++i) {
      const int first = (int)below(20);
      set(i, first, first + (int)below(6), 64 * (1 + below(60)));
    }
    const int64_t end = scatter(count);
    assert_ok(tvmrt__buffers_init(&buffers, items, count));
    assert_true(tvmrt__buffers_place(&buffers, bytes, offsets) <= end);
    tvmrt__buffers_free(&buffers);
  }
}

static double seconds_to_place(const tvmrt_buffers* buffers) {
  double best = 1;
  for (int repeat = 0; repeat < 20; ++repeat) {
    struct timespec begin;
    struct timespec end;
    assert_int_equal(timespec_get(&begin, TIME_UTC), TIME_UTC);
    (void)tvmrt__buffers_place(buffers, bytes, offsets);
    assert_int_equal(timespec_get(&end, TIME_UTC), TIME_UTC);
    const double seconds =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    if (seconds < best) best = seconds;
  }
  return best;
}

static void test_placement_is_fast(void** state) {
  double longest = 0;
  (void)state;
  for (uint32_t run = 1; run <= 20; ++run) {
    tvmrt_buffers buffers = {0};
    seed = run;
    make_chain(200);
    assert_ok(tvmrt__buffers_init(&buffers, items, 200));
    const double seconds = seconds_to_place(&buffers);
    if (seconds > longest) longest = seconds;
    tvmrt__buffers_free(&buffers);
  }
  print_message("200 buffers are placed in %.1f us\n", longest * 1e6);
  assert_true(longest < 1e-3); /* sanitizers and slow machines need more than the usual 20 us */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_buffers_do_not_overlap),
      cmocka_unit_test(test_no_buffers_and_empty_buffers),
      cmocka_unit_test(test_chains_need_little_more_than_is_live),
      cmocka_unit_test(test_decreasing_sizes_are_tried),
      cmocka_unit_test(test_no_more_memory_than_the_plan_of_the_compiler),
      cmocka_unit_test(test_placement_is_fast),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
