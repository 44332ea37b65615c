/* Firmware runtime: what tensors take in memory, for all executors. Internal. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_TENSOR_BYTES_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_TENSOR_BYTES_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <tvm/runtime/crt/alignment.h>

#include "../../src_backend/compiler.h"

/* Most tensors, nodes or dimensions: counts fit into 15 bits. */
enum { MOST_ITEMS = 0x7fff };

/* Size of a tensor; 0 in *ok if it is larger than 2^31 - 1 bytes. */
size_t tvmrt__graph_bytes(const DLTensor* tensor, int* ok);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_TENSOR_BYTES_H_ */
