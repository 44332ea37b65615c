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

/* An index that counts from the end if it is negative. */
static inline long ref_index(int64_t i, long n) {
  if (i < 0) i += n;
  ref_outside |= i < 0 || i >= n;
  return ref_outside ? 0 : (long)i;
}
