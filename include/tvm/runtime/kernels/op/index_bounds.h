/*!
 * \file index_bounds.h
 * \brief Bounds checks of indices that a network computes.
 *
 * A negative index counts from the end. An index outside its extent ends the run with an error, so
 * that no input of a network can reach memory outside a tensor.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_INDEX_BOUNDS_H_
#define TVM_RUNTIME_KERNELS_OP_INDEX_BOUNDS_H_

#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "../scalar/compiler.h"

/*! \brief Write an integer in decimal at the end of [begin, end) and return its start. */
static inline char* tvmrt_index_digits(char* end, int64_t number) {
  uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  char* p = end;
  do {
    *--p = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (number < 0) *--p = '-';
  return p;
}

/* Copy text to p, truncated at end, and return the end of the copy. */
static inline char* tvmrt_index_put(char* p, const char* end, const char* text, size_t length) {
  const size_t capacity = (size_t)(end - p);
  const size_t count = length < capacity ? length : capacity;
  memcpy(p, text, count);
  return p + count;
}

/* Write an integer in decimal at p, truncated at end, and return the end of the text. */
static inline char* tvmrt_index_put_number(char* p, const char* end, int64_t number) {
  char digits[20];
  char* const digits_end = digits + sizeof(digits);
  const char* const shown = tvmrt_index_digits(digits_end, number);
  return tvmrt_index_put(p, end, shown, (size_t)(digits_end - shown));
}

/*!
 * \brief Set the last error to "IndexError: WHERE: index I is outside an extent of N".
 * \param where Operator, node and operand.
 * \return -1
 */
static inline int64_t tvmrt_index_error(int64_t index, int64_t extent, const char* where) {
#ifdef TVMRT_FREESTANDING
  (void)index;
  (void)extent;
  (void)where;
  return -1;
#else
  char text[512];
  const char* const end = text + sizeof(text) - 1;
  char* p = text;
  p = tvmrt_index_put(p, end, "IndexError: ", 12);
  p = tvmrt_index_put(p, end, where, strlen(where));
  p = tvmrt_index_put(p, end, ": index ", 8);
  p = tvmrt_index_put_number(p, end, index);
  p = tvmrt_index_put(p, end, " is outside an extent of ", 25);
  p = tvmrt_index_put_number(p, end, extent);
  *p = '\0';
  TVMAPISetLastError(text);
  return -1;
#endif
}

/*! \brief Return the index counted from the front, or -1 after setting the error text. */
static inline int64_t tvmrt_index(int64_t index, int64_t extent, const char* where) {
  const int64_t offset_index = index < 0 ? index + extent : index;
  if (TVMRT_UNLIKELY((uint64_t)offset_index >= (uint64_t)extent)) {
    return tvmrt_index_error(index, extent, where);
  }
  return offset_index;
}

#endif /* TVM_RUNTIME_KERNELS_OP_INDEX_BOUNDS_H_ */
