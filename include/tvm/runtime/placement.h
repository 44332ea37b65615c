/*!
 * \file tvm/runtime/placement.h
 * \brief In which memory the tensors of a network lie, where that is not all the host's.
 *
 * A library whose network has regions of devices with memory of their own answers the packed function
 * `get_placement`, which takes no argument, by the address of a tvmrt_placement (type code
 * kTVMOpaqueHandle) that lives as long as the library. Fields are only added at the end;
 * `struct_bytes` tells how many there are.
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

/*! \brief Memory of devices that a network uses; a device of type kDLCPU stands for the host's. */
typedef struct tvmrt_placement {
  size_t struct_bytes;
  /*! In the order of the network: where an input may lie beside the host's memory, since regions of
   * one device alone read it. */
  const DLDevice* inputs;
  int32_t num_inputs;
  const DLDevice* outputs; /*!< The same of outputs, which such regions alone write and read. */
  int32_t num_outputs;
  /*! Of a network compiled ahead: where the pools lie that metadata lists as its workspaces, which
   * whoever calls main allocates there. */
  const DLDevice* pools;
  int32_t num_pools;
} tvmrt_placement;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_PLACEMENT_H_ */
