/* Firmware runtime: data types as text. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_

#include <dlpack/dlpack.h>

static inline int tvmrt__same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Read a type from text up to `end` ('\0' or a quotation mark). Returns 1, or 0 if it is none. */
int tvmrt__read_dtype(const char* text, char end, DLDataType* out);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_DTYPE_H_ */
