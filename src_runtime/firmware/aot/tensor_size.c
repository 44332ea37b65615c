/* Firmware runtime: the size of a tensor, for all executors; images without a graph link only
 * this. */
#include "tensor_size.h"

#include "dtype.h"

/* *ok and the result are 0 if an extent or a product exceeds 31 bits: below that nothing overflows
 * 64 bits. A tensor without elements has 0 bytes, and is valid. */
size_t tvmrt__graph_bytes(const DLTensor* tensor, int* ok) {
  uint32_t bits = (uint32_t)tensor->dtype.bits * tensor->dtype.lanes;
  uint64_t bytes = (bits + 7) / 8; /* packed elements are corrected below */
  int32_t i;
  *ok = 1;
  for (i = 0; i < tensor->ndim; ++i) {
    uint64_t extent = (uint64_t)tensor->shape[i]; /* huge if negative */
    bytes *= (uint32_t)extent;
    if (((extent | bytes) >> 31) != 0) *ok = 0;
    if (*ok == 0) return 0;
  }
  return tvmrt__packed_bytes(tensor->dtype, (size_t)bytes);
}
