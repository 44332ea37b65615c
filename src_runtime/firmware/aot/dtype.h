/* Data types as text. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_

#include <dlpack/dlpack.h>

#include "../../../src_backend/compiler.h"

static inline int tvmrt__same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Whether elements share bytes, the first in the lowest bits: those of 2 and 4 bits, not bools. */
static inline int tvmrt__is_packed(DLDataType t) {
  return (uint8_t)(t.bits - 2) <= 2 && t.lanes == 1;
}

/* Bytes of elements that would need `bytes` without sharing. */
static inline size_t tvmrt__packed_bytes(DLDataType t, size_t bytes) {
  return tvmrt__is_packed(t) ? (size_t)(((uint64_t)bytes * t.bits + 7) / 8) : bytes;
}

/* The names that both runtimes know, their codes, and the bits of a text without a number. */
#define TVMRT_DTYPE_KINDS(X) \
  X("float", kDLFloat, 32)   \
  X("int", kDLInt, 32)       \
  X("uint", kDLUInt, 32)     \
  X("bfloat", kDLBfloat, 16) \
  X("bool", kDLUInt, 1)

/* Read a type from text up to `end` ('\0' or a quotation mark). Returns 1, or 0 if invalid. */
int tvmrt__read_dtype(const char* text, char end, DLDataType* out);

/* Read the rest of a type's name: bits, or else `missing`, lanes after an 'x', and `end`. A type
 * with 1 bit by default accepts no other number. Returns 1, or 0 if invalid; out->code is not
 * changed. */
int tvmrt__read_bits(const char* text, char end, unsigned missing, DLDataType* out);

/* A number up to 65535, or slightly more; `missing` if it has no digit. Returns the rest. */
const char* tvmrt__read_number(const char* text, unsigned missing, unsigned* out);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_ */
