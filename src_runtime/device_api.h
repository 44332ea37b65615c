/* What the runtime asks of a kind of device: memory, copies, streams. */
#ifndef TVMRT_SRC_RUNTIME_DEVICE_API_H_
#define TVMRT_SRC_RUNTIME_DEVICE_API_H_

#include <tvm/runtime/c_runtime_api.h>

#include "error.h"

/* All functions return 0, or -1 with the error text set. Slots marked optional may be NULL. */
typedef struct tvmrt_device_api {
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
} tvmrt_device_api;

/* The functions of a device type; NULL, with the error text set, if this runtime has none. */
const tvmrt_device_api* tvmrt__device_api(int device_type);

/* Name of a device type: "cpu", "cuda" ...; "device type <n>" for others, in a buffer given. */
const char* tvmrt__device_name(int device_type);

#endif
