/*!
 * \file tvm/runtime/placement.h
 * \brief Memory placement of a network's tensors outside of the host's memory.
 *
 * A library with regions of devices that have their own memory exports the packed function
 * `get_placement`. It takes no argument and returns the address of a tvmrt_placement (type code
 * kTVMOpaqueHandle) that lives as long as the library. Fields are only added at the end;
 * `struct_bytes` determines the fields that exist.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_PLACEMENT_H_
#define TVM_RUNTIME_PLACEMENT_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*! \brief Device memory that a network uses; devices of type kDLCPU stand for the host's. */
typedef struct tvmrt_placement {
  size_t struct_bytes;
  /*! In the order of the network: the device whose memory may also hold an input, if only regions
   * of that device read it. */
  const DLDevice* inputs;
  int32_t num_inputs;
  const DLDevice* outputs; /*!< Likewise for outputs, if only such regions write and read them. */
  int32_t num_outputs;
  /*! Ahead-of-time compiled networks: the devices of the workspace pools in the metadata. The
   * caller of main allocates the pools there. */
  const DLDevice* pools;
  int32_t num_pools;
} tvmrt_placement;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_PLACEMENT_H_ */
