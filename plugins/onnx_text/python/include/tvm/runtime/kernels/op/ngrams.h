/*!
 * \file ngrams.h
 * \brief Count n-grams of integers in rows (TfIdfVectorizer).
 */
#ifndef TVM_RUNTIME_KERNELS_OP_NGRAMS_H_
#define TVM_RUNTIME_KERNELS_OP_NGRAMS_H_

#include <stdint.h>
#include <string.h>

/*! \brief Parameters of the n-grams. */
typedef struct tvmrt_ngrams {
  int32_t rows, length;  /*!< Sizes of the input. */
  int32_t min_n, max_n;  /*!< Minimum and maximum n. */
  int32_t skips;         /*!< Maximum skipped integers between two of an n-gram. */
  int32_t width;         /*!< Columns of the result. */
  const int32_t* counts; /*!< N-grams of 1, 2, ... max_n integers. */
} tvmrt_ngrams;

/* Compare n integers, step apart, with an n-gram: negative, 0 or positive. */
static inline int tvmrt_ngram_order(const int64_t* x, int64_t step, const int64_t* gram,
                                    int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    if (x[i * step] != gram[i]) return x[i * step] < gram[i] ? -1 : 1;
  }
  return 0;
}

/* Index of n integers among sorted n-grams; -1 if not found. */
static inline int32_t tvmrt_ngram_find(const int64_t* x, int64_t step, const int64_t* grams,
                                       int32_t count, int32_t n) {
  int32_t low = 0, high = count;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    const int order = tvmrt_ngram_order(x, step, grams + (int64_t)middle * n, n);
    if (order == 0) return middle;
    if (order < 0) high = middle;
    if (order > 0) low = middle + 1;
  }
  return -1;
}

/*!
 * \brief y[row][columns[gram]]: the number of occurrences of each n-gram in each row.
 * \param grams   [in] 1-grams, then 2-grams, ..., sorted.
 * \param columns [in] Of each n-gram.
 */
static inline void tvmrt_count_ngrams(const tvmrt_ngrams* of, const int64_t* x,
                                      const int64_t* grams, const int32_t* columns, float* y) {
  memset(y, 0, sizeof(float) * (size_t)of->rows * (size_t)of->width);
  for (int32_t row = 0; row < of->rows; row++, x += of->length, y += of->width) {
    const int64_t* candidate = grams;
    const int32_t* column = columns;
    for (int32_t n = 1; n <= of->max_n; n++) {
      const int32_t count = of->counts[n - 1];
      /* 1-grams have no gaps */
      for (int32_t step = 1; n >= of->min_n && step <= (n == 1 ? 1 : of->skips + 1); step++) {
        for (int32_t i = 0; i + (int64_t)(n - 1) * step < of->length; i++) {
          const int32_t found = tvmrt_ngram_find(x + i, step, candidate, count, n);
          if (found >= 0) y[column[found]] += 1.0f;
        }
      }
      candidate += (int64_t)count * n;
      column += count;
    }
  }
}

#endif /* TVM_RUNTIME_KERNELS_OP_NGRAMS_H_ */
