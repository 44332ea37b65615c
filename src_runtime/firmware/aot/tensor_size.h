/* Firmware runtime: the memory size of tensors, for all executors. Internal. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_TENSOR_SIZE_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_TENSOR_SIZE_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <tvm/runtime/crt/alignment.h>

#include "../../../src_backend/compiler.h"

/* Maximum number of tensors, nodes or dimensions: counts fit into 15 bits. */
enum { MAX_ITEMS = 0x7fff };

/* Size of a tensor in bytes; *ok is 0 if it exceeds 2^31 - 1. */
size_t tvmrt__graph_bytes(const DLTensor* tensor, int* ok);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_TENSOR_SIZE_H_ */
