#include <math.h>

static int ref_outside; /* an index was outside of its tensor */

/* NaN if one of both is NaN. */
static inline double ref_max(double a, double b) { return a >= b || a != a ? a : b; }
static inline double ref_min(double a, double b) { return a <= b || a != a ? a : b; }

/* round(v) + zero with bounds, ties to even; NaN becomes the least integer. */
static inline int64_t ref_saturate(double v, int64_t zero, int64_t low, int64_t high) {
  if (!(v > (double)(low - zero))) return low;
  return v >= (double)(high - zero) ? high : (int64_t)nearbyint(v) + zero;
}

/* Places beyond an axis of n elements: the nearest, those of a repetition, those of a mirror. */
static inline long ref_clamp(long i, long n) { return i < 0 ? 0 : i < n ? i : n - 1; }
static inline long ref_wrap(long i, long n) { return (i % n + n) % n; }
static inline long ref_reflect(long i, long n) {
  const long place = ref_wrap(i, n > 1 ? 2 * (n - 1) : 1);
  return place < n ? place : 2 * (n - 1) - place;
}

/* An index that counts from the end if it is negative. */
static inline long ref_index(int64_t i, long n) {
  if (i < 0) i += n;
  ref_outside |= i < 0 || i >= n;
  return ref_outside ? 0 : (long)i;
}
