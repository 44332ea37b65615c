/* What a device tells: errors, and packed functions for the runtime and people. */
#ifndef TVMRT_DEVICES_OPENCL_TOLD_H_
#define TVMRT_DEVICES_OPENCL_TOLD_H_

#include <stdatomic.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/memory_device.h>

/* Sets the error text; returns -1. */
int device_fail(const char* format, ...);

/* All return -1 with the error text set if there is no memory. */
int told_register(const char* name, TVMPackedCFunc function, void* resource);

/* "device_api.<name>": how the runtime allocates and copies tensors; `api` stays where it is. */
int told_register_memory(const char* name, const tvmrt_memory_device* api);

/* Bytes that runs of regions have copied: to the device, from it, within it. */
typedef struct {
  _Atomic uint64_t to, from, within;
} moved_bytes;

/* A function that gives the three as text, with blanks between. */
int told_register_moved(const char* name, moved_bytes* moved);

#endif
