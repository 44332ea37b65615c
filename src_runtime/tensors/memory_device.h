/* The memory devices of this process. */
#ifndef TVMRT_SRC_RUNTIME_TENSORS_MEMORY_DEVICE_H_
#define TVMRT_SRC_RUNTIME_TENSORS_MEMORY_DEVICE_H_

#include <tvm/runtime/memory_device.h>

#include "../platform/compiler.h"

/* Alignment in bytes of memory from this runtime: code of every release may rely on it. */
#define TVMRT_ALLOC_ALIGN_BYTES 128

/* The functions of a device type; NULL, with the error text set, if this runtime has none. */
const tvmrt_memory_device* tvmrt__memory_device(int device_type);

/* Name of a device type: "cpu", "cuda" ...; "unknown" for others. */
const char* tvmrt__memory_device_name(int device_type);

#endif
