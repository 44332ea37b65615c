/* Memory devices: what the runtime asks of the memory that tensors lie in. Accelerators, which compute
 * regions of networks, are devices of the room regions. */
#ifndef TVMRT_SRC_RUNTIME_TENSORS_MEMORY_DEVICE_H_
#define TVMRT_SRC_RUNTIME_TENSORS_MEMORY_DEVICE_H_

#include <tvm/runtime/c_runtime_api.h>

/* Alignment of memory that this runtime allocates: what code of every release may assume. */
#define TVMRT_ALLOC_ALIGN_BYTES 128

/* All functions return 0, or -1 with the error text set. Slots marked optional may be NULL. */
typedef struct tvmrt_memory_device {
  const char* name;
  int (*exists)(int device_id);
  int (*alloc)(DLDevice dev, size_t bytes, size_t align, void** out);
  int (*free)(DLDevice dev, void* ptr);
  /* One side may be host memory; addresses include offsets. Complete on return if stream is NULL. */
  int (*copy)(DLDevice from_dev, const void* from, DLDevice to_dev, void* to, size_t bytes,
              TVMStreamHandle stream);
  int (*stream_create)(DLDevice dev, TVMStreamHandle* out);                   /* optional */
  int (*stream_free)(DLDevice dev, TVMStreamHandle stream);                   /* optional */
  int (*stream_sync)(DLDevice dev, TVMStreamHandle stream);                   /* optional */
  int (*stream_wait)(DLDevice dev, TVMStreamHandle src, TVMStreamHandle dst); /* optional */
} tvmrt_memory_device;

/* The functions of a device type; NULL, with the error text set, if this runtime has none. */
const tvmrt_memory_device* tvmrt__memory_device(int device_type);

/* Name of a device type: "cpu", "cuda" ...; "unknown" for others. */
const char* tvmrt__memory_device_name(int device_type);

#endif
