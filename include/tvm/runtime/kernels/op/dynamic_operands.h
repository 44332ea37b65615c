/*!
 * \file dynamic_operands.h
 * \brief Dynamic operands: data-dependent indices, and values that must equal compiled ones.
 *
 * An invalid operand ends the run with an error before anything outside a tensor is read or
 * written.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_DYNAMIC_OPERANDS_H_
#define TVM_RUNTIME_KERNELS_OP_DYNAMIC_OPERANDS_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "index_bounds.h"

/* Gather a row of elements by indices along the last axis; outside: the whole row is the value. */
#define TVMRT_DEFINE_TAKE_ROW(BITS)                                                       \
  static inline void tvmrt_take_row_##BITS(const uint##BITS##_t* x, uint##BITS##_t value, \
                                           uint##BITS##_t* y, int64_t count,              \
                                           const int64_t* indices, int outside) {         \
    for (int64_t i = 0; i < count; ++i) {                                                 \
      y[i] = outside || indices[i] < 0 ? value : x[indices[i]];                           \
    }                                                                                     \
  }

TVMRT_DEFINE_TAKE_ROW(8)
TVMRT_DEFINE_TAKE_ROW(16)
TVMRT_DEFINE_TAKE_ROW(32)
TVMRT_DEFINE_TAKE_ROW(64)

/* Gather a row of elements of `bytes` bytes from x + from to y + to, in elements. */
static inline void tvmrt_take_row(const void* x, const void* value, void* y, size_t bytes,
                                  int64_t from, int64_t to, int64_t count, const int64_t* indices,
                                  int outside) {
#define TVMRT_TAKE_ROW(BITS)                                                               \
  tvmrt_take_row_##BITS((const uint##BITS##_t*)x + from,                                   \
                        value == NULL ? (uint##BITS##_t)0 : *(const uint##BITS##_t*)value, \
                        (uint##BITS##_t*)y + to, count, indices, outside)
  if (bytes == 1) {
    TVMRT_TAKE_ROW(8);
  } else if (bytes == 2) {
    TVMRT_TAKE_ROW(16);
  } else if (bytes == 4) {
    TVMRT_TAKE_ROW(32);
  } else {
    TVMRT_TAKE_ROW(64);
  }
#undef TVMRT_TAKE_ROW
}

/*!
 * \brief y[i, j, ...] = x[indices[0][i], indices[1][j], ...], or the value where an index is -1.
 * \param value One element, or NULL: then -1 is invalid.
 * \param bytes Bytes of an element: 1, 2, 4 or 8.
 * \param extents Of x, counts of y, both dense, by axis; there is at least one axis.
 * \param at Scratch for an integer per axis.
 * \param where Operator, node and operand, for the error text.
 * \return 0, or -1 with an error text if an index is out of range; nothing is written then.
 */
static inline int32_t tvmrt_take_at(const void* x, const void* value, void* y, size_t bytes,
                                    int rank, const int64_t* extents, const int64_t* counts,
                                    const int64_t* const* indices, int64_t* at, const char* where) {
  const int64_t least = value == NULL ? 0 : -1;
  const int last = rank - 1;
  int64_t rows = 1;
  for (int d = 0; d < rank; ++d) {
    for (int64_t i = 0; i < counts[d]; ++i) {
      if (indices[d][i] < least || indices[d][i] >= extents[d]) {
        return (int32_t)tvmrt_index_error(indices[d][i], extents[d], where);
      }
    }
    at[d] = 0;
    if (d < last) rows *= counts[d];
  }
  for (int64_t row = 0; row < rows; ++row) {
    int64_t from = 0;
    int outside = 0, d;
    for (d = 0; d < last; ++d) {
      const int64_t axis_index = indices[d][at[d]];
      outside |= axis_index < 0;
      from = (from + (axis_index < 0 ? 0 : axis_index)) * extents[d + 1];
    }
    tvmrt_take_row(x, value, y, bytes, from, row * counts[last], counts[last], indices[last],
                   outside);
    for (d = last - 1; d >= 0 && ++at[d] == counts[d]; --d) at[d] = 0;
  }
  return 0;
}

#define TVMRT_MAX_SHOWN 8 /* values of an operand in an error text */

/*!
 * \brief Compare run-time values with those for which the network was compiled.
 * \param given The operand of this run, for the error text, and the number of its values.
 * \param where Kind of the error, then operator, node and operand, for the error text.
 * \param text Description of the compiled values, for the error text.
 * \return 0, or -1 after setting the error text.
 */
static inline int32_t tvmrt_require(const int64_t* found, const int64_t* expected, int64_t count,
                                    const int64_t* given, int64_t num_given, const char* where,
                                    const char* text) {
  int64_t i = 0;
  while (i < count && found[i] == expected[i]) ++i;
  if (i == count) return 0;
#ifdef TVMRT_FREESTANDING
  (void)given;
  (void)num_given;
  (void)where;
  (void)text;
  return -1;
#else
  {
    char message[512];
    const char* const end = message + sizeof(message) - 1;
    char* p = message;
    p = tvmrt_index_put(p, end, where, strlen(where));
    p = tvmrt_index_put(p, end, ": the run has [", 15);
    for (i = 0; i < num_given && i < TVMRT_MAX_SHOWN; ++i) {
      if (i > 0) p = tvmrt_index_put(p, end, ", ", 2);
      p = tvmrt_index_put_number(p, end, given[i]);
    }
    if (num_given > TVMRT_MAX_SHOWN) p = tvmrt_index_put(p, end, ", ...", 5);
    p = tvmrt_index_put(p, end, "], the network was compiled for ", 32);
    p = tvmrt_index_put(p, end, text, strlen(text));
    *p = '\0';
    TVMAPISetLastError(message);
    return -1;
  }
#endif
}

#endif /* TVM_RUNTIME_KERNELS_OP_DYNAMIC_OPERANDS_H_ */
