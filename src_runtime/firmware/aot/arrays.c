/* Firmware runtime: tensors of the board's allocator, one block each.
 *
 * Head, shape and data lie in one block, in this order, each part at an aligned address. Boards may
 * return blocks of any alignment, so the block has room to align its beginning, and its address is
 * kept to free it. */
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/platform.h>

#include "tensor_size.h"

typedef struct owned_array {
  TVMNDArray array; /* first, because handles are its address */
  void* block;      /* as returned by the board's allocator */
} owned_array;

/* *out is owned by the caller until TVMArrayFree(), NULL on failure. The data is not cleared. */
int TVMArrayAlloc(const tvm_index_t* shape, int ndim, int dtype_code, int dtype_bits,
                  int dtype_lanes, int device_type, int device_id, TVMArrayHandle* out) {
  DLTensor t;
  size_t head_bytes = TVMRT_GRAPH_ROUND_UP(sizeof(owned_array));
  size_t data_bytes;
  uint8_t* at;
  void* block;
  owned_array* owned;
  tvm_crt_error_t rc;
  int ok;
  int i;
  *out = NULL;
  t.data = NULL;
  t.strides = NULL;
  t.byte_offset = 0;
  t.device.device_type = (DLDeviceType)device_type;
  t.device.device_id = device_id;
  t.ndim = ndim;
  t.dtype.code = (uint8_t)dtype_code;
  t.dtype.bits = (uint8_t)dtype_bits;
  t.dtype.lanes = (uint16_t)dtype_lanes;
  t.shape = (int64_t*)(uintptr_t)shape;
  /* Uses the caller's shape, which is copied below, as it may lie on a stack. */
  data_bytes = tvmrt__graph_bytes(&t, &ok);
  if (!ok || ndim < 0 || ndim > MAX_ITEMS) return kTvmErrorFunctionCallInvalidArg;
  rc = TVMPlatformMemoryAllocate(head_bytes + TVMRT_GRAPH_ROUND_UP((size_t)ndim * sizeof(*shape)) +
                                     data_bytes + TVMRT_GRAPH_ALIGN_BYTES - 1,
                                 t.device, &block);
  if (rc != kTvmErrorNoError) return rc;
  /* the next aligned address */
  at = (uint8_t*)block + (-(uintptr_t)block & (TVMRT_GRAPH_ALIGN_BYTES - 1));
  owned = (owned_array*)(void*)at;
  t.shape = (int64_t*)(void*)(at + head_bytes);
  for (i = 0; i < ndim; ++i) t.shape[i] = shape[i];
  t.data = at + head_bytes + TVMRT_GRAPH_ROUND_UP((size_t)ndim * sizeof(*shape));
  owned->array.dl_tensor = t;
  owned->array.reference_count = 1;
  owned->block = block;
  *out = &owned->array.dl_tensor;
  return kTvmErrorNoError;
}

/* Only for tensors of TVMArrayAlloc(): others have no block. The board's stack allocator requires
 * the reverse order of allocation. */
int TVMArrayFree(TVMArrayHandle handle) {
  if (handle == NULL) return kTvmErrorNoError;
  return TVMPlatformMemoryFree(((owned_array*)(void*)handle)->block, handle->device);
}
