/* Data types as text. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_

#include <dlpack/dlpack.h>

#include "../../src_backend/compiler.h"

static inline int tvmrt__same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Whether elements share bytes, the first in the lowest bits: those of 2 and 4 bits do, bools do not. */
static inline int tvmrt__is_packed(DLDataType t) {
  return (uint8_t)(t.bits - 2) <= 2 && t.lanes == 1;
}

/* Bytes of elements that would take so many if none shared one. */
static inline size_t tvmrt__packed_bytes(DLDataType t, size_t bytes) {
  return tvmrt__is_packed(t) ? (size_t)(((uint64_t)bytes * t.bits + 7) / 8) : bytes;
}

/* The names that both runtimes know, their codes, and their bits where a text has none. */
#define TVMRT_DTYPE_KINDS(X) \
  X("float", kDLFloat, 32)   \
  X("int", kDLInt, 32)       \
  X("uint", kDLUInt, 32)     \
  X("bfloat", kDLBfloat, 16) \
  X("bool", kDLUInt, 1)

/* Read a type from text up to `end` ('\0' or a quotation mark). Returns 1, or 0 if it is none. */
int tvmrt__read_dtype(const char* text, char end, DLDataType* out);

/* Read what follows a type's name: bits, or else `missing` of them, lanes after an 'x', and `end`. What
 * has one bit without a number has no more with one. Returns 1, or 0 if it is none; out->code is not
 * touched. */
int tvmrt__read_bits(const char* text, char end, unsigned missing, DLDataType* out);

/* A number of up to 65535, or a little more; `missing` if there is no digit. Returns what follows. */
const char* tvmrt__read_number(const char* text, unsigned missing, unsigned* out);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_ */
