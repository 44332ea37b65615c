/* Error texts of a device, and packed functions for the runtime and users. */
#ifndef TVMRT_DEVICES_OPENCL_REGISTRATION_H_
#define TVMRT_DEVICES_OPENCL_REGISTRATION_H_

#include <stdatomic.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/memory_device.h>

/* Sets the error text; returns -1. */
int device_fail(const char* format, ...);

/* Return -1 with the error text set if out of memory. */
int register_function(const char* name, TVMPackedCFunc function, void* resource);

/* Register "device_api.<name>", which allocates and copies tensors; `api` must be static. */
int register_memory_api(const char* name, const tvmrt_memory_device* api);

/* Bytes copied by runs of regions: to the device, from it, within it. */
typedef struct {
  _Atomic uint64_t to, from, within;
} moved_bytes;

/* Register a function that returns the three counters as text, separated by blanks. */
int register_moved_bytes(const char* name, moved_bytes* moved);

#endif
