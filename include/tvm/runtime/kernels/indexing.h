/*!
 * \file indexing.h
 * \brief Checking indices that a network computes.
 *
 * An index counts from the end where it is negative. One outside its extent stops the run with an
 * error, so that no input of a network can reach memory outside a tensor.
 */
#ifndef TVM_RUNTIME_KERNELS_INDEXING_H_
#define TVM_RUNTIME_KERNELS_INDEXING_H_

#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>

#include "simd.h"

/*! \brief Writes a number in decimal at the end of [begin, end) and returns where it starts. */
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

/*! \brief Leaves "IndexError: index I is outside an extent of N" as the last error; returns -1. */
static inline int64_t tvmrt_index_error(int64_t index, int64_t extent) {
#ifdef TVMRT_FREESTANDING
  (void)index;
  (void)extent;
  return -1;
#else
  static const char before[] = "IndexError: index ", between[] = " is outside an extent of ";
  char text[sizeof(before) + sizeof(between) + 40];
  char digits[20];
  char* const end = digits + sizeof(digits);
  char* p = text;
  const char* number = tvmrt_index_digits(end, index);
  memcpy(p, before, sizeof(before) - 1);
  p += sizeof(before) - 1;
  memcpy(p, number, (size_t)(end - number));
  p += end - number;
  memcpy(p, between, sizeof(between) - 1);
  p += sizeof(between) - 1;
  number = tvmrt_index_digits(end, extent);
  memcpy(p, number, (size_t)(end - number));
  p[end - number] = '\0';
  TVMAPISetLastError(text);
  return -1;
#endif
}

/*! \brief The index counted from the front, or -1 after setting the error text. */
static inline int64_t tvmrt_index(int64_t index, int64_t extent) {
  const int64_t place = index < 0 ? index + extent : index;
  if (TVMRT_UNLIKELY((uint64_t)place >= (uint64_t)extent)) return tvmrt_index_error(index, extent);
  return place;
}

#endif /* TVM_RUNTIME_KERNELS_INDEXING_H_ */
